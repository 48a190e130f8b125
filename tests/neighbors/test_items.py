"""Items that are added and removed: the cost, the results, and a search in another thread at the same time."""

import copy
import pickle
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator

from skhash import LSHHasher, neighbors
from skhash.neighbors import HammingNeighbors

ITEMS = np.random.default_rng(0).integers(0, 2, (400, 24), dtype=np.uint8)
QUERIES = ITEMS[-5:]
VECTORS = np.random.default_rng(1).integers(-9, 9, (600, 12)) / 7.0
LSH = FrozenEstimator(LSHHasher(8, random_state=0).fit(VECTORS))

SEARCHES = {
    "kneighbors": lambda index: index.kneighbors(QUERIES, 7),
    "graph": lambda index: [index.kneighbors_graph(QUERIES, 7).toarray()],
    "radius": lambda index: [np.concatenate(part) for part in index.radius_neighbors(QUERIES, 8)],
    "radius graph": lambda index: [index.radius_neighbors_graph(QUERIES, 8).toarray()],
}


class Changing(TransformerMixin, BaseEstimator):
    """A hasher that calls a function in the middle of a search, when it encodes the queries."""

    meanwhile = None

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        call, type(self).meanwhile = type(self).meanwhile, None
        if call is not None:
            call()
        return (X > 0).astype(np.uint8)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_has_the_items_of_its_start(name):
    index = HammingNeighbors(Changing()).fit(ITEMS)
    expected = SEARCHES[name](index)
    Changing.meanwhile = lambda: index.remove(index.ids_[:2]).add(ITEMS[:1])
    for found, right in zip(SEARCHES[name](index), expected, strict=True):
        np.testing.assert_array_equal(found, right)
    assert index.n_samples_fit_ == len(ITEMS) - 1  # but the change is there


def test_searches_while_a_thread_adds_and_removes():
    index, is_done = HammingNeighbors().fit(ITEMS, ids=np.arange(400)), threading.Event()

    def change():
        for round_ in range(1, 101):  # the item of an identifier is known from its remainder
            index.remove(index.ids_[:50])
            index.add(ITEMS[:50], ids=400 * round_ + np.arange(50))
            index.remove(index.ids_[-50:])
            index.add(ITEMS[:50], ids=400 * (round_ + 1000) + np.arange(50))
        is_done.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not is_done.is_set():
        distances, ids = index.kneighbors(QUERIES, 10)
        np.testing.assert_array_equal((QUERIES[:, None] != ITEMS[ids % 400]).sum(axis=2), distances)
    thread.join()


def test_an_approximate_index_is_built_once_for_new_items(monkeypatch):
    faiss = pytest.importorskip("faiss")
    index, n_built = HammingNeighbors(backend="faiss-ivf").fit(ITEMS).add(ITEMS[:3]), []
    build = faiss.IndexBinaryIVF
    monkeypatch.setattr(faiss, "IndexBinaryIVF", lambda *args: n_built.append(1) or build(*args))
    for _ in range(3):
        index.kneighbors(QUERIES, 2)
    assert len(n_built) == 1


def interrupted_indexes(make, change):
    """New indexes, of which each has been interrupted at another line of the package during a change."""
    folder, n_lines, n_left = Path(neighbors.__file__).parent, 0, 0

    def interrupt(frame, event, _):
        nonlocal n_left
        if folder not in Path(frame.f_code.co_filename).parents:
            return None
        n_left -= event == "line"
        if n_left == 0:
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    while n_left <= 0:
        index = make()
        n_lines += 1
        n_left = n_lines
        sys.settrace(interrupt)
        try:
            change(index)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        yield index
    assert n_lines > 10


def test_an_interrupted_fit_leaves_the_earlier_one_whole():
    X = pd.DataFrame(ITEMS[:20, :8]).rename(columns="feature {}".format)
    indexes = interrupted_indexes(
        lambda: HammingNeighbors().fit(ITEMS), lambda index: index.fit(X, ids=range(100, 120))
    )
    for index in indexes:
        if index.n_samples_fit_ == len(ITEMS):
            assert not hasattr(index, "feature_names_in_")
            assert index.kneighbors(QUERIES, 1)[1].ravel().tolist() == list(range(395, 400))
        else:
            assert (len(index.codes_), index.ids_[0], index.n_features_in_) == (20, 100, 8)


def peak_memory(function):
    """Bytes that a call takes at most, and those that are left."""
    tracemalloc.start()
    function()
    left, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak, left


def test_no_change_copies_all_vectors():
    X = np.random.default_rng(0).standard_normal((5000, 384), dtype=np.float32)
    index = HammingNeighbors(LSHHasher(8, random_state=0), rerank="cosine").fit(X)
    index.add(X[:1]).remove([0])  # imports
    for round_ in range(1, 100):
        for change in (lambda: index.add(X[:1]), lambda removed=round_: index.remove([removed])):
            assert peak_memory(change)[0] < 0.1 * X.nbytes
    assert index.n_samples_fit_ == len(index.vectors_) == 5000


