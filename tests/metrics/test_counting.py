"""Counts of codes and targets: by kernels, by sorting, in chunks, and by their definition."""

import math

import _oracles as oracles
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity, Relevance
from skhash.codes import hamming_distances, pack
from skhash.codes.count_kernels import PLANE_ITEMS
from skhash.metrics import (
    Ranking,
    average_precision,
    histogram_from_distances,
    ndcg,
    precision,
    relevance_histogram,
)
from skhash.metrics.histogram import concatenate

WEIGHTS = (3, 1, 1, 0.5, 0, 2, 0.1, 1, 1, 1, 1, 7)


both_layouts = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["dense", "ragged"])


@oracles.every_affinity
@pytest.mark.parametrize("nbits", [1, 7, 8, 12, 64, 65, 130])
def test_counts_equal_a_double_loop(nbits, kind):
    codes, y, affinity, level = oracles.random_problem(kind, nbits=nbits)
    H = relevance_histogram(*codes, *y, affinity=affinity)
    assert H.counts.shape == (9, nbits + 1, len(H.levels))
    assert oracles.as_dict(H) == oracles.naive_counts(*codes, *y, level)
    oracles.assert_same_histogram(relevance_histogram(*map(pack, codes), *y, affinity=affinity, nbits=nbits), H)
    oracles.assert_same_histogram(relevance_histogram(codes[0], pack(codes[1]), *y, affinity=affinity, nbits=nbits), H)


@oracles.every_affinity
def test_exclude_self_leaves_out_the_item_of_the_query(kind):
    (codes, _), (y, _), affinity, level = oracles.random_problem(kind)
    H = relevance_histogram(codes, codes, y, affinity=affinity, exclude_self=True)
    assert oracles.as_dict(H) == oracles.naive_counts(codes, codes, y, y, level, exclude_self=True)
    ragged = relevance_histogram(codes, codes, y, affinity=affinity, exclude_self=True, bit_weights=np.ones(12))
    oracles.assert_same_histogram(ragged, oracles.as_ragged(H))


@oracles.every_affinity
def test_weighted_and_given_distances_count_the_same_ties(kind):
    codes, y, affinity, _ = oracles.random_problem(kind)
    weights = np.random.default_rng(1).exponential(size=12).round(1)
    H = relevance_histogram(*codes, *y, affinity=affinity, bit_weights=weights)
    distances = hamming_distances(*codes, bit_weights=weights)
    oracles.assert_same_histogram(histogram_from_distances(distances, *y, affinity=affinity), H)
    for q, row in enumerate(distances):
        assert_array_equal(H.distances[slice(*H.indptr[q : q + 2])], np.unique(row))
        assert_array_equal(H.counts[slice(*H.indptr[q : q + 2])].sum(axis=1), np.unique(row, return_counts=True)[1])


def counted_by_numpy(queries, codes, level_index, n_levels):
    """Counts of bits, by the level of each pair."""
    nbits, n_queries = queries.shape[1], len(queries)
    q, c = queries.astype(np.float32), codes.astype(np.float32)  # products are quick, and exact for small integers
    distances = (q.sum(axis=1, keepdims=True) + c.sum(axis=1) - 2 * (q @ c.T)).astype(np.int64)
    cells = (np.arange(n_queries)[:, None] * (nbits + 1) + distances) * n_levels + level_index
    return np.bincount(cells.ravel(), minlength=n_queries * (nbits + 1) * n_levels).reshape(n_queries, nbits + 1, -1)


@pytest.mark.parametrize("kind", ["classes", "shared labels"])
def test_repeated_codes_are_merged_without_changing_a_count(kind):
    (queries, distinct), (query_y, _), _, level = oracles.random_problem(kind, n_queries=120, n_items=6, nbits=9)
    rng = np.random.default_rng(1)
    database, database_y = distinct[rng.integers(0, 6, 300)], oracles.AFFINITIES[kind][0](300, rng)
    merged, *halves = (  # few queries are counted without a merge
        relevance_histogram(queries[rows], database, query_y[rows], database_y) for rows in np.s_[:, :60, 60:]
    )
    oracles.assert_same_histogram(merged, concatenate(halves))
    assert oracles.as_dict(merged) == oracles.naive_counts(queries, database, query_y, database_y, level)


