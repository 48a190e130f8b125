"""The hashers: one paper, one file. Each is imported at first use, torch with it."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skhash.hashers.agh import AGHHasher
    from skhash.hashers.bre import BREHasher
    from skhash.hashers.cghash import CGHashHasher
    from skhash.hashers.cibhash import CIBHashHasher
    from skhash.hashers.dhn import DHNHasher
    from skhash.hashers.dpsh import DPSHHasher
    from skhash.hashers.dtsh import DTSHHasher
    from skhash.hashers.greedyhash import GreedyHashHasher
    from skhash.hashers.hashnet import HashNetHasher
    from skhash.hashers.itq import ITQHasher
    from skhash.hashers.itq_cca import ITQCCAHasher
    from skhash.hashers.ksh import KSHHasher
    from skhash.hashers.lsh import LSHHasher
    from skhash.hashers.mihash import MIHashHasher
    from skhash.hashers.nsh import NSHHasher
    from skhash.hashers.pca import PCAHasher
    from skhash.hashers.sdh import SDHHasher
    from skhash.hashers.spectral import SpectralHasher
    from skhash.hashers.spherical import SphericalHasher
    from skhash.hashers.structhash import StructHashHasher
    from skhash.hashers.talr import TALRHasher
    from skhash.hashers.tbh import TBHHasher

_MODULES = {
    "AGHHasher": "agh",
    "BREHasher": "bre",
    "CGHashHasher": "cghash",
    "CIBHashHasher": "cibhash",
    "DHNHasher": "dhn",
    "DPSHHasher": "dpsh",
    "DTSHHasher": "dtsh",
    "GreedyHashHasher": "greedyhash",
    "HashNetHasher": "hashnet",
    "ITQCCAHasher": "itq_cca",
    "ITQHasher": "itq",
    "KSHHasher": "ksh",
    "LSHHasher": "lsh",
    "MIHashHasher": "mihash",
    "NSHHasher": "nsh",
    "PCAHasher": "pca",
    "SDHHasher": "sdh",
    "SpectralHasher": "spectral",
    "SphericalHasher": "spherical",
    "StructHashHasher": "structhash",
    "TALRHasher": "talr",
    "TBHHasher": "tbh",
}
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
]


def __getattr__(name):
    if name in _MODULES:
        return getattr(import_module(f"skhash.hashers.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'skhash.hashers' has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]
