"""What identifies a training: equal for equal meaning, in any process, and another file for each difference."""

import functools
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from _helpers import Dataset
from scipy import sparse

from skhash import TALRHasher

X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
SCALE = 2


def keep(batch, value=None):
    return batch


def name_of(X=X, y=y, **params):
    """Name of the checkpoint of a training, which its identity decides."""
    with tempfile.TemporaryDirectory() as folder:
        TALRHasher(4, n_epochs=1, batch_size=20, checkpoint=folder, random_state=0, **params).fit(X, y)
        (path,) = Path(folder).glob("*.ckpt")
        return path.name


def identity(value):
    """Name of the checkpoint of a training with a value inside of its `augment`."""
    return name_of(augment=functools.partial(keep, value=value))


def scaled(x):
    return SCALE * x


class Needs:
    requires_y = True


class NeedsNot:
    requires_y = False


class Affinity:
    """Compares classes."""

    requires_y = True

    def __init__(self, n):
        self.n = n

    def __call__(self, a, b):
        return np.equal.outer(a % self.n, b % self.n)

    def method(self, a):
        return a % self.n

    @property
    def double(self):
        return 2 * self.n


def in_closure(value):
    return lambda x: value * x


def local_function():
    def inner(x):
        return x

    return inner


def local_class():
    class Inner:
        def __call__(self, a, b):
            return np.equal.outer(a, b)

    return Inner


def unscaled(x):
    return x


@functools.lru_cache
def cached(x):
    return x


@functools.lru_cache
def also_cached(x):
    return x


MAKERS = {
    "numbers": lambda n: n,
    "names of functions": [scaled, unscaled].__getitem__,
    "functools.partial": lambda n: functools.partial(scaled, n),
    "partial of functions": lambda n: functools.partial([scaled, unscaled][n]),
    "bound methods": lambda n: Affinity(n).method,
    "callable objects": Affinity,
    "names of classes": lambda n: [Needs, NeedsNot][n],
    "cached functions": [cached, also_cached].__getitem__,
    "sets": lambda n: {"a", "b", f"c{n}"},
    "dicts": lambda n: {"a": 1, "b": {"c": n}},
    "arrays": lambda n: np.array([0, n]),
    "types of arrays": lambda n: np.zeros(2, dtype=["f4", "f8"][n]),
    "arrays of objects": lambda n: np.array(["a", None, n], dtype=object),
    "tensors": lambda n: torch.tensor([0.0, n]),
    "half precision": lambda n: torch.tensor([0.0, n], dtype=torch.bfloat16),
    "frozen tensors": lambda n: torch.zeros(2, requires_grad=bool(n)),
    "generators": np.random.RandomState,
    "sparse matrices": lambda n: sparse.csr_array([[0, 1 + n]]),
}
MODULES = {
    "weights": lambda n: torch.nn.Linear(2, 2),
    "frozen": lambda n: torch.nn.ReLU() and torch.nn.Linear(2, 2).requires_grad_(bool(n)),
    "activations": lambda n: torch.nn.Sequential(torch.nn.Linear(2, 2), [torch.nn.ReLU(), torch.nn.Tanh()][n]),
    "options": lambda n: torch.nn.LeakyReLU([0.1, 0.2][n]),
    "names of classes": lambda n: [Doubled, Tripled][n](2, 2),
    "buffers": lambda n: with_buffer(torch.nn.Linear(2, 2), n),
    "order": lambda n: torch.nn.Sequential(*[torch.nn.ReLU(), torch.nn.Tanh()][:: 1 - 2 * n]),
}


class Doubled(torch.nn.Linear):
    def forward(self, X):
        return 2 * super().forward(X)

    def _get_name(self):
        return "Scaled"


class Tripled(torch.nn.Linear):
    def forward(self, X):
        return 3 * super().forward(X)

    def _get_name(self):
        return "Scaled"


def with_buffer(module, value):
    module.register_buffer("kept", torch.tensor(value))
    return module


@pytest.mark.parametrize("kind", MAKERS)
def test_equal_values_are_equal_and_others_differ(kind):
    make = MAKERS[kind]
    assert identity(make(0)) == identity(make(0))
    assert identity(make(0)) != identity(make(1))


