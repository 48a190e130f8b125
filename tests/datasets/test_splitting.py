"""Which samples are queries, database and training samples."""

from dataclasses import replace

import numpy as np
import pytest
from _helpers import SIZES, SMALL, indices_of, make

from skhash.affinity import ClassAffinity, DistanceAffinity, SharedLabelsAffinity
from skhash.datasets import PROTOCOLS, Protocol, split


@pytest.mark.parametrize("name", [name for name in SMALL if name != "labelme"])
def test_train_lies_in_the_database_and_queries_do_not(name):
    X, y = make(labels=name == "mirflickr")
    data = split(X, y, SMALL[name])
    assert (len(data.X_query), len(data.X_database), len(data.X_train)) == SIZES[name]
    np.testing.assert_array_equal(
        np.sort(np.r_[indices_of(data.X_query), indices_of(data.X_database)]), np.arange(len(X))
    )
    assert len(set(data.train_index)) == len(data.train_index)
    np.testing.assert_array_equal(data.X_train, data.X_database[data.train_index])
    np.testing.assert_array_equal(data.y_train, data.y_database[data.train_index])
    for part in ("query", "database", "train"):
        values = data[f"X_{part}"]
        assert values.dtype == np.float32
        np.testing.assert_array_equal(data[f"y_{part}"], y[indices_of(values)])


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_decides_the_split(name):
    X, y = make(labels=name == "mirflickr")
    first, again, other = (split(X, y, SMALL[name], random_state=seed) for seed in (0, 0, 1))
    for key in ("X_query", "X_database", "X_train", "y_query", "train_index"):
        np.testing.assert_array_equal(first[key], again[key])
    assert not np.array_equal(first.X_database, other.X_database)
    if name == "mirflickr":
        np.testing.assert_array_equal(indices_of(other.X_query), np.arange(20))
    else:
        assert not np.array_equal(first.X_query, other.X_query)


FIRST_DRAWS = {  # queries and database in X, training samples in the database
    "holdout": [[181, 258, 15, 216], [171, 29, 88, 248], [0, 1, 2, 3]],
    "5k": [[181, 258, 15, 216], [188, 201, 300, 30], [167, 222, 83, 24]],
    "struct": [[181, 258, 15, 65], [91, 208, 29, 44], [142, 144, 283, 21]],
    "labelme": [[181, 258, 15, 65], [262, 286, 161, 152], [291, 196, 191, 31]],
    "mirflickr": [[0, 1, 2, 3], [228, 208, 32, 241], [149, 96, 123, 25]],
}


@pytest.mark.parametrize("name", SMALL)
def test_draws_are_those_of_earlier_versions(name):
    X, y = make(labels=name == "mirflickr")
    data = split(X, y, replace(SMALL[name], unit_length=False))
    drawn = [indices_of(data.X_query)[:4], indices_of(data.X_database)[:4], data.train_index[:4]]
    assert [indices.tolist() for indices in drawn] == FIRST_DRAWS[name]


@pytest.mark.parametrize("name", ["labelme", "holdout"])
def test_split_leaves_the_arrays_alone(name):
    X, y = make()
    X = X.astype(np.float32)
    kept = X.copy()
    split(X, y, SMALL[name], scale=2.0)
    np.testing.assert_array_equal(X, kept)


def test_5k_is_balanced_where_classes_allow():
    X, y = make()
    data = split(X, y, SMALL["5k"])
    np.testing.assert_array_equal(np.bincount(data.y_query), [10, 10, 10, 10])
    np.testing.assert_array_equal(np.bincount(data.y_train), [25, 25, 25, 25])


def test_5k_fills_up_from_the_other_classes():
    X, _ = make(306)
    y = np.repeat([0, 1, 2], [6, 20, 280])
    data = split(X, y, replace(PROTOCOLS["5k"], n_query=30, n_train=60))
    np.testing.assert_array_equal(np.bincount(data.y_query), [3, 10, 17])  # half of a class stays in the database
    np.testing.assert_array_equal(np.bincount(data.y_train), [3, 10, 47])  # all that is left of the small ones


def test_holdout_takes_the_same_share_of_each_class_and_skips_classes_of_one_sample():
    X, _ = make(301)
    y = np.repeat(["a", "b", "c"], [200, 100, 1])
    data = split(X, y)
    assert dict(zip(*np.unique(data.y_query, return_counts=True), strict=True)) == {"a": 40, "b": 20}
    assert data.X_train is data.X_database


@pytest.mark.parametrize("y", [np.arange(320), make(labels=True)[1], np.zeros((320, 1), int)])
@pytest.mark.parametrize("name", ["holdout", "5k", "struct"])
def test_targets_without_classes_are_split_at_random(name, y):
    data = split(make()[0], y, SMALL[name])
    assert (len(data.X_query), len(data.X_database), len(data.X_train)) == SIZES[name]
    assert isinstance(data.affinity, SharedLabelsAffinity if y.shape[1:] == (6,) else ClassAffinity)


