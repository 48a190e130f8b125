"""StructHash's master problem against scipy's linear programs over all cuts and all rankings."""

from functools import partial

import _oracles as oracles
import numpy as np
import pytest
from _helpers import structhash
from _oracles import interleavings, losses_of, without_padding
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Bunch

from skhash.affinity import ClassAffinity, Relevance
from skhash.hashers.ranking_lists import draw_ranking_lists
from skhash.hashers.structhash import _cutting_planes
from skhash.hashers.structhash._cutting_planes import CutProgram, CuttingPlanes
from skhash.hashers.structhash._losses import GAINS
from skhash.hashers.structhash._oracles import RankingOracle

stumps = partial(structhash, hash_function="stump")
C, LOSSES = 20.0, losses_of(GAINS)


def problem(name="ap", nbits=3, n_samples=24, seed=0, max_items=3):
    """An oracle on short lists, and noisy bits of the classes."""
    rng = np.random.RandomState(seed)
    y = np.arange(n_samples) % 3
    lists = draw_ranking_lists(Relevance.of(y, ClassAffinity()), max_items, max_items, 8, rng)
    bits = (rng.randint(0, 2, (3, nbits))[y] ^ (rng.rand(n_samples, nbits) < 0.2)).astype(np.uint8)
    return RankingOracle(lists, LOSSES[name][0]), bits


def solve(oracle, bits, tol=1e-4, max_iter=200, solver="HIGHS", **options):
    """The master problem after all bits, and its solution after each of them."""
    master = CuttingPlanes(oracle, C, bits.shape[1], tol, max_iter, solver, **options)
    solutions = []
    for bit in bits.T:
        master.add_bit(bit)
        master.optimize()
        solutions.append(master.solution)
    return master, solutions


@pytest.fixture(scope="module")
def longer():
    """An oracle on longer lists, bits, the master problem and its solutions."""
    oracle, bits = problem(nbits=5, n_samples=40, max_items=8, seed=5)
    return oracle, bits, *solve(oracle, bits)


def optimum(name, oracle, bits):
    """The least |w|_1 + C (mean slack) over all rankings of all lists, with one slack per list; and its w."""
    lists, nbits = oracle.lists, bits.shape[1]
    rows, limits = [], []
    for i, (query, items, size) in enumerate(zip(lists.queries, lists.items, lists.sizes.tolist(), strict=True)):
        real = items[without_padding(size, lists.sizes[:, 0].max())]
        phi = -np.abs(bits[real].astype(float) - bits[query])
        rankings, misordered = interleavings(*size)
        # the order of the items of one kind depends on w: every order of them is a ranking as well
        for relevant in oracles.permutations(size[0]):
            for irrelevant in oracles.permutations(size[1]):
                apart = phi[: size[0]][relevant][:, None] - phi[size[0] :][irrelevant][None]
                delta = 2 / (size[0] * size[1]) * np.einsum("rjk,jkb->rb", misordered, apart)
                rows.append(np.hstack([-delta, -np.eye(len(lists.queries))[[i] * len(delta)]]))
                limits.append(LOSSES[name][1](rankings) - 1)
    cost = np.r_[np.ones(nbits), np.full(len(lists.queries), C / len(lists.queries))]
    unique = np.unique(np.column_stack([np.vstack(rows), np.concatenate(limits)]).round(12), axis=0)
    result = linprog(cost, A_ub=sparse.csr_array(unique[:, :-1]), b_ub=unique[:, -1])
    return result.fun, result.x[:nbits]


@pytest.mark.parametrize("name", ["ap", "auc", "precision None", "ndcg 2 log2", "ndcg None delayed_log2"])
def test_the_optimum_over_all_rankings_is_reached(name):
    oracle, bits = problem(name)
    master, solutions = solve(oracle, bits)
    for m, solution in enumerate(solutions, 1):
        best, w = optimum(name, oracle, bits[:, :m])
        assert solution.bound <= best + 1e-6
        assert best - 1e-9 <= solution.objective <= best + C * master.tol + 1e-6
        differences = master.differences[:, :m]
        assert w.sum() + C * oracle(differences, w)[1] == pytest.approx(best, abs=1e-6)
        assert solution.objective == pytest.approx(solution.weights.sum() + C * solution.loss)
        assert solution.loss == pytest.approx(oracle(differences, solution.weights)[1], abs=1e-12)
        assert solution.objective - solution.bound <= C * master.tol
    assert solutions[-1].weights.sum() > 0.1


def test_a_further_bit_never_increases_the_objective(longer):
    oracle, _, _, solutions = longer
    objectives = [C * oracle.first_cut().offset, *(solution.objective for solution in solutions)]
    assert (np.diff(objectives) <= 0).all()
    assert objectives[-1] < 0.9 * objectives[1]
    assert [len(solution.weights) for solution in solutions] == list(range(1, 6))
    assert all((solution.weights >= 0).all() for solution in solutions)


