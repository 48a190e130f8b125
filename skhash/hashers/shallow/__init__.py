"""Shallow hashers: linear maps, kernels, graphs, spheres. One paper, one file; here is what a new method builds on."""

from skhash.hashers.shallow._kernel import KernelHasher
from skhash.hashers.shallow._linear import LinearHasher

__all__ = ["KernelHasher", "LinearHasher"]
