"""Brute force: the definitions themselves, over every order inside the ties.

A *ranking* is one row of affinity levels, nearest item first; an array of
rankings holds one row for each order that the ties admit.
"""

import functools
import itertools
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.optimize import linprog

from skhash.affinity import DistanceAffinity, PrecomputedAffinity, SharedLabelsAffinity
from skhash.metrics import RelevanceHistogram

OVER_ORDERS = {"average": np.mean, "best": np.max, "worst": np.min}


def tied_items(max_level):
    """Strategy: up to eight (distance, level) pairs, with many ties."""
    return st.lists(st.tuples(st.integers(0, 3), st.integers(0, max_level)), min_size=1, max_size=8)


def histogram(*queries):
    """Dense histogram of queries given as lists of (distance, level) pairs."""
    n_levels = 1 + max(level for items in queries for _, level in items)
    counts = np.zeros((len(queries), 4, n_levels), dtype=np.int64)
    for q, items in enumerate(queries):
        for distance, level in items:
            counts[q, distance, level] += 1
    return RelevanceHistogram(counts, np.arange(n_levels))


def all_rankings(items):
    """Every order of the items whose distances ascend."""
    distances, levels = np.transpose(items)
    orders = permutations(len(items))
    return levels[orders[(np.diff(distances[orders], axis=1) >= 0).all(axis=1)]]


def one_ranking(items, ties):
    """The order with the highest levels of each tie first ("best") or last ("worst")."""
    sign = {"best": -1, "worst": 1}[ties]
    return np.array([[level for _, level in sorted(items, key=lambda item: (item[0], sign * item[1]))]])


def average_precision(rankings, k=None, normalizer="relevant"):
    relevant = rankings > 0
    hits = relevant.cumsum(axis=1)
    n = rankings.shape[1]
    k = n if k is None else min(k, n)
    precisions = (relevant * hits / np.arange(1, n + 1))[:, :k].sum(axis=1)
    total = hits[:, -1]
    return ratio(precisions, {"relevant": total, "min": np.minimum(total, k), "retrieved": hits[:, k - 1]}[normalizer])


def ndcg(rankings, k=None, discount="log2", gain="exponential"):
    ranks = np.arange(1, rankings.shape[1] + 1)
    if discount == "log2":
        gains, weights = 2.0**rankings - 1 if gain == "exponential" else rankings, 1 / np.log2(ranks + 1)
    else:
        gains, weights = (rankings > 0) * 1.0, np.array([1.0 if t < 3 else 1 / np.log2(t) for t in ranks])
    ideal = -np.sort(-gains, axis=1)
    return ratio((gains * weights)[:, :k].sum(axis=1), (ideal * weights)[:, :k].sum(axis=1))


def precision(rankings, k):
    return (rankings[:, :k] > 0).mean(axis=1)


def recall(rankings, k):
    return ratio((rankings[:, :k] > 0).sum(axis=1), (rankings > 0).sum(axis=1))


def r_precision(rankings):
    return recall(rankings, (rankings[0] > 0).sum())


def reciprocal_rank(rankings):
    relevant = rankings > 0
    return relevant.any(axis=1) / (1 + relevant.argmax(axis=1))


def roc_auc(rankings):
    relevant = rankings > 0
    ordered = (relevant.cumsum(axis=1) * ~relevant).sum(axis=1)
    return ratio(ordered, relevant.sum(axis=1) * (~relevant).sum(axis=1))


def of_a_part(ranking, lost):
    """Metrics of one ranking of the retrieved items, and of the levels of the others, as trec_eval defines them."""
    relevant, n_relevant = ranking > 0, (ranking > 0).sum() + (lost > 0).sum()
    precisions = relevant * relevant.cumsum() / np.arange(1, len(ranking) + 1)
    ideal, hits = -np.sort(-np.concatenate([ranking, lost])), relevant[:3].sum()

    def dcg(gains, k=None):
        return (gains / np.log2(np.arange(2, len(gains) + 2)))[:k].sum()

    return {
        "ap": precisions.sum() / n_relevant,
        "ap_at_3": precisions[:3].sum() / n_relevant,
        "ap_at_3_min": precisions[:3].sum() / min(3, n_relevant),
        "ap_at_3_retrieved": precisions[:3].sum() / max(hits, 1),
        "ndcg": dcg(2.0**ranking - 1) / dcg(2.0**ideal - 1),
        "ndcg_at_3_linear": dcg(ranking, 3) / dcg(ideal, 3),
        "precision_at_3": hits / 3,
        "recall_at_3": hits / n_relevant,
        "r_precision": relevant[:n_relevant].sum() / n_relevant,
        "reciprocal_rank": relevant.any() / (1 + relevant.argmax()),
        "neighbor_recall_at_2_of_3": min(hits, 2) / min(n_relevant, 2),
    }


