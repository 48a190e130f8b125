"""The training loop of all deep hashers. It does not depend on hashing."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import CosineAnnealingLR

from skhash._compat import cached_property
from skhash.engine.augment import augmented
from skhash.engine.encoder import Encoder
from skhash.engine.objective import Objective
from skhash.engine.runtime import generator_states, n_processes, restore_generators, seeded


@dataclass(frozen=True)
class Schedule:
    """How an encoder is trained.

    Parameters
    ----------
    n_epochs : int
        Number of passes over the samples.
    batch_size : int
        Target batch size, see :func:`count_batches`.
    learning_rate : float
        Learning rate of the hash layer and of built-in backbones.
    backbone_lr_scale : float or dict, default=1.0
        Factor of the learning rate for the backbone; 0 freezes it. A dict maps beginnings of the
        names of its parameters to factors: the longest one counts, and 1 where there is none.
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
    backbone_lr_scale: float | Mapping[str, float] = 1.0
    lr_schedule: str | Callable[..., Any] = "cosine"
    optimizer: str | Callable[..., torch.optim.Optimizer] = "adam"
    weight_decay: float = 0.0
    n_stages: int = 1

    def factor(self, name: str) -> float:
        """Factor of the learning rate of a parameter of the backbone.

        Parameters
        ----------
        name : str
            Name of the parameter in the backbone.

        Returns
        -------
        float
            The factor, 0 if the parameter is frozen.
        """
        if not isinstance(self.backbone_lr_scale, Mapping):
            return self.backbone_lr_scale
        beginnings = [beginning for beginning in self.backbone_lr_scale if name.startswith(beginning)]
        return self.backbone_lr_scale[max(beginnings, key=len)] if beginnings else 1.0

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
        n_stages, n_epochs = int(self.n_stages), int(self.n_epochs)
        return n_stages - 1 - (n_epochs - 1 - int(epoch)) * n_stages // n_epochs


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
    relevance : Relevance or None
        Which of them are relevant to which; None for an objective without.
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
    ...     def forward(self, encoder, X, relevance, indices):
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
        relevance: Any,
        schedule: Schedule,
        rng: np.random.Generator,
        device: torch.device,
        augment: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        factors = [schedule.factor(name) for name, _ in encoder.backbone.named_parameters()]
        for factor, parameter in zip(factors, encoder.backbone.parameters(), strict=True):
            parameter.requires_grad_(parameter.requires_grad and factor > 0)
        self._is_frozen = bool(factors) and not any(factors)
        self.encoder, self.objective, self.trained = encoder.to(device), objective, _trained_with(objective).to(device)
        self.X = X
        self.relevance = relevance
        self.schedule, self.rng, self.device, self.augment = schedule, rng, device, augment
        self.optimizer = _build_optimizer(encoder, self.trained, schedule)
        self.n_batches = count_batches(len(X), schedule.batch_size)
        n_steps = int(schedule.n_epochs) * self.n_batches
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
        batches = self.objective.batches(self.encoder, self.X, self.relevance, self.n_batches, self.rng)
        self.encoder.train()
        self.trained.train()
        if self._is_frozen:
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
            Loss of the batch, without its graph. A tensor stays on its device: nothing waits for it.
        """
        relevance = None if self.relevance is None else self.relevance.take(indices)
        step = self._backward if self._linear_step is None else self._linear_step
        loss = step(indices, relevance)
        self._step()
        if self.scheduler is not None:
            self.scheduler.step()
        return loss

    def _backward(self, indices: npt.NDArray[np.int64], relevance: Any) -> torch.Tensor:
        """Loss of a batch; its gradients are stored in the parameters."""
        batch = self.encoder.read(self.X, indices)
        if self.augment is not None:
            batch = augmented(self.augment, batch)
        loss = self._loss(batch, relevance, indices)
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        loss.backward()
        return loss.detach()

    @cached_property
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
            "objective": self.trained.state_dict(),
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
        self.trained.load_state_dict(state["objective"])
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
    n_samples, batch_size = int(n_samples), int(batch_size)
    return max(1, (2 * n_samples + batch_size) // (2 * batch_size))


def _trained_with(objective: Objective) -> nn.Module:
    """Module of what an objective trains beside the encoder: itself if it is a module, else its `trained`."""
    if isinstance(objective, nn.Module):
        return objective
    for name, value in vars(objective).items():
        # whoever knows torch expects that it is trained
        if name != "trained" and isinstance(value, nn.Module | nn.Parameter):
            kind = type(objective).__name__
            raise TypeError(
                f"`{name}` of {kind} must not be a {type(value).__name__}, which would not be trained. Set "
                f"self.trained[{name!r}] to a module instead, or let {kind} derive from torch.nn.Module as well."
            )
    return objective.trained


def _build_optimizer(encoder: Encoder, trained: nn.Module, schedule: Schedule) -> torch.optim.Optimizer:
    chosen: dict[tuple[nn.Module, float, bool], list[nn.Parameter]] = {}
    for module in (*encoder.children(), trained):
        for name, parameter in module.named_parameters():
            factor = schedule.factor(name) if module is encoder.backbone else 1.0
            if parameter.requires_grad:
                chosen.setdefault((module, factor, parameter.ndim > 1), []).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": some, "lr": factor * schedule.learning_rate, "weight_decay": is_decayed * schedule.weight_decay}
        for (_, factor, is_decayed), some in chosen.items()
    ]
    if callable(schedule.optimizer):
        return schedule.optimizer(groups)
    if schedule.optimizer == "sgd":
        return _uncompiled(torch.optim.SGD)(groups, lr=schedule.learning_rate, momentum=0.9, nesterov=True)
    is_on_cpu = all(parameter.device.type == "cpu" for group in groups for parameter in group["params"])
    return _uncompiled(torch.optim.AdamW)(groups, lr=schedule.learning_rate, fused=is_on_cpu or None)


@functools.cache
def _uncompiled(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """Class of optimizers that does not import torch's compiler, which takes a second in each process that fits."""
    # the methods of torch are wrapped in functions that import it, to keep themselves out of compiled code
    names = ("add_param_group", "load_state_dict", "state_dict")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(inspect.unwrap(kind.step))})


