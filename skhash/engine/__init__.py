"""The torch engine: encoders, the training loop, devices and seeds. It does not depend on hashing.

The file of a paper imports :class:`Objective` at its head, so this module does not import torch. The other names are
imported when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skhash._libraries import import_torch
from skhash.engine.objective import Objective

if TYPE_CHECKING:
    from skhash.engine.encoder import Encoder as Encoder
    from skhash.engine.layers import Smoothing as Smoothing
    from skhash.engine.networks import Network as Network
    from skhash.engine.networks import load_network as load_network
    from skhash.engine.training import Schedule as Schedule
    from skhash.engine.training import Trainer as Trainer
    from skhash.engine.training import count_batches as count_batches

#: names that need torch, and their modules
_OF_TORCH = {
    "Encoder": "encoder",
    "Network": "networks",
    "Schedule": "training",
    "Smoothing": "layers",
    "Trainer": "training",
    "count_batches": "training",
    "load_network": "networks",
}
__all__ = [
    "Encoder",
    "Network",
    "Objective",
    "Schedule",
    "Smoothing",
    "Trainer",
    "count_batches",
    "load_network",
]


def __getattr__(name: str) -> Any:
    if name in _OF_TORCH:
        import_torch()
        return getattr(import_module(f"skhash.engine.{_OF_TORCH[name]}"), name)
    raise AttributeError(f"module 'skhash.engine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_OF_TORCH]
