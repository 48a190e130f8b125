"""Samples that need no validation by scikit-learn, which takes most of the time to hash one sample."""

from typing import Any

import numpy as np

from skhash._validation.values import are_within


def is_plain(X: Any, hasher: Any) -> bool:
    """Whether scikit-learn's validation would return samples as they are, without a warning.

    Parameters
    ----------
    X : object
        Samples.
    hasher : BaseHasher
        The hasher, which need not be fitted.

    Returns
    -------
    bool
        True for a contiguous array of the right shape, with finite floats in range, if the features have no names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash._validation.plain import is_plain
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = ITQHasher(16, random_state=0).fit(X)
    >>> [is_plain(Z, hasher) for Z in (X[:1], X[:1, 1:], X[:0], X[:1].astype(int))]
    [True, False, False, False]
    """
    fitted = vars(hasher)
    n_features = fitted.get("n_features_in_")
    return (
        type(X) is np.ndarray
        and X.shape[1:] == (n_features,) == fitted.get("input_shape_", (n_features,))
        and X.shape[0] > 0
        and X.dtype in hasher._dtypes
        and "feature_names_in_" not in fitted
        and are_within(X)
    )
