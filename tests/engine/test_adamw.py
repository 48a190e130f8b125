"""Compiled steps of AdamW, against those of torch."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skhash.engine import training
from skhash.engine.training import stepper


def parameters():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in ((5, 3), (5,), (2,))]


def train(tensors, is_built_in, n_steps=30):
    matrix, bias, unused = tensors
    groups = [{"params": [matrix], "weight_decay": 0.3}, {"params": [bias, unused], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.1, fused=True)
    step = stepper(optimizer, is_built_in)
    X = torch.randn(n_steps, 8, 3, generator=torch.Generator().manual_seed(1))
    for i in range(n_steps):
        matrix.grad = bias.grad = None
        (torch.tanh(X[i] @ matrix.T + bias) ** 3).mean().backward()
        unused.grad = torch.ones(2) if i in (0, 5) else None
        step()
    return optimizer


def test_equals_torch():
    ours, theirs = parameters(), parameters()
    optimizer, expected = train(ours, True), train(theirs, False)
    for got, want in zip(ours, theirs, strict=True):
        assert_allclose(got.detach(), want.detach(), rtol=1e-5, atol=1e-6)
    got, want = (list(other.state_dict()["state"].values()) for other in (optimizer, expected))
    for a, b in zip(got, want, strict=True):
        assert a.keys() == b.keys()
        assert [a[name].dtype for name in a] == [b[name].dtype for name in b]
        assert_array_equal(a["step"], b["step"])
        assert_allclose(a["exp_avg_sq"], b["exp_avg_sq"], rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("reason", ["given", "large", "double"])
def test_other_steps_are_those_of_the_optimizer(monkeypatch, reason):
    if reason == "large":
        monkeypatch.setattr(training, "N_MAX_VALUES", 10)
    values = torch.zeros(11, dtype=torch.float64 if reason == "double" else torch.float32)
    optimizer = torch.optim.AdamW([values])
    assert stepper(optimizer, reason != "given") == optimizer.step


def test_learns():
    target = np.array([3.0, -2.0], dtype=np.float32)
    values = torch.zeros(2, requires_grad=True)
    step = stepper(torch.optim.AdamW([values], lr=0.1, weight_decay=0), True)
    for _ in range(300):
        values.grad = values.detach() - torch.from_numpy(target)
        step()
    assert_allclose(values.detach(), target, atol=0.01)
