"""Deep hashers: torch encoders trained on an objective, one file per paper. A new method builds on the names here."""

from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._binarize import bernoulli_sign, sign
from skhash.hashers.deep._contrast import nt_xent
from skhash.hashers.deep._labels import LabelsMixin
from skhash.hashers.deep._objectives import HistogramObjective, QuantizedObjective, pairwise_loss
from skhash.hashers.deep._quantized import QuantizedDeepHasher

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
