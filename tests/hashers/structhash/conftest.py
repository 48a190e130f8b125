"""Fits that several files of this folder share."""

import functools

import pytest
from sklearn.utils import Bunch


@pytest.fixture(scope="session")
def few(digits):
    """80 digits to learn from and 60 to query with."""
    return Bunch(X=digits.X[:80], y=digits.y[:80], X_query=digits.X_query[:60], y_query=digits.y_query[:60])


@pytest.fixture(scope="session")
def fitted(few):
    """Four bits of a hasher with hash functions of a family, fitted once."""
    return functools.cache(lambda make, family: make(hash_function=family).fit(few.X, few.y))