def ratio(a, b):
    return np.divide(a, b, out=np.zeros(len(a)), where=b > 0)


def closed_form_ap(counts):
    """AP_T of soft counts, rows (irrelevant, relevant) of a tie, at mpmath's precision."""
    total, before, relevant_before = mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0)
    for irrelevant, p in counts:
        n = irrelevant + p
        r = (p - 1) / (n - 1)
        harmonic = mpmath.psi(0, before + n + 1) - mpmath.psi(0, before + 1)
        total += p / n * (r * n + (relevant_before + 1 - r * (before + 1)) * harmonic)
        before, relevant_before = before + n, relevant_before + p
    return total / relevant_before


def exact_gradient(function, counts, step="1e-20"):
    """Central differences at mpmath's precision, of the shape of `counts`."""
    step, gradient = mpmath.mpf(step), np.zeros(np.shape(counts))
    for i, j in np.ndindex(*gradient.shape):
        up, down = ([list(row) for row in counts] for _ in range(2))
        up[i][j] += step
        down[i][j] -= step
        gradient[i, j] = (function(up) - function(down)) / (2 * step)
    return gradient


def naive_counts(queries, database, query_y, database_y, level, exclude_self=False):
    """{(query, distance, level): items} by a double loop over bits."""
    counts = {}
    for i, (query, a) in enumerate(zip(queries, _rows(query_y), strict=True)):
        for j, (item, b) in enumerate(zip(database, _rows(database_y), strict=True)):
            if not (exclude_self and i == j):
                key = i, sum(int(x != y) for x, y in zip(query, item, strict=True)), float(level(a, b))
                counts[key] = counts.get(key, 0) + 1
    return counts


def _rows(y):
    return [y[[i]] for i in range(y.shape[0])] if sparse.issparse(y) else y


@functools.cache
def permutations(n):
    return np.array(list(itertools.permutations(range(n))))


# --- StructHash


def reciprocal_rank_gain(g, t, n_relevant, n_irrelevant):
    """A user's loss, by the rank of the first relevant item alone."""
    return (g == 1) / t


def precision_at(rankings, k=None):
    n_relevant = rankings[0].sum()
    k = n_relevant if k is None else k
    return rankings[:, :k].sum(axis=1) / min(k, n_relevant)


def losses_of(gains):
    """Each loss as a gain, of those of the package, and as a metric of 0/1 rankings by its own definition."""
    losses = {
        "ap": (gains["ap"], average_precision),
        "auc": (gains["auc"], roc_auc),
        "reciprocal rank": (reciprocal_rank_gain, reciprocal_rank),
    }
    for k in (None, 1, 2, 5, 50):
        losses[f"precision {k}"] = partial(gains["precision"], k=k), partial(precision_at, k=k)
        for discount in ("delayed_log2", "log2"):
            options = {"k": k, "discount": discount}
            losses[f"ndcg {k} {discount}"] = partial(gains["ndcg"], **options), partial(ndcg, **options)
    return losses


@functools.cache
def interleavings(n_relevant, n_irrelevant):
    """Every 0/1 ranking, and its misordered pairs of the j-th relevant and the k-th irrelevant item."""
    n = n_relevant + n_irrelevant
    places = np.array(list(itertools.combinations(range(n), n_relevant)))
    rankings = np.zeros((len(places), n), dtype=int)
    np.put_along_axis(rankings, places, 1, axis=1)
    rest = np.array([np.flatnonzero(ranking == 0) for ranking in rankings])
    return rankings, places[:, :, None] > rest[:, None, :]


def without_padding(size, max_relevant):
    """Positions of the items of a list of this size, without the padding."""
    return np.r_[: size[0], max_relevant : max_relevant + size[1]]


