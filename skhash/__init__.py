"""skhash: learning to hash, in the style of scikit-learn.

Hashers turn samples into short binary codes; exact tie-aware metrics tell how well the
codes rank. ``import skhash`` is quick: torch, numba and cvxpy are imported at first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skhash.registry import HASHERS, import_class

if TYPE_CHECKING:  # type checkers read imports, not the registry
    from skhash.hashers import *  # noqa: F403
    from skhash.vectors.embedding import EmbeddingHasher as EmbeddingHasher

__version__ = "0.1.0.dev0"
_SUBMODULES = (
    "affinity",
    "callbacks",
    "codes",
    "comparison",
    "datasets",
    "displays",
    "exceptions",
    "features",
    "hashers",
    "metrics",
    "neighbors",
    "persistence",
    "registry",
    "testing",
    "vectors",
)
__all__ = [*HASHERS, "__version__"]


def __getattr__(name: str) -> Any:
    if name in HASHERS:
        return import_class(HASHERS[name])
    if name in _SUBMODULES:
        return import_module(f"skhash.{name}")
    raise AttributeError(f"module 'skhash' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__, *_SUBMODULES]
