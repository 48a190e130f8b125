"""BRE, binary reconstructive embeddings (Kulis, Darrell, NIPS 2009).

With bits h_p(x) = [sum_q W_pq k(a_q, x) >= 0] of b kernel functions on anchors a_q, k less its
mean over the training rows, the Hamming distances of pairs are to reconstruct given ones:

    min_W sum_ij (d_ij - d~_ij)^2,   d~_ij = (1/b) sum_p (h_p(x_i) - h_p(x_j))^2

over a few pairs of each row. What to reconstruct:

* affinity: d_ij = 0 for relevant and 1 for irrelevant pairs;
* distances: d_ij = 0 for near rows, |x_i - x_j|^2 / 2 for others, rows centred, of length 1.

Minimisation is coordinate descent, over one W_pq exactly. Without bit p a pair leaves the residue
r_ij = d_ij - d~_ij; where h_p differs on it, its square changes by

    c_ij = (r_ij - 1/b)^2 - r_ij^2 = (1 - 2 b r_ij) / b^2,

and as W_pq moves from -inf to inf each row's bit flips once at most. Sorting these thresholds
gives the least sum of c_ij over differing pairs in O(n log n + pairs).
"""

from numbers import Integral, Real

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches

from skhash._compat import Interval, StrOptions
from skhash._targets import take_targets
from skhash.codes import binarize
from skhash.hashers._ranking_lists import draw_ranking_lists
from skhash.hashers.shallow._kernel import KernelHasher, draw_indices
from skhash.hashers.shallow._linear import feature_means

NEAR = 0.05  # of the other rows: the nearest ones, whose distance is made 0


def distinct_pairs(rows, partners, distances):
    """Take each pair of different rows once, whichever of them comes first.

    Parameters
    ----------
    rows, partners : int64 arrays of shape (n,)
        Pairs; those of a row with itself are left out.
    distances : float64 array of shape (n,)
        What is to be reconstructed; of a pair that is there twice the first one is kept.

    Returns
    -------
    pairs : int64 array of shape (2, n_pairs)
        The pairs, the lower row first.
    distances : float64 array of shape (n_pairs,)
        Theirs.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.bre import distinct_pairs
    >>> pairs, distances = distinct_pairs(np.array([2, 0, 1]), np.array([0, 2, 1]), np.array([0.5, 1.0, 0.0]))
    >>> pairs.T, distances
    (array([[0, 2]]), array([0.5]))
    """
    pairs = np.sort([rows, partners], axis=0)
    different = pairs[0] != pairs[1]
    pairs, first = np.unique(pairs[:, different], axis=1, return_index=True)
    return pairs, distances[different][first]


def affinity_pairs(affinity, targets, n_relevant, n_irrelevant, rng):
    """Draw relevant pairs, at distance 0, and irrelevant ones, at distance 1.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    targets : array of shape (n_rows, ...)
        What it compares.
    n_relevant, n_irrelevant : int
        At most that many partners of each kind for a row.
    rng : numpy.random.RandomState
        Source of the draws.

    Returns
    -------
    pairs : int64 array of shape (2, n_pairs)
        As :func:`distinct_pairs` returns them.
    distances : float64 array of shape (n_pairs,)
        0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.affinity import ClassAffinity
    >>> from skhash.hashers.shallow.bre import affinity_pairs
    >>> pairs, distances = affinity_pairs(ClassAffinity(), np.array([0, 0, 1, 1]), 1, 2, np.random.RandomState(0))
    >>> distances[(pairs == [[0], [1]]).all(axis=0)], len(distances)
    (array([0.]), 6)
    """
    lists = draw_ranking_lists(affinity, targets, n_relevant, n_irrelevant, targets.shape[0], rng)
    n_lists, length = lists.items.shape
    irrelevant = np.arange(length) >= lists.sizes[:, 0].max()
    distances = np.tile(irrelevant.astype(np.float64), n_lists)
    return distinct_pairs(np.repeat(lists.queries, length), lists.items.ravel(), distances)


