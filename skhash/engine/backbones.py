"""Backbones: the named ones, and what is asked of those that are handed in."""

import copy

import torch
from torch import nn

HIDDEN = 512  # width of the two hidden layers of "mlp"
# channels of the convolutions of "conv"; a 0 halves the image. Fine detail is dear and counts for little
CONVOLUTIONS = (32, 0, 64, 64, 0, 128, 128, 0, 256)


def build_backbone(backbone, shape, input_dropout=0.0, hidden_dropout=0.0):
    """Build what precedes the hash layer.

    Parameters
    ----------
    backbone : None, "mlp", "conv" or torch.nn.Module
        Nothing, two hidden layers, a small network for images of about 32 x 32
        pixels, or a module, which is copied.
    shape : tuple of int
        Shape of one row.
    input_dropout : float
        Share of the features that "mlp" sets to zero in training.
    hidden_dropout : float
        Share of the hidden units that "mlp" and "conv" set to zero in training.

    Returns
    -------
    torch.nn.Module
        Maps (n, *shape) to (n, width).

    Raises
    ------
    ValueError
        For "conv" and rows that are no images.

    Examples
    --------
    >>> import torch
    >>> from skhash.engine.backbones import build_backbone
    >>> build_backbone("conv", (3, 32, 32))(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 256])
    >>> build_backbone(None, (3, 32, 32))  # the hash layer alone
    Flatten(start_dim=1, end_dim=-1)
    """
    if isinstance(backbone, nn.Module):
        return copy.deepcopy(backbone).cpu()
    if backbone is None:
        return nn.Identity() if len(shape) == 1 else nn.Flatten()
    if backbone == "conv":
        return _conv(shape, hidden_dropout)
    flatten = [] if len(shape) == 1 else [nn.Flatten()]
    return nn.Sequential(*flatten, *_mlp(int(torch.Size(shape).numel()), input_dropout, hidden_dropout))


def output_width(backbone, shape):
    """Width of a backbone's outputs, found by a trial with two rows of zeros.

    Raises
    ------
    ValueError
        If the backbone does not map (n, *shape) to (n, width).
    """
    was_training = backbone.training
    backbone.eval()
    try:
        with torch.no_grad():
            outputs = backbone(torch.zeros(2, *shape))
    except RuntimeError as error:
        rows = f"{shape[0]} features" if len(shape) == 1 else f"shape {tuple(shape)}"
        raise ValueError(f"backbone does not take rows of {rows}: {error}") from error
    backbone.train(was_training)
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
        raise ValueError("backbone must map rows (n, n_features) to one tensor (n, width).")
    return outputs.shape[1]


def _mlp(n_features, input_dropout, hidden_dropout):
    layers: list[nn.Module] = [nn.Dropout(input_dropout)]
    for width in (n_features, HIDDEN):
        linear = nn.Linear(width, HIDDEN, bias=False)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        layers += [linear, nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Dropout(hidden_dropout)]
    return layers


def _conv(shape, hidden_dropout):
    if len(shape) != 3:
        raise ValueError(
            f"backbone='conv' with rows of shape {tuple(shape)}; images (channels, height, width) are wanted."
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
    network: nn.Module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(hidden_dropout))
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a third faster
