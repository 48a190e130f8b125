"""Options with a few allowed values, such as the metric of vectors."""

from collections.abc import Sequence
from typing import Literal, get_args

VectorMetric = Literal["euclidean", "cosine", "inner"]
VECTOR_METRICS: tuple[VectorMetric, ...] = get_args(VectorMetric)


def check_option(name: str, value: object, allowed: Sequence[str | None]) -> None:
    """Raise ValueError unless an option has one of the allowed values.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        Its value.
    allowed : sequence of str or None
        The allowed values.

    Raises
    ------
    ValueError
        For any other value.

    Examples
    --------
    >>> from skhash._validation.options import VECTOR_METRICS, check_option
    >>> check_option("metric", "cosine", VECTOR_METRICS)
    >>> check_option("metric", "l1", VECTOR_METRICS)
    Traceback (most recent call last):
    ...
    ValueError: `metric` must be one of 'euclidean', 'cosine', 'inner'. Got 'l1' instead.
    """
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, allowed))}. Got {value!r} instead.")
