"""Local batches: every sample in one of them, each of them a cell, at any size."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skhash.hashers.deep.embedding import local_batches


@pytest.mark.parametrize(("n", "n_batches"), [(1, 1), (9, 3), (10, 3), (64, 9), (65, 2), (200, 25)])
def test_batches_on_a_line_are_intervals_of_nearly_the_same_size(n, n_batches):
    rng = np.random.default_rng(n)
    values = rng.permutation(n).astype(float)
    batches = local_batches(values[:, None], n_batches, rng)
    assert_array_equal(np.sort(np.concatenate(batches)), np.arange(n))
    assert {len(batch) for batch in batches} <= {n // n_batches, -(-n // n_batches)}
    for batch in (np.sort(values[batch]) for batch in batches):
        assert_array_equal(batch, batch[0] + np.arange(len(batch)))


def test_samples_of_a_batch_are_near_each_other():
    X = np.random.default_rng(0).normal(size=(4000, 4))
    first, again, other = (local_batches(X, 40, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert_array_equal(first, again)
    assert (np.array(first) != np.array(other)).any()
    assert X[np.array(first)].var(1).mean() < 0.6 * X.var(0).mean()


def test_equal_samples():
    batches = local_batches(np.zeros((50, 2)), 6, np.random.default_rng(0))
    assert_array_equal(np.sort(np.concatenate(batches)), np.arange(50))
