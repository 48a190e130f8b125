"""Backbones: the built-in ones, pretrained ones, and the check of those of the user."""

import copy
from typing import Any

import torch
from sklearn.base import clone
from torch import nn

from skhash.engine.layers import Dropout
from skhash.engine.networks import load_network

HIDDEN = 512  # width of the two hidden layers of "mlp"
# channels of the convolutions of "conv"; a 0 halves the image
CONVOLUTIONS = (32, 0, 64, 64, 0, 128, 128, 0, 256)

#: what to do if a network does not accept images of a shape
_SHAPES = (
    " Read images of the size and the channels of the network, as load_images(folder, size={}, channels=...) does, "
    "or build it for these images."
)


def build_backbone(
    backbone: str | nn.Module | None,
    shape: tuple[int, ...],
    input_dropout: float = 0.0,
    hidden_dropout: float = 0.0,
    *,
    name: str = "backbone",
) -> nn.Module:
    """Module before the hash layer; it maps (n, *shape) to (n, width). Errors name the parameter `name`."""
    if isinstance(backbone, nn.Module):
        _check_weights(backbone, name)
        return copied_module(backbone, name).cpu().float()
    if backbone is None:
        return nn.Identity() if len(shape) == 1 else nn.Flatten()
    if backbone == "conv":
        return _conv(shape, hidden_dropout)
    if backbone != "mlp":
        return load_network(backbone)
    flatten = [] if len(shape) == 1 else [nn.Flatten()]
    return nn.Sequential(*flatten, *_mlp(int(torch.Size(shape).numel()), input_dropout, hidden_dropout))


def clone_with_module(estimator: Any, name: str) -> Any:
    """Clone of an estimator whose parameter `name` is a module, which is copied as a fit copies it."""
    without = copy.copy(estimator)
    setattr(without, name, None)
    cloned = clone(without)
    setattr(cloned, name, copied_module(getattr(estimator, name), name))
    return cloned


def copied_module(module: nn.Module, name: str) -> nn.Module:
    """Copy of a module; ValueError that names the parameter if it cannot be copied."""
    # what a forward pass has computed, such as the weight of the older weight_norm, has a graph, which is not copied
    computed = [
        value
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, torch.Tensor) and not value.is_leaf
    ]
    try:
        with torch.no_grad():  # the copy of a scripted module would depend on the original
            copied: nn.Module = copy.deepcopy(module, {id(value): value.detach() for value in computed})
    except Exception as error:  # a class of the user may raise anything here
        raise ValueError(
            f"`{name}` must be a module that copy.deepcopy copies, because the original stays as it is. "
            f"Got a {type(module).__name__}, for which it raised: {error}. Remove the attribute that cannot be copied."
        ) from error
    for parameter, original in zip(copied.parameters(), module.parameters(), strict=True):
        if parameter.requires_grad != original.requires_grad:
            parameter.requires_grad_(original.requires_grad)
    return copied


def _check_weights(module: nn.Module, name: str) -> None:
    """Raise ValueError for weights without values (the meta device), and for those that are no tensors of floats."""
    if any(value.is_meta for value in (*module.parameters(), *module.buffers())):
        raise ValueError(
            f"`{name}` must be a module with weights. Got a {type(module).__name__} on the meta device instead. Build "
            "it on the CPU, or call to_empty(device='cpu') and load_state_dict."
        )
    state, is_frozen = module.state_dict().values(), not hasattr(module, "training")  # by torch.jit.freeze
    if is_frozen or any(not isinstance(value, torch.Tensor) or value.is_quantized for value in state):
        raise ValueError(
            f"`{name}` must be a module whose state_dict has its weights as tensors. Got a {type(module).__name__} "
            "that is quantized, frozen or has another state. Pass the module as it was before that."
        )


def output_width(backbone: nn.Module, shape: tuple[int, ...], *, name: str = "backbone") -> int:
    """Number of outputs of a backbone, from a trial with two samples of zeros. Errors name the parameter `name`."""
    was_training = backbone.training
    backbone.eval()
    try:
        with torch.no_grad():
            outputs = backbone(torch.zeros(2, *shape))
    except Exception as error:  # a network of images of one size may raise anything for another
        samples = f"{shape[0]} features" if len(shape) == 1 else f"shape {tuple(shape)}"
        remedy = _SHAPES.format(getattr(backbone, "input_size", "N")) if len(shape) == 3 else ""
        text = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(".")
        raise ValueError(f"`{name}` must accept samples of {samples}. It raised {text}.{remedy}") from error
    backbone.train(was_training)
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
        given = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise ValueError(
            f"`{name}` must map samples of shape (n, n_features) to a tensor of shape (n, width). "
            f"Got {given} for two samples instead."
        )
    return int(outputs.shape[1])


def _mlp(n_features: int, input_dropout: float, hidden_dropout: float) -> list[nn.Module]:
    layers: list[nn.Module] = [Dropout(input_dropout)]
    for width in (n_features, HIDDEN):
        linear = nn.Linear(width, HIDDEN, bias=False)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        layers += [linear, nn.BatchNorm1d(HIDDEN), nn.ReLU(), Dropout(hidden_dropout)]
    return layers


def _conv(shape: tuple[int, ...], hidden_dropout: float) -> nn.Module:
    if len(shape) != 3:
        remedy = " For gray images pass X[:, None]." if len(shape) == 2 else ""
        raise ValueError(
            f"`X` must hold images of shape (channels, height, width) for backbone='conv'. Got samples of shape "
            f"{tuple(shape)} instead.{remedy}"
        )
    layers: list[nn.Module] = []
    n_inputs = shape[0]
    for width in CONVOLUTIONS:
        if width == 0:
            layers += [nn.MaxPool2d(2, ceil_mode=True)]
            continue
        convolution = nn.Conv2d(n_inputs, width, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
        layers += [convolution, nn.BatchNorm2d(width), nn.ReLU()]
        n_inputs = width
    network: nn.Module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), Dropout(hidden_dropout))
    channels_last: nn.Module = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return channels_last  # faster (the case "conv" of benchmarks/gpu.py)
