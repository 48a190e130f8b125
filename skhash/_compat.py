"""Private names of scikit-learn, imported in this one place."""

from typing import Any

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.utils import _param_validation
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads as openmp_n_threads
from sklearn.utils._param_validation import (
    HasMethods,
    InvalidParameterError,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils.validation import _num_samples as n_samples

__all__ = [
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "StrOptions",
    "fit_context",
    "n_samples",
    "openmp_n_threads",
    "validate_parameter_constraints",
]


class Interval(_param_validation.Interval):
    """Interval of numbers as the constraint of a parameter; True and False are not numbers."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value of a parameter is in the interval."""
        return not isinstance(val, bool | np.bool_) and bool(super().is_satisfied_by(val))