def test_a_repeated_bit_changes_nothing():
    oracle, bits = problem()
    solutions = solve(oracle, bits[:, [0, 1, 1]])[1]
    assert solutions[2].objective == pytest.approx(solutions[1].objective, abs=1e-9)
    assert solutions[2].n_iter == 0


def test_the_duals_give_the_bound_and_the_gains_of_the_columns(longer):
    _, bits, master, _ = longer
    duals, offsets = master.solution.duals, np.array([cut.offset for cut in master.cuts])
    assert duals @ offsets == pytest.approx(master.solution.bound, abs=1e-6)
    A = master.pair_matrix()
    gains = np.array([A.multiply(np.abs(h[:, None] - h)).sum() for h in bits.T.astype(float)])
    assert_allclose(gains, master.coefficients.T @ duals, atol=1e-9)
    assert max(gains) <= 1 + 1e-6
    slopes = np.column_stack([-master.coefficients, -np.ones(len(offsets))])
    weights = linprog(np.r_[np.ones(5), C], A_ub=slopes, b_ub=-offsets).x[:-1]
    assert_allclose(gains[weights > 1e-6], 1, atol=1e-6)


def test_dropped_cuts_leave_the_bound_valid(longer, monkeypatch):
    oracle, bits, with_all_cuts, expected = longer
    monkeypatch.setattr(_cutting_planes, "N_NEWEST", 0)
    master, solutions = solve(oracle, bits)
    assert len(master.cuts) < len(with_all_cuts.cuts)
    assert len(master.cuts) == len(master.coefficients) == len(master.solution.duals)
    assert (master.solution.duals > 0).all()
    for a, b in zip(solutions, expected, strict=True):
        assert a.bound <= b.objective + 1e-9
        assert abs(a.objective - b.objective) <= C * 1e-4 + 1e-6
    assert_allclose(master.coefficients, [oracle.coefficients(cut, master.differences) for cut in master.cuts])


def test_programs_are_compiled_again_for_more_cuts_and_bits(longer, monkeypatch):
    oracle, bits, _, expected = longer
    monkeypatch.setattr(_cutting_planes, "CUTS", 4)
    monkeypatch.setattr(_cutting_planes, "BITS", 2)
    for a, b in zip(solve(oracle, bits)[1], expected, strict=True):
        assert abs(a.objective - b.objective) <= C * 1e-4


def test_only_the_newest_weight_is_optimized():
    oracle, bits = problem(seed=1)
    solutions = solve(oracle, bits, fully_corrective=False)[1]
    best = solve(oracle, bits)[1]
    for m in range(1, 3):
        assert_array_equal(solutions[m].weights[:m], solutions[m - 1].weights)
    for m in (0, 2):
        fixed = solutions[m - 1].weights if m else np.zeros(0)
        differences = np.stack([oracle.lists.differences(bit) for bit in bits.T[: m + 1]], axis=1)

        def objective(w, fixed=fixed, differences=differences):
            weights = np.append(fixed, w)
            return weights.sum() + C * oracle(differences, weights)[1]

        assert solutions[m].objective <= min(map(objective, np.linspace(0, 2, 61))) + C * 1e-4
        assert solutions[m].objective - solutions[m].bound <= C * 1e-4
        assert solutions[m].objective >= best[m].bound - 1e-9
    assert (np.diff([solution.objective for solution in solutions]) <= 0).all()


def test_all_weights_are_optimized_if_the_newest_one_alone_stays_at_zero():
    oracle, bits = problem(nbits=4)
    bits = bits[:, [0, 1, 2, 2]]  # the repeated bit has nothing to add
    solutions = solve(oracle, bits, fully_corrective=False)[1]
    assert_array_equal(solutions[2].weights[:2], solutions[1].weights)
    assert np.abs(solutions[3].weights[:2] - solutions[1].weights).min() > 0
    least, _ = optimum("ap", oracle, bits)
    assert solutions[3].bound <= least + 1e-6 < solutions[2].objective
    assert solutions[3].objective - solutions[3].bound <= C * 1e-4
    assert [solution.all_weights for solution in solutions[2:]] == [False, True]
    with pytest.warns(ConvergenceWarning) as warned:
        few = solve(oracle, bits, max_iter=2, tol=1e-7, fully_corrective=False)[1]
    assert max(solution.n_iter for solution in few) == 2
    assert len({str(warning.message)[:5] for warning in warned}) == len(warned)  # one per bit


