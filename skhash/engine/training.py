"""The training loop of all deep hashers. It does not depend on hashing."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR

from skhash.engine._adamw import stepper
from skhash.engine._linear_step import LinearStep, is_by_hand
from skhash.engine._shared_step import shared_loss
from skhash.engine.augment import augmented
from skhash.engine.encoder import Encoder
from skhash.engine.objective import Objective
from skhash.engine.runtime import generator_states, restore_generators


@dataclass(frozen=True)
class Schedule:
    """How an encoder is trained.

    Parameters
    ----------
    n_epochs : int
        Number of passes over the samples.
    batch_size : int
        Number of samples in a batch, about: see :func:`count_batches`.
    learning_rate : float
        Learning rate of the hash layer and of built-in backbones.
    backbone_lr_scale : float, default=1.0
        Factor of the learning rate for the backbone; 0 freezes it.
    lr_schedule : "cosine", "constant" or callable, default="cosine"
        Decay of the learning rate to 0, a constant one, or a function that maps the
        optimizer to a torch scheduler, which steps after each batch.
    optimizer : "adam", "sgd" or callable, default="adam"
        AdamW, SGD with Nesterov momentum 0.9, or a function that maps parameter groups to a
        torch optimizer.
    weight_decay : float, default=0.0
        Decay of matrices, not of biases: for AdamW times the learning rate, for SGD an L2
        penalty, for a function a key of its parameter groups.
    n_stages : int, default=1
        Number of stages of a method that learns by continuation.

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
    lr_schedule: str | Callable[..., Any] = "cosine"
    optimizer: str | Callable[..., torch.optim.Optimizer] = "adam"
    weight_decay: float = 0.0
    n_stages: int = 1

    def stage(self, epoch: int) -> int:
        """Stage of an epoch. Stages share the epochs, and the last epoch belongs to the last stage.

        Parameters
        ----------
        epoch : int
            Index of the epoch.

        Returns
        -------
        int
            Index of the stage.
        """
        return self.n_stages - 1 - (self.n_epochs - 1 - epoch) * self.n_stages // self.n_epochs


