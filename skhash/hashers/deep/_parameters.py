"""Parameters that all deep hashers share: their types, defaults and constraints, and their part of the docstrings.

A new one is added in this file alone.
"""

import inspect
import textwrap
from collections.abc import Callable
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, ForwardRef, Literal, TypedDict

import numpy as np

from skhash._compat import HasMethods, Interval, StrOptions
from skhash._validation import class_names

if TYPE_CHECKING:
    import torch

Affinity = Literal["auto"] | Callable[..., Any]
Augmentation = Callable[["torch.Tensor"], "torch.Tensor"]
Augment = Literal["auto"] | Augmentation | None
LRSchedule = Literal["cosine", "constant"] | Callable[["torch.optim.Optimizer"], Any]
Optimizer = Literal["adam", "sgd"] | Callable[..., "torch.optim.Optimizer"]
RandomState = int | np.random.RandomState | None


class SharedParameters(TypedDict, total=False):
    """Types of the shared parameters, for ``**shared: Unpack[SharedParameters]``."""

    backbone: "str | torch.nn.Module | None"
    affinity: Affinity | None
    n_epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    backbone_lr_scale: float | dict[str, float] | None
    lr_schedule: LRSchedule
    optimizer: Optimizer
    weight_decay: float | None
    input_dropout: float | None
    smoothing: float | None
    hidden_dropout: float | None
    augment: Augment
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    checkpoint: str | PathLike[str] | None
    store_database: bool
    device: "str | torch.device"
    mixed_precision: bool
    deterministic: bool
    random_state: RandomState


#: defaults of the shared parameters, unless `_shared_defaults` of a class has another
SHARED: dict[str, Any] = {
    "backbone": None,
    "affinity": "auto",
    "n_epochs": None,
    "batch_size": None,
    "learning_rate": None,
    "backbone_lr_scale": None,
    "lr_schedule": "cosine",
    "optimizer": "adam",
    "weight_decay": None,
    "input_dropout": None,
    "smoothing": None,
    "hidden_dropout": None,
    "augment": None,
    "early_stopping": False,
    "validation_fraction": 0.1,
    "n_iter_no_change": 10,
    "checkpoint": None,
    "store_database": True,
    "device": "auto",
    "mixed_precision": False,
    "deterministic": False,
    "random_state": None,
}

#: defaults for a pretrained network that is trained, and its fewest and most epochs
FINE_TUNING: dict[str, Any] = {
    "n_steps": 1100,
    "batch_size": 64,
    "learning_rate": 0.001,
    "weight_decay": 0.1,  # that of a recipe may shrink the weights of the network
}
FINE_TUNING_EPOCHS = (5, 30)
#: defaults for a network of the user with random weights, in place of those of "mlp", whose batch norms bear a large
#: learning rate and weight decay
OF_MODULE: dict[str, Any] = {"batch_size": 64, "learning_rate": 0.001, "weight_decay": 0.1}


class InstancesOf(HasMethods):
    """Instances of a class with a dotted name, whose library need not be imported, as the constraint of a parameter."""

    def __init__(self, name: str) -> None:
        super().__init__([])
        self.name = name

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value is an instance of the class."""
        return self.name in class_names(val)

    def __str__(self) -> str:
        return f"an instance of {self.name!r}"


CONSTRAINTS: dict[str, list[Any]] = {
    "backbone": [str, InstancesOf("torch.nn.modules.module.Module"), None],
    "n_epochs": [Interval(Integral, 1, None, closed="left"), None],
    "batch_size": [Interval(Integral, 2, None, closed="left"), None],
    "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
    "backbone_lr_scale": [Interval(Real, 0, None, closed="left"), dict, None],
    "lr_schedule": [StrOptions({"cosine", "constant"}), callable],
    "optimizer": [StrOptions({"adam", "sgd"}), callable],
    "weight_decay": [Interval(Real, 0, None, closed="left"), None],
    "input_dropout": [Interval(Real, 0, 1, closed="left"), None],
    "smoothing": [Interval(Real, 0, 1, closed="both"), None],
    "hidden_dropout": [Interval(Real, 0, 1, closed="left"), None],
    "augment": [StrOptions({"auto"}), callable, None],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "checkpoint": [str, PathLike, None],
    "mixed_precision": ["boolean"],
    "device": [str, InstancesOf("torch.device")],
    "deterministic": ["boolean"],
    "random_state": ["random_state"],
}

PARAMETERS = """
backbone : None, str or torch.nn.Module, default={backbone}
    Network before the hash layer. None is a linear hasher, "mlp" two hidden layers of
    512 units, "conv" six convolutions for images of about 32 x 32 pixels. "efficientnet-lite0",
    "timm/NAME" and "torchvision/NAME" are networks pretrained on ImageNet, see
    :func:`~skhash.engine.load_network`. A module must map centered samples to shape
    (n, width); it is copied before training.
