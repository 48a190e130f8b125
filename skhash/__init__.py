"""skhash: learning to hash, in the manner of scikit-learn.

Hashers turn rows into short binary codes; exact tie-aware metrics say how well the
codes rank. ``import skhash`` is quick: torch, cvxpy and numba load at first use.
"""

from skhash import hashers

__version__ = "0.1.0.dev0"
__all__ = ["__version__", *hashers.__all__]


def __getattr__(name):
    if name in hashers.__all__:
        return getattr(hashers, name)
    raise AttributeError(f"module 'skhash' has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]
