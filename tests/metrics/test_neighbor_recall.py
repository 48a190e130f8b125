"""Recall of the nearest neighbors: by name, in scorers and searches, and for real queries."""

from itertools import permutations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score

from skhash import ITQHasher
from skhash.affinity import ClassAffinity, NeighborAffinity
from skhash.codes import hamming_distances
from skhash.metrics import (
    Metric,
    RetrievalScorer,
    average_precision,
    histogram_from_distances,
    neighbor_recall,
    relevance_histogram,
)
from skhash.neighbors import HammingNeighbors

X = load_digits().data[:500]
ITEMS, QUERIES = X[:400], X[400:]


def nearest(distances, k):
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def euclidean(a, b):
    return np.sqrt(((a[:, None] - b) ** 2).sum(axis=-1))


def shared(a, b):
    return np.mean([len(np.intersect1d(*pair)) / len(pair[0]) for pair in zip(a, b, strict=True)])


@pytest.fixture(scope="module")
def hasher():
    return ITQHasher(32, random_state=0).fit(ITEMS, ITEMS)


def test_is_the_mean_over_random_orders_of_ties(hasher):
    truth = nearest(euclidean(QUERIES, ITEMS), 10)
    distances = hamming_distances(hasher.transform(QUERIES), hasher.transform(ITEMS))
    rng = np.random.default_rng(0)
    for candidates, name in ((10, "neighbor_recall_at_10"), (50, "neighbor_recall_at_10_of_50")):
        draws = [shared(truth, nearest(distances + rng.random(distances.shape) / 2, candidates)) for _ in range(20)]
        score = RetrievalScorer(name)(hasher, QUERIES, QUERIES)
        assert score == pytest.approx(np.mean(draws), abs=4 * np.std(draws) / np.sqrt(20))
        worst, best = (RetrievalScorer(f"{name}_{ties}")(hasher, QUERIES, QUERIES) for ties in ("worst", "best"))
        assert worst <= min(draws) <= max(draws) <= best
        assert RetrievalScorer(name, database=(ITEMS, ITEMS))(hasher, QUERIES, QUERIES) == score


@pytest.mark.parametrize("candidates", [2, 3, 4, 5, 7])
def test_more_items_than_k_that_are_equally_near(candidates):
    distances, levels = np.array([0.0, 1, 1, 1, 1, 2, 2]), np.array([1, 1, 0, 1, 1, 0, 1])
    values = []
    for order in permutations(range(7)):
        rank = np.lexsort((order, distances))[:candidates]
        values.append(min(levels[rank].sum(), 2) / 2)
    H = histogram_from_distances(distances[None], levels=levels[None])
    means = {ties: neighbor_recall(H, 2, candidates=candidates, ties=ties) for ties in ("worst", "average", "best")}
    assert list(means.values()) == pytest.approx([min(values), np.mean(values), max(values)], abs=1e-12)


def test_a_search_that_finds_only_copies_finds_all():
    distinct = np.random.default_rng(0).normal(size=(100, 16))
    X = np.repeat(distinct, 3, axis=0)
    hasher = ITQHasher(64, random_state=0).fit(X, X)
    assert RetrievalScorer("neighbor_recall_at_2")(hasher, distinct, distinct) == 1.0


@pytest.mark.parametrize("candidates", [None, 40])
def test_real_queries_are_scored_as_they_are_searched(hasher, candidates):
    truth = nearest(euclidean(QUERIES, ITEMS), 10)
    index = HammingNeighbors(ITQHasher(32, random_state=0), query="real", candidates=candidates).fit(ITEMS)
    found = index.kneighbors(QUERIES, n_neighbors=10, return_distance=False)
    names = [f"neighbor_recall_at_10{ties}" for ties in ("_worst", "", "_best")]
    worst, mean, best = RetrievalScorer(names, query="real", candidates=candidates)(hasher, QUERIES, QUERIES).values()
    assert worst <= shared(truth, found) <= best  # items of equal codes are ties
    assert best - worst < 0.01
    assert worst <= mean <= best
    assert mean > RetrievalScorer("neighbor_recall_at_10")(hasher, QUERIES, QUERIES)


