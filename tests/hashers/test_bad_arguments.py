"""Bad arguments of the methods of hashers: one error names what is wrong."""

import inspect
from typing import get_args

import numpy as np
import pytest
import torch
from _helpers import assert_refused, table_of

import skhash
from skhash import LSHHasher, TALRHasher, affinity
from skhash.hashers import __all__ as hashers

X = np.random.default_rng(0).normal(size=(20, 5))
y = labels = np.arange(20) % 2
nan, inf, ragged = np.nan, np.inf, [[0, 1], [1]]
fitted = LSHHasher(4, random_state=0).fit(X, labels)

#: function, and the bad arguments: positional ones, and a dict of named ones at the end
CASES = {
    fitted.transform: [
        (value,)
        for value in (
            None,
            "a",
            3,
            X[0],
            X[:, :2],
            X * nan,
            np.full_like(X, inf),
            ragged,
            X[:0],
            X.astype(complex),
            [["a"] * 5],
            {"a": 1},
            [[None] * 5],
            X[None],
            np.array(1.0),
        )
    ],
    fitted.encode: [(None,), (X[:, :2],), (X.astype("datetime64[s]"),), ([object()] * 5,)],
    fitted.project: [(None,), (X[:, :2],)],
    fitted.score: [
        (X,),
        (X, labels[:3]),
        (X, ["a"] * 20),
        (X, [None] * 20),
        (None, labels),
        (X, X),
        (X, np.eye(20)),
    ],
    fitted.set_params: [({"nbit": 3},)],
}
for hasher in (LSHHasher(4), TALRHasher(4, n_epochs=1)):
    CASES[hasher.fit] = [
        *[
            (value, labels)
            for value in (None, "a", 3, X[0], X * nan, np.full_like(X, inf), ragged, X[:1], X[:0], X[:, :0])
        ],
        *[
            (value, labels)
            for value in (
                X.astype(complex),
                [["a"] * 5] * 20,
                {"a": 1},
                (row for row in X),
                {1, 2},
                X.astype("datetime64[s]"),
            )
        ],
        *[
            (X, value)
            for value in (labels[:3], [None] * 20, [0, "a"] * 10, [[0], [0, 1]] * 10, "a", 3, {"a": 1}, labels + 1j)
        ],
        *[
            (X, value)
            for value in ([], [nan] * 20, [inf, 1] * 10, np.zeros((20, 2, 2)), [{1}] * 20, (label for label in y))
        ],
    ]
for name, value in [
    ("affinity", "labels"),
    ("affinity", affinity.ClassAffinity),
    ("affinity", 3),
    ("store_database", "yes"),
    ("random_state", "a"),
    ("nbits", [8]),
    ("nbits", nan),
]:
    CASES[LSHHasher(4).set_params(**{name: value}).fit] = [(X, labels)]
    CASES[TALRHasher(4, n_epochs=1).set_params(**{name: value}).fit] = [(X, labels)]
for name, value in [
    ("device", "gpu"),
    ("device", 3),
    ("checkpoint", 3),
    ("optimizer", 3),
    ("backbone", "vit"),
    ("backbone", torch.nn.Linear),
    ("augment", 3),
    ("validation_fraction", 1.0),
    ("input_dropout", 1.0),
    ("input_dropout", True),
    ("lr_schedule", None),
    ("learning_rate", nan),
    ("learning_rate", inf),
    ("objective", 3),
]:
    CASES[TALRHasher(4, n_epochs=1).set_params(**{name: value}).fit] = [(X, labels)]


TABLE = table_of(CASES)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize(("function", "arguments"), TABLE)
def test_bad_arguments_are_named(function, arguments):
    assert_refused(function, arguments)


def test_there_are_many():
    assert len(TABLE) > 100


@pytest.mark.parametrize("name", hashers)
def test_true_is_not_a_number(name):
    """Every parameter that takes a number refuses True, before any work."""
    Hasher = getattr(skhash, name)
    numbers = [
        name
        for name, parameter in inspect.signature(Hasher).parameters.items()
        if {int, float} & {parameter.annotation, *get_args(parameter.annotation)} and name != "random_state"
    ]
    assert "nbits" in numbers
    for parameter in numbers:
        with pytest.raises(ValueError, match=rf"The '{parameter}' parameter of {name} must be .*Got True instead"):
            Hasher(**{parameter: True}).fit(X, labels)
