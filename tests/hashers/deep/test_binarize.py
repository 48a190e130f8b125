"""Signs that gradients pass."""

import math

import torch
from _helpers import CPU, NBITS, draw
from numpy.testing import assert_allclose, assert_array_equal

from skhash.engine import seeded
from skhash.hashers.deep import bernoulli_sign, sign


def test_the_sign_passes_gradients_unchanged():
    h = torch.tensor([-0.5, 0.0, 0.2], requires_grad=True)
    assert_array_equal(sign(h).detach(), [-1, 1, 1])
    (sign(h) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert_array_equal(h.grad, [1, 2, 3])


def test_bits_are_drawn_with_their_probability():
    logits = torch.tensor([-2.0, 0.0, 0.5, 3.0], dtype=torch.float64)
    with seeded(0, CPU):
        codes = bernoulli_sign(logits.expand(20000, 4))
    assert_allclose(codes.abs(), 1.0, rtol=1e-12)
    p = torch.sigmoid(logits)
    assert_allclose(codes.mean(0), 2 * p - 1, atol=4 / math.sqrt(20000))
    assert_allclose(
        (codes * codes.roll(1, dims=1)).mean(0), (2 * p - 1) * (2 * p - 1).roll(1), atol=0.03
    )  # independent


def test_gradients_of_drawn_bits_are_those_of_their_means():
    logits, cotangent = draw(7, NBITS).requires_grad_(), draw(7, NBITS, seed=1)
    (through,) = torch.autograd.grad((bernoulli_sign(logits) * cotangent).sum(), logits)
    (of_mean,) = torch.autograd.grad(((2 * torch.sigmoid(logits) - 1) * cotangent).sum(), logits)
    assert_allclose(through, of_mean, atol=1e-15)
