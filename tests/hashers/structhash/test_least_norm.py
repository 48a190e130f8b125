"""StructHash: the point of least norm in a polyhedron, against its optimality conditions and closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import nnls

from skhash.hashers.structhash import _least_norm
from skhash.hashers.structhash._least_norm import least_norm_point


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
def test_the_conditions_of_optimality(seed, scale):
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((30, 6))
    h = G @ rng.standard_normal(6) * scale - rng.uniform(0, 0.1 * scale, 30)  # a point satisfies them
    x = least_norm_point(G, h)
    slack = G @ x - h
    assert slack.min() >= -1e-9 * scale
    active = G[slack < 1e-7 * scale]
    assert len(active) > 0
    assert nnls(active.T, x)[1] <= 1e-7 * scale  # x is a sum of active constraints with weights >= 0


def test_zero_if_it_satisfies_all_constraints():
    G = np.random.default_rng(0).standard_normal((4, 3))
    assert_allclose(least_norm_point(G, -np.ones(4)), 0, atol=1e-12)


def test_the_nearest_point_of_a_half_space_and_of_a_corner():
    assert_allclose(least_norm_point(np.array([[3.0, 4.0]]), np.array([10.0])), [1.2, 1.6])
    assert_allclose(least_norm_point(np.eye(2), np.array([2.0, 3.0])), [2, 3])
    assert_allclose(least_norm_point(np.vstack([np.eye(2), np.zeros((1, 2))]), np.array([2.0, 3.0, -1.0])), [2, 3])


def test_none_for_constraints_that_exclude_each_other():
    assert least_norm_point(np.array([[1.0], [-1.0]]), np.array([2.0, -1.0])) is None


def test_none_after_too_many_iterations(monkeypatch):
    def give_up(*_):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(_least_norm, "nnls", give_up)
    assert least_norm_point(np.eye(2), np.ones(2)) is None
