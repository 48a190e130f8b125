"""Deep hashers: torch encoders trained on an objective, one file per paper. A new method builds on the names here."""

from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._objectives import (
    HistogramObjective,
    LabelsMixin,
    QuantizedDeepHasher,
    QuantizedObjective,
    bernoulli_sign,
    nt_xent,
    pairwise_loss,
    sign,
)

__all__ = [
    "DeepHasher",
    "HistogramObjective",
    "LabelsMixin",
    "QuantizedDeepHasher",
    "QuantizedObjective",
    "bernoulli_sign",
    "nt_xent",
    "pairwise_loss",
    "sign",
]
