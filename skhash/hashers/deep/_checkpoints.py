"""The checkpoint of a deep hasher after an epoch."""

import warnings
from typing import Any

import numpy as np
import torch

from skhash.engine import Checkpoint, Trainer
from skhash.hashers.deep._early_stopping import EarlyStopping


def write_checkpoint(
    checkpoint: Checkpoint, trainer: Trainer, hasher: Any, early_stopping: EarlyStopping | None
) -> None:
    """Write the state of a training. If the file cannot be written, a warning names it, and the training goes on.

    Hours of training are worth more than the file, and the next epoch tries again.
    """
    state = {
        "trainer": trainer.state_dict(),
        "history": hasher.history_,
        "best": (-np.inf, 0) if early_stopping is None else early_stopping.best,
        "weights": {name: torch.from_numpy(value) for name, value in hasher.weights_.items()},
    }
    try:
        checkpoint.write(state)
    except OSError as error:
        warnings.warn(f"The training goes on without a new checkpoint. {error}", UserWarning, stacklevel=2)
