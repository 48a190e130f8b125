"""The one training loop. It knows objectives and encoders, nothing of hashing."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skhash.engine.data import batch_tensor
from skhash.engine.runtime import generator_states, restore_generators


@dataclass(frozen=True)
class Schedule:
    """How an encoder is trained.

    Parameters
    ----------
    n_epochs : int
        Passes over the rows.
    batch_size : int
        Rows of a step; a one-row tail joins the last batch.
    learning_rate : float
        Step size of the hash layer and of built-in backbones.
    backbone_lr_scale : float
        Factor of the step size for the backbone; 0 freezes it.
    lr_schedule : "cosine", "constant" or callable
        Decay of the step size to 0 over the run, none, or a factory that maps the
        optimizer to a torch scheduler, stepped after each batch.
    optimizer : "adam", "sgd" or callable
        Adam with decoupled weight decay, SGD with Nesterov momentum 0.9, or a factory
        that maps parameter groups to a torch optimizer.
    weight_decay : float
        Decay of matrices, not of biases: for Adam times the learning rate, for SGD an L2
        penalty, for a factory the key of its parameter groups.
    n_stages : int
        Stages of a method that learns by continuation.

    Examples
    --------
    >>> from skhash.engine import Schedule
    >>> Schedule(n_epochs=5, batch_size=128, learning_rate=0.1).lr_schedule
    'cosine'
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    backbone_lr_scale: float = 1.0
    lr_schedule: Any = "cosine"
    optimizer: Any = "adam"
    weight_decay: float = 0.0
    n_stages: int = 1


class Trainer:
    """Minimise an objective over the parameters of an encoder and its own.

    Parameters
    ----------
    encoder : Encoder
        Changed in place, moved to `device`.
    objective : Objective
        The loss.
    X : array or DatasetArray of shape (n_samples, ...)
        Training rows, read by row numbers.
    targets : array of shape (n_samples, ...) or None
        Their targets.
    schedule : Schedule
        Lengths and step sizes.
    rng : numpy.random.Generator
        Draws the order of the rows.
    device : torch.device
        Where to train.
    augment : callable, default=None
        Maps each batch of rows to another version of it.

    Attributes
    ----------
    n_epochs_done : int
        Passes made.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.engine import Encoder, Objective, Schedule, Trainer
    >>> class Spread(Objective):
    ...     def forward(self, encoder, X, targets, rows):
    ...         return -encoder(X).abs().mean()
    >>> X = np.random.default_rng(0).standard_normal((64, 3))
    >>> schedule = Schedule(n_epochs=2, batch_size=16, learning_rate=0.1)
    >>> order, device = np.random.default_rng(0), torch.device("cpu")
    >>> trainer = Trainer(Encoder(3, nbits=2), Spread(), X, None, schedule, order, device)
    >>> first, second = trainer.run_epoch(), trainer.run_epoch()
    >>> second < first
    True
    >>> trainer.n_epochs_done, trainer.stage_ended
    (2, True)
    """

    def __init__(self, encoder, objective, X, targets, schedule, rng, device, augment=None):
        if schedule.backbone_lr_scale == 0:
            encoder.backbone.requires_grad_(False)
        self.encoder, self.objective = encoder.to(device), objective.to(device)
        self.X, self.targets = X, targets
        self.schedule, self.rng, self.device, self.augment = schedule, rng, device, augment
        self.optimizer = _build_optimizer(encoder, objective, schedule)
        n_steps = schedule.n_epochs * len(_batches(np.arange(len(X)), schedule.batch_size))
        self.scheduler = _build_scheduler(self.optimizer, schedule, n_steps)
        self.n_epochs_done = 0

    @property
    def stage_ended(self):
        """Whether the next epoch belongs to another stage than the last one."""
        done = self.n_epochs_done
        return done == self.schedule.n_epochs or self._stage(done) != self._stage(done - 1)

    def _stage(self, epoch):
        """Stage of an epoch, counted from 0; stages share the epochs, and the last epoch is of the last one."""
        n_stages, n_epochs = self.schedule.n_stages, self.schedule.n_epochs
        return n_stages - 1 - (n_epochs - 1 - epoch) * n_stages // n_epochs

    def run_epoch(self):
        """Pass over the rows once.

        Returns
        -------
        float
            Mean loss.

        Raises
        ------
        FloatingPointError
            If the loss is no longer finite.
        """
        self.objective.start_stage(self._stage(self.n_epochs_done), self.schedule.n_stages)
        self.encoder.train()
        self.objective.train()
        if self.schedule.backbone_lr_scale == 0:
            self.encoder.backbone.eval()  # frozen, its running statistics too
        total = torch.zeros((), device=self.device)
        for rows in _batches(self.rng.permutation(len(self.X)), self.schedule.batch_size):
            batch = batch_tensor(self.X, rows, self.device)
            if self.augment is not None:
                batch = self.augment(batch)
            targets = None if self.targets is None else self.targets[rows]
            loss = self.objective(self.encoder, batch, targets, rows)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
            total += loss.detach() * len(rows)
        mean_loss = total.item() / len(self.X)
        if not math.isfinite(mean_loss):
            raise FloatingPointError(
                f"the loss is {mean_loss} in epoch {self.n_epochs_done + 1}: lower learning_rate (now "
                f"{self.schedule.learning_rate}), or look for extreme values in X."
            )
        self.n_epochs_done += 1
        return mean_loss

    def state_dict(self):
        """Collect everything that the next epochs depend on, but for the rows.

        Returns
        -------
        dict
            Of tensors, numbers and tuples.
        """
        return {
            "n_epochs_done": self.n_epochs_done,
            "encoder": self.encoder.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "order": self.rng.bit_generator.state,
            "generators": generator_states(self.device),
        }

    def load_state_dict(self, state):
        """Go on from where :meth:`state_dict` was taken.

        Parameters
        ----------
        state : dict
            What it returned.
        """
        self.n_epochs_done = state["n_epochs_done"]
        self.encoder.load_state_dict(state["encoder"])
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.rng.bit_generator.state = state["order"]
        restore_generators(state["generators"], self.device)


def _batches(rows, size):
    """Split rows into batches; a tail of one row, of no use to a pairwise loss, joins the last."""
    cuts = list(range(size, len(rows), size))
    if cuts and len(rows) - cuts[-1] == 1:
        cuts.pop()
    return np.split(rows, cuts)


def _build_optimizer(encoder, objective, schedule):
    rates = {
        encoder.backbone: schedule.learning_rate * schedule.backbone_lr_scale,
        encoder.hash: schedule.learning_rate,
        objective: schedule.learning_rate,
    }
    groups = []
    for module, rate in rates.items():
        parameters = [p for p in module.parameters() if p.requires_grad]
        for decayed in (True, False):
            chosen = [p for p in parameters if (p.ndim > 1) == decayed]
            if chosen:
                groups.append({"params": chosen, "lr": rate, "weight_decay": schedule.weight_decay if decayed else 0.0})
    if callable(schedule.optimizer):
        return schedule.optimizer(groups)
    if schedule.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=schedule.learning_rate, momentum=0.9, nesterov=True)
    return torch.optim.AdamW(groups, lr=schedule.learning_rate)


def _build_scheduler(optimizer, schedule, n_steps):
    if callable(schedule.lr_schedule):
        return schedule.lr_schedule(optimizer)
    if schedule.lr_schedule == "constant":
        return None
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=n_steps)
