"""The encoder: centred and scaled rows, a backbone, a hash layer of one output a bit."""

import copy

import numpy as np
import torch
from sklearn.utils import gen_batches
from torch import nn

HIDDEN = 512  # width of the two hidden layers of the "mlp" backbone


class Encoder(nn.Module):
    """Map rows to activations.

    The rows are centred and divided by ONE global scale: a scale for each feature
    costs accuracy. Dropout on the input is what keeps a linear map from overfitting;
    modules handed in bring their own.

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
        self.backbone = _build_backbone(backbone, n_features, input_dropout, hidden_dropout)
        self.hash = FastDropoutLinear(self._width(n_features), nbits, input_dropout if backbone is None else 0.0)
        nn.init.orthogonal_(self.hash.weight)
        nn.init.zeros_(self.hash.bias)

    def forward(self, X):
        """Activations of shape (n, nbits) of rows of shape (n, n_features)."""
        return self.hash(self.backbone((X - self.mean) / self.scale))

    def set_statistics(self, X):
        """Take the mean and the global scale from training rows (an array), by slices of rows."""
        slices = list(gen_batches(len(X), 4096))
        mean = sum(X[rows].sum(axis=0, dtype=np.float64) for rows in slices) / len(X)
        variance = sum(np.sum((X[rows] - mean) ** 2) for rows in slices) / X.size
        self.mean.copy_(torch.as_tensor(mean))
        self.scale.fill_(variance**0.5 if variance > 0 else 1.0)

    @torch.no_grad()
    def _width(self, n_features):
        self.backbone.eval()
        try:
            outputs = self.backbone(torch.zeros(2, n_features))
        except RuntimeError as error:
            raise ValueError(f"backbone does not take rows of {n_features} features: {error}") from error
        self.backbone.train()
        if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
            raise ValueError("backbone must map rows (n, n_features) to one tensor (n, width).")
        return outputs.shape[1]


class FastDropoutLinear(nn.Linear):
    """A linear layer under dropout of its inputs, sampled at its outputs.

    Dropping inputs with probability p adds to output k a noise of variance
    p / (1 - p) * sum_j x_j^2 w_kj^2, nearly Gaussian as a sum over many inputs (Wang,
    Manning: Fast dropout training, ICML 2013). Drawn directly it is cheaper by the
    ratio of inputs to outputs, and independent between the outputs.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Shape of the layer.
    dropout : float, default=0.0
        Probability p.
    """

    def __init__(self, n_inputs, n_outputs, dropout=0.0):
        super().__init__(n_inputs, n_outputs)
        self.dropout = dropout

    def forward(self, X):
        """Outputs of shape (n, n_outputs), noisy in training."""
        outputs = super().forward(X)
        if not self.training or self.dropout == 0:
            return outputs
        variance = nn.functional.linear(X**2, self.weight**2) * (self.dropout / (1 - self.dropout))
        return outputs + torch.randn_like(outputs) * torch.sqrt(variance + 1e-12)


def _build_backbone(backbone, n_features, input_dropout, hidden_dropout):
    if backbone is None:
        return nn.Identity()
    if isinstance(backbone, nn.Module):
        return copy.deepcopy(backbone).cpu()
    layers: list[nn.Module] = [nn.Dropout(input_dropout)]
    for width in (n_features, HIDDEN):
        linear = nn.Linear(width, HIDDEN, bias=False)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        layers += [linear, nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Dropout(hidden_dropout)]
    return nn.Sequential(*layers)
