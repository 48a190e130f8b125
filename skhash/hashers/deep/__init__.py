"""Deep hashers: torch encoders that are trained on an objective. One paper, one file."""

from skhash.hashers.deep._base import DeepHasher

__all__ = ["DeepHasher"]
