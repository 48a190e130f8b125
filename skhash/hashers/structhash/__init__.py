"""StructHash (Lin, Shen, Wu, ECCV 2014): `estimator` states the problem, the other files solve its parts."""

from skhash.hashers.structhash.estimator import StructHashHasher

__all__ = ["StructHashHasher"]