@pytest.mark.parametrize("nbits", [16, 64, 130])  # a key of 64 bits holds code and class, or does not
def test_repeated_codes_and_queries_are_counted_once(nbits):
    rng = np.random.default_rng(0)
    distinct, y = rng.integers(0, 2, (50, nbits), dtype=np.uint8), rng.integers(0, 3, 1000)
    codes = distinct[rng.integers(0, 50, 1000)]
    H = relevance_histogram(codes[:150], codes, y[:150], y)
    assert_array_equal(H.counts, counted_by_numpy(codes[:150], codes, y[:150, None] == y, 2))


@pytest.mark.parametrize("nbits", [9, 64, 70, 300])  # codes that repeat and are merged, and several words a code
@pytest.mark.parametrize("n_classes", [2, 40, 90])  # groups of many planes, just large enough for them, and too small
def test_every_item_of_every_group_is_counted(nbits, n_classes):
    rng = np.random.default_rng(0)
    codes, y = (rng.integers(0, 2, (3000, nbits), dtype=np.uint8), rng.integers(0, n_classes, 3000))

    def affinity(a, b):
        return np.maximum(2 - abs(a[:, None] - b), 0)

    for n_queries in (1, 120):
        H = relevance_histogram(codes[:n_queries], codes, y[:n_queries], y, affinity=affinity)
        level_index = np.searchsorted(H.levels, affinity(y[:n_queries], y))
        assert_array_equal(H.counts, counted_by_numpy(codes[:n_queries], codes, level_index, len(H.levels)))


@pytest.mark.parametrize("n_items", [2600, 9000])
@pytest.mark.parametrize("n_levels", [2, 400])
def test_every_level_is_counted(n_items, n_levels):
    rng = np.random.default_rng(0)
    codes, y = rng.integers(0, 2, (n_items, 64), dtype=np.uint8), rng.integers(0, 2, n_items)

    def affinity(a, b):
        return np.where(a[:, None] == b, n_levels - 1, 0).astype(np.uint32)

    affinity.possible_levels = lambda a, b: np.arange(n_levels)
    H = relevance_histogram(codes[:118], codes, y[:118], y, affinity=affinity)
    level_index = affinity(y[:118], y).astype(np.int64)
    assert_array_equal(H.counts, counted_by_numpy(codes[:118], codes, level_index, n_levels))


@pytest.mark.parametrize("nbits", [17, 32, 63, 64, 130, 256, 511, 1023, 1024])
@pytest.mark.parametrize("kind", ["classes", "graded"])
def test_items_in_planes_are_counted_at_every_distance(nbits, kind):
    rng = np.random.default_rng(nbits)
    queries, n_items = rng.integers(0, 2, (101, nbits), dtype=np.uint8), 10 * PLANE_ITEMS + 301
    items = rng.integers(0, 2, (n_items, nbits), dtype=np.uint8)
    items[::2] = queries[0] ^ (rng.random((len(items[::2]), nbits)) < rng.random((len(items[::2]), 1)))
    items[:40], items[-40:] = queries[:40], 1 - queries[:40]  # at the least and at the largest distance
    if kind == "graded":
        query_y, database_y = (rng.integers(0, 2, (len(codes), 2)) for codes in (queries, items))
        level = query_y @ database_y.T
    else:
        query_y, database_y = (rng.integers(0, 3, len(codes)) for codes in (queries, items))
        query_y[0] = 3  # of no item
        level = (query_y[:, None] == database_y).astype(np.int64)
    expected = counted_by_numpy(queries, items, level, level.max() + 1)
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            H = relevance_histogram(queries, items, query_y, database_y)
        assert_array_equal(H.counts, expected)


