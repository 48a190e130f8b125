"""What torchrun starts in the tests of several processes. The tests run the same functions in one process.

torchrun --nproc-per-node 2 tests/_process_worker.py TASK FOLDER
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch.distributed as dist
from sklearn.datasets import load_digits

import skhash
from skhash.engine import Trainer
from skhash.engine.runtime import gather, is_first

BATCH = 101  # not divisible among the processes
NO_NOISE = {"backbone": "mlp", "input_dropout": 0.0, "hidden_dropout": 0.0}
HASHERS = {
    "TALR": ("TALRHasher", NO_NOISE),
    "HashNet": ("HashNetHasher", NO_NOISE | {"n_stages": 2}),
    "NSH": ("NSHHasher", {}),
    "TALR, linear": ("TALRHasher", {}),
}


def samples():
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400]


def make(name, **options):
    cls, own = HASHERS[name]
    return getattr(skhash, cls)(32, **{"n_epochs": 2, "batch_size": BATCH, "random_state": 0} | own | options)


class Gradients:
    """Records the loss and the gradients of the first step of a fit."""

    def __init__(self):
        self.values, self.original = {}, Trainer.train_step

    def __enter__(self):
        def train_step(trainer, indices):
            loss = self.original(trainer, indices)
            if not self.values:
                parameters = [*trainer.encoder.named_parameters(), *trainer.trained.named_parameters()]
                self.values = {name: p.grad.numpy().copy() for name, p in parameters} | {"loss": np.array(float(loss))}
            return loss

        Trainer.train_step = train_step
        return self

    def __exit__(self, *error):
        Trainer.train_step = self.original


def fit_all(folder):
    """Loss, gradients, history and codes of every hasher, of a stream, and of early stopping."""
    X, y = samples()
    results = {}
    for name in HASHERS:
        with Gradients() as first_step:
            hasher = make(name, checkpoint=folder / name).fit(X, y)
        results |= {f"{name}/gradient/{key}": value for key, value in first_step.values.items()}
        results |= outcome(name, hasher, X)
    stream = make("HashNet")
    for part in np.split(np.arange(400), 2):
        stream.partial_fit(X[part], y[part])
    results |= outcome("stream", stream, X)
    results |= outcome("early stopping", make("TALR", early_stopping=True, n_iter_no_change=1, n_epochs=4).fit(X, y), X)
    results |= outcome("noise", make("TALR", hidden_dropout=0.3, random_state=None).fit(X, y), X)
    if is_first():
        np.savez(folder / "results.npz", **results)
    return results


def outcome(name, hasher, X):
    """Codes and losses, which must be the same in every process."""
    codes = hasher.transform(X)
    for weights in gather(hasher.weights_):
        assert all(np.array_equal(weights[key], value) for key, value in hasher.weights_.items())
    return {f"{name}/codes": codes, f"{name}/losses": np.array([entry["loss"] for entry in hasher.history_])}


class KillSelf:
    """A callback that kills the second process after its second epoch."""

    def setup(self, estimator, context):
        self.n_epochs = 0

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        self.n_epochs += 1
        if self.n_epochs == 2 and not is_first():
            os.kill(os.getpid(), signal.SIGKILL)


def long_training(folder):
    return make("HashNet", hidden_dropout=0.2, n_epochs=4, checkpoint=folder / "killed")


def train_until_killed(folder):
    long_training(folder).set_callbacks(KillSelf()).fit(*samples())


def resume(folder):
    """Codes of a training that was killed, and of one that was not."""
    X, y = samples()
    hasher = long_training(folder).fit(X, y, resume=True)
    whole = long_training(folder).set_params(checkpoint=None).fit(X, y)
    if is_first():
        np.savez(folder / "resumed.npz", codes=hasher.transform(X), whole=whole.transform(X))


def give_each_its_own(folder):
    """The mistake of giving every process a part of the samples."""
    X, y = samples()
    part = slice(dist.get_rank(), None, 2)
    make("TALR").fit(X[part], y[part])


if __name__ == "__main__":
    dist.init_process_group("gloo")
    globals()[sys.argv[1]](Path(sys.argv[2]))
    dist.barrier()  # a process that leaves early can abort one that still writes
    dist.destroy_process_group()
