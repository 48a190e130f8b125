"""The engine's own cost: an epoch of the Trainer against a bare loop with the same objective.

    pytest benchmarks/bench_engine.py --benchmark-enable -s

Both take turns in one process, on one thread; the best epochs are compared.
"""

import time

import numpy as np
import pytest
import torch

from skhash.affinity import ClassAffinity
from skhash.engine import Encoder, Schedule, Trainer, one_thread, seeded
from skhash.hashers.deep.hashnet import _HashNetObjective
from skhash.hashers.deep.talr import _TALRObjective

CPU = torch.device("cpu")
N_ROWS, N_FEATURES, NBITS, BATCH, RATE, N_EPOCHS = 5120, 512, 32, 256, 0.01, 10
OBJECTIVES = {
    "TALR": lambda: _TALRObjective(ClassAffinity()),
    "HashNet": lambda: _HashNetObjective(ClassAffinity(), 10 / NBITS),
}


def bare_epochs(encoder, objective, X, y):
    """Yield after each epoch of a loop as one writes it by hand."""
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=RATE)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, N_EPOCHS * N_ROWS // BATCH)
    rng, rows = np.random.default_rng(0), torch.from_numpy(X)
    while True:
        encoder.train()
        order = rng.permutation(N_ROWS)
        for start in range(0, N_ROWS, BATCH):
            batch = order[start : start + BATCH]
            loss = objective(encoder, rows[batch], y[batch], batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        yield


@pytest.mark.parametrize("backbone", [None, "mlp"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_engine_against_a_bare_loop(name, backbone, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32), rng.integers(0, 10, N_ROWS)
    with seeded(0, CPU), one_thread():
        encoders = [Encoder(N_FEATURES, NBITS, backbone, 0.3, 0.3) for _ in range(2)]
        schedule = Schedule(N_EPOCHS, BATCH, RATE)
        trainer = Trainer(encoders[0], OBJECTIVES[name](), X, y, schedule, np.random.default_rng(0), CPU)
        bare = bare_epochs(encoders[1], OBJECTIVES[name](), X, y)
        times = {"engine": [], "bare loop": []}
        for _ in range(N_EPOCHS):
            for who, run in (("engine", trainer.run_epoch), ("bare loop", lambda: next(bare))):
                start = time.perf_counter()
                run()
                times[who].append(time.perf_counter() - start)
    best = {who: min(taken) * 1e3 * BATCH / N_ROWS for who, taken in times.items()}
    with capsys.disabled():
        print(
            f"\n{name} {backbone}: engine {best['engine']:.2f} ms a step, bare loop {best['bare loop']:.2f}: "
            f"{best['engine'] / best['bare loop']:.3f}"
        )
    assert best["engine"] <= 1.15 * best["bare loop"]
