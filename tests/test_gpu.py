"""What only a GPU can show: every hasher of torch trains there, and its codes are those of the CPU.

Without one these tests are skipped; ``pytest -m gpu`` runs them alone.
"""

import numpy as np
import pytest
import torch
from _helpers import StopAfter
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import skhash
from skhash.engine.runtime import seeded
from skhash.hashers.deep import DeepHasher
from skhash.metrics import RelevanceHistogram, average_precision, ndcg, precision_recall_curve

DEVICE = "cuda"
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

DEEP = [name for name in skhash.hashers.__all__ if issubclass(getattr(skhash, name), DeepHasher)]
CASES = [(name, {"backbone": backbone}) for name in DEEP for backbone in (None, "mlp")]
CASES += [("EmbeddingHasher", options) for options in ({}, {"factors": True}, {"metric": "inner"})]


def make(name, **options):
    return getattr(skhash, name)(16, n_epochs=2, device=DEVICE, random_state=0, **options)


def share_of_equal_bits(hasher, X):
    on_gpu, on_cpu = (clone_on(hasher, device).transform(X) for device in (DEVICE, "cpu"))
    return np.mean(on_gpu == on_cpu)


def clone_on(hasher, device):
    moved = clone(hasher).set_params(device=device)
    moved.__dict__.update({key: value for key, value in vars(hasher).items() if key != "device"})
    return moved


@pytest.mark.parametrize(("name", "options"), CASES)
def test_codes_are_those_of_the_cpu(digits, name, options):
    hasher = make(name, **options).fit(digits.X, digits.y)
    assert share_of_equal_bits(hasher, digits.X_query) > 0.999
    assert hasher.score(digits.X_query, digits.y_query) > 0.15


@pytest.mark.parametrize(("name", "options"), CASES)
def test_deterministic_codes(digits, name, options):
    fits = [make(name, **options, deterministic=True).fit(digits.X, digits.y) for _ in "12"]
    assert_array_equal(*(hasher.database_.codes.rows for hasher in fits))


@pytest.mark.parametrize("mixed_precision", [False, True])
def test_images(mixed_precision):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = rng.integers(0, 100, (300, 3, 16, 16), dtype=np.uint8)
    X[y == 0, ..., :8] += 120
    hasher = skhash.TALRHasher(
        16, backbone="conv", augment="auto", n_epochs=30, mixed_precision=mixed_precision, device=DEVICE, random_state=0
    ).fit(X[:200], y[:200])
    assert hasher.score(X[200:], y[200:]) > 0.9
    assert share_of_equal_bits(hasher, X[200:]) > 0.995


def test_a_checkpoint_of_a_gpu_goes_on_without_one(digits, tmp_path):
    hasher = make("TALRHasher", checkpoint=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        clone(hasher).set_callbacks(StopAfter(1)).fit(digits.X, digits.y)
    resumed = clone(hasher).set_params(device="cpu").fit(digits.X, digits.y, resume=True)
    assert [entry["epoch"] for entry in resumed.history_] == [1, 2]
    assert resumed.score(digits.X_query, digits.y_query) > 0.3


def test_a_stream(digits):
    hasher = make("HashNetHasher")
    for part in np.split(np.arange(500), 5):
        hasher.partial_fit(digits.X[part], digits.y[part])
    assert len(hasher.history_) == 5
    assert share_of_equal_bits(hasher, digits.X_query) > 0.999


def test_counts_of_the_device_give_the_metrics_of_the_cpu():
    counts = np.random.default_rng(0).uniform(0, 2, (5, 17, 3))
    levels = np.array([0, 1, 2])
    here, there = (RelevanceHistogram(c, levels) for c in (counts, torch.tensor(counts, device=DEVICE)))
    for metric in (average_precision, ndcg):
        for options in ({}, {"k": 7}, {"ties": "worst"}):
            assert_allclose(float(metric(there, **options)), metric(here, **options), rtol=1e-10)
    for values, same in zip(precision_recall_curve(there), precision_recall_curve(here), strict=True):
        assert_allclose(values, same, rtol=1e-10)


def test_the_generator_of_the_device_is_left_alone_as_well():
    device = torch.device(DEVICE)
    before = torch.cuda.get_rng_state(device)
    draws = []
    for _ in range(2):
        with seeded(0, device):
            draws.append(torch.rand(3, device=device).tolist())
    assert draws[0] == draws[1]
    assert torch.equal(torch.cuda.get_rng_state(device), before)
