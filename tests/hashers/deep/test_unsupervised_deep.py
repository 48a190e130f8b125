"""Unsupervised deep hashers, CIBHash and TBH: losses against plain loops, gradients, codes from unlabelled rows."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from _helpers import StopAfter
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from torch import nn

from skhash import CIBHashHasher, LSHHasher, TBHHasher
from skhash.engine import seeded
from skhash.hashers.deep._binarize import bernoulli_sign, sign
from skhash.hashers.deep._contrast import nt_xent
from skhash.hashers.deep.cibhash import CIBHashObjective, symmetric_kl
from skhash.hashers.deep.tbh import TBHObjective, adversarial_loss, graph_convolution, similarity_graph

CPU = torch.device("cpu")
NBITS, WIDTH, N_LATENT = 6, 5, 4
HASHERS = [CIBHashHasher, TBHHasher]
OPTIONS = {"n_epochs": 4, "batch_size": 50, "random_state": 0}
every_hasher = pytest.mark.parametrize("Hasher", HASHERS)


def draw(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


class Head(nn.Module):
    """An encoder whose features are the centred rows themselves."""

    def __init__(self):
        super().__init__()
        self.mean, self.scale = torch.full((WIDTH,), 0.5, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
        self.hash = nn.Linear(WIDTH, NBITS, dtype=torch.float64)

    def features(self, X):
        return (X - self.mean) / self.scale

    def head(self, features):
        return self.hash(features)

    def forward(self, X):
        return self.head(self.features(X))


def loss_of(objective, encoder, X):
    return objective(encoder, X, None, np.arange(len(X)))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def affine(layer, row):
    biases = [0.0] * layer.out_features if layer.bias is None else layer.bias.tolist()
    products = (zip(weights, row, strict=True) for weights in layer.weight.tolist())
    return [sum(w * x for w, x in pairs) + bias for pairs, bias in zip(products, biases, strict=True)]


# --- straight through


def test_the_sign_passes_gradients_as_they_are():
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
    assert_allclose((codes * codes.roll(1, dims=1)).mean(0), (2 * p - 1) * (2 * p - 1).roll(1), atol=0.03)  # apart


def test_gradients_of_drawn_bits_are_those_of_their_means():
    logits, cotangent = draw(7, NBITS).requires_grad_(), draw(7, NBITS, seed=1)
    (through,) = torch.autograd.grad((bernoulli_sign(logits) * cotangent).sum(), logits)
    (of_mean,) = torch.autograd.grad(((2 * torch.sigmoid(logits) - 1) * cotangent).sum(), logits)
    assert_allclose(through, of_mean, atol=1e-15)


# --- CIBHash


def plain_nt_xent(rows, others, tau):
    rows, n = [*rows, *others], len(rows)
    total = 0.0
    for i in range(2 * n):
        scores = [math.exp(cosine(rows[i], rows[j]) / tau) for j in range(2 * n)]
        total -= math.log(scores[(i + n) % (2 * n)] / (sum(scores) - scores[i]))
    return total / (2 * n)


def plain_kl(p, q):
    return sum(a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b)) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("tau", [0.05, 0.3, 2.0])
def test_nt_xent_is_the_double_loop(n, tau):
    first, second = draw(n, NBITS), draw(n, NBITS, seed=1)
    expected = plain_nt_xent(first.tolist(), second.tolist(), tau)
    assert nt_xent(first, second, tau).item() == pytest.approx(expected, abs=1e-12)


def test_divergence_in_closed_form():
    f, g = 2 * draw(8, NBITS), 2 * draw(8, NBITS, seed=1)
    p, q = ([[sigmoid(a) for a in row] for row in logits.tolist()] for logits in (f, g))
    expected = np.mean([(plain_kl(a, b) + plain_kl(b, a)) / 2 for a, b in zip(p, q, strict=True)])
    assert symmetric_kl(f, g).item() == pytest.approx(expected, abs=1e-12)
    bits = [torch.distributions.Bernoulli(logits=logits) for logits in (f, g)]
    both = [torch.distributions.kl_divergence(*pair).sum(1).mean() for pair in (bits, bits[::-1])]
    assert symmetric_kl(f, g).item() == pytest.approx(sum(both).item() / 2, abs=1e-12)
    assert symmetric_kl(f, f).item() == 0
    sure = 200 * torch.ones(1, 1)
    assert symmetric_kl(sure, -sure).item() == pytest.approx(200)  # finite where probabilities are 0 and 1


def cibhash(n=7, **options):
    """An objective on fixed views, an encoder, the two views, and the uniform draws of a loss under seed 0."""
    views = draw(n, WIDTH, seed=1), draw(n, WIDTH, seed=2)
    calls = iter(range(10**6))
    with seeded(0, CPU):
        encoder = Head()
    with seeded(0, CPU):
        uniform = torch.rand(2 * n, NBITS, dtype=torch.float64)
    return CIBHashObjective(lambda X: views[next(calls) % 2], **options), encoder, views, uniform


@pytest.mark.parametrize("kl_weight", [0.0, 0.4])
def test_cibhash_is_the_double_loop(kl_weight):
    objective, encoder, views, uniform = cibhash(temperature=0.4, kl_weight=kl_weight)
    p = [[[sigmoid(a) for a in row] for row in encoder(view).tolist()] for view in views]
    u = np.split(uniform.numpy(), 2)
    b = [
        [[1.0 if a >= c else -1.0 for a, c in zip(*rows, strict=True)] for rows in zip(*pair, strict=True)]
        for pair in zip(p, u, strict=True)
    ]
    divergence = np.mean([(plain_kl(a, c) + plain_kl(c, a)) / 2 for a, c in zip(*p, strict=True)])
    with seeded(0, CPU):
        loss = loss_of(objective, encoder, views[0]).item()
    assert loss == pytest.approx(plain_nt_xent(*b, 0.4) + kl_weight * divergence, abs=1e-12)


def test_gradients_of_the_smooth_parts_of_cibhash():
    f, g = draw(5, NBITS).requires_grad_(), draw(5, NBITS, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda f, g: nt_xent(f, g, 0.3), (f, g))
    assert torch.autograd.gradcheck(symmetric_kl, (f, g))


def test_gradients_of_cibhash_pass_the_draw():
    objective, encoder, views, uniform = cibhash(temperature=0.4, kl_weight=0.3)
    with seeded(0, CPU):
        through = torch.autograd.grad(loss_of(objective, encoder, views[0]), encoder.hash.weight)[0]
    logits = encoder(torch.cat(views))
    p = torch.sigmoid(logits)
    codes = torch.where(p >= uniform, 1.0, -1.0).double().requires_grad_()
    (of_codes,) = torch.autograd.grad(nt_xent(*codes.chunk(2), 0.4), codes)
    of_logits = of_codes * 2 * p * (1 - p)
    of_logits = of_logits + torch.autograd.grad(0.3 * symmetric_kl(*logits.chunk(2)), logits, retain_graph=True)[0]
    (expected,) = torch.autograd.grad(logits, encoder.hash.weight, of_logits)
    assert_allclose(through, expected, atol=1e-12)


# --- TBH


def codes_of(n, seed=0):
    return torch.where(draw(n, NBITS, seed=seed) >= 0, 1.0, -1.0).double()


def plain_convolution(A, Z):
    n, degrees = len(A), [sum(row) for row in A]
    return [
        [sum(A[i][j] / math.sqrt(degrees[i] * degrees[j]) * Z[j][k] for j in range(n)) for k in range(len(Z[0]))]
        for i in range(n)
    ]


def standardized(rows):
    """Each column at mean 0 and variance 1, but for the small number that bounds its scale."""
    columns = [(column, sum(column) / len(column)) for column in zip(*rows, strict=True)]
    scales = [math.sqrt(sum((a - mean) ** 2 for a in column) / len(column) + 1e-5) for column, mean in columns]
    return [[(a - mean) / scale for a, (_, mean), scale in zip(row, columns, scales, strict=True)] for row in rows]


def plain_graph(codes):
    return [[1 - sum(x != y for x, y in zip(a, b, strict=True)) / len(a) for b in codes] for a in codes]


def test_graph_convolution_is_the_dense_loop():
    codes, rows = codes_of(8), draw(8, N_LATENT, seed=1)
    A = plain_graph(codes.tolist())
    assert_allclose(similarity_graph(codes), A, atol=1e-14)
    expected = plain_convolution(A, rows.tolist())
    assert_allclose(graph_convolution(similarity_graph(codes), rows), expected, atol=1e-12)


def test_graph_of_the_paper_and_its_gradient():
    """J + (B (B - J)' + (B - J) B') / M of bits 0 and 1, up to the sign of the distances, is A of bits -1 and 1."""
    codes, cotangent = codes_of(8).requires_grad_(), draw(8, 8, seed=1)
    B = (codes + 1) / 2
    paper = 1 + (B @ (B - 1).T + (B - 1) @ B.T) / NBITS
    assert_allclose(similarity_graph(codes).detach(), paper.detach(), atol=1e-14)
    gradients = [torch.autograd.grad((A * cotangent).sum(), codes)[0] for A in (similarity_graph(codes), paper)]
    assert_allclose(*gradients, atol=1e-14)


def test_gradients_of_the_smooth_parts_of_tbh():
    def mixed(codes, rows):
        return graph_convolution(similarity_graph(codes), rows)

    inputs = draw(6, NBITS).tanh().requires_grad_(), draw(6, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(mixed, inputs)


def tbh(n=7, **options):
    """An objective, its encoder, rows, and what is drawn in a loss under seed 0: u, fair bits, uniform latents."""
    with seeded(0, CPU):
        encoder, objective = Head(), TBHObjective(NBITS, WIDTH, WIDTH, N_LATENT, **options).double()
    with seeded(0, CPU):
        drawn = [torch.rand(n, width, dtype=torch.float64) for width in (NBITS, NBITS, N_LATENT)]
    return objective, encoder, draw(n, WIDTH, seed=1), drawn


@pytest.mark.parametrize("adversarial_weight", [0.0, 0.7])
def test_tbh_is_the_double_loop(adversarial_weight):
    objective, encoder, X, (u, fair, uniform) = tbh(adversarial_weight=adversarial_weight)
    x = [[(a - 0.5) / 2 for a in row] for row in X.tolist()]
    p = [[sigmoid(a) for a in affine(encoder.hash, row)] for row in x]
    b = [[1.0 if a >= c else -1.0 for a, c in zip(*rows, strict=True)] for rows in zip(p, u.tolist(), strict=True)]
    z = [[sigmoid(a) for a in affine(objective.latent, row)] for row in x]
    mixed = plain_convolution(plain_graph(b), [affine(objective.mix, row) for row in z])
    mixed = [[sigmoid(a) for a in row] for row in standardized(mixed)]
    hidden, output = objective.decoder[0], objective.decoder[2]
    decoded = [affine(output, [max(0.0, a) for a in affine(hidden, row)]) for row in mixed]
    pairs = zip(x, decoded, strict=True)
    expected = np.mean([sum((a - c) ** 2 for a, c in zip(*pair, strict=True)) for pair in pairs]) / (2 * NBITS)
    y_b = [[1.0 if a > 0.5 else -1.0 for a in row] for row in fair.tolist()]
    for critic, encoded, prior in ((objective.bit_critic, b, y_b), (objective.latent_critic, mixed, uniform.tolist())):
        of_encoded, of_prior = ([affine(critic, row)[0] for row in rows] for rows in (encoded, prior))
        logits = [*of_encoded, *of_prior, *(-c for c in of_encoded)]  # to pass, and to be told
        expected -= adversarial_weight * sum(math.log(sigmoid(c)) for c in logits) / len(x)
    with seeded(0, CPU):
        assert loss_of(objective, encoder, X).item() == pytest.approx(expected, abs=1e-12)


def test_each_player_sees_its_own_loss_only():
    critic = nn.Linear(3, 1).double()
    encoded, prior = draw(9, 3, seed=1).requires_grad_(), draw(9, 3, seed=2)
    adversarial_loss(critic, encoded, prior).backward()
    logsigmoid, given = nn.functional.logsigmoid, encoded.detach()
    passes = -logsigmoid(critic(encoded)).mean()
    assert_allclose(encoded.grad, torch.autograd.grad(passes, encoded)[0], atol=1e-15)
    tells = -logsigmoid(critic(prior)).mean() - logsigmoid(-critic(given)).mean()
    for parameter, gradient in zip(critic.parameters(), torch.autograd.grad(tells, critic.parameters()), strict=True):
        assert_allclose(parameter.grad, gradient, atol=1e-15)
    assert torch.autograd.gradcheck(lambda rows: nn.functional.softplus(-critic(rows)).mean(), (encoded,))


def test_the_adversaries_pull_bits_and_latents_to_their_priors():
    """Logits that are all large at first: without the critics nothing else would balance the bits."""
    shares = {}
    for weight in (0.0, 1.0):
        with seeded(0, CPU):
            logits = nn.Parameter(torch.full((1, 4), 1.5))
            critic = nn.Linear(4, 1)
            optimizer = torch.optim.Adam([logits, *critic.parameters()], lr=0.02)
            for _ in range(300):
                codes = bernoulli_sign(logits.expand(256, 4))
                fair = torch.rand_like(codes).round() * 2 - 1
                optimizer.zero_grad()
                (weight * adversarial_loss(critic, codes, fair)).backward()
                optimizer.step()
        shares[weight] = torch.sigmoid(logits.detach())
    assert_allclose(shares[0.0], sigmoid(1.5), rtol=1e-6)
    assert (shares[1.0] < 0.65).all()


def test_every_part_of_tbh_learns():
    objective, encoder, X, _ = tbh()
    loss_of(objective, encoder, X).backward()
    for module in (objective, encoder):
        for name, parameter in module.named_parameters():
            assert parameter.grad.isfinite().all(), name
            assert (parameter.grad != 0).any(), name


# --- the hashers


@every_hasher
def test_learns_from_rows_alone(digits, Hasher):
    make = partial(Hasher, 16, batch_size=50, random_state=0)
    hasher = make(n_epochs=40).fit(digits.X)
    assert hasher.database_y_ is None
    assert hasher.history_[-1]["loss"] < hasher.history_[0]["loss"]
    labelled = make(n_epochs=40).fit(digits.X, digits.y)
    assert_array_equal(hasher.encode(digits.X), labelled.encode(digits.X))  # y does not teach
    query = digits.X_query, digits.y_query
    untrained = [LSHHasher(16, random_state=i).fit(digits.X, digits.y).score(*query) for i in range(3)]
    assert labelled.score(*query) > np.mean(untrained) + 0.1


@every_hasher
@pytest.mark.parametrize("backbone", [None, "mlp"])
def test_backbones_and_optimizers(digits, Hasher, backbone):
    for options in ({}, {"optimizer": "sgd", "learning_rate": 0.01}):
        hasher = Hasher(16, backbone=backbone, **OPTIONS | options).fit(digits.X, digits.y)
        assert 0.2 < hasher.score(digits.X_query, digits.y_query) <= 1


@pytest.mark.parametrize(
    ("Hasher", "options"),
    [
        (CIBHashHasher, {"temperature": 1.0}),
        (CIBHashHasher, {"kl_weight": 1.0}),
        (CIBHashHasher, {"augment": lambda batch: batch}),
        (TBHHasher, {"n_latent": 64}),
        (TBHHasher, {"adversarial_weight": 0.0}),
        (TBHHasher, {"augment": lambda batch: batch + 1.0}),
    ],
)
def test_every_option_matters(digits, Hasher, options):
    plain, other = (Hasher(16, **OPTIONS, **o).fit(digits.X).database_codes_ for o in ({}, options))
    assert (plain != other).any()


@pytest.mark.parametrize(
    ("Hasher", "options"),
    [
        (CIBHashHasher, {"temperature": 0.0}),
        (CIBHashHasher, {"kl_weight": -1.0}),
        (CIBHashHasher, {"augment": None}),
        (CIBHashHasher, {"augment": "crop"}),
        (TBHHasher, {"n_latent": 0}),
        (TBHHasher, {"adversarial_weight": -1.0}),
        (TBHHasher, {"augment": "crop"}),
    ],
    ids=str,
)
def test_bad_options(digits, Hasher, options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"'{name}' parameter of {Hasher.__name__} must be .* Got {value!r} instead"):
        Hasher(**options).fit(digits.X)


@every_hasher
def test_a_loss_that_is_no_number_shows(digits, Hasher):
    class Overflowing(nn.Module):
        def forward(self, X):
            return X * 1e38 * 1e38

    with pytest.raises(FloatingPointError, match="the loss is nan in epoch 1"):
        Hasher(16, backbone=Overflowing(), **OPTIONS).fit(digits.X)
    with pytest.raises(ValueError, match="NaN"):
        Hasher(16).fit(np.full((4, 3), np.nan))


@every_hasher
def test_early_stopping_wants_targets(digits, Hasher):
    with pytest.raises(ValueError, match="early_stopping=True with y=None"):
        Hasher(16, early_stopping=True, **OPTIONS).fit(digits.X)
    hasher = Hasher(16, early_stopping=True, **OPTIONS).fit(digits.X, digits.y)
    assert all(0 < entry["validation"] <= 1 for entry in hasher.history_)


@every_hasher
def test_resumes_to_the_codes_of_an_unbroken_run(digits, Hasher, tmp_path):
    whole = Hasher(16, **OPTIONS).fit(digits.X)
    with pytest.raises(KeyboardInterrupt):
        Hasher(16, checkpoint=tmp_path, **OPTIONS).set_callbacks(StopAfter(2)).fit(digits.X)
    resumed = Hasher(16, checkpoint=tmp_path, **OPTIONS).fit(digits.X, resume=True)
    assert [entry["epoch"] for entry in resumed.history_] == [1, 2, 3, 4]
    assert resumed.history_ == whole.history_
    assert_array_equal(resumed.project(digits.X_query), whole.project(digits.X_query))


@every_hasher
def test_a_stream_without_targets(digits, Hasher):
    hasher = Hasher(16, batch_size=50, random_state=0)
    for start in range(0, 500, 100):
        hasher.partial_fit(digits.X[start : start + 100])
    assert len(hasher.history_) == 5
    assert hasher.transform(digits.X_query).shape == (300, 16)


def test_the_parts_of_tbh_go_on_in_a_stream(digits):
    hasher = TBHHasher(16, batch_size=50, random_state=0).partial_fit(digits.X)
    before = hasher._stream["objective"]["decoder.0.weight"].copy()
    hasher.partial_fit(digits.X)
    assert hasher.history_[1]["loss"] < hasher.history_[0]["loss"]
    assert 0 < np.abs(hasher._stream["objective"]["decoder.0.weight"] - before).max() < 0.1


def images(dtype):
    X, y = load_digits(return_X_y=True)
    X = X[:120].reshape(-1, 1, 8, 8) / 16
    return ((255 * X).astype(np.uint8) if dtype is np.uint8 else X.astype(dtype)), y[:120]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("backbone", [None, "mlp", "conv"])
@every_hasher
def test_images(Hasher, backbone, dtype):
    pytest.importorskip("kornia")
    X, y = images(dtype)
    hasher, again = (Hasher(16, backbone=backbone, **OPTIONS | {"n_epochs": 1}).fit(X, y) for _ in range(2))
    assert hasher.transform(X).shape == (120, 16)
    assert_array_equal(hasher.transform(X), again.transform(X))
    assert 0 < hasher.score(X, y) <= 1


def test_cibhash_augments_images_twice_in_the_unit_interval():
    X, _ = images(np.uint8)
    seen = []

    def augment(batch):
        seen.append((tuple(batch.shape), batch.min().item(), batch.max().item()))
        return batch + 0.1 * torch.randn_like(batch)

    CIBHashHasher(16, augment=augment, n_epochs=1, batch_size=60).fit(X)
    assert len(seen) == 4
    assert all(shape == (60, 1, 8, 8) and low >= 0 and 0.9 < high <= 1 for shape, low, high in seen)
    with pytest.raises(ValueError, match=r"augment='auto' with rows of shape \(8, 8\)"):
        CIBHashHasher(16).fit(images(np.float32)[0][:, 0])
