"""Shallow hashers: linear maps, kernels, graphs, spheres, one file per paper. A new method builds on the names here."""

from skhash.hashers.shallow.gaussian_kernel import KernelHasher
from skhash.hashers.shallow.linear import LinearHasher

__all__ = ["KernelHasher", "LinearHasher"]
