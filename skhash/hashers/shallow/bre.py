"""BRE, binary reconstructive embeddings (Kulis, Darrell, NIPS 2009).

With bits h_p(x) = [sum_q W_pq k(a_q, x) >= 0] of b kernel functions on anchors a_q, k minus its
mean over the training samples, the Hamming distances of pairs should reconstruct given ones:

    min_W sum_ij (d_ij - d~_ij)^2,   d~_ij = (1/b) sum_p (h_p(x_i) - h_p(x_j))^2

over a few pairs of each sample. The given distances are one of two kinds:

* affinity: d_ij = 0 for relevant and 1 for irrelevant pairs;
* distances: d_ij = 0 for near samples, |x_i - x_j|^2 / 2 for others, samples centered, of length 1.

The minimization is coordinate descent, exact in one W_pq. Without bit p a pair has the residual
r_ij = d_ij - d~_ij. If h_p differs on it, the square of the residual changes by

    c_ij = (r_ij - 1/b)^2 - r_ij^2 = (1 - 2 b r_ij) / b^2,

and as W_pq moves from -inf to inf, the bit of each sample flips at most once. Sorting these
thresholds gives the smallest sum of c_ij over differing pairs in O(n log n + pairs).
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches

from skhash._compat import Interval, StrOptions
from skhash.affinity import Relevance
from skhash.codes import binarize
from skhash.hashers.ranking_lists import draw_ranking_lists
from skhash.hashers.shallow.gaussian_kernel import KernelFeatures, KernelHasher, draw_indices
from skhash.hashers.shallow.linear import center

NEAR = 0.05  # share of the other samples that are near; their distance is set to 0


def distinct_pairs(
    samples: npt.NDArray[np.int64], partners: npt.NDArray[np.int64], distances: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Distinct pairs (2, n_pairs) of different samples, lower index first, with the first distance given for each."""
    pairs = np.sort([samples, partners], axis=0)
    different = pairs[0] != pairs[1]
    pairs, first = np.unique(pairs[:, different], axis=1, return_index=True)
    return pairs, distances[different][first]


