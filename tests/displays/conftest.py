"""Fitted hashers and results that the tests of displays share."""

import itertools

import matplotlib

matplotlib.use("agg")

import numpy as np
import pytest
from matplotlib import pyplot
from sklearn.utils import Bunch

from skhash import HashNetHasher, ITQHasher, StructHashHasher
from skhash.metrics import relevance_histogram


@pytest.fixture(autouse=True)
def no_figures():
    """Close the figures of a test."""
    yield
    pyplot.close("all")


@pytest.fixture(scope="session")
def digits(digits):
    """200 digits to learn from and 60 queries."""
    return Bunch(X=digits.X[:200], y=digits.y[:200], X_query=digits.X[200:260], y_query=digits.y[200:260])


@pytest.fixture(scope="session")
def itq(digits):
    return ITQHasher(nbits=12, random_state=0).fit(digits.X, digits.y)


@pytest.fixture(scope="session")
def structhash(digits):
    return StructHashHasher(5, n_relevant=5, n_irrelevant=5, n_queries=50, random_state=0).fit(digits.X, digits.y)


@pytest.fixture(scope="session")
def hashnet(digits):
    return HashNetHasher(nbits=4, n_epochs=3, n_stages=3, random_state=0).fit(digits.X, digits.y)


@pytest.fixture(scope="session")
def results():
    """Results of two methods at two numbers of bits with two seeds, as in results.json."""
    rng = np.random.default_rng(0)
    rows = []
    for method, nbits, seed in itertools.product(["itq", "lsh"], [8, 16], [0, 1]):
        worst, ap, best = np.sort(rng.random(3)).tolist()
        rows.append(
            {"dataset": "digits", "protocol": "holdout", "method": method, "nbits": nbits, "seed": seed, "ap": ap}
            | {"ap_worst": worst, "ap_best": best, "ndcg": ap, "precision_radius_2": ap**2, "fit_seconds": 2 * ap}
            | {"parameters": {}, "error": None}
        )
    return rows


@pytest.fixture
def histogram(digits):
    """Function that ranks the training samples for the queries by the codes of a hasher."""

    def rank(hasher, **options):
        codes = hasher.transform(digits.X_query), hasher.transform(digits.X)
        return relevance_histogram(*codes, digits.y_query, digits.y, **options)

    return rank
