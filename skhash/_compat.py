"""Private names of scikit-learn, imported in this one place."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._chunking import get_chunk_n_rows
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads as openmp_n_threads
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

__all__ = ["HasMethods", "Interval", "StrOptions", "fit_context", "get_chunk_n_rows", "openmp_n_threads"]
