"""QuantizedDeepHasher: deep hashers that pull their activations to the two values of a bit."""

from numbers import Real
from os import PathLike

import torch

from skhash._compat import Interval
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._parameters import Affinity, Augment, Backbone, LRSchedule, Optimizer, RandomState


class QuantizedDeepHasher(DeepHasher):
    """A supervised hasher with the parameter `quantization_weight`.

    A subclass implements `_objective`, which returns a
    :class:`~skhash.hashers.deep.QuantizedObjective`. It sets `_recipes`, the default values of
    `_settings` for "linear" and "deep" hashers, and `_sgd_rates`, the learning rates of SGD.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    quantization_weight : float, default=None
        Weight of the penalty; None uses the value of the recipe.
    affinity : "auto" or callable, default="auto"
        Which samples are similar.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Examples
    --------
    >>> from skhash import DHNHasher, DPSHHasher, DTSHHasher
    >>> from skhash.hashers.deep import QuantizedDeepHasher
    >>> all(
    ...     issubclass(cls, QuantizedDeepHasher)
    ...     for cls in (DHNHasher, DPSHHasher, DTSHHasher)
    ... )
    True
    """

    _supervised = True
    _settings: tuple[str, ...] = ("n_steps", "batch_size", "learning_rate", "weight_decay", "quantization_weight")
    _sgd_rates = {"linear": 0.1, "deep": 0.1}
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "quantization_weight": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        nbits: int = 32,
        *,
        quantization_weight: float | None = None,
        backbone: Backbone = None,
        affinity: Affinity = "auto",
        n_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        backbone_lr_scale: float = 1.0,
        lr_schedule: LRSchedule = "cosine",
        optimizer: Optimizer = "adam",
        weight_decay: float | None = None,
        input_dropout: float | None = None,
        smoothing: float | None = None,
        hidden_dropout: float = 0.3,
        augment: Augment = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        checkpoint: str | PathLike[str] | None = None,
        store_database: bool = True,
        device: str | torch.device = "auto",
        mixed_precision: bool = False,
        deterministic: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.nbits = nbits
        self.quantization_weight = quantization_weight
        self.backbone = backbone
        self.affinity = affinity
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.backbone_lr_scale = backbone_lr_scale
        self.lr_schedule = lr_schedule
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.input_dropout = input_dropout
        self.smoothing = smoothing
        self.hidden_dropout = hidden_dropout
        self.augment = augment
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.store_database = store_database
        self.device = device
        self.mixed_precision = mixed_precision
        self.deterministic = deterministic
        self.random_state = random_state
