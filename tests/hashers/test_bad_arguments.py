"""Bad arguments of the methods of hashers: one error names what is wrong, before any work.

Two walks: over the parameters of all hashers, and over the methods that take samples. Targets: test_bad_targets.py.
"""

import inspect
import re

import numpy as np
import pytest
import torch
from _helpers import assert_refused
from sklearn.exceptions import NotFittedError

import skhash
from skhash import LSHHasher, TALRHasher
from skhash.affinity import ClassAffinity
from skhash.registry import HASHERS

X = np.random.default_rng(0).normal(size=(20, 5))
y = np.arange(20) % 2
nan, inf = np.nan, np.inf

#: values that no parameter of a type takes, by a word of its annotation
NO_PARAMETER = {
    "int": [True, 2.5, "no such name", (8,), nan, 0, -3],
    "float": [True, "no such name", (8,), nan, -3],
    "bool": ["no such name", 2.5, (8,), nan],
    "Literal": ["no such name", 2.5, (8,), nan],
    "str": [2.5, (8,), nan],
    "tuple": [True, 2.5, "no such name", nan, 0, -3],
}
#: the same by the name of a parameter, beside those of its type
NO_VALUE = {
    "nbits": ["32", None, 65_537, 100_000, np.True_],
    "affinity": ["labels", ClassAffinity],
    "random_state": ["a", 2.5],
    "store_database": [2, None],
    "device": ["gpu"],
    "backbone": ["vit", "resnet", torch.nn.Linear],
    "augment": [3],
    "batch_size": [1],
    "learning_rate": [0.0, inf],
    "lr_schedule": [None],
    "input_dropout": [1.0],
    "validation_fraction": [1.0],
    "prefixes": [(8, 8), (0,), (2.5,), np.array([8, 16])],
}


def bad_values(name, annotation):
    """What a parameter must refuse: what no part of its annotation takes, and its own values."""
    several = [values for kind, values in NO_PARAMETER.items() if re.search(rf"\b{kind}\b", str(annotation))]
    common = [value for value in several[0] if all(value in values for values in several)] if several else []
    return NO_VALUE.get(name, []) + (common if name != "random_state" else [])


@pytest.mark.parametrize("name", HASHERS)
def test_every_parameter_refuses_what_it_does_not_take(name):
    Hasher = getattr(skhash, name)
    for parameter, given in inspect.signature(Hasher).parameters.items():
        values = bad_values(parameter, given.annotation)
        assert len(values) > 1 or parameter == "hash_function"
        for value in values:
            hasher = Hasher(**{parameter: value})
            message = assert_refused(hasher.fit, (X, y))
            assert re.search(rf"(?s)[`']{parameter}[`'].* must be .*Got .* instead|seed a", message), message
            assert not [attribute for attribute in vars(hasher) if attribute.endswith("_")]


#: what is no matrix of samples with five features
NO_SAMPLES = {
    "none": None,
    "text": "a",
    "number": 3,
    "dict": {"a": 1},
    "set": {1, 2},
    "vector": X[0],
    "three axes": X[None],
    "no axis": np.array(1.0),
    "no sample": X[:0],
    "ragged": [[0, 1], [1]],
    "NaN": X * nan,
    "infinite": np.full_like(X, inf),
    "complex": X.astype(complex),
    "dates": X.astype("datetime64[s]"),
    "texts": [["a"] * 5] * 20,
    "nothing": [[None] * 5] * 20,
    "objects": [object()] * 20,
}
fitted = LSHHasher(4, random_state=0).fit(X, y)
unfitted = LSHHasher(4), TALRHasher(4, n_epochs=1)
#: methods that take samples
METHODS = {
    **{f"{type(hasher).__name__}.fit": lambda X, hasher=hasher: hasher.fit(X, y) for hasher in unfitted},
    **{name: getattr(fitted, name) for name in ("transform", "encode", "project")},
    "score": lambda X: fitted.score(X, y),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("samples", NO_SAMPLES)
def test_methods_name_what_are_no_samples(method, samples):
    assert_refused(METHODS[method], (NO_SAMPLES[samples],))


@pytest.mark.parametrize("method", ["transform", "encode", "project", "score"])
def test_methods_take_the_features_of_fit(method):
    assert re.search("X has 2 features, but LSHHasher is expecting 5", assert_refused(METHODS[method], (X[:, :2],)))


@pytest.mark.parametrize("hasher", unfitted, ids=lambda hasher: type(hasher).__name__)
def test_fit_takes_two_samples_with_a_feature(hasher):
    assert "1 sample(s)" in assert_refused(hasher.fit, (X[:1], y[:1]))
    assert "0 feature(s)" in assert_refused(hasher.fit, (X[:, :0], y))
    assert_refused(hasher.fit, ((row for row in X), y))


@pytest.mark.parametrize("name", HASHERS)
def test_methods_say_that_a_hasher_is_not_fitted(name):
    hasher = getattr(skhash, name)()
    for method, arguments in {"transform": (X,), "encode": (X,), "project": (X,), "score": (X, y)}.items():
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(hasher, method)(*arguments)


def test_a_parameter_of_another_name_is_refused():
    assert_refused(fitted.set_params, ({"nbit": 3},))
