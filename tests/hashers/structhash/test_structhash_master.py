"""StructHash's master problem against scipy's linear programs over all cuts and all rankings."""

from dataclasses import replace

import _oracles as oracles
import cvxpy as cp
import numpy as np
import pytest
from _oracles import LOSSES, interleavings, real_items
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog, minimize
from sklearn.exceptions import ConvergenceWarning

from skhash.affinity import ClassAffinity
from skhash.hashers._lists import draw_lists
from skhash.hashers.structhash import _master as master_module
from skhash.hashers.structhash._master import Master
from skhash.hashers.structhash._oracles import RankingOracle
from skhash.hashers.structhash._programs import CutPrograms, solve

C = 20.0


def problem(name="ap", n_bits=4, n_rows=24, seed=0, most=3):
    """An oracle on short lists, and noisy bits of the classes."""
    rng = np.random.RandomState(seed)
    y = np.arange(n_rows) % 3
    lists = draw_lists(ClassAffinity(), y, most, most, 8, rng)
    bits = (rng.randint(0, 2, (3, n_bits))[y] ^ (rng.rand(n_rows, n_bits) < 0.2)).astype(np.uint8)
    return RankingOracle(lists, LOSSES[name][0]), bits


def learned(oracle, bits, tol=1e-4, max_iter=200, **options):
    """A master after all bits, and the solutions on the way."""
    master = Master(oracle, bits.shape[1], C, tol, max_iter, "HIGHS", **options)
    solutions = []
    for bit in bits.T:
        master.add_bit(bit)
        master.optimize()
        solutions.append(replace(master.solution))  # which the next bit changes
    return master, solutions


def optimum(name, lists, bits):
    """The least |w|_1 + C (mean slack), of all rankings of all lists, a slack each; and its w."""
    n_lists, n_bits = len(lists.queries), bits.shape[1]
    rows, limits = [], []
    for i, (query, items, (n_relevant, n_irrelevant)) in enumerate(
        zip(lists.queries, lists.items, lists.sizes, strict=True)
    ):
        real = items[real_items((n_relevant, n_irrelevant), lists.sizes[:, 0].max())]
        phi = -np.abs(bits[real].astype(float) - bits[query])
        rankings, misordered = interleavings(n_relevant, n_irrelevant)
        # which item of a kind stands where depends on w: every order inside the kinds is a ranking as well
        for relevant in oracles._permutations(n_relevant):
            for irrelevant in oracles._permutations(n_irrelevant):
                apart = phi[:n_relevant][relevant][:, None] - phi[n_relevant:][irrelevant][None]
                delta = 2 / (n_relevant * n_irrelevant) * np.einsum("rjk,jkb->rb", misordered, apart)
                rows.append(np.hstack([-delta, -np.eye(n_lists)[[i] * len(delta)]]))
                limits.append(LOSSES[name][1](rankings) - 1)
    cost = np.r_[np.ones(n_bits), np.full(n_lists, C / n_lists)]
    unique = np.unique(np.column_stack([np.vstack(rows), np.concatenate(limits)]).round(12), axis=0)
    result = linprog(cost, A_ub=sparse.csr_array(unique[:, :-1]), b_ub=unique[:, -1])
    return result.fun, result.x[:n_bits]


def random_cuts(seed, n_cuts=12, n_bits=5):
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 1, (n_cuts, n_bits)), rng.uniform(0, 1, n_cuts)


def by_linprog(slopes, offsets, C):
    n_cuts, n_bits = slopes.shape
    return linprog(np.r_[np.ones(n_bits), C], A_ub=np.column_stack([-slopes, -np.ones(n_cuts)]), b_ub=-offsets)


