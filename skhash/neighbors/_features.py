"""Number and names of the features of an index."""

from typing import Any

from sklearn.utils.validation import validate_data

from skhash._estimators import find_hasher
from skhash._validation.samples import is_dataset


def check_features(index: Any, X: Any, hasher: Any, *, reset: bool) -> None:
    """Check number and names of the features, or set them with `reset`."""
    shape = getattr(find_hasher(hasher), "input_shape_", None)  # of a deep hasher, which checks all samples
    if shape is None or not is_dataset(X):
        validate_data(index, X, reset=reset, skip_check_array=True)
    elif reset:  # scikit-learn would count the parts of a sample
        index.n_features_in_ = shape[0]
        vars(index).pop("feature_names_in_", None)


def n_columns(X: Any) -> int | None:
    """Number of columns of samples that are a matrix; None for others."""
    shape = tuple(getattr(X, "shape", ()))
    return int(shape[1]) if len(shape) == 2 else None
