"""The hashers, in families: deep, shallow, and StructHash. Each is imported at first use, torch with it."""

from typing import TYPE_CHECKING, Any

from skhash.registry import HASHERS, import_class

if TYPE_CHECKING:  # type checkers read imports, not the registry; a test compares the two
    from skhash.hashers.deep.bihalf import BiHalfHasher as BiHalfHasher
    from skhash.hashers.deep.cibhash import CIBHashHasher as CIBHashHasher
    from skhash.hashers.deep.csq import CSQHasher as CSQHasher
    from skhash.hashers.deep.dhn import DHNHasher as DHNHasher
    from skhash.hashers.deep.dpsh import DPSHHasher as DPSHHasher
    from skhash.hashers.deep.dtsh import DTSHHasher as DTSHHasher
    from skhash.hashers.deep.greedyhash import GreedyHashHasher as GreedyHashHasher
    from skhash.hashers.deep.greedyhash_unsupervised import (
        UnsupervisedGreedyHashHasher as UnsupervisedGreedyHashHasher,
    )
    from skhash.hashers.deep.hashnet import HashNetHasher as HashNetHasher
    from skhash.hashers.deep.mihash import MIHashHasher as MIHashHasher
    from skhash.hashers.deep.nsh import NSHHasher as NSHHasher
    from skhash.hashers.deep.orthohash import OrthoHashHasher as OrthoHashHasher
    from skhash.hashers.deep.talr import TALRHasher as TALRHasher
    from skhash.hashers.deep.tbh import TBHHasher as TBHHasher
    from skhash.hashers.shallow.agh import AGHHasher as AGHHasher
    from skhash.hashers.shallow.bre import BREHasher as BREHasher
    from skhash.hashers.shallow.itq import ITQHasher as ITQHasher
    from skhash.hashers.shallow.itq_cca import ITQCCAHasher as ITQCCAHasher
    from skhash.hashers.shallow.ksh import KSHHasher as KSHHasher
    from skhash.hashers.shallow.lsh import LSHHasher as LSHHasher
    from skhash.hashers.shallow.pca import PCAHasher as PCAHasher
    from skhash.hashers.shallow.sdh import SDHHasher as SDHHasher
    from skhash.hashers.shallow.spectral import SpectralHasher as SpectralHasher
    from skhash.hashers.shallow.spherical import SphericalHasher as SphericalHasher
    from skhash.hashers.structhash.cghash import CGHashHasher as CGHashHasher
    from skhash.hashers.structhash.structhash import StructHashHasher as StructHashHasher

_HASHERS = [name for name, path in HASHERS.items() if path.startswith("skhash.hashers.")]
if not TYPE_CHECKING:
    __all__ = _HASHERS


def __getattr__(name: str) -> Any:
    if name in _HASHERS:
        return import_class(HASHERS[name])
    raise AttributeError(f"module 'skhash.hashers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_HASHERS]
