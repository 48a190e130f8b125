"""Identifiers: whole numbers or text from any container come out as they went in, and anything else is refused."""

import copy
import pickle
from enum import StrEnum
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from skhash import LSHHasher
from skhash.neighbors import (
    HammingNeighbors,
    HammingNeighborsTransformer,
    duplicate_groups,
    merge_neighbors,
    neighbors_from_bytes,
    neighbors_to_bytes,
)
from skhash.persistence import load, save

BITS = np.random.default_rng(0).integers(0, 2, (40, 24), dtype=np.uint8)
#: names with what numpy's own type of text loses, with the longest one last
TEXTS = ["b", "a", "", "7", "007", " ", "a ", "a\0", "ä", "名前", "\udcff.png", "NA", "x" * 99]


class Color(StrEnum):
    RED = "red"


def index_of(ids, n=None):
    return HammingNeighbors(n_neighbors=1).fit(BITS[: n or len(ids)], ids=ids)


def found(index):
    """The identifier that each item of an index has in a search."""
    return index.kneighbors(BITS[: index.n_samples_fit_])[1][:, 0].tolist()


@pytest.mark.parametrize("container", [list, tuple, lambda ids: np.array(ids, object)])
def test_text_comes_out_as_it_went_in(container):
    index = index_of(container(TEXTS))
    assert found(index) == TEXTS
    assert all(type(i) is str for i in index.ids_)


@pytest.mark.parametrize(
    "ids",
    [
        np.array(["b", "a"]),
        np.array(["b", "a"], np.dtypes.StringDType()),
        pd.Series(["b", "a"], dtype="string"),
        pd.Series(["b", "a"], dtype="string[pyarrow]"),
        pd.Categorical(["b", "a"]),
        pd.DataFrame({"id": ["b", "a"]}).set_index("id").index,
        pa.array(["b", "a"]),
        pa.array(["b", "a"]).dictionary_encode(),
        pa.chunked_array([["b"], ["a"]]),
        [np.str_("b"), "a"],
    ],
    ids=lambda ids: f"{type(ids).__name__} {getattr(ids, 'dtype', '')}",
)
def test_containers_of_text(ids):
    index = index_of(ids)
    assert found(index) == ["b", "a"]
    assert all(type(i) is str for i in index.ids_)


@pytest.mark.parametrize(
    "ids",
    [
        [-1, 5],
        (np.int8(-1), 5),
        np.array([-1, 5], np.int8),
        np.array([-1, 5], ">i2"),
        np.array([-1, 5], object),
        pd.Series([-1, 5], dtype="Int64"),
        pd.Series([-1, 5], dtype=object),
        pa.array([-1, 5]),
        torch.tensor([-1, 5]),
    ],
    ids=lambda ids: f"{type(ids).__name__} {getattr(ids, 'dtype', '')}",
)
def test_containers_of_whole_numbers(ids):
    index = index_of(ids)
    assert (found(index), index.ids_.dtype) == ([-1, 5], np.int64)


def test_text_of_polars():
    polars = pytest.importorskip("polars")
    assert found(index_of(polars.Series(["b", "a"]))) == ["b", "a"]


def test_a_member_of_an_enumeration_is_its_text():
    assert found(index_of([Color.RED, "b"])) == ["red", "b"]


def test_the_index_keeps_its_own_identifiers():
    for ids in (np.array([3, 4]), np.array(["a", "b"], object)):
        index, before = index_of(ids), ids.tolist()
        ids[0] = ids[1]
        assert found(index) == before


REFUSED = {
    "float": ([1.0, 2.0], r"Got 1\.0 instead\. Pass whole numbers: \[int\(i\) for i in ids\]\."),
    "floats": (np.array([1.0, 2.0]), r"Got 1\.0 instead\. Pass whole numbers"),
    "NaN": (pd.Series([1, None]), r"Got NaN instead\. Give each one an identifier"),
    "NaN among text": (["a", float("nan")], r"Got NaN instead\. Give each one"),
    "None": (["a", None], r"Got None instead\. Give each one"),
    "NA": (pd.Series(["a", None], dtype="string"), r"Got <NA> instead\. Give each one"),
    "null": (pa.array(["a", None]), r"Got None instead\. Give each one"),
    "bytes": ([b"a", b"b"], r"Got b'a' instead\. Decode them: \[i\.decode\(\) for i in ids\]\."),
    "array of bytes": (np.array([b"a", b"b"]), r"Got b'a' instead\. Decode them"),
    "bool": ([True, False], r"Got True instead"),
    "bool among numbers": ([5, True], r"Got True instead"),
    "array of bool": (np.array([True, False]), r"Got True instead"),
    "tensors": (list(torch.tensor([1, 2])), r"Got a Tensor instead\. Pass numbers: \[int\(i\) for i in ids\]\."),
    "UUIDs": ([UUID(int=1), UUID(int=2)], r"Got a UUID instead\. Pass text: \[str\(i\) for i in ids\]\."),
    "both": (["a", 1], r"must be all ints or all text\. Got both\. Pass text: \[str\(i\) for i in ids\]\."),
    "one text": ("ab", r"must be ints of shape \(2,\), or text\. Got shape \(\) instead"),
    "set": ({"a", "b"}, r"Got a set instead\. Pass a list"),
    "dict": ({"a": 0, "b": 1}, r"Got a dict instead\. Pass a list"),
    "masked": (np.ma.array([1, 2], mask=[0, 1]), r"must have no missing values\. Got 1 masked ones"),
    "repeated": (["a", "a"], r"must differ from each other\. Got 'a' more than once"),
    "repeated numbers": ([7, 7], r"must differ .* Got 7 more than once"),
    "too large": ([2**64, 1], r"must be ints that one type of 64 bits holds\. Got 18446744073709551616\. Pass text"),
    "too large for an index": (np.array([2**63, 1], np.uint64), r"must be at most .* Pass text: ids\.astype\(str\)"),
}


