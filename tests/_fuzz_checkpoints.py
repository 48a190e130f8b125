"""The checkpoints that are fuzzed, of trainings with several optimizers, schedules and objectives."""

import hashlib
import io
import json
import tempfile
import warnings
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from _fuzz import Target
from _fuzz_mutators import to_json
from _helpers import StopAfter

import skhash
from skhash.engine import Identity

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
    hasher = TRAININGS[name](checkpoint=path.parent)
    with mock.patch.object(Identity, "name", path.stem), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of other versions
        try:
            hasher.fit(*samples(), resume=True)
        except FloatingPointError as error:
            return str(error)  # forged weights of any size
    return hasher.history_, hasher.weights_, hasher.database_codes_


def unpack_checkpoint(data):
    header, payload = data.split(b"\n", 3)[2:]
    state = torch.load(io.BytesIO(payload), weights_only=True)
    return {"header": json.loads(header), "state": _map(state, _tuple_to_dict)}


def pack_checkpoint(tree):
    file = io.BytesIO()
    torch.save(_map(tree["state"], _dict_to_tuple), file)
    content = to_json(tree["header"]).encode() + b"\n" + file.getvalue()
    return b"skhash checkpoint 1\n" + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def _map(value, function):
    """Tree with a function applied to each value, the inner ones first."""
    if isinstance(value, dict):
        value = {key: _map(part, function) for key, part in value.items()}
    elif isinstance(value, list | tuple):
        value = type(value)([_map(part, function) for part in value])
    return function(value)


def _tuple_to_dict(value):
    """Values that the mutators know."""
    if isinstance(value, torch.Tensor):
        return value.numpy()
    return {"tuple": list(value)} if isinstance(value, tuple) else value


def _dict_to_tuple(value):
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    return tuple(value["tuple"]) if isinstance(value, dict) and list(value) == ["tuple"] else value


CHECKPOINTS = Target("checkpoints", ".ckpt", checkpoints, read_checkpoint, unpack_checkpoint, pack_checkpoint)
