"""TBH: its loss against plain loops, the losses of its critics, options."""

import math

import numpy as np
import pytest
import torch
from _helpers import CPU, NBITS, WIDTH, Head, draw, sigmoid
from numpy.testing import assert_allclose
from torch import nn

from skhash import TBHHasher
from skhash.engine.runtime import seeded
from skhash.hashers.deep import bernoulli_sign
from skhash.hashers.deep.tbh import TBHObjective, _adversarial_loss, _graph_convolution, _similarity_graph

N_LATENT = 4


def affine(layer, row):
    biases = [0.0] * layer.out_features if layer.bias is None else layer.bias.tolist()
    products = (zip(weights, row, strict=True) for weights in layer.weight.tolist())
    return [sum(w * x for w, x in pairs) + bias for pairs, bias in zip(products, biases, strict=True)]


def codes_of(n, seed=0):
    return torch.where(draw(n, NBITS, seed=seed) >= 0, 1.0, -1.0).double()


def plain_convolution(A, Z):
    n, degrees = len(A), [sum(row) for row in A]
    return [
        [sum(A[i][j] / math.sqrt(degrees[i] * degrees[j]) * Z[j][k] for j in range(n)) for k in range(len(Z[0]))]
        for i in range(n)
    ]


def standardized(rows):
    """Each column at mean 0 and variance 1, except for the small number that bounds its scale."""
    columns = [(column, sum(column) / len(column)) for column in zip(*rows, strict=True)]
    scales = [math.sqrt(sum((a - mean) ** 2 for a in column) / len(column) + 1e-5) for column, mean in columns]
    return [[(a - mean) / scale for a, (_, mean), scale in zip(row, columns, scales, strict=True)] for row in rows]


def plain_graph(codes):
    return [[1 - sum(x != y for x, y in zip(a, b, strict=True)) / len(a) for b in codes] for a in codes]


def test_graph_convolution_is_the_dense_loop():
    codes, Z = codes_of(8), draw(8, N_LATENT, seed=1)
    A = plain_graph(codes.tolist())
    assert_allclose(_similarity_graph(codes), A, atol=1e-14)
    assert_allclose(_graph_convolution(_similarity_graph(codes), Z), plain_convolution(A, Z.tolist()), atol=1e-12)


def test_graph_of_the_paper_and_its_gradient():
    """J + (B (B - J)' + (B - J) B') / M of bits 0 and 1, up to the sign of the distances, is A of bits -1 and 1."""
    codes, cotangent = codes_of(8).requires_grad_(), draw(8, 8, seed=1)
    B = (codes + 1) / 2
    paper = 1 + (B @ (B - 1).T + (B - 1) @ B.T) / NBITS
    assert_allclose(_similarity_graph(codes).detach(), paper.detach(), atol=1e-14)
    gradients = [torch.autograd.grad((A * cotangent).sum(), codes)[0] for A in (_similarity_graph(codes), paper)]
    assert_allclose(*gradients, atol=1e-14)


