"""Build hashers from the names of methods."""

from collections.abc import Iterable
from typing import Any

from skhash import hashers
from skhash._validation import with_nearest, with_python_ints
from skhash.base import BaseHasher
from skhash.registry import BASELINES, CONV, FOR_NEIGHBORS, GROUPS, PAPER, VARIANTS, Variant


def expand_methods(names: Iterable[str], task: str = "relevance") -> list[str]:
    """Names of methods, with groups replaced by their methods.

    Parameters
    ----------
    names : iterable of str
        Keys of `VARIANTS` and of `GROUPS`, and for neighbors of
        ``registry.FOR_NEIGHBORS``. No group has the networks of convolutions, such as "talr-conv", and the settings of
        papers, such as "talr-paper".
    task : "relevance" or "neighbors", default="relevance"
        What is compared. Neighbors are kept without labels: groups leave out methods that need y.

    Returns
    -------
    list of str
        Names of methods, each once.

    Raises
    ------
    ValueError
        If names are unknown, or do not suit the task. The message names all of them.

    Examples
    --------
    >>> from skhash.comparison import expand_methods
    >>> expand_methods(["lsh", "all"])[:2], "talr-paper" in expand_methods(["all"])
    (['lsh', 'talr'], False)
    """
    names = list(names) if isinstance(names, Iterable) else [names]
    suitable = [name for name in (*VARIANTS, *FOR_NEIGHBORS) if _suits(name, task)]
    if unknown := [name for name in names if name not in (*VARIANTS, *FOR_NEIGHBORS, *GROUPS)]:
        raise ValueError(
            "`methods` must be names of methods or groups, which `skhash methods` lists. "
            f"Got {with_nearest(map(str, unknown), [*suitable, *GROUPS])} instead."
        )
    needs = "need no labels" if task == "neighbors" else "be hashers, or the task must be 'neighbors'"
    if unsuitable := [name for name in names if name not in GROUPS and name not in suitable]:
        raise ValueError(f"`methods` must {needs} for the task {task!r}. Got {', '.join(unsuitable)} instead.")
    found: list[str] = []
    members = [method for method in suitable if not method.endswith((CONV, PAPER))]
    for name in names:
        found += [m for m in members if name in ("all", *_groups_of(m))] if name in GROUPS else [name]
    return list(dict.fromkeys(found))


def variant_of(method: str) -> Variant:
    """Registered parameters and class of a method or a baseline."""
    return VARIANTS[method] if method in VARIANTS else FOR_NEIGHBORS[method]


def _suits(method: str, task: str) -> bool:
    if task != "neighbors":
        return method in VARIANTS
    return method in BASELINES or "unsupervised" in _groups_of(method)


def _groups_of(method: str) -> tuple[str, ...]:
    if method in BASELINES:
        return ("baselines",)
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
        A key of `VARIANTS`.
    nbits : int
        Number of bits.
    seed : int
        Its `random_state`.
    affinity : "auto" or callable
        Its affinity. Left out where a method learns from samples alone, and would learn from labels with it.
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
    if method in BASELINES or method not in (*VARIANTS, *FOR_NEIGHBORS):
        raise ValueError(
            f"`method` must be one that `skhash methods` lists. Got {with_nearest([str(method)], VARIANTS)} instead."
        )
    variant = variant_of(method)
    options = {"store_database": False} | dict(variant.parameters) | parameters
    hasher: BaseHasher = getattr(hashers, variant.method.class_name)(
        with_python_ints(nbits), affinity=affinity, **options
    )
    if variant.method.learns_from == "samples" and hasher._supervised:  # with an affinity it learns from labels
        hasher.set_params(affinity=None)
    return hasher.set_params(random_state=with_python_ints(seed)) if hasattr(hasher, "random_state") else hasher
