"""Options with a few allowed values, such as the metric of vectors."""

from collections.abc import Sequence
from typing import Literal, get_args

VectorMetric = Literal["euclidean", "cosine", "inner"]
VECTOR_METRICS: tuple[VectorMetric, ...] = get_args(VectorMetric)


def check_option(name: str, value: object, allowed: Sequence[str | None]) -> None:
    """Raise ValueError unless the option `name` has one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, allowed))}. Got {value!r} instead.")
