"""The objective of CSQ: a cross-entropy of bits. See the equations in csq.py."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from skhash.affinity import Relevance
from skhash.engine import Encoder, Objective
from skhash.hashers.deep._objectives import batch_labels


class CSQObjective(Objective):
    """Cross-entropy of bits and the centers of the labels, and a penalty of bits between 0 and 1."""

    centers: torch.Tensor

    def __init__(self, quantization_weight: float, classes: npt.NDArray[Any], centers: npt.NDArray[np.int8]) -> None:
        super().__init__()
        self.quantization_weight, self.classes = quantization_weight, classes
        self.centers = nn.Buffer(torch.from_numpy(centers).float())

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: Relevance, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        u = encoder(X)
        labels = batch_labels(relevance, self.classes, u)
        return self.central_loss(u, labels) + self.quantization_weight * self.penalty(u)

    def central_loss(self, u: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Cross-entropy L_C; `labels` is the 0/1 matrix of labels."""
        bits = (1 + torch.sign(labels @ self.centers)) / 2
        weights = labels.amax(1, keepdim=True).expand_as(u)
        return binary_cross_entropy_with_logits(u, bits, weights)

    def penalty(self, u: torch.Tensor) -> torch.Tensor:
        """Penalty L_Q."""
        excess = torch.tanh(u / 2).abs() - 1  # 2 sigmoid(u) - 1 = tanh(u / 2)
        return torch.log(torch.cosh(excess)).mean()
