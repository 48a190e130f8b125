"""The objective of unsupervised Greedy Hash: the cosines of the samples. See greedyhash_unsupervised.py."""

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import normalize

from skhash.engine import Encoder, Objective
from skhash.engine.data import unit_of


class CosineObjective(Objective):
    """Squared differences of the cosines of codes and of samples, and a penalty of the activations."""

    def __init__(self, quantization_weight: float) -> None:
        super().__init__()
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
        centered = normalize(centered / unit_of(centered))
        squares = torch.square(codes @ codes.T / codes.shape[1] - (centered @ centered.T).to(codes))
        return (squares.sum() - squares.diagonal().sum()) / max(len(codes) * (len(codes) - 1), 1)

    def binarize(self, u: torch.Tensor) -> torch.Tensor:
        """Signs of the activations, 1 for 0."""
        return torch.where(u >= 0, 1.0, -1.0)

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Mean cubed distance of the activations from their codes."""
        return (excess.abs() ** 3).mean()
