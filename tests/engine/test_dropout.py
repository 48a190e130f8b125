"""Dropout: which values it drops, what it keeps, and what decides that."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from skhash.engine import seeded
from skhash.engine.layers import Dropout

CPU = torch.device("cpu")


def kept(n, n_features, p, seed=0):
    """Which values of a batch are kept, as 0 and 1."""
    with seeded(seed, CPU):
        return (Dropout(p)(torch.ones(n, n_features)) > 0).double().numpy()


@pytest.mark.parametrize("p", [1 / 256, 0.25, 0.3, 0.9])
def test_drops_each_value_alone_with_the_probability(p):
    n, n_features = 20_000, 13  # two words for each sample
    mask, q = kept(n, n_features, p), 1 - round(256 * p) / 256
    assert (abs(mask.mean(0) - q) < 5 * np.sqrt(q * (1 - q) / n)).all()
    centered = (mask - q) / np.sqrt(q * (1 - q))
    for others in (centered, np.roll(centered, 1, axis=0)):  # other values of a sample, and of the next one
        products = centered.T @ others / n
        if others is centered:
            np.fill_diagonal(products, 0)
        assert abs(products).max() < 6 / np.sqrt(n)


def test_keeps_the_mean_and_centers_before():
    X = torch.from_numpy(np.random.default_rng(0).normal(3, 2, (4, 6)).astype(np.float32))
    mean, scale = X.mean(0), torch.tensor(2.5)
    expected = ((X - mean) / scale).numpy()
    dropout = Dropout(0.25)
    with seeded(0, CPU):
        outputs = dropout(X, mean, scale).numpy()
        assert (outputs == 0).any()
        assert_allclose(outputs[outputs != 0], (expected / 0.75)[outputs != 0], rtol=1e-5)
        total = sum(dropout(X, mean, scale).numpy() for _ in range(4000)) / 4000
    assert_allclose(total, expected, atol=5 * np.abs(expected).max() * np.sqrt(1 / 3 / 4000))
    assert_allclose(dropout.eval()(X, mean, scale), expected, rtol=1e-6)
    for off in (Dropout(0.0), dropout):
        assert off(X) is X


def test_the_derivative_drops_the_same_values():
    X = torch.randn(5, 9, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with seeded(0, CPU):
        outputs = Dropout(0.5)(X)
    (gradient,) = torch.autograd.grad(outputs.sum(), X)
    assert_allclose(gradient, outputs.detach() / X.detach(), rtol=1e-6)


def test_the_global_generator_alone_decides():
    assert (kept(8, 20, 0.5) == kept(8, 20, 0.5)).all()
    assert (kept(8, 20, 0.5) != kept(8, 20, 0.5, seed=1)).any()
    with seeded(0, CPU):
        dropout, X = Dropout(0.5), torch.ones(8, 20)
        assert not torch.equal(dropout(X), dropout(X))


@pytest.mark.parametrize("kind", [{"dtype": torch.float64}, {"dtype": torch.bfloat16}])
def test_other_types_take_the_dropout_of_torch(kind):
    X = torch.ones(4, 6, **kind)
    with seeded(0, CPU):
        outputs = Dropout(0.5)(X)
    with seeded(0, CPU):
        assert torch.equal(outputs, nn.functional.dropout(X, 0.5))