def test_many_items_at_one_distance_are_counted_in_planes():
    rng = np.random.default_rng(0)
    items = rng.permuted(np.repeat(np.arange(48) < 20, 40 * PLANE_ITEMS).reshape(48, -1).T, axis=1).astype(np.uint8)
    H = relevance_histogram(np.zeros((101, 48), np.uint8), items, np.zeros(101, int), np.zeros(len(items), int))
    assert (H.counts[:, 20, -1] == len(items)).all()
    assert H.counts.sum() == 101 * len(items)


@pytest.mark.parametrize("nbits", [12, 64])
@pytest.mark.parametrize("memory", [1024, 0.05])  # MiB; the latter makes chunks of queries
def test_the_query_itself_is_left_out(nbits, memory):
    rng = np.random.default_rng(0)
    codes, y = rng.integers(0, 2, (3000, nbits), dtype=np.uint8), np.arange(3000) % 40
    expected = relevance_histogram(codes, codes, y)
    expected.counts[:, 0, 1] -= 1
    with sklearn.config_context(working_memory=memory):
        oracles.assert_same_histogram(relevance_histogram(codes, codes, y, exclude_self=True), expected)


@pytest.mark.parametrize("nbits", [1, 7, 8, 9, 16])
@pytest.mark.parametrize("n_classes", [2, 40])
def test_short_codes_of_many_items_are_counted_by_tables(nbits, n_classes, monkeypatch):
    monkeypatch.setattr("skhash.codes.queries.SHORT_PAIRS", 2**22)
    rng = np.random.default_rng(0)
    n_items, n_queries = 2**13 + 9, 2**9
    codes, y = rng.integers(0, 2, (n_items, nbits), dtype=np.uint8), rng.integers(0, n_classes, n_items)
    codes[0], codes[1] = 0, 1  # the largest distance

    def affinity(a, b):
        return np.maximum(2 - abs(a.astype(np.int8)[:, None] - b.astype(np.int8)), 0)

    H = relevance_histogram(codes[:n_queries], codes, y[:n_queries], y, affinity=affinity)
    level_index = np.searchsorted(H.levels, [0, 1, 2])[affinity(y[:n_queries], y)]
    assert_array_equal(H.counts, counted_by_numpy(codes[:n_queries], codes, level_index, len(H.levels)))