def test_too_few_iterations_give_a_warning(longer):
    oracle, bits, *_ = longer
    master = CuttingPlanes(oracle, C, 2, 1e-7, 1, "HIGHS")
    master.add_bit(bits[:, 0])
    with pytest.warns(
        ConvergenceWarning, match=r"Bit 1: after max_iter=1 cuts .* tol=1e-07\. Increase max_iter or tol"
    ):
        master.optimize()
    assert master.solution.n_iter == 1
    assert master.solution.bound < master.solution.objective <= C * oracle.first_cut().offset


@pytest.mark.parametrize("solver", ["CLARABEL", "SCIPY"])
def test_every_solver_reaches_the_optimum(solver):
    oracle, bits = problem(nbits=2)
    best, _ = optimum("ap", oracle, bits)
    assert best - 1e-6 <= solve(oracle, bits, solver=solver)[1][-1].objective <= best + C * 1e-4 + 1e-6


# --- the linear program


def random_cuts(seed, n_cuts=12, nbits=5):
    """Slopes and offsets of random cutting planes."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 1, (n_cuts, nbits)), rng.uniform(0, 1, n_cuts)


def by_linprog(slopes, offsets, C):
    """The linear program of cutting planes, solved by scipy."""
    n_cuts, nbits = slopes.shape
    return linprog(np.r_[np.ones(nbits), C], A_ub=np.column_stack([-slopes, -np.ones(n_cuts)]), b_ub=-offsets)


@pytest.mark.parametrize("solver", ["HIGHS", "CLARABEL", "SCIPY"])
def test_the_linear_program_is_solved_with_its_dual(solver):
    program = CutProgram(16, 8, C)
    for seed, n_cuts in [(0, 12), (1, 16), (2, 5)]:  # a program forgets earlier cuts
        slopes, offsets = random_cuts(seed, n_cuts)
        primal = by_linprog(slopes, offsets, C)
        value, weights, duals = program.solve(slopes, offsets, solver)
        assert value == pytest.approx(primal.fun, abs=1e-6)
        assert_allclose(weights, primal.x[:-1], atol=1e-5)
        assert duals.shape == (n_cuts,)
        assert duals @ offsets == pytest.approx(value, abs=1e-6)
        assert (duals >= 0).all()
        assert (slopes.T @ duals <= 1 + 1e-6).all()
        assert duals.sum() <= C + 1e-6


def test_with_a_small_c_all_is_slack():
    slopes, offsets = random_cuts(0)
    value, weights, duals = CutProgram(12, 5, 1e-3).solve(np.abs(slopes), offsets, "HIGHS")
    assert value == pytest.approx(1e-3 * offsets.max())
    assert not weights.any()
    assert_allclose(duals, 1e-3 * (offsets == offsets.max()), atol=1e-9)


# --- optimality over all stumps


@pytest.fixture(scope="module")
def iris():
    """Samples, lists drawn as by the hasher, and stumps fitted until none improves."""
    X, y = (part[::2] for part in load_iris(return_X_y=True))
    hasher = stumps(nbits=20, tol=1e-3).fit(X, y)
    lists = draw_ranking_lists(Relevance.of(y, hasher.affinity_), 4, 4, len(y), np.random.RandomState(0))
    return Bunch(X=X, y=y, hasher=hasher, oracle=RankingOracle(lists, GAINS["ndcg"]))


def test_the_search_over_stumps_ends_at_the_optimum_over_all_of_them(iris):
    assert iris.hasher.optimal_
    bits = np.unique([x >= value for x in iris.X.T for value in np.unique(x)[1:]], axis=0).astype(np.uint8)
    master = CuttingPlanes(iris.oracle, iris.hasher.C_, len(bits), 1e-3, 500, "HIGHS")
    for bit in bits:
        master.add_bit(bit)
    master.optimize()
    assert iris.hasher.history_[-1]["bound"] / (1 + 1e-3) <= master.solution.objective
    assert iris.hasher.history_[-1]["objective"] >= master.solution.bound - 1e-6


def test_stage_wise_search_ends_only_at_the_optimum_over_all_weights(iris):
    hasher = stumps(nbits=20, tol=1e-3, fully_corrective=False).fit(iris.X, iris.y)
    assert hasher.optimal_
    bits = hasher.transform(iris.X).T
    differences = np.stack([iris.oracle.lists.differences(bit) for bit in bits], axis=1)
    objective = hasher.bit_weights_.sum() + hasher.C_ * iris.oracle(differences, hasher.bit_weights_)[1]
    assert objective <= iris.hasher.history_[-1]["objective"] + 2e-3 * hasher.C_
    assert {entry["all_weights"] for entry in iris.hasher.history_} == {True}
    assert not hasher.history_[1]["all_weights"]
