"""Greedy Hash: its loss against a loop over classes, gradients through the sign, the labels that it takes."""

import math
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
import torch
from _helpers import (
    CASES,
    NBITS,
    assert_resumes_as_if_never_stopped,
    case_of,
    draw,
    finite_at_extremes,
    half_product,
    loss_of,
    mean,
    objective_of,
    softplus,
)
from numpy.testing import assert_array_equal

from skhash import GreedyHashHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity
from skhash.engine import Trainer


@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_loop_over_classes(case):
    y, affinity, _ = case_of(case)
    objective = objective_of(GreedyHashHasher, affinity, quantization_weight=0.3)
    classifier = objective.trained["classifier"].double()
    weight, bias = classifier.weight.tolist(), classifier.bias.tolist()
    u = 1.5 * draw(len(y), NBITS, seed=4)
    losses = []
    for row, target in zip(u.tolist(), y, strict=True):
        code = [1.0 if a >= 0 else -1.0 for a in row]
        logits = [2 * half_product(w, code) + c for w, c in zip(weight, bias, strict=True)]
        if y.ndim == 1:
            losses.append(math.log(sum(map(math.exp, logits))) - logits[target])
        else:
            losses += [softplus(-logit if label else logit) for logit, label in zip(logits, target, strict=True)]
    expected = mean(losses) + 0.3 * mean(abs(abs(a) - 1) ** 3 for row in u.tolist() for a in row)
    assert loss_of(objective, u, y, affinity).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", ["classes", "several labels"])
def test_gradients_pass_the_sign(case):
    y, affinity, _ = case_of(case)
    objective = objective_of(GreedyHashHasher, affinity, quantization_weight=0.0)
    objective.trained.double()
    u = draw(len(y), NBITS, seed=6).requires_grad_()
    codes = torch.where(u >= 0, 1.0, -1.0).double().detach().requires_grad_()
    loss_of(objective, u, y, affinity).backward()
    through = u.grad.clone()
    # at a code the sign is the identity, so that there the gradients are those of the classifier
    loss = loss_of(objective, codes, y, affinity)
    torch.testing.assert_close(torch.autograd.grad(loss, codes)[0], through)
    weights = tuple(objective.trained.parameters())
    assert all((gradient != 0).any() for gradient in torch.autograd.grad(loss_of(objective, u, y, affinity), weights))
    penalized = objective_of(GreedyHashHasher, affinity, quantization_weight=1.0)
    assert torch.autograd.gradcheck(lambda u: penalized.penalty(u.abs() - 1).mean(), (u,))


def test_extreme_activations_stay_finite():
    assert finite_at_extremes(objective_of(GreedyHashHasher, ClassAffinity(), nbits=64, quantization_weight=1.0))


def test_the_weight_of_the_penalty_matters(digits):
    plain, other = (
        GreedyHashHasher(16, n_epochs=3, quantization_weight=weight, random_state=0).fit(digits.X, digits.y)
        for weight in (None, 30.0)
    )
    assert (plain.database_.codes.rows != other.database_.codes.rows).any()


@pytest.mark.parametrize(
    ("affinity", "y"),
    [
        (DistanceAffinity(), None),
        (PrecomputedAffinity(np.eye(500) + np.eye(500, k=1) + np.eye(500, k=-1)), np.arange(500)),
        (lambda a, b: np.abs(a[:, None] - b) < 3, np.arange(500)),
    ],
    ids=["distances", "a matrix", "a function"],
)
def test_an_affinity_without_labels_is_refused(digits, affinity, y):
    with pytest.raises(ValueError, match=r"affinity.*labels"):
        GreedyHashHasher(8, affinity=affinity).fit(digits.X, y)


@pytest.mark.parametrize("form", ["words", "column", "given"])
def test_labels_may_have_any_form(digits, form):
    y = {"words": np.array(list("abcdefghij"))[digits.y], "column": digits.y[:, None], "given": digits.y}[form]
    plain = GreedyHashHasher(8, n_epochs=1, random_state=0).fit(digits.X, digits.y)
    hasher = GreedyHashHasher(8, n_epochs=1, random_state=0, affinity=ClassAffinity() if form == "given" else "auto")
    hasher.fit(digits.X, y)
    assert_array_equal(hasher.database_.codes.rows, plain.database_.codes.rows)
    assert_array_equal(hasher.classes_, np.unique(y))


def test_the_first_call_of_partial_fit_sees_every_class(digits):
    hasher = GreedyHashHasher(8, batch_size=50, random_state=0)
    few = digits.y < 7
    with patch.object(Trainer, "run_epoch", autospec=True, side_effect=Trainer.run_epoch) as run_epoch:
        hasher.partial_fit(digits.X[few], digits.y[few])
        hasher.partial_fit(digits.X[few][:100], digits.y[few][:100])
    first, second = (call.args[0].objective.trained["classifier"].weight.detach() for call in run_epoch.call_args_list)
    assert 0 < (second - first).abs().max() < 0.1  # it goes on from where it was
    with pytest.raises(ValueError, match=r"`y` must hold classes of the first call.*\[7 8 9\]"):
        hasher.partial_fit(digits.X, digits.y)
    assert_array_equal(hasher.classes_, np.arange(7))


def test_a_resumed_fit_goes_on_with_its_classifier(digits, tmp_path):
    make = partial(GreedyHashHasher, 8, n_epochs=4, batch_size=50, random_state=0)
    assert_resumes_as_if_never_stopped(make, tmp_path, digits.X, digits.y)
