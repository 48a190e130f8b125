"""Relevance beside brute force: the levels of each pair alone, for every kind of targets and affinity."""

import enum
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist, pdist

from skhash import ITQHasher, KSHHasher, TALRHasher
from skhash.affinity import (
    ClassAffinity,
    DistanceAffinity,
    NeighborAffinity,
    PrecomputedAffinity,
    Relevance,
    SharedLabelsAffinity,
)
from skhash.metrics import relevance_histogram

rng = np.random.default_rng(0)
N = 40
CLASSES, OTHER_CLASSES = rng.integers(0, 5, N), rng.integers(2, 9, 25)
LABELS, OTHER_LABELS = ((rng.random((n, 6)) < 0.3).astype(int) for n in (N, 25))
VECTORS, OTHER_VECTORS = rng.integers(0, 4, (N, 3)) / 2, rng.integers(0, 4, (25, 3)) / 2
POINTS, OTHER_POINTS = rng.normal(size=(N, 3)), rng.normal(size=(25, 3))
MATRIX = rng.integers(0, 4, (N, N)) * rng.choice([0.5, 1.0])
TEXT = np.array(["eel", "ant", "cat", "dog", "Löwe", "fox", "owl", "bee", "cow"])
Color = enum.Enum("Color", [f"C{i}" for i in range(9)])
COLORS = np.array(list(Color), dtype=object)


def same_class(a, b):
    return [[int(x == y) for y in b] for x in a]


def shared_labels(a, b):
    return [[sum(np.minimum(x, y)) for y in b] for x in a]


def by_distance(a, b):
    thresholds = np.percentile(pdist(VECTORS), (40, 10))
    return np.select([cdist(a, b) <= t * (1 + 1e-9) for t in thresholds[::-1]], [7.5, 2], 0)


def nearest(a, b):
    levels = np.zeros((len(a), len(b)), dtype=int)
    np.put_along_axis(levels, np.argsort(cdist(a, b), axis=1, kind="stable")[:, :4], 1, axis=1)
    return levels


def near_numbers(a, b):
    """An affinity of a user."""
    return np.maximum(0, 2.5 - np.abs(a[:, None] - b))


class Declared:
    """An affinity of a user that says which levels can occur."""

    depends_on_all_items = False

    def possible_levels(self, a, b):
        return [0.5, 1.5, 2.5]

    def __call__(self, a, b):
        return near_numbers(a, b)


FITTED = Relevance.of(VECTORS, DistanceAffinity((40, 10), (2, 7.5))).affinity
INDICES, OTHER_INDICES = rng.permutation(N), rng.permutation(N)[:25]
#: targets of two sets, affinity, and the levels by brute force
CASES = {
    "classes": (CLASSES, OTHER_CLASSES, "auto", same_class),
    "bytes": (CLASSES.astype(np.uint8), OTHER_CLASSES.tolist(), ClassAffinity(), same_class),
    "large classes": (CLASSES * 2**40, OTHER_CLASSES * 2**40, "auto", same_class),
    "text": (TEXT[CLASSES], TEXT[OTHER_CLASSES].tolist(), "auto", same_class),
    "frame": (pd.Series(TEXT[CLASSES], dtype="category"), TEXT[OTHER_CLASSES], "auto", same_class),
    "enum": (COLORS[CLASSES], COLORS[OTHER_CLASSES], ClassAffinity(), same_class),
    "labels": (LABELS, OTHER_LABELS, "auto", shared_labels),
    "bool labels": (LABELS.astype(bool), OTHER_LABELS.tolist(), SharedLabelsAffinity(), shared_labels),
    "sparse labels": (sparse.csr_array(LABELS), sparse.coo_matrix(OTHER_LABELS), "auto", shared_labels),
    "vectors": (VECTORS, OTHER_VECTORS, FITTED, by_distance),
    "float32 vectors": (VECTORS.astype(np.float32), OTHER_VECTORS, FITTED, by_distance),
    "neighbors": (POINTS, OTHER_POINTS, NeighborAffinity(4), nearest),
    "matrix": (INDICES, OTHER_INDICES, PrecomputedAffinity(MATRIX), lambda a, b: MATRIX[np.ix_(a, b)]),
    "whole numbers": (
        INDICES,
        OTHER_INDICES,
        PrecomputedAffinity(MATRIX.astype(np.uint8)),
        lambda a, b: MATRIX.astype(np.uint8)[np.ix_(a, b)],
    ),
    "sparse matrix": (
        INDICES,
        OTHER_INDICES,
        PrecomputedAffinity(sparse.csr_array(MATRIX)),
        lambda a, b: MATRIX[np.ix_(a, b)],
    ),
    "function": (CLASSES, OTHER_CLASSES, near_numbers, near_numbers),
    "declared": (CLASSES / 1.0, OTHER_CLASSES / 1.0, Declared(), near_numbers),
}
SOME, OTHERS = np.array([7, 3, 3, 19]), np.arange(25) % 3 == 1