def distance_pairs(X, n_near, n_far, far, rng):
    """Draw near pairs, whose distance is made 0, and far pairs, which keep theirs.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows; they are centred and scaled to length 1.
    n_near, n_far : int
        At most that many partners of each kind for a row.
    far : float
        Share of the other rows, the farthest ones, that far partners are drawn from; the near
        ones come from the nearest 5 %.
    rng : numpy.random.RandomState
        Source of the draws.

    Returns
    -------
    pairs : int64 array of shape (2, n_pairs)
        As :func:`distinct_pairs` returns them.
    distances : float64 array of shape (n_pairs,)
        0, or half the squared distance, in [0, 2].

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.bre import distance_pairs
    >>> X = np.array([[2.0, 0.0], [2.0, 0.1], [-2.0, 0.0], [-2.0, -0.1]])
    >>> pairs, distances = distance_pairs(X, 1, 1, 0.5, np.random.RandomState(0))
    >>> pairs.T[distances == 0].tolist()
    [[0, 1], [2, 3]]
    """
    units = X - feature_means(X)
    lengths = np.linalg.norm(units, axis=1, keepdims=True)
    units = np.divide(units, lengths, out=np.zeros_like(units), where=lengths > 0)
    n = len(X)
    n_nearest, n_farthest = (int(np.ceil(share * (n - 1))) for share in (NEAR, far))
    drawn = []
    for batch in gen_batches(n, 512):
        halves = euclidean_distances(units[batch], units, squared=True) / 2
        for row, half in enumerate(halves, batch.start):
            order = np.argsort(half, kind="stable")
            order = order[order != row]
            nearest = rng.choice(order[:n_nearest], min(n_near, n_nearest), replace=False)
            farthest = rng.choice(order[-n_farthest:], min(n_far, n_farthest), replace=False)
            drawn += [(row, partner, 0.0) for partner in nearest]
            drawn += [(row, partner, half[partner]) for partner in farthest]
    rows, partners, distances = (np.array(column) for column in zip(*drawn, strict=True))
    return distinct_pairs(rows, partners, distances)


def reconstruct(features, pairs, distances, weights, n_iter, n_updates, rng):
    """Minimise sum_ij (d_ij - d~_ij)^2 over one weight after another.

    Parameters
    ----------
    features : float64 array of shape (n_rows, n_features)
        Centred kernel values.
    pairs : int64 array of shape (2, n_pairs)
        Different rows.
    distances : float64 array of shape (n_pairs,)
        d_ij.
    weights : float64 array of shape (n_features, nbits)
        Where to start.
    n_iter : int
        Rounds over the bits, at most; one that changes nothing is the last.
    n_updates : int
        At most that many weights of a bit are minimised over in a round.
    rng : numpy.random.RandomState
        Draws them.

    Returns
    -------
    weights : float64 array of shape (n_features, nbits)
        W'.
    objectives : list of float
        The sum before the first round and after each one; it never rises.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.bre import reconstruct
    >>> features = np.array([[1.0, -0.1], [1.0, 0.2], [-1.0, 0.0]])
    >>> pairs, distances = np.array([[0, 0], [1, 2]]), np.array([0.0, 1.0])
    >>> start = np.array([[0.0], [1.0]])
    >>> reconstruct(features, pairs, distances, start, 5, 2, np.random.RandomState(0))[1]
    [1.0, 0.0, 0.0]
    """
    from skhash.hashers.shallow._kernels import descend_weights

    n_rows, n_bits = len(features), weights.shape[1]
    rows, partners = np.concatenate(pairs), np.concatenate(pairs[::-1])
    by_row = np.argsort(rows, kind="stable")
    starts, partners = np.searchsorted(rows[by_row], np.arange(n_rows + 1)), partners[by_row]
    columns, W = np.ascontiguousarray(features.T), np.ascontiguousarray(weights.T)
    objectives: list[float] = []
    for _ in range(n_iter):
        activations = W @ columns
        bits = binarize(activations)
        residues = n_bits * distances - (bits[:, pairs[0]] != bits[:, pairs[1]]).sum(axis=0)  # times b
        if not objectives:
            objectives.append(float(np.square(residues / n_bits).sum()))
        n_changed = 0
        for w, a, h in zip(W, activations, bits, strict=True):
            residues += h[pairs[0]] != h[pairs[1]]
            costs = np.tile(1 - 2 * residues, 2)[by_row]
            order = rng.permutation(len(columns))[:n_updates]
            n_changed += descend_weights(columns, order, starts, partners, costs, w, a, h)
            residues -= h[pairs[0]] != h[pairs[1]]
        objectives.append(float(np.square(residues / n_bits).sum()))
        if n_changed == 0:
            break
    return W.T, objectives


