"""The training loop, without hashing."""

import random

import numpy as np
import pytest
import torch
from _helpers import global_states
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from skhash.engine import Encoder, Objective, Schedule, Trainer, seeded

CPU = torch.device("cpu")


class Recorder(Objective):
    """Pull the activations to a learned center, and record what each step sees."""

    def __init__(self):
        super().__init__()
        self.center = nn.Parameter(torch.full((1, 3), 5.0))
        self.indices, self.rates = [], []

    def forward(self, encoder, X, targets, indices):
        assert len(X) == len(targets) == len(indices)
        self.indices.append(indices)
        self.rates.append([group["lr"] for group in self.optimizer.param_groups] if hasattr(self, "optimizer") else [])
        return ((encoder(X) - self.center) ** 2).mean()

    def make_optimizer(self, groups):
        self.optimizer = torch.optim.SGD(groups)
        return self.optimizer


def train(n=20, encoder=None, objective=None, X=None, **schedule):
    X = np.random.default_rng(0).normal(size=(n, 4)) if X is None else X
    objective = objective or Recorder()
    with seeded(0, CPU):
        encoder = encoder or Encoder(4, 3)
        schedule = Schedule(**({"n_epochs": 2, "batch_size": 10, "learning_rate": 0.1} | schedule))
        trainer = Trainer(encoder, objective, X, np.zeros(n), schedule, np.random.default_rng(0), CPU)
        losses = [trainer.run_epoch() for _ in range(schedule.n_epochs)]
    return objective, encoder, losses


@pytest.mark.parametrize(
    ("n", "sizes"),
    [(20, [10, 10]), (22, [11, 11]), (24, [12, 12]), (25, [9, 8, 8]), (29, [10, 10, 9]), (14, [14]), (5, [5])],
)
def test_every_sample_once_per_epoch_in_batches_of_nearly_the_same_size(n, sizes):
    objective, _, losses = train(n)
    assert [len(batch) for batch in objective.indices] == 2 * sizes
    assert len(losses) == 2
    epochs = np.split(np.concatenate(objective.indices), 2)
    assert [sorted(epoch) for epoch in epochs] == [list(range(n))] * 2
    if n > 10:
        assert list(epochs[0]) != list(epochs[1])


def test_the_loss_falls_and_the_objective_learns_too():
    objective, _, losses = train(n_epochs=50)
    assert losses[-1] < 0.1 * losses[0]
    assert (objective.center < 5).all()


def test_samples_are_read_by_index():
    class Samples:
        """What can be sliced by indices, and nothing more."""

        def __init__(self, X):
            self.X = X

        def __len__(self):
            return len(self.X)

        def __getitem__(self, indices):
            return self.X[indices]

    X = np.random.default_rng(0).normal(size=(20, 4))
    assert train(X=Samples(X))[2] == train(X=X)[2]


def test_parameter_groups():
    objective = Recorder()
    encoder = Encoder(4, 3, nn.Linear(4, 4))
    train(
        encoder=encoder,
        objective=objective,
        optimizer=objective.make_optimizer,
        backbone_lr_scale=0.1,
        weight_decay=0.5,
    )
    rates = {
        id(p): (group["initial_lr"], group["weight_decay"])
        for group in objective.optimizer.param_groups
        for p in group["params"]
    }
    assert {name: rates[id(p)] for name, p in [*encoder.named_parameters(), *objective.named_parameters()]} == {
        "backbone.weight": (pytest.approx(0.01), 0.5),
        "backbone.bias": (pytest.approx(0.01), 0),
        "hash.weight": (0.1, 0.5),
        "hash.bias": (0.1, 0),
        "center": (0.1, 0.5),
    }


def test_learning_rates():
    def rates(lr_schedule):
        objective = Recorder()
        train(objective=objective, optimizer=objective.make_optimizer, lr_schedule=lr_schedule, n_epochs=3)
        return [groups[0] for groups in objective.rates]

    steps = np.arange(6)
    assert_allclose(rates("cosine"), 0.1 * (1 + np.cos(np.pi * steps / 6)) / 2)
    assert_allclose(rates("constant"), 0.1)
    halving = rates(lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5))
    assert_allclose(halving, 0.1 * 0.5**steps)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_optimizers(optimizer):
    losses = train(n_epochs=20, optimizer=optimizer)[2]
    assert losses[-1] < losses[0]


def test_what_a_backbone_draws_is_reproducible():
    class Noisy(nn.Module):
        """Augment samples as user code does: from the global generators."""

        def forward(self, X):
            if not self.training:
                return X
            return X + torch.rand(X.shape) + np.random.rand() + random.random()  # noqa: NPY002

    before = global_states()
    runs = []
    for _ in range(2):
        with seeded(0, CPU):
            encoder = Encoder(4, 3, Noisy(), input_dropout=0.5)
        runs.append(train(encoder=encoder)[1].hash.weight.detach())
        torch.rand(3)  # what happens outside
        torch.set_rng_state(torch.tensor(before[0], dtype=torch.uint8))
    assert_array_equal(*runs)
    assert global_states() == before


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_loss_that_is_not_finite(value):
    class Broken(Recorder):
        def forward(self, encoder, X, targets, indices):
            return value * super().forward(encoder, X, targets, indices)

    with pytest.raises(
        FloatingPointError, match=r"loss must be finite. Got (nan|inf) in epoch 1. Lower `learning_rate` \(now 0.1\)"
    ):
        train(objective=Broken())


def test_an_objective_says_what_it_must():
    objective = Objective()
    objective.start_stage(0, 1)
    with pytest.raises(NotImplementedError):
        objective(nn.Identity(), torch.zeros(2, 1), None, np.arange(2))


def test_weights_that_the_last_step_makes_infinite():
    with pytest.raises(FloatingPointError, match=r"weights must be finite. Got NaN or infinity in epoch 1. Lower"):
        train(n=10, n_epochs=1, learning_rate=3e38, optimizer="sgd")
