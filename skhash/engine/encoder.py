"""The encoder: centred and scaled rows, a backbone, a hash layer of one output a bit."""

import copy

import torch
from torch import nn

HIDDEN = 512  # width of the two hidden layers of the "mlp" backbone


class Encoder(nn.Module):
    """Map rows to activations.

    The rows are centred and divided by ONE global scale: a scale for each feature
    costs accuracy. Dropout on the input is what keeps a linear map from overfitting.

    Parameters
    ----------
    n_features : int
        Number of features of a row.
    nbits : int
        Number of outputs.
    backbone : None, "mlp" or torch.nn.Module
        What precedes the hash layer; a module is copied.
    input_dropout : float
        Share of the features set to zero in training.
    hidden_dropout : float
        Share of the hidden units of "mlp" set to zero in training.
    """

    def __init__(self, n_features, nbits, backbone=None, input_dropout=0.0, hidden_dropout=0.0):
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(n_features))
        self.scale = nn.Buffer(torch.ones(()))
        self.input_dropout = nn.Dropout(input_dropout)
        self.backbone = _build_backbone(backbone, n_features, hidden_dropout)
        self.hash = nn.Linear(self._width(n_features), nbits)
        nn.init.orthogonal_(self.hash.weight)
        nn.init.zeros_(self.hash.bias)

    def forward(self, X):
        """Activations of shape (n, nbits) of rows of shape (n, n_features)."""
        return self.hash(self.backbone(self.input_dropout((X - self.mean) / self.scale)))

    def set_statistics(self, X):
        """Take the mean and the global scale from training rows (an ndarray)."""
        mean = X.mean(axis=0, dtype="float64")
        scale = float(((X - mean.astype(X.dtype)) ** 2).mean(dtype="float64")) ** 0.5
        self.mean.copy_(torch.as_tensor(mean))
        self.scale.fill_(scale if scale > 0 else 1.0)

    @torch.no_grad()
    def _width(self, n_features):
        self.backbone.eval()
        outputs = self.backbone(torch.zeros(2, n_features))
        self.backbone.train()
        if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
            raise ValueError("backbone must map rows (n, n_features) to one tensor (n, width).")
        return outputs.shape[1]


def _build_backbone(backbone, n_features, dropout):
    if backbone is None:
        return nn.Identity()
    if isinstance(backbone, nn.Module):
        return copy.deepcopy(backbone).cpu()
    layers: list[nn.Module] = []
    for width in (n_features, HIDDEN):
        linear = nn.Linear(width, HIDDEN, bias=False)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        layers += [linear, nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers)