n_epochs : int, default=None
    Number of passes over the training samples; see Notes for None.
batch_size : int, default=None
    Target batch size: an epoch has n_samples / batch_size batches, rounded, of nearly the same
    size. See Notes for None.
learning_rate : float, default=None
    Learning rate of the hash layer, and of "mlp" and "conv"; see Notes for None.
backbone_lr_scale : float or dict, default=None
    Factor of the learning rate for the backbone; 0 freezes the backbone. A dict maps beginnings
    of the names of its parameters to factors: the longest one counts, and 1 where there is none.
    None uses 1, and less for a pretrained network, see Notes. Batch norms of a pretrained network
    keep their statistics.
lr_schedule : "cosine", "constant" or callable, default="cosine"
    Schedule of the learning rate: cosine decay to 0, none, or a function that maps the
    optimizer to a torch scheduler, which is stepped after each batch.
optimizer : "adam", "sgd" or callable, default="adam"
    AdamW, SGD with momentum 0.9, or a function that maps parameter groups to a torch optimizer.
weight_decay : float, default=None
    Weight decay; decoupled for "adam", an L2 penalty for "sgd"; see Notes for None.
input_dropout : float, default={input_dropout}
    Probability p of setting a feature to zero in training, for linear hashers (after smoothing)
    and for "mlp". With r = n_features / n_samples, None uses p / (1 - p) = min(3 r, 0.6) for
    linear hashers, and min(4 r, max(1, r), 3) for "mlp".
smoothing : float, default=None
    Exponent of :class:`~skhash.engine.layers.Smoothing`, which makes features that occur
    together act together. For linear hashers of vectors only. None uses 0.4 for tags (less than
    5 % of the entries are nonzero) that are learned from shared labels, and 0 otherwise.
hidden_dropout : float, default=None
    Dropout probability of the hidden units of "mlp" and "conv"; None uses {hidden_dropout}.
early_stopping : bool, default=False
    Whether to hold out samples, evaluate them after each epoch by the metric that is trained (or
    by AP, if the loss is no metric), and return the best epoch.
validation_fraction : float, default=0.1
    Fraction of the training samples to hold out.
n_iter_no_change : int, default=10
    Number of epochs without improvement after which training stops.
checkpoint : path-like, default=None
    Folder in which to save the state of the training after each epoch, for
    ``fit(X, y, resume=True)``. Each combination of parameters and data has its own file.
    A parameter that cannot be identified is refused, see :ref:`resume`. A `random_state`
    that is an instance changes with every fit, so it finds its checkpoint only in a new
    process. If a file cannot be written, for example because the disk is full, training
    continues with a warning.
store_database : bool, default=True
    Whether to store the codes and targets of the training samples for :meth:`score`.
device : str, default="auto"
    "cpu", "cuda", "cuda:1", ...; "auto" uses a CUDA device if there is one.
mixed_precision : bool, default=False
    Whether to train the backbone in bfloat16, which makes large backbones faster on a GPU.
deterministic : bool, default=False
    Whether to use deterministic algorithms of torch only, and one CPU thread for a backbone
    that is a module. On a GPU torch may require ``CUBLAS_WORKSPACE_CONFIG=:4096:8`` in the
    environment.
