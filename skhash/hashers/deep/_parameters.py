"""Parameters that all deep hashers share: what they may be, and what their docstrings say of them."""

from numbers import Integral, Real
from os import PathLike

import torch
from torch import nn

from skhash._compat import Interval, StrOptions

CONSTRAINTS = {
    "backbone": [StrOptions({"mlp", "conv"}), nn.Module, None],
    "n_epochs": [Interval(Integral, 1, None, closed="left"), None],
    "batch_size": [Interval(Integral, 2, None, closed="left"), None],
    "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
    "backbone_lr_scale": [Interval(Real, 0, None, closed="left")],
    "lr_schedule": [StrOptions({"cosine", "constant"}), callable],
    "optimizer": [StrOptions({"adam", "sgd"}), callable],
    "weight_decay": [Interval(Real, 0, None, closed="left"), None],
    "input_dropout": [Interval(Real, 0, 1, closed="left"), None],
    "smoothing": [Interval(Real, 0, 1, closed="both"), None],
    "hidden_dropout": [Interval(Real, 0, 1, closed="left")],
    "augment": [StrOptions({"auto"}), callable, None],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "checkpoint": [str, PathLike, None],
    "mixed_precision": ["boolean"],
    "device": [str, torch.device],
    "deterministic": ["boolean"],
    "random_state": ["random_state"],
}

PARAMETERS = """
    backbone : None, "mlp", "conv" or torch.nn.Module, default={backbone}
        What precedes the hash layer: nothing (a linear hasher), two hidden layers of
        512 units, six convolutions for images of about 32 x 32 pixels, or any module
        that maps rows to (n, width). A module is copied, trained in training mode, and
        receives centred rows.
    n_epochs : int, default=None
        Passes over the training rows; see Notes for None.
    batch_size : int, default=None
        Rows of a step, each compared with the others; see Notes for None.
    learning_rate : float, default=None
        Step size of the hash layer and of named backbones; see Notes for None.
    backbone_lr_scale : float, default=1.0
        Factor of the step size for the backbone; 0 freezes it.
    lr_schedule : "cosine", "constant" or callable, default="cosine"
        Decay of the step size to 0 over the run, none, or a factory that maps the
        optimizer to a torch scheduler (stepped after each batch).
    optimizer : "adam", "sgd" or callable, default="adam"
        AdamW, SGD with momentum 0.9, or a factory of a torch optimizer.
    weight_decay : float, default=None
        Weight decay, for Adam decoupled and multiplied by the step size; see Notes for None.
    input_dropout : float, default={input_dropout}
        Share p of the features (smoothed ones, where they are) set to zero in training, for a
        linear hasher (as Gaussian noise of that variance) and "mlp". None takes p / (1 - p) = 4 n_features / n_samples,
        at most 3.
    smoothing : float, default=None
        For a linear hasher of rows of features: how much those that occur together act together
        in training, the power of the principal variances in :class:`~skhash.engine.smoothing.Smoothing`. None
        takes 0.4 where tags are learned from shared labels (fewer than one entry in twenty is not
        zero), and 0, which is none, otherwise.
    hidden_dropout : float, default={hidden_dropout}
        Share of the hidden units of "mlp" and "conv" set to zero in training.
    early_stopping : bool, default=False
        Hold out a share of the rows, watch the exact metric on them, and keep the best epoch.
    validation_fraction : float, default=0.1
        That share.
    n_iter_no_change : int, default=10
        Epochs without a better value before stopping.
    checkpoint : path-like, default=None
        Folder where the state of the training is kept, epoch by epoch, for
        ``fit(X, y, resume=True)``; each combination of parameters and rows has its own file.
        Parameters that can be pickled are wanted then.
        A `random_state` that is an instance moves on with every fit, and finds it in a new
        process only.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    device : str, default="auto"
        "auto" takes a CUDA device if there is one; otherwise "cpu", "cuda" or "cuda:1" and the like.
    mixed_precision : bool, default=False
        Train the backbone in bfloat16, which large ones on a GPU gain from.
    deterministic : bool, default=False
        Restrict torch to deterministic algorithms, which matters on a GPU, and a backbone
        that is handed in to one CPU thread; the others run on one thread anyway. On a GPU
        torch may ask for ``CUBLAS_WORKSPACE_CONFIG=:4096:8`` in the environment.
    random_state : int, RandomState instance or None, default=None
        Decides the result alone; the global generators are left untouched.
""".strip()

ATTRIBUTES = """
    weights_ : dict of str to ndarray
        The trained encoder; with smoothing its "hash.weight" is for smoothed rows.
    settings_ : dict
        The values of the parameters that may be left None: what was given, or what stood for None.
    history_ : list of dict
        For each epoch its number, mean loss, and validation metric if there is one.
    n_epochs_ : int
        Number of epochs run.
    affinity_ : callable
        The fitted affinity, None for a hasher without one.
    database_codes_ : ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8
        Packed codes of the training rows.
    database_y_ : array of shape (n_samples, ...)
        Their targets.
    input_shape_ : tuple of int
        Shape of one row.
    n_features_in_ : int
        Number of features of the training rows, where these are vectors.
""".strip()


def document(cls):
    """Fill the shared parts into the docstring of a deep hasher."""
    if cls.__doc__ is not None:
        signature = cls.__init__.__kwdefaults__ or {}
        shared = PARAMETERS
        for name in ("backbone", "input_dropout", "hidden_dropout"):
            shared = shared.replace(f"{{{name}}}", repr(signature.get(name)).replace("'", '"'))
        cls.__doc__ = cls.__doc__.replace("{shared parameters}", shared).replace("{shared attributes}", ATTRIBUTES)
