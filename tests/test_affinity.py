import copy
import re
import warnings

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone

from skhash import ITQHasher
from skhash.affinity import (
    ClassAffinity,
    DistanceAffinity,
    NeighborAffinity,
    PrecomputedAffinity,
    Relevance,
    SharedLabelsAffinity,
)
from skhash.codes import hamming_distances
from skhash.metrics import relevance_histogram


class Undeclared:
    """An affinity whose levels are not those that it declares."""

    def __init__(self, level):
        self.level = level

    def possible_levels(self, y_a, y_b):
        return np.array([0, 1])

    def __call__(self, y_a, y_b):
        return np.full((len(y_a), len(y_b)), self.level)


def as_column(y):
    return np.array(y)[:, None]


def as_objects(y):
    return np.array(y, dtype=object)


@pytest.fixture
def labels():
    return tuple(np.random.default_rng(seed).integers(0, 2, (n, 5)) for seed, n in enumerate((7, 9)))


@pytest.mark.parametrize("as_target", [list, np.array, as_column, as_objects])
@pytest.mark.parametrize("classes", [(0, 1, 2), ("cat", "dog", "eel"), (0.5, -1.0, 2.0)], ids=str)
def test_classes_are_relevant_to_themselves(as_target, classes):
    a, b = [classes[i] for i in (0, 1, 1, 2)], [classes[i] for i in (1, 0, 1)]
    levels = ClassAffinity()(as_target(a), as_target(b))
    assert levels.tolist() == [[int(x == y) for y in b] for x in a]


@pytest.mark.parametrize("as_a", [np.array, sparse.csr_matrix, sparse.coo_array])
@pytest.mark.parametrize("as_b", [np.array, sparse.csc_array])
@pytest.mark.parametrize("dtype", [np.uint8, bool, np.int64, np.float64])
def test_shared_labels_are_counted(labels, as_a, as_b, dtype):
    expected = [[sum(x & y) for y in labels[1]] for x in labels[0]]
    a, b = as_a(labels[0].astype(dtype)), as_b(labels[1].astype(dtype))
    assert_array_equal(SharedLabelsAffinity()(a, b), expected)
    assert_array_equal(SharedLabelsAffinity(binary=True)(a, b), np.minimum(expected, 1))
    assert np.isin(expected, SharedLabelsAffinity().possible_levels(a, b)).all()


def test_three_hundred_shared_labels_do_not_wrap_around():
    rows = np.ones((2, 300), dtype=np.uint8)
    assert_array_equal(SharedLabelsAffinity()(rows, rows), np.full((2, 2), 300))


def test_distance_levels_are_percentiles_of_the_training_pairs():
    train, rows = (np.random.default_rng(seed).normal(size=(n, 3)) for seed, n in enumerate((60, 20)))
    unfitted = DistanceAffinity(percentiles=(20, 5, 1), levels=(1, 2.5, 10))
    affinity = Relevance.of(train, unfitted).affinity
    assert unfitted.thresholds is None
    assert affinity.fit(rows) is affinity
    thresholds = np.percentile(pdist(train), (20, 5, 1))
    expected = np.select([cdist(rows, train) <= t for t in thresholds[::-1]], [10, 2.5, 1], 0)
    assert_array_equal(affinity(rows, train), expected)
    assert set(np.unique(expected)) == {0, 1, 2.5, 10}
    assert_array_equal(affinity.possible_levels(rows, train), [0, 1, 2.5, 10])


def test_distances_at_a_threshold_belong_to_its_level():
    affinity = DistanceAffinity(percentiles=(50, 10), levels=(1, 2), thresholds=np.array([2.0, 1.0]))
    assert affinity([[0.0]], np.array([[0, 1, 1.5, 2, 2.1]]).T).tolist() == [[2, 2, 1, 1, 0]]


def test_distances_keep_their_digits_far_from_the_origin():
    rows = np.random.default_rng(0).permutation(np.arange(300.0))[:, None]
    near, far = (DistanceAffinity((5, 1), (1, 2)).fit(rows + offset) for offset in (0, 1_700_000_000))  # seconds
    assert_array_equal(near.thresholds, far.thresholds)
    assert_array_equal(near(rows[:50], rows), far(rows[:50] + 1_700_000_000, rows + 1_700_000_000))


def test_as_many_labels_as_samples_give_a_warning():
    with pytest.warns(UserWarning, match="3 x 3 matrix and is taken for 3 labels of each sample.*PrecomputedAffinity"):
        assert Relevance.of([[0, 1, 0], [1, 1, 0], [1, 0, 1]]).affinity == SharedLabelsAffinity()


