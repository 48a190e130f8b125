"""DTSH: its loss against a triple loop, gradients, options."""

import itertools
import math

import numpy as np
import pytest
import torch
from _helpers import (
    CASES,
    NBITS,
    case_of,
    draw,
    finite_at_extremes,
    half_product,
    has_right_gradients,
    loss_of,
    mean,
    objective_of,
    softplus,
    squared_gap,
)

from skhash import DTSHHasher
from skhash.affinity import ClassAffinity


def triplets(u, similar, margin):
    ordered = itertools.permutations(range(len(u)), 3)
    valid = [(q, p, n) for q, p, n in ordered if similar[q][p] and not similar[q][n]]
    return mean(softplus(-(half_product(u[q], u[p]) - half_product(u[q], u[n]) - margin)) for q, p, n in valid)


@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_triple_loop(case):
    y, affinity, similar = case_of(case)
    u = 1.5 * draw(len(y), NBITS, seed=2)
    expected = triplets(u.tolist(), similar, 2.5) + 0.3 * squared_gap(u.tolist())
    assert loss_of(
        objective_of(DTSHHasher, affinity, quantization_weight=0.3, margin=2.5), u, y, affinity
    ).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", ["classes", "several labels"])
def test_gradients(case):
    assert has_right_gradients(
        lambda affinity: objective_of(DTSHHasher, affinity, quantization_weight=0.3, margin=2.5), case
    )


def test_extreme_activations_stay_finite():
    assert finite_at_extremes(objective_of(DTSHHasher, ClassAffinity(), quantization_weight=1.0, margin=32.0))


def test_a_part_of_many_triplets_is_drawn():
    y = np.repeat([0, 1], 8)
    u = draw(16, NBITS, seed=7)
    full, part = (objective_of(DTSHHasher, ClassAffinity(), quantization_weight=0.0, margin=2.0) for _ in range(2))
    part.max_triplets = 64
    torch.manual_seed(0)
    losses = [loss_of(part, u, y).item() for _ in range(300)]
    assert len(set(losses)) > 100
    assert np.mean(losses) == pytest.approx(loss_of(full, u, y).item(), abs=4 * np.std(losses) / math.sqrt(300))


def test_every_option_matters(digits):
    plain, *others = (
        DTSHHasher(16, n_epochs=3, random_state=0, **options).fit(digits.X, digits.y).database_.codes.rows
        for options in ({}, {"quantization_weight": 30.0}, {"margin": 0.5})
    )
    assert all((plain != other).any() for other in others)
