"""Plain arrays pass as they are; everything else is validated by scikit-learn, with the same outcome."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from skhash import ITQHasher, LSHHasher, TALRHasher, base
from skhash._validation import check_values, is_plain
from skhash.hashers.deep import _base

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
    "a masked array": np.ma.masked_array(X),
    "a list": X.tolist(),
    "a frame": pd.DataFrame(X, columns=list("abcdefgh")),
    "other names": pd.DataFrame(X),
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


def outcome(function, *args):
    """What a function returns or raises, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = function(*args)
        except (TypeError, ValueError) as error:
            found = repr(error)
    return found, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", FITS)
def test_the_outcome_is_that_of_scikit_learns_validation(name, given):
    hasher, samples = fitted(name), GIVEN[given]
    found, warned = outcome(hasher._validate_samples, samples)
    expected, warned_before = outcome(lambda: check_values(hasher._check_input(samples, reset=False)))
    assert type(found) is type(expected)
    assert warned == warned_before
    assert_array_equal(found, expected)
    assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)
    if is_plain(samples, hasher):
        assert found is expected is samples


@pytest.mark.parametrize("name", ["itq", "linear", "mlp"])
@pytest.mark.parametrize("given", ["float64", "float32", "one"])
def test_a_plain_array_is_not_validated_by_scikit_learn(name, given, monkeypatch):
    hasher, samples = fitted(name), GIVEN[given]
    bits = hasher.transform(samples.tolist())
    for module in (base, _base):
        monkeypatch.delattr(module, "validate_data")  # not needed
    assert_array_equal(hasher.transform(samples), bits)


def test_a_hasher_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError, match="ITQHasher"):
        ITQHasher()._validate_samples(X)
