"""StructHash: the linear and the quadratic program of the level bundle method against scipy's."""

import cvxpy as cp
import numpy as np
import pytest
from _helpers import by_linprog, random_cuts
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from skhash.hashers.structhash import _programs
from skhash.hashers.structhash._programs import CutPrograms, solve

C = 20.0


@pytest.mark.parametrize("solver", ["HIGHS", "CLARABEL", "SCIPY"])
@pytest.mark.parametrize("seed", range(3))
def test_the_lower_bound_is_the_linear_program_and_its_dual(seed, solver):
    slopes, offsets = random_cuts(seed)
    bound, duals = CutPrograms(5, 16, C, solver).lower_bound(slopes, offsets)
    primal = by_linprog(slopes, offsets, C)
    w, xi = primal.x[:-1], primal.x[-1]
    assert bound == pytest.approx(primal.fun, abs=1e-6)
    assert duals @ offsets == pytest.approx(bound, abs=1e-6)
    assert (duals >= 0).all()
    assert (slopes.T @ duals <= 1 + 1e-6).all()
    assert duals.sum() <= C + 1e-6
    assert_allclose(duals * (slopes @ w + xi - offsets), 0, atol=1e-5)
    assert_allclose(w * (1 - slopes.T @ duals), 0, atol=1e-5)
    assert xi * (C - duals.sum()) == pytest.approx(0, abs=1e-5)
    assert w.max() > 0.01


def test_the_lower_bound_of_a_small_c_is_all_slack():
    slopes, offsets = random_cuts(0)
    bound, duals = CutPrograms(5, 12, 1e-3).lower_bound(np.abs(slopes), offsets)
    assert bound == pytest.approx(1e-3 * offsets.max())
    assert_allclose(duals, 1e-3 * (offsets == offsets.max()), atol=1e-9)


def test_the_nearest_weights_of_one_cut_in_closed_form():
    # w <= 2 - 10 xi and xi >= 1 - 2 w: w in [8/19, 2]
    programs = CutPrograms(1, 3, 10)
    for center, nearest in [(0, 8 / 19), (1, 1), (5, 2)]:
        weights = programs.nearest_within(np.array([[2.0]]), np.array([1.0]), np.array([float(center)]), 2.0)
        assert_allclose(weights, [nearest], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_weights_are_those_of_scipy(seed):
    slopes, offsets = random_cuts(seed)
    bound = by_linprog(slopes, offsets, C).fun
    center = np.random.default_rng(seed).uniform(0, 1, 5)
    level = 1.2 * bound
    within = [
        {"type": "ineq", "fun": lambda x: slopes @ x[:-1] + x[-1] - offsets},
        {"type": "ineq", "fun": lambda x: level - x[:-1].sum() - C * x[-1]},
    ]
    start = by_linprog(slopes, offsets, C).x
    other = minimize(
        lambda x: ((x[:-1] - center) ** 2).sum(), start, bounds=[(0, None)] * 6, constraints=within, tol=1e-12
    )
    weights = CutPrograms(5, 13, C).nearest_within(slopes, offsets, center, level)
    assert_allclose(weights, other.x[:-1], atol=1e-4)
    assert (weights >= 0).all()
    assert weights.sum() + C * max(0, (offsets - slopes @ weights).max()) <= level + 1e-6


def test_programs_forget_earlier_cuts():
    programs = CutPrograms(5, 20, C)
    for seed, n_cuts in [(0, 20), (1, 3), (2, 12)]:
        slopes, offsets = random_cuts(seed, n_cuts)
        fresh = CutPrograms(5, n_cuts, C)
        bound, duals = programs.lower_bound(slopes, offsets)
        assert bound == pytest.approx(fresh.lower_bound(slopes, offsets)[0], abs=1e-8)
        assert duals.shape == (n_cuts,)
        center, level = np.linspace(0, 1, 5), 1.3 * bound
        weights = [p.nearest_within(slopes, offsets, center, level) for p in (programs, fresh)]
        assert_allclose(*weights, atol=1e-5)


# --- failures


@pytest.mark.parametrize("seed", range(2))
def test_cvxpy_solves_what_the_quick_programs_do_not(seed, monkeypatch):
    slopes, offsets = random_cuts(seed)
    center, level = np.linspace(0, 1, 5), 1.3 * by_linprog(slopes, offsets, C).fun
    quick = CutPrograms(5, 16, C)
    (bound, duals), weights = (
        quick.lower_bound(slopes, offsets),
        quick.nearest_within(slopes, offsets, center, level),
    )
    monkeypatch.setattr(_programs.GrowingProgram, "solve", lambda *_: None)
    monkeypatch.setattr(_programs, "least_norm_point", lambda *_: None)
    other_bound, other_duals = quick.lower_bound(slopes, offsets)
    assert other_bound == pytest.approx(bound, abs=1e-9)
    assert_allclose(other_duals, duals, atol=1e-8)
    assert_allclose(quick.nearest_within(slopes, offsets, center, level), weights, atol=1e-4)


def least_above_one(**limits):
    x = cp.Variable(nonneg=True)
    return cp.Problem(cp.Minimize(x), [x >= 1, *(x <= limit for limit in limits.values())])


def broken(monkeypatch, problem, *names):
    """Make these solvers fail on the problem; return the list of the solvers that are tried."""
    working, tried = problem.solve, []

    def fail_or_solve(solver):
        tried.append(solver)
        if solver in names:
            raise cp.SolverError(f"{solver} gave up.\nMore details")
        return working(solver=solver)

    monkeypatch.setattr(problem, "solve", fail_or_solve)
    return tried


def test_the_error_for_an_infeasible_problem_names_solver_and_status():
    with pytest.raises(RuntimeError, match=r"HIGHS ended with status 'infeasible.*CLARABEL ended with status 'infeas"):
        solve(least_above_one(max=0.5), "HIGHS", ("HIGHS", "CLARABEL", "SCIPY"))


def test_an_infeasible_level_is_an_error():
    with pytest.raises(RuntimeError, match=r"could not be solved: CLARABEL .*status 'infeasible"):
        CutPrograms(1, 1, 10).nearest_within(np.array([[2.0]]), np.array([1.0]), np.zeros(1), 0.1)


def test_another_solver_takes_over_with_one_warning(monkeypatch):
    problem = least_above_one()
    tried = broken(monkeypatch, problem, "HIGHS")
    with pytest.warns(
        UserWarning, match=r"solved by CLARABEL instead: HIGHS ended with status 'HIGHS gave up\.'"
    ) as warned:
        solve(problem, "HIGHS", ("HIGHS", "NO_SUCH_ONE", "CLARABEL", "SCIPY"))
    assert len(warned) == 1
    assert tried == ["HIGHS", "CLARABEL"]
    assert problem.value == pytest.approx(1)


def test_the_error_after_two_failures_names_both_solvers(monkeypatch):
    problem = least_above_one()
    tried = broken(monkeypatch, problem, "HIGHS", "CLARABEL")
    with pytest.raises(
        RuntimeError, match=r"HIGHS ended with .*CLARABEL ended with .*CLARABEL gave up.*Try another solver"
    ):
        solve(problem, "HIGHS", ("HIGHS", "CLARABEL", "SCIPY"))
    assert tried == ["HIGHS", "CLARABEL"]


def test_the_given_solver_is_used():
    problem = least_above_one()
    solve(problem, "SCIPY", ("HIGHS", "CLARABEL"))
    assert problem.solver_stats.solver_name == "SCIPY"
