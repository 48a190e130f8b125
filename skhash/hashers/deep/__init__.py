"""Deep hashers: torch encoders trained on an objective, one file per paper. A new method builds on the names here.

Importing a hasher does not import torch: the file of a paper takes it from `skhash._libraries`, which imports it at
its first use. What needs torch or numba at its head, such as a class that derives from one of torch, stands in a file
with an underscore, and is imported inside a function.
"""

from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._objectives import (
    HistogramObjective,
    QuantizedObjective,
    bernoulli_sign,
    nt_xent,
    pairwise_loss,
    sign,
)
from skhash.hashers.deep._parameters import SharedParameters
from skhash.hashers.deep._shared import LabelsMixin, QuantizedDeepHasher
from skhash.hashers.deep.talr import soft_metric

__all__ = [
    "DeepHasher",
    "HistogramObjective",
    "LabelsMixin",
    "QuantizedDeepHasher",
    "QuantizedObjective",
    "SharedParameters",
    "bernoulli_sign",
    "nt_xent",
    "pairwise_loss",
    "sign",
    "soft_metric",
]
