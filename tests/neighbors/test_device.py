"""Search on a device of torch: the same neighbors, distances, ties and errors as by compiled code."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from _devices import FAKE_GPU, SEARCH_DEVICES, fake_device, set_small_tiles
from numpy.testing import assert_array_equal
from sklearn.base import clone

from skhash import ITQHasher, StructHashHasher
from skhash.codes import torch_search
from skhash.neighbors import HammingNeighbors, HammingNeighborsTransformer
from skhash.persistence import load, save


@pytest.fixture(params=SEARCH_DEVICES)
def device(request):
    return request.param


@pytest.fixture(params=["usual tiles", "small tiles"])
def _tiles(request, monkeypatch):
    if request.param == "small tiles":
        set_small_tiles(monkeypatch)


def random_codes(rng, n, n_bytes):
    """Codes of which some are near each other, and some are equal."""
    codes = rng.integers(0, 256, (n, n_bytes), dtype=np.uint8)
    codes[::3] = codes[0] ^ rng.integers(0, 2, codes[::3].shape, dtype=np.uint8)
    return codes


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        for one, other in zip(a, b, strict=True) if a.dtype == object else [(a, b)]:
            assert_array_equal(one, other)


def on(index, device):
    """Copy of an index that searches on a device."""
    moved = pickle.loads(pickle.dumps(index))
    return moved.set_params(device=device)


@pytest.mark.usefixtures("_tiles")
@pytest.mark.parametrize(
    ("n_bytes", "k"),
    [(1, 7), (1, 150), (8, 1), (8, 150), (13, 7), (160, 1), (160, 150)]
    + [pytest.param(*pair, marks=pytest.mark.slow) for pair in [(1, 1), (8, 7), (13, 1), (13, 150), (160, 7)]],
)
def test_neighbors_are_those_of_the_cpu(device, n_bytes, k):
    rng = np.random.default_rng(k)
    codes, queries = (random_codes(rng, n, n_bytes) for n in (150, 11))
    index = HammingNeighbors(nbits=8 * n_bytes).fit(codes)
    there = on(index, device)
    assert_same(there.kneighbors(queries, k, return_ties=True), index.kneighbors(queries, k, return_ties=True))
    if k < len(codes):
        assert_same(there.kneighbors(None, k, return_ties=True), index.kneighbors(None, k, return_ties=True))
    assert_same(there.radius_neighbors(queries, 4 * n_bytes), index.radius_neighbors(queries, 4 * n_bytes))
    assert_same(there.radius_neighbors(queries, 1e9), index.radius_neighbors(queries, 1e9))


@pytest.mark.usefixtures("_tiles")
def test_random_histories(device):
    rng = np.random.default_rng(0)
    for _ in range(20):
        n_bytes = int(rng.integers(1, 10))
        index = HammingNeighbors(nbits=8 * n_bytes).fit(random_codes(rng, int(rng.integers(60, 200)), n_bytes))
        there = on(index, device)
        queries = random_codes(rng, 5, n_bytes)
        for _ in range(4):
            more = random_codes(rng, int(rng.integers(1, 70)), n_bytes)
            gone = rng.choice(index.ids_, int(rng.integers(1, 20)), replace=False)
            for changed in index, there:
                changed.add(more).remove(gone)
            k = int(rng.integers(1, index.n_samples_fit_ + 1))
            assert_same(there.kneighbors(queries, k, return_ties=True), index.kneighbors(queries, k, return_ties=True))
            radius = float(rng.uniform(0, 8 * n_bytes))
            assert_same(there.radius_neighbors(queries, radius), index.radius_neighbors(queries, radius))


def test_equal_codes_keep_their_order(device):
    codes = np.zeros((1000, 4), np.uint8)
    distances, ids, n_ties = (
        HammingNeighbors(nbits=32, device=device).fit(codes).kneighbors(codes[:2], 5, return_ties=True)
    )
    assert_array_equal(distances, np.zeros((2, 5)))
    assert_array_equal(ids, [range(5)] * 2)
    assert_array_equal(n_ties, [1000, 1000])


def test_later_stages_and_the_transformer(digits, device):
    for options in (
        {"query": "real", "candidates": 30},
        {"rerank": "cosine", "candidates": 30},
        {"rerank": "euclidean"},
    ):
        index = HammingNeighbors(ITQHasher(16, random_state=0), **options).fit(digits.X)
        assert_same(on(index, device).kneighbors(digits.X_query), index.kneighbors(digits.X_query))
    graph = HammingNeighborsTransformer(ITQHasher(16, random_state=0), device=device).fit_transform(digits.X)
    assert (graph != HammingNeighborsTransformer(ITQHasher(16, random_state=0)).fit_transform(digits.X)).nnz == 0


def test_what_the_caller_has_set_in_torch_changes_nothing(device):
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 500, 100)
    index = HammingNeighbors(nbits=800).fit(codes)
    there = on(index, device)
    with torch.autocast(torch.device(device).type, torch.bfloat16), torch.inference_mode(), torch.device("meta"):
        found = there.kneighbors(codes[:20], 50, return_ties=True)
    assert_same(found, index.kneighbors(codes[:20], 50, return_ties=True))


@pytest.mark.parametrize("k", [10, 1000])
def test_a_gpu_multiplies_half_precision_and_tells_one_number_per_tile(k):
    with fake_device(FAKE_GPU) as recorder:
        tiles = torch_search.Tiles(torch.empty((600_000, 8), dtype=torch.uint8, device=FAKE_GPU))
        keys, n_ties = tiles.nearest(np.zeros((1000, 8), np.uint8), k)
    assert (keys.shape, n_ties.shape, str(keys.device)) == ((1000, k), (1000,), FAKE_GPU)
    assert tiles._dtype == torch.float16
    # three tiles of 2**28 products, and the number of groups that can have ties
    assert (recorder.to_cpu(), recorder.operations["mm"]) == ([()] * 3, 3)


def test_half_precision_is_exact():
    rng = np.random.default_rng(0)
    for n_bytes in (1, 8, 128):
        codes = random_codes(rng, 700, n_bytes)
        codes[1] = ~codes[0]
        tiles = torch_search.Tiles(torch.tensor(codes))
        tiles._dtype = torch.float16
        distances = np.bitwise_count(codes[:20, None] ^ codes).sum(axis=2, dtype=np.int64)
        keys = np.sort(distances * len(codes) + np.arange(len(codes)), axis=1)
        for k in (1, 3, 700):
            found, n_ties = (values.numpy() for values in tiles.nearest(codes[:20], k))
            assert_array_equal(found, keys[:, :k])
            assert_array_equal(n_ties, (distances == found[:, -1:] // len(codes)).sum(axis=1))


def test_the_device_keeps_the_codes_until_they_change(device, monkeypatch):
    made, make = [], torch_search.DeviceCodes.__init__
    monkeypatch.setattr(
        torch_search.DeviceCodes, "__init__", lambda self, *args: (made.append(args), make(self, *args))[1]
    )
    index = HammingNeighbors(nbits=8, device=device).fit(np.arange(20, dtype=np.uint8)[:, None])
    query = np.array([[3]], np.uint8)
    for _ in range(3):
        index.kneighbors(query)
    assert len(made) == 1
    assert_array_equal(index.remove([3]).kneighbors(query, 2)[1], [[1, 2]])
    assert len(made) == 2
    index.set_params(device=None).kneighbors(query)
    assert len(made) == 2


def test_auto_without_a_gpu_is_the_compiled_search(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch_search, "DeviceCodes", None)
    index = HammingNeighbors(device="auto").fit([[0, 0, 1], [1, 1, 1]])
    assert_array_equal(index.kneighbors([[0, 1, 1]], 1)[1], [[0]])


def test_an_index_of_a_device_is_saved_and_pickled_without_its_copy(device, tmp_path):
    codes = random_codes(np.random.default_rng(0), 100, 4)
    index = HammingNeighbors(nbits=32, device=torch.device(device)).fit(codes)
    expected = index.kneighbors(codes[:5])
    save(index, tmp_path / "index")
    loaded = load(tmp_path / "index")
    assert loaded.device == device
    assert_same(loaded.kneighbors(codes[:5]), expected)
    pickled = pickle.loads(pickle.dumps(index))
    assert "_code_search" not in vars(pickled)
    assert_same(pickled.kneighbors(codes[:5]), expected)


def test_an_index_of_a_missing_device_loads(tmp_path):
    codes = random_codes(np.random.default_rng(0), 100, 4)
    index = HammingNeighbors(nbits=32).fit(codes)
    expected = index.kneighbors(codes[:5])
    save(index.set_params(device="cuda:99"), tmp_path / "index")
    loaded = load(tmp_path / "index")
    assert loaded.device == "auto"  # as that of a hasher
    assert_same(loaded.kneighbors(codes[:5]), expected)
    with pytest.raises(ValueError, match=r"`device` must be available, one of .* Got 'cuda:99' instead\."):
        pickle.loads(pickle.dumps(index)).kneighbors(codes[:5])


@pytest.mark.parametrize("wrong", ["cuda:99", "gpu", 3, "meta"])
def test_a_device_that_is_not_there(wrong):
    index = HammingNeighbors().fit([[0, 1], [1, 1]])
    with pytest.raises(ValueError, match=r"`device` must be available, one of \['auto', 'cpu'.*\]\. Got '.*' instead"):
        clone(index).set_params(device=wrong).fit([[0, 1], [1, 1]])
    with pytest.raises(ValueError, match="`device` must be available"):
        on(index, wrong).kneighbors([[0, 1]], 1)
    assert_array_equal(index.kneighbors([[0, 1]], 1)[1], [[0]])


def test_a_device_compares_codes(digits):
    hasher = ITQHasher(16, random_state=0).fit(digits.X)
    with pytest.raises(ValueError, match=r"`device` must be None with backend='faiss-ivf'\. Got 'cpu' instead\."):
        HammingNeighbors(device="cpu", backend="faiss-ivf").fit(hasher.transform(digits.X))
    index = HammingNeighbors(hasher, query="real")
    message = r"`device` must be None where real queries are compared with all items.* Got 'cpu' with candidates=None"
    with pytest.raises(ValueError, match=message):
        clone(index).set_params(device="cpu").fit(digits.X)
    with pytest.raises(ValueError, match=message):
        index.fit(digits.X).set_params(device="cpu").kneighbors(digits.X_query)
    weighted = StructHashHasher(8, random_state=0)
    with pytest.raises(ValueError, match=r"`device` must be None for weighted bits.* Got 'cpu' instead\."):
        HammingNeighbors(weighted, device="cpu").fit(digits.X[:100], digits.y[:100])


class OnGPU(torch.Tensor):
    """Tensor that says it is on a GPU, which numpy cannot read."""

    device = torch.device("cuda", 0)

    def __array__(self, *args, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy.")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def tensors(device):
    """Function that makes a tensor of an array on the device, or one that looks like it."""
    if device == "cuda":
        return lambda array: torch.tensor(array, device="cuda")
    return lambda array: torch.tensor(array).as_subclass(OnGPU)


@pytest.mark.parametrize("nbits", [None, 16])
def test_codes_are_tensors_of_a_gpu(device, nbits):
    codes = random_codes(np.random.default_rng(0), 100, 2)
    codes = np.unpackbits(codes, axis=1) if nbits is None else codes
    on_gpu = tensors(device)
    expected = HammingNeighbors(nbits=nbits).fit(codes[:90]).add(codes[90:]).kneighbors(codes, return_ties=True)
    index = HammingNeighbors(nbits=nbits, device=device).fit(on_gpu(codes[:90])).add(on_gpu(codes[90:]))
    assert_same(index.kneighbors(on_gpu(codes), return_ties=True), expected)


def test_torch_is_imported_for_a_device_alone():
    lines = [
        "import sys; from skhash.neighbors import HammingNeighbors; from skhash.metrics import relevance_histogram",
        "HammingNeighbors().fit([[0, 1], [1, 1]]).kneighbors([[0, 1]], 1)",
        "relevance_histogram([[0, 1]], [[0, 1]], [1], [1])",
        "assert 'torch' not in sys.modules",
        "HammingNeighbors(device='cpu').fit([[0, 1], [1, 1]]).kneighbors([[0, 1]], 1)",
        "assert 'torch' in sys.modules and 'skhash.engine' not in sys.modules",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)
