r"""Ranking losses that are additive over (relevant placed, rank).

A loss of this family is 1 - sum_g gain(g, t_g), where t_g is the rank of the g-th
relevant item. The gains of the true ranking, t_g = g, sum to 1. With P relevant and
N irrelevant items and m_g = t_g - g irrelevant ones before the g-th relevant one,

    AP             gain(g, t) = g / (t P)
    NDCG@K         gain(g, t) = D(t) [t <= K] / sum_{i <= min(K, P)} D(i)
    precision@K    gain(g, t) = [t <= K] / min(K, P),  K = P by default
    AUC            gain(g, t) = (1 - (t - g) / N) / P

Any other function with these arguments is a loss as well.
"""

import numpy as np
import numpy.typing as npt

from skhash.metrics._ties import cumulative_discount


def ap_gain(
    g: npt.NDArray[np.int64], t: npt.NDArray[np.int64], n_relevant: int, n_irrelevant: int
) -> npt.NDArray[np.float64]:
    """Gains of average precision: the precision at each relevant item.

    Parameters
    ----------
    g : int array of shape (n_relevant,) or (n_relevant, 1)
        Positions 1, 2, ... among the relevant items.
    t : int array of shape (n_relevant,) or (n_relevant, n_irrelevant + 1)
        Ranks of these items, or all their possible ranks, from 1.
    n_relevant, n_irrelevant : int
        Number of relevant and of irrelevant items in the list.

    Returns
    -------
    float64 array
        Gains, of the shape of `t`.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.structhash._losses import ap_gain
    >>> # (1 / 1 + 2 / 3) / 2
    >>> ap_gain(np.array([1, 2]), np.array([1, 3]), 2, 2).sum().round(4).item()
    0.8333
    """
    return g / t / n_relevant


def ndcg_gain(
    g: npt.NDArray[np.int64],
    t: npt.NDArray[np.int64],
    n_relevant: int,
    n_irrelevant: int,
    k: int | None = None,
    discount: str = "structhash",
) -> npt.NDArray[np.float64]:
    """Gains of NDCG with binary relevance, normalized by the ideal of min(k, n_relevant) positions.

    Parameters
    ----------
    g, t, n_relevant, n_irrelevant : int arrays and int
        As in :func:`ap_gain`.
    k : int, default=None
        Cutoff rank. None uses the whole list.
    discount : "log2" or "structhash", default="structhash"
        As in :func:`skhash.metrics.ndcg`.

    Returns
    -------
    float64 array
        Gains, of the shape of `t`.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.structhash._losses import ndcg_gain
    >>> # (1 + 1 / log2(3)) / (1 + 1)
    >>> ndcg_gain(np.array([1, 2]), np.array([1, 3]), 2, 2).sum().round(4).item()
    0.8155
    """
    k = n_relevant + n_irrelevant if k is None else k
    ranks = np.arange(n_relevant + n_irrelevant + 1)
    total = np.asarray(cumulative_discount(ranks, discount))
    return np.where(t <= k, np.diff(total)[t - 1], 0.0) / total[min(k, n_relevant)]


def precision_gain(
    g: npt.NDArray[np.int64], t: npt.NDArray[np.int64], n_relevant: int, n_irrelevant: int, k: int | None = None
) -> npt.NDArray[np.float64]:
    """Gains of precision at k, by default at the number of relevant items.

    Parameters
    ----------
    g, t, n_relevant, n_irrelevant : int arrays and int
        As in :func:`ap_gain`.
    k : int, default=None
        Cutoff rank. None uses `n_relevant`.

    Returns
    -------
    float64 array
        Gains, of the shape of `t`.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.structhash._losses import precision_gain
    >>> precision_gain(np.array([1, 2]), np.array([1, 3]), 2, 2)
    array([0.5, 0. ])
    """
    k = n_relevant if k is None else k
    return (t <= k) / min(k, n_relevant)


def auc_gain(
    g: npt.NDArray[np.int64], t: npt.NDArray[np.int64], n_relevant: int, n_irrelevant: int
) -> npt.NDArray[np.float64]:
    """Gains of the area under the ROC curve: the share of pairs in order.

    Parameters
    ----------
    g, t, n_relevant, n_irrelevant : int arrays and int
        As in :func:`ap_gain`.

    Returns
    -------
    float64 array
        Gains, of the shape of `t`.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.structhash._losses import auc_gain
    >>> auc_gain(np.array([1, 2]), np.array([1, 3]), 2, 2).sum().item()  # 3 pairs of 4
    0.75
    """
    return (1 - (t - g) / n_irrelevant) / n_relevant


LOSSES = {"ndcg": ndcg_gain, "ap": ap_gain, "auc": auc_gain, "precision": precision_gain}
