"""The torch engine: encoders, devices and seeds, one training loop, checkpoints. Imports torch."""

from skhash.engine.augment import crop_and_flip
from skhash.engine.checkpoint import Checkpoint, as_arrays, as_tensors, fingerprint
from skhash.engine.data import ArraySubset, DatasetArray, batch_tensor, evenly_spaced
from skhash.engine.encoder import Encoder
from skhash.engine.objective import Objective
from skhash.engine.runtime import full_precision, one_thread, resolve_device, seeded
from skhash.engine.training import Schedule, Trainer

__all__ = [
    "ArraySubset",
    "Checkpoint",
    "DatasetArray",
    "Encoder",
    "Objective",
    "Schedule",
    "Trainer",
    "as_arrays",
    "as_tensors",
    "batch_tensor",
    "crop_and_flip",
    "evenly_spaced",
    "fingerprint",
    "full_precision",
    "one_thread",
    "resolve_device",
    "seeded",
]
