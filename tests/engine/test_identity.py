"""What identifies a training: equal for equal meaning, in any process, and another one for each difference."""

import functools
import threading
from types import ModuleType

import numpy as np
import pytest
import torch
from _helpers import Dataset
from scipy import sparse

from skhash.engine import DatasetArray, Identity, fingerprint
from skhash.engine import _digest as digests

X = np.arange(12.0).reshape(4, 3)
SCALE = 2


def identity(value, X=X, y=None):
    return fingerprint({"value": value}, X, y)


def scaled(x):
    return SCALE * x


def twice(x):
    return scaled(x)


def countdown(n):
    return n and countdown(n - 1)


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


def make_class(text):
    names = {}
    exec(text, names)
    return names["Made"]


def with_default(n):
    def function(x, n=n, *, m=0):
        return x + n + m

    return function


def in_closure(value):
    return lambda x: value * x


MAKERS = {
    "numbers": lambda n: n,
    "constants": lambda n: [lambda x: x + 1, lambda x: x + 2][n],
    "names": lambda n: [lambda x: x.real, lambda x: x.imag][n],
    "inner functions": lambda n: [
        lambda x: [(lambda y: y + 1)(z) for z in x],
        lambda x: [(lambda y: y + 2)(z) for z in x],
    ][n],
    "default values": with_default,
    "closures": in_closure,
    "closures in closures": lambda n: in_closure(in_closure(n)),
    "functools.partial": lambda n: functools.partial(scaled, n),
    "partial of lambdas": lambda n: functools.partial([lambda x: x, lambda x: -x][n]),
    "bound methods": lambda n: Affinity(n).method,
    "callable objects": Affinity,
    "code of classes": lambda n: make_class(f"class Made:\n    def __call__(self, x):\n        return x + {n}")(),
    "attributes of classes": lambda n: make_class(f"class Made:\n    requires_y = {bool(n)}"),
    "properties": lambda n: make_class(f"class Made:\n    @property\n    def a(self):\n        return {n}")(),
    "attributes of functions": lambda n: vars(f := in_closure(0)).update(requires_y=n) or f,
    "cached functions": lambda n: functools.lru_cache(in_closure(n)),
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
    "functions": lambda n: with_attribute(torch.nn.Linear(2, 2), [torch.relu, torch.tanh][n]),
    "hooks": lambda n: with_hook(torch.nn.Linear(2, 2), [lambda *a: None, lambda *a: a[-1] + 1][n]),
    "buffers": lambda n: with_buffer(torch.nn.Linear(2, 2), n),
    "order": lambda n: torch.nn.Sequential(*[torch.nn.ReLU(), torch.nn.Tanh()][:: 1 - 2 * n]),
}


def with_attribute(module, value):
    module.activation = value
    return module


def with_hook(module, hook):
    module.register_forward_hook(hook)
    return module


def with_buffer(module, value):
    module.register_buffer("kept", torch.tensor(value), persistent=False)
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
        assert identity(make(0)) == identity(make(0))
        assert identity(make(0)) != identity(make(1))
        assert identity([make(0)]) != identity([make(1)])  # also inside of other values


def test_globals_of_functions_count(monkeypatch):
    before, others = identity(twice), identity(countdown)
    monkeypatch.setitem(globals(), "SCALE", 3)
    assert identity(twice) != before
    assert identity(countdown) == others


def test_a_global_after_a_module_of_the_user_counts(monkeypatch):
    module = ModuleType("my_module")  # not installed anywhere
    module.depth = 3
    monkeypatch.setitem(globals(), "OWN_MODULE", module)
    monkeypatch.setitem(globals(), "SCALE", 2)
    functions = (lambda: (OWN_MODULE, SCALE)), (lambda: (OWN_MODULE.depth, SCALE))  # noqa: F821
    before = [identity(function) for function in functions]
    monkeypatch.setitem(globals(), "SCALE", 3)
    after = [identity(function) for function in functions]
    assert all(one != other for one, other in zip(before, after, strict=True))
    module.depth = 4
    assert identity(functions[1]) != after[1]


