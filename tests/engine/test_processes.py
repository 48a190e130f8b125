"""What processes that train together agree on, with the other processes played by the test."""

import numpy as np
import pytest
import torch
from _helpers import quick
from torch import nn

from skhash.engine import Encoder, runtime, training
from skhash.engine.runtime import seeded
from skhash.engine.training import _Gather, _with_own_draws
from skhash.hashers.deep import checkpoints

CPU = torch.device("cpu")


def play(monkeypatch, rank, n=2):
    """Be one of `n` processes."""
    monkeypatch.setattr(runtime, "n_processes", lambda: n)
    monkeypatch.setattr(runtime.dist, "get_rank", lambda: rank)


def test_the_first_process_calls_and_the_others_get_its_value_or_its_error(monkeypatch):
    sent, calls = [], []

    def broadcast(values, src):
        if runtime.is_first():
            sent[:] = values
        values[:] = sent

    monkeypatch.setattr(runtime.dist, "broadcast_object_list", broadcast)
    for rank in (0, 1):
        play(monkeypatch, rank)
        assert runtime.call_in_first(lambda: calls.append(1) or 5) == 5
    for rank in (0, 1):
        play(monkeypatch, rank)
        with pytest.raises(ZeroDivisionError):
            runtime.call_in_first(lambda: 1 / 0)
    for rank in (0, 1):
        play(monkeypatch, rank)
        assert runtime.from_first(rank) == 0
    assert calls == [1]


def test_only_the_first_process_writes_checkpoints(monkeypatch, digits, tmp_path):
    monkeypatch.setattr(checkpoints, "is_first", lambda: False)
    quick("HashNetHasher", checkpoint=tmp_path).fit(digits.X[:50], digits.y[:50])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [({"y": 1}, "y"), ({"X": 1}, "X"), ({"n": 1}, "X, n_samples, y"), ({"learning_rate": 1}, "learning_rate")],
)
def test_processes_with_other_data_or_parameters_are_named(monkeypatch, digits, change, named):
    other = None

    def gather(identity):
        return [identity, other or identity]

    monkeypatch.setattr(checkpoints, "n_processes", lambda: 2)
    monkeypatch.setattr(checkpoints, "gather", gather)
    hasher = quick("HashNetHasher", learning_rate=0.1).fit(digits.X[:50], digits.y[:50])
    changed = quick("HashNetHasher", learning_rate=0.1 + change.get("learning_rate", 0))
    changed.settings_ = hasher.settings_ | {"learning_rate": changed.learning_rate}
    n = 50 - change.get("n", 0)
    found = []
    monkeypatch.setattr(checkpoints, "gather", lambda identity: found.append(identity) or [identity])
    checkpoints.check_same_training(changed, digits.X[:n] + change.get("X", 0), digits.y[:n] + change.get("y", 0))
    (other,) = found
    monkeypatch.setattr(checkpoints, "gather", gather)
    with pytest.raises(ValueError, match=f"Process 1 differs from process 0 in: {named}"):
        checkpoints.check_same_training(hasher, digits.X[:50], digits.y[:50])


def test_what_a_backbone_draws_differs_between_processes_and_leaves_them_together():
    X = torch.ones(4, 8)
    noisy, quiet = nn.Dropout(0.5), nn.Identity()
    outcomes = []
    for rank in (0, 1):
        with seeded(0, CPU):
            outputs = [_with_own_draws(noisy, X, rank) for _ in range(2)]
            outcomes.append((outputs, torch.rand(3)))
    (first, after), (second, same) = outcomes
    assert torch.equal(after, same)
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[0], first[1])
    with seeded(0, CPU):
        expected = torch.rand(3)
    with seeded(0, CPU):
        assert torch.equal(_with_own_draws(quiet, X, 1), X)
        assert torch.equal(torch.rand(3), expected)  # nothing was drawn


def test_gathered_outputs_and_their_gradients(monkeypatch):
    parts = [torch.arange(6.0).reshape(3, 2), 10 + torch.arange(4.0).reshape(2, 2)]

    def all_gather(found, own):
        for place, part in zip(found, parts, strict=True):
            place[: len(part)] = part

    monkeypatch.setattr(training.dist, "all_gather", all_gather)
    own = parts[1].clone().requires_grad_()
    gathered = _Gather.apply(own, [3, 2], 1)
    assert torch.equal(gathered, torch.cat(parts))
    (gathered**2).sum().backward()
    assert torch.equal(own.grad, 2 * (2 * own.detach()))  # once per process, which averages them


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4, 4)])
def test_batch_normalization_by_the_moments_of_all_parts(monkeypatch, shape):
    X = torch.from_numpy(np.random.default_rng(0).normal(2, 3, shape)).float()
    plain, shared = (nn.BatchNorm1d(3) if len(shape) == 2 else nn.BatchNorm2d(3) for _ in range(2))
    monkeypatch.setattr(training.dist, "all_reduce", lambda values: None)  # the only process: the sums are its own
    divided = training._DividedBackbone(shared)
    divided.is_dividing = True
    given, same = X.clone().requires_grad_(), X.clone().requires_grad_()
    torch.testing.assert_close(shared(same), plain(given))
    (plain(given) ** 3).sum().backward()
    (shared(same) ** 3).sum().backward()
    torch.testing.assert_close(same.grad, given.grad, atol=1e-4, rtol=1e-4)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(shared.state_dict()[name], value)
    shared.eval()
    plain.eval()
    torch.testing.assert_close(shared(X), plain(X))


def test_one_process_shares_nothing():
    encoder = Encoder(4, 3, "mlp")
    loss = training.shared_loss(encoder, nn.Identity())
    assert encoder.run_backbone is None
    assert (loss.func.__class__, loss.args) == (nn.Identity, (encoder,))