def _build_scheduler(optimizer: torch.optim.Optimizer, schedule: Schedule, n_steps: int) -> Any:
    if callable(schedule.lr_schedule):
        return schedule.lr_schedule(optimizer)
    return None if schedule.lr_schedule == "constant" else CosineAnnealingLR(optimizer, T_max=n_steps)


N_MAX_VALUES = 2**18  # of all parameters; with more, the overhead of torch is a small part of a step


def stepper(optimizer: torch.optim.Optimizer, is_built_in: bool) -> Callable[[], Any]:
    """Function that makes a step of an optimizer: compiled for few values of the built-in AdamW, else that of torch."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    is_small = sum(parameter.numel() for parameter in parameters) <= N_MAX_VALUES
    are_plain = all(parameter.dtype == torch.float32 and parameter.is_contiguous() for parameter in parameters)
    if not (is_built_in and is_small and are_plain):
        return optimizer.step
    return _CompiledSteps(optimizer)


class _CompiledSteps:
    """Function that makes a compiled step of AdamW; it keeps the arrays of the tensors from step to step."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        from skhash.engine._kernels import step_adamw

        self.optimizer, self._step_adamw = optimizer, step_adamw
        self._arrays: dict[tuple[int, str], tuple[torch.Tensor, npt.NDArray[Any]]] = {}

    def __call__(self) -> None:
        pairs = [(group, parameter) for group in self.optimizer.param_groups for parameter in group["params"]]
        states = [self.optimizer.state[parameter] for _, parameter in pairs]
        if not all(states):
            self.optimizer.step()  # the first step makes the state
            return
        for i, ((group, parameter), state) in enumerate(zip(pairs, states, strict=True)):
            if parameter.grad is not None:
                value, gradient = self._array(i, "value", parameter), self._array(i, "gradient", parameter.grad)
                mean, square, n_steps = (
                    self._array(i, name, state[name]) for name in ("exp_avg", "exp_avg_sq", "step")
                )
                n_steps += 1
                numbers = group["lr"], group["weight_decay"], *group["betas"], group["eps"], n_steps.item()
                self._step_adamw(value, gradient, mean, square, *numbers)

    def _array(self, i: int, name: str, tensor: torch.Tensor) -> npt.NDArray[Any]:
        """Tensor of parameter i as a flat array, which is made again if the tensor is another object."""
        made_from, array = self._arrays.get((i, name), (None, None))
        if made_from is not tensor or array is None:
            array = tensor.detach().contiguous().view(-1).numpy()
            if tensor.is_contiguous():  # the array shares its memory
                self._arrays[i, name] = tensor, array
        return array