def dense(y):
    return y.toarray() if sparse.issparse(y) else np.asarray(y)


def levels_of(relevance, *which):
    indices, levels = relevance.levels(*which)
    assert indices.dtype in (np.uint8, np.uint32)
    assert levels[0] == 0
    assert (np.diff(levels) > 0).all()
    return levels[indices]


@pytest.mark.parametrize("case", CASES)
def test_levels_of_two_sets_equal_brute_force(case):
    y, other, affinity, brute_force = CASES[case]
    relevance = Relevance.between(y, other, affinity)
    assert relevance.shape == (N, 25)
    expected = np.array(brute_force(dense(y), dense(other)))
    assert_array_equal(levels_of(relevance), expected)
    assert_array_equal(levels_of(relevance, SOME), expected[SOME])
    assert_array_equal(levels_of(relevance, None, OTHERS), expected[:, OTHERS])
    assert_array_equal(levels_of(relevance, slice(5, 9), OTHERS), expected[5:9, OTHERS])


@pytest.mark.parametrize("case", CASES)
def test_levels_of_one_set_equal_brute_force(case):
    y, _, affinity, brute_force = CASES[case]
    expected = np.array(brute_force(dense(y), dense(y)))
    for relevance in (Relevance.of(y, affinity), Relevance.between(y, y, affinity)):
        assert_array_equal(levels_of(relevance), expected)
        assert_array_equal(levels_of(relevance, SOME, slice(0, 30, 7)), expected[SOME][:, :30:7])
        assert_array_equal(dense(relevance.targets), dense(y))


@pytest.mark.parametrize("case", CASES)
def test_some_samples_are_compared_alone(case):
    y, other, affinity, brute_force = CASES[case]
    a, b = dense(y), dense(other)
    batch = Relevance.of(y, affinity).take(SOME)
    assert_array_equal(levels_of(batch), brute_force(a[SOME], a[SOME]))
    assert_array_equal(dense(batch.take([1, 3]).targets), a[SOME[[1, 3]]])
    held_out, learned = np.arange(0, N, 3), np.arange(1, N, 3)
    parts = Relevance.of(y, affinity).take(held_out, learned)
    assert_array_equal(levels_of(parts), brute_force(a[held_out], a[learned]))
    pair = Relevance.between(y, other, affinity)
    assert_array_equal(levels_of(pair.take(SOME)), brute_force(a[SOME], b))
    assert_array_equal(levels_of(pair.take(SOME, OTHERS)), brute_force(a[SOME], b[OTHERS]))


@pytest.mark.parametrize("case", CASES)
def test_distinct_targets_have_the_levels_of_all(case):
    y, other, affinity, brute_force = CASES[case]
    a, b = dense(y), dense(other)
    for relevance, columns in ((Relevance.between(y, other, affinity), b), (Relevance.of(y, affinity), a)):
        distinct, row_groups, column_groups = relevance.distinct()
        assert_array_equal(levels_of(distinct)[np.ix_(row_groups, column_groups)], brute_force(a, columns))
        assert_array_equal(dense(distinct.targets)[row_groups], a)
    assert Relevance.of(CLASSES).distinct()[0].shape == (len(np.unique(CLASSES)),) * 2


