"""The objective of HashNet: the weighted likelihood of pairs. See the equations in hashnet.py."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from skhash.affinity import Relevance, SharedLabelsAffinity
from skhash.engine import Encoder, Objective
from skhash.hashers.deep._objectives import pairwise_loss


class HashNetObjective(Objective):
    """The weighted pairwise likelihood of a batch, at the slope `betas[stage]` of each stage."""

    def __init__(
        self,
        scale: float,
        class_ratio: float | str = "batch",
        similarity: str = "binary",
        betas: Sequence[float] = (1.0,),
    ) -> None:
        super().__init__()
        self.scale = scale
        self.class_ratio, self.similarity, self.betas = class_ratio, similarity, betas
        self.beta = betas[0]

    def start_stage(self, stage: int, n_stages: int) -> None:
        """Take the slope beta of the stage."""
        self.beta = self.betas[stage]

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: Relevance, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        return self.likelihood(torch.tanh(self.beta * encoder(X)), relevance)

    def likelihood(self, g: torch.Tensor, relevance: Relevance) -> torch.Tensor:
        """Negative weighted log-likelihood of all pairs of different samples; `g` are codes in [-1, 1]."""
        index, levels = relevance.levels()
        similar = index > 0
        weights = np.where(similar, self._ratio(similar), 1.0)
        if self.similarity == "continuous":
            weights[similar] *= _continuous_similarity(relevance, levels[index])[similar]
        return pairwise_loss(g, similar, self.scale, weights)

    def _ratio(self, similar: npt.NDArray[np.bool_]) -> float:
        """Weight of a similar pair over that of a dissimilar one."""
        if not isinstance(self.class_ratio, str):
            return self.class_ratio
        n_pairs = similar.size - len(similar)
        n_similar = np.count_nonzero(similar & ~np.eye(len(similar), dtype=bool))
        # weights have no effect if all pairs are of one kind
        return (n_pairs - n_similar) / n_similar if 0 < n_similar < n_pairs else 1.0

    def gap(self, z: torch.Tensor, relevance: Relevance) -> dict[str, float]:
        """Losses of relaxed and of binary codes at this stage: J, L and J - L, from activations z."""
        z = z.double()
        relaxed = self.likelihood(torch.tanh(self.beta * z), relevance).item()
        binary = self.likelihood(torch.where(z >= 0, 1.0, -1.0).double(), relevance).item()
        losses = {"relaxed_loss": relaxed, "binary_loss": binary, "quantization_gap": relaxed - binary}
        return {"beta": self.beta} | losses


def _continuous_similarity(relevance: Relevance, levels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Jaccard index of the label sets; for other affinities the level over the highest one."""
    if not isinstance(relevance.affinity, SharedLabelsAffinity):
        return np.asarray(levels / max(levels.max(), 1e-300))
    labels = relevance.labels()
    shared = labels @ labels.T
    sizes = labels.sum(axis=1)
    return np.asarray(shared / np.maximum(sizes[:, None] + sizes - shared, 1))
