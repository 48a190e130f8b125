"""The objective of CIBHash: a contrast of random codes. See the equations in cibhash.py."""

from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from skhash.engine import Encoder, Objective
from skhash.engine.augment import two_views
from skhash.hashers.deep._objectives import bernoulli_sign, nt_xent
from skhash.hashers.deep._parameters import (
    Augmentation,
)


def _symmetric_kl(f: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """Mean of 1/2 [ KL(p || q) + KL(q || p) ] over the samples, in nats, for independent bits with logits f and g."""
    return ((torch.sigmoid(f) - torch.sigmoid(g)) * (f - g)).sum(1).mean() / 2


class CIBHashObjective(Objective):
    """NT-Xent of the random codes of two views, and the divergence of their distributions."""

    def __init__(self, augment: Augmentation, temperature: float = 0.7, kl_weight: float = 0.1) -> None:
        super().__init__()
        self.two_views = partial(two_views, augment)  # hidden from nn.Module: modules of the user are not trained
        self.temperature, self.kl_weight = temperature, kl_weight

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        logits = encoder(torch.cat(self.two_views(X)))
        first, second = bernoulli_sign(logits).chunk(2)
        contrast = nt_xent(first, second, self.temperature)
        return contrast + self.kl_weight * _symmetric_kl(*logits.chunk(2))
