"""Gradients by hand, against those of the graph."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from skhash.engine import ArraySubset, DatasetArray, Encoder, Objective, Schedule, Trainer, seeded
from skhash.engine.training import LinearStep, is_by_hand

CPU = torch.device("cpu")


class Squares(Objective):
    """Mean squared distance of the activations from the targets."""

    def forward(self, encoder, X, targets, indices):
        return ((encoder(X) - torch.from_numpy(targets)) ** 2).mean()


class SquaresByHand(Squares):
    def loss_by_hand(self, outputs, targets):
        distances = outputs - targets
        return float((distances**2).mean()), 2 * distances / distances.size


def train(objective, X, n_epochs=3, optimizer="adam", p=0.3):
    n = len(X)
    targets = np.random.default_rng(1).normal(size=(n, 3)).astype(np.float32)
    with seeded(0, CPU):
        encoder = Encoder(X.shape[1:], 3, input_dropout=p)
        encoder.set_statistics(X)
        schedule = Schedule(n_epochs=n_epochs, batch_size=8, learning_rate=0.03, optimizer=optimizer, weight_decay=0.1)
        trainer = Trainer(encoder, objective, X, targets, schedule, np.random.default_rng(0), CPU)
        losses = [trainer.run_epoch() for _ in range(n_epochs)]
        return trainer, losses, torch.rand(())


def samples(kind):
    X = np.random.default_rng(0).normal(2, 3, size=(25, 7))
    if kind == "far":
        X[:, 2] += 1e9
    if kind == "read only":
        X.flags.writeable = False
    return {
        "float32": X.astype(np.float32),
        "columns": np.asfortranarray(X),
        "subset": ArraySubset(X, np.arange(24, -1, -1)),
        "dataset": DatasetArray([(row, 0) for row in X]),
    }.get(kind, X)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("p", [0, 0.3])
@pytest.mark.parametrize("kind", ["float64", "float32", "columns", "read only", "far", "subset", "dataset"])
def test_equals_the_graph(kind, p, optimizer):
    by_hand, losses, draw = train(SquaresByHand(), samples(kind), optimizer=optimizer, p=p)
    graph, expected, expected_draw = train(Squares(), samples(kind), optimizer=optimizer, p=p)
    assert isinstance(by_hand._linear_step, LinearStep)
    assert graph._linear_step is None
    assert_allclose(losses, expected, rtol=1e-6)
    for got, want in zip(by_hand.encoder.parameters(), graph.encoder.parameters(), strict=True):
        assert_allclose(got.detach(), want.detach(), rtol=1e-5, atol=1e-6)
        assert_allclose(got.grad, want.grad, rtol=1e-5, atol=1e-6)
    assert draw == expected_draw  # both draw as much from the generator


def test_a_checkpoint_continues():
    whole, *_ = train(SquaresByHand(), samples("float64"), n_epochs=2)
    again, *_ = train(SquaresByHand(), samples("float64"), n_epochs=2)
    state = deepcopy(again.state_dict())
    state["n_epochs_done"] = 1
    losses = []
    for trainer in (whole, again):
        trainer.load_state_dict(deepcopy(state))
        with seeded(1, CPU):
            losses.append(trainer.run_epoch())
    assert losses[0] == losses[1]
    assert torch.equal(whole.encoder.hash.weight, again.encoder.hash.weight)


class WithParameter(SquaresByHand):
    def __init__(self):
        super().__init__()
        self.center = nn.Parameter(torch.zeros(3))


class OtherEncoder(Encoder):
    """Its forward could do anything."""


@pytest.mark.parametrize(
    ("encoder", "objective", "augment", "expected"),
    [
        (Encoder(4, 3), SquaresByHand(), None, True),
        (Encoder(4, 3), Squares(), None, False),
        (Encoder(4, 3), WithParameter(), None, False),
        (Encoder(4, 3), SquaresByHand(), torch.sin, False),
        (Encoder(4, 3, "mlp"), SquaresByHand(), None, False),
        (Encoder(4, 3, nn.Linear(4, 4)), SquaresByHand(), None, False),
        (Encoder((1, 2, 2), 3), SquaresByHand(), None, False),
        (Encoder(4, 3, batch_norm=True), SquaresByHand(), None, False),
        (Encoder(4, 3, n_directions=2), SquaresByHand(), None, False),
        (Encoder(4, 3).to("meta"), SquaresByHand(), None, False),
        (OtherEncoder(4, 3), SquaresByHand(), None, False),
    ],
)
def test_only_linear_encoders_with_known_derivatives(encoder, objective, augment, expected):
    assert is_by_hand(encoder, objective, augment) is expected
