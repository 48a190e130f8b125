"""The values of samples: the range in which every hasher computes, and features that are far from 0."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._validation.numeric import sum_of_squares

#: largest value, and smallest range of the training samples: float32 holds both, and float64 their fourth powers
MAX_VALUE, MIN_RANGE = 1e30, 1e-30
#: between these, sums of squares fit into float32
MAX_FLOAT32, MIN_FLOAT32 = 1e15, 1e-15
#: features whose mean is this many scales from 0 are shifted before they are multiplied or rounded
FAR = 1024.0


def check_values(X: Any, *, fit: bool = False) -> Any:
    """Samples with values up to 1e30; for `fit` with a range of at least 1e-30, and in float64 if squares need it."""
    remedy = "Multiply all samples by one number, such as 1 / numpy.abs(X_train).max()."
    values = getattr(X, "data", X) if hasattr(X, "tocsr") else X
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.size == 0:
        return X
    if not fit and are_within(values):
        return X
    lowest, highest = values.min(axis=0), values.max(axis=0)
    largest = max(float(highest.max()), -float(lowest.min()))
    if largest > MAX_VALUE:
        extreme = largest if highest.max() == largest else -largest
        raise ValueError(
            f"`X` must have values between {-MAX_VALUE:g} and {MAX_VALUE:g}. Got {extreme:g} instead. {remedy}"
        )
    if not fit:
        return X
    extent = float((highest - lowest).max()) if values is X else largest
    if 0 < extent < MIN_RANGE:
        raise ValueError(
            f"`X` must have a feature whose values differ by {MIN_RANGE:g} or more. Got differences of at most "
            f"{extent:g} instead. {remedy}"
        )
    if values.dtype == np.float32 and (largest > MAX_FLOAT32 or 0 < extent < MIN_FLOAT32):
        return X.astype(np.float64)
    return X


def are_within(values: Any) -> bool:
    """Whether values are contiguous floats, finite and in range, from one fast pass."""
    total = sum_of_squares(values)
    return total is not None and total <= MAX_VALUE**2


def check_activations(activations: npt.NDArray[Any], hasher: Any) -> npt.NDArray[Any]:
    """Activations of shape (n_samples, nbits), if all are finite; ValueError otherwise."""
    total = sum_of_squares(activations)
    if total is not None and np.isfinite(total):
        return activations
    finite = np.isfinite(activations).all(axis=1)
    if not finite.all():
        lower = " with a lower `learning_rate`" if hasattr(hasher, "learning_rate") else ""
        raise ValueError(
            f"`X` must have finite activations. Got NaN or infinity for {(~finite).sum()} of {len(finite)} samples "
            f"instead. Look for extreme values in X, or fit again{lower}."
        )
    return activations


def far_offset(mean: npt.NDArray[Any], scale: float) -> npt.NDArray[np.float64] | None:
    """What to subtract from features that are far from 0 so that float32 keeps their digits; None if no feature is.

    It has shape (n_features,), with the means of the far features and 0 for the others. Whole numbers minus the offset
    are exact.
    """
    is_far = np.abs(mean) > FAR * scale
    return np.where(is_far, mean, 0.0).astype(np.float32).astype(np.float64) if is_far.any() else None
