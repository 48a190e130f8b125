"""What identifies a training, and how it continues: from a checkpoint of `fit`, or in `partial_fit`."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from skhash._files import as_arrays, as_tensors
from skhash._validation import evenly_spaced, qualified_name
from skhash.engine import Trainer
from skhash.engine.data import DatasetArray
from skhash.engine.early_stopping import BestEpoch
from skhash.engine.runtime import call_in_first, from_first, gather, is_first, n_processes
from skhash.exceptions import InvalidFileError
from skhash.persistence.checkpoints import REMEDY, Checkpoint
from skhash.persistence.identity import Identity, identify

#: parameters that may change between the runs of one training, because they do not decide the weights
FREE = ("checkpoint", "device", "store_database", "deterministic")


class TrainingFile:
    """The checkpoint of one fit, if the hasher has one; `resume` decides whether it is read, `settings_` are known."""

    def __init__(self, hasher: Any, X: Any, targets: Any, resume: bool, queries: Any = None) -> None:
        self.hasher, self.X = hasher, X
        self.checkpoint: Checkpoint | None = None
        self.state: dict[str, Any] | None = None
        if hasher.checkpoint is None:
            return
        checkpoint = call_in_first(lambda: Checkpoint(hasher.checkpoint, _identity(hasher, X, targets, queries)))
        self.checkpoint, self.state = checkpoint, call_in_first(checkpoint.read) if resume else None
        if resume and self.state is None and is_first() and (nearest := checkpoint.nearest()) is not None:
            path, changes = nearest
            warnings.warn(
                f"{path.parent} has no checkpoint of this training, which starts from scratch. "
                f"In {path.name}, the one that differs least, {'; '.join(changes)}.",
                UserWarning,
                stacklevel=2,
            )

    def begin(self, seed: int) -> int:
        """Seed that the training started from, which differs from `seed` only with ``random_state=None``."""
        self._seed = seed if self.state is None else int(self.state["seed"])
        return self._seed

    def restore(self, trainer: Trainer, early_stopping: BestEpoch | None) -> None:
        """Continue from the file, if it was read."""
        if self.checkpoint is None or self.state is None:
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
        self.hasher._keep_weights(self.state["weights"])
        if isinstance(self.X, DatasetArray):
            warnings.warn(
                f"The samples of {type(self.X.dataset).__name__} are not compared with those behind "
                f"{self.checkpoint.path}; only its class, its length and its attributes are. "
                "Make sure that they are the same.",
                UserWarning,
                stacklevel=3,
            )

    def write(self, trainer: Trainer, early_stopping: BestEpoch | None) -> None:
        """Save the state after an epoch, in the first process; the training survives a failure with a warning."""
        if self.checkpoint is None or not is_first():
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
            warnings.warn(f"The training continues without a new checkpoint. {error}", UserWarning, stacklevel=2)


def _identity(hasher: Any, X: Any, targets: Any, queries: Any) -> Identity:
    """Identity of the training of a hasher, which has `settings_`: its class, its parameters and the data."""
    params = {name: value for name, value in hasher.get_params(deep=False).items() if name not in FREE}
    return identify({"hasher": type(hasher)} | params | hasher.settings_, X, targets, queries)


def draw_seed(
    hasher: Any, rng: np.random.RandomState, file: TrainingFile | None = None
) -> tuple[np.random.RandomState, int]:
    """Generator of the initial weights, and the seed of all other draws, both from `random_state`."""
    seed = from_first(int(rng.randint(np.iinfo(np.int32).max)))
    seed = seed if file is None else file.begin(seed)
    return rng if hasher.random_state is not None else np.random.RandomState(seed), seed


# --- several processes, and partial_fit

N_COMPARED = 1000  # samples that several processes compare at most


def check_same_training(hasher: Any, X: Any, targets: Any, queries: Any = None) -> None:
    """Raise ValueError in every process unless all have the same parameters and samples."""
    if n_processes() == 1:
        return
    params = {name: value for name, value in hasher.get_params(deep=False).items() if name not in FREE}
    plain = {name: value for name, value in params.items() if isinstance(value, bool | int | float | str | None)}
    chosen = evenly_spaced(len(X), N_COMPARED)
    some = None if targets is None else targets[chosen]
    settings = {"hasher": qualified_name(hasher), "n_samples": len(X)} | plain | hasher.settings_
    identity = identify(settings, X[chosen], some, queries)
    for rank, other in enumerate(gather(identity)):
        if rank == 0:
            first = other
        elif differing := sorted(name for name in first | other if first.get(name) != other.get(name)):
            raise ValueError(
                "Processes that train one hasher must be given the same parameters, X and y, since each takes its "
                f"part of every batch by itself. Process {rank} differs from process 0 in: {', '.join(differing)}."
            )


def check_unchanged(params: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Raise ValueError if a parameter differs from its value in `fixed`, when the weights were learned."""
    for name, value in fixed.items():
        given = params[name]
        if name == "backbone_lr_scale" and not isinstance(given, dict) and 0 not in (given, value):
            continue  # the backbone is trained with both values
        if given is not value and given != value:
            raise ValueError(_message(name, given, value))


def capture_state(trainer: Trainer, fixed: dict[str, Any]) -> dict[str, Any]:
    """State of arrays and plain values that the next call continues from, without the weights of the encoder."""
    state: dict[str, Any] = as_arrays(trainer.state_dict()) | {"n_epochs_done": 0, "fixed": fixed}
    del state["encoder"]
    return state | {"optimizer_class": qualified_name(trainer.optimizer)}


def restore_state(trainer: Trainer, state: dict[str, Any], optimizer: Any) -> None:
    """Continue a new trainer from a state, with the learning rates and weight decays that are set now."""
    if qualified_name(trainer.optimizer) != state["optimizer_class"]:
        raise ValueError(_message("optimizer", optimizer, state["optimizer_class"]))
    now = [{name: group[name] for name in ("lr", "weight_decay")} for group in trainer.optimizer.param_groups]
    trainer.load_state_dict(as_tensors(state) | {"encoder": trainer.encoder.state_dict()})
    for group, values in zip(trainer.optimizer.param_groups, now, strict=True):
        group.update(values)


def _message(name: str, given: Any, value: Any) -> str:
    return f"`{name}` must stay {value!r} in partial_fit. Got {given!r} instead. Set it back, or fit a new hasher."
