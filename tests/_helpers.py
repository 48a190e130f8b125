"""What several test files share: quick hashers, interruptions, equality; batches and encoders; small splits."""

import hashlib
import inspect
import itertools
import json
import math
import os
import pickle
import random
import re
import subprocess
import sys
import traceback
from dataclasses import fields, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import sklearn
import torch
from numpy.testing import assert_array_equal
from safetensors.numpy import save
from scipy import sparse
from sklearn.datasets import load_digits
from torch import nn

import skhash
from skhash import CGHashHasher, StructHashHasher, persistence
from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity, Relevance, SharedLabelsAffinity
from skhash.base import Database
from skhash.codes import Codes
from skhash.datasets import PROTOCOLS
from skhash.engine import Trainer
from skhash.functions import ArrayFunction
from skhash.registry import HASHERS

# Options that make a hasher quick, for the hashers that have them.
QUICK = {"nbits": 8, "n_epochs": 3, "batch_size": 64, "tol": 0.05, "random_state": 0}
QUICK |= {"n_relevant": 4, "n_irrelevant": 4, "n_queries": 20, "n_anchors": 40, "n_iter": 5, "max_samples": 150}

# Not of StructHashHasher, which warns if it has not converged.
FEW_ITERATIONS = {name: {"max_iter": 5} for name in ("KSHHasher", "SDHHasher", "BREHasher", "AGHHasher")}


def quick(name, **params):
    Hasher = getattr(skhash, name)
    options = QUICK | FEW_ITERATIONS.get(name, {}) | params
    return Hasher(**{key: options[key] for key in inspect.signature(Hasher).parameters if key in options})


every_hasher = pytest.mark.parametrize("make", [pytest.param(partial(quick, name), id=name) for name in HASHERS])

# Weighted bits that are quick to learn from a few digits
structhash = partial(StructHashHasher, nbits=4, n_relevant=4, n_irrelevant=4, n_anchors=40, tol=0.01, random_state=0)
cghash = partial(CGHashHasher, nbits=4, n_anchors=40, random_state=0)


def history_of(hasher):
    """What `history_` says about each bit or epoch, without the time."""
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in hasher.history_]


#: for tests whose callbacks are not in their own process, or whose absence no error tells
needs_callbacks = pytest.mark.skipif(
    not hasattr(CGHashHasher, "set_callbacks"), reason="fits have callbacks from scikit-learn 1.9 on"
)


class Callback:
    """A callback of which a test needs a part of the methods."""

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...


class StopAfter(Callback):
    """A callback that interrupts the training, as a user does, after some epochs."""

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs

    def setup(self, estimator, context):
        self.seen = 0

    def on_fit_task_end(self, estimator, context):
        self.seen += 1
        if self.seen == self.n_epochs:
            raise KeyboardInterrupt


def stop_and_resume(make, *data, after=2):
    """A hasher of `make` that goes on from the checkpoint of another one, which was interrupted."""
    with pytest.raises(KeyboardInterrupt):
        make().set_callbacks(StopAfter(after)).fit(*data)
    return make().fit(*data, resume=True)


def assert_resumes_as_if_never_stopped(make, folder, X, y, *attributes):
    """A fit that is stopped and resumed must equal one that is not, in history, codes and further attributes."""
    resumed, uninterrupted = stop_and_resume(partial(make, checkpoint=folder), X, y), make().fit(X, y)
    assert resumed.history_ == uninterrupted.history_
    for name in ("database_.codes.rows", *attributes):
        assert_array_equal(attrgetter(name)(resumed), attrgetter(name)(uninterrupted))


def assert_learns_on_after_load(hasher, path, X, y, *attributes):
    """A hasher that is saved and loaded must have the attributes, and learn on to the same codes."""
    persistence.save(hasher, path)
    loaded = persistence.load(path)
    for name in attributes:
        assert_array_equal(getattr(loaded, name), getattr(hasher, name))
    for each in (hasher, loaded):
        each.partial_fit(X, y)
    assert_array_equal(loaded.database_.codes.rows, hasher.database_.codes.rows)


