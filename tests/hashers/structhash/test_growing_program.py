"""StructHash: the linear program that grows by cuts, against scipy's and against a fresh one."""

import pytest
from _helpers import by_linprog, random_cuts
from numpy.testing import assert_allclose

from skhash.hashers.structhash._growing_program import GrowingProgram

C = 20.0


def assert_optimal(solution, slopes, offsets):
    value, duals = solution
    other = by_linprog(slopes, offsets, C)
    assert value == pytest.approx(other.fun, abs=1e-9)
    assert_allclose(duals, -other.ineqlin.marginals, atol=1e-8)  # random cuts have no second solution


@pytest.mark.parametrize("seed", range(3))
def test_cuts_that_are_added_one_by_one(seed):
    slopes, offsets = random_cuts(seed)
    program = GrowingProgram(5, C)
    for n_cuts in range(1, len(offsets) + 1):
        assert_optimal(program.solve(slopes[:n_cuts], offsets[:n_cuts]), slopes[:n_cuts], offsets[:n_cuts])


def test_other_and_fewer_cuts_start_again():
    program, (slopes, offsets) = GrowingProgram(5, C), random_cuts(0)
    for changed in (random_cuts(0), random_cuts(1, 3), (slopes[:2], offsets[:2]), (slopes[:4], offsets[:4] + 0.1)):
        assert_optimal(program.solve(*changed), *changed)


def test_the_same_cuts_twice():
    program, cuts = GrowingProgram(5, C), random_cuts(2)
    first, second = program.solve(*cuts), program.solve(*cuts)
    assert first[0] == second[0]
    assert (first[1] == second[1]).all()


def test_an_unsolved_program_gives_none():
    program = GrowingProgram(5, C)
    program._highs.setOptionValue("simplex_iteration_limit", 0)
    assert program.solve(*random_cuts(0)) is None
