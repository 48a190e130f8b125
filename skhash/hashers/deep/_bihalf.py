"""The objective of bi-half codes: the cosines of the samples, with balanced bits. See bihalf.py."""

import torch

from skhash.hashers.deep._greedyhash_unsupervised import CosineObjective


class BiHalfObjective(CosineObjective):
    """Squared differences of the cosines of balanced codes and of samples, and a penalty of the activations."""

    def binarize(self, u: torch.Tensor) -> torch.Tensor:
        """Balanced codes: each bit is 1 for the half of the batch with the largest activations, and else -1."""
        ranks = u.argsort(dim=0, descending=True, stable=True).argsort(dim=0)
        return torch.where(2 * ranks < len(u), 1.0, -1.0)

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Half of the mean squared distance of the activations from their codes."""
        return torch.square(excess).mean() / 2