@pytest.mark.parametrize("is_one_set", [True, False])
def test_kept_levels_are_those_of_each_pair(is_one_set, monkeypatch):
    other = VECTORS if is_one_set else OTHER_VECTORS
    relevance = Relevance.between(VECTORS, other, FITTED)
    relevance.keep_levels(N * len(other) - 1)
    assert relevance._kept is None  # fewer pairs are compared faster in batches
    relevance.keep_levels(N * len(other))
    monkeypatch.setattr(DistanceAffinity, "_compare", None)
    expected, columns = by_distance(VECTORS, other), np.arange(1, 25, 3)
    assert_array_equal(levels_of(relevance), expected)
    assert_array_equal(levels_of(relevance, SOME, columns), expected[SOME][:, columns])
    taken = relevance.take(SOME)
    assert_array_equal(levels_of(taken), expected[np.ix_(SOME, SOME)] if is_one_set else expected[SOME])
    assert_array_equal(
        levels_of(taken.take([3, 0], [1])), expected[np.ix_(SOME[[3, 0]], SOME[[1]] if is_one_set else [1])]
    )
    assert_array_equal(levels_of(relevance.take(SOME, columns)), expected[np.ix_(SOME, columns)])
    distinct, row_groups, column_groups = relevance.distinct()
    assert_array_equal(levels_of(distinct)[np.ix_(row_groups, column_groups)], expected)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_fit_with_kept_levels_gives_the_same_codes(early_stopping, monkeypatch):
    hasher = TALRHasher(8, affinity=FITTED, n_epochs=3, early_stopping=early_stopping, random_state=0)
    codes = hasher.fit(VECTORS, VECTORS).transform(VECTORS)
    assert count_calls(lambda: hasher.fit(VECTORS, VECTORS), "_distances")["_distances"] == 2  # check_pairs, and all
    monkeypatch.setattr("skhash.affinity.relevance._N_MAX_KEPT", 0)
    assert count_calls(lambda: hasher.fit(VECTORS, VECTORS), "_distances")["_distances"] > 3
    assert_array_equal(hasher.transform(VECTORS), codes)


def test_neighbors_are_those_among_all_items_whichever_are_asked_for():
    relevance = Relevance.between(POINTS, OTHER_POINTS, NeighborAffinity(4))
    _, _, groups = relevance.distinct()
    assert_array_equal(groups, np.arange(25))
    assert_array_equal(levels_of(relevance, SOME, OTHERS), nearest(POINTS, OTHER_POINTS)[SOME][:, OTHERS])


@pytest.mark.parametrize("case", ["classes", "text", "frame", "enum"])
def test_classes_are_small_integers_and_labels_their_columns(case):
    y = CASES[case][0]
    relevance = Relevance.of(y, ClassAffinity())
    assert relevance.classes.dtype == np.uint8
    assert_array_equal(relevance.classes[:, None] == relevance.classes, same_class(np.array(y), np.array(y)))
    expected = relevance.classes[:, None] == np.arange(len(set(y)))
    assert_array_equal(relevance.labels(), expected)
    assert_array_equal(relevance.take(SOME).labels(), expected[SOME])  # the columns stay
    assert_array_equal(relevance.take(SOME).classes, relevance.classes[SOME])


def test_labels_have_a_column_for_each_class_in_ascending_order():
    names, classes = np.unique(TEXT[CLASSES], return_inverse=True)
    assert_array_equal(Relevance.of(TEXT[CLASSES]).labels(), np.eye(len(names))[classes])
    assert_array_equal(Relevance.of(["dog", "cat"]).labels(np.array(["ant", "cat", "dog"])), [[0, 0, 1], [0, 1, 0]])
    assert_array_equal(Relevance.between(["dog", "cat"], ["owl"]).labels(), [[0, 1], [1, 0]])
    for y in (LABELS, LABELS.astype(bool), sparse.csc_array(LABELS)):
        labels = Relevance.of(y).labels()
        assert labels.dtype == np.float64
        assert_array_equal(labels, LABELS)
        assert Relevance.of(y).classes is None
    with pytest.raises(ValueError, match=r"`classes` must have the class of each row. Got owl"):
        Relevance.of(["dog", "owl"]).labels(np.array(["cat", "dog"]))


