"""The names that scikit-learn keeps private, imported in this one place."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._chunking import get_chunk_n_rows
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import _check_feature_names as check_feature_names

__all__ = ["Interval", "InvalidParameterError", "StrOptions", "check_feature_names", "fit_context", "get_chunk_n_rows"]
