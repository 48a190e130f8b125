"""Data sets and protocols: who is a query, who is trained on, what is relevant."""

import os
from dataclasses import replace
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.datasets import load_digits

from skhash.affinity import ClassAffinity, DistanceAffinity, SharedLabelsAffinity
from skhash.datasets import PROTOCOLS, Protocol, load_dataset, split

SMALL = {
    "holdout": PROTOCOLS["holdout"],
    "5k": replace(PROTOCOLS["5k"], n_query=40, n_train=100),
    "struct": replace(PROTOCOLS["struct"], n_query=30, n_train=50),
    "labelme": replace(PROTOCOLS["labelme"], n_query=20, n_train=50, n_samples=220),
    "mirflickr": replace(PROTOCOLS["mirflickr"], n_query=20, n_train=50),
}
SIZES = {  # queries, database, train, of 320 samples
    "holdout": (64, 256, 256),
    "5k": (40, 280, 100),
    "struct": (30, 290, 50),
    "labelme": (20, 300, 50),
    "mirflickr": (20, 300, 50),
}
DATA = os.environ.get("SKHASH_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="SKHASH_DATA names no folder with the real .npz files")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty SKHASH_DATA folder; what is fetched in vain fails the test."""
    monkeypatch.setenv("SKHASH_DATA", str(tmp_path))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *args, **kw: pytest.fail("fetched"))
    return tmp_path


