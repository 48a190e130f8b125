"""Hashers of one linear map of Gaussian kernel values against anchor rows.

    phi(x) = [exp(-gamma |x - a_1|^2), ..., exp(-gamma |x - a_m|^2)] - mean over the training rows,

the anchors a_1 ... a_m drawn from the training rows.
"""

from numbers import Integral, Real

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.utils import check_random_state

from skhash._compat import Interval
from skhash.base import BaseHasher


class KernelHasher(BaseHasher):
    """A hasher whose activations are ``rbf_kernel(x, anchors_, gamma_) @ projection_ + intercept_``.

    A subclass learns in `_learn(features, targets, rng)`, from the centred kernel values of
    the training rows, a map of shape (n_anchors, nbits) and what is added to its values; the
    centring is part of `intercept_`. It has the parameters `n_anchors` and `gamma`, and where it
    solves for the map `ridge`, a penalty in mean variances of the kernel values (`ridged_cholesky`).

    Examples
    --------
    >>> from skhash import KSHHasher, SDHHasher
    >>> from skhash.hashers.shallow._kernel import KernelHasher
    >>> issubclass(KSHHasher, KernelHasher), issubclass(SDHHasher, KernelHasher)
    (True, True)
    """

    _supervised = True
    _parameter_constraints = BaseHasher._parameter_constraints | {
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "ridge": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def _fit(self, X, targets):
        rng = check_random_state(self.random_state)
        rows = X.astype(np.float64, copy=False)
        self.anchors_ = rows[draw_indices(len(rows), self.n_anchors, rng)]
        self.gamma_ = kernel_width(rows, self.anchors_) if self.gamma is None else float(self.gamma)
        features = rbf_kernel(rows, self.anchors_, self.gamma_)
        mean = features.mean(axis=0)
        features -= mean
        self.projection_, added = self._learn(features, targets, rng)
        self.intercept_ = added - mean @ self.projection_

    def _project(self, X):
        return rbf_kernel(X, self.anchors_, self.gamma_) @ self.projection_ + self.intercept_


def draw_indices(n, n_wanted, rng):
    """Draw rows without replacement.

    Parameters
    ----------
    n : int
        Number of rows.
    n_wanted : int
        How many to draw; all, if there are fewer.
    rng : numpy.random.RandomState
        Source of the draw.

    Returns
    -------
    ndarray of shape (min(n, n_wanted),), dtype int64
        Row numbers, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._kernel import draw_indices
    >>> draw_indices(3, 5, np.random.RandomState(0))
    array([0, 1, 2])
    """
    return np.sort(rng.choice(n, min(n_wanted, n), replace=False))


def kernel_width(X, anchors):
    """Choose gamma of exp(-gamma d^2): 2 over the mean squared distance of rows to anchors.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    anchors : ndarray of shape (n_anchors, n_features)
        Anchors.

    Returns
    -------
    float
        gamma > 0; 1 where all distances are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow._kernel import kernel_width
    >>> kernel_width(np.array([[0.0], [2.0]]), np.array([[0.0]]))
    1.0
    """
    mean = euclidean_distances(X, anchors, squared=True).mean()
    return float(2 / mean) if mean > 0 else 1.0