def test_every_code_of_16_bits_is_at_each_distance_as_often_as_bits_are_chosen(monkeypatch):
    monkeypatch.setattr("skhash.codes.queries.SHORT_PAIRS", 2**22)
    every = np.arange(2**16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    y = np.zeros(2**16, dtype=int)
    y[:300] = 1
    H = relevance_histogram(every[:300], every, y[:300], y, nbits=16)
    assert_array_equal(H.counts.sum(axis=2), np.tile([math.comb(16, d) for d in range(17)], (300, 1)))
    assert_array_equal(H.counts[:, :, 1].sum(axis=1), 300)
    distances = np.bitwise_count(every[:300, None] ^ every[:300]).sum(axis=2)
    assert_array_equal(H.counts[7, :, 1], np.bincount(distances[7].astype(int), minlength=17))


@both_layouts
@oracles.every_affinity
def test_a_small_working_memory_changes_nothing(kind, weights):
    codes, y, affinity, _ = oracles.random_problem(kind, n_queries=30)
    H = relevance_histogram(*codes, *y, affinity=affinity, bit_weights=weights)
    with sklearn.config_context(working_memory=0.01):
        relevance = Relevance.between(*y, affinity)
        assert len(list(Ranking(*codes, relevance, weights).histograms())) > 1
        chunked = relevance_histogram(*codes, *y, affinity=affinity, bit_weights=weights)
        assert len(list(chunked.dense_blocks())) > 1
        values = average_precision(chunked, average=False), precision(chunked, radius=3, average=False)
    oracles.assert_same_histogram(chunked, H)
    assert_array_equal(values, (average_precision(H, average=False), precision(H, radius=3, average=False)))


@both_layouts
@oracles.every_affinity
def test_the_order_of_the_database_changes_no_metric(kind, weights):
    (queries, database), (query_y, database_y), affinity, _ = oracles.random_problem(kind)
    shuffled = np.random.default_rng(1).permutation(len(database))
    other_y = [database_y[i] for i in shuffled] if isinstance(database_y, list) else database_y[shuffled]
    H = relevance_histogram(queries, database, query_y, database_y, affinity=affinity, bit_weights=weights)
    other = relevance_histogram(queries, database[shuffled], query_y, other_y, affinity=affinity, bit_weights=weights)
    oracles.assert_same_histogram(H, other)
    for metric in (average_precision, ndcg):
        assert_array_equal(metric(H, average=False), metric(other, average=False))


@pytest.mark.parametrize("values", [[False, True], [0, 1, 3], [0.0, 0.5, 2.25], [1.5, 1.5]], ids=str)
@pytest.mark.parametrize("working_memory", [1024, 0.01])
def test_given_levels_equal_enumeration_of_all_orders(values, working_memory):
    rng = np.random.default_rng(len(values))
    distances, levels = rng.integers(0, 3, (30, 7)) / 2, rng.choice(values, (30, 7))
    with sklearn.config_context(working_memory=working_memory):
        H = histogram_from_distances(distances, levels=levels)
    assert set(H.levels) == {0, *values}
    for metric, of_rankings in ((average_precision, oracles.average_precision), (ndcg, oracles.ndcg)):
        for ties, summary in oracles.OVER_ORDERS.items():
            found = metric(H, ties=ties, empty="zero", average=False)
            expected = [
                summary(of_rankings(oracles.all_rankings([*zip(d, v, strict=True)])))
                for d, v in zip(distances, levels * 1.0, strict=True)
            ]
            assert_allclose(found, expected, atol=1e-12)


@oracles.every_affinity
def test_given_levels_count_as_those_of_an_affinity(kind):
    (queries, database), y, affinity, _ = oracles.random_problem(kind)
    distances = hamming_distances(queries, database)
    indices, values = Relevance.between(*y, affinity).levels()
    expected = histogram_from_distances(distances, *y, affinity)
    given = histogram_from_distances(distances, levels=values[indices])
    assert_array_equal(given.counts[:, given.counts.any(axis=0)], expected.counts[:, expected.counts.any(axis=0)])
    assert_array_equal(given.distances, expected.distances)


def test_given_levels_leave_out_the_item_of_the_query():
    y = np.arange(6) % 2
    distances = np.abs(y[:, None] - np.arange(6) / 3)
    H = histogram_from_distances(distances, levels=y[:, None] == y, exclude_self=True)
    oracles.assert_same_histogram(H, histogram_from_distances(distances, y, exclude_self=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"Exactly one of `query_y`.* and `levels` must be given\. Got neither"),
        ({"levels": [[1, 0]], "query_y": [0]}, "Exactly one of .* Got targets or an affinity, and levels"),
        ({"levels": [[1, 0]], "database_y": [0, 1]}, "Exactly one of .* Got targets or an affinity, and levels"),
        ({"levels": [[1, 0]], "affinity": ClassAffinity()}, "Exactly one of .* Got targets or an affinity, and levels"),
        ({"levels": [1, 0]}, r"`levels` must have a level for each distance, shape \(1, 2\)\. Got shape \(2,\)"),
        ({"levels": [[1], [0]]}, r"shape \(1, 2\)\. Got shape \(2, 1\)"),
        ({"levels": [[1, -1]]}, "`levels` must be finite and >= 0"),
        ({"levels": [[1, np.nan]]}, "`levels` must be finite and >= 0"),
        ({"levels": [[1, np.inf]]}, "`levels` must be finite and >= 0"),
        ({"levels": [["a", "b"]]}, "`levels` must be an array of numbers. Got text"),
        ({"levels": [[1, 0]], "exclude_self": True}, "`exclude_self` must be False"),
    ],
    ids=str,
)
def test_targets_or_levels_are_given_and_valid(options, message):
    with pytest.raises(ValueError, match=message):
        histogram_from_distances([[0.0, 1.0]], **options)


