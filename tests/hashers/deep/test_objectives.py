"""What objectives have in common: signs that gradients pass, and the contrast of two views."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from _helpers import CPU, NBITS, digit_images, draw, plain_nt_xent
from numpy.testing import assert_allclose, assert_array_equal

from skhash import CIBHashHasher, NSHHasher
from skhash.engine.runtime import seeded
from skhash.hashers.deep import bernoulli_sign, nt_xent, sign

# --- signs


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


# --- the contrast of two views, against a double loop


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("tau", [0.05, 0.3, 2.0])
def test_nt_xent_is_the_double_loop(n, tau):
    first, second = draw(n, NBITS), draw(n, NBITS, seed=1)
    expected = plain_nt_xent(first.tolist(), second.tolist(), tau)
    assert nt_xent(first, second, tau).item() == pytest.approx(expected, abs=1e-12)


def test_gradients_of_the_contrast():
    f, g = draw(5, NBITS).requires_grad_(), draw(5, NBITS, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda f, g: nt_xent(f, g, 0.3), (f, g))


@pytest.mark.parametrize("Hasher", [CIBHashHasher, partial(NSHHasher, own_view="sorted")])
def test_each_batch_is_augmented_twice(Hasher):
    """Bytes are values in [0, 1] there."""
    X, _ = digit_images(np.uint8, 120)
    seen = []

    def augment(batch):
        seen.append((tuple(batch.shape), batch.min().item(), batch.max().item()))
        return batch + 0.1 * torch.randn_like(batch)

    Hasher(16, augment=augment, n_epochs=1, batch_size=60, random_state=0).fit(X)
    assert len(seen) == 4
    assert all(shape == (60, 1, 8, 8) and low >= 0 and 0.9 < high <= 1 for shape, low, high in seen)


@pytest.mark.parametrize("Hasher", [CIBHashHasher, NSHHasher])
def test_auto_augmentation_needs_vectors_or_images(Hasher):
    with pytest.raises(ValueError, match=r"`augment` must be None or a callable for samples of shape \(8, 8\)"):
        Hasher(16).fit(digit_images(np.float32)[0][:, 0])
