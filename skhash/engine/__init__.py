"""The torch engine: encoders, the training loop, devices and seeds. It does not depend on hashing."""

from skhash.engine.encoder import Encoder
from skhash.engine.layers import Smoothing
from skhash.engine.networks import Network, load_network
from skhash.engine.objective import Objective
from skhash.engine.training import Schedule, Trainer, count_batches

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