# --- linear and quadratic programs


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
    for centre, nearest in [(0, 8 / 19), (1, 1), (5, 2)]:
        weights = programs.nearest_within(np.array([[2.0]]), np.array([1.0]), np.array([float(centre)]), 2.0)
        assert_allclose(weights, [nearest], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_weights_are_those_of_scipy(seed):
    slopes, offsets = random_cuts(seed)
    bound = by_linprog(slopes, offsets, C).fun
    centre = np.random.default_rng(seed).uniform(0, 1, 5)
    level = 1.2 * bound
    within = [
        {"type": "ineq", "fun": lambda x: slopes @ x[:-1] + x[-1] - offsets},
        {"type": "ineq", "fun": lambda x: level - x[:-1].sum() - C * x[-1]},
    ]
    start = by_linprog(slopes, offsets, C).x
    other = minimize(
        lambda x: ((x[:-1] - centre) ** 2).sum(), start, bounds=[(0, None)] * 6, constraints=within, tol=1e-12
    )
    weights = CutPrograms(5, 13, C).nearest_within(slopes, offsets, centre, level)
    assert_allclose(weights, other.x[:-1], atol=1e-4)
    assert (weights >= 0).all()
    assert weights.sum() + C * max(0, (offsets - slopes @ weights).max()) <= level + 1e-6


def test_programs_forget_the_cuts_before():
    programs = CutPrograms(5, 20, C)
    for seed, n_cuts in [(0, 20), (1, 3), (2, 12)]:
        slopes, offsets = random_cuts(seed, n_cuts)
        fresh = CutPrograms(5, n_cuts, C)
        bound, duals = programs.lower_bound(slopes, offsets)
        assert bound == pytest.approx(fresh.lower_bound(slopes, offsets)[0], abs=1e-8)
        assert duals.shape == (n_cuts,)
        centre, level = np.linspace(0, 1, 5), 1.3 * bound
        weights = [p.nearest_within(slopes, offsets, centre, level) for p in (programs, fresh)]
        assert_allclose(*weights, atol=1e-5)


# --- the bundle


@pytest.mark.parametrize("name", ["ap", "auc", "precision None", "ndcg 2 log2", "ndcg None structhash"])
@pytest.mark.parametrize("seed", range(2))
def test_the_optimum_over_all_rankings_is_reached(name, seed):
    oracle, bits = problem(name, seed=seed)
    master, solutions = learned(oracle, bits)
    for m, solution in enumerate(solutions, 1):
        best, w = optimum(name, oracle.lists, bits[:, :m])
        assert solution.bound <= best + 1e-6
        assert best - 1e-9 <= solution.objective <= best + C * master.tol + 1e-6
        differences = master.differences[:, :m]
        assert w.sum() + C * oracle(differences, w)[1] == pytest.approx(best, abs=1e-6)
        assert solution.objective == pytest.approx(solution.weights.sum() + C * solution.loss)
        assert solution.loss == pytest.approx(oracle(differences, solution.weights)[1], abs=1e-12)
        assert solution.objective - solution.bound <= C * master.tol
    assert solutions[-1].weights.sum() > 0.1


def test_a_further_bit_never_makes_the_objective_worse():
    oracle, bits = problem(n_bits=8, n_rows=40, most=8)
    solutions = learned(oracle, bits, tol=0.02)[1]
    objectives = [C * oracle.reversed_rankings().offset, *(solution.objective for solution in solutions)]
    assert (np.diff(objectives) <= 0).all()
    assert objectives[-1] < 0.9 * objectives[1]
    assert [len(solution.weights) for solution in solutions] == list(range(1, 9))
    assert all((solution.weights >= 0).all() for solution in solutions)


def test_a_bit_that_is_there_already_changes_nothing():
    oracle, bits = problem(n_bits=3)
    solutions = learned(oracle, bits[:, [0, 1, 2, 1]])[1]
    assert solutions[3].objective == pytest.approx(solutions[2].objective, abs=1e-9)
    assert solutions[3].n_iter == 0


def test_duals_make_the_bound_and_the_columns_of_the_master():
    oracle, bits = problem(n_bits=5, n_rows=40, most=8)
    master = learned(oracle, bits)[0]
    duals, offsets = master.solution.duals, np.array([cut.offset for cut in master.cuts])
    assert duals @ offsets == pytest.approx(master.solution.bound, abs=1e-6)
    A = master.pair_matrix()
    gains = [A.multiply(np.abs(h[:, None] - h)).sum() for h in bits.T.astype(float)]
    assert_allclose(gains, master.coefficients.T @ duals, atol=1e-9)
    assert max(gains) <= 1 + 1e-6
    positive = lower_bound_weights(master) > 1e-6
    assert_allclose(np.array(gains)[positive], 1, atol=1e-6)


def lower_bound_weights(master):
    return by_linprog(master.coefficients, np.array([cut.offset for cut in master.cuts]), C).x[:-1]


def test_retired_cuts_leave_the_bound_valid(monkeypatch):
    oracle, bits = problem(n_bits=5, n_rows=40, most=8)
    everything, kept = learned(oracle, bits, tol=1e-3)
    monkeypatch.setattr(master_module, "IDLE", 0)
    few, solutions = learned(oracle, bits, tol=1e-3)
    assert len(few.cuts) < len(everything.cuts)
    assert len(few.cuts) == len(few.coefficients) == len(few.solution.duals)
    assert (few.solution.duals > 0).all()
    for a, b in zip(solutions, kept, strict=True):
        assert a.bound <= b.objective + 1e-9
        assert abs(a.objective - b.objective) <= C * 1e-3 + 1e-6
    assert_allclose(few.coefficients, [oracle.coefficients(cut, few.differences) for cut in few.cuts])


def test_room_for_more_cuts_is_made(monkeypatch):
    oracle, bits = problem(n_bits=3, n_rows=40, most=8)
    expected = learned(oracle, bits)[1]
    monkeypatch.setattr(master_module, "ROOM", 1)
    solutions = learned(oracle, bits)[1]
    assert max(solution.n_iter for solution in solutions) > 2
    for a, b in zip(solutions, expected, strict=True):
        assert abs(a.objective - b.objective) <= C * 1e-4


def test_the_newest_weight_alone():
    oracle, bits = problem(n_bits=4, seed=1)
    solutions = learned(oracle, bits, fully_corrective=False)[1]
    best = learned(oracle, bits)[1]
    for m in range(1, 4):
        assert_array_equal(solutions[m].weights[:m], solutions[m - 1].weights)
    for m in (0, 3):
        fixed = solutions[m - 1].weights if m else np.zeros(0)
        differences = np.stack([oracle.lists.differences(bit) for bit in bits.T[: m + 1]], axis=1)

        def objective(w, fixed=fixed, differences=differences):
            weights = np.append(fixed, w)
            return weights.sum() + C * oracle(differences, weights)[1]

        assert solutions[m].objective <= min(map(objective, np.linspace(0, 2, 61))) + C * 1e-4
        assert solutions[m].objective - solutions[m].bound <= C * 1e-4
        assert solutions[m].objective >= best[m].bound - 1e-9
    assert (np.diff([solution.objective for solution in solutions]) <= 0).all()


def test_where_the_newest_weight_alone_is_stuck_all_are_solved_for():
    oracle, bits = problem(n_bits=3)
    bits = bits[:, [0, 1, 2, 2]]  # the last one again has nothing to add
    solutions = learned(oracle, bits, fully_corrective=False)[1]
    assert_array_equal(solutions[2].weights[:2], solutions[1].weights)
    assert np.abs(solutions[3].weights[:2] - solutions[1].weights).min() > 0
    least, _ = optimum("ap", oracle.lists, bits)
    assert solutions[3].bound <= least + 1e-6 < solutions[2].objective
    assert solutions[3].objective - solutions[3].bound <= C * 1e-4
    assert [solution.all_weights for solution in solutions[2:]] == [False, True]
    with pytest.warns(ConvergenceWarning) as told:
        few = learned(oracle, bits, max_iter=2, tol=1e-7, fully_corrective=False)[1]
    assert max(solution.n_iter for solution in few) == 2
    assert len({str(warning.message)[:5] for warning in told}) == len(told)  # one a bit, however many solves


def test_too_few_iterations_are_told():
    oracle, bits = problem(n_bits=2, n_rows=40, most=8)
    master = Master(oracle, 2, C, 1e-7, 1, "HIGHS")
    master.add_bit(bits[:, 0])
    with pytest.warns(ConvergenceWarning, match=r"bit 1: after max_iter=1 cuts .* tol=1e-07 is wanted"):
        master.optimize()
    assert master.solution.n_iter == 1
    assert master.solution.bound < master.solution.objective <= C * oracle.reversed_rankings().offset


@pytest.mark.parametrize("solver", ["CLARABEL", "SCIPY"])
def test_any_solver_will_do(solver):
    oracle, bits = problem(n_bits=2)
    expected = learned(oracle, bits)[1][-1]
    master = Master(oracle, 2, C, 1e-4, 200, solver)
    for bit in bits.T:
        master.add_bit(bit)
        master.optimize()
    assert abs(master.solution.objective - expected.objective) <= C * 1e-4


# --- failures


def least_above_one(**limits):
    x = cp.Variable(nonneg=True)
    return cp.Problem(cp.Minimize(x), [x >= 1, *(x <= limit for limit in limits.values())])


def broken(monkeypatch, problem, *names):
    """The problem, on which these solvers fail."""
    working, tried = problem.solve, []

    def fail_or_solve(solver):
        tried.append(solver)
        if solver in names:
            raise cp.SolverError(f"{solver} gave up.\nBy the way")
        return working(solver=solver)

    monkeypatch.setattr(problem, "solve", fail_or_solve)
    return tried


def test_an_infeasible_problem_names_solver_and_status():
    with pytest.raises(RuntimeError, match=r"HIGHS ended with status 'infeasible.*CLARABEL ended with status 'infeas"):
        solve(least_above_one(most=0.5), "HIGHS", ("HIGHS", "CLARABEL", "SCIPY"))


def test_an_infeasible_level_is_an_error():
    with pytest.raises(RuntimeError, match=r"could not be solved: CLARABEL .*status 'infeasible"):
        CutPrograms(1, 1, 10).nearest_within(np.array([[2.0]]), np.array([1.0]), np.zeros(1), 0.1)


def test_another_solver_takes_over_once(monkeypatch):
    problem = least_above_one()
    tried = broken(monkeypatch, problem, "HIGHS")
    with pytest.warns(UserWarning, match=r"solved by CLARABEL: HIGHS ended with status 'HIGHS gave up\.'") as warned:
        solve(problem, "HIGHS", ("HIGHS", "NO_SUCH_ONE", "CLARABEL", "SCIPY"))
    assert len(warned) == 1
    assert tried == ["HIGHS", "CLARABEL"]
    assert problem.value == pytest.approx(1)


def test_two_failures_are_an_error_that_names_both(monkeypatch):
    problem = least_above_one()
    tried = broken(monkeypatch, problem, "HIGHS", "CLARABEL")
    with pytest.raises(RuntimeError, match=r"HIGHS ended with .*CLARABEL ended with .*CLARABEL gave up.*solver="):
        solve(problem, "HIGHS", ("HIGHS", "CLARABEL", "SCIPY"))
    assert tried == ["HIGHS", "CLARABEL"]


def test_the_first_solver_is_enough():
    problem = least_above_one()
    solve(problem, "SCIPY", ("HIGHS", "CLARABEL"))
    assert problem.solver_stats.solver_name == "SCIPY"
