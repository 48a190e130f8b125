"""Files made to harm: each is refused by one error that names the file, before it takes memory or time."""

import json
from functools import reduce
from operator import getitem

import numpy as np
import pytest
from _fuzz_mutators import to_json
from _fuzz_targets import MODELS, models
from _helpers import sealed
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as to_bytes
from sklearn.datasets import load_digits

from skhash import ITQHasher, LSHHasher
from skhash.exceptions import InvalidFileError
from skhash.persistence import load, save


@pytest.fixture(scope="module")
def files():
    return models()


@pytest.fixture
def hostile(files, tmp_path):
    """Writes a file of a name in `models` whose header and tensors a function has changed, with a right checksum."""

    def write(name, change):
        path = tmp_path / "hostile.safetensors"
        header, tensors = parts(files[name])
        change(header, tensors)
        path.write_bytes(sealed(header, tensors))
        return path

    return write


def parts(data):
    length = int.from_bytes(data[:8], "little")
    return json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["skhash"]), load_tensors(data)


def refused(path, match):
    with pytest.raises(InvalidFileError, match=match) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < len(str(path)) + 1000


def fitted(name, value):
    *path, last = name.split(".")
    return lambda header, tensors: reduce(getitem, path, header["fitted"]).update({last: value})


def param(name, value):
    return lambda header, tensors: header["params"].update({name: value})


def scaler(name, value):
    return lambda header, tensors: header["scaler"]["fitted"].update({name: value})


def network(name, value):
    """Change an array of the function of a network."""

    def change(header, tensors):
        where = header["fitted"]["function_"]["arrays"][name]["$array"]
        tensors[where] = value(tensors[where]) if callable(value) else value

    return change


def tensor(name, change):
    return lambda header, tensors: tensors.update({name: change(tensors[name])})


def of_fewer_features(header, tensors):
    names = [f"function_.{name}" for name in ("mean", "projection", "spread")]
    tensors.update({name: tensors[name][..., 1:] for name in names})


def with_nan(array):
    array = array.copy()
    array.flat[-1] = np.nan
    return array


def promising(header, tensors):
    """Twenty bytes that say they are a terabyte."""
    tensors["big"] = np.zeros(20, np.uint8)
    header["fitted"]["database_"]["y"] = {"$array": "big", "order": "C", "dtype": "<U5", "shape": [2**37]}


def wide(header, tensors):
    header["fitted"]["database_"]["y"]["shape"][1] = 2**40


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


NAN_AFFINITY = {"$affinity": "DistanceAffinity", "fields": {"percentiles": [float("nan")], "levels": [1]}}
ATTACKS = {
    "scalar of a gigabyte": ("itq", fitted("database_.y", {"$scalar": 1, "dtype": "V1000000000"}), "cannot be in"),
    "columns of a sparse matrix": ("spherical", wide, "columns"),
    "nesting": ("talr", fitted("settings_", {"a": nested(900)}), "nested too deeply|is damaged"),
    "bytes for a terabyte": ("itq", promising, "does not have"),
    "a method": ("itq", fitted("transform", "x"), "'transform' is not an attribute of a fitted ITQHasher"),
    "a private method": ("itq", fitted("_project", "x"), "'_project' is not an attribute"),
    "a property": ("structhash", fitted("n_iter_", 1), "`n_iter_` is not an attribute"),
    "the class": ("itq", fitted("__class__", "x"), "'__class__' is not an attribute"),
    "callbacks": ("itq", fitted("_skl_callbacks", []), "'_skl_callbacks' is not an attribute"),
    "another parameter": ("itq", param("_nbits", 1), "'_nbits' is not a parameter of ITQHasher"),
    "a parameter of another type": ("itq", param("store_database", 3), "store_database"),
    "weights of NaN": ("itq", tensor("function_.projection", with_nan), "`function_.projection` must be finite"),
    "network of NaN": ("talr", tensor("weights_.hash.weight", with_nan), "`weights_.hash.weight` must be finite"),
    "missing bits": (
        "itq",
        tensor("function_.projection", lambda a: a[1:]),
        "`nbits` must be 5",
    ),
    "missing features": ("itq", tensor("function_.mean", lambda a: a[1:]), "`function_.projection` must have shape"),
    "a sample without a target": ("pca", tensor("database_.y", lambda a: a[1:]), "one target per code"),
    "an axis that is not there": (
        "spectral",
        tensor("function_.axes", lambda a: a + 9),
        "`function_.axes` must be below",
    ),
    "lengths of zero": ("spectral", tensor("function_.lengths", np.zeros_like), "`project` must be finite"),
    "negative weights": ("structhash", tensor("bit_weights_", lambda a: -a - 1), "`bit_weights_` must be at least 0"),
    "a feature of another network": ("talr", fitted("input_shape_", {"$tuple": [7]}), r"samples of shape \(7,\)"),
    "no function": ("itq", fitted("function_", None), "`function_` must be a hash function"),
    "a function of a class": ("itq", fitted("function_.$function", "ITQHasher"), "there is no value"),
    "a method of a function": ("itq", fitted("function_.arrays.first", 1), "`function_.first` must be an array"),
    "another array of a function": (
        "itq",
        fitted("function_.arrays.other", {"$array": "function_.mean", "order": "C"}),
        "`function_.other` is not part",
    ),
    "a function of other samples": ("itq", of_fewer_features, "of samples"),
    "a database of something": ("itq", fitted("database_.other", 1), "`database_` must be a dict"),
    "a huge image": ("images", network("shape", np.array([1, 2**20, 2**20])), "must have 1 to 16,777,216 values"),
    "an image without pixels": ("images", network("shape", lambda a: 0 * a), "must have 1 to 16,777,216 values"),
    "an image of another size": ("images", network("shape", lambda a: a + 1), "`function_.weights"),
    "a length that is a float": ("images", fitted("input_shape_", {"$tuple": [1.0, 2, 3]}), "input_shape_"),
    "a network of another dtype": (
        "images",
        network("weights.hash.bias", lambda a: a.astype(np.float64)),
        "`function_.weights.hash.bias` must be of float32",
    ),
    "bits without a map": ("images", network("weights.hash.weight", lambda a: a[:0]), "1 to 65536 rows"),
    "a network of NaN values": ("images", network("weights.hash.weight", with_nan), "must be finite"),
    "weights to train on of other bits": ("talr", tensor("weights_.hash.weight", lambda a: a[1:]), "`weights_"),
    "parameters that are not fixed": ("talr", fitted("_fixed", {}), "`_fixed` must have"),
    "bits without cuts": ("structhash", fitted("history_", [{"bit": 1}]), "n_iter"),
    "a network without weights": ("talr", fitted("weights_", {}), "weights_"),
    "an affinity of NaN": ("ksh", fitted("affinity_", NAN_AFFINITY), "finite"),
    "a method of the scaler": (
        "scaled",
        scaler("transform", 1),
        "'transform' is not an attribute of a fitted Standard",
    ),
    "missing scales": ("scaled", tensor("scaler.scale_", lambda a: a[1:]), "`scale_` must have shape"),
    "no scales": ("scaled", scaler("scale_", None), "`scale_` must be an array without 0"),
    "scales of zero": ("scaled", tensor("scaler.scale_", np.zeros_like), "`scale_` must be an array without 0"),
    "means of NaN": ("scaled", tensor("scaler.mean_", with_nan), "`mean_` must be finite"),
    "a scaler of fewer features": (
        "scaled",
        scaler("n_features_in_", 1),
        "`n_features_in_` must be that of the hasher",
    ),
    "a scaler without content": ("scaled", lambda header, tensors: header.update(scaler=[]), "is damaged"),
    "a long value": ("itq", param("store_database", "x" * 10**6), "store_database"),
}


