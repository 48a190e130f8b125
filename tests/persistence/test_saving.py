"""Saving: what is refused, and the file itself."""

import collections
import os
import types
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from torch import nn

from skhash import ITQHasher, LSHHasher, PCAHasher, TALRHasher
from skhash.affinity import PrecomputedAffinity
from skhash.neighbors import HammingNeighbors
from skhash.persistence import _checking, load, save


def test_a_matrix_that_is_used_twice_is_stored_once(digits, tmp_path):
    affinity = PrecomputedAffinity(np.eye(200))
    save(PCAHasher(nbits=8, affinity=affinity).fit(digits.X[:200], np.arange(200)), tmp_path / "hasher")
    assert (tmp_path / "hasher").stat().st_size < 1.5 * affinity.matrix.nbytes


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        object(),
        b"bytes",
        len,
        collections.namedtuple("Point", "x y")(1, 2),
        collections.OrderedDict(),
        np.array([object()]),
        np.ma.array([1, 2]),
        np.array([(1, 2.0)], dtype=[("x", "i4"), ("y", "f8")]),
        np.random.default_rng(0),
        np.random.RandomState(np.random.PCG64(0)),
        sparse.coo_array(np.eye(2)),
        torch.zeros(2),
        nn.Linear(2, 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_data_is_refused_and_its_place_named(value, digits, tmp_path, extra):
    hasher = LSHHasher(nbits=4).fit(digits.X)
    hasher.extra_ = {"a": [0, value]}
    with pytest.raises(TypeError, match=r"extra_\.a\.1.* is a"):
        save(hasher, tmp_path / "hasher")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_pipeline(MinMaxScaler(), LSHHasher()),
        lambda: make_pipeline(StandardScaler(), PCA(), LSHHasher()),
        StandardScaler,
        lambda: LSHHasher,
    ],
    ids=["pipeline", "longer pipeline", "scaler", "class"],
)
def test_other_estimators_are_refused(make, tmp_path):
    with pytest.raises(TypeError, match=r"must be a hasher that derives from .* Got a .*use skops or joblib"):
        save(make(), tmp_path / "hasher")


@pytest.mark.parametrize("options", [{}, {"with_mean": False}, {"with_std": False}], ids=str)
@pytest.mark.parametrize("hasher", [LSHHasher(9, random_state=0), TALRHasher(9, n_epochs=1, random_state=0)], ids=repr)
def test_a_scaler_in_front_of_a_hasher_is_saved(options, hasher, digits, tmp_path):
    frame = pd.DataFrame(digits.X, columns=[f"pixel {i}" for i in range(64)])
    pipeline = Pipeline([("scale", StandardScaler(**options)), ("hash", clone(hasher))]).set_output(transform="pandas")
    pipeline.fit(frame, digits.y)
    save(pipeline, tmp_path / "model")
    again = load(tmp_path / "model")
    assert list(again.named_steps) == ["scale", "hash"]
    assert again.named_steps["scale"].get_params() == pipeline.named_steps["scale"].get_params()
    pd.testing.assert_frame_equal(again.transform(frame), pipeline.transform(frame))
    assert again.score(frame, digits.y) == pipeline.score(frame, digits.y)
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame.rename(columns={"pixel 0": "other"}))
    again.named_steps["scale"].partial_fit(frame)


def test_an_unfitted_scaler_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        save(make_pipeline(StandardScaler(), LSHHasher()), tmp_path / "model")


def test_a_frozen_hasher_has_one_that_can_be_saved(digits, tmp_path):
    index = HammingNeighbors(FrozenEstimator(LSHHasher(8).fit(digits.X))).fit(digits.X)
    with pytest.raises(TypeError, match=r"FrozenEstimator instead; save its `estimator`\.$"):
        save(index.hasher_, tmp_path / "hasher")
    save(index.hasher_.estimator, tmp_path / "hasher")


def test_an_unfitted_hasher_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        save(LSHHasher(), tmp_path / "hasher")


def test_the_write_is_atomic(digits, tmp_path, monkeypatch):
    path = tmp_path / "hasher.safetensors"
    hasher = LSHHasher(nbits=4, random_state=0).fit(digits.X)
    save(hasher, str(path))
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask  # another user may read it

    def full(file):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        save(LSHHasher(nbits=8).fit(digits.X), path)
    assert list(tmp_path.iterdir()) == [path]
    assert_array_equal(load(path).encode(digits.X), hasher.encode(digits.X))


def test_equal_hashers_give_equal_files(digits, tmp_path):
    for name in "ab":
        save(ITQHasher(nbits=4, random_state=0).fit(digits.X, digits.y), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_arrays_are_annotated_in_the_ways_of_old_and_new_numpy(monkeypatch):
    """Since numpy 2.5 the origin of ``NDArray[Any]`` is NDArray, not ndarray."""
    alias = object()
    monkeypatch.setattr(_checking.npt, "NDArray", alias)
    for hint in (types.GenericAlias(alias, (Any,)), types.GenericAlias(np.ndarray, (Any,))):
        _checking.check_value("a", {"b": np.zeros((2, 3))}, dict[str, hint], {})
        with pytest.raises(ValueError, match=r"`a\.b` must"):
            _checking.check_value("a", {"b": [1, 2]}, dict[str, hint], {})
