"""Wrong names in error messages, each with the nearest right one."""

from collections.abc import Iterable


def with_nearest(names: Iterable[str], known: Iterable[str]) -> str:
    """Text that quotes wrong names, each with the most similar right one if there is one."""
    from difflib import get_close_matches

    right = {name.lower(): name for name in known}
    parts = []
    for name in names:
        near = get_close_matches(name.lower(), right, n=1, cutoff=0.55)
        parts.append(f"{name!r} (did you mean {right[near[0]]!r}?)" if near else repr(name))
    return ", ".join(parts)
