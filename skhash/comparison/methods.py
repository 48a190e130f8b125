"""Build hashers from the names of methods, and from estimators of your own."""

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from sklearn.base import clone

from skhash._validation import with_nearest
from skhash.base import BaseHasher
from skhash.persistence.identity import code_of, digest
from skhash.registry import (
    BASELINES,
    CONV,
    FOR_NEIGHBORS,
    GROUPS,
    HASHERS,
    PAPER,
    VARIANTS,
    Method,
    Variant,
    import_class,
    installed_methods,
    load_method,
)
from skhash.unwrap import find_hasher

#: what the registry says of a method that it does not have
_OWN = Variant(Method("own", "own.", style=-1, paper="", use_for=""))


def expand_methods(names: Iterable[str], task: str = "relevance") -> list[str]:
    """Names of methods, with groups replaced by their methods.

    Parameters
    ----------
    names : iterable of str
        Keys of `VARIANTS` and of `GROUPS`, and for neighbors of
        ``registry.FOR_NEIGHBORS``. No group has the networks of convolutions, such as "talr-conv", and the settings of
        papers, such as "talr-paper". Also classes of your own, as in
        :func:`make_hasher`, which are not imported here.
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
    unknown = [name for name in names if name not in (*VARIANTS, *FOR_NEIGHBORS, *GROUPS)]
    own = [name for name in unknown if names_own(name)]
    members = [method for method in suitable if not method.endswith((CONV, PAPER))]  # of groups
    suitable += own
    if unknown := [name for name in unknown if name not in own]:
        known = [*suitable, *installed_methods(), *GROUPS]
        raise ValueError(
            "`methods` must be module:Class, a dict of names and estimators, or names of methods or groups, which "
            f"`skhash methods` lists. Got {with_nearest(map(str, unknown), known)} instead."
        )
    needs = "need no labels" if task == "neighbors" else "be hashers, or the task must be 'neighbors'"
    if unsuitable := [name for name in names if name not in GROUPS and name not in suitable]:
        raise ValueError(f"`methods` must {needs} for the task {task!r}. Got {', '.join(unsuitable)} instead.")
    found: list[str] = []
    for name in names:
        found += [m for m in members if name in _groups_of(m)] if name in GROUPS else [name]
    return list(dict.fromkeys(found))


def names_own(name: Any) -> bool:
    """Whether a name is that of a class of the user: ``module:Class``, or an entry point of an installed package."""
    is_registered = name in (*VARIANTS, *FOR_NEIGHBORS, *GROUPS)
    return isinstance(name, str) and not is_registered and (":" in name or name in installed_methods())


def variant_of(method: Any) -> Variant:
    """Registered parameters and class of a method or a baseline; those of the user have none."""
    return VARIANTS[method] if method in VARIANTS else FOR_NEIGHBORS.get(method, _OWN)


def _suits(method: str, task: str) -> bool:
    if task != "neighbors":
        return method in VARIANTS
    return method in BASELINES or "unsupervised" in _groups_of(method)


def _groups_of(method: str) -> tuple[str, ...]:
    if method in BASELINES:
        return "all", "baselines"
    hasher = make_hasher(method, 8, 0, "auto")
    return (
        "all",
        "shallow" if getattr(hasher, "backbone", None) is None else "deep",
        "supervised" if hasher.__sklearn_tags__().target_tags.required else "unsupervised",
    )


def make_hasher(method: Any, nbits: int, seed: int, affinity: Any, **parameters: Any) -> Any:
    """Hasher of a method, not fitted.

    Parameters
    ----------
    method : str or estimator
        A key of `VARIANTS`. Or a method of your own: the name of its entry point in the group ``skhash.methods``,
        its class as ``"module:Class"``, or an estimator, which is cloned.
    nbits : int
        Number of bits.
    seed : int
        Its `random_state`.
    affinity : "auto" or callable
        Its affinity. Left out where an estimator of your own has one that is not "auto".
    **parameters
        Further parameters of the hasher.

    Returns
    -------
    BaseHasher or estimator
        The hasher. An estimator of your own gets these values where it has such parameters; a Pipeline, its last step.

    Raises
    ------
    ValueError
        If there is no such method, or it has no parameter `nbits`.

    Examples
    --------
    >>> from skhash import KSHHasher
    >>> from skhash.comparison import make_hasher
    >>> make_hasher("itq", 16, 0, "auto")
    ITQHasher(nbits=16, random_state=0, store_database=False)
    >>> make_hasher(KSHHasher(n_anchors=50), 16, 0, "auto")
    KSHHasher(n_anchors=50, nbits=16, random_state=0, store_database=False)
    """
    if not isinstance(method, str) or names_own(method):
        return _make_own(method, nbits, seed, affinity, parameters)
    if method in BASELINES or method not in (*VARIANTS, *FOR_NEIGHBORS):
        raise ValueError(
            "`method` must be module:Class, or one that `skhash methods` lists. "
            f"Got {with_nearest([str(method)], VARIANTS)} instead."
        )
    variant = variant_of(method)
    options = {"store_database": False} | dict(variant.parameters) | parameters
    hasher: BaseHasher = import_class(HASHERS[variant.method.class_name])(nbits, affinity=affinity, **options)
    return hasher.set_params(random_state=seed) if hasattr(hasher, "random_state") else hasher


def _make_own(method: Any, nbits: int, seed: int, affinity: Any, parameters: dict[str, Any]) -> Any:
    """Clone of an estimator of the user, or an instance of the class of a name, with the parameters of a comparison."""
    estimator = load_method(method)() if isinstance(method, str) else method
    name = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
    has_methods = all(hasattr(estimator, needed) for needed in ("fit", "transform", "get_params", "set_params"))
    if isinstance(estimator, type) or not has_methods:
        remedy = f"Pass {name}()." if isinstance(estimator, type) else "Derive it from skhash.base.BaseHasher."
        raise TypeError(
            "A method of your own must be an estimator with `fit`, `set_params`, and a `transform` that returns bits. "
            f"Got {'the class' if isinstance(estimator, type) else 'a'} {name} instead. {remedy}"
        )
    estimator = clone(estimator)
    hasher = find_hasher(estimator)
    known = hasher.get_params(deep=False) if hasattr(hasher, "get_params") else {}
    if "nbits" not in known:
        what = f"{name} that ends in {hasher!r}" if hasher is not estimator else name
        raise ValueError(
            f"A method of your own must have the parameter `nbits`, the number of its bits. Got a {what} without it."
        )
    given = {"nbits": nbits, "random_state": seed, "store_database": False}  # as the methods of skhash, to be as quick
    if isinstance(known.get("affinity"), str):  # "auto"; another one is what this method learns from
        given["affinity"] = affinity
    hasher.set_params(**{name: value for name, value in given.items() if name in known}, **parameters)
    return estimator


def source_of(estimator: Any) -> str:
    """Hash of the code and the parameters of an estimator of the user; where these cannot be told, one of its own.

    The code is that of the modules of its classes, and of all modules in the same folder of a package.
    """
    parts = [estimator, *(part for part in estimator.get_params().values() if hasattr(part, "get_params"))]
    kinds = {kind for part in parts for kind in type(part).__mro__}
    try:
        return digest([clone(estimator), code_of(kinds, packages=True)], "methods")
    except (TypeError, OSError):
        return uuid4().hex
