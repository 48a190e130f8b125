"""Names of scikit-learn and Python that are private, or that older versions lack or define otherwise."""

import sys
from functools import cached_property as cached_property  # noqa: TID251
from functools import wraps
from typing import TYPE_CHECKING, Any

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

if not TYPE_CHECKING and sys.version_info < (3, 12):

    class cached_property(cached_property):  # noqa: N801
        """That of Python 3.12, without a lock for all instances: a forked process would wait for other threads."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """Compute the value, and keep it in the instance."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ModuleNotFoundError:  # before 1.9 estimators have no `set_callbacks`, and a fit calls nothing

    class _NoCallbacks:
        """A task of a fit without callbacks."""

        def subcontext(self, **_: Any) -> "_NoCallbacks":
            return self

        def call_on_fit_task_begin(self, **_: Any) -> None:
            pass

        def call_on_fit_task_end(self, **_: Any) -> bool:
            return False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An estimator without callbacks."""

        _callback_fit_ctx = _NoCallbacks()

        def _init_callback_context(self, **_: Any) -> _NoCallbacks:
            return self._callback_fit_ctx

    def with_callbacks(fit: Any) -> Any:
        """The method `fit`, called through a function as in 1.9: warnings of a fit name the line of its caller."""

        @wraps(fit)
        def call(*args: Any, **kwargs: Any) -> Any:
            return fit(*args, **kwargs)

        return call


__all__ = [
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "StrOptions",
    "fit_context",
    "n_samples",
    "openmp_n_threads",
    "validate_parameter_constraints",
    "with_callbacks",
]


class Interval(_param_validation.Interval):
    """Interval of numbers as the constraint of a parameter; True and False are not numbers."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value of a parameter is in the interval."""
        return not isinstance(val, bool | np.bool_) and bool(super().is_satisfied_by(val))
