"""Unsupervised Greedy Hash: its loss against loops over pairs, gradients through the sign."""

import numpy as np
import pytest
import torch
from _helpers import Given, cosine, draw, mean, objective_of
from torch import nn

from skhash import UnsupervisedGreedyHashHasher

N, NBITS, WEIGHT = 6, 4, 0.3


def loss_of(u, X, weight=WEIGHT):
    return objective_of(UnsupervisedGreedyHashHasher, quantization_weight=weight)(Given(u), X, None, np.arange(len(X)))


@pytest.mark.parametrize("shape", [(N, 3), (N, 1, 2, 2)], ids=["vectors", "images"])
def test_the_loss_is_the_loop_over_pairs(shape):
    u, X = 1.5 * draw(N, NBITS, seed=4), draw(*shape, seed=5) + 3
    codes = [[1.0 if a >= 0 else -1.0 for a in row] for row in u.tolist()]
    samples = X.flatten(1).tolist()
    center = [mean(column) for column in zip(*samples, strict=True)]
    centered = [[x - m for x, m in zip(sample, center, strict=True)] for sample in samples]
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j]
    expected = mean((cosine(codes[i], codes[j]) - cosine(centered[i], centered[j])) ** 2 for i, j in pairs)
    expected += WEIGHT * mean(abs(abs(a) - 1) ** 3 for row in u.tolist() for a in row)
    assert loss_of(u, X).item() == pytest.approx(expected, abs=1e-12)


def test_gradients_pass_the_sign():
    u, X = draw(N, NBITS, seed=6).requires_grad_(), draw(N, 3, seed=7)
    codes = torch.where(u >= 0, 1.0, -1.0).double().detach().requires_grad_()
    through = torch.autograd.grad(loss_of(u, X, weight=0.0), u)[0]

    def smooth(codes):  # the loss of real codes, without the sign
        cosines = codes @ codes.T / NBITS
        centered = nn.functional.normalize(X - X.mean(0))
        difference = (cosines - centered @ centered.T) * (1 - torch.eye(N, dtype=torch.float64))
        return (difference**2).sum() / (N * (N - 1))

    assert torch.autograd.gradcheck(smooth, (codes,))
    torch.testing.assert_close(through, torch.autograd.grad(smooth(codes), codes)[0])
    objective = objective_of(UnsupervisedGreedyHashHasher, quantization_weight=1.0)
    assert torch.autograd.gradcheck(lambda u: objective.penalty(u - codes.detach()), (u,))


def test_the_loss_does_not_change_with_offset_and_scale_of_the_samples():
    u, X = draw(N, NBITS, seed=1), draw(N, 3, seed=2)
    torch.testing.assert_close(loss_of(u, 7 * X + 100), loss_of(u, X))


def test_equal_and_single_samples_stay_finite():
    for n in (1, 3):
        u = draw(n, NBITS, seed=1).requires_grad_()
        loss = loss_of(u, torch.ones(n, 3, dtype=torch.float64))
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(u.grad).all()
