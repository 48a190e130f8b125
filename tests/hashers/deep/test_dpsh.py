"""DPSH: its loss against a double loop, gradients, options."""

import pytest
from _helpers import (
    CASES,
    NBITS,
    case_of,
    draw,
    finite_at_extremes,
    has_right_gradients,
    loss_of,
    objective_of,
    pairwise,
    squared_gap,
)

from skhash import DPSHHasher
from skhash.affinity import ClassAffinity


@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_double_loop(case):
    y, affinity, similar = case_of(case)
    u = 1.5 * draw(len(y), NBITS)
    expected = pairwise(u.tolist(), similar) + 0.3 * squared_gap(u.tolist())
    objective = objective_of(DPSHHasher, affinity, quantization_weight=0.3)
    assert loss_of(objective, u, y, affinity).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", ["classes", "several labels"])
def test_gradients(case):
    assert has_right_gradients(lambda affinity: objective_of(DPSHHasher, affinity, quantization_weight=0.3), case)


def test_extreme_activations_stay_finite():
    assert finite_at_extremes(objective_of(DPSHHasher, ClassAffinity(), quantization_weight=1.0))


def test_the_weight_of_the_penalty_matters(digits):
    plain, other = (
        DPSHHasher(16, n_epochs=3, quantization_weight=weight, random_state=0).fit(digits.X, digits.y)
        for weight in (None, 3.0)
    )
    assert (plain.database_.codes.rows != other.database_.codes.rows).any()
