"""Bi-half codes: halves of a batch against sorting by hand, the loss against loops, and the paper's gradient."""

import numpy as np
import pytest
import torch
from _helpers import Given, cosine, draw, mean, objective_of

from skhash import BiHalfHasher

N, NBITS, GAMMA = 6, 4, 6.0


def halves(u):
    """Codes of a batch, one bit at a time, by sorting its samples."""
    codes = np.full(u.shape, -1.0)
    for k in range(u.shape[1]):
        largest_first = sorted(range(len(u)), key=lambda i: -u[i, k].item())
        codes[largest_first[: (len(u) + 1) // 2], k] = 1
    return codes


def loss_of(u, X, gamma=GAMMA):
    return objective_of(BiHalfHasher, quantization_weight=gamma)(Given(u), X, None, np.arange(len(X)))


@pytest.mark.parametrize("n", [1, 2, 5, N])
def test_each_bit_halves_the_batch(n):
    u = draw(n, NBITS, seed=n) + 3  # all signs are 1
    codes = objective_of(BiHalfHasher).binarize(u)
    np.testing.assert_array_equal(codes, halves(u))
    assert set(codes.sum(0).tolist()) == {n % 2}


def test_equal_activations_are_halved_in_their_order():
    codes = objective_of(BiHalfHasher).binarize(torch.zeros(4, 1))
    assert codes.flatten().tolist() == [1, 1, -1, -1]


def test_the_loss_is_the_loop_over_pairs():
    u, X = draw(N, NBITS, seed=4), draw(N, 3, seed=5) + 3
    codes, samples = halves(u), X.tolist()
    center = [mean(column) for column in zip(*samples, strict=True)]
    centered = [[x - m for x, m in zip(sample, center, strict=True)] for sample in samples]
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j]
    expected = mean((cosine(codes[i], codes[j]) - cosine(centered[i], centered[j])) ** 2 for i, j in pairs)
    expected += GAMMA / 2 * mean((np.asarray(u) - codes).flatten() ** 2)
    assert loss_of(u, X).item() == pytest.approx(expected, abs=1e-12)


def test_the_gradient_is_that_of_the_paper():
    u, X = draw(N, NBITS, seed=6).requires_grad_(), draw(N, 3, seed=7)
    codes = torch.from_numpy(halves(u)).requires_grad_()
    centered = torch.nn.functional.normalize(X - X.mean(0))
    squares = (codes @ codes.T / NBITS - centered @ centered.T) ** 2
    of_codes = torch.autograd.grad(squares.fill_diagonal_(0).sum() / (N * (N - 1)), codes)[0]
    expected = of_codes + GAMMA * (u - codes) / u.numel()
    torch.testing.assert_close(torch.autograd.grad(loss_of(u, X), u)[0], expected)


def test_bits_of_the_training_samples_are_nearly_balanced(digits):
    X = digits.X + 50  # far from the origin
    bits = BiHalfHasher(16, n_epochs=20, random_state=0).fit_transform(X)
    assert abs(bits.mean(axis=0) - 0.5).max() < 0.1
