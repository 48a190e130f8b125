"""The compiled metrics of a batch, against the definitions on soft counts and against mpmath."""

import mpmath
import numpy as np
import pytest
import torch

from skhash.hashers.deep import _listwise, soft_metric
from skhash.metrics import average_precision, fast_ap, ndcg
from skhash.metrics.soft_histogram import soft_histogram

LANES = _listwise.LANES
METRICS = ("ap", "ndcg", "fast_ap")


def batch(n, nbits, n_levels, slope, seed=0):
    """Soft distances with their activations, and levels of the pairs; nothing is relevant to the first sample."""
    rng = np.random.default_rng(seed)
    phi = torch.tanh(slope * torch.from_numpy(rng.standard_normal((n, nbits)).astype(np.float32))).requires_grad_()
    index = rng.choice(n_levels, (n, n), p=[0.7] + [0.3 / (n_levels - 1)] * (n_levels - 1)).astype(np.uint32)
    index[0] = 0
    np.fill_diagonal(index, 0)
    return phi, nbits / 2 - (phi / 2) @ phi.T, index


def values_and_gradient(values, weights, phi):
    (gradient,) = torch.autograd.grad((values * weights).sum(), phi, retain_graph=True)
    return values.detach().numpy(), gradient.numpy()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("slope", [0.3, 1, 100], ids=["soft", "medium", "whole"])
@pytest.mark.parametrize(("n", "nbits", "n_levels", "n_bins"), [(40, 16, 2, None), (30, 8, 4, 4), (3, 2, 2, 1)])
def test_equals_the_definition(metric, slope, n, nbits, n_levels, n_bins):
    phi, distances, index = batch(n, nbits, n_levels, slope)
    levels = np.arange(n_levels)
    weights = torch.from_numpy(np.random.default_rng(1).standard_normal(n))
    H = soft_histogram(distances, torch.from_numpy(index.astype(np.int64)), levels, max_distance=nbits, n_bins=n_bins)
    expected, expected_gradient = values_and_gradient(soft_metric(H, metric), weights, phi)
    got, is_defined = _listwise.listwise_metric(phi, index, levels, metric, n_bins=n_bins)
    values, gradient = values_and_gradient(got, weights, phi)
    # torch's trigamma, which the definition uses where a tie has nearly one item, is right to 1e-10
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)
    scale = np.abs(expected_gradient).max()
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=1e-6 * scale)
    np.testing.assert_array_equal(is_defined, (index > 0).any(axis=1))


@pytest.mark.parametrize("metric", METRICS)
def test_on_codes_is_the_metric_of_codes(metric):
    phi, distances, index = batch(30, 8, 3, 1e6)
    levels = np.arange(3)
    H = soft_histogram(distances.detach(), torch.from_numpy(index.astype(np.int64)), levels, max_distance=8)
    scored = {"ap": average_precision, "ndcg": ndcg, "fast_ap": fast_ap}[metric]
    values, _ = _listwise.listwise_metric(phi, index, levels, metric)
    expected = scored(type(H)(H.counts.numpy().round().astype(int), levels), average=False, empty="zero")
    np.testing.assert_allclose(values.detach(), expected, atol=1e-9)


def test_the_pole_of_ap_is_smooth():
    """Near one item in a tie, the series and the closed form agree."""
    n, p = np.array([3.0, 1.0, 5.0]), np.array([1.0, 0.6, 2.0])
    results = []
    for step in (-1.001e-3, -0.999e-3, 0.0, 0.999e-3, 1.001e-3):
        totals, ends = np.empty(LANES), np.array([[0, 3 * LANES]])
        lanes = np.repeat(n + np.array([0, step, 0]), LANES), np.repeat(p, LANES)
        _listwise.average_precision_terms(*lanes, ends, totals, np.empty((10, 4 * LANES)))
        results.append([totals[0], *lanes[0][::LANES], *lanes[1][::LANES]])  # replaced by the derivatives
    below, series_below, middle, series_above, above = np.array(results)
    np.testing.assert_allclose(below, series_below, rtol=0, atol=1e-5)
    np.testing.assert_allclose(above, series_above, rtol=0, atol=1e-5)
    np.testing.assert_allclose(series_below + series_above, 2 * middle, rtol=0, atol=1e-5)


@pytest.mark.parametrize("x", [1e-3, 0.5, 1.0, 2.5, 7.999, 8.0, 15.5, 16.0, 31.999, 32.0, 300.25, 1e6])
def test_polygamma(x):
    with mpmath.workdps(40):
        exact = [float(mpmath.polygamma(order, mpmath.mpf(x))) for order in range(5)]
    psi, psi1 = _listwise.digamma_and_trigamma(x)
    np.testing.assert_allclose([psi, psi1], exact[:2], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(_listwise.higher_polygamma(x), exact[2:], rtol=1e-12, atol=0)
