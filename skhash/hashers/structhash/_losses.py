r"""Ranking losses that are additive over (relevant placed, rank).

A loss of this family is 1 - sum_g gain(g, t_g), where t_g is the rank of the g-th
relevant item. The gains of the true ranking, t_g = g, sum to 1. With P relevant and
N irrelevant items and m_g = t_g - g irrelevant ones before the g-th relevant one (Lin et al., eqs. 18 to 22),

    AP             gain(g, t) = g / (t P)
    NDCG@K         gain(g, t) = D(t) [t <= K] / sum_{i <= min(K, P)} D(i)
    precision@K    gain(g, t) = [t <= K] / min(K, P),  K = P by default
    AUC            gain(g, t) = (1 - (t - g) / N) / P

With K > P the true ranking scores below 1 by the measures as printed: eqs. 20 and 21 divide by K, and by the sum of D
to K. Here min(K, P) stands in place of K, so that the loss of the true ranking is 0, as section 2.1 assumes.

Any other function with these arguments is a loss as well.
"""

import numpy as np
import numpy.typing as npt

from skhash.metrics.ties import cumulative_discount


def ap_gain(
    g: npt.NDArray[np.int64], t: npt.NDArray[np.int64], n_relevant: int, n_irrelevant: int
) -> npt.NDArray[np.float64]:
    """Gains of average precision: the precision at each relevant item.

    `g` are the positions 1, 2, ... among the relevant items, of shape (n_relevant,) or (n_relevant, 1). `t` are their
    ranks from 1, or all their possible ranks, of shape (n_relevant, n_irrelevant + 1). Gains have the shape of `t`.
    """
    return g / t / n_relevant


def ndcg_gain(
    g: npt.NDArray[np.int64],
    t: npt.NDArray[np.int64],
    n_relevant: int,
    n_irrelevant: int,
    k: int | None = None,
    discount: str = "delayed_log2",
) -> npt.NDArray[np.float64]:
    """Gains of NDCG with binary relevance, normalized by the ideal of min(k, n_relevant) positions."""
    k = n_relevant + n_irrelevant if k is None else k
    ranks = np.arange(n_relevant + n_irrelevant + 1)
    total = np.asarray(cumulative_discount(ranks, discount))
    return np.where(t <= k, np.diff(total)[t - 1], 0.0) / total[min(k, n_relevant)]


def precision_gain(
    g: npt.NDArray[np.int64], t: npt.NDArray[np.int64], n_relevant: int, n_irrelevant: int, k: int | None = None
) -> npt.NDArray[np.float64]:
    """Gains of precision at k, by default at the number of relevant items."""
    k = n_relevant if k is None else k
    return (t <= k) / min(k, n_relevant)


def auc_gain(
    g: npt.NDArray[np.int64], t: npt.NDArray[np.int64], n_relevant: int, n_irrelevant: int
) -> npt.NDArray[np.float64]:
    """Gains of the area under the ROC curve: the share of pairs in order."""
    return (1 - (t - g) / n_irrelevant) / n_relevant


GAINS = {"ndcg": ndcg_gain, "ap": ap_gain, "auc": auc_gain, "precision": precision_gain}