def make(n=320, *, labels=False, seed=0):
    """Samples whose first feature is their index, and four classes (or six labels)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 0] = np.arange(n)
    y = rng.integers(0, 2, (n, 6)).astype(np.uint8) if labels else np.arange(n) % 4
    return X, y


def indices_of(X):
    return X[:, 0].astype(int)


# --- protocols


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


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (22_000, (22_000, 2_000, 5_000)),
        (22_019, (22_019, 2_000, 5_000)),  # the paper's own file
        (22_999, (22_999, 2_000, 5_000)),
        (60_000, (22_000, 2_000, 5_000)),
        (2_200, (2_200, 200, 500)),
    ],
)
def test_labelme_sizes(n, sizes):
    assert PROTOCOLS["labelme"].sizes(n) == sizes


def test_labelme_draws_its_samples_from_a_larger_file():
    X, _ = make(5_000)
    raw = split(X, None, replace(SMALL["labelme"], unit_length=False))
    assert (len(raw.X_query), len(raw.X_database)) == (20, 200)
    indices = np.r_[indices_of(raw.X_query), indices_of(raw.X_database)]
    assert len(set(indices)) == 220
    assert indices.max() > 4_500


def test_protocols_say_what_they_are():
    assert list(PROTOCOLS) == ["holdout", "5k", "struct", "labelme", "mirflickr"]
    assert all(name == protocol.name == str(protocol) for name, protocol in PROTOCOLS.items())
    assert [name for name, protocol in PROTOCOLS.items() if not protocol.requires_y] == ["labelme"]
    assert PROTOCOLS["5k"].sizes(70_000) == (70_000, 1_000, 5_000)
    assert PROTOCOLS["struct"].sizes(9_298) == (9_298, 2_000, 2_000)
    assert PROTOCOLS["mirflickr"].sizes(20_015) == (20_015, 2_000, 5_000)


def test_a_custom_protocol():
    X, y = make()
    nearest = Protocol("mine", "10 queries", 10, affinity=lambda a, b: a[:, None] == b, relevance="my rule")
    data = split(X, y, nearest, random_state=7, name="numbers")
    assert data.protocol is nearest
    assert data.DESCR == (
        "numbers, protocol 'mine': 10 queries against 310 database rows, 310 of them for training; relevance = my rule."
    )


# --- bad input


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
        ({"y": 3}, r"`y` must have .* Got shape \(\)"),
        ({"y": None}, "`y` must be given for protocol 'holdout'. Got None instead; protocol='labelme'"),
        ({"X": np.full((320, 2), np.nan)}, "X contains NaN"),
        ({"protocol": "6k"}, "`protocol` must be one of 'holdout', '5k', 'struct', .* Got '6k'"),
        ({"protocol": 5}, "`protocol` must be .* Got 5 "),
        ({"protocol": SMALL["mirflickr"]}, "for SharedLabelsAffinity"),
        ({"y": np.full((320, 3), 2)}, "`y` must be a 0/1 matrix of labels"),
        ({"scale": [1.0, 2.0]}, r"`scale` must be a number or an array of shape \(5,\). Got shape \(2,\)"),
        ({"random_state": "seed"}, "seed"),
    ],
)
def test_bad_input(arguments, message):
    X, y = make()
    with pytest.raises(ValueError, match=message):
        split(**{"X": X, "y": y} | arguments)


# --- files and fetching


def test_digits_need_no_file(folder):
    X, y = load_digits(return_X_y=True)
    data = load_dataset()
    assert (data.name, data.protocol.name) == ("digits", "holdout")
    np.testing.assert_array_equal(np.sort(np.r_[data.X_query, data.X_database].sum(axis=1)), np.sort(X.sum(axis=1)))
    assert np.ptp(np.bincount(data.y_query)) <= np.ptp(np.bincount(y)) * 0.2 + 1


@pytest.mark.parametrize(
    ("name", "file", "protocol"),
    [
        ("mnist", "mnist", "5k"),
        ("usps", "usps", "5k"),
        ("cifar10", "cifar10_gist512", "5k"),
        ("cifar_gist", "cifar10_gist512", "5k"),
        ("mirflickr", "mirflickr25k_tags1386", "mirflickr"),
    ],
)
def test_known_names_find_their_file_and_protocol(folder, name, file, protocol):
    X, y = make(7_000, labels=protocol == "mirflickr")
    scale = np.array([1, 2, 3, 4, 5], dtype=np.float32)
    np.savez(folder / f"{file}.npz", X=np.round(X).astype(np.int16), y=y, scale=scale, test=y == 0)
    data = load_dataset(name)
    assert (data.name, data.protocol) == (file, PROTOCOLS[protocol])
    np.testing.assert_array_equal(data.X_query[:, 4], 5 * np.round(X)[indices_of(data.X_query), 4])
    assert len(data.X_train) == 5_000
    assert data.DESCR.startswith(f"{file}, protocol '{protocol}': ")


def test_own_files(folder, tmp_path_factory, monkeypatch):
    X, y = make()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    np.savez(folder / "mine.npz", X=X, y=y)
    np.savez(elsewhere / "theirs.npz", X=X)
    for name in ("mine", "mine.npz", folder / "mine.npz", str(folder / "mine.npz")):
        data = load_dataset(name)
        assert (data.name, data.protocol.name) == ("mine", "holdout")
    monkeypatch.chdir(elsewhere)
    for name, data_home in (("theirs.npz", None), ("theirs", elsewhere), (elsewhere / "theirs.npz", None)):
        data = load_dataset(name, data_home=data_home)
        assert (data.name, data.protocol.name, len(data.X_query)) == ("theirs", "labelme", 320 * 2_000 // 22_000)


def test_data_home_comes_before_the_environment(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for place, n in ((folder, 20), (elsewhere, 40)):
        np.savez(place / "mine.npz", **dict(zip("Xy", make(n), strict=True)))
    assert len(load_dataset("mine").X_query) == 4
    assert len(load_dataset("mine", data_home=elsewhere).X_query) == 8


@pytest.mark.parametrize(
    ("name", "title", "version", "first_label", "first_pixel"),
    [("mnist", "mnist_784", 1, 0, 0), ("usps", "USPS", 2, 1, -1)],
)
def test_fetching(folder, monkeypatch, name, title, version, first_label, first_pixel):
    X, y = make(6_000)
    pixels = np.clip(np.abs(np.round(X)), 0, 9) + first_pixel
    asked = []

    def fetch_openml(*args, **kwargs):
        asked.append((args, kwargs))
        return pixels, (y + first_label).astype(str).astype(object)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    data = load_dataset(name, data_home=folder)
    assert asked == [((title,), {"version": version, "data_home": folder, "as_frame": False, "return_X_y": True})]
    assert (data.X_train.dtype, data.y_train.dtype) == (np.float32, np.uint8)
    assert set(data.y_database) == {0, 1, 2, 3}
    assert (data.X_database.min(), data.X_database.max()) == (0, 9)


def test_failed_fetch_says_what_to_do(folder, monkeypatch):
    def fetch_openml(*args, **kwargs):
        raise URLError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    with pytest.raises(OSError, match=r"'mnist' could not be fetched: .*no network.* Put mnist.npz"):
        load_dataset("mnist")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"name": "nist"},
            ValueError,
            "`name` must be one of digits, mnist, usps, cifar10_gist512, mirflickr.* Got 'nist'",
        ),
        ({"name": "mirflickr"}, FileNotFoundError, "Put mirflickr25k_tags1386.npz .* set SKHASH_DATA"),
        ({"name": "nowhere.npz"}, FileNotFoundError, "no file 'nowhere.npz'"),
        ({"name": None}, TypeError, "`name` must be the name of a data set or the path .* Got None"),
        ({"name": "mnist", "protocol": "6k"}, ValueError, "`protocol` must be .* Got '6k'"),
    ],
)
def test_bad_names(folder, arguments, error, message):
    with pytest.raises(error, match=message):
        load_dataset(**arguments)


def test_bad_files(folder):
    np.savez(folder / "none.npz", data=[1])
    np.savez(folder / "objects.npz", X=np.array([{}], dtype=object))
    np.savez(folder / "short.npz", X=np.ones((30, 2)), y=np.ones(29))
    (folder / "text.npz").write_text("X, y\n")
    (folder / "empty.npz").touch()
    with pytest.raises(ValueError, match=r"none\.npz must hold an array named X. Got data"):
        load_dataset("none")
    for name in ("objects", "text", "empty"):
        with pytest.raises(
            ValueError, match=rf"{name}.npz must be an .npz archive of plain arrays. Write it with numpy.savez"
        ):
            load_dataset(name)
    with pytest.raises(ValueError, match=r"Got shape \(29,\)"):
        load_dataset("short")


# --- the real files


def read(name):
    with np.load(os.path.join(DATA, f"{name}.npz")) as file:
        return dict(file)


def neighbor_labels(X, y, n_queries, k):
    """Labels of the k nearest neighbors of each of the last `n_queries` samples, and the labels of these."""
    from sklearn.neighbors import NearestNeighbors

    train, queries = X[:-n_queries], X[-n_queries:]
    nearest = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(train).kneighbors(queries, return_distance=False)
    return y[:-n_queries][nearest], y[-n_queries:]


@needs_data
def test_facts_of_mnist():
    raw = read("mnist")
    assert (raw["y"] == 0).sum() == 6_903
    assert raw["X"][~raw["test"]].mean() / 255 == pytest.approx(0.1307, abs=1e-4)
    data = load_dataset("mnist")
    np.testing.assert_array_equal(np.bincount(data.y_query), 10 * [100])
    np.testing.assert_array_equal(np.bincount(data.y_train), 10 * [500])
    assert data.X_database.shape == (69_000, 784)
    assert data.X_database.max() == 255


@needs_data
def test_facts_of_usps():
    raw = read("usps")
    nearest, y = neighbor_labels(raw["X"] * raw["scale"], raw["y"], 2_007, 1)
    assert (nearest[:, 0] != y).mean() == pytest.approx(0.0563, abs=5e-4)
    data = load_dataset("usps", protocol="struct")
    assert (len(data.X_query), len(data.X_database), len(data.X_train)) == (2_000, 7_298, 2_000)
    assert (data.X_database.min(), data.X_database.max()) == (0, 2)


@needs_data
def test_facts_of_cifar():
    data = load_dataset("cifar10")
    np.testing.assert_array_equal(np.bincount(data.y_query), 10 * [100])
    np.testing.assert_array_equal(np.bincount(data.y_train), 10 * [500])
    X, y = np.r_[data.X_database, data.X_query], np.r_[data.y_database, data.y_query]
    nearest, y = neighbor_labels(X, y, 1_000, 10)
    votes = np.array([np.bincount(row, minlength=10).argmax() for row in nearest])
    assert (votes == y).mean() == pytest.approx(0.58, abs=0.04)


@needs_data
def test_labelme_on_real_gist():
    data = load_dataset("cifar10", protocol="labelme")
    assert (len(data.X_query), len(data.X_database), len(data.X_train)) == (2_000, 20_000, 5_000)
    np.testing.assert_allclose(np.linalg.norm(data.X_query, axis=1), 1, atol=1e-5)
    levels = data.affinity(data.y_train[:500], data.y_train)
    assert (levels > 0).mean() == pytest.approx(0.05, abs=0.005)


@needs_data
def test_facts_of_mirflickr():
    data = load_dataset("mirflickr")
    raw = read("mirflickr25k_tags1386")
    np.testing.assert_array_equal(data.X_query, raw["X"][:2_000])
    assert (len(data.X_database), len(data.X_train)) == (18_015, 5_000)
    assert (data.y_train.dtype, data.y_train.shape) == (np.uint8, (5_000, 24))
    assert raw["y"].sum(axis=1).mean() == pytest.approx(3.78, abs=0.005)
    shared = data.affinity(data.y_train, data.y_train)
    shares = [(shared == level).mean() for level in range(4)]
    np.testing.assert_allclose(shares, [0.44, 0.30, 0.15, 0.08], atol=0.01)
