"""Samples that need no validation by scikit-learn: it takes most of the time for one (`benchmarks/one_sample.py`)."""

from typing import Any

import numpy as np

from skhash._validation.values import are_within


def is_plain(X: Any, hasher: Any) -> bool:
    """Whether scikit-learn's validation would return X, a contiguous array of finite floats, without a warning."""
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
