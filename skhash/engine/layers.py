"""Layers of encoders: dropout of inputs, and smoothing of features that occur together, as tags do.

A linear hasher of smoothed samples is still a linear hasher: the smoothing changes the metric
in which its weights are learned, and is folded into them afterwards. The weight of a rare
tag then moves with the weights of the tags that occur with it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.autograd.function import once_differentiable

N_MAX_DIRECTIONS = 128  # largest r; half of the features, or of the samples, if these are fewer
N_MAX_SAMPLES = 5000  # largest number of samples that the directions are learned from
MAX_RATIO = 1000.0  # largest ratio of variances
MAX_TAG_DENSITY = 0.05  # samples are tags if fewer of their entries are not zero


def are_tags(X: npt.NDArray[np.floating]) -> bool:
    """Whether samples are tags: nearly all of their entries are zero.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Some samples.

    Returns
    -------
    bool
        True if fewer than one entry in twenty is not zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine.layers import are_tags
    >>> are_tags(np.eye(30)), are_tags(np.eye(10))
    (True, False)
    """
    return bool(np.count_nonzero(X) < MAX_TAG_DENSITY * X.size)


class Smoothing(nn.Module):
    r"""A linear map that stretches samples along their leading principal directions.

    Parameters
    ----------
    n_features : int
        Number of features.
    n_directions : int
        Number r of the directions.

    Notes
    -----
    With the principal directions :math:`v_i` of some samples, their variances :math:`\lambda_i`, the mean
    :math:`\tau` of the variances beyond the r largest and the exponent p,

    .. math::

       x \mapsto c \Bigl[x + \sum_{i \le r} \bigl((\lambda_i / \tau)^p - 1\bigr) v_i \langle v_i, x \rangle\Bigr],

    where c keeps the mean variance. The ratio is at most 1000. The map stays the identity if the samples
    span no more than r dimensions: they contain nothing about the others.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.engine import Smoothing
    >>> X = torch.tensor([[3.0, 3.0], [-3.0, -3.0], [1.0, -1.0], [-1.0, 1.0]])
    >>> smoothing = Smoothing(2, 1).learn(X, 0.5, np.random.RandomState(0))
    >>> (smoothing(X)[0] / smoothing(X)[2]).abs()  # 3 times as long before
    tensor([9., 9.])
    """

    directions: torch.Tensor
    gains: torch.Tensor
    factor: torch.Tensor

    def __init__(self, n_features: int, n_directions: int) -> None:
        super().__init__()
        n_features, n_directions = int(n_features), int(n_directions)
        self.directions = nn.Buffer(torch.zeros(n_directions, n_features))
        self.gains = nn.Buffer(torch.zeros(n_directions))
        self.factor = nn.Buffer(torch.ones(()))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Smoothed samples.

        Parameters
        ----------
        X : tensor of shape (n, n_features)
            Samples.

        Returns
        -------
        tensor of shape (n, n_features)
            The smoothed samples.
        """
        return self.factor * (X + (X @ self.directions.T * self.gains) @ self.directions)

    def learn(self, X: torch.Tensor, exponent: float, rng: np.random.RandomState) -> "Smoothing":
        """Learn the directions and their variances.

        Parameters
        ----------
        X : tensor of shape (n, n_features)
            Samples.
        exponent : float
            The exponent p.
        rng : numpy.random.RandomState
            Source of randomness of the decomposition.

        Returns
        -------
        self : Smoothing
            The module, changed in place.
        """
        from sklearn.decomposition import PCA

        samples = X.double().numpy()
        total = samples.var(axis=0, ddof=1).sum()
        n_rest = min(len(samples) - 1, samples.shape[1]) - len(self.gains)  # centered samples span one dimension less
        if total == 0 or n_rest < 1:
            return self
        pca = PCA(len(self.gains), svd_solver="randomized", random_state=rng).fit(samples)
        leading = pca.explained_variance_
        rest = (total - leading.sum()) / n_rest
        if rest <= 1e-9 * total:
            return self
        scales = np.minimum(leading / rest, MAX_RATIO) ** exponent
        self.directions.copy_(torch.from_numpy(pca.components_))
        self.gains.copy_(torch.from_numpy(scales - 1))
        self.factor.fill_((total / (total + ((scales**2 - 1) * leading).sum())) ** 0.5)
        return self


class Dropout(nn.Dropout):
    """Dropout that draws one random byte per value in a compiled kernel on the CPU.

    The probability is rounded to a multiple of 1 / 256 there. torch's global generator seeds the kernel, which is much
    faster than torch's dropout (``benchmarks/growth.py`` times steps with dropout).
    """

    def forward(
        self, X: torch.Tensor, mean: torch.Tensor | None = None, scale: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``(X - mean) / scale`` of shape (n, n_features), in training with dropout."""
        if not (self.training and self.p > 0 and X.device.type == "cpu" and X.dtype == torch.float32 and X.ndim == 2):
            X = X if mean is None else X - mean
            return super().forward(X if scale is None else X / scale)
        mean = X.new_zeros(X.shape[1]) if mean is None else mean
        outputs: torch.Tensor = _CenterAndDrop.apply(X, mean, *self.draw(1.0 if scale is None else scale.item()))
        return outputs

    def draw(self, scale: float) -> tuple[float, int, int]:
        """Factor of the kept values, number of the 256 bytes that drop a value, and seed, for one batch."""
        n_dropped = min(round(256 * self.p), 255)
        return 256 / (256 - n_dropped) / scale, n_dropped, int(torch.randint(2**63 - 1, ())) if self.p > 0 else 0


class _CenterAndDrop(torch.autograd.Function):
    """The compiled dropout; its derivative drops the same values."""

    @staticmethod
    def forward(
        ctx: Any, X: torch.Tensor, mean: torch.Tensor, factor: float, n_dropped: int, seed: int
    ) -> torch.Tensor:
        ctx.options = factor, n_dropped, seed
        return _center_and_drop(X, mean, *ctx.options)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        zeros = gradient.new_zeros(gradient.shape[1])
        return _center_and_drop(gradient, zeros, *ctx.options), None, None, None, None


def _center_and_drop(X: torch.Tensor, mean: torch.Tensor, factor: float, n_dropped: int, seed: int) -> torch.Tensor:
    from skhash.engine._kernels import center_and_drop

    outputs = torch.empty(X.shape, dtype=X.dtype)
    arrays = X.detach().contiguous().numpy(), np.arange(len(X)), mean.numpy()
    center_and_drop(*arrays, np.float32(factor), n_dropped, np.uint64(seed), outputs.numpy())
    return outputs
