"""Some samples in place of all, for what is measured or checked on a few."""

import numpy as np
import numpy.typing as npt


def evenly_spaced(n_samples: int, n_max: int) -> npt.NDArray[np.int64]:
    """Indices that are evenly spaced from the first sample to the last.

    Parameters
    ----------
    n_samples : int
        Number of samples; >= 1.
    n_max : int
        Largest number of indices.

    Returns
    -------
    ndarray of int64
        Indices in ascending order.

    Examples
    --------
    >>> from skhash.engine import evenly_spaced
    >>> evenly_spaced(10, 3), evenly_spaced(2, 3)
    (array([0, 4, 9]), array([0, 1]))
    """
    return np.unique(np.linspace(0, n_samples - 1, n_max).astype(np.int64))