@pytest.mark.parametrize("name", ["holdout", "5k"])
def test_samples_of_a_sorted_file_come_in_random_order(name):
    X, _ = make()
    data = split(X, np.repeat(np.arange(4), 80), SMALL[name])
    for part in ("query", "database", "train"):
        assert len(np.unique(data[f"y_{part}"][:20])) == 4


def test_labelme_centers_on_the_training_mean_and_scales_to_unit_length():
    X, _ = make()
    data = split(X, None, SMALL["labelme"])
    raw = split(X, None, replace(SMALL["labelme"], unit_length=False))
    for part in ("query", "database", "train"):
        expected = raw[f"X_{part}"] - raw.X_train.mean(axis=0)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(data[f"X_{part}"], expected, atol=1e-5)
        assert data[f"y_{part}"] is data[f"X_{part}"]
    thresholds = DistanceAffinity().fit(data.X_train).thresholds
    np.testing.assert_array_equal(data.affinity.thresholds, thresholds)
    assert PROTOCOLS["labelme"].affinity.thresholds is None
    assert set(np.unique(data.affinity(data.y_train, data.y_train))) == {0, 1, 2, 5, 10}


def test_labelme_keeps_a_sample_at_the_mean():
    data = split(np.ones((330, 3)) * [[1.0, 2.0, 3.0]], None, SMALL["labelme"])
    assert (data.X_database == 0).all()


def test_labelme_draws_its_samples_from_a_larger_file():
    X, _ = make(5_000)
    raw = split(X, None, replace(SMALL["labelme"], unit_length=False))
    assert (len(raw.X_query), len(raw.X_database)) == (20, 200)
    indices = np.r_[indices_of(raw.X_query), indices_of(raw.X_database)]
    assert len(set(indices)) == 220
    assert indices.max() > 4_500


def test_a_custom_protocol():
    X, y = make()
    nearest = Protocol("mine", "10 queries", 10, affinity=lambda a, b: a[:, None] == b, relevance="my rule")
    data = split(X, y, nearest, random_state=7, name="numbers")
    assert data.protocol is nearest
    assert data.DESCR == (
        "numbers, protocol 'mine': 10 queries against 310 database samples, "
        "310 of them for training; relevance = my rule."
    )


@pytest.mark.parametrize("name", ["5k", "struct", "mirflickr"])
def test_too_few_samples(name):
    X, y = make(labels=name == "mirflickr")
    with pytest.raises(
        ValueError, match=f"too few samples for protocol '{name}', which needs .*000 queries and .,000 other .* Got 320"
    ):
        split(X, y, name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.ones((2, 2)), "y": [0, 1]}, "needs 1 queries and 2 other samples .* Got 2 samples"),
        ({"y": [0, 1]}, r"`y` must have one entry for each of the 320 samples of X. Got shape \(2,\)"),
        ({"y": 3}, "`y` must be an array with one target per sample. Got a value of type int"),
        ({"y": None}, "`y` must be given for protocol 'holdout'. Got None instead; protocol='labelme'"),
        ({"X": np.full((320, 2), np.nan)}, "X contains NaN"),
        ({"protocol": "6k"}, "`protocol` must be one of 'holdout', '5k', 's2', .* Got '6k'"),
        ({"protocol": 5}, "`protocol` must be .* Got 5 "),
        ({"protocol": SMALL["mirflickr"]}, "for SharedLabelsAffinity"),
        ({"y": np.full((320, 3), 2)}, "`y` must be a 0/1 matrix of labels"),
        ({"scale": [1.0, 2.0]}, r"`scale` must be a number or an array of shape \(5,\). Got shape \(2,\)"),
        ({"random_state": "seed"}, "seed"),
    ],
)
def test_bad_input(arguments, message):
    X, y = make()
    with pytest.raises((TypeError, ValueError), match=message):
        split(**{"X": X, "y": y} | arguments)


# --- test samples, unseen classes, labels


@pytest.mark.parametrize("marks", [bool, int, list])
def test_s2_asks_the_marked_samples_and_trains_on_all_others(marks):
    X, y = make()
    is_test = np.arange(320) % 5 == 2
    data = split(X, y, "s2", test=is_test.tolist() if marks is list else is_test.astype(marks))
    np.testing.assert_array_equal(indices_of(data.X_query), np.flatnonzero(is_test))
    assert set(indices_of(data.X_database)) == set(np.flatnonzero(~is_test))
    assert data.X_train is data.X_database
    np.testing.assert_array_equal(data.train_index, np.arange(256))
    assert not np.array_equal(indices_of(data.X_database), np.flatnonzero(~is_test)), "in random order"


@pytest.mark.parametrize(
    ("test", "got"),
    [
        (None, "None"),
        (np.ones(3), r"shape \(3,\) with 3 values that are not 0"),
        (np.zeros(320), r"shape \(320,\) with 0 values"),
        (np.ones(320), r"shape \(320,\) with 320 values"),
        (np.arange(320), r"shape \(320,\) with 319 values"),
    ],
)
def test_s2_refuses_other_marks(test, got):
    with pytest.raises(ValueError, match=f"`test` must mark some of the 320 samples .* Got {got}"):
        split(*make(), "s2", test=test)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("marked", [False, True])
