"""Wrong names in error messages, each with the nearest right one."""

from collections.abc import Iterable


def with_nearest(names: Iterable[str], known: Iterable[str]) -> str:
    """Wrong names in quotes, each with the nearest right one if there is a near one.

    Parameters
    ----------
    names : iterable of str
        The wrong names.
    known : iterable of str
        The right ones.

    Returns
    -------
    str
        Text for "Got ... instead".

    Examples
    --------
    >>> from skhash._validation.names import with_nearest
    >>> with_nearest(["tarl", "ITQ", "???"], ["talr", "itq"])
    "'tarl' (did you mean 'talr'?), 'ITQ' (did you mean 'itq'?), '???'"
    """
    from difflib import get_close_matches

    right = {name.lower(): name for name in known}
    parts = []
    for name in names:
        near = get_close_matches(name.lower(), right, n=1, cutoff=0.55)
        parts.append(f"{name!r} (did you mean {right[near[0]]!r}?)" if near else repr(name))
    return ", ".join(parts)