def test_an_affinity_that_learns_is_fitted_to_one_set_and_not_to_two():
    class Centered:
        center = 0.0

        def fit(self, y):
            fitted = Centered()
            fitted.center = y.mean()
            return fitted

        def __call__(self, a, b):
            return ((a > self.center)[:, None] == (b > self.center)).astype(int)

    given = Centered()
    assert Relevance.of([1, 2, 6], given).affinity.center == 3
    assert given.center == 0
    assert Relevance.between([1, 2, 6], [1], given).affinity is given
    assert Relevance.of([1, 2, 6], near_numbers).affinity is near_numbers
    unfitted = DistanceAffinity()
    assert Relevance.of(VECTORS, unfitted).affinity.thresholds.shape == (4,)
    assert unfitted.thresholds is None


class Unsteady:
    """An affinity whose levels change after the first call."""

    def __init__(self, then, declared=None):
        self.then, self.n_calls = then, 0
        if declared is not None:
            self.possible_levels = lambda a, b: declared

    def __call__(self, a, b):
        self.n_calls += 1
        return np.ones((len(a), len(b)), dtype=int) if self.n_calls == 1 else self.then


@pytest.mark.parametrize(
    ("affinity", "message"),
    [
        (Unsteady(np.ones((3, 2))), r"levels of shape \(3, 3\). Got shape \(3, 2\)"),
        (Unsteady(-np.eye(3)), "finite levels >= 0. Got levels from -1.0"),
        (Unsteady(np.diag([1, np.inf, 1])), "finite levels >= 0"),
        (Unsteady(np.diag([1, np.nan, 1])), "finite levels >= 0"),
        (Unsteady(np.full((3, 3), "a")), "must be an array of numbers. Got text"),
        (Unsteady(np.full((3, 3), 2), [0, 1]), "among its possible_levels"),
        (Unsteady(np.full((3, 3), 0.5), [0, 1]), "among its possible_levels"),
        (Unsteady(np.full((3, 3), np.nan), [0, 1]), "among its possible_levels"),
        (Unsteady(np.full((3, 3), -1), [0, 1]), "among its possible_levels"),
        (Unsteady(np.full((3, 3), -1, dtype=np.int8), [0, 1]), "among its possible_levels"),
        (Unsteady(np.full((3, 3), 2**32 + 1), [0, 1]), "among its possible_levels"),
        (Unsteady(np.full((3, 3), 2, dtype=np.uint8), [0, 1]), "among its possible_levels"),
    ],
)
def test_levels_of_a_user_are_checked_at_every_call(affinity, message):
    relevance = Relevance.of([1, 2, 3], affinity)
    batch = relevance.take(slice(None))
    relevance.levels()
    for again in (relevance, batch, relevance.distinct()[0]):
        with pytest.raises(ValueError, match=message):
            again.levels()


@pytest.mark.parametrize("declared", [[-1, 1], [np.nan], [np.inf], ["a"]])
def test_levels_that_an_affinity_declares_are_checked(declared):
    with pytest.raises(ValueError, match=r"finite levels >= 0|must be an array of numbers"):
        Relevance.of([1, 2], Unsteady(None, declared)).levels()


@pytest.mark.parametrize("dtype", [np.uint8, int, float])
def test_a_matrix_that_changes_is_refused(dtype):
    matrix = np.eye(3, dtype=dtype)
    relevance = Relevance.of(np.arange(3), PrecomputedAffinity(matrix))
    relevance.levels()
    matrix[1, 2] = 7
    with pytest.raises(ValueError, match="`matrix` of PrecomputedAffinity must not change"):
        relevance.levels()


