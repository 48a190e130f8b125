"""The torch engine: encoders, devices and seeds, one training loop, checkpoints. Imports torch."""

from skhash.engine.augment import crop_and_flip
from skhash.engine.checkpoint import Checkpoint, as_arrays, as_tensors, fingerprint
from skhash.engine.encoder import Encoder
from skhash.engine.objective import Objective
from skhash.engine.rows import ChosenRows, DatasetRows, batch_tensor, spaced
from skhash.engine.runtime import full_precision, one_thread, resolve_device, seeded
from skhash.engine.training import Schedule, Trainer

__all__ = [
    "Checkpoint",
    "ChosenRows",
    "DatasetRows",
    "Encoder",
    "Objective",
    "Schedule",
    "Trainer",
    "as_arrays",
    "as_tensors",
    "batch_tensor",
    "crop_and_flip",
    "fingerprint",
    "full_precision",
    "one_thread",
    "resolve_device",
    "seeded",
    "spaced",
]
