"""The engine: devices, seeds, encoders and the one training loop, without a word of hashing."""

import pickle
import random

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from skhash.engine import Encoder, Objective, Schedule, Trainer, resolve_device, seeded
from skhash.engine.encoder import FastDropoutLinear
from skhash.engine.runtime import generator_states, restore_generators

CPU = torch.device("cpu")


class Recorder(Objective):
    """Pull the activations to a learned centre, and record what each step sees."""

    def __init__(self):
        super().__init__()
        self.centre = nn.Parameter(torch.full((1, 3), 5.0))
        self.rows, self.rates = [], []

    def forward(self, encoder, X, targets, indices):
        assert len(X) == len(targets) == len(indices)
        self.rows.append(indices)
        self.rates.append([group["lr"] for group in self.optimizer.param_groups] if hasattr(self, "optimizer") else [])
        return ((encoder(X) - self.centre) ** 2).mean()

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


def global_states():
    return torch.get_rng_state().tolist(), pickle.dumps(np.random.get_state()), random.getstate()  # noqa: NPY002


def draw():
    return torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random()  # noqa: NPY002


# --- devices and seeds


def test_devices():
    assert resolve_device("cpu") == CPU
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "", "mps:7"])
def test_a_device_that_is_not_there(device):
    with pytest.raises(
        ValueError, match=rf"`device` must be available, one of \['auto', 'cpu'.*\]\. Got '{device}' instead"
    ):
        resolve_device(device)


def test_a_seed_decides_all_generators_and_leaves_them_alone():
    before = global_states()
    draws = []
    for seed in (1, 1, 2):
        with seeded(seed, CPU):
            draws.append(draw())
        assert global_states() == before
    assert draws[0] == draws[1]
    assert all(a != b for a, b in zip(draws[0], draws[2], strict=True))


@pytest.mark.parametrize("deterministic", [False, True])
def test_generators_and_flags_are_restored_after_an_error(deterministic):
    before = global_states()

    def interrupted():
        with seeded(0, CPU, deterministic):
            assert torch.are_deterministic_algorithms_enabled() == deterministic
            draw()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert global_states() == before
    assert not torch.are_deterministic_algorithms_enabled()


# --- the encoder


def test_rows_are_centred_and_divided_by_one_scale():
    X = np.random.default_rng(0).normal(loc=100, scale=(1, 2, 10), size=(50, 3))
    encoder = Encoder(3, 2)
    encoder.set_statistics(X)
    assert_allclose(encoder.mean, X.mean(axis=0), rtol=1e-6)
    assert encoder.scale.item() == pytest.approx(np.sqrt(X.var(axis=0).mean()), rel=1e-6)
    encoder.set_statistics(np.ones((5, 3), dtype=np.float32))
    assert encoder.scale.item() == 1  # constant rows: nothing to divide by
    assert encoder.eval()(torch.ones(4, 3)).shape == (4, 2)


def test_backbones():
    given = nn.Sequential(nn.Linear(3, 7), nn.Tanh())
    widths = {name: Encoder(3, 2, b).hash.in_features for name, b in (("None", None), ("mlp", "mlp"), ("given", given))}
    assert widths == {"None": 3, "mlp": 512, "given": 7}
    encoder = Encoder(3, 2, given)
    assert encoder.backbone is not given
    assert encoder.backbone.training
    for bad in (nn.Flatten(0), nn.Unflatten(1, (3, 1)), nn.LSTM(3, 2)):
        with pytest.raises(ValueError, match=r"`backbone` must map samples of shape \(n, n_features\)"):
            Encoder(3, 2, bad)


def test_fast_dropout_has_the_mean_and_variance_of_dropout():
    n, p = 40_000, 0.3
    X = torch.randn(5, 20, generator=torch.Generator().manual_seed(0))
    with seeded(0, CPU), torch.no_grad():
        layer = FastDropoutLinear(20, 4, p)
        outputs = layer(X.expand(n, 5, 20))
        exact = X @ layer.weight.T + layer.bias
        variance = p / (1 - p) * X**2 @ (layer.weight**2).T  # of sum_j x_j w_kj m_j / (1 - p), m_j in {0, 1}
        assert (((outputs.mean(0) - exact).abs() / (variance / n).sqrt()) < 5).all()
        assert_allclose(outputs.var(0), variance, rtol=5 * np.sqrt(2 / n))
        assert_array_equal(layer.eval()(X), nn.functional.linear(X, layer.weight, layer.bias))