def test_vectors_of_removed_items_are_freed():
    n, index = 2000, HammingNeighbors(LSHHasher(8, random_state=0), rerank="cosine")
    X = np.random.default_rng(0).standard_normal((n, 100), dtype=np.float32)

    def roll():
        index.fit(X)
        for _ in range(60):
            index.add(X[:100]).remove(index.ids_[:100])

    assert peak_memory(roll)[1] < 4 * X.nbytes
    assert peak_memory(lambda: index.remove(index.ids_[:-10]))[1] < 0.1 * X.nbytes


@pytest.mark.parametrize("kind", ["float64", "float32", "int16", "big-endian", "columns", "memmap"])
def test_a_changed_index_is_that_of_its_items(kind, tmp_path):
    dtype = {"int16": np.int16, "float32": np.float32, "big-endian": ">f4"}.get(kind, np.float64)
    whole = 7 if kind == "int16" else 1  # all values are sevenths
    vectors = (whole * VECTORS).astype(dtype, order="F" if kind == "columns" else "C")
    np.save(tmp_path / "vectors.npy", vectors[:60])
    given = np.load(tmp_path / "vectors.npy", mmap_mode="r") if kind == "memmap" else vectors[:60]
    index, rows, rng = (
        HammingNeighbors(LSH, rerank="euclidean", candidates=20, n_neighbors=6),
        np.arange(60),
        np.random.default_rng(0),
    )
    index.fit(VECTORS[:60], vectors=given)
    expected = index.vectors_
    assert expected is given
    forms = (lambda index: index, copy.copy, copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index)))
    for step in range(24):
        more = np.arange(60 + 20 * step, 60 + 20 * step + rng.integers(1, 20))
        part = vectors if step != 5 else VECTORS  # of another dtype
        other = forms[step % 4](index)
        other.add(VECTORS[more], vectors=part[more])
        index.add(VECTORS[:3], vectors=part[:3])  # into the same free rows, if there were such
        index.remove(index.ids_[-3:])
        index, rows, expected = other, np.concatenate([rows, more]), np.concatenate([expected, part[more]])
        is_kept = rng.random(len(rows)) > (0.7 if step == 12 else 0.15)
        index.remove(index.ids_[~is_kept])
        rows, expected = rows[is_kept], expected[is_kept]
        fresh = HammingNeighbors(LSH, rerank="euclidean", candidates=20, n_neighbors=6)
        fresh.fit(VECTORS[rows], vectors=expected, ids=index.ids_)
        for queries in (VECTORS[:9], None):
            for found, right in zip(index.kneighbors(queries), fresh.kneighbors(queries), strict=True):
                np.testing.assert_array_equal(found, right)
        if step % 3 == 2:
            np.testing.assert_array_equal(index.vectors_, expected, strict=True)
            assert index.vectors_ is index.vectors_
        index.set_params(rerank=("cosine", "inner", "euclidean")[step % 3])
        fresh.set_params(rerank=index.rerank)
        np.testing.assert_array_equal(index.kneighbors(VECTORS[:9])[1], fresh.kneighbors(VECTORS[:9])[1])
        index.set_params(rerank="euclidean")


def test_a_search_has_the_vectors_of_its_start():
    index = HammingNeighbors(Changing(), rerank="cosine", candidates=50).fit(VECTORS[:300])
    index.add(VECTORS[300:310]).remove([7])
    expected = index.kneighbors(VECTORS[:9])
    Changing.meanwhile = lambda: index.add(VECTORS[400:]).remove(index.ids_[:250]).add(VECTORS[:9])
    for found, right in zip(index.kneighbors(VECTORS[:9]), expected, strict=True):
        np.testing.assert_array_equal(found, right)
    assert len(index.vectors_) == 309 + 200 - 250 + 9


@pytest.mark.parametrize("n_removed", [0, 3, 40])
def test_an_interrupted_change_leaves_an_index_whole(n_removed):
    def make():
        index = HammingNeighbors(LSH, rerank="cosine", candidates=30, n_neighbors=5).fit(VECTORS[:60])
        return index.add(VECTORS[60:63]).remove([61])

    def change(index):
        index.remove(range(n_removed)) if n_removed else index.add(VECTORS[63:64])

    for index in interrupted_indexes(make, change):
        index.add(VECTORS[70:72], ids=[70, 71])
        fresh = HammingNeighbors(LSH, rerank="cosine", candidates=30, n_neighbors=5)
        fresh.fit(VECTORS[index.ids_], ids=index.ids_)
        for found, right in zip(index.kneighbors(VECTORS[:9]), fresh.kneighbors(VECTORS[:9]), strict=True):
            np.testing.assert_array_equal(found, right)