def test_an_affinity_derived_from_ours_is_one_of_the_user():
    class Reversed(ClassAffinity):
        def possible_levels(self, a, b):
            return [0, 3]

        def __call__(self, a, b):
            return 3 - 3 * super().__call__(a, b)

    relevance = Relevance.of(CLASSES, Reversed())
    assert_array_equal(levels_of(relevance), 3 - 3 * np.array(same_class(CLASSES, CLASSES)))
    assert_array_equal(relevance.labels(), Relevance.of(CLASSES).labels())


def test_targets_are_read_once_and_given_to_a_function_as_they_are():
    seen = []

    def affinity(a, b):
        seen.append((a, b))
        return np.ones((len(a), len(b)))

    Relevance.of([["cat"], ["cat", "dog"]], affinity).levels()
    a, b = seen[0]
    assert a is b
    assert a.tolist() == [["cat"], ["cat", "dog"]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.0, 0.0, 0.0], "at least two classes"),
        ([1, 2, 3], "at least one class of two samples"),
        ([[1, 1], [1, 1]], "at least two classes"),
    ],
)
def test_there_must_be_pairs_of_both_kinds(y, message):
    with pytest.raises(ValueError, match=message):
        Relevance.of(y).check_pairs()
    Relevance.of([0, 0, 1]).check_pairs()


def test_the_pairs_of_an_affinity_without_labels_are_its_own():
    with pytest.raises(ValueError, match=r"`affinity` must make some pairs .* with which all pairs are"):
        Relevance.of(np.zeros((3, 2)), NeighborAffinity(3)).check_pairs()


@pytest.mark.parametrize("case", ["frame", "sparse labels", "vectors", "matrix"])
def test_a_relevance_is_pickled(case):
    y, _, affinity, _ = CASES[case]
    batch = Relevance.of(y, affinity).take(SOME)
    assert_array_equal(levels_of(pickle.loads(pickle.dumps(batch))), levels_of(batch))


@pytest.mark.parametrize(
    ("y", "affinity"), [(CLASSES, "auto"), (LABELS, "auto"), (VECTORS, NeighborAffinity(2))], ids=str
)
def test_no_samples_have_no_relevance(y, affinity):
    assert Relevance.between(y[:0], y, affinity).shape == (0, N)


def count_calls(call, *names):
    """How often functions of these names are entered."""
    counts = dict.fromkeys(names, 0)

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_name in counts:
            counts[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counts


@pytest.mark.parametrize(
    "hasher", [KSHHasher(4, random_state=0), TALRHasher(4, n_epochs=2, early_stopping=True, random_state=0)], ids=str
)
def test_a_fit_checks_its_targets_once(hasher):
    fit = count_calls(lambda: hasher.fit(POINTS, CLASSES), "as_targets", "as_labels", "check_complete")
    assert fit == {"as_targets": 1, "as_labels": 1, "check_complete": 1}


def test_a_histogram_checks_each_set_of_targets_once():
    codes = (POINTS > 0).astype(np.uint8)
    one = count_calls(lambda: relevance_histogram(codes, codes, CLASSES), "as_targets", "as_labels")
    two = count_calls(lambda: relevance_histogram(codes, codes[:25], CLASSES, OTHER_CLASSES), "as_targets", "as_labels")
    assert (one, two) == ({"as_targets": 1, "as_labels": 1}, {"as_targets": 2, "as_labels": 2})


def test_a_method_that_does_not_learn_from_labels_makes_no_relevance():
    hasher = ITQHasher(4, random_state=0)
    assert count_calls(lambda: hasher.fit(POINTS, CLASSES), "_made") == {"_made": 0}
    assert hasher.affinity_ is None
    assert_array_equal(hasher.database_.y, CLASSES)
    assert count_calls(lambda: hasher.score(POINTS, CLASSES), "_made") == {"_made": 1}