def test_evenly_spaced_samples_give_the_thresholds_of_a_large_training_set():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    few, all_of_them = DistanceAffinity(max_samples=25).fit(rows), DistanceAffinity(max_samples=25).fit(rows[::2])
    assert_array_equal(few.thresholds, all_of_them.thresholds)


@pytest.mark.parametrize("as_matrix", [np.array, sparse.csr_matrix, sparse.coo_array])
def test_precomputed_levels_are_looked_up_by_index(as_matrix):
    matrix = np.random.default_rng(0).integers(0, 3, (8, 8)) / 2
    affinity = PrecomputedAffinity(as_matrix(matrix))
    a, b = np.array([5, 0, 5]), [1, 7]
    assert_array_equal(affinity(a, b), matrix[[5, 0, 5]][:, [1, 7]])
    assert_array_equal(affinity.possible_levels(a, b), [0, 0.5, 1])
    assert clone(affinity) is copy.deepcopy(affinity) is affinity


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 1], ClassAffinity()),
        (["a", "b"], ClassAffinity()),
        ([[3], [4]], ClassAffinity()),
        ([[0, 1], [1, 1], [1, 0]], SharedLabelsAffinity()),
        (sparse.csr_array([[0, 1, 1], [1, 1, 0]]), SharedLabelsAffinity()),
    ],
    ids=str,
)
def test_auto_picks_the_affinity_of_the_targets(y, expected):
    assert Relevance.of(y).affinity == expected


@pytest.mark.parametrize("y", [np.arange(30.0), np.array([str(i) for i in range(30)], dtype=object)], ids=["f", "O"])
def test_many_classes_neither_warn_nor_change_the_filters_that_all_threads_share(y, monkeypatch):
    def changed(*args, **kwargs):
        raise AssertionError("the filters of all threads change")

    monkeypatch.setattr(warnings, "filterwarnings", changed)
    assert Relevance.of(y).affinity == ClassAffinity()


@pytest.mark.parametrize(
    "y",
    [
        list("baab"),
        np.array(["b", "a", "c", "a"], dtype=object),
        np.array(["3", "1", "3"]).astype(float),
        [[0, 1], [1, 1], [0, 1]],
        sparse.csr_array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]]),
        [[5.0], [0.0], [1e9], [5.0]],
        [3, -5, 3, 0, -5, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7],
        np.array([200, 7, 200] * 90, dtype=np.uint8),
        np.array([2**63, 2**63 + 1, 2**63], dtype=np.uint64),
        [10**12, 5],
    ],
    ids=str,
)
def test_targets_of_any_kind_are_counted_as_the_affinity_compares_them(y):
    """Equal targets are compared once."""
    y = y if sparse.issparse(y) else np.array(y)
    codes = np.random.default_rng(0).integers(0, 2, (y.shape[0], 3))
    distances, is_relevant = hamming_distances(codes, codes), np.asarray(Relevance.of(y).affinity(y, y)) > 0
    H = relevance_histogram(codes, codes, y, y)
    for distance in range(4):
        counts = ((distances == distance) & is_relevant).sum(axis=1)
        assert_array_equal(H.counts[:, distance, 1:].sum(axis=1), counts)