def pair_weights(n=40, seed=0, density=0.3):
    """A random pair matrix, as sparse and asymmetric as those of the master problem."""
    rng = np.random.RandomState(seed)
    return sparse.csr_array(sparse.random(n, n, density, random_state=rng, data_rvs=rng.standard_normal))


def gain_of(A, bits):
    """The sum of A_ij |h_i - h_j|."""
    h = np.asarray(bits, dtype=float)
    return (A.toarray() * np.abs(h[:, None] - h)).sum()


def triplet_optimum(margins, C):
    """The minimum of |w|_1 + C (sum of slacks) over triplets, as a linear program with one slack per triplet."""
    n_triplets, nbits = margins.shape
    cost = np.r_[np.ones(nbits), np.full(n_triplets, C)]
    return linprog(cost, A_ub=-np.hstack([margins, np.eye(n_triplets)]), b_ub=-np.ones(n_triplets)).fun


# --- problems of counting, and histograms by definition

MATRIX = np.random.default_rng(0).integers(0, 3, (40, 40)) * 1.5


NEAR = DistanceAffinity(percentiles=(50, 20), levels=(1, 3), thresholds=np.array([1.5, 0.7]))


def classes(n, rng):
    return rng.integers(0, 3, n)


def names(n, rng):
    return [["ant", "bee", "cow"][i] for i in rng.integers(0, 3, n)]


def tags(n, rng):
    return rng.integers(0, 2, (n, 4))


def sparse_tags(n, rng):
    return sparse.csr_array(tags(n, rng))


def points(n, rng):
    return rng.normal(size=(n, 2))


def indices(n, rng):
    return rng.integers(0, len(MATRIX), n)


AFFINITIES = {
    "classes": (classes, "auto", lambda a, b: int(a == b)),
    "names": (names, "auto", lambda a, b: int(a == b)),
    "shared labels": (tags, "auto", lambda a, b: sum(a & b)),
    "any shared label": (tags, SharedLabelsAffinity(binary=True), lambda a, b: int(any(a & b))),
    "sparse labels": (sparse_tags, "auto", lambda a, b: (a * b).sum()),
    "distance": (points, NEAR, lambda a, b: np.select([np.hypot(*(a - b)) <= t for t in (0.7, 1.5)], [3, 1])),
    "callable": (classes, lambda a, b: 0.5 * np.abs(a[:, None] - b), lambda a, b: 0.5 * abs(a - b)),
    "precomputed": (indices, PrecomputedAffinity(MATRIX), lambda a, b: MATRIX[a, b]),
    "precomputed sparse": (indices, PrecomputedAffinity(sparse.csr_array(MATRIX)), lambda a, b: MATRIX[a, b]),
}


every_affinity = pytest.mark.parametrize("kind", AFFINITIES)


def random_problem(kind, n_queries=9, n_items=14, nbits=12, seed=0):
    rng = np.random.default_rng(seed)
    targets, affinity, level = AFFINITIES[kind]
    codes = tuple(rng.integers(0, 2, (n, nbits)) for n in (n_queries, n_items))
    return codes, (targets(n_queries, rng), targets(n_items, rng)), affinity, level


def sums_to_groups(distances, groups=None, query_groups=None):
    """Distances of queries of several rows from groups of columns: sums of those to the nearest member."""
    rows = np.arange(len(distances)) if query_groups is None else np.asarray(query_groups)
    columns = np.arange(distances.shape[1]) if groups is None else np.asarray(groups)
    nearest = np.array([distances[:, columns == group].min(axis=1) for group in sorted(set(columns.tolist()))])
    return np.array([nearest[:, rows == query].sum(axis=1) for query in sorted(set(rows.tolist()))])


def as_dict(H):
    assert (np.diff(H.levels) > 0).all()
    return {(int(q), int(d), float(H.levels[v])): int(H.counts[q, d, v]) for q, d, v in np.argwhere(H.counts)}


def assert_same_histogram(H, other):
    for field in ("levels", "counts", "distances", "indptr"):
        assert_array_equal(getattr(H, field), getattr(other, field), err_msg=field)


def as_ragged(H):
    query, distances = np.nonzero(H.counts.any(axis=2))
    starts = np.searchsorted(query, np.arange(H.n_queries + 1))
    return RelevanceHistogram(H.counts[query, distances], H.levels, distances, starts)
