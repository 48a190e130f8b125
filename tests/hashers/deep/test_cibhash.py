"""CIBHash: its loss against plain loops, gradients through the draw, options."""

import numpy as np
import pytest
import torch
from _helpers import CPU, NBITS, WIDTH, Head, draw, plain_nt_xent, sigmoid
from numpy.testing import assert_allclose

from skhash import CIBHashHasher
from skhash.engine.runtime import seeded
from skhash.hashers.deep import nt_xent
from skhash.hashers.deep.cibhash import CIBHashObjective, _symmetric_kl


def plain_kl(p, q):
    return sum(a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b)) for a, b in zip(p, q, strict=True))


def test_divergence_in_closed_form():
    f, g = 2 * draw(8, NBITS), 2 * draw(8, NBITS, seed=1)
    p, q = ([[sigmoid(a) for a in row] for row in logits.tolist()] for logits in (f, g))
    expected = np.mean([(plain_kl(a, b) + plain_kl(b, a)) / 2 for a, b in zip(p, q, strict=True)])
    assert _symmetric_kl(f, g).item() == pytest.approx(expected, abs=1e-12)
    bits = [torch.distributions.Bernoulli(logits=logits) for logits in (f, g)]
    both = [torch.distributions.kl_divergence(*pair).sum(1).mean() for pair in (bits, bits[::-1])]
    assert _symmetric_kl(f, g).item() == pytest.approx(sum(both).item() / 2, abs=1e-12)
    assert _symmetric_kl(f, f).item() == 0
    sure = 200 * torch.ones(1, 1)
    assert _symmetric_kl(sure, -sure).item() == pytest.approx(200)  # finite where probabilities are 0 and 1


def make(n=7, **options):
    """An objective on fixed views, an encoder, the two views, and the uniform draws of a loss under seed 0."""
    views = draw(n, WIDTH, seed=1), draw(n, WIDTH, seed=2)
    calls = iter(range(10**6))
    with seeded(0, CPU):
        encoder = Head()
    with seeded(0, CPU):
        uniform = torch.rand(2 * n, NBITS, dtype=torch.float64)
    return CIBHashObjective(lambda X: views[next(calls) % 2], **options), encoder, views, uniform


@pytest.mark.parametrize("kl_weight", [0.0, 0.4])
def test_the_loss_is_the_double_loop(kl_weight):
    objective, encoder, views, uniform = make(temperature=0.4, kl_weight=kl_weight)
    p = [[[sigmoid(a) for a in row] for row in encoder(view).tolist()] for view in views]
    u = np.split(uniform.numpy(), 2)
    b = [
        [[1.0 if a >= c else -1.0 for a, c in zip(*rows, strict=True)] for rows in zip(*pair, strict=True)]
        for pair in zip(p, u, strict=True)
    ]
    divergence = np.mean([(plain_kl(a, c) + plain_kl(c, a)) / 2 for a, c in zip(*p, strict=True)])
    with seeded(0, CPU):
        loss = objective(encoder, views[0], None, np.arange(7)).item()
    assert loss == pytest.approx(plain_nt_xent(*b, 0.4) + kl_weight * divergence, abs=1e-12)


def test_gradients_of_the_divergence():
    f, g = draw(5, NBITS).requires_grad_(), draw(5, NBITS, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(_symmetric_kl, (f, g))


def test_gradients_pass_the_draw():
    objective, encoder, views, uniform = make(temperature=0.4, kl_weight=0.3)
    with seeded(0, CPU):
        loss = objective(encoder, views[0], None, np.arange(7))
        through = torch.autograd.grad(loss, encoder.hash.weight)[0]
    logits = encoder(torch.cat(views))
    p = torch.sigmoid(logits)
    codes = torch.where(p >= uniform, 1.0, -1.0).double().requires_grad_()
    (of_codes,) = torch.autograd.grad(nt_xent(*codes.chunk(2), 0.4), codes)
    of_logits = of_codes * 2 * p * (1 - p)
    of_logits = of_logits + torch.autograd.grad(0.3 * _symmetric_kl(*logits.chunk(2)), logits, retain_graph=True)[0]
    (expected,) = torch.autograd.grad(logits, encoder.hash.weight, of_logits)
    assert_allclose(through, expected, atol=1e-12)


def test_every_option_matters(digits):
    plain, *others = (
        CIBHashHasher(16, n_epochs=2, batch_size=50, random_state=0, **options).fit(digits.X[:200]).database_.codes.rows
        for options in ({}, {"temperature": 1.0}, {"kl_weight": 1.0}, {"augment": lambda batch: batch})
    )
    assert all((plain != other).any() for other in others)


def test_images_have_the_values_of_the_paper(digits):
    images = digits.X[:60].reshape(-1, 1, 8, 8)
    options = {"backbone": torch.nn.Flatten(), "n_epochs": 1, "random_state": 0}

    def settings(X, **given):
        used = CIBHashHasher(8, **options, **given).fit(X).settings_
        return used["temperature"], used["kl_weight"]

    assert settings(images) == (0.3, 0.001)
    assert settings(images, temperature=0.5) == (0.5, 0.001)
    assert settings(images, augment=lambda batch: batch) == (0.7, 0.1)
    assert settings(digits.X[:60]) == (0.7, 0.1)


@pytest.mark.parametrize(
    ("name", "value"), [("temperature", 0.0), ("kl_weight", -1.0), ("augment", None), ("augment", "crop")]
)
def test_bad_options(digits, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of CIBHashHasher must be .* Got {value!r} instead"):
        CIBHashHasher(**{name: value}).fit(digits.X)
