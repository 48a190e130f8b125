"""Unsupervised Greedy Hash (Su, Zhang, Han, Tian, NeurIPS 2018, section 4.2).

Without labels, the codes b = sign(u) keep the cosines of the samples,

    min  mean_ij [ cos(b_i, b_j) - cos(x_i - m, x_j - m) ]^2 + alpha | |u| - 1 |_3^3

over the pairs of different samples of a batch, where cos(b_i, b_j) = <b_i, b_j> / K for K bits, and m is the mean
of the batch. As in the supervised form, the sign is taken greedily: forward it is the sign, and backward the
gradient passes unchanged, dL/du = dL/db. The penalty is the mean over the entries of a batch.

The paper compares features of a network, which are not negative, as they are (m = 0), and each sample with one
other sample of its batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from skhash._libraries import torch
from skhash.engine import Objective
from skhash.engine.data import unit_of
from skhash.hashers.deep._shared import QuantizedDeepHasher

if TYPE_CHECKING:
    from skhash.engine import Encoder


class CosineObjective(Objective):
    """Squared differences of the cosines of codes and of samples, and a penalty of the activations."""

    def __init__(self, quantization_weight: float) -> None:
        self.quantization_weight = quantization_weight

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`; its gradient passes the codes unchanged."""
        u = encoder(X)
        excess = u - self.binarize(u).detach()
        return self.cosine_loss(u - excess.detach(), X.flatten(1)) + self.quantization_weight * self.penalty(excess)

    def cosine_loss(self, codes: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
        """Mean squared difference of the cosines of all pairs of different samples."""
        centered = samples - samples.mean(0)
        centered = torch.nn.functional.normalize(centered / unit_of(centered))
        squares = torch.square(codes @ codes.T / codes.shape[1] - (centered @ centered.T).to(codes))
        return (squares.sum() - squares.diagonal().sum()) / max(len(codes) * (len(codes) - 1), 1)

    def binarize(self, u: torch.Tensor) -> torch.Tensor:
        """Signs of the activations, 1 for 0."""
        return torch.where(u >= 0, 1.0, -1.0)

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Mean cubed distance of the activations from their codes."""
        return (excess.abs() ** 3).mean()


class UnsupervisedGreedyHashHasher(QuantizedDeepHasher):
    """Unsupervised Greedy Hash: codes with the cosines of the samples, gradients straight through the sign.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    quantization_weight : float, default=None
        Weight alpha of the mean cubed distance of activations from their signs; see Notes
        for None.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, for :meth:`score` only. See :mod:`skhash.affinity`.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it; "auto"
        crops and flips images.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    The cosines are those of the samples as they are given. Cosines of the pixels of images say little: pass
    features of a pretrained network, as the paper does.

    Targets are used by :meth:`score`, and by ``early_stopping`` to choose an epoch.

    {defaults}

    The weight of the penalty and the weight decay of a linear hasher were chosen on held-out training
    samples of the digits and USPS, by the AP_T at 32 bits with one seed. There it is above that of ITQ.
    These trials are not stored. The other values are those of :class:`GreedyHashHasher`.

    References
    ----------
    Su, Zhang, Han, Tian: Greedy Hash: Towards Fast Optimization for Accurate Hash Coding in
    CNN. NeurIPS 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import UnsupervisedGreedyHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = UnsupervisedGreedyHashHasher(nbits=16, n_epochs=5, random_state=0)
    >>> hasher.fit(X[:1000]).transform(X[1000:]).shape
    (797, 16)
    """

    _supervised = False
    _recipes = {"linear": (2500, 256, 0.02, 0.5, 1.0), "deep": (1500, 256, 0.003, 0.1, 1.0)}

    def _objective(self) -> Objective:
        return CosineObjective(self.settings_["quantization_weight"])
