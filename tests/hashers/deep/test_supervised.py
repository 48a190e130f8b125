"""What the supervised deep hashers have in common: they learn, for classes and labels, with any backbone."""

import numpy as np
import pytest
from sklearn.utils import get_tags

import skhash
from skhash import ITQHasher
from skhash.hashers.deep import DeepHasher

HASHERS = [getattr(skhash, name) for name in skhash.hashers.__all__]
HASHERS = [cls for cls in HASHERS if issubclass(cls, DeepHasher) and get_tags(cls()).target_tags.required]
OWN_TESTS = ("HashNetHasher", "TALRHasher")  # their test files show that they learn, and they take longest
every_hasher = pytest.mark.parametrize(
    "Hasher",
    [
        cls
        for cls in HASHERS
        if issubclass(cls, DeepHasher) and get_tags(cls()).target_tags.required and cls.__name__ not in OWN_TESTS
    ],
)


@pytest.fixture(scope="module")
def itq_score(digits):
    itq = ITQHasher(16, random_state=0).fit(digits.X, digits.y)
    return itq.score(digits.X_query, digits.y_query)


@every_hasher
def test_learns_digits_better_than_itq(digits, itq_score, Hasher):
    hasher = Hasher(16, n_epochs=40, random_state=0).fit(digits.X, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) > itq_score + 0.05
    assert hasher.history_[-1]["loss"] < hasher.history_[0]["loss"]


@every_hasher
def test_learns_with_hidden_layers(digits, Hasher):
    hasher = Hasher(16, backbone="mlp", n_epochs=8, batch_size=100, random_state=0).fit(digits.X, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) > 0.6


@every_hasher
def test_learns_with_sgd(digits, Hasher):
    hasher = Hasher(16, optimizer="sgd", n_epochs=12, batch_size=100, random_state=0).fit(digits.X, digits.y)
    assert hasher.score(digits.X_query, digits.y_query) > 0.55


@every_hasher
def test_learns_several_labels(digits, Hasher):
    y = np.column_stack([digits.y % 2, digits.y < 5, digits.y > 2]).astype(int)
    hasher = Hasher(16, n_epochs=6, batch_size=100, random_state=0).fit(digits.X, y)
    untrained = ITQHasher(16, random_state=0).fit(digits.X, y)
    assert hasher.score(digits.X, y) > untrained.score(digits.X, y)
