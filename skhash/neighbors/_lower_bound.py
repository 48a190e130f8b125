r"""A lower bound of a mean of values in [0, 1], by betting (Waudby-Smith, Ramdas, JRSS B 2024).

    K_t(m) = prod_{i<=t} [1 + lambda_i (x_i - m)]
    lambda_i = min(sqrt(2 ln(1 / alpha) / (n s^2_{i-1})), c / m),   c = 3/4

s^2 is a running variance, which starts at 1/4. If the mean is at most m, K_t(m) exceeds 1 / alpha at any t with a
probability of at most alpha (Ville). So the smallest m whose K_t(m) stays below is a lower bound with confidence
1 - alpha, for any distribution in [0, 1] and any n. A normal bound is too high here: where most recalls are 1 and few
are low, samples without the few have a high mean and a small variance.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import bisect

_LARGEST_BET = 0.75  # largest share of the capital that a value of 0 loses
_SMALLEST_MEAN = 1e-9


def lower_bound(values: npt.NDArray[np.float64], confidence: float) -> float:
    """Lower bound, in [0, 1], of the mean of a distribution, from independent draws of shape (n,) in random order."""
    threshold = -math.log1p(-confidence)
    n = len(values)
    count = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(values)) / (count + 1)
    variances = (0.25 + np.cumsum(np.square(values - means))) / (count + 1)
    bets = np.sqrt(2 * threshold / (n * np.concatenate([[0.25], variances[:-1]])))

    def excess(mean: float) -> float:
        """Logarithm of the largest capital over 1 / alpha, which falls with the mean."""
        growth = np.log1p(np.minimum(bets, _LARGEST_BET / mean) * (values - mean))
        return float(np.cumsum(growth).max()) - threshold

    return float(bisect(excess, _SMALLEST_MEAN, 1.0, xtol=1e-7)) if excess(_SMALLEST_MEAN) > 0 else 0.0