def same(a, b):
    """Whether two values are equal, in their types, too."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        if a.dtype == object:
            return a.shape == b.shape and same(a.tolist(), b.tolist())
        contiguous = a.flags.f_contiguous == b.flags.f_contiguous
        return a.dtype == b.dtype and contiguous and np.array_equal(a, b, equal_nan=a.dtype.kind in "fcmM")
    if sparse.issparse(a):
        return all(same(getattr(a, part), getattr(b, part)) for part in ("shape", "data", "indices", "indptr"))
    if isinstance(a, np.random.RandomState):
        return same(a.get_state(legacy=False), b.get_state(legacy=False))
    if isinstance(a, ArrayFunction):
        return same(a.arrays(), b.arrays())
    if isinstance(a, Codes):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in fields(Codes))
    if isinstance(a, Database | ClassAffinity | SharedLabelsAffinity | DistanceAffinity | PrecomputedAffinity):
        return same(vars(a), vars(b))
    return bool(a == b or (a != a and b != b))


def assert_same_hasher(loaded, hasher, X, y):
    assert type(loaded) is type(hasher)
    assert same(loaded.__getstate__(), hasher.__getstate__())
    for method in ("transform", "encode", "project"):
        assert_array_equal(getattr(loaded, method)(X), getattr(hasher, method)(X))
    assert loaded.score(X, y) == hasher.score(X, y)


def checksum(header, tensors):
    """The checksum of a file of persistence, as the docs define it."""
    total = hashlib.sha256(json.dumps({name: value for name, value in header.items() if name != "sha256"}).encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"\0{name}\0{tensor.dtype.str}{tensor.shape}\0".encode() + tensor.tobytes())
    return total.hexdigest()


def sealed(header, tensors):
    """Bytes of a file of persistence with a right checksum, whatever the header says."""
    tensors = {name: np.array(tensor, order="C") for name, tensor in tensors.items()}
    if isinstance(header, dict):
        header = header | {"sha256": checksum(header, tensors)}
    return save(tensors, {"skhash": json.dumps(header)})


def without_times(results):
    """Results of a comparison without the values that depend on the clock."""
    return [{name: value for name, value in result.items() if "second" not in name} for result in results]


def global_states():
    """States of the global generators of torch, numpy and Python."""
    return torch.get_rng_state().tolist(), pickle.dumps(np.random.get_state()), random.getstate()  # noqa: NPY002


def run_python(code, *arguments, n_threads=2, env=None, **options):
    """Run a script in a new process with two threads for every library."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(n_threads))
    done = subprocess.run(
        [sys.executable, *arguments, *(["-c", code] if code else [])],
        env=os.environ | threads | (env or {}),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- deep hashers

CPU = torch.device("cpu")
NBITS, WIDTH = 6, 5

#: targets of small batches, with and without pairs of both kinds
CASES = {
    "classes": [0, 0, 1, 1, 2, 2, 2, 3],
    "several labels": [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 1, 1], [0, 0, 0]],
    "no similar pair": [0, 1, 2, 3],
    "no dissimilar pair": [4, 4, 4, 4],
}


def case_of(name):
    """Targets of a case, their affinity, and which pairs are similar."""
    y = np.array(CASES[name])
    if y.ndim == 1:
        return y, ClassAffinity(), [[a == b for b in y] for a in y]
    return y, SharedLabelsAffinity(), [[bool((a & b).any()) for b in y] for a in y]


