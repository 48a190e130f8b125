"""The encoder: centered and scaled samples, a backbone, and a hash layer with one output per bit."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import gen_batches
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from skhash._validation import FAR, evenly_spaced
from skhash.engine.backbones import build_backbone, output_width
from skhash.engine.data import batch_tensor
from skhash.engine.layers import N_MAX_SAMPLES, Dropout, Smoothing
from skhash.engine.networks import check_range, declared_statistics, is_pretrained

N_MAX_IMAGES = 200  # from which the mean of the outputs of a pretrained backbone is computed
N_IMAGES = 50  # at once


class Encoder(nn.Module):
    """Map samples to activations.

    Samples are centered and divided by ONE global scale: a scale per feature costs accuracy.
    Images are centered per channel. A backbone that declares the statistics of its input, in the
    attributes `input_mean` and `input_std` or in those of timm, gets images with these. Batch norms
    of a pretrained backbone keep their statistics in training. Dropout of the input keeps a linear map from
    overfitting; modules of the user bring their own.

    float32 has seven digits. Features that are far from 0 for their scale, such as time stamps,
    lose them: :meth:`read` subtracts an offset from those features in float64.

    Parameters
    ----------
    shape : int or tuple of int
        Number of features of a sample, or the shape of a sample with several axes.
    nbits : int
        Number of outputs.
    backbone : None, str or torch.nn.Module, default=None
        What precedes the hash layer: "mlp", "conv", a name for :func:`load_network`, or a module,
        which is copied.
    input_dropout : float, default=0.0
        Share of the features set to zero in training.
    hidden_dropout : float, default=0.0
        Share of the hidden units of "mlp" and "conv" set to zero in training.
    batch_norm : bool, default=False
        Normalize each output over the batch, which keeps the bits balanced.
    mixed_precision : bool, default=False
        Run the backbone in bfloat16 while training.
    n_directions : int, default=0
        Number of directions along which samples are smoothed, without a backbone.
    has_offset : bool, default=False
        Whether the weights that will be loaded have an offset. :meth:`set_statistics` finds out
        by itself.
    pretrained : bool, default=None
        Whether the backbone is pretrained. None finds out: a network of a name is, and so is a
        module that declares its input, or whose batch norms have seen samples.

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

    mean: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor | None  # float32; samples minus the offset have the mean `mean`
    feature_mean: torch.Tensor | None
    feature_scale: torch.Tensor | None

    def __init__(
        self,
        shape: int | tuple[int, ...],
        nbits: int,
        backbone: str | nn.Module | None = None,
        input_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        *,
        batch_norm: bool = False,
        mixed_precision: bool = False,
        n_directions: int = 0,
        has_offset: bool = False,
        pretrained: bool | None = None,
    ) -> None:
        super().__init__()
        nbits, n_directions = int(nbits), int(n_directions)
        shape = tuple(np.atleast_1d(shape).tolist())
        self.mean = nn.Buffer(torch.zeros(shape if len(shape) == 1 else (shape[0], *(1 for _ in shape[1:]))))
        self.register_buffer("offset", torch.zeros_like(self.mean) if has_offset else None)
        self._copied_offset: tuple[Any, int, Any] = (None, 0, None)
        if n_directions and (backbone is not None or len(shape) > 1):
            raise ValueError(
                f"`n_directions` must be 0 with a backbone or with samples that are not vectors. Got {n_directions} "
                f"with backbone={backbone!r} and shape={shape}."
            )
        self.backbone: nn.Module = (
            Smoothing(shape[0], n_directions)
            if n_directions
            else build_backbone(backbone, shape, input_dropout, hidden_dropout)
        )
        self._declared = declared_statistics(self.backbone, shape[0])
        self.scale = nn.Buffer(torch.ones(() if self._declared is None else self.mean.shape))
        self.pretrained = is_pretrained(backbone) if pretrained is None else pretrained
        width = output_width(self.backbone, shape)
        self.register_buffer("feature_mean", torch.zeros(width) if self.pretrained else None)
        self.register_buffer("feature_scale", torch.ones(()) if self.pretrained else None)
        self.dropout = Dropout(input_dropout if backbone is None else 0.0)
        self.hash = nn.Linear(width, nbits)
        nn.init.orthogonal_(self.hash.weight)
        nn.init.zeros_(self.hash.bias)
        self.norm: nn.Module = nn.BatchNorm1d(nbits, affine=False) if batch_norm else nn.Identity()
        self.mixed_precision = mixed_precision
        #: runs the backbone in training if several processes share it
        self.run_backbone: Callable[[torch.Tensor], torch.Tensor] | None = None

    def read(self, X: Any, indices: slice | npt.NDArray[np.int64]) -> torch.Tensor:
        """Some samples as a tensor on the device of the encoder, minus the offset.

        Parameters
        ----------
        X : array or DatasetArray of shape (n_samples, ...)
            The samples.
        indices : slice or ndarray of int
            Indices of the batch.

        Returns
        -------
        tensor of shape (n_batch, ...), float32
            The batch.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash.engine import Encoder
        >>> X = np.array([[1e9, 0.0], [1e9 + 1, 2.0]])
        >>> encoder = Encoder(2, nbits=2)
        >>> encoder.set_statistics(X)
        >>> encoder.read(X, slice(None))
        tensor([[0., 0.],
                [1., 2.]])
        """
        return batch_tensor(X, indices, self.mean.device, self.offset_on_cpu())

    def offset_on_cpu(self) -> npt.NDArray[np.float64] | None:
        """What :meth:`read` subtracts, which is copied from the device once, and not for every batch.

        Returns
        -------
        ndarray of the shape of `mean`, float64, or None
            The offset, if there is one.
        """
        if self.offset is None:
            return None
        values: npt.NDArray[np.float64]
        copied, version, values = self._copied_offset
        if copied is not self.offset or version != self.offset._version:
            values = self.offset.cpu().double().numpy()
            self._copied_offset = self.offset, self.offset._version, values
        return values

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Activations of samples.

        Parameters
        ----------
        X : tensor of shape (n, ...), float32
            Samples, as :meth:`read` returns them.

        Returns
        -------
        tensor of shape (n, nbits), float32
            Activations.
        """
        if not (self.training and isinstance(self.backbone, nn.Identity)):
            return self.head(self.features(X))
        activations: torch.Tensor = self.norm(self.hash(self.dropout(X, self.mean, self.scale)))  # in one pass
        return activations

    def train(self, mode: bool = True) -> Self:
        """Set the mode of training or of evaluation, in which batch norms of a pretrained backbone stay.

        Parameters
        ----------
        mode : bool, default=True
            Whether to train.

        Returns
        -------
        self : Encoder
            The encoder.
        """
        super().train(mode)
        for module in self.backbone.modules() if self.pretrained else ():
            if isinstance(module, _BatchNorm):
                module.eval()
        return self

    def features(self, X: torch.Tensor) -> torch.Tensor:
        """Outputs of the backbone.

        Parameters
        ----------
        X : tensor of shape (n, ...), float32
            Samples, as :meth:`read` returns them. They are centered and scaled here.

        Returns
        -------
        tensor of shape (n, width), float32
            Outputs, for a pretrained backbone centered and scaled.
        """
        X = (X - self.mean).div_(self.scale)
        mixed = self.mixed_precision and self.training and not isinstance(self.backbone, Smoothing)
        with torch.autocast(X.device.type, torch.bfloat16, enabled=mixed):
            outputs: torch.Tensor = (self.run_backbone or self.backbone if self.training else self.backbone)(X)
        if self.feature_mean is not None and self.feature_scale is not None:
            return (outputs.float() - self.feature_mean).div_(self.feature_scale)
        return outputs.float()

    def head(self, features: torch.Tensor) -> torch.Tensor:
        """Activations from the outputs of the backbone.

        Parameters
        ----------
        features : tensor of shape (n, width)
            Outputs.

        Returns
        -------
        tensor of shape (n, nbits)
            Activations.
        """
        activations: torch.Tensor = self.norm(self.hash(self.dropout(features)))
        return activations

    def set_statistics(self, X: Any) -> None:
        """Set the offset, the mean and the global scale from training samples, in float64, batch by batch.

        Parameters
        ----------
        X : array or DatasetArray of shape (n_samples, ...)
            Training samples.

        Raises
        ------
        ValueError
            If the backbone declares the statistics of its input, and samples have values outside [0, 1].
        """
        self.offset = None
        if self._declared is None:
            self._set_moments_of(X)
        else:
            check_range(self.read(X, evenly_spaced(len(X), N_MAX_IMAGES)))
            mean, std = (torch.tensor(values).reshape(self.mean.shape) for values in self._declared)
            self.mean.copy_(mean)
            self.scale.copy_(std)
        if self.pretrained:
            self._center_features(X)

    def _set_moments_of(self, X: Any) -> None:
        """Set the offset, the mean and the scale by the moments of training samples."""
        mean, scale = self._moments(X)
        is_far = mean.abs() > FAR * scale
        if is_far.any():
            self.offset = torch.where(is_far, mean, 0.0).float()
            mean, scale = self._moments(X)
        self._set_moments(mean, scale)

    @torch.no_grad()
    def _center_features(self, X: Any) -> None:
        """Center and scale the outputs of the backbone, so that the first bits are balanced."""
        was_training = self.training
        chosen = evenly_spaced(len(X), N_MAX_IMAGES)
        parts = np.array_split(chosen, -(-len(chosen) // N_IMAGES))
        outputs = torch.cat([self.eval().features(self.read(X, part)) for part in parts])
        self.feature_mean, self.feature_scale = outputs.mean(0), (outputs - outputs.mean(0)).square().mean().sqrt()
        self.train(was_training)

    def _set_moments(self, mean: torch.Tensor, scale: float) -> None:
        self.mean.copy_(mean)
        self.scale.fill_(scale if scale > 0 else 1.0)

    def _moments(self, X: Any) -> tuple[torch.Tensor, float]:
        """Mean, and standard deviation of all values around it, of the samples that `read` returns, in float64."""
        axes = (0, *range(2, X.ndim))
        batches = list(gen_batches(len(X), 4096))
        n_values = X.shape[0] * int(np.prod(X.shape[1:]))
        total: Any = 0.0
        for batch in batches:
            total = total + self.read(X, batch).cpu().double().sum(axes, keepdim=True)[0]
        mean = total * (self.mean.numel() / n_values)
        squares = 0.0
        for batch in batches:
            squares += ((self.read(X, batch).cpu().double() - mean) ** 2).sum().item()
        return mean, (squares / n_values) ** 0.5

    def learn_smoothing(self, X: Any, exponent: float, rng: np.random.RandomState) -> None:
        """Learn the directions to smooth along. The mean and the scale must be set.

        Parameters
        ----------
        X : array or DatasetArray of shape (n_samples, n_features)
            Training samples.
        exponent : float
            Strength, see :class:`~skhash.engine.layers.Smoothing`.
        rng : numpy.random.RandomState
            Source of randomness.

        Raises
        ------
        ValueError
            If the encoder has no directions.
        """
        if not isinstance(self.backbone, Smoothing):
            raise ValueError("`n_directions` must be >= 1 to learn smoothing. Got 0 instead.")
        samples = self.read(X, evenly_spaced(len(X), N_MAX_SAMPLES))
        self.backbone.learn((samples - self.mean) / self.scale, exponent, rng)
