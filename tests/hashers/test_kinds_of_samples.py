"""Kinds of X: arrays pass, and everything else gets one error with a line that mends it."""

from array import array
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from _helpers import Dataset
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.utils import get_tags
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import skhash
from skhash import ITQHasher, TALRHasher
from skhash.registry import METHODS

X = np.arange(12.0).reshape(6, 2)
y = np.array([0, 0, 0, 1, 1, 1])
SHALLOW, DEEP = ITQHasher(2, random_state=0), TALRHasher(2, n_epochs=1, random_state=0)


class Stream(IterableDataset):
    """A Dataset without a length."""

    def __iter__(self):
        return iter(X)


@pytest.mark.parametrize("hasher", [SHALLOW, DEEP], ids=["shallow", "deep"])
@pytest.mark.parametrize(
    "given",
    [X, X.tolist(), tuple(map(tuple, X)), list(X), pd.DataFrame(X), torch.tensor(X), [torch.tensor(x) for x in X]],
    ids=type,
)
def test_what_numpy_converts_is_learned_from(given, hasher):
    assert_array_equal(hasher.fit(given, y).transform(given), hasher.transform(X))


@pytest.mark.parametrize("hasher", [SHALLOW, DEEP], ids=["shallow", "deep"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": X}, r"a dict with the keys 'a' instead. Pass one of its values, such as X\['a'\]"),
        ({}, "an empty dict instead"),
        ([{"a": 1}, {"a": 2}], "a list whose items are a dict with the keys 'a' instead"),
        (None, "Got None instead"),
        (True, "Got True instead"),
        (3.5, "a value of type float instead"),
        ("digits", "Got 'digits' instead"),
        ("x" * 1000, "a value of type str instead"),
        (b"bytes", "a value of type bytes instead"),
        ((row for row in X), r"a value of type generator instead. .*numpy.array\(list\(X\)\)"),
        ({1, 2}, r"a value of type set instead. .*numpy.array\(list\(X\)\)"),
        (print, "a value of type builtin_function_or_method instead"),
        (torch.ones(2, 2, requires_grad=True), r"requires_grad=True instead. Pass X.detach\(\).cpu\(\)"),
        (torch.ones(2, 2, dtype=torch.bfloat16), r"bfloat16 instead. Pass X.float\(\)"),
        ([torch.ones(2, dtype=torch.float8_e5m2)], r"float8_e5m2 instead. Pass torch.stack\(X\).float\(\)"),
        ([torch.ones(2, requires_grad=True)], r"requires_grad=True instead. Pass torch.stack\(X\).detach\(\).cpu\(\)"),
        (torch.eye(2).to_sparse(), r"layout torch.sparse_coo instead. Pass X.to_dense\(\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_kinds_are_refused(given, message, hasher):
    with pytest.raises(TypeError, match=rf"`X` must be an array.* for {type(hasher).__name__}. .*{message}"):
        hasher.fit(given, y)


@pytest.mark.parametrize("hasher", [SHALLOW, DEEP], ids=["shallow", "deep"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (X[0], r"got 1D array of 2 values instead. Reshape your data: X.reshape\(1, -1\)"),
        (np.array(1), r"got scalar instead. Reshape your data: X.reshape\(1, -1\)"),
        (torch.tensor(X[0]), r"1D array of 2 values instead. .*: X.reshape\(1, -1\)"),
        (X[0].tolist(), r"1D array of 2 values instead. .*: numpy.array\(X\).reshape\(1, -1\)"),
        (range(3), r"1D array of 3 values instead. .*: numpy.array\(X\).reshape\(1, -1\)"),
        (array("f", X[0]), r"1D array of 2 values instead. .*: numpy.array\(X\).reshape\(1, -1\)"),
        (pd.Series(X[0]), r"1D array of 2 values instead. .*: numpy.array\(X\).reshape\(1, -1\)"),
        (pd.Series(list(X)), r"got 1D array of arrays instead. Pass numpy.stack\(X.to_numpy\(\)\)"),
        (pd.DataFrame({"v": list(X)}), r"Got a ndarray in X\['v'\]. Pass numpy.stack\(X\['v'\]\)"),
        (pd.Series(list(X)).to_numpy(), r"got 1D array of arrays instead. Pass numpy.stack\(X\)"),
        (["a.png", "b.png"], "must be an array of numbers. Got text or paths instead. Read the files first"),
        ([b"ab", b"cd"], r'Got bytes instead. Pass numpy.frombuffer\(b"".join\(X\), numpy.uint8\)'),
        ([Path("a.png")], "must be an array of numbers. Got text or paths instead"),
        (np.array(["a.png", "b.png"]), "must be an array of numbers. Got text or paths instead"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_vectors_and_columns_are_refused_on_one_line(given, message, hasher):
    with pytest.raises(ValueError, match=f"^(Expected 2D array, |`X` ).*{message}.*$"):
        hasher.fit(given, y)


@pytest.mark.parametrize("kind", ["array", "chunked_array"])
def test_a_column_of_pyarrow_is_refused(kind):
    arrow = pytest.importorskip("pyarrow")
    column = getattr(arrow, kind)(X.tolist() if kind == "array" else [X.tolist()])
    with pytest.raises(ValueError, match=r"got 1D array of arrays instead. Pass numpy.stack\(X.to_numpy\(\)\).$"):
        SHALLOW.fit(column)


def test_a_dataset_of_numbers_is_refused():
    with pytest.raises(ValueError, match=r"must have samples that are arrays. Got a Dataset of numbers instead"):
        DEEP.fit(TensorDataset(torch.tensor(X[:, 0])), y)


SUPERVISED = [
    method.class_name
    for method in METHODS.values()
    if get_tags(getattr(skhash, method.class_name)()).target_tags.required
]
KINDS = {
    "loader": (lambda: DataLoader(TensorDataset(torch.tensor(X))), r"loader\.dataset"),
    "dict": (lambda: {"image": X}, r"X\['image'\]"),
    "iterator": (lambda: iter(X), r"numpy\.array\(list\(X\)\)"),
    "sparse": (lambda: sparse.csr_array(X), "TruncatedSVD"),
    "bfloat16": (lambda: torch.tensor(X).bfloat16(), r"X\.float\(\)"),
    "stream": (Stream, "(must have a length|Read it first)"),
    "path": (lambda: "images.npy", "Got 'images.npy' instead"),
    "paths": (lambda: ["a.png", "b.png"], "Got text or paths instead"),
    "vector": (lambda: X[0], r"X\.reshape\(1, -1\)"),
    "NaN": (lambda: np.full((4, 2), np.nan), "Input X contains NaN"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SUPERVISED)
def test_samples_are_checked_before_missing_targets(name, kind):
    make, message = KINDS[kind]
    hasher = getattr(skhash, name)(8)
    for method in ("fit", "partial_fit", "fit_transform"):
        if hasattr(hasher, method):
            with pytest.raises((TypeError, ValueError), match=message):
                getattr(hasher, method)(make())


def test_a_loader_is_refused():
    loader = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(y)))
    with pytest.raises(TypeError, match=r"Got a DataLoader instead. Pass its Dataset, loader.dataset"):
        DEEP.fit(loader, y)
    with pytest.raises(TypeError, match=r"Got a DataLoader instead. Read its Dataset first"):
        SHALLOW.fit(loader, y)


def test_a_dataset_is_for_deep_hashers():
    dataset = Dataset(X, y)
    assert_array_equal(DEEP.fit(dataset).transform(dataset), DEEP.transform(X))
    with pytest.raises(TypeError, match=r"Got a torch Dataset instead. Read it first") as error:
        SHALLOW.fit(dataset)
    scope = {"numpy": np, "dataset": dataset}
    exec(str(error.value).partition("Read it first, ")[2].partition(", or use")[0], scope)
    np.testing.assert_array_equal(scope["X"], X)


@pytest.mark.parametrize(("hasher", "shape"), [(SHALLOW, (3, 12)), (DEEP, (3, 1, 3, 4))], ids=["shallow", "deep"])
def test_images_of_pil_are_refused_with_a_line_to_paste(hasher, shape):
    Image = pytest.importorskip("PIL.Image")
    images = [Image.new("L", (4, 3)) for _ in range(3)]
    with pytest.raises(TypeError, match="Got images of PIL instead") as error:
        hasher.fit(images, y[:3])
    scope = {"numpy": np, "images": images}
    exec(str(error.value).partition("Convert them first: ")[2], scope)
    assert scope["X"].shape == shape


def test_arrays_of_images_are_for_deep_hashers():
    with pytest.raises(ValueError, match=r"Found array with dim 3, while dim <= 2 .*X.reshape\(len\(X\), -1\)"):
        SHALLOW.fit(X[:, :, None])
    assert DEEP.fit(X[:, :, None], y).input_shape_ == (2, 1)


def test_samples_of_several_lengths_are_refused():
    with pytest.raises(ValueError, match=r"samples of one length. Got samples of 1 and of 3 values instead"):
        SHALLOW.fit([[1, 2], [3, 4, 5], [6]])


@pytest.mark.parametrize("hasher", [SHALLOW, DEEP], ids=["shallow", "deep"])
def test_sparse_samples_get_a_line_to_paste(hasher):
    samples = sparse.random_array((40, 12), density=0.3, random_state=0, format="csr")
    with pytest.raises(TypeError, match=r"`X` must be dense for .*sparse csr_array .*TruncatedSVD") as error:
        hasher.fit(samples, np.arange(40) % 2)
    scope = {type(hasher).__name__: type(hasher)}
    exec(str(error.value).splitlines()[1], scope)
    assert scope["hasher"].fit(samples, np.arange(40) % 2).transform(samples).shape == (40, 2)
