"""Histograms that a device of torch counts are those of compiled code."""

import numpy as np
import pytest
import torch
from _devices import SEARCH_DEVICES, set_small_tiles
from numpy.testing import assert_array_equal

from skhash.affinity import Relevance
from skhash.codes import torch_search
from skhash.metrics import Ranking, relevance_histogram


@pytest.fixture(params=SEARCH_DEVICES)
def device(request):
    return request.param


@pytest.fixture(params=["usual tiles", "small tiles"])
def _tiles(request, monkeypatch):
    if request.param == "small tiles":
        set_small_tiles(monkeypatch)


def assert_same(found, expected):
    assert not found.is_ragged
    assert found.counts.dtype == expected.counts.dtype
    assert_array_equal(found.counts, expected.counts)
    assert_array_equal(found.levels, expected.levels)


@pytest.mark.usefixtures("_tiles")
@pytest.mark.parametrize("nbits", [1, 64, 100, 1300])
@pytest.mark.parametrize("n_classes", [2, 200])
def test_counts_are_those_of_the_cpu(device, nbits, n_classes):
    rng = np.random.default_rng(nbits)
    queries, items = (rng.integers(0, 2, (n, nbits)) for n in (9, 150))
    query_y, item_y = (rng.integers(0, n_classes, n) for n in (9, 150))
    given = queries, items, query_y, item_y
    assert_same(relevance_histogram(*given, device=device), relevance_histogram(*given))
    itself = items, items, item_y
    expected = relevance_histogram(*itself, exclude_self=True)
    assert_same(relevance_histogram(*itself, exclude_self=True, device=device), expected)


@pytest.mark.usefixtures("_tiles")
def test_levels_of_shared_labels(device):
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 256, (80, 3), dtype=np.uint8), rng.integers(0, 2, (80, 5))
    given = codes[:10], codes, labels[:10], labels, "auto"
    expected = relevance_histogram(*given, nbits=24)
    assert len(expected.levels) > 2
    assert_same(relevance_histogram(*given, nbits=24, device=torch.device(device)), expected)


@pytest.mark.parametrize(("n_classes", "n_bytes"), [(2, 3), (100, 40)])  # cells that float16 tells apart, and does not
def test_counts_in_half_precision_are_exact(n_classes, n_bytes, monkeypatch):
    make = torch_search.Tiles.__init__

    def make_half(self, rows):
        make(self, rows)
        self._dtype = torch.float16

    monkeypatch.setattr(torch_search.Tiles, "__init__", make_half)
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 256, (80, n_bytes), dtype=np.uint8), rng.integers(0, 2, (80, n_classes))
    given = codes[:10], codes, labels[:10], labels, "auto"
    expected = relevance_histogram(*given, nbits=8 * n_bytes)
    assert (expected.counts[0].size > torch_search.MAX_HALF_CELLS) == (n_bytes == 40)
    assert_same(relevance_histogram(*given, nbits=8 * n_bytes, device="cpu"), expected)


def test_auto_without_a_gpu_is_compiled_code(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch_search, "Tiles", None)
    assert relevance_histogram([[0, 1]], [[1, 1]], [1], [1], device="auto").counts[0, 1, 1] == 1


def test_errors():
    given = [[0, 1]], [[0, 1], [1, 1]], [1], [1, 0]
    with pytest.raises(ValueError, match=r"`device` must be available, one of .* Got 'cuda:99' instead\."):
        relevance_histogram(*given, device="cuda:99")
    with pytest.raises(ValueError, match=r"`device` must be None with `bit_weights`.* Got 'cpu' instead\."):
        relevance_histogram(*given, device="cpu", bit_weights=[1, 2])
    real = Ranking(*given[:2], Relevance.between(*given[2:]), query_activations=np.ones((1, 2)), device="cpu")
    with pytest.raises(ValueError, match=r"`device` must be None with `query_activations`.* Got 'cpu' instead\."):
        next(real.histograms())
    with pytest.raises(ValueError, match="same number of bits"):
        relevance_histogram([[0, 1, 1]], *given[1:], device="cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("device", [None, "cuda"])
def test_codes_are_tensors_of_a_gpu(device):
    rng = np.random.default_rng(0)
    codes, y = rng.integers(0, 256, (80, 3), dtype=np.uint8), rng.integers(0, 4, 80)
    tensor = torch.tensor(codes, device="cuda")
    expected = relevance_histogram(codes[:10], codes, y[:10], y, nbits=24)
    assert_same(relevance_histogram(tensor[:10], tensor, y[:10], y, nbits=24, device=device), expected)
