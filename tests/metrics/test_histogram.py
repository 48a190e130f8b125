"""Histograms: their levels and layouts, sums over shards, ties without relevant items."""

import _oracles as oracles
import numpy as np
import pytest
import torch
from safetensors.numpy import save

from skhash.metrics import (
    Metric,
    RelevanceHistogram,
    evaluate_histograms,
    histogram_from_distances,
    precision,
    relevance_histogram,
)

both_layouts = pytest.mark.parametrize(
    "weights", [None, (3, 1, 1, 0.5, 0, 2, 0.1, 1, 1, 1, 1, 7)], ids=["dense", "ragged"]
)


@both_layouts
@oracles.every_affinity
def test_shards_add_up(kind, weights):
    (queries, database), (query_y, database_y), affinity, _ = oracles.random_problem(kind, n_items=40)
    whole = relevance_histogram(queries, database, query_y, database_y, affinity=affinity, bit_weights=weights)
    a, b, c = (
        relevance_histogram(queries, database[rows], query_y, database_y[rows], affinity=affinity, bit_weights=weights)
        for rows in np.s_[:2, 2:15, 15:]
    )
    oracles.assert_same_histogram(a + b + c, whole)
    oracles.assert_same_histogram(sum([c, a, b]), whole)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64])
def test_sums_of_shards_do_not_overflow_the_counts_that_were_stored(dtype):
    largest = min(np.iinfo(dtype).max, 2**40)
    H = RelevanceHistogram(np.full((1, 2, 2), largest, dtype), [0, 1])
    assert (H + H).counts.tolist() == [[[2 * largest] * 2] * 2]


def test_shards_unite_their_levels_and_layouts():
    one, two = (relevance_histogram([[0, 0]], [[0, 1]], [0], [0], affinity=lambda a, b, v=v: [[v]]) for v in (0.5, 2))
    assert (one + two).levels.tolist() == [0, 0.5, 2]
    assert (one + two).counts.tolist() == [[[0, 0, 0], [0, 1, 1], [0, 0, 0]]]
    given = histogram_from_distances([[1.0]], levels=[[2]])
    oracles.assert_same_histogram(one + given, oracles.as_ragged(one + two))


def test_queries_at_one_distance_stay_apart_in_a_merge():
    H = histogram_from_distances([[1.0], [1.0]], [0, 1], [0])
    oracles.assert_same_histogram(H + H, histogram_from_distances([[1.0, 1.0]] * 2, [0, 1], [0, 0]))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (([[0, 1]] * 3, [[0, 1]], [0] * 3, [0]), "same queries. Got 2 and 3"),
        (([[0, 1, 1]] * 2, [[0, 1, 1]], [0] * 2, [0]), "same number of bits. Got 2 and 3"),
    ],
)
def test_histograms_of_other_queries_do_not_add(others, message):
    H = relevance_histogram([[0, 1]] * 2, [[0, 1]], [0] * 2, [0])
    with pytest.raises(ValueError, match=message):
        H + relevance_histogram(*others)
    with pytest.raises(TypeError):
        H + 1


@pytest.mark.parametrize("levels", [[1, 2], [0, 2, 2], [0, 3, 1], [0, np.nan], []])
def test_levels_ascend_from_zero(levels):
    with pytest.raises(ValueError, match=r"`levels` must ascend from 0"):
        RelevanceHistogram(np.ones((1, 2, len(levels)), dtype=int), np.array(levels))