def test_what_has_no_influence_does_not_count():
    first, second = eval("lambda x: x + 1"), eval("\n\nlambda x: x + 1")  # on other lines
    assert identity(first) == identity(second)
    assert identity(0.5) == identity(np.float64(0.5))
    assert identity(np.ones((3, 2))) == identity(np.ones((3, 2), order="F"))
    module = torch.nn.Linear(2, 2)
    assert identity(module) == identity(module.eval())


def test_values_that_contain_themselves():
    first, second = [1], [1]
    first.append(first)
    second.append(second)
    assert identity(first) == identity(second)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TypeError, match="nested too deeply"):
        identity(deep)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (threading.Lock(), ""),
        ((x for x in "abc"), ""),
        (in_closure(threading.Lock()), " at `value.value`"),
        (functools.partial(scaled, threading.Lock()), r" at `value\[1\]\[0\]`"),
        (Affinity(threading.Lock()), " at `value.n`"),
        (with_attribute(torch.nn.Linear(2, 2), threading.Lock()), " at `value.activation`"),
        (torch.zeros(2, 2).to_sparse(), ""),
    ],
)
def test_what_cannot_be_identified_is_named(value, place):
    with pytest.raises(
        TypeError, match=f"`value` must be identifiable when `checkpoint` is set.* Got a .*{place} instead"
    ):
        identity(value)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_scripted_modules():
    module = torch.nn.Linear(2, 2)
    first, again, other = map(torch.jit.script, (module, module, torch.nn.Linear(2, 2)))
    assert identity(first) == identity(again)
    assert identity(first) != identity(other)


@pytest.mark.parametrize("step", [1, 5, 2**23])
def test_every_value_of_a_sample_counts_in_slices_of_any_size(step, tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "N_SLICE_BYTES", step)
    samples = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    np.save(tmp_path / "X.npy", samples)
    same = [samples, np.load(tmp_path / "X.npy", mmap_mode="r"), np.asfortranarray(samples)]
    assert len({identity(0, X) for X in same}) == 1
    changed = samples.copy()
    changed[7, 1] += 1e-6
    assert identity(0, changed).differences(identity(0, samples)) == ["`X` (float32 of shape (20, 3)) has other values"]
    others = [samples.astype(np.float64), samples.reshape(20, 3, 1), samples[:-1], samples[::-1]]
    assert len({identity(0, X) for X in (*others, samples, changed)}) == 6


def test_sparse_targets_count_by_their_values():
    y = sparse.random_array((50, 8), density=0.2, rng=0, format="csr")
    unsorted = y[:, ::-1][:, ::-1].tocsr()
    explicit = y.copy()
    explicit.data[0] = 0
    assert identity(0, y=y) == identity(0, y=unsorted) == identity(0, y=y.tocoo())
    assert identity(0, y=explicit) != identity(0, y=y)
    assert identity(0, y=y.toarray()) != identity(0, y=y)


def test_a_dataset_is_what_it_declares():
    def make(X, **attributes):
        dataset = Dataset(X.astype(np.float32), np.arange(len(X)))
        vars(dataset).update(attributes)
        return DatasetArray(dataset)

    assert identity(0, make(X)) == identity(0, make(X.copy()))
    assert identity(0, make(X)) != identity(0, make(X + 1))
    opened = {"file": threading.Lock()}  # cannot be identified: its class and shape are compared alone
    assert identity(0, make(X, **opened)) == identity(0, make(X + 1, **opened))
    assert identity(0, make(X, **opened)) != identity(0, make(X[1:], **opened))


def test_differences_are_told():
    there = fingerprint({"a": 1, "b": "x", "c": scaled, "old": 1}, X, None)
    here = fingerprint({"a": 2, "b": "y" * 200, "c": in_closure(1), "new": 1}, X, np.arange(4))
    clauses = here.differences(there)
    assert clauses[0] == "`a` is 1 in the checkpoint and 2 here"
    assert clauses[1].startswith("`b` is 'x' in the checkpoint and 'yyy")
    assert len(clauses[1]) < 120
    assert clauses[3:] == [
        "`new` is known here only",
        "`y` is None in the checkpoint and int64 of shape (4,) here",
        "`old` is known in the checkpoint only",
    ]
    assert there.differences(there) == []
    assert len(there.name) == 16
    assert Identity(there.entries[:-1]).name != there.name
