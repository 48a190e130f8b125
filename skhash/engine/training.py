"""The one training loop. It knows objectives and encoders, nothing of hashing."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


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
        Factor of the step size for the backbone.
    lr_schedule : "cosine", "constant" or callable
        Decay of the step size to 0 over the run, none, or a factory that maps the
        optimizer to a torch scheduler, stepped after each batch.
    optimizer : "adam", "sgd" or callable
        Adam with decoupled weight decay, SGD with Nesterov momentum 0.9, or a factory
        that maps parameter groups to a torch optimizer.
    weight_decay : float
        Decay of matrices, not of biases: for Adam times the learning rate, for SGD an L2
        penalty, for a factory the key of its parameter groups.
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    backbone_lr_scale: float = 1.0
    lr_schedule: Any = "cosine"
    optimizer: Any = "adam"
    weight_decay: float = 0.0


def train_epochs(encoder, objective, X, targets, schedule, rng, device):
    """Minimise an objective over the parameters of the encoder (and its own).

    Parameters
    ----------
    encoder : Encoder
        Changed in place, moved to `device`.
    objective : Objective
        The loss.
    X : array of shape (n_samples, n_features)
        Training rows, read by row numbers.
    targets : array of shape (n_samples, ...) or None
        Their targets.
    schedule : Schedule
        Lengths and step sizes.
    rng : numpy.random.Generator
        Draws the order of the rows.
    device : torch.device
        Where to train.

    Yields
    ------
    float
        Mean loss of each epoch, after it.

    Raises
    ------
    FloatingPointError
        If the loss is no longer finite.
    """
    encoder.to(device)
    objective.to(device)
    optimizer = _build_optimizer(encoder, objective, schedule)
    batches_per_epoch = len(_batches(np.arange(len(X)), schedule.batch_size))
    objective.start_stage(0, 1)
    scheduler = _build_scheduler(optimizer, schedule, schedule.n_epochs * batches_per_epoch)
    for epoch in range(schedule.n_epochs):
        encoder.train()
        total = torch.zeros((), device=device)
        for rows in _batches(rng.permutation(len(X)), schedule.batch_size):
            batch = torch.tensor(X[rows], dtype=torch.float32, device=device)
            loss = objective(encoder, batch, None if targets is None else targets[rows], rows)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            total += loss.detach() * len(rows)
        mean_loss = total.item() / len(X)
        if not math.isfinite(mean_loss):
            raise FloatingPointError(
                f"the loss is {mean_loss} in epoch {epoch + 1}: lower learning_rate (now {schedule.learning_rate}), "
                "or look for extreme values in X."
            )
        yield mean_loss


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