def test_equal_scores_are_ties_and_higher_ones_come_first():
    H = histogram_from_distances(-np.array([[0.25, 3, 0.25, 0.0, -0.0]]), ["a"], list("aabab"))
    assert H.distances.tolist() == [-3, -0.25, 0]
    assert H.counts.tolist() == [[0, 1], [1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query_codes": [[0, 2], [1, 1]]}, "`query_codes` must hold only 0 and 1"),
        ({"database_codes": [0, 1]}, r"`database_codes` must be a matrix.* Got shape \(2,\)"),
        ({"database_codes": [[0]] * 3}, "`query_codes` and `database_codes` .* Got 2 and 1"),
        ({"query_codes": [[0] * 16] * 2, "database_codes": np.ones((3, 2), np.uint8)}, "Got 16 and 2"),
        ({"query_codes": np.zeros((0, 2)), "query_y": []}, "at least one sample each. Got 0 queries"),
        ({"query_y": [0]}, "`query_y` .* Got 1 targets for 2 queries"),
        ({"database_y": [0, 1]}, "`database_y` .* Got 2 targets for 3 database items"),
        ({"query_y": None}, "`query_y` must be an array with one target per sample. Got None"),
        ({"query_y": 5}, "`query_y` must be an array with one target per sample. Got a value of type int"),
        ({"query_y": np.array(5)}, "`query_y` must be an array with one target per sample. Got a value of type ndarr"),
        ({"database_y": iter([0, 1, 1])}, "`database_y` must be an array .*. Got a value of type list_iterator"),
        ({"exclude_self": True}, "`exclude_self` must be False .* Got 2 queries and 3 items"),
        ({"affinity": "cosine"}, "`affinity` must be 'auto' or a callable"),
        ({"affinity": lambda a, b: -np.ones((len(a), len(b)))}, "Got levels from -1.0 to -1.0"),
        ({"affinity": PrecomputedAffinity([[1]])}, "`y` must hold indices 0 to 0"),
        ({"database_y": np.eye(3)}, "Got a symmetric 3 x 3 matrix.*PrecomputedAffinity"),
        ({"bit_weights": [1, 2, 3]}, "`bit_weights` must have one weight per bit"),
        ({"nbits": 8}, "packed codes of 8 bits, uint8"),
    ],
)
def test_bad_input_is_named(changes, message):
    good = {"query_codes": [[0, 1]] * 2, "database_codes": [[0, 1]] * 3, "query_y": [0, 1], "database_y": [0, 1, 1]}
    with pytest.raises((TypeError, ValueError), match=message):
        relevance_histogram(**(good | changes))


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        ([0.0, 1.0], r"`distances` must be a matrix.* Got shape \(2,\)"),
        ([[0.0, np.nan]], "`distances` must be finite"),
        ([[0.0, np.inf]], "`distances` must be finite"),
    ],
    ids=str,
)
def test_distances_must_be_a_finite_matrix(distances, message):
    with pytest.raises(ValueError, match=message):
        histogram_from_distances(distances, [0], [0, 1])


def test_distance_affinity_is_fitted_once_for_all_shards():
    rows = np.random.default_rng(0).random((6, 2))
    with pytest.raises(ValueError, match=r"`thresholds` is None: call `fit` .* with the training samples"):
        relevance_histogram([[0]] * 6, [[1]] * 6, rows, affinity=DistanceAffinity())


def test_merged_codes_are_counted_for_teams_of_queries():
    """More queries than have their histograms at a time, and groups of more codes than a block."""
    rng = np.random.default_rng(0)
    pool, labels = rng.integers(0, 2, (10_000, 64), dtype=np.uint8), np.arange(10_000) % 2
    items, queries = np.repeat(np.arange(10_000), 9), rng.integers(0, 10_000, 603)
    H = relevance_histogram(pool[queries], pool[items], labels[queries], labels[items])
    distances, is_relevant = hamming_distances(pool[queries], pool), labels[queries][:, None] == labels
    for level in range(2):
        expected = [
            np.bincount(d[r == level], minlength=65) for d, r in zip(distances.astype(int), is_relevant, strict=True)
        ]
        np.testing.assert_array_equal(H.counts[:, :, level], 9 * np.array(expected))
