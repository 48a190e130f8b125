"""What several test files share: quick hashers, an interrupted training, equality of hashers."""

import inspect
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import skhash
from skhash import CGHashHasher, StructHashHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity, SharedLabelsAffinity

# Options that make a hasher quick, for the hashers that have them.
QUICK = {"nbits": 8, "n_epochs": 3, "batch_size": 64, "tol": 0.05, "random_state": 0}
QUICK |= {"n_relevant": 4, "n_irrelevant": 4, "n_queries": 40, "n_anchors": 60, "n_iter": 5, "n_labeled": 150}


def quick(name, **params):
    Hasher = getattr(skhash, name)
    options = QUICK | params
    return Hasher(**{key: options[key] for key in inspect.signature(Hasher).parameters if key in options})


every_hasher = pytest.mark.parametrize(
    "make", [pytest.param(partial(quick, name), id=name) for name in skhash.hashers.__all__]
)

# Weighted bits that are quick to learn from a few digits
structhash = partial(StructHashHasher, nbits=4, n_relevant=4, n_irrelevant=4, n_anchors=40, tol=0.01, random_state=0)
cghash = partial(CGHashHasher, nbits=4, n_anchors=40, random_state=0)


class StopAfter:
    """A callback that interrupts the training, as a user does, after some epochs."""

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs

    def setup(self, estimator, context):
        self.seen = 0

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        self.seen += 1
        if self.seen == self.n_epochs:
            raise KeyboardInterrupt


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
    if isinstance(a, ClassAffinity | SharedLabelsAffinity | DistanceAffinity | PrecomputedAffinity):
        return same(vars(a), vars(b))
    return bool(a == b or (a != a and b != b))


def assert_same_hasher(loaded, hasher, X, y):
    assert type(loaded) is type(hasher)
    assert same(loaded.__getstate__(), hasher.__getstate__())
    for method in ("transform", "encode", "project"):
        assert_array_equal(getattr(loaded, method)(X), getattr(hasher, method)(X))
    assert loaded.score(X, y) == hasher.score(X, y)


def without_times(results):
    """Results of a comparison without the values that depend on the clock."""
    return [{name: value for name, value in result.items() if "second" not in name} for result in results]
