"""Plain arrays pass as they are, with the outcome that they have after scikit-learn's validation."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skhash import ITQHasher, LSHHasher, TALRHasher

rng = np.random.default_rng(0)
X, y = rng.standard_normal((60, 8)), np.arange(60) % 3
IMAGES = rng.standard_normal((60, 8, 9, 9))
FITS = {
    "itq": lambda: ITQHasher(4, random_state=0).fit(X),
    "lsh": lambda: LSHHasher(4, random_state=0).fit(X),
    "linear": lambda: TALRHasher(4, n_epochs=1, random_state=0).fit(X, y),
    "mlp": lambda: TALRHasher(4, n_epochs=1, backbone="mlp", random_state=0).fit(X, y),
    "images": lambda: TALRHasher(4, n_epochs=1, random_state=0).fit(IMAGES, y),
    "names": lambda: ITQHasher(4, random_state=0).fit(pd.DataFrame(X, columns=list("abcdefgh"))),
}
NAN, INFINITE, LARGE = X.copy(), X.astype(np.float32), X.copy()
NAN[3, 2], INFINITE[3, 2], LARGE[0, 0] = np.nan, -np.inf, 1e31
GIVEN = {
    "float64": X,
    "float32": X.astype(np.float32),
    "one": X[:1],
    "a view": X[::2],
    "columns first": np.asfortranarray(X),
    "float16": X.astype(np.float16),
    "other bytes": X.astype(">f8"),
    "integers": (10 * X).astype(int),
    "images": IMAGES,
    "no samples": X[:0],
    "one axis": X[0],
    "fewer features": X[:, 1:],
    "more features": np.hstack([X, X]),
    "NaN": NAN,
    "infinite": INFINITE,
    "large": LARGE,
}


@cache
def fitted(name):
    return FITS[name]()


def outcome(method, samples):
    """What a method returns or raises, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = method(samples)
        except (TypeError, ValueError) as error:
            found = repr(error)
    return found, [str(warning.message) for warning in caught]


class Validated(np.ndarray):
    """An array that is not plain, so that scikit-learn validates it."""


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", FITS)
def test_the_outcome_is_that_of_scikit_learns_validation(name, given):
    project, samples = fitted(name).project, GIVEN[given]
    found, warned = outcome(project, samples)
    expected, warned_before = outcome(project, samples.view(Validated))
    assert type(found) is type(expected)
    assert warned == warned_before
    assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["itq", "linear", "mlp"])
@pytest.mark.parametrize("given", ["float64", "float32", "one"])
def test_a_plain_array_is_not_validated_by_scikit_learn(name, given, monkeypatch):
    hasher, samples = fitted(name), GIVEN[given]
    bits = hasher.transform(samples.tolist())
    monkeypatch.delattr("sklearn.utils.validation.check_array")  # not needed
    assert_array_equal(hasher.transform(samples), bits)
    with pytest.raises(NameError, match="check_array"):
        hasher.transform(samples.view(Validated))
