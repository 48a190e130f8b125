"""Cost of a training step of TALR and of an evaluation against bits, batch, levels, queries and database.

    python benchmarks/growth.py

One size changes at a time, and the others keep the values of DEFAULTS. CPU milliseconds of one thread, the fastest of
several runs. The exponent is the slope of a line through the logarithms of the sizes and of the costs; it is below 1
where a constant cost weighs. Two levels are AP_T, more are NDCG_T.
"""

import time

import numpy as np
import torch

from skhash._threads import one_thread
from skhash.affinity import Relevance
from skhash.engine import Encoder, Schedule, Trainer
from skhash.hashers.deep.talr import TALRObjective
from skhash.metrics import average_precision, ndcg, relevance_histogram

N_FEATURES, N_CLASSES, N_STEPS, N_REPEATS = 512, 10, 10, 7
SIZES = {
    "step": {
        "bits": [16, 32, 64, 128, 256],
        "batch": [64, 128, 256, 512, 1024],
        "levels": [3, 5, 9, 17, 33],
        "features": [128, 256, 512, 1024, 2048],
    },
    "evaluation": {
        "bits": [16, 32, 64, 128, 256],
        "levels": [3, 5, 9, 17, 33],
        "queries": [32, 64, 128, 256, 512],
        "database": [62_500, 125_000, 250_000, 500_000, 1_000_000],
    },
}
DEFAULTS = {
    "step": {"bits": 64, "batch": 256, "levels": 2, "features": N_FEATURES},
    "evaluation": {"bits": 64, "levels": 2, "queries": 128, "database": 250_000},
}


class GradedClasses:
    """Affinity of samples of one class, whose level is one of several."""

    def __init__(self, n_levels):
        self.n_levels = n_levels

    def __call__(self, y_a, y_b):
        levels = (y_a % (self.n_levels - 1) + 1).astype(np.uint8)
        return np.where(y_a[:, None] == y_b[None, :], levels[:, None], np.uint8(0))

    def possible_levels(self, y_a, y_b):
        return np.arange(self.n_levels)


def make_step(bits, batch, levels, features):
    """Function that trains a linear TALR for N_STEPS batches, and their number."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4 * batch, features)).astype(np.float32)
    y = rng.integers(max(N_CLASSES, levels - 1), size=len(X))
    encoder = Encoder(features, bits, input_dropout=0.3)
    encoder.set_statistics(X)
    objective = TALRObjective("ap" if levels == 2 else "ndcg")
    schedule = Schedule(n_epochs=1000, batch_size=batch, learning_rate=1e-4)
    trainer = Trainer(encoder, objective, X, Relevance.of(y, GradedClasses(levels)), schedule, rng, torch.device("cpu"))
    batches = [rng.permutation(len(X))[:batch] for _ in range(N_STEPS)]

    def run():
        for indices in batches:
            trainer.train_step(indices)

    return run, N_STEPS


def make_evaluation(bits, levels, queries, database):
    """Function that counts and scores one ranking per query, and 1."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 256, (n, bits // 8), dtype=np.uint8) for n in (queries, database)]
    targets = [rng.integers(max(N_CLASSES, levels - 1), size=n) for n in (queries, database)]
    metric = average_precision if levels == 2 else ndcg

    def run():
        metric(relevance_histogram(*codes, *targets, affinity=GradedClasses(levels), nbits=bits))

    return run, 1


JOBS = {"step": make_step, "evaluation": make_evaluation}


def cpu_milliseconds(function, n):
    """CPU milliseconds of one of n repetitions in the fastest of several runs, after one that compiles."""
    function()
    seconds = []
    for _ in range(N_REPEATS):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return 1e3 * min(seconds) / n


def main():
    """Print one line for each job and each size."""
    print(f"{'job':12}{'against':10}{'from':>8}{'to':>11}{'ms':>9}{'ms':>9}{'exponent':>10}")
    with one_thread():
        for job, sizes in SIZES.items():
            for name, values in sizes.items():
                costs = [cpu_milliseconds(*JOBS[job](**DEFAULTS[job] | {name: value})) for value in values]
                slope = np.polyfit(np.log(values), np.log(costs), 1)[0]
                ends = f"{values[0]:>8,}{values[-1]:>11,}{costs[0]:>9.3f}{costs[-1]:>9.3f}"
                print(f"{job:12}{name:10}{ends}{slope:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
