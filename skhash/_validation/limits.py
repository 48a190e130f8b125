"""Limits of what is read from files, so that a small file cannot take all memory or all time."""

from typing import Any

import numpy as np

MAX_DEPTH = 32  # containers within each other


def check_nesting(value: Any, max_values: int) -> None:
    """Raise ValueError for too many values in lists, tuples and dicts, or for too deep nesting.

    A list that occurs twice counts twice, so that a small object that expands is refused.
    """
    n_values, level = 0, [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                below += container.keys()
                below += container.values()
            elif isinstance(container, list | tuple):
                below += container
            if n_values + len(below) > max_values:
                raise ValueError(f"holds more than {max_values:,} values.")
        n_values, level = n_values + len(below), [item for item in below if isinstance(item, list | tuple | dict)]
        if not level:
            return
    raise ValueError(f"has more than {MAX_DEPTH} values within each other.")


def check_generator(state: Any) -> None:
    """Raise ValueError for a state that no generator of numpy can have.

    numpy accepts some of these states, and then reads outside its memory or does not return.
    """
    if isinstance(state, dict) and isinstance(inner := state.get("state"), dict):
        if state.get("bit_generator") == "PCG64":
            is_valid = _is_pcg64(state, inner)
        else:
            names = ("bit_generator", "key", "pos", "has_gauss", "gauss")
            is_valid = _is_mersenne_twister(*[(state | inner).get(name) for name in names])
    else:
        is_valid = isinstance(state, tuple | list) and len(state) == 5 and _is_mersenne_twister(*state)
    if not is_valid:
        raise ValueError("has a random generator in a state that no generator can be in.")


def is_twister(words: Any, position: Any) -> bool:
    """Whether 624 words and the position of the next one can be the state of a Mersenne Twister.

    Zeros cannot: they stay zeros, and numpy would search for a normal number without end.
    """
    words = np.asarray(words)
    return (
        words.shape == (624,)
        and words.dtype.kind in "iu"
        and bool(words.min() >= 0)
        and bool(words.max() < 2**32)
        and bool(words[0] >> 31 or words[1:].any())  # the other bits of the first word are not read
        and type(position) is int
        and 0 <= position <= 624
    )


def _is_mersenne_twister(kind: Any, key: Any, position: Any, has_gauss: Any, gauss: Any) -> bool:
    return (
        kind == "MT19937"
        and is_twister(key, position)
        and type(has_gauss) is int
        and has_gauss in (0, 1)
        and isinstance(gauss, float)
        and bool(np.isfinite(gauss))
    )


def _is_pcg64(state: dict[str, Any], inner: dict[str, Any]) -> bool:
    numbers: list[Any] = [inner.get("state"), inner.get("inc"), state.get("has_uint32"), state.get("uinteger")]
    if not all(type(number) is int for number in numbers):
        return False
    word, increment, has_uint32, uinteger = numbers
    # an even increment gives a short period, or zeros forever
    return (
        0 <= word < 2**128
        and 0 <= increment < 2**128
        and increment % 2 == 1
        and has_uint32 in (0, 1)
        and 0 <= uinteger < 2**32
    )
