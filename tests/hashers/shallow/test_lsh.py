"""LSH: the probability of collisions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skhash import LSHHasher


def angles(X):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    return np.arccos(np.clip(unit @ unit.T, -1, 1))


def test_lsh_collides_with_the_probability_of_the_angle():
    nbits = 4000
    X = np.random.default_rng(0).normal(size=(40, 6))
    X -= X.mean(axis=0)
    bits = LSHHasher(nbits=nbits, random_state=0).fit(X).transform(X).astype(float)
    agreement = 1 - np.mean(bits[:, None] != bits[None], axis=2)
    expected = 1 - angles(X) / np.pi
    error = np.sqrt(expected * (1 - expected) / nbits)
    pairs = np.triu_indices(len(X), k=1)
    assert (np.abs(agreement - expected)[pairs] < 5 * error[pairs]).all()
    assert np.mean(np.abs(agreement - expected)[pairs] < error[pairs]) == pytest.approx(0.68, abs=0.15)


@pytest.mark.filterwarnings("ignore:The codes of 1000")
def test_the_mean_of_float32_samples_is_summed_in_double_precision():
    X = np.full((300_000, 2), 0.1, dtype=np.float32)
    assert_allclose(LSHHasher(nbits=1, store_database=False, random_state=0).fit(X).mean_, 0.1, rtol=1e-6)
