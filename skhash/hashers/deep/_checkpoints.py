"""The checkpoint of a fit: what identifies the training, and how it continues."""

import warnings
from typing import Any

import numpy as np
import torch

from skhash.engine import DatasetArray, Trainer
from skhash.engine.runtime import call_in_first, is_first
from skhash.exceptions import InvalidFileError
from skhash.hashers.deep._early_stopping import EarlyStopping
from skhash.persistence.checkpoints import REMEDY, Checkpoint
from skhash.persistence.identity import Identity, identify

#: parameters that may change between the runs of one training, because they do not decide the weights
FREE = ("checkpoint", "device", "store_database", "deterministic")


class TrainingFile:
    """The checkpoint of one fit; the hasher has `settings_`, and `resume` decides whether the file is read."""

    def __init__(self, hasher: Any, X: Any, targets: Any, resume: bool) -> None:
        self.hasher, self.X = hasher, X
        self.checkpoint = call_in_first(lambda: Checkpoint(hasher.checkpoint, _identity(hasher, X, targets)))
        self.state = call_in_first(self.checkpoint.read) if resume else None
        if resume and self.state is None and is_first():
            self._warn_of_other_trainings()

    def begin(self, seed: int) -> int:
        """Seed that the training started from, which differs from `seed` only with ``random_state=None``."""
        self._seed = seed if self.state is None else int(self.state["seed"])
        return self._seed

    def restore(self, trainer: Trainer, early_stopping: EarlyStopping | None) -> None:
        """Continue from the file, if it was read."""
        if self.state is None:
            return
        try:
            trainer.load_state_dict(self.state["trainer"])
        except Exception as error:  # the user's optimizers and modules may raise anything
            raise InvalidFileError(
                self.checkpoint.path, f"has a state that does not suit: {error}. {REMEDY}"
            ) from error
        self.hasher.history_ = self.state["history"]
        if early_stopping is not None:
            early_stopping.best = self.state["best"]
        self.hasher._store_weights(self.state["weights"])
        if isinstance(self.X, DatasetArray):
            warnings.warn(
                f"The samples of {type(self.X.dataset).__name__} are not compared with those behind "
                f"{self.checkpoint.path}; only its class, its length and its attributes are. "
                "Make sure that they are the same.",
                UserWarning,
                stacklevel=3,
            )

    def write(self, trainer: Trainer, early_stopping: EarlyStopping | None) -> None:
        """Save the state after an epoch, in the first process; the training survives a failure with a warning."""
        if not is_first():
            return
        state = {
            "trainer": trainer.state_dict(),
            "history": self.hasher.history_,
            "best": (-np.inf, 0) if early_stopping is None else early_stopping.best,
            "weights": {name: torch.from_numpy(value) for name, value in self.hasher.weights_.items()},
            "seed": self._seed,
        }
        try:
            self.checkpoint.write(state)
        except OSError as error:
            warnings.warn(f"The training goes on without a new checkpoint. {error}", UserWarning, stacklevel=2)

    def _warn_of_other_trainings(self) -> None:
        nearest = self.checkpoint.nearest()
        if nearest is None:
            return
        path, changes = nearest
        warnings.warn(
            f"{path.parent} has no checkpoint of this training, which starts from scratch. "
            f"In {path.name}, the one that differs least, {'; '.join(changes)}.",
            UserWarning,
            stacklevel=3,
        )


def _identity(hasher: Any, X: Any, targets: Any) -> Identity:
    """Identity of the training of a hasher, which has `settings_`: its class, its parameters and the data."""
    params = {name: value for name, value in hasher.get_params(deep=False).items() if name not in FREE}
    return identify({"hasher": type(hasher)} | params | hasher.settings_, X, targets)