def test_level_indices_point_to_the_levels_of_a_plain_function():
    values = np.array([[0.5, 3, 3], [7, 0.5, 3]])
    indices, levels = Relevance.between([0, 1], [0, 1, 2], lambda a, b: values).levels()
    assert levels.tolist() == [0, 0.5, 3, 7]
    assert_array_equal(levels[indices], values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Relevance.of([0], "cosine"), "`affinity` must be 'auto' or a callable .* Got 'cosine'"),
        (lambda: Relevance.of([0], None), "`affinity` must be 'auto' or a callable .* Got None"),
        (
            lambda: Relevance.of([[0.3, 0.2]]).affinity,
            r"Got 'continuous-multioutput' .*DistanceAffinity",
        ),
        (lambda: Relevance.of(np.eye(4)).affinity, "`y` .* Got a symmetric 4 x 4 matrix.*PrecomputedAffinity"),
        (lambda: Relevance.of(sparse.eye_array(4).tocsr()).affinity, "Got a symmetric 4 x 4 .*PrecomputedAffinity"),
        (lambda: SharedLabelsAffinity()([[0, 1]], [[0, 1, 1]]), "must have the same labels. Got 2 and 3 labels"),
        (lambda: ClassAffinity()([[0, 1]], [0]), r"`y` must hold one value per sample.* Got shape \(1, 2\)"),
        (lambda: DistanceAffinity()([[0.0]], [[0.0]]), "`thresholds` is None: call `fit` of DistanceAffinity"),
        (lambda: DistanceAffinity().fit([[0.0]]), "`y` must have at least 2 samples for DistanceAffinity. Got 1"),
        (lambda: DistanceAffinity().fit([[0.0], [np.inf]]), "`y` must hold finite vectors.* for DistanceAffinity"),
        (lambda: DistanceAffinity(percentiles=(1, 5), levels=(1, 2)), "`percentiles` must descend"),
        (lambda: DistanceAffinity(levels=(-1, 0, 1, 2)), "`levels` must ascend above 0"),
        (lambda: DistanceAffinity(levels=(1, 2)), "must have one value per level"),
        (lambda: DistanceAffinity(max_samples=1), "`max_samples` must be an int >= 2. Got 1"),
        (
            lambda: DistanceAffinity((5, 1), (1, 2), thresholds=[1, 2]),
            r"`thresholds` .* descending. Got \[1, 2\]",
        ),
        (
            lambda: DistanceAffinity((5, 1), (1, 2), thresholds=[np.nan, 1]),
            "`thresholds` .* None or 2 finite distances",
        ),
        (lambda: DistanceAffinity((5, 1), (1, 2), thresholds=[1]), "`thresholds` .* 2 finite distances, one per level"),
        (lambda: ClassAffinity()([np.inf], [1.0]), "`y` must hold finite values. Got infinity"),
        (
            lambda: ClassAffinity()(["a"], np.array(["a", 1], object)),
            "values of one type. Got numbers and text",
        ),
        (lambda: PrecomputedAffinity(np.eye(3)[:2]), r"`matrix` must be square. Got shape \(2, 3\)"),
        (lambda: PrecomputedAffinity([[0, -1], [1, 0]]), "`matrix` .* finite levels >= 0. Got levels from -1 to 1"),
        (lambda: PrecomputedAffinity(sparse.csr_array(np.eye(3) * np.nan)), "`matrix` .* finite levels >= 0"),
        (lambda: PrecomputedAffinity(np.eye(3))([0], [3]), "`y` must hold indices 0 to 2"),
        (lambda: PrecomputedAffinity(np.eye(3))([-1], [0]), "`y` must hold indices 0 to 2"),
        (lambda: PrecomputedAffinity(np.eye(3))(["a"], [0]), "`y` must hold indices 0 to 2"),
        (
            lambda: Relevance.of([0, 1], lambda a, b: -np.eye(2)).levels(),
            "`affinity` must .* Got levels from -1.0",
        ),
        (lambda: Relevance.of([0, 1], lambda a, b: np.eye(2) * np.nan).levels(), "`affinity` must have finite levels"),
        (
            lambda: Relevance.between([0, 1], [0], lambda a, b: np.eye(2)).levels(),
            r"shape \(2, 1\). Got shape \(2, 2\)",
        ),
        (lambda: Relevance.of([0], Undeclared(2)).levels(), "must return levels among its possible_levels"),
        (
            lambda: Relevance.of([0], Undeclared(0.5)).levels(),
            "`affinity` must return levels among its possible_levels",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_levels_start_with_zero_even_if_the_affinity_forgets_it():
    class Always:
        def possible_levels(self, y_a, y_b):
            return [1, 2]

        def __call__(self, y_a, y_b):
            return np.ones((len(y_a), len(y_b)), dtype=int)

    indices, levels = Relevance.between([0], [0, 1], Always()).levels()
    assert_array_equal(levels, [0, 1, 2])
    assert_array_equal(indices, [[1, 1]])


def test_distance_levels_do_not_depend_on_the_block():
    """Samples on a lattice have many pairs at exactly the distance of a threshold."""
    rows = np.random.default_rng(0).integers(0, 2, (400, 12)) * 0.1 + 1 / 3
    affinity = DistanceAffinity().fit(rows)
    whole = affinity(rows, rows)
    assert_array_equal(whole, whole.T)
    assert_array_equal(np.concatenate([affinity(rows[i : i + 7], rows) for i in range(0, 400, 7)]), whole)


@pytest.mark.parametrize("y", [["a", None], [0.0, np.nan], np.array(["a", 1], object)])
def test_classes_that_are_missing_or_of_two_kinds_are_no_targets(y):
    with pytest.raises(ValueError, match=r"^`y` must hold "):
        ITQHasher(2).fit(np.eye(2), np.array(y, dtype=object))


def test_classes_of_two_kinds_are_refused():
    for other in ([1, 2], np.array([1, 2], dtype=object), np.array([1, 2], dtype="M8[D]")):
        for text in (["1", "2"], np.array(["1", "2"], dtype=object)):  # pandas makes arrays of objects
            with pytest.raises(ValueError, match="classes of one kind"):
                ClassAffinity()(text, other)
    assert_array_equal(ClassAffinity()(np.array(["1", "2"], dtype=object), ["2", "1"]), [[0, 1], [1, 0]])


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner"])
def test_neighbor_affinity_equals_brute_force(metric):
    rng = np.random.default_rng(0)
    queries, items = rng.standard_normal((30, 5)), rng.standard_normal((200, 5))
    distances = -(queries @ items.T) if metric == "inner" else cdist(queries, items, metric)
    expected = np.zeros((30, 200), dtype=int)
    np.put_along_axis(expected, np.argsort(distances, axis=1, kind="stable")[:, :7], 1, axis=1)
    np.testing.assert_array_equal(NeighborAffinity(7, metric=metric)(queries, items), expected)
    np.testing.assert_array_equal(NeighborAffinity(fraction=0.035, metric=metric)(queries, items), expected)
    assert NeighborAffinity(1000, metric=metric)(queries, items).all()


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner"])
def test_the_memory_of_neighbor_affinity_changes_no_level(metric):
    rng = np.random.default_rng(0)
    queries, items = rng.standard_normal((301, 40)), rng.integers(-2, 3, (500, 40)).repeat(2, axis=0)  # with ties
    affinity = NeighborAffinity(21, metric=metric)
    whole = affinity(queries, items)
    with sklearn.config_context(working_memory=0.1):  # four queries at a time
        np.testing.assert_array_equal(affinity(queries, items), whole)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner"])
def test_no_items_have_no_neighbors(metric):
    vectors = np.eye(3)
    assert NeighborAffinity(2, metric=metric)(vectors, vectors[:0]).shape == (3, 0)
    assert NeighborAffinity(2, metric=metric)(vectors[:0], vectors).shape == (0, 3)


def test_neighbor_affinity_takes_all_items_as_near_as_the_last_in_metrics_too():
    vectors = np.array([[0], [1], [1], [1], [5]])  # whole numbers, which other affinities merge into groups
    np.testing.assert_array_equal(NeighborAffinity(2)([[1]], vectors), [[0, 1, 1, 1, 0]])
    codes = np.array([[0, 0], [0, 1], [1, 1], [0, 1], [1, 0]])
    H = relevance_histogram([[0, 1]], codes, [[1]], vectors, affinity=NeighborAffinity(2))
    np.testing.assert_array_equal(H.counts, [[[0, 2], [1, 1], [1, 0]]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "must be given, and not both"),
        ({"n_neighbors": 3, "fraction": 0.1}, "must be given, and not both"),
        ({"n_neighbors": 0}, "`n_neighbors` must be None or an int >= 1"),
        ({"fraction": 1.5}, "`fraction` must be None or a number in"),
        ({"fraction": True}, "`fraction` must be None or a number in"),
        ({"n_neighbors": 3, "metric": "manhattan"}, "`metric` must be one of 'euclidean', 'cosine', 'inner'"),
    ],
)
def test_neighbor_affinity_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        NeighborAffinity(**options)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner"])
def test_metrics_of_neighbors(metric):
    vectors = np.random.default_rng(0).normal(size=(4, 4))
    assert NeighborAffinity(3, metric=metric)(vectors, vectors).sum() == 12


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner"])
@pytest.mark.parametrize("width", [3, 200])
def test_copies_of_the_last_neighbor_are_neighbors_whatever_the_rounding(metric, width):
    rng = np.random.default_rng(0)
    distinct = rng.normal(size=(50, width)) + 30
    vectors = distinct[np.arange(200) % 50]
    levels = NeighborAffinity(2, metric=metric)(rng.normal(size=(7, width)), vectors)
    assert (levels.sum(axis=1) == 4).all()
    np.testing.assert_array_equal(levels[:, :50], levels[:, 150:])


@pytest.mark.parametrize("metric", ["l2", "Cosine", None, 1])
def test_other_metrics_of_neighbors_are_refused(metric):
    message = f"`metric` must be one of 'euclidean', 'cosine', 'inner'. Got {metric!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        NeighborAffinity(3, metric=metric)
