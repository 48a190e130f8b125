"""The objective of OrthoHash: a cross-entropy of cosines. See the equations in orthohash.py."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from skhash.affinity import Relevance
from skhash.engine import Encoder, Objective
from skhash.hashers.deep._objectives import batch_labels


class OrthoHashObjective(Objective):
    """Cross-entropy of the cosines of activations and class codes, less a margin for the labels of a sample."""

    codes: torch.Tensor

    def __init__(self, classes: npt.NDArray[Any], codes: npt.NDArray[np.int8], scale: float, margin: float) -> None:
        super().__init__()
        self.classes, self.scale, self.margin = classes, scale, margin
        self.codes = nn.Buffer(torch.from_numpy(codes).float())

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: Relevance, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        u = encoder(X)
        labels = batch_labels(relevance, self.classes, u)
        logits = self.scale * (self.cosines(u) - self.margin * labels)
        return cross_entropy(logits, labels / labels.sum(1, keepdim=True).clamp(min=1))

    def cosines(self, u: torch.Tensor) -> torch.Tensor:
        """Cosines of activations and class codes, of shape (n, n_classes)."""
        cosines: torch.Tensor = normalize(u) @ self.codes.T / self.codes.shape[1] ** 0.5
        return cosines
