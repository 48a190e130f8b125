"""The checkpoints that are fuzzed, of trainings with several optimizers, schedules and objectives."""

import contextlib
import functools
import shutil
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from _fuzz import Target
from _helpers import StopAfter

import skhash
from skhash.exceptions import InvalidFileError

N_SAMPLES, N_FEATURES = 60, 6
OPTIONS = {"n_epochs": 3, "batch_size": 20, "random_state": 0, "device": "cpu"}
TRAININGS = {
    "TALRHasher": partial(skhash.TALRHasher, 8, **OPTIONS),
    "OrthoHashHasher": partial(skhash.OrthoHashHasher, 8, early_stopping=True, **OPTIONS),
    "TBHHasher": partial(skhash.TBHHasher, 4, optimizer="sgd", lr_schedule="constant", **OPTIONS),
    "HashNetHasher": partial(
        skhash.HashNetHasher,
        6,
        backbone="mlp",
        optimizer=partial(torch.optim.Adagrad, lr=0.01),
        lr_schedule=partial(torch.optim.lr_scheduler.MultiStepLR, milestones=[2, 5]),
        **OPTIONS,
    ),
}


def samples():
    """Samples, and their classes."""
    rng = np.random.default_rng(0)
    y = np.arange(N_SAMPLES) % 3
    return rng.normal(size=(N_SAMPLES, N_FEATURES)) + 2 * y[:, None], y


def checkpoints(names=tuple(TRAININGS)):
    """Files of trainings that were stopped after one and after two epochs."""
    files = {}
    for name in names:
        for n_epochs in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    TRAININGS[name](checkpoint=folder).set_callbacks(StopAfter(n_epochs)).fit(*samples())
                except KeyboardInterrupt:
                    (path,) = Path(folder).iterdir()
                    files[f"{name} {n_epochs}"] = path.read_bytes()
    return files


def read_checkpoint(path):
    """The hasher after the rest of its training."""
    with open(path, "rb") as file:
        start = file.read(2000)
    name = next((name for name in TRAININGS if name.encode() in start), "TALRHasher")

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of other versions
        checkpoint = Path(folder, file_name(name))
        shutil.copyfile(path, checkpoint)
        try:
            hasher = TRAININGS[name](checkpoint=folder).fit(*samples(), resume=True)
        except InvalidFileError as error:
            if error.path == str(checkpoint):
                raise InvalidFileError(path, error.reason) from error
            raise
    return hasher.history_, hasher.weights_, hasher.database_.codes.rows


@functools.cache
def file_name(name):
    """Name of the checkpoint of a training."""
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(KeyboardInterrupt):
            TRAININGS[name](checkpoint=folder).set_callbacks(StopAfter(1)).fit(*samples())
        return next(Path(folder).iterdir()).name


# not forged ones, with a right checksum: a checkpoint is a file of the user's own
CHECKPOINTS = Target("checkpoints", ".ckpt", checkpoints, read_checkpoint)
