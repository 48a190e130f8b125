"""Deep hashers: torch encoders trained on an objective, one file per paper. A new method builds on the names here.

Importing a hasher does not import torch. A paper's file imports torch inside functions, and names its types for type
checkers alone. What derives from a class of torch, and the functions of tensors that it uses, stand in the file of the
same name with an underscore before it, or in `_objectives.py` if papers share them; these import torch at their head.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._parameters import SharedParameters
from skhash.hashers.deep._shared import LabelsMixin, QuantizedDeepHasher
from skhash.hashers.deep.drift import Drift

if TYPE_CHECKING:
    from skhash.hashers.deep._objectives import HistogramObjective as HistogramObjective
    from skhash.hashers.deep._objectives import QuantizedObjective as QuantizedObjective
    from skhash.hashers.deep._objectives import bernoulli_sign as bernoulli_sign
    from skhash.hashers.deep._objectives import nt_xent as nt_xent
    from skhash.hashers.deep._objectives import pairwise_loss as pairwise_loss
    from skhash.hashers.deep._objectives import sign as sign
    from skhash.hashers.deep._talr import soft_metric as soft_metric

#: names that need torch, and their modules
_OF_TORCH = dict.fromkeys(
    ("HistogramObjective", "QuantizedObjective", "bernoulli_sign", "nt_xent", "pairwise_loss", "sign"), "_objectives"
) | {"soft_metric": "_talr"}
__all__ = [
    "DeepHasher",
    "Drift",
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


def __getattr__(name: str) -> Any:
    if name in _OF_TORCH:
        return getattr(import_module(f"skhash.hashers.deep.{_OF_TORCH[name]}"), name)
    raise AttributeError(f"module 'skhash.hashers.deep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_OF_TORCH]