class Trainer:
    """Minimize an objective over the parameters of an encoder and its own.

    Parameters
    ----------
    encoder : Encoder
        Changed in place, moved to `device`.
    objective : Objective
        The loss.
    X : array or DatasetArray of shape (n_samples, ...)
        Training samples, read by index.
    targets : array of shape (n_samples, ...) or None
        Their targets.
    schedule : Schedule
        Number of epochs, learning rates, optimizer.
    rng : numpy.random.Generator
        Draws the order of the samples.
    device : torch.device
        Device of the training.
    augment : callable, default=None
        Maps each batch to another version of it.

    Attributes
    ----------
    n_epochs_done : int
        Number of finished epochs.
    stage_ended : bool
        Whether the last epoch was the last one of its stage.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.engine import Encoder, Objective, Schedule, Trainer
    >>> class Spread(Objective):
    ...     def forward(self, encoder, X, targets, indices):
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

    def __init__(
        self,
        encoder: Encoder,
        objective: Objective,
        X: Any,
        targets: Any,
        schedule: Schedule,
        rng: np.random.Generator,
        device: torch.device,
        augment: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        if schedule.backbone_lr_scale == 0:
            encoder.backbone.requires_grad_(False)
        self.encoder, self.objective = encoder.to(device), objective.to(device)
        self.X = X
        self.targets: Any = None if targets is None else objective.prepare_targets(targets)
        self.schedule, self.rng, self.device, self.augment = schedule, rng, device, augment
        self.optimizer = _build_optimizer(encoder, objective, schedule)
        self.n_batches = count_batches(len(X), schedule.batch_size)
        n_steps = schedule.n_epochs * self.n_batches
        self.scheduler = _build_scheduler(self.optimizer, schedule, n_steps)
        # after the scheduler, which observes the steps of the optimizer
        self._step = stepper(self.optimizer, schedule.optimizer == "adam" and device.type == "cpu")
        # the graph of torch takes as long as the products of a linear encoder (benchmarks/engine.py)
        by_hand = is_by_hand(encoder, objective, augment)
        self._linear_step = LinearStep(encoder, objective, X, -(-len(X) // self.n_batches)) if by_hand else None
        self.n_epochs_done, self.stage_ended = 0, False

    def run_epoch(self) -> float:
        """Train for one epoch.

        Returns
        -------
        float
            Mean loss.

        Raises
        ------
        FloatingPointError
            If the loss or a weight is no longer finite.
        """
        stage = self.schedule.stage(self.n_epochs_done)
        self.objective.start_stage(stage, self.schedule.n_stages)
        batches = self.objective.batches(self.encoder, self.X, self.n_batches, self.rng)
        self.encoder.train()
        self.objective.train()
        if self.schedule.backbone_lr_scale == 0:
            self.encoder.backbone.eval()  # its running statistics are frozen, too
        total: torch.Tensor | float = 0.0
        for indices in batches:
            total += self.train_step(indices) * len(indices)
        mean_loss = float(total) / len(self.X)
        if not math.isfinite(mean_loss):
            raise self._divergence("loss", str(mean_loss))
        if not all(parameter.isfinite().all() for parameter in self.encoder.parameters()):
            raise self._divergence("weights", "NaN or infinity")  # the last step comes after the last loss
        self.n_epochs_done += 1
        self.stage_ended = self.schedule.stage(self.n_epochs_done) > stage  # true after the last epoch, too
        return mean_loss

    def _divergence(self, name: str, value: str) -> FloatingPointError:
        return FloatingPointError(
            f"The {name} must be finite. Got {value} in epoch {self.n_epochs_done + 1}. Lower `learning_rate` "
            f"(now {self.schedule.learning_rate}), or look for extreme values in X."
        )

    def train_step(self, indices: npt.NDArray[np.int64]) -> torch.Tensor | float:
        """Train on one batch.

        Parameters
        ----------
        indices : ndarray of int
            Indices of the batch.

        Returns
        -------
        float or tensor of shape ()
            Loss of the batch, without its graph. A tensor stays on its device, which is not waited for.
        """
        targets = None if self.targets is None else self.targets[indices]
        loss = self._backward(indices, targets) if self._linear_step is None else self._linear_step(indices, targets)
        self._step()
        if self.scheduler is not None:
            self.scheduler.step()
        return loss

    def _backward(self, indices: npt.NDArray[np.int64], targets: Any) -> torch.Tensor:
        """Loss of a batch; its gradients are stored in the parameters."""
        batch = self.encoder.read(self.X, indices)
        if self.augment is not None:
            batch = augmented(self.augment, batch)
        loss = self._loss(batch, targets, indices)
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        loss.backward()
        return loss.detach()

    @functools.cached_property
    def _loss(self) -> Callable[..., torch.Tensor]:
        """Loss of a batch, as a function; the first step makes it, because it copies weights between processes."""
        return shared_loss(self.encoder, self.objective)

    def state_dict(self) -> dict[str, Any]:
        """State that the next epochs depend on, without the samples.

        Returns
        -------
        dict
            Tensors, numbers and tuples.
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

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state.

        Parameters
        ----------
        state : dict
            What :meth:`state_dict` returned.
        """
        self.n_epochs_done = state["n_epochs_done"]
        self.encoder.load_state_dict(state["encoder"])
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.rng.bit_generator.state = state["order"]
        restore_generators(state["generators"], self.device)


def count_batches(n_samples: int, batch_size: int) -> int:
    """Number of batches of an epoch: ``n_samples / batch_size``, rounded.

    The batches have nearly the same size, so that none of them is small: the loss of a few samples
    says little, and would count as much as that of a whole batch.

    Parameters
    ----------
    n_samples : int
        Number of training samples.
    batch_size : int
        Number of samples that a batch should have.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> from skhash.engine import count_batches
    >>> [count_batches(n, batch_size=100) for n in (30, 400, 412, 450)]
    [1, 4, 4, 5]
    """
    return max(1, (2 * n_samples + batch_size) // (2 * batch_size))


def _build_optimizer(encoder: Encoder, objective: Objective, schedule: Schedule) -> torch.optim.Optimizer:
    rates = dict.fromkeys((*encoder.children(), objective), schedule.learning_rate)
    rates[encoder.backbone] *= schedule.backbone_lr_scale
    groups: list[dict[str, Any]] = []
    for module, rate in rates.items():
        for decay, is_decayed in ((schedule.weight_decay, True), (0.0, False)):
            chosen = [p for p in module.parameters() if p.requires_grad and (p.ndim > 1) == is_decayed]
            if chosen:
                groups.append({"params": chosen, "lr": rate, "weight_decay": decay})
    if callable(schedule.optimizer):
        return schedule.optimizer(groups)
    if schedule.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=schedule.learning_rate, momentum=0.9, nesterov=True)
    is_on_cpu = all(parameter.device.type == "cpu" for group in groups for parameter in group["params"])
    return torch.optim.AdamW(groups, lr=schedule.learning_rate, fused=is_on_cpu or None)


def _build_scheduler(optimizer: torch.optim.Optimizer, schedule: Schedule, n_steps: int) -> Any:
    if callable(schedule.lr_schedule):
        return schedule.lr_schedule(optimizer)
    return None if schedule.lr_schedule == "constant" else CosineAnnealingLR(optimizer, T_max=n_steps)
