"""Checkpoints of a fit: the identity of the training, the saved state, and how a training continues."""

import math
import warnings
from typing import Any

import numpy as np
import torch

from skhash.engine import Checkpoint, DatasetArray, Identity, Trainer, fingerprint
from skhash.engine._state_checks import check_like, check_weights
from skhash.engine.checkpoint import REMEDY
from skhash.engine.runtime import call_in_first, is_first
from skhash.exceptions import InvalidFileError
from skhash.hashers.deep._early_stopping import EarlyStopping

#: parameters that may change between the runs of one training, because they do not decide the weights
FREE = ("checkpoint", "device", "store_database", "deterministic")


def identify(hasher: Any, X: Any, targets: Any) -> Identity:
    """Identity of the training of a hasher, which has `settings_`: its class, its parameters and the data."""
    params = {name: value for name, value in hasher.get_params(deep=False).items() if name not in FREE}
    return fingerprint({"hasher": type(hasher)} | params | hasher.settings_, X, targets)


class TrainingFile:
    """The checkpoint of one fit; the hasher has `settings_`, and `resume` decides whether the file is read."""

    def __init__(self, hasher: Any, X: Any, targets: Any, resume: bool) -> None:
        self.hasher, self.X = hasher, X
        self.checkpoint = call_in_first(lambda: Checkpoint(hasher.checkpoint, identify(hasher, X, targets)))
        self.state = call_in_first(self.checkpoint.read) if resume else None
        if resume and self.state is None and is_first():
            self._warn_of_other_trainings()

    def begin(self, seed: int) -> int:
        """Seed that the training started from, which differs from `seed` only with ``random_state=None``."""
        self._seed = seed
        if self.state is not None:
            given = self.state.get("seed") if isinstance(self.state, dict) else None
            is_free = self.hasher.random_state is None and type(given) is int and 0 <= given < 2**31
            if given != seed and not is_free:
                raise self._damaged(ValueError(f"it starts from the seed {given!r}"))
            self._seed = int(given)  # type: ignore[arg-type]
        return self._seed

    def restore(self, trainer: Trainer, early_stopping: EarlyStopping | None) -> None:
        """Continue from the file, if it was read."""
        if self.state is None:
            return
        try:
            self._check(self.state, trainer)
            trainer.load_state_dict(self.state["trainer"])
        except Exception as error:  # the user's optimizers and modules may raise anything
            raise self._damaged(error) from error
        self.hasher.history_ = self.state["history"]
        if early_stopping is not None:
            early_stopping.best = tuple(self.state["best"])
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
        """Save the state after an epoch; only the first process writes.

        If the file cannot be written, a warning names it and the training continues; the next epoch tries again.
        """
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

    @staticmethod
    def _check(state: dict[str, Any], trainer: Trainer) -> None:
        """Raise ValueError for parts that the trainer does not check."""
        history, best = state["history"], state["best"]
        if not isinstance(history, list) or len(history) != state["trainer"]["n_epochs_done"]:
            raise ValueError("`history` must have one entry per epoch")
        for i, entry in enumerate(history):
            if entry["epoch"] != i + 1 or not math.isfinite(entry["loss"]):
                raise ValueError(f"`history[{i}]` must have the epoch {i + 1} and a finite loss")
        value, epoch = best
        if type(value) is not float or math.isnan(value) or type(epoch) is not int or not 0 <= epoch <= len(history):
            raise ValueError("`best` must be a value and an epoch")
        check_like(state["weights"], trainer.encoder.state_dict(), "weights")
        check_weights(state["weights"], "weights")

    def _damaged(self, error: Exception) -> InvalidFileError:
        return InvalidFileError(self.checkpoint.path, f"has a damaged state: {error}. {REMEDY}")

    def _warn_of_other_trainings(self) -> None:
        nearest = self.checkpoint.nearest()
        if nearest is None:
            return
        path, differences = nearest
        warnings.warn(
            f"{path.parent} has no checkpoint of this training, which starts from scratch. "
            f"In {path.name}, the one that differs least, {'; '.join(differences)}.",
            UserWarning,
            stacklevel=3,
        )
