"""CGHash: its triplets against loops, its master problem against scipy's linear program, and the hasher.

The tests of its base class are in test_column_generation.py.
"""

import numpy as np
import pytest
from _helpers import cghash, history_of
from _oracles import triplet_optimum
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skhash import CGHashHasher, ITQHasher
from skhash.affinity import ClassAffinity, Relevance
from skhash.hashers.ranking_lists import draw_ranking_lists
from skhash.hashers.structhash import cghash as cghash_module
from skhash.hashers.structhash.cghash import TripletMasterProblem, Triplets, triplet_program


def triplets_of(hasher, y):
    """The triplets that the hasher draws."""
    rng = np.random.RandomState(0)
    return Triplets(
        draw_ranking_lists(Relevance.of(y, hasher.affinity_), hasher.n_relevant, hasher.n_irrelevant, len(y), rng)
    )


@pytest.mark.parametrize(
    "family", ["kernel", "linear", "stump", "trees", pytest.param(LogisticRegression(C=0.01), id="logistic")]
)
def test_every_bit_violates_its_dual_constraint_and_its_weights_are_optimal(few, fitted, family):
    hasher = fitted(cghash, family)
    assert [entry["bit"] for entry in hasher.history_] == [1, 2, 3, 4]
    triplets, bits = triplets_of(hasher, few.y), hasher.transform(few.X)
    master = TripletMasterProblem(triplets, hasher.C_, "HIGHS")
    for m, entry in enumerate(hasher.history_, 1):
        weights = hasher.bit_weights_path_[m - 1]
        gain = master.solution.duals @ triplets.margins(bits[:, m - 1])  # by the duals before this bit
        assert entry["column_gain"] == pytest.approx(gain)
        assert gain > 1 + hasher.tol
        master.add_bit(bits[:, m - 1])
        master.optimize()
        assert_allclose(weights[:m], master.solution.weights, atol=1e-9)
        assert not weights[m:].any()
        assert entry["objective"] == pytest.approx(weights.sum() + hasher.C_ * entry["loss"])
        assert entry["objective"] == pytest.approx(triplet_optimum(master.margins, hasher.C_))
        assert entry["gap"] == entry["objective"] - entry["bound"] <= 1e-6 * entry["objective"]
        assert entry["effective_bits"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
        assert entry["n_nonzero"] == (weights > 1e-6 * weights.max()).sum()
    objectives = [entry["objective"] for entry in hasher.history_]
    assert (np.diff(objectives) <= 1e-9).all()  # if the duals are not unique, a bit may change nothing
    assert objectives[-1] < objectives[0]
    assert_array_equal(hasher.bit_weights_, hasher.bit_weights_path_[-1])
    assert not hasher.optimal_
    assert hasher.score(few.X_query, few.y_query) > 0.35


def test_the_search_over_stumps_ends_at_the_optimum_over_all_of_them():
    X, y = (part[::2] for part in load_iris(return_X_y=True))
    hasher = cghash(nbits=40, hash_function="stump").fit(X, y)
    n = len(hasher.history_)
    assert hasher.optimal_
    assert n < 40
    assert not hasher.bit_weights_[n:].any()
    assert (hasher.transform(X)[:, n:] == 1).all()
    stumps = np.unique([x >= value for x in X.T for value in np.unique(x)[1:]], axis=0)
    triplets = triplets_of(hasher, y)
    best = triplet_optimum(np.column_stack([triplets.margins(h) for h in stumps]), hasher.C_)
    assert best <= hasher.history_[-1]["objective"] * (1 + 1e-9)
    assert hasher.history_[-1]["bound"] / (1 + hasher.tol) <= best


def test_a_c_above_the_smallest_one_gives_the_first_bit_a_weight(few, fitted):
    smallest = fitted(cghash, "stump").C_ / 4
    assert cghash(nbits=1, hash_function="stump", C=1.05 * smallest).fit(few.X, few.y).bit_weights_.any()


def test_a_large_tolerance_ends_the_search(few, fitted):
    gains = [entry["column_gain"] for entry in fitted(cghash, "linear").history_]
    hasher = cghash(hash_function="linear", tol=max(gains[1:])).fit(few.X, few.y)
    assert hasher.optimal_
    assert len(hasher.history_) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"C": 1.0},
        {"n_relevant": 1},
        {"n_irrelevant": 1},
        {"n_queries": 30},
        {"hash_function": "linear"},
        {"n_anchors": 10},
        {"gamma": 1e-4},
        {"ridge": 10.0},
        {"n_starts": 1},
    ],
    ids=str,
)
def test_every_option_changes_the_fit(few, fitted, options):
    hasher = cghash(**{"nbits": 2} | options).fit(few.X, few.y)
    assert history_of(hasher) != history_of(fitted(cghash, "kernel").prefix(hasher.nbits))
    assert hasher.score(few.X_query, few.y_query) > 0.2


def test_ranks_digits_better_than_itq(digits):
    supervised, itq = (
        hasher.fit(digits.X, digits.y).score(digits.X_query, digits.y_query)
        for hasher in (CGHashHasher(nbits=8, random_state=0), ITQHasher(nbits=8, random_state=0))
    )
    assert supervised > itq + 0.2


# --- triplets


def problem(seed, n_samples=24, nbits=4, noise=0.2):
    """Classes, ranking lists of several sizes, and noisy bits of the classes."""
    rng = np.random.RandomState(seed)
    y = np.repeat([0, 1, 2], [3, 8, n_samples - 11])
    lists = draw_ranking_lists(Relevance.of(y, ClassAffinity()), 3, 2, n_samples, rng)
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
    weights, duals = triplet_program(margins, C, "HIGHS")
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

    monkeypatch.setattr(cghash_module, "triplet_program", counted)
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
