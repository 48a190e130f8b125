"""The torch engine: encoders, the training loop, devices and seeds. It does not depend on hashing."""

from skhash._validation import evenly_spaced, resolve_device
from skhash.engine.augment import corrupt, crop_and_flip, moco_v2, two_views
from skhash.engine.backbones import build_backbone, output_width
from skhash.engine.data import ArraySubset, DatasetArray, batch_tensor, unit_of
from skhash.engine.encoder import Encoder
from skhash.engine.layers import Smoothing, are_tags
from skhash.engine.networks import Network, is_network, is_pretrained, load_network, without_weights
from skhash.engine.objective import Objective
from skhash.engine.runtime import full_precision, own_settings, seeded
from skhash.engine.training import Schedule, Trainer, count_batches

__all__ = [
    "ArraySubset",
    "DatasetArray",
    "Encoder",
    "Network",
    "Objective",
    "Schedule",
    "Smoothing",
    "Trainer",
    "are_tags",
    "batch_tensor",
    "build_backbone",
    "corrupt",
    "count_batches",
    "crop_and_flip",
    "evenly_spaced",
    "full_precision",
    "is_network",
    "is_pretrained",
    "load_network",
    "moco_v2",
    "output_width",
    "own_settings",
    "resolve_device",
    "seeded",
    "two_views",
    "unit_of",
    "without_weights",
]
