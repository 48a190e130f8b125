"""MIHash: its loss against mutual information by definition, gradients, options."""

import math

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
)

from skhash import MIHashHasher
from skhash.affinity import ClassAffinity


def information(phi, similar, n_bins):
    """Mutual information by its definition, bins by their triangular kernel."""
    n, nbits = len(phi), len(phi[0])
    values = []
    for q in range(n):
        joint = {(bin_, kind): 0.0 for bin_ in range(n_bins + 1) for kind in (False, True)}
        for i in range(n):
            if i != q:
                position = (nbits - 2 * half_product(phi[q], phi[i])) / 2 * n_bins / nbits
                for bin_ in range(n_bins + 1):
                    joint[bin_, similar[q][i]] += max(0.0, 1 - abs(position - bin_)) / (n - 1)
        shares = {kind: sum(p for (_, k), p in joint.items() if k == kind) for kind in (False, True)}
        if min(shares.values()) < 1e-12:
            continue
        of_bin = [joint[bin_, False] + joint[bin_, True] for bin_ in range(n_bins + 1)]
        values.append(
            sum(p * math.log(p / (of_bin[bin_] * shares[kind])) for (bin_, kind), p in joint.items() if p > 0)
        )
    return mean(values)


@pytest.mark.parametrize("n_bins", [None, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_information_by_definition(case, n_bins):
    y, affinity, similar = case_of(case)
    f = draw(len(y), NBITS, seed=3)
    expected = information(torch.tanh(0.8 * f).tolist(), similar, n_bins or NBITS // 2)
    assert -loss_of(
        objective_of(MIHashHasher, affinity, alpha=0.8, n_bins=n_bins), f, y, affinity
    ).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", ["classes", "several labels"])
def test_gradients(case):
    assert has_right_gradients(lambda affinity: objective_of(MIHashHasher, affinity, alpha=0.8), case)


def test_extreme_activations_stay_finite():
    assert finite_at_extremes(objective_of(MIHashHasher, ClassAffinity()))


def test_every_option_matters(digits):
    plain, *others = (
        MIHashHasher(16, n_epochs=3, random_state=0, **options).fit(digits.X, digits.y).database_.codes.rows
        for options in ({}, {"alpha": 3.0}, {"n_bins": 5})
    )
    assert all((plain != other).any() for other in others)