def affinity_pairs(
    relevance: Relevance, n_relevant: int, n_irrelevant: int, rng: np.random.RandomState
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Random relevant pairs (2, n_pairs) with distance 0, and irrelevant pairs with distance 1."""
    lists = draw_ranking_lists(relevance, n_relevant, n_irrelevant, relevance.shape[0], rng)
    n_lists, length = lists.items.shape
    irrelevant = np.arange(length) >= lists.sizes[:, 0].max()
    distances = np.tile(irrelevant.astype(np.float64), n_lists)
    return distinct_pairs(np.repeat(lists.queries, length), lists.items.ravel(), distances)


def distance_pairs(
    X: npt.NDArray[Any], n_near: int, n_far: int, far_fraction: float, rng: np.random.RandomState
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Random near pairs (2, n_pairs) with distance 0, and far pairs with half their squared distance.

    Samples are centered and scaled to length 1. Near partners are among the nearest 5 % of the other samples, far ones
    among the farthest `far_fraction`.
    """
    units, _ = center(X)
    lengths = np.linalg.norm(units, axis=1, keepdims=True)
    units = np.divide(units, lengths, out=np.zeros_like(units), where=lengths > 0)
    n = len(X)
    n_nearest, n_farthest = (int(np.ceil(share * (n - 1))) for share in (NEAR, far_fraction))
    drawn = []
    for batch in gen_batches(n, 512):
        halves = euclidean_distances(units[batch], units, squared=True) / 2
        for i, half in enumerate(halves, batch.start):
            order = np.argsort(half, kind="stable")
            order = order[order != i]
            nearest = rng.choice(order[:n_nearest], min(n_near, n_nearest), replace=False)
            farthest = rng.choice(order[-n_farthest:], min(n_far, n_farthest), replace=False)
            drawn += [(i, partner, 0.0) for partner in nearest]
            drawn += [(i, partner, half[partner]) for partner in farthest]
    samples, partners, distances = (np.array(column) for column in zip(*drawn, strict=True))
    return distinct_pairs(samples, partners, distances)


def _reconstruct(
    features: npt.NDArray[np.float64],
    pairs: npt.NDArray[np.int64],
    distances: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    max_iter: int,
    n_updates: int,
    rng: np.random.RandomState,
) -> tuple[npt.NDArray[np.float64], list[float]]:
    """Weights W' that minimize sum_ij (d_ij - d~_ij)^2 by coordinate descent, and the sums after each round."""
    from skhash.hashers.shallow._bre_kernels import descend_weights

    nbits = weights.shape[1]
    samples, partners = np.concatenate(pairs), np.concatenate(pairs[::-1])
    by_sample = np.argsort(samples, kind="stable")
    starts = np.searchsorted(samples[by_sample], np.arange(len(features) + 1))
    partners = partners[by_sample]
    columns, W = np.ascontiguousarray(features.T), np.ascontiguousarray(weights.T)
    objectives: list[float] = []
    for _ in range(max_iter):
        activations = W @ columns
        bits = binarize(activations)
        residuals = nbits * distances - (bits[:, pairs[0]] != bits[:, pairs[1]]).sum(axis=0)  # times b
        if not objectives:
            objectives.append(float(np.square(residuals / nbits).sum()))
        n_changed = 0
        for w, a, h in zip(W, activations, bits, strict=True):
            residuals += h[pairs[0]] != h[pairs[1]]
            costs = np.tile(1 - 2 * residuals, 2)[by_sample]
            order = rng.permutation(len(columns))[:n_updates]
            n_changed += descend_weights(columns, order, starts, partners, costs, w, a, h)
            residuals -= h[pairs[0]] != h[pairs[1]]
        objectives.append(float(np.square(residuals / nbits).sum()))
        if n_changed == 0:
            break
    return W.T, objectives


class BREHasher(KernelHasher):
    """Kernel bits whose Hamming distances reconstruct given distances of training pairs.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits.
    reconstruct : {"affinity", "distances"}, default="affinity"
        Distances to reconstruct: 0 and 1 of relevant and irrelevant pairs, or those of the samples,
        centered and of length 1: 0 for near pairs, and half their square for others. The latter
        need no y.
    max_samples : int, default=5000
        Maximum number of training samples whose pairs are compared, drawn at random.
    n_relevant : int, default=5
        Maximum number of relevant samples, or of the nearest 5 %, drawn for each of them.
    n_irrelevant : int, default=5
        Maximum number of irrelevant or far samples drawn for each of them.
    far_fraction : float, default=1.0
        Share of the other samples, the farthest ones, that far samples are drawn from when distances
        are reconstructed. 1 was better on held-out samples than 0.02.
    n_anchors : int, default=1000
        Maximum number of training samples used as anchors of the kernel.
    gamma : float, default=None
        Coefficient of the kernel exp(-gamma d^2). None uses 2 over the mean squared distance to the
        anchors.
    max_iter : int, default=20
        Maximum number of rounds over the bits.
    n_updates : int, default=10
        Number of weights per bit that a round optimizes, drawn at random.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, whatever their level. "auto" uses classes or shared labels from y.
        If distances are reconstructed, only :meth:`score` uses it.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws anchors, compared samples, pairs, the first weights and the updated ones.

    Attributes
    ----------
    anchors_ : ndarray of shape (n_anchors, n_features), float64
        The anchors.
    gamma_ : float
        The gamma that was used.
    projection_ : ndarray of shape (n_anchors, nbits), float64
        Weights W' of the kernel values.
    intercept_ : ndarray of shape (nbits,), float64
        Offset that centers the kernel values.
    history_ : list of dict
        One entry per round: "round" and "objective", the sum of (d - d~)^2 over the pairs. Round 0 is
        the random start.
    n_iter_ : int
        Number of rounds.
    affinity_ : callable or None
        The fitted affinity, None if distances are reconstructed and no affinity is given.
    function_ : KernelFunction
        What was learned, see :mod:`skhash.functions`.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
    n_features_in_ : int
        Number of features seen during `fit`.

    References
    ----------
    Kulis, Darrell: Learning to hash with binary reconstructive embeddings. NIPS 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import BREHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = BREHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.2f}")
    0.80
    >>> hasher.history_[-1]["objective"] < hasher.history_[0]["objective"]
    True
    """

    _parameter_constraints = {
        name: kinds for name, kinds in KernelHasher._parameter_constraints.items() if name != "ridge"
    } | {
        "reconstruct": [StrOptions({"affinity", "distances"})],
        "max_samples": [Interval(Integral, 2, None, closed="left")],
        "n_relevant": [Interval(Integral, 1, None, closed="left")],
        "n_irrelevant": [Interval(Integral, 1, None, closed="left")],
        "far_fraction": [Interval(Real, 0, 1, closed="right")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_updates": [Interval(Integral, 1, None, closed="left")],
    }

    history_: list[dict[str, Any]]
    n_iter_: int

    def __init__(
        self,
        nbits: int = 32,
        *,
        reconstruct: str = "affinity",
        max_samples: int = 5000,
        n_relevant: int = 5,
        n_irrelevant: int = 5,
        far_fraction: float = 1.0,
        n_anchors: int = 1000,
        gamma: float | None = None,
        max_iter: int = 20,
        n_updates: int = 10,
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.nbits = nbits
        self.reconstruct = reconstruct
        self.max_samples = max_samples
        self.n_relevant = n_relevant
        self.n_irrelevant = n_irrelevant
        self.far_fraction = far_fraction
        self.n_anchors = n_anchors
        self.gamma = gamma
        self.max_iter = max_iter
        self.n_updates = n_updates
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    @property
    def _supervised(self) -> bool:  # type: ignore[override]  # a class attribute of the other hashers
        return self.reconstruct == "affinity"

    def _learn_map(
        self, features: KernelFeatures, relevance: Any, rng: np.random.RandomState
    ) -> tuple[npt.NDArray[np.float64], Any]:
        labeled = draw_indices(features.shape[0], self.max_samples, rng)
        sizes = self.n_relevant, self.n_irrelevant
        if relevance is None:
            pairs, distances = distance_pairs(features.samples(labeled), *sizes, self.far_fraction, rng)
        else:
            pairs, distances = affinity_pairs(relevance.take(labeled), *sizes, rng)
        values, start = features.take(labeled), rng.standard_normal((features.shape[1], self.nbits))
        start[~values.any(axis=0)] = 0  # kernel values that do not vary would only add rounding errors
        weights, objectives = _reconstruct(values, pairs, distances, start, self.max_iter, self.n_updates, rng)
        self.n_iter_ = len(objectives) - 1
        self.history_ = [{"round": n, "objective": objective} for n, objective in enumerate(objectives)]
        return weights, 0.0