@pytest.mark.parametrize("kind", MODULES)
def test_modules(kind):
    def make(n):
        torch.manual_seed(n if kind == "weights" else 0)
        return MODULES[kind](n)

    with torch.random.fork_rng():
        assert name_of(backbone=make(0)) == name_of(backbone=make(0))
        assert name_of(backbone=make(0)) != name_of(backbone=make(1))
        assert identity([make(0)]) != identity([make(1)])  # also inside of other values


def test_what_has_no_influence_does_not_count():
    assert identity(0.5) == identity(np.float64(0.5))
    assert identity(np.ones((3, 2))) == identity(np.ones((3, 2), order="F"))
    module = torch.nn.Linear(2, 2)
    assert identity(module) == identity(module.eval())


def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather export
        return torch.jit.trace(torch.nn.ReLU(), torch.zeros(2))


def nested(n):
    value = []
    for _ in range(n):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (threading.Lock(), ""),
        ((x for x in "abc"), ""),
        (lambda x: x, r"<lambda>.* Define functions and classes in a file, outside of functions"),
        (in_closure(2), "in_closure.<locals>.<lambda>"),
        (local_function(), "local_function.<locals>.inner"),
        (local_class(), "local_class.<locals>.Inner"),
        (local_class()(), "local_class.<locals>.Inner"),
        (functools.partial(local_function()), "local_function.<locals>.inner"),
        (functools.lru_cache(local_function()), "local_function.<locals>.inner"),
        (Affinity(threading.Lock()), "lock"),
        (nested(100_000), "recursion"),
        (scripted(), "the code of a scripted or traced module has no name"),
        (torch.nn.LazyLinear(2), "uninitialized"),
    ],
)
def test_what_cannot_be_identified_is_named(value, reason):
    message = f"`augment` must be identifiable when `checkpoint` is set.* Got a functools.partial .*{reason}"
    with pytest.raises(TypeError, match=message):
        identity(value)


@pytest.mark.parametrize("affinity", [np.equal.outer, functools.partial(Affinity(2))], ids=["ufunc", "partial"])
def test_an_affinity_with_a_name_identifies_a_training(affinity):
    assert name_of(affinity=affinity) == name_of(affinity=affinity)


def test_every_value_of_a_sample_counts(tmp_path):
    samples = X.astype(np.float32)
    np.save(tmp_path / "X.npy", samples)
    same = [samples, np.load(tmp_path / "X.npy", mmap_mode="r"), np.asfortranarray(samples)]
    assert len({name_of(each) for each in same}) == 1
    changed = samples.copy()
    changed[7, 1] += 1e-6
    others = [samples.astype(np.float64), samples[::-1], samples, changed]
    assert len({name_of(each) for each in others} | {name_of(samples[:-1], y[:-1]), name_of(samples, 1 - y)}) == 6


def test_sparse_targets_count_by_their_values():
    tags = sparse.csr_array(np.eye(4)[np.arange(20) % 4])
    changed = tags.copy()
    changed.indices[:2] = changed.indices[1::-1]
    assert name_of(y=tags) == name_of(y=tags.tocoo()) != name_of(y=changed)


def test_a_dataset_is_what_it_declares():
    def make(X, **attributes):
        dataset = Dataset(X.astype(np.float32), np.arange(len(X)) % 2)
        vars(dataset).update(attributes)
        return dataset

    assert name_of(make(X)) == name_of(make(X.copy())) != name_of(make(X + 1))
    opened = {"file": threading.Lock()}  # cannot be identified: its class and shape are compared alone
    first = name_of(make(X, **opened), y)
    assert first == name_of(make(X + 1, **opened), y) != name_of(make(X[1:], **opened), y[1:])


def test_differences_are_told(tmp_path):
    options = {"n_epochs": 1, "batch_size": 20, "checkpoint": tmp_path, "random_state": 0}
    TALRHasher(4, **options).fit(X, y)
    with pytest.warns(UserWarning, match="starts from scratch") as caught:
        TALRHasher(4, **options, augment=keep, alpha=0.3).fit(X, 1 - y, resume=True)
    for clause in (
        "`alpha` is 1.0 in the checkpoint and 0.3 here",
        "`augment` is None in the checkpoint and tests.persistence.test_identity.keep here",
        "`y` (int64 of shape (20,)) has other values",
    ):
        assert clause in str(caught[0].message)