class BREHasher(KernelHasher):
    """Kernel bits whose Hamming distances reconstruct given distances of training pairs.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    reconstruct : {"affinity", "distances"}, default="affinity"
        Distances 0 and 1 of relevant and irrelevant pairs, or those of the rows themselves,
        centred and of length 1: 0 for near pairs, and half their square for others. The
        latter needs no y.
    n_labeled : int, default=5000
        Training rows, drawn at random, whose pairs are compared; all, if there are fewer.
    n_relevant : int, default=5
        At most that many relevant rows, or of the nearest 5 %, are drawn for each of them.
    n_irrelevant : int, default=5
        At most that many irrelevant, or far, ones.
    far : float, default=1.0
        Where distances are reconstructed: the share of the other rows, the farthest ones, that
        far rows are drawn from. The paper's is 0.02; all of them were better on held-out rows.
    n_anchors : int, default=1000
        Training rows that are anchors of the kernel; all, if there are fewer.
    gamma : float, default=None
        Of the kernel exp(-gamma d^2); None takes 2 over the mean squared distance to anchors.
    n_iter : int, default=20
        Rounds over the bits, at most.
    n_updates : int, default=10
        Weights of a bit, drawn at random, that a round minimises over.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant, whatever their level; "auto" takes classes or shared labels
        from y. Used by :meth:`score` only where distances are reconstructed.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws anchors, labelled rows, pairs, the first weights and which ones are updated.

    Attributes
    ----------
    anchors_ : ndarray of shape (n_anchors, n_features), float64
        The anchors.
    gamma_ : float
        The gamma that was used.
    projection_ : ndarray of shape (n_anchors, nbits), float64
        W', weights of the kernel values.
    intercept_ : ndarray of shape (nbits,), float64
        What centres the kernel values.
    history_ : list of dict
        One a round: "round", and "objective", the sum of (d - d~)^2 over the pairs; round 0 is
        the random start.
    affinity_ : callable or None
        The fitted affinity; None where distances are reconstructed and none was given.
    database_codes_ : ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8
        Packed codes of the training rows.
    database_y_ : array of shape (n_samples, ...)
        Their targets.
    n_features_in_ : int
        Number of features of the training rows.

    References
    ----------
    Kulis, Darrell: Learning to hash with binary reconstructive embeddings. NIPS 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import BREHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = BREHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.score(X[1000:], y[1000:]) > 0.7
    True
    >>> hasher.history_[-1]["objective"] < hasher.history_[0]["objective"]
    True
    """

    _parameter_constraints = {
        name: kinds for name, kinds in KernelHasher._parameter_constraints.items() if name != "ridge"
    } | {
        "reconstruct": [StrOptions({"affinity", "distances"})],
        "n_labeled": [Interval(Integral, 2, None, closed="left")],
        "n_relevant": [Interval(Integral, 1, None, closed="left")],
        "n_irrelevant": [Interval(Integral, 1, None, closed="left")],
        "far": [Interval(Real, 0, 1, closed="right")],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "n_updates": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        nbits=32,
        *,
        reconstruct="affinity",
        n_labeled=5000,
        n_relevant=5,
        n_irrelevant=5,
        far=1.0,
        n_anchors=1000,
        gamma=None,
        n_iter=20,
        n_updates=10,
        affinity="auto",
        store_database=True,
        random_state=None,
    ):
        self.nbits = nbits
        self.reconstruct = reconstruct
        self.n_labeled = n_labeled
        self.n_relevant = n_relevant
        self.n_irrelevant = n_irrelevant
        self.far = far
        self.n_anchors = n_anchors
        self.gamma = gamma
        self.n_iter = n_iter
        self.n_updates = n_updates
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    @property
    def _supervised(self):  # type: ignore[override]  # one of the two kinds, as the parameter says
        return self.reconstruct == "affinity"

    def _fit(self, X, targets):
        return super()._fit(X, targets if self._supervised else X)

    def _learn(self, features, targets, rng):
        rows = draw_indices(len(features), self.n_labeled, rng)
        compared, sizes = take_targets(targets, rows), (self.n_relevant, self.n_irrelevant)
        if self._supervised:
            pairs, distances = affinity_pairs(self.affinity_, compared, *sizes, rng)
        else:
            pairs, distances = distance_pairs(compared, *sizes, self.far, rng)
        start = rng.standard_normal((features.shape[1], self.nbits))
        updates = self.n_iter, self.n_updates, rng
        weights, objectives = reconstruct(features[rows], pairs, distances, start, *updates)
        self.history_ = [{"round": n, "objective": objective} for n, objective in enumerate(objectives)]
        return weights, 0.0
