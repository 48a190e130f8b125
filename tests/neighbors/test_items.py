"""A search while another thread changes the items of the index."""

import inspect
import sys
import threading

import numpy as np
import pandas as pd
import pytest

from skhash.neighbors import HammingNeighbors
from skhash.neighbors._stages import Stages

ITEMS = np.random.default_rng(0).integers(0, 2, (400, 24), dtype=np.uint8)
QUERIES = ITEMS[-5:]

SEARCHES = {
    "kneighbors": lambda index: index.kneighbors(QUERIES, 7),
    "graph": lambda index: [index.kneighbors_graph(QUERIES, 7).toarray()],
    "radius": lambda index: [np.concatenate(part) for part in index.radius_neighbors(QUERIES, 8)],
    "radius graph": lambda index: [index.radius_neighbors_graph(QUERIES, 8).toarray()],
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_has_the_items_of_its_start(name, monkeypatch):
    expected = SEARCHES[name](HammingNeighbors().fit(ITEMS))
    index = HammingNeighbors().fit(ITEMS)

    def between(method):
        def change_and_search(*args, **kwargs):
            index.remove(index.ids_[:2]).add(ITEMS[:1])
            return method(*args, **kwargs)

        return change_and_search

    for method in ("nearest", "within"):
        monkeypatch.setattr(Stages, method, between(getattr(Stages, method)))
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
    pytest.importorskip("faiss")
    from skhash.neighbors import _items as items_module

    index, n_built = HammingNeighbors(backend="faiss-ivf").fit(ITEMS).add(ITEMS[:3]), []
    build = items_module.build_approximate
    monkeypatch.setattr(items_module, "build_approximate", lambda *args: n_built.append(1) or build(*args))
    for _ in range(3):
        index.kneighbors(QUERIES, 2)
    assert len(n_built) == 1


def test_an_interrupted_fit_leaves_the_earlier_one_whole():
    code, n_lines = inspect.unwrap(HammingNeighbors.fit).__code__, 0
    names = "feature {}".format

    def interrupt(frame, event, _):
        nonlocal n_left
        if frame.f_code is not code:
            return None
        n_left -= event == "line"
        if n_left == 0:
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    while True:  # one line of fit after the other
        index = HammingNeighbors().fit(ITEMS)
        n_lines += 1
        n_left = n_lines
        sys.settrace(interrupt)
        try:
            index.fit(pd.DataFrame(ITEMS[:20, :8]).rename(columns=names), ids=range(100, 120))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if n_left > 0:
            break  # fit has no more lines
        if index.n_samples_fit_ == len(ITEMS):
            assert not hasattr(index, "feature_names_in_")
            assert index.kneighbors(QUERIES, 1)[1].ravel().tolist() == list(range(395, 400))
        else:
            assert (len(index.codes_), index.ids_[0], index.n_features_in_) == (20, 100, 8)
    assert n_lines > 10
