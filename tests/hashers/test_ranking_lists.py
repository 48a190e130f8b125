"""Ranking lists against the definition of relevance."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity, Relevance, SharedLabelsAffinity
from skhash.hashers.ranking_lists import RankingLists, draw_ranking_lists


def test_lists_hold_distinct_other_samples_of_the_right_kind():
    rng = np.random.RandomState(0)
    y = rng.choice([0, 1, 2], 60, p=[0.2, 0.2, 0.6])
    lists = draw_ranking_lists(Relevance.of(y, ClassAffinity()), 13, 9, 40, rng)
    assert len(lists.queries) == 40 == len(set(lists.queries))
    assert lists.n_samples == 60
    assert lists.items.shape == (40, 13 + 9)
    for query, items, size in zip(lists.queries, lists.items, lists.sizes, strict=True):
        others = (y == y[query]).sum() - 1
        assert tuple(size) == (min(13, others), 9)
        relevant, padding, irrelevant = np.split(items, [size[0], 13])
        assert (y[relevant] == y[query]).all()
        assert (y[irrelevant] != y[query]).all()
        assert query not in relevant
        assert len(set(relevant)) + len(set(irrelevant)) == sum(size)
        assert (padding == query).all()
    assert len({*map(tuple, lists.sizes)}) > 1


def test_all_samples_are_queries_if_n_queries_allows_it():
    for n_queries in (6, 100):
        lists = draw_ranking_lists(
            Relevance.of(np.array([0, 0, 0, 1, 1, 1]), ClassAffinity()), 50, 50, n_queries, np.random.RandomState(0)
        )
        assert_array_equal(lists.queries, range(6))
        assert_array_equal(lists.sizes, [[2, 3]] * 6)
        assert_array_equal(np.sort(lists.items[1]), [0, 2, 3, 4, 5])


def test_a_sample_irrelevant_to_itself_is_not_in_its_own_list():
    levels = np.arange(8)[:, None] % 2 == np.arange(8) % 2
    affinity = PrecomputedAffinity(levels & ~np.eye(8, dtype=bool))
    lists = draw_ranking_lists(Relevance.of(np.arange(8), affinity), 8, 8, 8, np.random.RandomState(0))
    assert_array_equal(lists.sizes, [[3, 4]] * 8)
    assert not (lists.items == lists.queries[:, None]).any()


def test_lists_are_drawn_at_random():
    y = np.arange(600) % 6  # more than one batch of queries
    first, again, other = (
        draw_ranking_lists(Relevance.of(y, ClassAffinity()), 4, 4, 500, np.random.RandomState(s)) for s in (0, 0, 1)
    )
    assert_array_equal(first.items, again.items)
    assert_array_equal(first.queries, again.queries)
    assert (first.queries != other.queries).any()
    assert len(np.unique(first.items)) > 570


def test_queries_that_lack_a_kind_are_left_out():
    y = np.array([0, 0, 0, 1, 2, 2])
    with pytest.warns(UserWarning, match="1 of 6 training queries lack relevant or irrelevant samples") as warned:
        lists = draw_ranking_lists(Relevance.of(y, ClassAffinity()), 5, 5, 6, np.random.RandomState(0))
    assert len(warned) == 1
    assert_array_equal(lists.queries, [0, 1, 2, 4, 5])
    assert_array_equal(lists.sizes, [[2, 3]] * 3 + [[1, 4]] * 2)


@pytest.mark.parametrize("y", [[0, 0, 0], [0, 1, 2]])
def test_y_without_a_ranking_is_an_error(y):
    with pytest.raises(ValueError, match=r"`y` must give .* relevant and an irrelevant one\. Got none"):
        draw_ranking_lists(Relevance.of(np.array(y), ClassAffinity()), 5, 5, 5, np.random.RandomState(0))


@pytest.mark.parametrize("convert", [np.array, sparse.csr_array])
def test_any_shared_label_is_relevant(convert):
    rng = np.random.RandomState(0)
    y = rng.randint(0, 2, (40, 3))
    y[:, 0] |= y.sum(axis=1) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # samples with all labels have no irrelevant ones
        lists = draw_ranking_lists(Relevance.of(convert(y), SharedLabelsAffinity()), 40, 40, 40, rng)
    assert 5 < len(lists.queries) < 40
    for query, items, size in zip(lists.queries, lists.items, lists.sizes, strict=True):
        shared = (y @ y[query]) > 0
        shared[query] = False
        assert_array_equal(np.sort(items[: size[0]]), np.flatnonzero(shared))


def test_near_samples_are_relevant_under_a_distance_affinity():
    rng = np.random.RandomState(0)
    X = rng.randn(30, 2)
    affinity = DistanceAffinity((30, 10), (1, 2)).fit(X)
    lists = draw_ranking_lists(Relevance.of(X, affinity), 30, 30, 30, rng)
    for query, items, size in zip(lists.queries, lists.items, lists.sizes, strict=True):
        distances = np.linalg.norm(X[items] - X[query], axis=1)
        max_relevant = lists.sizes[:, 0].max()
        assert distances[: size[0]].max() < distances[max_relevant : max_relevant + size[1]].min()


def test_differences_compare_items_with_their_query():
    lists = RankingLists(np.array([2, 0]), np.array([[0, 1], [1, 2]]), np.array([[1, 1], [1, 1]]), 3)
    differences = lists.differences(np.array([1, 0, 0], dtype=np.uint8))
    assert_array_equal(differences, [[1, 0], [1, 1]])
    assert differences.dtype == np.uint8
