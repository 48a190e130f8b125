"""skhash: learning to hash, in the manner of scikit-learn.

Hashers turn rows into short binary codes; exact tie-aware metrics say how well the
codes rank. ``import skhash`` is quick: torch and numba load at first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from skhash import hashers

if TYPE_CHECKING:
    from skhash.hashers import (
        AGHHasher,
        BREHasher,
        CGHashHasher,
        CIBHashHasher,
        DHNHasher,
        DPSHHasher,
        DTSHHasher,
        GreedyHashHasher,
        HashNetHasher,
        ITQCCAHasher,
        ITQHasher,
        KSHHasher,
        LSHHasher,
        MIHashHasher,
        NSHHasher,
        PCAHasher,
        SDHHasher,
        SpectralHasher,
        SphericalHasher,
        StructHashHasher,
        TALRHasher,
        TBHHasher,
    )

__version__ = "0.1.0.dev0"
_SUBMODULES = ("affinity", "callbacks", "codes", "datasets", "displays", "metrics", "persistence")
__all__ = [
    "AGHHasher",
    "BREHasher",
    "CGHashHasher",
    "CIBHashHasher",
    "DHNHasher",
    "DPSHHasher",
    "DTSHHasher",
    "GreedyHashHasher",
    "HashNetHasher",
    "ITQCCAHasher",
    "ITQHasher",
    "KSHHasher",
    "LSHHasher",
    "MIHashHasher",
    "NSHHasher",
    "PCAHasher",
    "SDHHasher",
    "SpectralHasher",
    "SphericalHasher",
    "StructHashHasher",
    "TALRHasher",
    "TBHHasher",
    "__version__",
]


def __getattr__(name):
    if name in hashers.__all__:
        return getattr(hashers, name)
    if name in _SUBMODULES:
        return import_module(f"skhash.{name}")
    raise AttributeError(f"module 'skhash' has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__, *_SUBMODULES]