def draw(*shape, seed=0):
    """Normal values that depend on the seed only."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def trainer_of(hasher, X, y):
    """The trainer that `fit` runs on the CPU, before its first epoch."""
    stop = patch.object(Trainer, "run_epoch", autospec=True, side_effect=KeyboardInterrupt)
    with stop as run_epoch, pytest.raises(KeyboardInterrupt):
        hasher.set_params(device="cpu").fit(X, y)
    return run_epoch.call_args.args[0]


def objective_of(Hasher, affinity="auto", nbits=NBITS, **params):
    """The objective that a hasher of few bits minimizes, for five classes, three labels or a distance of indices."""
    X, y = np.random.default_rng(0).normal(size=(12, WIDTH)), np.arange(12)
    if isinstance(affinity, SharedLabelsAffinity):
        y = np.eye(3, dtype=int)[y % 3]
    elif affinity == "auto" or isinstance(affinity, ClassAffinity):
        y = y % 5
    return trainer_of(Hasher(nbits, affinity=affinity, n_epochs=1, random_state=0, **params), X, y).objective


class Given(nn.Module):
    """An encoder whose activations are given, whatever the samples are."""

    def __init__(self, u):
        super().__init__()
        self.u = u

    def forward(self, X):
        return self.u


def loss_of(objective, activations, y, affinity="auto"):
    """The loss of one batch whose samples are the activations themselves."""
    return objective(nn.Identity(), activations, Relevance.of(y, affinity), np.arange(len(activations)))


def has_right_gradients(make_objective, case):
    """Whether the gradients of an objective are those of finite differences; `make_objective` takes the affinity."""
    y, affinity, _ = case_of(case)
    objective, f = make_objective(affinity), draw(len(y), NBITS, seed=5).requires_grad_()
    return torch.autograd.gradcheck(lambda f: loss_of(objective, f, y, affinity), (f,))


def finite_at_extremes(objective):
    """Whether loss and gradients of 64 bits are finite for extreme activations, and NaN shows in the loss."""
    y = np.array([0, 0, 1, 1])
    for f in (torch.full((4, 64), 50.0), torch.zeros(4, 64), 50.0 * torch.eye(4, 64)):
        f = f.clone().requires_grad_()
        loss = loss_of(objective, f, y)
        loss.backward()
        if not (torch.isfinite(loss) and torch.isfinite(f.grad).all()):
            return False
    return bool(loss_of(objective, torch.full((4, 64), torch.nan), y).isnan())


# --- plain loops


def softplus(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def half_product(u, v):
    return sum(a * b for a, b in zip(u, v, strict=True)) / 2


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def squared_gap(u):
    """Mean squared distance of activations from their signs."""
    return mean(((1.0 if a >= 0 else -1.0) - a) ** 2 for row in u for a in row)


def pairwise(u, similar):
    """Mean negative log-likelihood of the pairs, pair by pair."""
    pairs = itertools.permutations(range(len(u)), 2)
    thetas = ((half_product(u[i], u[j]), similar[i][j]) for i, j in pairs)
    return mean(-(theta * s - math.log1p(math.exp(theta))) for theta, s in thetas)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def plain_nt_xent(views, others, tau):
    """NT-Xent of two lists of views, written out."""
    views, n = [*views, *others], len(views)
    total = 0.0
    for i in range(2 * n):
        scores = [math.exp(cosine(views[i], views[j]) / tau) for j in range(2 * n)]
        total -= math.log(scores[(i + n) % (2 * n)] / (sum(scores) - scores[i]))
    return total / (2 * n)


# --- encoders, data, callbacks


class Head(nn.Module):
    """An encoder whose features are the centered and scaled samples themselves."""

    def __init__(self, mean=0.5, scale=2.0):
        super().__init__()
        self.mean = torch.full((WIDTH,), mean, dtype=torch.float64)
        self.scale = torch.tensor(scale, dtype=torch.float64)
        self.hash = nn.Linear(WIDTH, NBITS, dtype=torch.float64)

    def features(self, X):
        return (X - self.mean) / self.scale

    def head(self, features):
        return self.hash(features)

    def forward(self, X):
        return self.head(self.features(X))


class Overflowing(nn.Module):
    """A backbone without finite outputs."""

    def forward(self, X):
        return X * 1e38 * 1e38


def digit_images(dtype, n=60):
    """Digits as images of one channel, with their classes."""
    X, y = load_digits(return_X_y=True)
    X = X[:n].reshape(-1, 1, 8, 8) / 16
    return ((255 * X).astype(np.uint8) if dtype is np.uint8 else X.astype(dtype)), y[:n]


class Dataset(torch.utils.data.Dataset):
    """Pairs (sample, target)."""

    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return torch.from_numpy(self.X[i].copy()), int(self.y[i])


class Stop(Callback):
    """A callback that stops the training after the first epoch."""

    def on_fit_task_end(self, estimator, context):
        return True


# --- splits of data sets

SMALL = {
    "holdout": PROTOCOLS["holdout"],
    "5k": replace(PROTOCOLS["5k"], n_query=40, n_train=100),
    "struct": replace(PROTOCOLS["struct"], n_query=30, n_train=50),
    "labelme": replace(PROTOCOLS["labelme"], n_query=20, n_train=50, n_samples=220),
    "mirflickr": replace(PROTOCOLS["mirflickr"], n_query=20, n_train=50),
}
SIZES = {  # queries, database, train, of 320 samples
    "holdout": (64, 256, 256),
    "5k": (40, 280, 100),
    "struct": (30, 290, 50),
    "labelme": (20, 300, 50),
    "mirflickr": (20, 300, 50),
}


def make(n=320, *, labels=False, seed=0):
    """Samples whose first feature is their index, and four classes (or six labels)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 0] = np.arange(n)
    y = rng.integers(0, 2, (n, 6)).astype(np.uint8) if labels else np.arange(n) % 4
    return X, y


def indices_of(X):
    return X[:, 0].astype(int)


# --- bad arguments

#: a message names the argument, or is one of scikit-learn's
NAMED = "|".join(
    [
        *(r"`\w[^`]*` ", r"The '\w+' parameter", "Input [Xy] ", "Found array", "Expected 2D array", "X has"),
        *(
            "not fitted yet",
            "Sparse data was passed",
            r"'\w+' cannot be used to seed",
            "could not convert string to float",
        ),
        *("argument must be a string or a real number", "Invalid parameter '", "unexpected keyword argument '"),
        *("Complex data", "A Dataset given as X", "requires y", "Data set '"),
    ]
)
OURS = (*(Path(sklearn.__file__).parent / name for name in ("utils", "base.py")), Path(skhash.__file__).parent)


def assert_refused(function, arguments):
    """Check that a call raises a ValueError or TypeError of this library or of scikit-learn that names the argument.

    The last argument holds the named ones, if it is a dict. Returns the message.
    """
    named = arguments[-1] if isinstance(arguments[-1], dict) and "a" not in arguments[-1] else {}
    with pytest.raises((ValueError, TypeError)) as caught:
        function(*(arguments[:-1] if named else arguments), **named)
    last = Path(traceback.extract_tb(caught.value.__traceback__)[-1].filename)
    message = str(caught.value)
    assert any(last.is_relative_to(ours) for ours in OURS), f"raised by {last}: {message}"
    assert re.search(NAMED, message), message
    assert len(message) < 900, message
    return message


def table_of(cases):
    """Parameters of a test: each function with each of its bad arguments."""
    return [
        pytest.param(function, arguments, id=f"{getattr(function, '__qualname__', repr(function))}-{i}")
        for function, several in cases.items()
        for i, arguments in enumerate(several)
    ]