@pytest.mark.parametrize("candidates", [1, 5, 38, 39, 40])
def test_candidates_of_a_fold_are_those_of_a_search(candidates):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 6)), rng.integers(0, 3, 40)
    X[:8] = X[0]  # more equal items than candidates: a query is not always in its own list
    hasher = ITQHasher(5, random_state=0).fit(X)
    codes, activations = hasher.transform(X), hasher.project_queries(X)
    hamming, real = hamming_distances(codes, codes).astype(float), -(activations @ (2.0 * codes - 1).T)
    values = []
    for query in range(40):
        others = np.delete(np.arange(40), query)
        order = others[np.argsort(hamming[query, others], kind="stable")]
        distances = 1000 + hamming[query]
        distances[order[:candidates]] = real[query, order[:candidates]]
        H = histogram_from_distances(
            np.round(distances[None, others], 6), y[query : query + 1], y[others], ClassAffinity()
        )
        values.append(average_precision(H))
    scorer = RetrievalScorer("ap", database="fold", query="real", candidates=candidates)
    assert scorer(hasher, X, y) == pytest.approx(np.mean(values), abs=1e-9)


def test_several_truths_in_one_scorer(hasher):
    names = ["neighbor_recall_at_1", "neighbor_recall_at_10", "neighbor_recall_at_10_of_50"]
    together = RetrievalScorer(names)(hasher, QUERIES, QUERIES)
    assert together == {name: RetrievalScorer(name)(hasher, QUERIES, QUERIES) for name in names}


def test_other_similarities(hasher):
    cosine = nearest(-(QUERIES @ ITEMS.T) / np.outer(*(np.linalg.norm(V, axis=1) for V in (QUERIES, ITEMS))), 5)
    affinity = NeighborAffinity(1, metric="cosine")
    scorer = RetrievalScorer("neighbor_recall_at_5_of_30", affinity=affinity, query="real")
    index = HammingNeighbors(ITQHasher(32, random_state=0), query="real").fit(ITEMS)
    found = index.kneighbors(QUERIES, n_neighbors=30, return_distance=False)
    expected = np.mean([np.isin(truth, items).mean() for truth, items in zip(cosine, found, strict=True)])
    assert scorer(hasher, QUERIES, QUERIES) == pytest.approx(expected, abs=2e-3)


def test_in_searches():
    scoring = RetrievalScorer("neighbor_recall_at_10", query="real")
    search = GridSearchCV(ITQHasher(random_state=0), {"nbits": [4, 64]}, scoring=scoring, cv=2).fit(X, X)
    assert search.best_params_ == {"nbits": 64}
    folds = cross_val_score(ITQHasher(16, random_state=0), X, X, scoring=RetrievalScorer("neighbor_recall_at_5"), cv=2)
    assert (folds > 0.1).all()


def test_names():
    metric = Metric.parse("neighbor_recall_at_10_of_50_worst")
    assert (metric.k, metric.candidates, metric.ties) == (10, 50, "worst")
    assert metric.with_ties("best").name == "neighbor_recall_at_10_of_50_best"
    assert Metric.parse("neighbor_recall_at_10_of_50").label() == "Neighbor recall@10 of 50"
    for name in ("neighbor_recall", "neighbor_recall_at_10_of_5", "recall_at_10_of_50", "neighbor_recall_radius_2"):
        with pytest.raises(ValueError, match="`metric` must"):
            Metric.parse(name)


def test_bad_arguments(hasher):
    for call, message in [
        (lambda: RetrievalScorer(["ap", "neighbor_recall_at_10"]), "must be neighbor_recall alone"),
        (lambda: RetrievalScorer("neighbor_recall_at_10", affinity=lambda a, b: a), "`affinity` must be 'auto' or a"),
        (lambda: RetrievalScorer("ap", candidates=5), "`candidates` must be None"),
        (lambda: RetrievalScorer("ap", query="float"), "`query` must be one of"),
        (lambda: RetrievalScorer("neighbor_recall_at_10")(hasher, QUERIES), "`y` must hold the original vectors"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    labels = ITQHasher(8, random_state=0).fit(ITEMS, np.arange(400) % 2)
    with pytest.raises(ValueError, match="`y` must hold the original vectors"):
        RetrievalScorer("neighbor_recall_at_10")(labels, QUERIES, np.arange(100) % 2)
    H = relevance_histogram([[0]], [[0], [1]], [1], [1, 2])
    with pytest.raises(ValueError, match="`k` must be an int >= 1"):
        neighbor_recall(H)
    for k in (0, -1, True, "5"):
        with pytest.raises(ValueError, match=f"`k` must be an int >= 1, .* Got {k!r} instead"):
            neighbor_recall(H, k, candidates=2)
    for candidates in (2, 7.5, "7"):
        with pytest.raises(ValueError, match=f"`candidates` must be .* at least k=5. Got {candidates!r}"):
            neighbor_recall(H, 5, candidates=candidates)
