"""The training loop, without hashing; its steps by hand and its compiled steps, against those of torch."""

import random
from copy import deepcopy

import numpy as np
import pytest
import torch
from _helpers import global_states
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from skhash.affinity import NeighborAffinity, Relevance
from skhash.engine import Encoder, Objective, Schedule, Trainer, training
from skhash.engine.data import ArraySubset, DatasetArray
from skhash.engine.runtime import seeded
from skhash.engine.training import is_by_hand, stepper

CPU = torch.device("cpu")


class Recorder(Objective, nn.Module):
    """An objective that is a module: pull the activations to a learned center, and record what each step sees."""

    def __init__(self):
        super().__init__()
        self.center = nn.Parameter(torch.full((1, 3), 5.0))
        self.indices, self.rates = [], []

    def forward(self, encoder, X, relevance, indices):
        assert len(X) == relevance.shape[0] == len(indices)
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
        trainer = Trainer(encoder, objective, X, Relevance.of(np.zeros(n)), schedule, np.random.default_rng(0), CPU)
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
        def forward(self, encoder, X, relevance, indices):
            return value * super().forward(encoder, X, relevance, indices)

    with pytest.raises(
        FloatingPointError, match=r"loss must be finite. Got (nan|inf) in epoch 1. Lower `learning_rate` \(now 0.1\)"
    ):
        train(objective=Broken())


def test_an_objective_says_what_it_must():
    objective = Objective()
    objective.start_stage(0, 1)
    with pytest.raises(NotImplementedError):
        objective(nn.Identity(), torch.zeros(2, 1), None, np.arange(2))


class Shifted(Objective):
    """Pull activations, which a trained module shifts, to 0."""

    def __init__(self):
        with seeded(0, CPU):
            self.trained["shift"] = nn.Linear(3, 3)

    def forward(self, encoder, X, relevance, indices):
        return self.trained["shift"](encoder(X)).square().mean()


class ShiftedModule(Objective, nn.Module):
    """The same as a module."""

    def __init__(self):
        super().__init__()
        with seeded(0, CPU):
            self.shift = nn.Linear(3, 3)

    def forward(self, encoder, X, relevance, indices):
        return self.shift(encoder(X)).square().mean()


def test_what_is_trained_is_that_of_a_module():
    runs = [train(objective=objective, weight_decay=0.3) for objective in (Shifted(), ShiftedModule())]
    (first, encoder, losses), (module, other, expected) = runs
    assert losses == expected
    assert_array_equal(encoder.hash.weight.detach(), other.hash.weight.detach())
    assert_array_equal(first.trained["shift"].weight.detach(), module.shift.weight.detach())
    with seeded(0, CPU):
        assert (first.trained["shift"].weight != nn.Linear(3, 3).weight).any()


@pytest.mark.parametrize(
    "value", [nn.Parameter(torch.zeros(3)), nn.Linear(3, 1)], ids=lambda value: type(value).__name__
)
def test_what_would_not_be_trained_is_refused(value):
    objective = Squares()
    objective.center = value
    with pytest.raises(TypeError, match=r"`center` of Squares must not be a \w+, .* self.trained\['center'\]"):
        train(objective=objective)


def test_weights_that_the_last_step_makes_infinite():
    with pytest.raises(FloatingPointError, match=r"weights must be finite. Got NaN or infinity in epoch 1. Lower"):
        train(n=10, n_epochs=1, learning_rate=3e38, optimizer="sgd")


# --- gradients by hand, against those of the graph


class Squares(Objective):
    """Mean squared distance of the activations from the targets."""

    def forward(self, encoder, X, relevance, indices):
        return ((encoder(X) - torch.from_numpy(relevance.targets)) ** 2).mean()


class SquaresByHand(Squares):
    def loss_and_gradient(self, outputs, relevance):
        distances = outputs - relevance.targets
        return float((distances**2).mean()), 2 * distances / distances.size


def train_on_squares(objective, X, n_epochs=3, optimizer="adam", p=0.3):
    n = len(X)
    relevance = Relevance.of(np.random.default_rng(1).normal(size=(n, 3)).astype(np.float32), NeighborAffinity(2))
    with seeded(0, CPU):
        encoder = Encoder(X.shape[1:], 3, input_dropout=p)
        encoder.set_statistics(X)
        schedule = Schedule(n_epochs=n_epochs, batch_size=8, learning_rate=0.03, optimizer=optimizer, weight_decay=0.1)
        trainer = Trainer(encoder, objective, X, relevance, schedule, np.random.default_rng(0), CPU)
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
def test_gradients_by_hand_are_those_of_the_graph(kind, p, optimizer):
    by_hand, losses, draw = train_on_squares(SquaresByHand(), samples(kind), optimizer=optimizer, p=p)
    graph, expected, expected_draw = train_on_squares(Squares(), samples(kind), optimizer=optimizer, p=p)
    assert is_by_hand(by_hand.encoder, by_hand.objective, None)
    assert not is_by_hand(graph.encoder, graph.objective, None)
    assert_allclose(losses, expected, rtol=1e-6)
    for got, want in zip(by_hand.encoder.parameters(), graph.encoder.parameters(), strict=True):
        assert_allclose(got.detach(), want.detach(), rtol=1e-5, atol=1e-6)
        assert_allclose(got.grad, want.grad, rtol=1e-5, atol=1e-6)
    assert draw == expected_draw  # both draw as much from the generator


def test_a_checkpoint_continues_by_hand():
    whole, *_ = train_on_squares(SquaresByHand(), samples("float64"), n_epochs=2)
    again, *_ = train_on_squares(SquaresByHand(), samples("float64"), n_epochs=2)
    state = deepcopy(again.state_dict())
    state["n_epochs_done"] = 1
    losses = []
    for trainer in (whole, again):
        trainer.load_state_dict(deepcopy(state))
        with seeded(1, CPU):
            losses.append(trainer.run_epoch())
    assert losses[0] == losses[1]
    assert torch.equal(whole.encoder.hash.weight, again.encoder.hash.weight)


class WithModule(SquaresByHand):
    def __init__(self):
        self.trained["shift"] = nn.Linear(3, 3)


class OtherEncoder(Encoder):
    """Its forward could do anything."""


@pytest.mark.parametrize(
    ("encoder", "objective", "augment", "expected"),
    [
        (Encoder(4, 3), SquaresByHand(), None, True),
        (Encoder(4, 3), Squares(), None, False),
        (Encoder(4, 3), WithModule(), None, False),
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
def test_only_linear_encoders_with_known_derivatives_go_by_hand(encoder, objective, augment, expected):
    assert is_by_hand(encoder, objective, augment) is expected


# --- compiled steps of AdamW, against those of torch


def some_parameters():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in ((5, 3), (5,), (2,))]


def train_by_steps(tensors, is_built_in, n_steps=30):
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


def test_compiled_steps_are_those_of_torch():
    ours, theirs = some_parameters(), some_parameters()
    optimizer, expected = train_by_steps(ours, True), train_by_steps(theirs, False)
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


def test_compiled_steps_learn():
    target = np.array([3.0, -2.0], dtype=np.float32)
    values = torch.zeros(2, requires_grad=True)
    step = stepper(torch.optim.AdamW([values], lr=0.1, weight_decay=0), True)
    for _ in range(300):
        values.grad = values.detach() - torch.from_numpy(target)
        step()
    assert_allclose(values.detach(), target, atol=0.01)
