"""CGHash: its triplets against loops, and its master problem against scipy's linear program."""

import numpy as np
import pytest
from _oracles import triplet_optimum
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skhash.affinity import ClassAffinity
from skhash.hashers._ranking_lists import draw_ranking_lists
from skhash.hashers.structhash import _triplets
from skhash.hashers.structhash._triplets import TripletMasterProblem, Triplets, triplet_program


def problem(seed, n_samples=24, nbits=4, noise=0.2):
    """Classes, ranking lists of several sizes, and noisy bits of the classes."""
    rng = np.random.RandomState(seed)
    y = np.repeat([0, 1, 2], [3, 8, n_samples - 11])
    lists = draw_ranking_lists(ClassAffinity(), y, 3, 2, n_samples, rng)
    bits = rng.randint(0, 2, (3, nbits))[y] ^ (rng.rand(n_samples, nbits) < noise)
    return y, lists, bits.astype(np.uint8)


@pytest.mark.parametrize("seed", range(3))
def test_triplets_are_all_pairs_of_each_list(seed):
    y, lists, bits = problem(seed)
    triplets = Triplets(lists)
    expected, max_relevant = [], lists.sizes[:, 0].max()
    for query, items, (n_relevant, n_irrelevant) in zip(lists.queries, lists.items, lists.sizes, strict=True):
        expected += [
            (query, j, k) for j in items[:n_relevant] for k in items[max_relevant : max_relevant + n_irrelevant]
        ]
    assert_array_equal(triplets.indices.T, expected)
    i, j, k = triplets.indices
    assert (y[i] == y[j]).all()
    assert (y[i] != y[k]).all()
    assert (i != j).all()
    assert len(np.unique(triplets.indices, axis=1).T) == len(expected)
    for h in bits.T:
        far, near = (np.abs(h[i].astype(int) - h[other]) for other in (k, j))
        assert_array_equal(triplets.margins(h), far - near)


@pytest.mark.parametrize("seed", range(3))
def test_pair_weights_are_sums_over_triplets(seed):
    _, lists, bits = problem(seed)
    triplets = Triplets(lists)
    weights = np.random.RandomState(seed).rand(triplets.indices.shape[1])
    expected, gains = np.zeros((24, 24)), np.zeros(bits.shape[1])
    for (i, j, k), u in zip(triplets.indices.T, weights, strict=True):
        expected[i, k] += u
        expected[i, j] -= u
        gains += u * (1.0 * (bits[i] != bits[k]) - (bits[i] != bits[j]))
    A = triplets.pair_matrix(weights)
    assert_allclose(A.toarray(), expected, atol=1e-12)
    for h, gain in zip(bits.T.astype(float), gains, strict=True):
        assert (A.toarray() * np.abs(h[:, None] - h)).sum() == pytest.approx(gain)


# --- the linear program


@pytest.mark.parametrize("solver", ["HIGHS", "CLARABEL", "SCIPY"])
@pytest.mark.parametrize("C", [0.02, 0.3, 5.0])
def test_the_solution_is_that_of_scipy_with_its_dual(C, solver):
    for seed in range(2):
        _, lists, bits = problem(seed)
        triplets = Triplets(lists)
        margins = np.column_stack([triplets.margins(h) for h in bits.T])
        weights, duals = triplet_program(margins, C, solver)
        slacks = np.maximum(1 - margins @ weights, 0)
        best = triplet_optimum(margins, C)
        assert weights.sum() + C * slacks.sum() == pytest.approx(best)
        assert duals.sum() == pytest.approx(best)
        assert (weights >= 0).all()
        assert ((duals >= 0) & (duals <= C)).all()
        assert (duals @ margins <= 1 + 1e-6).all()
        assert_allclose(weights * (1 - duals @ margins), 0, atol=1e-5)
        assert_allclose(duals * (margins @ weights + slacks - 1), 0, atol=1e-5)
        assert_allclose(slacks * (C - duals), 0, atol=1e-5)


def test_a_tiny_c_is_solved_precisely():
    _, lists, bits = problem(0)
    margins = np.repeat(np.column_stack([Triplets(lists).margins(h) for h in bits.T]), 50, axis=0)
    C = 3 / margins.sum(axis=0).max()
    weights, duals = triplet_program(margins, C)
    assert C < 2e-3
    assert weights.any()
    objective = weights.sum() + C * np.maximum(1 - margins @ weights, 0).sum()
    assert objective - duals.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("C", [0.05, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_the_weights_are_optimal_after_every_bit(monkeypatch, seed, C):
    sizes = []

    def counted(margins, *options):
        sizes.append(len(margins))
        return triplet_program(margins, *options)

    monkeypatch.setattr(_triplets, "triplet_program", counted)
    _, lists, bits = problem(seed, nbits=8, noise=0.1)
    triplets = Triplets(lists)
    master = TripletMasterProblem(triplets, C, "HIGHS")
    n = triplets.indices.shape[1]
    assert master.solution.objective == C * n
    objectives = [C * n]
    for m, h in enumerate(bits.T, 1):
        master.add_bit(h)
        master.optimize()
        solution, margins = master.solution, np.column_stack([triplets.margins(h) for h in bits[:, :m].T])
        assert_array_equal(master.margins, margins)
        assert solution.objective == pytest.approx(triplet_optimum(margins, C), rel=1e-6)
        assert solution.loss == pytest.approx(np.maximum(1 - margins @ solution.weights, 0).sum())
        assert solution.objective == pytest.approx(solution.weights.sum() + C * solution.loss)
        assert solution.bound == pytest.approx(solution.objective, rel=1e-6)
        assert (solution.duals @ margins <= 1 + 1e-12).all()
        assert ((solution.duals >= 0) & (solution.duals <= C)).all()
        assert_allclose(master.pair_matrix().toarray(), triplets.pair_matrix(solution.duals).toarray(), atol=1e-15)
        objectives.append(solution.objective)
    assert (np.diff(objectives) <= 1e-9).all()
    assert min(sizes) < n  # triplets with a margin above 1 are left out


def test_an_imprecise_solver_gives_a_warning(monkeypatch):
    _, lists, bits = problem(0)
    master = TripletMasterProblem(Triplets(lists), 1.0, "HIGHS")
    master.add_bit(bits[:, 0])

    def rough(margins, C, solver):
        weights, duals = triplet_program(margins, C, solver)
        return 1.01 * weights + 0.01, 1.001 * duals

    monkeypatch.setattr(_triplets, "triplet_program", rough)
    with pytest.warns(ConvergenceWarning, match=r"Bit 1: solver='HIGHS' left the objective .* above its lower bound"):
        master.optimize()
    assert master.solution.bound < master.solution.objective
    assert master.solution.bound <= triplet_optimum(master.margins, 1.0) * (1 + 1e-9)
    assert (master.solution.duals @ master.margins <= 1 + 1e-12).all()
