"""The objective of unsupervised Greedy Hash: the cosines of the samples. See greedyhash_unsupervised.py."""

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import normalize

from skhash.engine import Encoder, Objective
from skhash.engine.data import unit_of
from skhash.hashers.deep._objectives import sign


class CosineObjective(Objective):
    """Squared differences of the cosines of codes and of samples, and a penalty of the activations."""

    def __init__(self, quantization_weight: float) -> None:
        super().__init__()
        self.quantization_weight = quantization_weight

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        u = encoder(X)
        return self.cosine_loss(u, X.flatten(1)) + self.quantization_weight * self.penalty(u)

    def cosine_loss(self, u: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
        """Mean squared difference of the cosines of all pairs of different samples."""
        codes, centered = sign(u), samples - samples.mean(0)
        centered = normalize(centered / unit_of(centered))
        squares = torch.square(codes @ codes.T / codes.shape[1] - (centered @ centered.T).to(codes))
        return (squares.sum() - squares.diagonal().sum()) / max(len(u) * (len(u) - 1), 1)

    def penalty(self, u: torch.Tensor) -> torch.Tensor:
        """Mean cubed distance of the activations from their signs."""
        return ((u.abs() - 1).abs() ** 3).mean()