class LinearStep:
    """Loss of a batch of a linear encoder; the gradients are stored in the parameters."""

    def __init__(self, encoder: Encoder, objective: Objective, X: Any, max_samples: int) -> None:
        from skhash.engine._kernels import center_and_drop

        self.encoder, self.X, self._center_and_drop = encoder, X, center_and_drop
        self._differentiate: Any = objective.loss_and_gradient
        is_array = isinstance(X, np.ndarray) and X.flags.c_contiguous and X.flags.writeable
        self._is_plain = is_array and X.dtype in (np.float32, np.float64) and encoder.offset is None
        self._parameters = encoder.hash.weight, encoder.hash.bias
        self._values = tuple(parameter.detach() for parameter in self._parameters)  # torch records no graph for them
        self._gradients = tuple(torch.empty_like(value) for value in self._values)
        self._samples = torch.empty(max_samples, X.shape[1]).numpy()
        self._mean, self._scale, self._dropout = encoder.mean.numpy(), encoder.scale.numpy(), encoder.dropout

    @np.errstate(over="ignore", invalid="ignore")  # the training loop raises if the loss is not finite
    def __call__(self, indices: npt.NDArray[np.int64], relevance: Any) -> float:
        """Loss of the batch with these indices and this relevance."""
        (weight, bias), (weight_slopes, bias_slopes) = self._values, self._gradients
        samples = torch.from_numpy(self._read(indices))
        outputs = torch.addmm(bias, samples, weight.T)
        loss: float
        loss, slopes = self._differentiate(outputs.numpy(), relevance)
        slopes = torch.from_numpy(slopes)
        torch.mm(slopes.T, samples, out=weight_slopes)
        torch.sum(slopes, 0, out=bias_slopes)
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            if parameter.grad is not gradient:
                parameter.grad = gradient
        return loss

    def _read(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Samples of a batch, centered, scaled and with dropout, of shape (n_batch, n_features)."""
        factor, n_dropped, seed = self._dropout.draw(self._scale.item())
        samples, X = self._samples[: len(indices)], self.X
        if not self._is_plain:
            X, indices = self.encoder.read(X, indices).numpy(), np.arange(len(indices))
        self._center_and_drop(X, indices, self._mean, np.float32(factor), n_dropped, np.uint64(seed), samples)
        return samples


def is_by_hand(encoder: Encoder, objective: Objective, augment: Any) -> bool:
    """Whether :class:`LinearStep` suits: a linear encoder on the CPU, a known derivative, one process, no `augment`."""
    layers = encoder.backbone, encoder.norm
    is_linear = type(encoder) is Encoder and all(type(layer) is nn.Identity for layer in layers)
    is_alone = n_processes() == 1 and next(_trained_with(objective).parameters(), None) is None
    is_on_cpu = encoder.mean.device.type == "cpu"
    return is_linear and is_on_cpu and is_alone and augment is None and objective.loss_and_gradient is not None


def shared_loss(encoder: Encoder, objective: Objective) -> Callable[..., torch.Tensor]:
    """Function of samples, relevance and indices that returns the loss; several processes share the backbone."""
    if n_processes() == 1:
        return functools.partial(objective, encoder)
    if next(encoder.backbone.parameters(), None) is not None:
        encoder.run_backbone = _DividedBackbone(encoder.backbone)
    return DistributedDataParallel(_StepModule(encoder, objective), find_unused_parameters=True)


class _StepModule(nn.Module):
    """Encoder and objective as one module, with all that is trained."""

    def __init__(self, encoder: Encoder, objective: Objective) -> None:
        super().__init__()
        self.encoder, self.objective, self.trained = encoder, objective, _trained_with(objective)

    def forward(self, X: torch.Tensor, relevance: Any, indices: Any) -> torch.Tensor:
        loss: torch.Tensor = self.objective(self.encoder, X, relevance, indices)
        return loss


class _DividedBackbone:
    """Outputs of a backbone for a batch, divided among the processes if each gets two samples or more."""

    def __init__(self, backbone: nn.Module) -> None:
        self.backbone, self.is_dividing = backbone, False
        for module in backbone.modules():
            if isinstance(module, _BatchNorm):
                module.forward = functools.partial(self._normalize, module, module.forward)  # type: ignore[method-assign]

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        n_parts, rank = n_processes(), dist.get_rank()
        if len(X) < 2 * n_parts:
            return self.backbone(X)  # type: ignore[no-any-return]
        sizes = [len(X) // n_parts + (i < len(X) % n_parts) for i in range(n_parts)]
        self.is_dividing = True
        try:
            outputs = _with_own_draws(self.backbone, X.split(sizes)[rank], rank)
        finally:
            self.is_dividing = False
        gathered: torch.Tensor = _Gather.apply(outputs.float(), sizes, rank)
        return gathered

    def _normalize(
        self, module: _BatchNorm, normalize: Callable[[torch.Tensor], torch.Tensor], X: torch.Tensor
    ) -> torch.Tensor:
        """Batch normalization by the moments of the whole batch, not of the part."""
        if not (self.is_dividing and module.training):
            return normalize(X)
        axes, shape = [0, *range(2, X.ndim)], (1, -1, *(1 for _ in X.shape[2:]))
        values = X.float()
        n = _Sum.apply(values.new_tensor([values.numel() / values.shape[1]]))
        mean = _Sum.apply(values.sum(axes)) / n
        deviations = values - mean.view(shape)
        variance = _Sum.apply(deviations.square().sum(axes)) / n
        if module.running_mean is not None:
            module.num_batches_tracked.add_(1)  # type: ignore[union-attr]
            rate = module.momentum
            rate = 1 / float(module.num_batches_tracked) if rate is None else rate  # type: ignore[arg-type]
            module.running_mean.lerp_(mean.detach(), rate)
            module.running_var.lerp_((variance * n / (n - 1)).detach(), rate)  # type: ignore[union-attr]
        outputs = deviations * torch.rsqrt(variance + module.eps).view(shape)
        if module.affine:
            outputs = outputs * module.weight.view(shape) + module.bias.view(shape)
        normalized: torch.Tensor = outputs.to(X.dtype)
        return normalized


def _with_own_draws(backbone: nn.Module, X: torch.Tensor, rank: int) -> torch.Tensor:
    """Outputs of a backbone that draws other random numbers in each process, whose generators stay equal."""
    shared = torch.Generator()
    shared.set_state(torch.get_rng_state())
    seed = int(torch.randint(2**31 - 2**16, (), generator=shared)) + rank
    with seeded(seed, X.device):
        before = generator_states(X.device)
        outputs: torch.Tensor = backbone(X)
        after = generator_states(X.device)
    if any(not torch.equal(before[name], after[name]) for name in ("torch", "cuda") if name in before):
        torch.rand(())
    return outputs


class _Gather(torch.autograd.Function):
    """The outputs of all processes. All compute the same loss, so no gradients are exchanged."""

    @staticmethod
    def forward(ctx: Any, outputs: torch.Tensor, sizes: list[int], rank: int) -> torch.Tensor:
        ctx.sizes, ctx.rank = sizes, rank
        padded = outputs.new_zeros(max(sizes), *outputs.shape[1:])
        padded[: len(outputs)] = outputs
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradient.split(ctx.sizes)[ctx.rank] * len(ctx.sizes), None, None


class _Sum(torch.autograd.Function):
    """Sum over the processes, of values and of gradients; the one in torch.distributed.nn is deprecated."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total
