"""Time of a TALR step at batch size 256 and 64 bits: the compiled pass, scatter-adds, and the dense kernel.

    pytest benchmarks/talr_step.py --benchmark-enable

The compiled pass is what a CPU runs, the scatter-adds what other devices run. The dense form builds the
(M, M, b + 1) tensor of kernel values, as most code does. All other parts of the step are the same. All
run on one thread, as in training, and also on all threads.
"""

import time
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from skhash._threads import one_thread
from skhash.affinity import Relevance
from skhash.engine import Encoder
from skhash.hashers.deep import HistogramObjective
from skhash.hashers.deep.talr import TALRObjective
from skhash.metrics.histogram import RelevanceHistogram

BATCH, NBITS, N_FEATURES = 256, 64, 512


def dense_histogram(distances, level_index, levels, *, max_distance, n_bins=None, exclude_self=True):
    """Soft histogram through the dense triangular kernel."""
    centers = torch.arange(max_distance + 1.0)
    kernel = (1 - (distances[:, :, None] - centers).abs()).clamp_min(0)
    others = 1 - torch.eye(len(distances))
    one_hot = torch.nn.functional.one_hot(level_index, len(levels)).float() * others[:, :, None]
    return RelevanceHistogram(torch.einsum("qnd,qnv->qdv", kernel, one_hot).double(), levels)


class Step:
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.X = torch.randn(BATCH, N_FEATURES, generator=generator)
        self.relevance = Relevance.of(torch.randint(10, (BATCH,), generator=generator).numpy())
        self.indices = np.arange(BATCH)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.encoder = Encoder(N_FEATURES, NBITS)
        self.objective = TALRObjective()

    def __call__(self):
        self.encoder.zero_grad()
        loss = self.objective(self.encoder, self.X, self.relevance.take(self.indices), None)
        loss.backward()
        return loss.item(), self.encoder.hash.weight.grad.clone()


@pytest.fixture
def step():
    return Step()


def best_time(function, on_one_thread, n=20):
    times = []
    with one_thread() if on_one_thread else nullcontext():
        for _ in range(n):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
    return min(times)


def test_compiled_step(benchmark, step):
    benchmark(step)


def test_ratio(step, monkeypatch, capsys):
    def measure():
        loss, gradient = step()
        return loss, gradient, {alone: best_time(step, alone) for alone in (True, False)}

    loss, gradient, compiled = measure()
    monkeypatch.setattr(TALRObjective, "ranking_loss", HistogramObjective.ranking_loss)
    scatter_loss, scatter_gradient, scatter = measure()
    monkeypatch.setattr("skhash.metrics.soft_histogram.soft_histogram", dense_histogram)
    dense_loss, dense_gradient, dense = measure()
    with capsys.disabled():
        for alone, threads in ((True, "one thread"), (False, f"{torch.get_num_threads()} threads")):
            a, b, c = (1e3 * times[alone] for times in (compiled, scatter, dense))
            print(f"\n{threads}: compiled pass {a:.2f} ms, scatter-adds {b:.2f} ms, dense kernel {c:.2f} ms")
    assert (loss, loss) == pytest.approx((scatter_loss, dense_loss), abs=1e-5)
    for other in (scatter_gradient, dense_gradient):
        torch.testing.assert_close(gradient, other, atol=1e-4 * gradient.abs().max().item(), rtol=0)
    assert dense[True] >= 8 * compiled[True]
    assert scatter[True] >= 1.25 * compiled[True]
