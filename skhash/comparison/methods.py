"""Build hashers from the names of methods."""

from collections.abc import Iterable
from typing import Any

from skhash import hashers
from skhash._validation.names import with_nearest
from skhash.base import BaseHasher
from skhash.registry import GROUPS, VARIANTS

#: methods and their variants, by their names on the command line
METHODS = VARIANTS


def expand_methods(names: Iterable[str]) -> list[str]:
    """Names of methods, with groups replaced by their methods.

    Parameters
    ----------
    names : iterable of str
        Keys of `METHODS` and of `GROUPS`.

    Returns
    -------
    list of str
        Keys of `METHODS`, each once.

    Raises
    ------
    ValueError
        If names are unknown. The message names all of them.

    Examples
    --------
    >>> from skhash.comparison import METHODS, expand_methods
    >>> expand_methods(["lsh", "all"])[:2], len(expand_methods(["all"])) == len(METHODS)
    (['lsh', 'talr'], True)
    """
    names = list(names) if isinstance(names, Iterable) else [names]
    if unknown := [name for name in names if name not in METHODS and name not in GROUPS]:
        raise ValueError(
            "`methods` must be names of methods or groups, which `skhash methods` lists. "
            f"Got {with_nearest(map(str, unknown), [*METHODS, *GROUPS])} instead."
        )
    found: list[str] = []
    for name in names:
        found += [name] if name in METHODS else [m for m in METHODS if name == "all" or name in _groups_of(m)]
    return list(dict.fromkeys(found))


def _groups_of(method: str) -> tuple[str, str]:
    hasher = make_hasher(method, 8, 0, "auto")
    return (
        "shallow" if getattr(hasher, "backbone", None) is None else "deep",
        "supervised" if hasher.__sklearn_tags__().target_tags.required else "unsupervised",
    )


def make_hasher(method: str, nbits: int, seed: int, affinity: Any, **parameters: Any) -> BaseHasher:
    """Hasher of a method, not fitted.

    Parameters
    ----------
    method : str
        A key of `METHODS`.
    nbits : int
        Number of bits.
    seed : int
        Its `random_state`.
    affinity : "auto" or callable
        Its affinity.
    **parameters
        Further parameters of the hasher.

    Returns
    -------
    BaseHasher
        The hasher.

    Raises
    ------
    ValueError
        If there is no such method.

    Examples
    --------
    >>> from skhash.comparison import make_hasher
    >>> make_hasher("itq", 16, 0, "auto")
    ITQHasher(nbits=16, random_state=0, store_database=False)
    """
    if method not in METHODS:
        raise ValueError(
            f"`method` must be a method of `skhash methods`. Got {with_nearest([method], METHODS)} instead."
        )
    variant = METHODS[method]
    options = {"store_database": False} | dict(variant.parameters) | parameters
    hasher: BaseHasher = getattr(hashers, variant.method.class_name)(nbits, affinity=affinity, **options)
    return hasher.set_params(random_state=seed) if hasattr(hasher, "random_state") else hasher
