"""The encoder: centred and scaled rows, a backbone, a hash layer of one output a bit."""

import numpy as np
import torch
from sklearn.utils import gen_batches
from torch import nn

from skhash.engine.backbones import build_backbone, output_width
from skhash.engine.data import batch_tensor, evenly_spaced
from skhash.engine.smoothing import LEARNED_FROM, Smoothing

CPU = torch.device("cpu")


class Encoder(nn.Module):
    """Map rows to activations.

    The rows are centred and divided by ONE global scale: a scale for each feature
    costs accuracy. Images are centred channel by channel. Dropout on the input is what
    keeps a linear map from overfitting; modules handed in bring their own.

    Parameters
    ----------
    shape : int or tuple of int
        Number of features of a row, or the shape of one that has several axes.
    nbits : int
        Number of outputs.
    backbone : None, "mlp", "conv" or torch.nn.Module
        What precedes the hash layer; a module is copied.
    input_dropout : float
        Share of the features set to zero in training.
    hidden_dropout : float
        Share of the hidden units of "mlp" and "conv" set to zero in training.
    batch_norm : bool, default=False
        Normalise each output over the batch, which keeps the bits balanced.
    mixed_precision : bool, default=False
        Run the backbone in bfloat16 while training.
    n_directions : int, default=0
        Without a backbone: directions along which the rows are smoothed.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.engine import Encoder
    >>> X = np.arange(12.0).reshape(4, 3)
    >>> encoder = Encoder(3, nbits=2)
    >>> encoder.set_statistics(X)
    >>> encoder.mean
    tensor([4.5000, 5.5000, 6.5000])
    >>> encoder(torch.tensor(X, dtype=torch.float32)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        shape,
        nbits,
        backbone=None,
        input_dropout=0.0,
        hidden_dropout=0.0,
        *,
        batch_norm=False,
        mixed_precision=False,
        n_directions=0,
    ):
        super().__init__()
        shape = tuple(np.atleast_1d(shape).tolist())
        self.mean = nn.Buffer(torch.zeros(shape if len(shape) == 1 else (shape[0], *(1 for _ in shape[1:]))))
        self.scale = nn.Buffer(torch.ones(()))
        if n_directions and (backbone is not None or len(shape) > 1):
            raise ValueError(
                f"n_directions={n_directions} with backbone={backbone!r} and shape={shape}; 0 is wanted, but for rows "
                "of features without a backbone."
            )
        self.backbone = (
            Smoothing(shape[0], n_directions)
            if n_directions
            else build_backbone(backbone, shape, input_dropout, hidden_dropout)
        )
        width = output_width(self.backbone, shape)
        self.hash = FastDropoutLinear(width, nbits, input_dropout if backbone is None else 0.0)
        nn.init.orthogonal_(self.hash.weight)
        nn.init.zeros_(self.hash.bias)
        self.norm = nn.BatchNorm1d(nbits, affine=False) if batch_norm else nn.Identity()
        self.mixed_precision = mixed_precision

    def forward(self, X):
        """Compute activations.

        Parameters
        ----------
        X : tensor of shape (n, ...), float32
            Rows.

        Returns
        -------
        tensor of shape (n, nbits), float32
            Activations.
        """
        return self.head(self.features(X))

    def features(self, X):
        """Compute the outputs of the backbone.

        Parameters
        ----------
        X : tensor of shape (n, ...), float32
            Rows, which are centred and scaled here.

        Returns
        -------
        tensor of shape (n, width), float32
            Outputs.
        """
        X = (X - self.mean) / self.scale
        mixed = self.mixed_precision and self.training and not isinstance(self.backbone, Smoothing)
        with torch.autocast(X.device.type, torch.bfloat16, enabled=mixed):
            return self.backbone(X).float()

    def head(self, features):
        """Compute activations from the outputs of the backbone.

        Parameters
        ----------
        features : tensor of shape (n, width)
            Outputs.

        Returns
        -------
        tensor of shape (n, nbits)
            Activations.
        """
        return self.norm(self.hash(features))

    def set_statistics(self, X):
        """Take the mean and the global scale from training rows, by slices of rows.

        Parameters
        ----------
        X : array or DatasetArray of shape (n_samples, ...)
            Training rows.
        """
        axes = (0, *range(2, X.ndim))
        slices = list(gen_batches(len(X), 4096))
        mean, n_values = 0.0, X.shape[0] * int(np.prod(X.shape[1:]))
        for rows in slices:
            mean = mean + batch_tensor(X, rows, CPU).double().sum(axes, keepdim=True)[0]
        mean = mean * (self.mean.numel() / n_values)
        variance = sum(((batch_tensor(X, rows, CPU).double() - mean) ** 2).sum().item() for rows in slices) / n_values
        self.mean.copy_(mean)
        self.scale.fill_(variance**0.5 if variance > 0 else 1.0)

    def learn_smoothing(self, X, exponent, rng):
        """Take the directions to smooth along from training rows; mean and scale are known by now.

        Parameters
        ----------
        X : array or DatasetArray of shape (n_samples, n_features)
            Training rows.
        exponent : float
            How much, see :class:`~skhash.engine.smoothing.Smoothing`.
        rng : numpy.random.RandomState
            Source of what is drawn.

        Raises
        ------
        ValueError
            For an encoder without directions.
        """
        if not isinstance(self.backbone, Smoothing):
            raise ValueError("n_directions=0; an encoder of some directions is wanted.")
        rows = batch_tensor(X, evenly_spaced(len(X), LEARNED_FROM), CPU)
        self.backbone.learn((rows - self.mean) / self.scale, exponent, rng)

    def fold(self):
        """Fold smoothing, which training alone has need of, into the hash layer.

        Returns
        -------
        self : Encoder
            The encoder, changed in place.
        """
        if isinstance(self.backbone, Smoothing):
            self.hash.weight.data = self.backbone(self.hash.weight.data)
            self.backbone = nn.Identity()
        return self


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
