"""Files and fetching, and facts of the real data sets."""

import hashlib
import io
import json
import os
from urllib.error import URLError

import numpy as np
import pytest
from _helpers import indices_of, make
from sklearn.datasets import load_digits

from skhash.datasets import PROTOCOLS, load_dataset
from skhash.exceptions import InvalidFileError

DATA = os.environ.get("SKHASH_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="SKHASH_DATA names no folder with the real .npz files")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty SKHASH_DATA folder; a fetch that is not needed fails the test."""
    monkeypatch.setenv("SKHASH_DATA", str(tmp_path))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *args, **kw: pytest.fail("fetched"))
    return tmp_path


def test_digits_need_no_file(folder):
    X, y = load_digits(return_X_y=True)
    data = load_dataset()
    assert (data.name, data.protocol.name) == ("digits", "holdout")
    np.testing.assert_array_equal(np.sort(np.r_[data.X_query, data.X_database].sum(axis=1)), np.sort(X.sum(axis=1)))
    assert np.ptp(np.bincount(data.y_query)) <= np.ptp(np.bincount(y)) * 0.2 + 1
    assert np.prod(data.image_shape) == data.X_query.shape[1]


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


def test_a_file_marks_its_test_samples(folder):
    X, y = make()
    np.savez(folder / "mine.npz", X=X, y=y, test=np.arange(len(X)) < 40)
    assert indices_of(load_dataset("mine", protocol="s2").X_query).tolist() == list(range(40))
    np.savez(folder / "theirs.npz", X=X, y=y, test=X)
    assert len(load_dataset("theirs").X_query) == 64, "an array of this name that no protocol reads"
    with pytest.raises(InvalidFileError, match=r"theirs.npz does not suit protocol 's2': `test` must mark"):
        load_dataset("theirs", protocol="s2")


def test_openml_has_the_test_samples_of_mnist_last(folder, monkeypatch):
    X, y = make(10_300)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *args, **kwargs: (np.abs(X) % 255, y.astype(str)))
    data = load_dataset("mnist", protocol="s2")
    assert (len(data.X_query), len(data.X_database)) == (10_000, 300)
    with pytest.raises(ValueError, match="`test` must mark some"):
        load_dataset("usps", protocol="s2")


