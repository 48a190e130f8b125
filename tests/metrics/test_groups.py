"""Rows that are one item, and rows that are one query: sums of the distances of the nearest members, counted."""

from itertools import pairwise

import _oracles as oracles
import numpy as np
import pytest
import sklearn
from _oracles import assert_same_histogram, sums_to_groups
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import ITQHasher
from skhash.affinity import Relevance
from skhash.codes import Codes, hamming_distances
from skhash.codes.bits import quantize_weights
from skhash.metrics import (
    Ranking,
    RetrievalScorer,
    average_precision,
    histogram_from_distances,
    precision,
    precision_recall_curve,
    relevance_histogram,
)

KINDS = {
    "any": lambda n, rng: rng.integers(0, max(1, n // 3), n),
    "one member each": lambda n, rng: rng.permutation(n),
    "one group": lambda n, rng: np.full(n, 7),
    "one large group": lambda n, rng: np.where(rng.random(n) < 0.8, 3, rng.integers(-5, 5, n)),
    "far apart": lambda n, rng: rng.integers(-(2**62), 2**62, 5)[rng.integers(0, 5, n)],
    "text": lambda n, rng: np.array(["b", "a", "", "é", "aa"], object)[rng.integers(0, 5, n)],
    "in order": lambda n, rng: np.sort(rng.integers(0, max(1, n // 4), n)),
}


def problem(n_items, n_rows, nbits, kind, rng):
    """Bits of queries and items, of which many are equal, their groups, and targets of the groups."""
    centers = rng.integers(0, 2, (4, nbits))
    rows, items = (centers[rng.integers(0, 4, n)] ^ (rng.random((n, nbits)) < 0.1) for n in (n_rows, n_items))
    groups, query_groups = KINDS[kind](n_items, rng), rng.integers(0, max(1, n_rows // 2), n_rows)
    targets = [rng.integers(0, 3, len(set(labels.tolist()))) for labels in (query_groups, groups)]
    return rows, items, query_groups, groups, *targets


@pytest.mark.parametrize("kind", KINDS)
def test_sums_to_the_nearest_members_are_counted(kind):
    rng = np.random.default_rng(0)
    for _ in range(200):
        nbits = int(rng.choice([1, 7, 8, 12, 64, 128, 130, 248, 256, 300]))
        n_items, n_rows = int(rng.integers(1, 300)), int(rng.integers(1, 12))
        rows, items, query_groups, groups, query_y, y = problem(n_items, n_rows, nbits, kind, rng)
        distances = hamming_distances(rows, items)
        H = relevance_histogram(rows, items, query_y, y, groups=groups, query_groups=query_groups)
        expected = histogram_from_distances(sums_to_groups(distances, groups, query_groups), query_y, y)
        assert_same_histogram(H, expected)
        assert H.is_ragged
        row_y = rng.integers(0, 3, n_rows)
        H = relevance_histogram(rows, items, row_y, y, groups=groups)
        expected = histogram_from_distances(sums_to_groups(distances, groups), row_y, y)
        assert_same_histogram(oracles.as_ragged(H), expected)
        assert H.counts.shape == (n_rows, nbits + 1, len(H.levels))


@pytest.mark.parametrize("nbits", [3000, 70_000])
def test_long_codes_and_queries_of_many_vectors_are_summed(nbits):
    rng = np.random.default_rng(0)
    rows, items, _, groups, _, y = problem(30, 40, nbits, "any", rng)
    items[:4], rows[:9] = 1, 0  # the largest distances
    H = relevance_histogram(rows, items, [1], y, groups=groups, query_groups=[0] * 40)
    expected = sums_to_groups(hamming_distances(rows, items), groups, [0] * 40)
    assert_same_histogram(H, histogram_from_distances(expected, [1], y))


def test_many_vectors_are_summed_in_several_passes_and_chunks():
    rng = np.random.default_rng(0)
    rows, items, query_groups, groups, query_y, y = problem(3000, 900, 40, "any", rng)
    query_groups[:400] = 5
    y, query_y = y[: len(np.unique(groups))], rng.integers(0, 3, len(np.unique(query_groups)))
    given = {"groups": groups, "query_groups": query_groups}
    H = relevance_histogram(rows, items, query_y, y, **given)
    expected = sums_to_groups(hamming_distances(rows, items), groups, query_groups)
    assert_same_histogram(H, histogram_from_distances(expected, query_y, y))
    with sklearn.config_context(working_memory=0.1):
        assert_same_histogram(relevance_histogram(rows, items, query_y, y, **given), H)


def test_groups_without_queries_of_several_vectors_and_the_reverse():
    rng = np.random.default_rng(0)
    rows, items, query_groups, _, query_y, _ = problem(80, 9, 16, "any", rng)
    item_y, distances = rng.integers(0, 3, 80), hamming_distances(rows, items)
    H = relevance_histogram(rows, items, query_y, item_y, query_groups=query_groups)
    assert_same_histogram(H, histogram_from_distances(sums_to_groups(distances, None, query_groups), query_y, item_y))
    alone = relevance_histogram(rows, items, np.arange(9) % 3, item_y, groups=np.arange(80))
    assert_array_equal(alone.counts, relevance_histogram(rows, items, np.arange(9) % 3, item_y).counts)
    assert precision(alone, radius=4) == precision(relevance_histogram(rows, items, np.arange(9) % 3, item_y), radius=4)
    assert len(precision_recall_curve(alone)[0]) == 17


def test_groups_of_codes_count_as_given_ones_and_stay():
    rng = np.random.default_rng(0)
    rows, items, query_groups, groups, query_y, y = problem(80, 9, 16, "text", rng)
    codes = Codes.of(rows, groups=query_groups), Codes.of(items, groups=groups)
    H = relevance_histogram(*codes, query_y, y)
    assert_same_histogram(H, relevance_histogram(rows, items, query_y, y, groups=groups, query_groups=query_groups))
    assert_same_histogram(relevance_histogram(*codes, query_y, y), H)  # from the order that is kept
    row_y, item_y = rng.integers(0, 3, 9), rng.integers(0, 3, 80)
    each = relevance_histogram(*codes, row_y, item_y, groups=range(80), query_groups=range(9))
    assert_same_histogram(each, oracles.as_ragged(relevance_histogram(rows, items, row_y, item_y)))


def test_weights_and_real_queries_are_summed():
    rng = np.random.default_rng(0)
    for _ in range(100):
        rows, items, query_groups, groups, query_y, y = problem(60, 8, 20, "any", rng)
        given = {"groups": groups, "query_groups": query_groups}
        weights = rng.random(20)
        whole, unit = quantize_weights(weights, 20)
        distances = (rows[:, None] != items) @ whole
        expected = histogram_from_distances(sums_to_groups(distances, groups, query_groups) * unit, query_y, y)
        H = relevance_histogram(rows, items, query_y, y, bit_weights=weights, **given)
        assert_same_histogram(H, expected)
        activations = rng.integers(-50, 50, (8, 20)) / 8
        codes = Codes.of(rows, groups=query_groups), Codes.of(items, groups=groups)
        ranking = Ranking(*codes, Relevance.between(query_y, y), query_activations=activations)
        (H,) = ranking.histograms()
        expected = sums_to_groups(-activations @ (2.0 * items - 1).T, groups, query_groups)
        assert_same_histogram(H, histogram_from_distances(expected, query_y, y))
        (H,) = ranking.histograms(weighted=False)
        expected = sums_to_groups(hamming_distances(rows, items), groups, query_groups)
        assert_same_histogram(H, histogram_from_distances(expected, query_y, y))


@pytest.mark.parametrize("exclude_self", [False, True])
def test_a_shortlist_is_ordered_by_real_queries_and_the_others_by_code(exclude_self):
    rng = np.random.default_rng(0)
    for _ in range(100):
        rows, items, _, groups, _, y = problem(30, 30, 20, "any", rng)
        activations, n = rng.integers(-50, 50, (30, 20)) / 8, len(y)
        codes = Codes.of(rows, groups=groups), Codes.of(items, groups=groups)
        ranking = Ranking(*codes, Relevance.between(y, y), None, exclude_self, activations, candidates=3)
        if n < 2:
            continue
        by_code = sums_to_groups(hamming_distances(rows, items), groups, groups)
        real = sums_to_groups(-activations @ (2.0 * items - 1).T, groups, groups)
        (H,) = ranking.histograms()
        for query in range(n):
            others = [g for g in range(n) if not (exclude_self and g == query)]
            first = sorted(others, key=lambda g: (by_code[query, g], g))[:3]
            order = sorted(others, key=lambda g: (g not in first, real[query, g] if g in first else by_code[query, g]))
            keys = [(g in first, real[query, g] if g in first else by_code[query, g]) for g in order]
            ranks = np.cumsum([0, *(a != b for a, b in pairwise(keys))])
            own = ranking.relevance.levels(np.array([query]), np.array(order))[0]
            ties = slice(H.indptr[query], H.indptr[query + 1])
            counts = np.zeros((ranks[-1] + 1, 2), int)
            np.add.at(counts, (ranks, own[0]), 1)
            assert_array_equal(H.counts[ties], counts)


def test_a_group_is_left_out_of_its_own_ranking():
    rng = np.random.default_rng(0)
    rows, _, query_groups, *_ = problem(5, 40, 12, "any", rng)
    y = rng.integers(0, 3, len(np.unique(query_groups)))
    codes = Codes.of(rows, groups=query_groups)
    H = relevance_histogram(codes, codes, y, exclude_self=True)
    distances = sums_to_groups(hamming_distances(rows, rows), query_groups, query_groups)
    assert_same_histogram(H, histogram_from_distances(distances, y, exclude_self=True))


def test_whole_groups_of_shards_add():
    rng = np.random.default_rng(0)
    rows, items, query_groups, groups, query_y, y = problem(90, 9, 16, "in order", rng)
    whole = relevance_histogram(rows, items, query_y, y, groups=groups, query_groups=query_groups)
    labels = np.unique(groups)
    parts = [
        relevance_histogram(rows, items[part], query_y, y[chosen], groups=groups[part], query_groups=query_groups)
        for chosen in (labels < 9, labels >= 9)
        for part in [np.isin(groups, labels[chosen])]
    ]
    assert_same_histogram(sum(parts), whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": [0, 1]}, r"`groups` must be ints of shape \(4,\), or text. Got shape \(2,\) instead"),
        ({"groups": [0.5] * 4}, "`groups` must be ints or text. Got 0.5"),
        ({"query_groups": [0, 1]}, r"`query_groups` must be ints of shape \(3,\), or text. Got shape \(2,\) instead"),
        ({"database_y": [0, 1, 0, 1]}, "`database_y` must have one target per sample, or per group. Got 4"),
        ({"query_y": [0, 1, 0]}, "`query_y` must have one target per sample, or per group. Got 3"),
        ({"device": "cpu"}, "`device` must be None with groups, which compiled code counts. Got 'cpu' instead"),
        ({"groups": [0, 1, 2, 2], "database_y": [0, 1, 1], "exclude_self": True}, "`exclude_self` must be False"),
    ],
)
def test_bad_groups_are_named(changes, message):
    given = {"query_y": [0, 1], "database_y": [0, 1], "groups": [5, 5, 2, 2], "query_groups": ["b", "a", "b"]}
    with pytest.raises(ValueError, match=message):
        relevance_histogram(np.eye(3, 4, dtype=int), np.eye(4, dtype=int), **given | changes)


# --- scorers


@pytest.fixture(scope="module")
def documents(digits):
    """Digits of which three to five of one class are a document: samples, groups, and the target of each sample."""
    rng, order = np.random.default_rng(0), np.argsort(digits.y, kind="stable")
    groups = np.cumsum(rng.random(len(order)) < 0.25)
    groups = 20 * groups + digits.y[order]  # none has two classes
    places = rng.permutation(len(order))
    return digits.X[order][places], groups[places], digits.y[order][places]


def test_a_scorer_takes_queries_and_items_of_several_samples(documents, itq):
    X, groups, y = documents
    is_query = np.isin(groups, np.unique(groups)[::3])
    queries, items = X[is_query], X[~is_query]
    database = items, y[~is_query], groups[~is_query]
    firsts = [np.unique(groups[chosen], return_index=True)[1] for chosen in (is_query, ~is_query)]
    of_groups = y[is_query][firsts[0]], y[~is_query][firsts[1]]
    given = {"groups": groups[~is_query], "query_groups": groups[is_query]}
    H = relevance_histogram(itq.transform(queries), itq.transform(items), *of_groups, **given)
    scorer = RetrievalScorer(["ap", "precision_radius_2"], database)
    scores = scorer(itq, queries, y[is_query], groups=groups[is_query])
    assert scores == {"ap": average_precision(H), "precision_radius_2": precision(H, radius=2)}
    assert repr(scorer).startswith("RetrievalScorer(['ap', 'precision_radius_2'], database=(X, y, groups), ")
    (same,) = scorer.ranking(itq, queries, y[is_query], groups=groups[is_query]).histograms()
    assert_same_histogram(same, H)
    labels = [sparse.csr_array(np.eye(10, dtype=int)[part]) for part in (y[is_query], y[~is_query])]
    multilabel = RetrievalScorer("ap", (items, labels[1], groups[~is_query]))
    assert multilabel(itq, queries, labels[0], groups=groups[is_query]) == scores["ap"]
    real = RetrievalScorer("ap", database, query="real")(itq, queries, y[is_query], groups=groups[is_query])
    sums = sums_to_groups(-itq.project_queries(queries) @ (2.0 * itq.transform(items) - 1).T, *given.values())
    assert real == pytest.approx(average_precision(histogram_from_distances(sums, *of_groups)), abs=1e-6)


@pytest.mark.filterwarnings("ignore:[0-9]+ of [0-9]+ queries have no relevant item")  # in the folds of scikit-learn 1.6
def test_cross_validation_routes_groups(documents):
    X, groups, y = documents
    model, folds = make_pipeline(StandardScaler(), ITQHasher(16, random_state=0)), GroupKFold(3)
    alone = cross_val_score(model, X, y, groups=groups, cv=folds, scoring=RetrievalScorer("ap", "fold"))
    expected = []
    for train, test in folds.split(X, y, groups):
        bits = model.fit(X[train], y[train]).transform(X[test])
        _, first = np.unique(groups[test], return_index=True)
        H = relevance_histogram(
            bits, bits, y[test][first], exclude_self=True, groups=groups[test], query_groups=groups[test]
        )
        expected.append(average_precision(H))
    with sklearn.config_context(enable_metadata_routing=True):
        given = {"cv": folds, "params": {"groups": groups}}
        unasked = cross_val_score(model, X, y, scoring=RetrievalScorer("ap", "fold"), **given)
        assert_array_equal(unasked, alone)
        scorer = RetrievalScorer("ap", "fold").set_score_request(groups=True)
        assert_array_equal(cross_val_score(model, X, y, scoring=scorer, **given), expected)
        search = GridSearchCV(model, {"itqhasher__nbits": [16]}, scoring=scorer, cv=folds).fit(X, y, groups=groups)
        assert search.best_score_ == np.mean(expected)
        other = RetrievalScorer("ap", "fold").set_score_request(groups="documents")
        given["params"] |= {"documents": groups}
        assert_array_equal(cross_val_score(model, X, y, scoring=other, **given), expected)
    with pytest.raises(RuntimeError, match="Metadata is routed only after"):
        RetrievalScorer("ap").set_score_request(groups=True)


def test_bad_groups_of_a_scorer_are_named(documents, itq):
    X, groups, y = documents
    with pytest.raises(ValueError, match="`groups` must be of samples with equal targets"):
        RetrievalScorer("ap", "fold")(itq, X, np.arange(len(X)), groups=groups)
    with pytest.raises(ValueError, match="The groups of `database` must be of samples with equal targets"):
        RetrievalScorer("ap", (X, y, np.zeros(len(X), int)))(itq, X, y)
    with pytest.raises(ValueError, match=r"`groups` must be ints of shape \(500,\), or text. Got shape \(3,\)"):
        RetrievalScorer("ap", "fold")(itq, X, y, groups=[0, 1, 2])
    with pytest.raises(ValueError, match='`X` must have at least 2 queries with database="fold"'):
        RetrievalScorer("ap", "fold")(itq, X[:3], [0, 0, 0], groups=[1, 1, 1])
    with pytest.raises(ValueError, match=r"`y` must have one target per sample, 500. Got shape \(3,\) instead"):
        RetrievalScorer("ap", "fold")(itq, X, [0, 1, 2], groups=groups)


def test_queries_of_several_samples_rank_a_dask_database(documents, itq):
    da = pytest.importorskip("dask.array")
    X, groups, y = documents
    lazy = da.from_array(X, chunks=(200, -1)), da.from_array(y, chunks=200)
    expected = RetrievalScorer("ap", (X, y))(itq, X, y, groups=groups)
    assert RetrievalScorer("ap", lazy)(itq, X, y, groups=groups) == expected
    with pytest.raises(ValueError, match=r"`database` must be \(X, y\) with dask, whose blocks may divide a group"):
        RetrievalScorer("ap", (*lazy, groups))(itq, X, y, groups=groups)