@pytest.mark.parametrize(("ids", "message"), REFUSED.values(), ids=REFUSED)
def test_anything_else_is_refused_before_any_work(ids, message):
    class Untouched(LSHHasher):
        def fit(self, X, y=None):
            raise AssertionError("work was done")

    with pytest.raises(ValueError, match=f"`ids` {message}" if not message.startswith("Got") else message):
        HammingNeighbors(Untouched()).fit(BITS[:2], ids=ids)


def test_added_names_are_not_cut():
    index = index_of(["a", "b"]).add(BITS[2:4], ids=["a name that is longer", "c"])
    assert found(index) == ["a", "b", "a name that is longer", "c"]
    assert found(index.remove(["b", "c"]).add(BITS[4:5], ids=np.array(["b"]))) != []
    assert index.ids_.tolist() == ["a", "a name that is longer", "b"]
    assert index.remove("b").ids_.tolist() == ["a", "a name that is longer"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.add(BITS[:1]), r"must be given, since those of the index are text\. Got None"),
        (lambda index: index.add(BITS[:1], ids=[7]), r"must be text, as those in the index\. Got ints"),
        (lambda index: index.add(BITS[:1], ids=["a"]), r"must differ from those in the index\. Got 'a'"),
        (lambda index: index.remove(["c", "a"]), r"must be in the index\. Got \['c'\], which are not"),
        (lambda index: index.remove([0]), r"must be text of shape \(n_ids,\), as those in the index"),
        (lambda index: index.remove([b"a"]), "Decode them"),
    ],
)
def test_a_refused_change_leaves_the_index_as_it_is(change, message):
    index = index_of(["a", "b"])
    with pytest.raises(ValueError, match=message):
        change(index)
    assert found(index) == ["a", "b"]


def test_every_search_returns_the_names():
    numbers, names = index_of(np.arange(40)), np.array([f"item {i}" for i in range(40)], object)
    index = index_of(names)
    for other in (index, copy.deepcopy(index), pickle.loads(pickle.dumps(index))):
        np.testing.assert_array_equal(other.kneighbors(n_neighbors=5)[1], names[numbers.kneighbors(n_neighbors=5)[1]])
    for ids, positions in zip(index.radius_neighbors(radius=9)[1], numbers.radius_neighbors(radius=9)[1], strict=True):
        assert ids.tolist() == names[positions].tolist()
    pairs = [triple for block in numbers.radius_pairs(7) for triple in zip(*block, strict=True)]
    named = [triple for block in index.radius_pairs(7) for triple in zip(*block, strict=True)]
    assert named == [(*sorted((names[i], names[j])), d) for i, j, d in pairs] != []
    groups = duplicate_groups(numbers, 6), duplicate_groups(index, 6)
    assert [names[group].tolist() for group in groups[0]] == [group.tolist() for group in groups[1]] != []
    for graph in ("kneighbors_graph", "radius_neighbors_graph"):
        assert (getattr(index, graph)() != getattr(numbers, graph)()).nnz == 0


@pytest.mark.parametrize("kind", [HammingNeighbors, HammingNeighborsTransformer])
@pytest.mark.parametrize("ids", [TEXTS, ["", *TEXTS[3:]], [""], np.arange(9) - 4], ids=["texts", "few", "one", "ints"])
def test_a_saved_index_keeps_its_names(kind, ids, tmp_path):
    index = kind(n_neighbors=1).fit(BITS[: len(ids)], ids=ids)
    save(index, tmp_path / "index")
    loaded = load(tmp_path / "index")
    assert loaded.ids_.tolist() == list(ids)
    assert loaded.ids_.dtype == index.ids_.dtype
    assert found(loaded) == list(ids)


def shards(names):
    first = index_of(names[:25], 25)
    second = HammingNeighbors().fit(BITS[25:], ids=names[25:])
    return [index.kneighbors(BITS[:6], 9) for index in (first, second)]


def test_shards_with_names_are_merged():
    names = np.array([f"item {i:02}" for i in range(40)], object)
    expected = index_of(names).kneighbors(BITS[:6], 9)
    for parts in (shards(names), [neighbors_from_bytes(neighbors_to_bytes(*shard)) for shard in shards(names)]):
        for array, right in zip(merge_neighbors(parts, 9), expected, strict=True):
            np.testing.assert_array_equal(array, right)
    empty = np.empty((6, 0)), np.empty((6, 0), object)
    assert merge_neighbors([*shards(names), empty], 3)[1].tolist() == expected[1][:, :3].tolist()
    with pytest.raises(ValueError, match=r"`shards` must have indices that are all ints or all text\. Got both"):
        merge_neighbors([shards(names)[0], shards(np.arange(40))[0]], 3)
