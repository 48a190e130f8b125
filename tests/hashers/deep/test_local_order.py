"""Local batches: a permutation whose batches are cells, at any size."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skhash.hashers.deep._local_order import local_order


@pytest.mark.parametrize(("n", "size"), [(1, 3), (9, 3), (10, 3), (64, 7), (65, 64), (200, 8)])
def test_batches_on_a_line_are_intervals(n, size):
    rng = np.random.default_rng(n)
    values = rng.permutation(n).astype(float)
    order = local_order(values[:, None], size, rng)
    assert_array_equal(np.sort(order), np.arange(n))
    for start in range(0, n, size):
        batch = np.sort(values[order[start : start + size]])
        assert_array_equal(batch, batch[0] + np.arange(len(batch)))


def test_samples_of_a_batch_are_near_each_other():
    X = np.random.default_rng(0).normal(size=(4000, 4))
    orders = [local_order(X, 100, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert_array_equal(orders[0], orders[1])
    assert (orders[0] != orders[2]).any()
    assert X[orders[0]].reshape(40, 100, 4).var(1).mean() < 0.6 * X.var(0).mean()


def test_equal_samples():
    order = local_order(np.zeros((50, 2)), 8, np.random.default_rng(0))
    assert_array_equal(np.sort(order), np.arange(50))