@pytest.mark.parametrize(("name", "change", "match"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused(name, change, match, hostile):
    refused(hostile(name, change), match)


@pytest.mark.parametrize("nbits", [10**18, -1, 65537, True, "8"])
def test_a_wrong_number_of_bits(nbits, hostile):
    refused(hostile("itq", lambda header, tensors: header.update(nbits=nbits)), "`nbits` must be 6")


def test_a_checkpoint_folder_is_not_taken(hostile, tmp_path):
    path = hostile("talr", param("checkpoint", str(tmp_path / "outside")))
    with pytest.warns(UserWarning, match=r"outside', a folder that fit would write to\. checkpoint is now None"):
        hasher = load(path)
    X, y = load_digits(return_X_y=True)
    hasher.fit(X[:60], y[:60])
    assert hasher.checkpoint is None
    assert not (tmp_path / "outside").exists()


def test_what_is_not_a_file_of_ours(tmp_path, files):
    path = tmp_path / "hasher"
    with pytest.raises(FileNotFoundError):
        load(path)
    for content in (b"", b"PK\x03\x04", b"\0" * 100, b"\xff" * 100, files["itq"][:-1], files["itq"] + b"x"):
        path.write_bytes(content)
        refused(path, "cannot be read as a file of skhash")
    refused(tmp_path, "is not a file")
    for text in (to_json("@deep@"), to_json("@digits@"), "[1"):
        path.write_bytes(to_bytes({"x": np.zeros(1)}, {"skhash": text}))
        refused(path, "cannot be read as a file of skhash")


@pytest.mark.parametrize("name", ["itq", "lsh", "pca", "spectral", "spherical", "ksh", "structhash", "talr", "stream"])
def test_every_bit_flip_is_found(name, files, tmp_path):
    """50 flips in each of nine files: the file is refused, or it is what it was (a flip of the padding)."""
    rng = np.random.default_rng(0)
    path, data = tmp_path / "flipped", files[name]
    path.write_bytes(data)
    expected, outcomes = repr(MODELS.read(path)), []
    for place, bit in zip(rng.integers(len(data), size=50), rng.integers(8, size=50), strict=True):
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :])
        try:
            outcomes.append(repr(MODELS.read(path)))
        except InvalidFileError as error:
            outcomes.append(str(error)[: len(str(path))])
    assert set(outcomes) <= {expected, str(path)}
    assert outcomes.count(str(path)) >= 45


def test_a_hasher_that_load_would_refuse_is_not_saved(tmp_path):
    X, _ = load_digits(return_X_y=True)
    hasher = ITQHasher(nbits=4, random_state=0).fit(X[:60])
    hasher.mean_[0] = np.inf
    with pytest.raises(ValueError, match=r"`hasher` cannot be saved in .*`function_.mean` must be finite"):
        save(hasher, tmp_path / "hasher")
    hasher = LSHHasher(nbits=4, random_state=0).fit(X[:60])
    hasher.extra_ = 1
    with pytest.raises(ValueError, match="`extra_` is not an attribute of a fitted LSHHasher"):
        save(hasher, tmp_path / "hasher")
    assert list(tmp_path.iterdir()) == []