def test_unseen_classes_and_queries_are_not_in_the_training_set(seed, marked):
    X = np.random.default_rng(0).normal(size=(400, 5))
    X[:, 0] = np.arange(400)
    y = np.array([f"class {label}" for label in np.arange(400) % 8])
    is_test = np.arange(400) % 7 == 0
    protocol = replace(PROTOCOLS["unseen"], n_query=None) if marked else PROTOCOLS["unseen"]
    data = split(X, y, protocol, seed, test=is_test if marked else None)
    query, database, train = (indices_of(data[f"X_{part}"]) for part in ("query", "database", "train"))
    assert len({*query, *database, *train}) == len(query) + len(database) + len(train)
    assert set(data.y_query) == set(data.y_database)
    assert len(set(data.y_query)) == 2
    assert set(data.y_train) == set(y) - set(data.y_query)
    for part, indices in (("query", query), ("database", database), ("train", train)):
        np.testing.assert_array_equal(data[f"y_{part}"], y[indices])
    if marked:
        assert is_test[query].all()
        assert not is_test[np.r_[database, train]].any()
    else:
        assert (len(query), len(database), len(train)) == (20, 80, 300)
    assert len(data.train_index) == 0
    assert data.DESCR.endswith(f"{len(train):,} training samples of other classes; relevance = same class.")


def test_the_seed_decides_which_classes_are_unseen():
    y = np.arange(400) % 8
    unseen = [frozenset(split(np.c_[y, y], y, "unseen", seed).y_query) for seed in range(6)]
    assert len(set(unseen)) > 3
    assert unseen[0] == frozenset(split(np.c_[y, y], y, "unseen", 0).y_query)


def test_unseen_may_train_on_some_samples_of_unit_length():
    X, y = make()[0], np.arange(320) % 8
    some = replace(PROTOCOLS["unseen"], n_train=60, draw_train=PROTOCOLS["5k"].draw_train)
    np.testing.assert_array_equal(np.unique(split(X, y, some).y_train, return_counts=True)[1], 6 * [10])
    raw, data = (split(X, y, replace(some, unit_length=flag)) for flag in (False, True))
    for part in ("query", "database", "train"):
        expected = raw[f"X_{part}"] - raw.X_train.mean(axis=0)
        np.testing.assert_allclose(
            data[f"X_{part}"], expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5
        )


@pytest.mark.parametrize(
    ("y", "protocol", "message"),
    [
        (np.zeros(320, int), PROTOCOLS["unseen"], "enough classes .* Got shape .320,. and 1 class instead"),
        (make(labels=True)[1], PROTOCOLS["unseen"], "one class per sample.* Got shape .320, 6. and 1 class instead"),
        (make()[1], PROTOCOLS["unseen"], "two unseen ones and two others.* Got shape .320,. and 4 classes instead"),
        (np.arange(320) % 8, replace(PROTOCOLS["unseen"], n_train=500), "500 samples of 6 classes. Got 240 samples"),
        (make()[1], replace(PROTOCOLS["nus-wide"], affinity="auto"), r"0/1 matrix of labels .* Got shape \(320,\)"),
    ],
)
def test_classes_that_do_not_suit_a_protocol(y, protocol, message):
    with pytest.raises(ValueError, match=message):
        split(make()[0], y, protocol)


def test_nus_wide_draws_equally_many_samples_per_label():
    X, _ = make(600)
    rng = np.random.default_rng(0)
    y = (rng.random((600, 4)) < [0.5, 0.1, 0.3, 0.2]).astype(np.uint8)
    y[y.sum(axis=1) == 0, 0] = 1
    data = split(X, y, replace(PROTOCOLS["nus-wide"], n_query=40, n_train=80))
    assert (len(data.X_query), len(data.X_database), len(data.X_train)) == (40, 560, 80)
    assert (data.y_query.sum(axis=0) >= 10).all()
    assert (data.y_train.sum(axis=0) >= 20).all()
    np.testing.assert_array_equal(data.y_query, y[indices_of(data.X_query)])
    assert not {*indices_of(data.X_query)} & {*indices_of(data.X_database)}
    assert data.y_query[:, 1].sum() < 25, "the rare label is not in every query"


def test_labels_with_too_few_samples_are_filled_up():
    X, y = make(100)[0], np.zeros((100, 3), int)
    y[:95, 0], y[95:98, 1], y[98:, 2] = 1, 1, 1
    data = split(X, y, replace(PROTOCOLS["nus-wide"], n_query=30, n_train=30))
    assert len(set(indices_of(data.X_query))) == 30
    np.testing.assert_array_equal(data.y_query.sum(axis=0), [25, 3, 2])
