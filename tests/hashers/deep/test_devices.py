"""What a GPU would do, checked without one: every objective runs there, and copies back nothing but numbers."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from _devices import FAKE_GPU, META, fake_device, run_step
from _helpers import digit_images, quick, trainer_of
from numpy.testing import assert_allclose
from scipy.special import expi
from torch import nn

import skhash
from skhash.affinity import DistanceAffinity
from skhash.hashers.deep import DeepHasher
from skhash.hashers.deep.talr import log_integral, log_integral_series
from skhash.metrics.soft_histogram import soft_histogram

N = 32

DEEP = [name for name in skhash.hashers.__all__ if issubclass(getattr(skhash, name), DeepHasher)]
# How many numbers of the device a step waits for, of the methods that wait for any. They tell whether an activation is
# NaN, how many items a tie, or pairs a batch has, and whether the codes of an encoder reconstruct.
N_NUMBERS = {"DTSHHasher": 1, "MIHashHasher": 1, "NSHHasher": 2, "TALRHasher": 2}
# hasher, options and this number: every deep hasher with its defaults, and what else its objective computes
CASES = [
    *((name, {}, N_NUMBERS.get(name, 0)) for name in DEEP),
    ("EmbeddingHasher", {}, 2),
    ("HashNetHasher", {"backbone": "mlp"}, 0),
    ("HashNetHasher", {"similarity": "continuous", "class_ratio": 2.0}, 0),
    ("MIHashHasher", {"optimizer": "sgd"}, 1),
    ("NSHHasher", {"variant": "decoding"}, 1),
    ("NSHHasher", {"variant": "hard_sort"}, 1),
    ("NSHHasher", {"variant": "no_softsort"}, 1),
    ("TALRHasher", {"objective": "ap", "k": 5, "n_bins": 4}, 2),
    ("TALRHasher", {"objective": "ap", "relaxation": "paper"}, 1),
    ("TALRHasher", {"objective": "ap", "relaxation": "simplified"}, 1),
    ("TALRHasher", {"objective": "fast_ap", "smoothing": 0.4}, 1),
    ("TALRHasher", {"objective": "ndcg"}, 3),
    ("TALRHasher", {"objective": "ndcg", "affinity": DistanceAffinity()}, 3),
    ("TALRHasher", {"objective": "ndcg", "relaxation": "paper"}, 3),
    ("TALRHasher", {"objective": "ndcg", "relaxation": "simplified"}, 2),
]


@pytest.fixture(autouse=True)
def only_what_a_gpu_has(monkeypatch):
    """Let "meta" do without the mixed precision that it lacks. The compiled loss of CPUs cannot read its tensors."""
    autocast = torch.autocast
    monkeypatch.setattr(
        torch,
        "autocast",
        lambda kind, *others, **set_: autocast(kind, *others, **set_) if kind != META else nullcontext(),
    )


@pytest.mark.parametrize(("name", "options", "n_numbers"), CASES)
def test_a_step_copies_numbers_back_and_nothing_else(digits, name, options, n_numbers):
    y = digits.X[:60] if "affinity" in options else digits.y[:60]
    trainer = trainer_of(quick(name, **options), digits.X[:60], y)
    on_meta, on_gpu = (run_step(trainer, device, N) for device in (META, FAKE_GPU))
    for recorder in (on_meta, on_gpu):
        assert recorder.to_cpu() == [()] * n_numbers
        assert recorder.from_cpu()[0] == (N, 64)
        # the samples, and at most what the affinity says of the pairs: levels and weights
        assert len([shape for shape in recorder.from_cpu() if N in shape]) <= 3
    counts_softly = name in ("TALRHasher", "MIHashHasher")
    assert ("scatter_add_" in on_meta.operations) >= counts_softly


def test_images():
    X, y = digit_images(np.uint8)
    hasher = quick("TALRHasher", backbone="conv", augment=lambda batch: batch.flip(-1))
    trainer = trainer_of(hasher, X, y)
    for device in (META, FAKE_GPU):
        recorder = run_step(trainer, device, N)
        assert recorder.to_cpu() == [(), ()]
        assert recorder.from_cpu()[0] == (N, *X.shape[1:])


def test_features_far_from_zero_copy_their_offset_once(digits):
    trainer = trainer_of(quick("HashNetHasher"), digits.X[:60] + 1e6, digits.y[:60])
    assert trainer.encoder.offset is not None
    with fake_device(META) as recorder:
        encoder = trainer.encoder.to(META)
        encoder.read(trainer.X, np.arange(N))
        recorder.copies.clear()
        encoder.read(trainer.X, np.arange(N))
        assert recorder.to_cpu() == []
        encoder.offset.mul_(2)
        encoder.read(trainer.X, np.arange(N))
        assert recorder.to_cpu() == [(64,)]


@pytest.mark.parametrize(("n_bins", "exclude_self", "n_levels"), [(None, True, 2), (5, False, 2), (3, True, 4)])
def test_soft_histogram(n_bins, exclude_self, n_levels):
    options = {"max_distance": 8, "n_bins": n_bins, "exclude_self": exclude_self}
    shape = (6, (n_bins or 8) + 1, n_levels)
    for device in (META, FAKE_GPU):
        with fake_device(device) as recorder:
            distances = torch.zeros(6, 6, device=device, requires_grad=device == META)
            index = torch.zeros(6, 6, dtype=torch.long, device=device)
            H = soft_histogram(distances, index, np.arange(n_levels), **options)
            assert (H.counts.shape, str(H.counts.device)) == (shape, device)
            if device == META:
                H.counts.sum().backward()
                assert distances.grad.shape == (6, 6)
        assert recorder.copies == []


class Planted(nn.Module):
    """A backbone that does something with the samples."""

    def __init__(self, change):
        super().__init__()
        self.change, self.linear = change, nn.Linear(64, 16)

    def forward(self, X):
        return self.change(self.linear(X))


def planted(digits, change):
    return trainer_of(quick("HashNetHasher", backbone=Planted(change)), digits.X[:60], digits.y[:60])


@pytest.mark.parametrize("device", [META, FAKE_GPU])
def test_a_planted_copy_is_seen(digits, device):
    trainer = planted(digits, lambda X: X.cpu().to(X.device))
    recorder = run_step(trainer, device, N)
    assert (N, 16) in recorder.to_cpu()
    assert (N, 16) in recorder.from_cpu()


@pytest.mark.parametrize("device", [META, FAKE_GPU])
@pytest.mark.parametrize("change", [lambda X: X * torch.ones(16), lambda X: X[torch.arange(len(X))]])
def test_a_planted_tensor_of_the_cpu_is_refused_unless_it_is_a_scalar(digits, device, change):
    trainer = planted(digits, change)
    with pytest.raises(AssertionError, match=f"mixes tensors of cpu and {device}|mixes tensors of {device} and cpu"):
        run_step(trainer, device, N)
    assert run_step(planted(digits, lambda X: X * torch.tensor(2.0)), device, N).to_cpu() == []


def test_series_of_the_logarithmic_integral():
    x = torch.cat([torch.linspace(1.01, 50, 200), torch.logspace(1, 6.5, 50)]).double()
    assert_allclose(log_integral_series(x), expi(np.log(x.numpy())), rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(log_integral, x[10:60:5].clone().requires_grad_())
