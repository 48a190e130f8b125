"""The objective of MIHash: the mutual information of distance and relevance. See the equations in mihash.py."""

import torch

from skhash.hashers.deep._objectives import HistogramObjective
from skhash.metrics import RelevanceHistogram
from skhash.metrics.ties import divide


def _entropy(counts: torch.Tensor) -> torch.Tensor:
    """Entropy of counts over axis 1; an empty bin has the gradient 0, not infinity."""
    p = divide(counts, counts.sum(1, keepdim=True))
    entropy: torch.Tensor = -torch.special.xlogy(p, torch.where(p > 1e-12, p, 1.0)).sum(1)
    return entropy


def _mutual_information(counts: torch.Tensor) -> torch.Tensor:
    """Mutual information between distance and level, in nats, of counts (n_queries, n_bins, n_levels)."""
    of_level = counts.sum(1)
    shares: torch.Tensor = divide(of_level, of_level.sum(1, keepdim=True))
    return _entropy(counts.sum(2)) - (shares * _entropy(counts)).sum(1)


class MIHashObjective(HistogramObjective):
    """Minus the mean mutual information of a batch."""

    def loss(self, H: RelevanceHistogram) -> torch.Tensor:
        """Minus the mean over the samples that have relevant and irrelevant ones."""
        has_both: torch.Tensor = (H.counts.sum(1) > 0.5).all(1)
        return -_mutual_information(H.counts).sum() / has_both.sum().clamp_min(1)