def test_gradients_of_the_graph_convolution():
    def mixed(codes, Z):
        return _graph_convolution(_similarity_graph(codes), Z)

    inputs = draw(6, NBITS).tanh().requires_grad_(), draw(6, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(mixed, inputs)


def make(n=7, **options):
    """An objective, its encoder, samples, and what is drawn in a loss under seed 0: u, fair bits, uniform latents."""
    with seeded(0, CPU):
        encoder, objective = Head(), TBHObjective(NBITS, WIDTH, WIDTH, N_LATENT, **options)
        objective.trained.double()
    with seeded(0, CPU):
        drawn = [torch.rand(n, width, dtype=torch.float64) for width in (NBITS, NBITS, N_LATENT)]
    return objective, encoder, draw(n, WIDTH, seed=1), drawn


@pytest.mark.parametrize("adversarial_weight", [0.0, 0.7])
def test_the_loss_is_the_double_loop(adversarial_weight):
    objective, encoder, X, (u, fair, uniform) = make(adversarial_weight=adversarial_weight)
    trained, x = objective.trained, [[(a - 0.5) / 2 for a in row] for row in X.tolist()]
    p = [[sigmoid(a) for a in affine(encoder.hash, row)] for row in x]
    b = [[1.0 if a >= c else -1.0 for a, c in zip(*rows, strict=True)] for rows in zip(p, u.tolist(), strict=True)]
    z = [[sigmoid(a) for a in affine(trained["latent"], row)] for row in x]
    mixed = plain_convolution(plain_graph(b), [affine(trained["mix"], row) for row in z])
    mixed = [[sigmoid(a) for a in row] for row in standardized(mixed)]
    hidden, output = trained["decoder"][0], trained["decoder"][2]
    decoded = [affine(output, [max(0.0, a) for a in affine(hidden, row)]) for row in mixed]
    pairs = zip(x, decoded, strict=True)
    expected = np.mean([sum((a - c) ** 2 for a, c in zip(*pair, strict=True)) for pair in pairs]) / (2 * NBITS)
    y_b = [[1.0 if a > 0.5 else -1.0 for a in row] for row in fair.tolist()]
    for critic, encoded, prior in (
        (trained["bit_critic"], b, y_b),
        (trained["latent_critic"], mixed, uniform.tolist()),
    ):
        of_encoded, of_prior = ([affine(critic, row)[0] for row in rows] for rows in (encoded, prior))
        logits = [*of_encoded, *of_prior, *(-c for c in of_encoded)]  # the encoder's loss, and the critic's
        expected -= adversarial_weight * sum(math.log(sigmoid(c)) for c in logits) / len(x)
    with seeded(0, CPU):
        assert objective(encoder, X, None, np.arange(7)).item() == pytest.approx(expected, abs=1e-12)


def test_each_player_sees_its_own_loss_only():
    critic = nn.Linear(3, 1).double()
    encoded, prior = draw(9, 3, seed=1).requires_grad_(), draw(9, 3, seed=2)
    _adversarial_loss(critic, encoded, prior).backward()
    logsigmoid, given = nn.functional.logsigmoid, encoded.detach()
    passes = -logsigmoid(critic(encoded)).mean()
    assert_allclose(encoded.grad, torch.autograd.grad(passes, encoded)[0], atol=1e-15)
    tells = -logsigmoid(critic(prior)).mean() - logsigmoid(-critic(given)).mean()
    for parameter, gradient in zip(critic.parameters(), torch.autograd.grad(tells, critic.parameters()), strict=True):
        assert_allclose(parameter.grad, gradient, atol=1e-15)
    assert torch.autograd.gradcheck(lambda Z: nn.functional.softplus(-critic(Z)).mean(), (encoded,))


def test_the_critics_pull_bits_to_their_prior():
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
                (weight * _adversarial_loss(critic, codes, fair)).backward()
                optimizer.step()
        shares[weight] = torch.sigmoid(logits.detach())
    assert_allclose(shares[0.0], sigmoid(1.5), rtol=1e-6)
    assert (shares[1.0] < 0.65).all()


def test_every_part_learns():
    objective, encoder, X, _ = make()
    objective(encoder, X, None, np.arange(7)).backward()
    for module in (objective.trained, encoder):
        for name, parameter in module.named_parameters():
            assert parameter.grad.isfinite().all(), name
            assert (parameter.grad != 0).any(), name


def test_every_part_goes_on_in_a_stream(digits):
    hasher = TBHHasher(16, batch_size=50, random_state=0).partial_fit(digits.X)
    before = hasher._stream["objective"]["decoder.0.weight"].copy()
    hasher.partial_fit(digits.X)
    assert hasher.history_[1]["loss"] < hasher.history_[0]["loss"]
    assert 0 < np.abs(hasher._stream["objective"]["decoder.0.weight"] - before).max() < 0.1


def test_every_option_matters(digits):
    plain, *others = (
        TBHHasher(16, n_epochs=2, batch_size=50, random_state=0, **options).fit(digits.X[:200]).database_.codes.rows
        for options in ({}, {"n_latent": 64}, {"adversarial_weight": 0.0}, {"augment": lambda batch: batch + 1.0})
    )
    assert all((plain != other).any() for other in others)


@pytest.mark.parametrize(("name", "value"), [("n_latent", 0), ("adversarial_weight", -1.0), ("augment", "crop")])
def test_bad_options(digits, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of TBHHasher must be .* Got {value!r} instead"):
        TBHHasher(**{name: value}).fit(digits.X)