random_state : int, RandomState instance or None, default=None
    Seed of the training. The global generators are not used.
""".strip()

ATTRIBUTES = """
weights_ : dict of str to ndarray
    Weights of the trained encoder; with smoothing "hash.weight" is for smoothed samples.
settings_ : dict
    Values of the parameters that may be None.
history_ : list of dict
    For each epoch its number, its mean loss, and the validation metric if there is one.
n_epochs_ : int
    Number of epochs run.
affinity_ : callable
    Fitted affinity, None for a hasher without one.
database_ : Database or None
    Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
input_shape_ : tuple of int
    Shape of one sample.
n_features_in_ : int
    Number of features, if samples are vectors.
""".strip()

DEFAULTS = """
Parameters that are None take the values of this table, where `n_steps` gradient steps make
between {fewest} and {most} epochs. With ``optimizer="sgd"`` the learning rate is that of the last
column, and the weight decay is 5e-4.

{table}

The ``backbone_lr_scale`` of a pretrained network is {network_scale}. A network that is trained takes {fine_tuning},
and between {fewest_fine} and {most_fine} epochs.

To see the epochs of a long fit, ``set_callbacks(ProgressBar())`` with ``sklearn.callback.ProgressBar``, which
needs rich.
""".strip()


def list_parameters(cls: Any) -> None:
    """Write the shared parameters into the signature of the constructor, where scikit-learn looks for them."""
    signature = inspect.signature(cls.__init__)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind != inspect.Parameter.VAR_KEYWORD]
    if len(own) == len(signature.parameters):  # all of them are listed
        return
    types = {
        name: hint.__forward_arg__ if isinstance(hint, ForwardRef) else hint
        for name, hint in SharedParameters.__annotations__.items()
    }
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[name])
        for name, default in (SHARED | cls._shared_defaults).items()
        if name not in signature.parameters
    ]
    cls.__init__.__signature__ = signature.replace(parameters=[*own, *shared])


def document(cls: Any) -> None:
    """Fill the shared parts into the docstring of a deep hasher: parameters, attributes, and the table of defaults."""
    if cls.__doc__ is None:
        return
    shared = PARAMETERS
    defaults = SHARED | cls._shared_defaults | {"hidden_dropout": cls._hidden_dropout}
    for name in ("backbone", "input_dropout", "hidden_dropout"):
        default = defaults[name]
        shared = shared.replace(f"{{{name}}}", repr(default).replace("'", '"'))
    doc = inspect.cleandoc(cls.__doc__)
    doc = doc.replace("{shared parameters}", shared).replace("{shared attributes}", ATTRIBUTES)
    if "{defaults}" in doc:
        doc = doc.replace("{defaults}", _defaults(cls))
    cls.__doc__ = textwrap.indent(doc, "    ").strip() + "\n    "


def _defaults(cls: Any) -> str:
    """Paragraph and table of the values that replace None."""
    rows = [["hasher", *cls._settings, "learning_rate (sgd)"]]
    kinds = {"deep": "any other backbone" if cls._of_module else "any backbone"}
    for kind, values in cls._recipes.items():
        rows.append([kinds.get(kind, kind), *map(str, values), str(cls._sgd_rates[kind])])
    if cls._of_module:
        of_module = dict(zip(cls._settings, cls._recipes["deep"], strict=True)) | cls._of_module
        rows.append(["a module", *map(str, of_module.values()), str(cls._sgd_rates["deep"])])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    fewest, most = cls._n_epochs_range
    *some, last = (f"{name} {value}" for name, value in FINE_TUNING.items())
    return DEFAULTS.format(
        fewest=fewest,
        most=most,
        table="\n".join([rule, lines[0], rule, *lines[1:], rule]),
        fine_tuning=f"{', '.join(some)} and {last}",
        network_scale="0, which freezes it" if cls._network_scale == 0 else cls._network_scale,
        fewest_fine=FINE_TUNING_EPOCHS[0],
        most_fine=FINE_TUNING_EPOCHS[1],
    )