@pytest.mark.parametrize("n_levels", [2, 3])
def test_merging_irrelevant_ties_changes_no_metric_of_ranks(n_levels):
    rng = np.random.default_rng(0)
    distances, levels = rng.integers(0, 30, (9, 40)) / 4, rng.integers(-2, n_levels, (9, 40)).clip(0)
    levels[3] = 0
    H = histogram_from_distances(distances, levels=levels)
    merged = H.by_ranks()
    assert merged.is_ragged
    assert len(merged.counts) < 0.8 * len(H.counts)
    names = ["ap", "ap_at_7", "ap_worst", "ndcg", "ndcg_at_5", "ndcg_at_6_worst", "precision_at_7"]
    names += ["recall_at_9", "recall_at_4_best", "r_precision", "reciprocal_rank", "roc_auc"]
    for name in names:
        one, other = (Metric.parse(name)(h, empty="zero", average=False) for h in (H, merged))
        np.testing.assert_allclose(one, other, rtol=1e-12, err_msg=name)
    assert evaluate_histograms([H], ["precision_radius_3"], empty="zero") == {
        "precision_radius_3": precision(H, radius=3, empty="zero")
    }


@both_layouts
@oracles.every_affinity
def test_bytes_give_the_histogram_back(kind, weights):
    (queries, database), (query_y, database_y), affinity, _ = oracles.random_problem(kind, n_items=40)
    H = relevance_histogram(queries, database, query_y, database_y, affinity=affinity, bit_weights=weights)
    again = RelevanceHistogram.from_bytes(H.to_bytes())
    for name in ("counts", "levels", "distances", "indptr"):
        expected = getattr(H, name)
        assert expected is None or (getattr(again, name).dtype, getattr(again, name).shape) == (
            expected.dtype,
            expected.shape,
        )
        np.testing.assert_array_equal(getattr(again, name), expected)
    assert again.to_bytes() == H.to_bytes()
    oracles.assert_same_histogram(again + H, H + H)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": np.array([[-1, 0], [1, 2], [0, 1]])}, "`counts` must be numbers of items, >= 0"),
        ({"counts": np.array([[np.nan, 0], [1, 2], [0, 1]])}, "`counts` must be numbers of items, >= 0"),
        ({"levels": np.array([1, 0])}, "`levels` must ascend from 0"),
        ({"distances": np.array([2.0, 1.0, 0.0])}, "`distances` must ascend within each query"),
        ({"distances": np.array([1.0, 1.0, 0.0])}, "`distances` must ascend within each query"),
        ({"distances": np.array([1.0, np.nan, 0.0])}, "`distances` must ascend within each query"),
        ({"distances": np.array([1.0, 2.0])}, "`distances` must ascend within each query"),
        ({"indptr": np.array([0, 2])}, "`indptr` must ascend from 0 to 3"),
        ({"indptr": np.array([0, 4, 3])}, "`indptr` must ascend from 0 to 3"),
        ({"indptr": np.array([], dtype=int)}, "`indptr` must ascend from 0 to 3"),
    ],
)
def test_bytes_of_no_histogram_are_refused(changes, message):
    parts = {"counts": np.array([[1, 0], [1, 2], [0, 1]]), "levels": np.array([0, 1])}
    parts |= {"distances": np.array([1.0, 2.0, 0.0]), "indptr": np.array([0, 2, 3])}
    assert RelevanceHistogram.from_bytes(RelevanceHistogram(**parts).to_bytes()).n_queries == 2
    with pytest.raises(ValueError, match=message):
        RelevanceHistogram.from_bytes(save(parts | changes, {"skhash": "RelevanceHistogram"}))
    if "counts" not in changes:  # counts may be slopes, which are below 0, in memory
        with pytest.raises(ValueError, match=message):
            RelevanceHistogram(**parts | changes)


def test_ragged_histograms_need_distances():
    with pytest.raises(ValueError, match=r"`distances` must be an array of numbers\. Got NoneType instead"):
        RelevanceHistogram(np.ones((2, 2), dtype=int), np.array([0, 1]), indptr=np.array([0, 2]))


def test_soft_counts_have_no_bytes():
    with pytest.raises(TypeError, match=r"must be an ndarray to become bytes\. Got a Tensor instead"):
        RelevanceHistogram(torch.ones(1, 3, 2), np.array([0, 1])).to_bytes()
