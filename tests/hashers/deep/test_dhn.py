"""DHN: its loss against a double loop, gradients, options."""

import math

import pytest
import torch
from _helpers import (
    CASES,
    NBITS,
    case_of,
    draw,
    finite_at_extremes,
    has_right_gradients,
    loss_of,
    mean,
    objective_of,
    pairwise,
)

from skhash import DHNHasher
from skhash.affinity import ClassAffinity


@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_double_loop(case):
    y, affinity, similar = case_of(case)
    f = 1.5 * draw(len(y), NBITS, seed=1)
    z = torch.tanh(f).tolist()
    prior = mean(math.log(math.cosh(abs(a) - 1)) for row in z for a in row)
    expected = pairwise(z, similar) + 0.3 * prior
    objective = objective_of(DHNHasher, affinity, quantization_weight=0.3)
    assert loss_of(objective, f, y, affinity).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", ["classes", "several labels"])
def test_gradients(case):
    assert has_right_gradients(lambda affinity: objective_of(DHNHasher, affinity, quantization_weight=0.3), case)


def test_extreme_activations_stay_finite():
    assert finite_at_extremes(objective_of(DHNHasher, ClassAffinity(), quantization_weight=1.0))


def test_the_weight_of_the_prior_matters(digits):
    plain, other = (
        DHNHasher(16, n_epochs=3, quantization_weight=weight, random_state=0).fit(digits.X, digits.y)
        for weight in (None, 30.0)
    )
    assert (plain.database_.codes.rows != other.database_.codes.rows).any()