@pytest.mark.parametrize(
    ("backbone", "shape", "shares", "of_outputs"),
    [
        (None, (8,), [], 0.2),
        ("mlp", (8,), [0.2, 0.4, 0.4], 0.0),
        ("conv", (3, 8, 8), [0.4], 0.0),
        (nn.Sequential(nn.Linear(8, 5), nn.Dropout(0.1)), (8,), [0.1], 0.0),
    ],
    ids=["None", "mlp", "conv", "given"],
)
def test_shares_of_dropout(backbone, shape, shares, of_outputs):
    with seeded(0, CPU):
        encoder = Encoder(shape, 3, backbone, input_dropout=0.2, hidden_dropout=0.4)
        X = torch.randn(6, *shape)
        assert [module.p for module in encoder.modules() if isinstance(module, nn.Dropout)] == shares
        assert encoder.hash.dropout == of_outputs
        assert not torch.equal(encoder.train()(X), encoder(X))
        assert torch.equal(encoder.eval()(X), encoder(X))


def test_mixed_precision_is_for_training_alone():
    with seeded(0, CPU):
        exact, mixed = Encoder(8, 3, "mlp"), Encoder(8, 3, "mlp", mixed_precision=True)
        mixed.load_state_dict(exact.state_dict())
        X = torch.randn(6, 8)
        assert not torch.equal(exact.train()(X), mixed.train()(X))
        mixed.load_state_dict(exact.state_dict())  # the running statistics as well
        assert torch.equal(exact.eval()(X), mixed.eval()(X))


# --- the loop


@pytest.mark.parametrize(
    ("n", "sizes"), [(20, [10, 10]), (21, [10, 11]), (22, [10, 10, 2]), (11, [11]), (10, [10]), (5, [5])]
)
def test_every_row_once_an_epoch_and_no_batch_of_one(n, sizes):
    objective, _, losses = train(n)
    assert [len(rows) for rows in objective.rows] == 2 * sizes
    assert len(losses) == 2
    epochs = np.split(np.concatenate(objective.rows), 2)
    assert [sorted(epoch) for epoch in epochs] == [list(range(n))] * 2
    if n > 10:
        assert list(epochs[0]) != list(epochs[1])


def test_the_loss_falls_and_the_objective_learns_too():
    objective, _, losses = train(n_epochs=50)
    assert losses[-1] < 0.1 * losses[0]
    assert (objective.centre < 5).all()


def test_rows_are_read_by_number():
    class Rows:
        """What can be sliced by row numbers, and nothing more."""

        def __init__(self, X):
            self.X = X

        def __len__(self):
            return len(self.X)

        def __getitem__(self, rows):
            return self.X[rows]

    X = np.random.default_rng(0).normal(size=(20, 4))
    assert train(X=Rows(X))[2] == train(X=X)[2]


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
        "centre": (0.1, 0.5),
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
        """Augment rows as user code does: from the global generators."""

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


def test_seeding_a_body_on_the_cpu_touches_no_gpu(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    with seeded(0, CPU):
        torch.rand(3)
    assert seeds == []


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("mode", ["default", "warn", "error"])
def test_the_users_deterministic_mode_is_left_alone(mode, deterministic):
    torch.set_deterministic_debug_mode(mode)
    try:
        before = torch.get_deterministic_debug_mode()
        with seeded(0, CPU, deterministic):
            assert torch.get_deterministic_debug_mode() == (2 if deterministic else before)
        assert torch.get_deterministic_debug_mode() == before
    finally:
        torch.set_deterministic_debug_mode("default")


def test_generators_of_a_gpu_are_restored_without_one():
    states = generator_states(CPU)
    numbers = torch.rand(3)
    restore_generators(states | {"cuda": states["torch"]}, CPU)  # of a checkpoint that was written on a GPU
    assert torch.equal(torch.rand(3), numbers)
