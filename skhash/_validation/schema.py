"""Annotations of fitted attributes with which the content of a file is checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np

#: mark of an attribute that not every fit sets
OPTIONAL = "optional"


@dataclass(frozen=True)
class Array:
    """Annotation of the shape and the values of a fitted array.

    The lengths in `shape` are numbers or names, which stand for the same length in all arrays of a hasher; "..." stands
    for any further axes. `kinds` are kinds of dtype. With `below`, all values are indices below that length. Floats
    must be finite.
    """

    shape: str
    kinds: str = "f"
    minimum: float | None = None
    below: str | None = None

    def check(self, name: str, value: Any, lengths: dict[str, int]) -> None:
        """Raise ValueError if a value is not such an array; new lengths are added to `lengths`."""
        if type(value) is not np.ndarray or value.dtype.kind not in self.kinds:
            kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
            raise ValueError(f"`{name}` must be an array of dtype kind {' or '.join(self.kinds)}. Got {kind} instead.")
        names = self.shape.split()
        is_open = names[-1:] == ["..."]
        names = names[:-1] if is_open else names
        if not (value.ndim >= len(names) if is_open else value.ndim == len(names)) or any(
            length != (int(axis) if axis.isdecimal() else lengths.setdefault(axis, length))
            for axis, length in zip(names, value.shape, strict=False)
        ):
            known = {axis: lengths[axis] for axis in names if axis in lengths}
            raise ValueError(f"`{name}` must have shape ({self.shape}) with {known}. Got {value.shape} instead.")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"`{name}` must be finite. Got NaN or infinity.")
        smallest = 0 if self.below else self.minimum
        if smallest is not None and value.size and value.min() < smallest:
            raise ValueError(f"`{name}` must be at least {smallest}. Got {value.min()} instead.")
        if self.below and value.size and value.max() >= lengths[self.below]:
            raise ValueError(f"`{name}` must be below {lengths[self.below]}. Got {value.max()} instead.")
