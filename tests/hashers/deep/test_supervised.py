"""What the supervised deep hashers have in common: they learn, for classes and labels, with any backbone."""

import numpy as np
import pytest

from skhash import DHNHasher, DPSHHasher, DTSHHasher, GreedyHashHasher, ITQHasher, MIHashHasher

every_hasher = pytest.mark.parametrize("Hasher", [DHNHasher, DPSHHasher, DTSHHasher, GreedyHashHasher, MIHashHasher])


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
    hasher = Hasher(16, backbone="mlp", n_epochs=5, batch_size=100, random_state=0).fit(digits.X, digits.y)
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
