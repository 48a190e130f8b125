"""The torch engine: encoders, devices and seeds, one training loop. Imports torch."""

from skhash.engine.encoder import Encoder
from skhash.engine.objective import Objective
from skhash.engine.runtime import one_thread, resolve_device, seeded
from skhash.engine.training import Schedule, train_epochs

__all__ = ["Encoder", "Objective", "Schedule", "one_thread", "resolve_device", "seeded", "train_epochs"]
