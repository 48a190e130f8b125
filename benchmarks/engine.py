"""Overhead of the engine: an epoch of the Trainer against a plain loop with the same objective.

    pytest benchmarks/engine.py --benchmark-enable -s

Both alternate in one process on one thread. The fastest epochs are compared.
"""

import time

import numpy as np
import pytest
import torch

from skhash._threads import one_thread
from skhash.affinity import Relevance
from skhash.engine import Encoder, Schedule, Trainer
from skhash.engine.runtime import seeded
from skhash.hashers.deep.hashnet import HashNetObjective
from skhash.hashers.deep.talr import TALRObjective

CPU = torch.device("cpu")
N_SAMPLES, N_FEATURES, NBITS, BATCH_SIZE, LEARNING_RATE, N_EPOCHS = 5120, 512, 32, 256, 0.01, 10
OBJECTIVES = {
    "TALR": lambda: TALRObjective(),
    "HashNet": lambda: HashNetObjective(10 / NBITS),
}


def plain_epochs(encoder, objective, X, relevance):
    """Iterator over the epochs of a loop written by hand."""
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=LEARNING_RATE)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, N_EPOCHS * N_SAMPLES // BATCH_SIZE)
    rng, samples = np.random.default_rng(0), torch.from_numpy(X)
    while True:
        encoder.train()
        order = rng.permutation(N_SAMPLES)
        for start in range(0, N_SAMPLES, BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            loss = objective(encoder, samples[batch], relevance.take(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        yield


@pytest.mark.parametrize("backbone", [None, "mlp"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_engine_against_a_plain_loop(name, backbone, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N_SAMPLES, N_FEATURES)).astype(np.float32), rng.integers(0, 10, N_SAMPLES)
    with seeded(0, CPU), one_thread():
        encoders = [Encoder(N_FEATURES, NBITS, backbone, 0.3, 0.3) for _ in range(2)]
        schedule = Schedule(N_EPOCHS, BATCH_SIZE, LEARNING_RATE)
        trainer = Trainer(encoders[0], OBJECTIVES[name](), X, Relevance.of(y), schedule, np.random.default_rng(0), CPU)
        plain = plain_epochs(encoders[1], OBJECTIVES[name](), X, Relevance.of(y))
        times = {"engine": [], "plain loop": []}
        for _ in range(N_EPOCHS):
            for loop, run in (("engine", trainer.run_epoch), ("plain loop", lambda: next(plain))):
                start = time.perf_counter()
                run()
                times[loop].append(time.perf_counter() - start)
    best = {loop: min(taken) * 1e3 * BATCH_SIZE / N_SAMPLES for loop, taken in times.items()}
    with capsys.disabled():
        print(
            f"\n{name} {backbone}: engine {best['engine']:.2f} ms per step, plain loop {best['plain loop']:.2f}: "
            f"{best['engine'] / best['plain loop']:.3f}"
        )
    assert best["engine"] <= 1.15 * best["plain loop"]