def test_data_home_comes_before_the_environment(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for place, n in ((folder, 20), (elsewhere, 40)):
        np.savez(place / "mine.npz", **dict(zip("Xy", make(n), strict=True)))
    assert len(load_dataset("mine").X_query) == 4
    assert len(load_dataset("mine", data_home=elsewhere).X_query) == 8


@pytest.mark.parametrize(
    ("name", "title", "version", "first_label", "first_pixel"),
    [("mnist", "mnist_784", 1, 0, 0), ("fashion_mnist", "Fashion-MNIST", 1, 0, 0), ("usps", "USPS", 2, 1, -1)],
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


@pytest.fixture
def openml(tmp_path, monkeypatch):
    """Answers of openml.org, of the form that it has, about some samples of 3 features of a data set."""

    def answer(name, did, file_id, labels, features, X):
        y = np.repeat(labels, len(X) // len(labels))
        samples = [",".join([*map(str, x), f"'{label}'"]) for x, label in zip(X, y, strict=True)]
        classes = ",".join(f"'{label}'" for label in labels)
        attributes = [*(f"@attribute {feature} real" for feature in features), f"@attribute class {{{classes}}}"]
        numeric = {"data_type": "numeric"} | dict.fromkeys(("is_target", "is_ignore", "is_row_identifier"), "false")
        numeric["number_of_missing_values"] = "0"
        columns = [{"index": str(i), "name": feature, **numeric} for i, feature in enumerate(features)]
        columns.append({**numeric, "index": "3", "name": "class", "data_type": "nominal", "is_target": "true"})
        about = {"id": did, "name": name, "version": "1", "format": "ARFF", "file_id": file_id, "status": "active"}
        file = "\n".join([f"@relation {name}", *attributes, "@data", *samples]).encode()
        url = f"https://api.openml.org/data/v1/download/{file_id}"
        about |= {"url": url, "md5_checksum": hashlib.md5(file).hexdigest(), "default_target_attribute": "class"}
        qualities = {"quality": [{"name": "NumberOfInstances", "value": len(y)}]}
        responses = {
            f"data/list/data_name/{name.lower()}/limit/2/data_version/1": {"data": {"dataset": [{"did": did} | about]}},
            f"json/data/{did}": {"data_set_description": about},
            f"json/data/features/{did}": {"data_features": {"feature": columns}},
            f"json/data/qualities/{did}": {"data_qualities": qualities},
        }
        responses = {end: json.dumps(response).encode() for end, response in responses.items()} | {file_id: file}

        def urlopen(request, *args, **kwargs):
            (body,) = (body for end, body in responses.items() if request.full_url.endswith(f"/{end}"))
            response = io.BytesIO(body)
            response.info = dict
            return response

        monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)
        return y

    monkeypatch.setenv("SKHASH_DATA", str(tmp_path))
    return answer


def assert_labels_belong_to_samples(data, label_of):
    for part in ("query", "database", "train"):
        assert [label_of[x.tobytes()] for x in data[f"X_{part}"]] == data[f"y_{part}"].tolist()


def test_isolet_by_the_responses_of_openml(openml, tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (5_200, 3)).round(4)
    y = openml("isolet", "300", "52405", range(1, 27), ["f1", "f2", "f3"], X)
    data = load_dataset("isolet", data_home=tmp_path)
    assert (data.protocol.name, len(data.X_query), len(data.X_train)) == ("struct", 2_000, 2_000)
    samples = zip(X.astype(np.float32), y, strict=True)
    assert_labels_belong_to_samples(data, {x.tobytes(): label - 1 for x, label in samples})


def test_fashion_mnist_by_the_responses_of_openml(openml, tmp_path):
    numbers = np.arange(11_000)
    X = np.stack([numbers // 256, numbers % 256, numbers % 7], axis=1)  # whole numbers up to 255, all different
    y = openml("Fashion-MNIST", "40996", "18238735", range(10), ["pixel1", "pixel2", "pixel3"], X)
    data = load_dataset("fashion_mnist", protocol="s2", data_home=tmp_path)
    samples = zip(X.astype(np.float32), y, strict=True)
    assert_labels_belong_to_samples(data, {x.tobytes(): label for x, label in samples})
    assert {*data.X_query[:, 0]} == {*X[1_000:, 0]}, "the last 10,000 samples are the test samples"
    default = load_dataset("fashion_mnist", data_home=tmp_path)
    assert (default.protocol.name, len(default.X_query), len(default.X_train)) == ("5k", 1_000, 5_000)


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
            "`name` must be one of digits, mnist, fashion_mnist, usps, isolet, cifar10_gist512, mirflickr.* Got 'nist'",
        ),
        ({"name": "usp"}, ValueError, r"Got 'usp' \(did you mean 'usps'\?\) instead"),
        ({"name": "MS_COCO"}, ValueError, r"Got 'MS_COCO' instead. Its images .*datasets.load_ms_coco."),
        ({"name": "digits", "protocol": "hold-out"}, ValueError, r"Got 'hold-out' \(did you mean 'holdout'\?\)"),
        (
            {"name": "digits", "protocol": "mirflickr"},
            ValueError,
            "Data set 'digits' does not suit protocol 'mirflickr'",
        ),
        ({"name": "mirflickr"}, FileNotFoundError, "Put mirflickr25k_tags1386.npz .* set SKHASH_DATA"),
        ({"name": "nowhere.npz"}, FileNotFoundError, "no file 'nowhere.npz'"),
        ({"name": None}, TypeError, "`name` must be the name of a data set or the path .* Got None"),
        ({"name": "digits", "random_state": "one"}, ValueError, "^'one' cannot be used to seed"),
        ({"name": "mnist", "protocol": "6k"}, ValueError, "`protocol` must be .* Got '6k'"),
    ],
)
def test_bad_names(folder, arguments, error, message):
    with pytest.raises(error, match=message):
        load_dataset(**arguments)


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
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_s2_asks_the_official_test_samples(name):
    data = load_dataset(name, protocol="s2")
    assert (len(data.X_query), len(data.X_database), len(data.X_train)) == (
        10_000,
        50_000 + 10_000 * (name == "mnist"),
        len(data.X_database),
    )
    raw = read("mnist" if name == "mnist" else "cifar10_gist512")
    np.testing.assert_array_equal(data.X_query, raw["X"][raw["test"]] * raw.get("scale", np.float32(1)))


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


@pytest.mark.parametrize("content", [b"", b"not an array", b"objects", b"\x93NUMPY\1\0\x0d\0{'descr': [], "])
def test_a_damaged_npy_file_is_named(content, tmp_path):
    path = tmp_path / "mine.npy"
    path.write_bytes(content)
    if content == b"objects":
        np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(
        InvalidFileError,
        match=r"mine\.npy must (be an \.npy file of numbers: |hold a plain array\. Got Python).* with numpy\.save",
    ):
        load_dataset(path)
