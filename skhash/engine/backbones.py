"""Backbones: the built-in ones, pretrained ones, and the check of those of the user."""

import copy

import torch
from torch import nn

from skhash.engine.layers import Dropout
from skhash.engine.networks import load_network

HIDDEN = 512  # width of the two hidden layers of "mlp"
# channels of the convolutions of "conv"; a 0 halves the image
CONVOLUTIONS = (32, 0, 64, 64, 0, 128, 128, 0, 256)


def build_backbone(
    backbone: str | nn.Module | None,
    shape: tuple[int, ...],
    input_dropout: float = 0.0,
    hidden_dropout: float = 0.0,
) -> nn.Module:
    """Module before the hash layer; it maps (n, *shape) to (n, width)."""
    if isinstance(backbone, nn.Module):
        return copy.deepcopy(backbone).cpu().float()
    if backbone is None:
        return nn.Identity() if len(shape) == 1 else nn.Flatten()
    if backbone == "conv":
        return _conv(shape, hidden_dropout)
    if backbone != "mlp":
        return load_network(backbone)
    flatten = [] if len(shape) == 1 else [nn.Flatten()]
    return nn.Sequential(*flatten, *_mlp(int(torch.Size(shape).numel()), input_dropout, hidden_dropout))


def output_width(backbone: nn.Module, shape: tuple[int, ...]) -> int:
    """Number of outputs of a backbone, from a trial with two samples of zeros."""
    was_training = backbone.training
    backbone.eval()
    try:
        with torch.no_grad():
            outputs = backbone(torch.zeros(2, *shape))
    except RuntimeError as error:
        samples = f"{shape[0]} features" if len(shape) == 1 else f"shape {tuple(shape)}"
        raise ValueError(f"`backbone` must accept samples of {samples}. It raised: {error}") from error
    backbone.train(was_training)
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
        given = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise ValueError(
            "`backbone` must map samples of shape (n, n_features) to a tensor of shape (n, width). "
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
