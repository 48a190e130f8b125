r"""Ranking losses that are additive over (relevant placed, rank).

A loss of this family is 1 - sum_g gain(g, t_g), where t_g is the rank of the g-th
relevant item and the gains of the true ranking, t_g = g, sum to 1. With P relevant and
N irrelevant items and m_g = t_g - g irrelevant ones before the g-th relevant one,

    AP             gain(g, t) = g / (t P)
    NDCG@K         gain(g, t) = D(t) [t <= K] / sum_{i <= min(K, P)} D(i)
    precision@K    gain(g, t) = [t <= K] / min(K, P),  K = P unless given
    AUC            gain(g, t) = (1 - (t - g) / N) / P

Any other function with these arguments is a loss as well.
"""

import numpy as np

from skhash.metrics.ties import cumulative_discount


def ap_gain(g, t, n_relevant, n_irrelevant):
    """Average precision: the precision at each relevant item."""
    return g / t / n_relevant


def ndcg_gain(g, t, n_relevant, n_irrelevant, k=None, discount="structhash"):
    """NDCG of binary gains, normalised by the ideal of min(k, n_relevant) positions."""
    k = n_relevant + n_irrelevant if k is None else k
    ranks = np.arange(n_relevant + n_irrelevant + 1)
    total = np.asarray(cumulative_discount(ranks, discount))
    return np.where(t <= k, np.diff(total)[t - 1], 0.0) / total[min(k, n_relevant)]


def precision_gain(g, t, n_relevant, n_irrelevant, k=None):
    """Precision at k, by default at the number of relevant items."""
    k = n_relevant if k is None else k
    return (t <= k) / min(k, n_relevant)


def auc_gain(g, t, n_relevant, n_irrelevant):
    """Area under the ROC curve: the share of pairs in order."""
    return (1 - (t - g) / n_irrelevant) / n_relevant


LOSSES = {"ndcg": ndcg_gain, "ap": ap_gain, "auc": auc_gain, "precision": precision_gain}
