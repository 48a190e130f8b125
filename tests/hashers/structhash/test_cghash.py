"""CGHash: its triplets against loops, its linear program against scipy's, and the hasher made of them."""

import functools
import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Bunch

from skhash import CGHashHasher, ITQHasher
from skhash.affinity import ClassAffinity, DistanceAffinity, PrecomputedAffinity
from skhash.callbacks import RetrievalMonitor
from skhash.hashers._lists import draw_lists
from skhash.hashers.structhash import cghash
from skhash.hashers.structhash.cghash import TripletMaster, Triplets, triplet_program
from skhash.metrics import average_precision, relevance_histogram

quick = partial(CGHashHasher, nbits=4, n_anchors=40, random_state=0)
every_family = pytest.mark.parametrize(
    "family", ["kernel", "linear", "stump", "trees", pytest.param(LogisticRegression(C=0.01), id="logistic")]
)


@pytest.fixture(scope="module")
def few(digits):
    return Bunch(X=digits.X[:80], y=digits.y[:80], X_query=digits.X_query[:60], y_query=digits.y_query[:60])


@pytest.fixture(scope="module")
def fitted(few):
    """Four bits of a family, fitted once."""
    return functools.cache(lambda family: quick(hash_function=family).fit(few.X, few.y))


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return Bunch(X=X[::2], y=y[::2])


def problem(seed, n_rows=24, n_bits=4, noise=0.2):
    """Triplets of lists of several sizes, and noisy bits of the classes."""
    rng = np.random.RandomState(seed)
    y = np.repeat([0, 1, 2], [3, 8, n_rows - 11])
    lists = draw_lists(ClassAffinity(), y, 3, 2, n_rows, rng)
    bits = rng.randint(0, 2, (3, n_bits))[y] ^ (rng.rand(n_rows, n_bits) < noise)
    return y, lists, bits.astype(np.uint8)


def by_linprog(margins, C):
    """The program as it is stated: a weight a bit, a slack a triplet."""
    n_triplets, n_bits = margins.shape
    cost = np.r_[np.ones(n_bits), np.full(n_triplets, C)]
    return linprog(cost, A_ub=-np.hstack([margins, np.eye(n_triplets)]), b_ub=-np.ones(n_triplets))


# --- triplets


@pytest.mark.parametrize("seed", range(3))
def test_triplets_are_all_pairs_of_each_list(seed):
    y, lists, bits = problem(seed)
    triplets = Triplets(lists)
    expected, most = [], lists.sizes[:, 0].max()
    for query, items, (n_relevant, n_irrelevant) in zip(lists.queries, lists.items, lists.sizes, strict=True):
        expected += [(query, j, k) for j in items[:n_relevant] for k in items[most : most + n_irrelevant]]
    assert_array_equal(triplets.rows.T, expected)
    i, j, k = triplets.rows
    assert (y[i] == y[j]).all()
    assert (y[i] != y[k]).all()
    assert (i != j).all()
    assert len(np.unique(triplets.rows, axis=1).T) == len(expected)
    for h in bits.T:
        far, near = (np.abs(h[i].astype(int) - h[other]) for other in (k, j))
        assert_array_equal(triplets.margins(h), far - near)


@pytest.mark.parametrize("seed", range(3))
def test_pair_weights_are_sums_over_triplets(seed):
    _, lists, bits = problem(seed)
    triplets = Triplets(lists)
    weights = np.random.RandomState(seed).rand(triplets.rows.shape[1])
    expected, gains = np.zeros((24, 24)), np.zeros(bits.shape[1])
    for (i, j, k), u in zip(triplets.rows.T, weights, strict=True):
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
def test_the_program_is_scipys_and_its_dual(C, solver):
    for seed in range(3):
        _, lists, bits = problem(seed)
        triplets = Triplets(lists)
        margins = np.column_stack([triplets.margins(h) for h in bits.T])
        weights, duals = triplet_program(margins, C, solver)
        slacks = np.maximum(1 - margins @ weights, 0)
        primal = by_linprog(margins, C)
        assert weights.sum() + C * slacks.sum() == pytest.approx(primal.fun)
        assert duals.sum() == pytest.approx(primal.fun)
        assert (weights >= 0).all()
        assert ((duals >= 0) & (duals <= C)).all()
        assert (duals @ margins <= 1 + 1e-6).all()
        assert_allclose(weights * (1 - duals @ margins), 0, atol=1e-5)
        assert_allclose(duals * (margins @ weights + slacks - 1), 0, atol=1e-5)
        assert_allclose(slacks * (C - duals), 0, atol=1e-5)


def test_a_tiny_c_is_solved_as_precisely():
    _, lists, bits = problem(0)
    margins = np.repeat(np.column_stack([Triplets(lists).margins(h) for h in bits.T]), 50, axis=0)
    C = 3 / margins.sum(axis=0).max()
    weights, duals = triplet_program(margins, C)
    assert C < 2e-3
    assert weights.any()
    objective = weights.sum() + C * np.maximum(1 - margins @ weights, 0).sum()
    assert objective - duals.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("C", [0.05, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_master_is_optimal_after_every_bit(monkeypatch, seed, C):
    sizes = []

    def counted(margins, *options):
        sizes.append(len(margins))
        return triplet_program(margins, *options)

    monkeypatch.setattr(cghash, "triplet_program", counted)
    _, lists, bits = problem(seed, n_bits=8, noise=0.1)
    triplets = Triplets(lists)
    master = TripletMaster(triplets, C, "HIGHS")
    n = triplets.rows.shape[1]
    assert master.solution.objective == C * n
    objectives = [C * n]
    for m, h in enumerate(bits.T, 1):
        master.add_bit(h)
        master.optimize()
        solution, margins = master.solution, np.column_stack([triplets.margins(h) for h in bits[:, :m].T])
        assert_array_equal(master.margins, margins)
        assert solution.objective == pytest.approx(by_linprog(margins, C).fun, rel=1e-6)
        assert solution.loss == pytest.approx(np.maximum(1 - margins @ solution.weights, 0).sum())
        assert solution.objective == pytest.approx(solution.weights.sum() + C * solution.loss)
        assert solution.bound == pytest.approx(solution.objective, rel=1e-6)
        assert (solution.duals @ margins <= 1 + 1e-12).all()
        assert ((solution.duals >= 0) & (solution.duals <= C)).all()
        assert_allclose(master.pair_matrix().toarray(), triplets.pair_matrix(solution.duals).toarray(), atol=1e-15)
        objectives.append(solution.objective)
    assert (np.diff(objectives) <= 1e-9).all()
    assert min(sizes) < n  # triplets that keep the margin stay outside


def test_a_solver_that_is_not_precise_is_told_of(monkeypatch):
    _, lists, bits = problem(0)
    master = TripletMaster(Triplets(lists), 1.0, "HIGHS")
    master.add_bit(bits[:, 0])

    def rough(margins, C, solver):
        weights, duals = triplet_program(margins, C, solver)
        return 1.01 * weights + 0.01, 1.001 * duals

    monkeypatch.setattr(cghash, "triplet_program", rough)
    with pytest.warns(ConvergenceWarning, match=r"bit 1: solver='HIGHS' left the objective .* above its lower bound"):
        master.optimize()
    assert master.solution.bound < master.solution.objective
    assert master.solution.bound <= by_linprog(master.margins, 1.0).fun * (1 + 1e-9)
    assert (master.solution.duals @ master.margins <= 1 + 1e-12).all()


# --- the hasher


def history_of(hasher):
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in hasher.history_]


def triplets_of(hasher, X, y, n_queries=5000):
    rng = np.random.RandomState(0)
    return Triplets(draw_lists(hasher.affinity_, y, hasher.n_relevant, hasher.n_irrelevant, n_queries, rng))


@every_family
def test_every_bit_violates_its_dual_constraint_and_its_weights_are_optimal(few, fitted, family):
    hasher = fitted(family)
    assert [entry["bit"] for entry in hasher.history_] == [1, 2, 3, 4]
    triplets = triplets_of(hasher, few.X, few.y)
    bits = hasher.transform(few.X)
    master = TripletMaster(triplets, hasher.C_, "HIGHS")
    for m, entry in enumerate(hasher.history_, 1):
        weights = hasher.bit_weights_path_[m - 1]
        # of the duals before the bit: what is found anew is the column gain that was kept
        gain = master.solution.duals @ triplets.margins(bits[:, m - 1])
        assert entry["column_gain"] == pytest.approx(gain)
        assert gain > 1 + hasher.tol
        master.add_bit(bits[:, m - 1])
        master.optimize()
        assert_allclose(weights[:m], master.solution.weights, atol=1e-9)
        assert not weights[m:].any()
        assert entry["objective"] == pytest.approx(weights.sum() + hasher.C_ * entry["loss"])
        assert entry["objective"] == pytest.approx(by_linprog(master.margins, hasher.C_).fun)
        assert entry["gap"] == entry["objective"] - entry["bound"] <= 1e-6 * entry["objective"]
        assert entry["effective_bits"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
        assert entry["n_nonzero"] == (weights > 1e-6 * weights.max()).sum()
    objectives = [entry["objective"] for entry in hasher.history_]
    assert (np.diff(objectives) <= 1e-9).all()  # where duals are not unique, a bit may leave it as it was
    assert objectives[-1] < objectives[0]
    assert_array_equal(hasher.bit_weights_, hasher.bit_weights_path_[-1])
    assert not hasher.optimal_
    assert hasher.score(few.X_query, few.y_query) > 0.35


@every_family
def test_truncated_is_what_fewer_bits_would_have_been(few, fitted, family):
    longer = fitted(family)
    shorter, short = longer.truncate(2), quick(nbits=2, hash_function=family).fit(few.X, few.y)
    assert history_of(shorter) == history_of(short)
    for name in ("bit_weights_", "bit_weights_path_", "effective_bits_", "C_", "optimal_", "database_codes_"):
        assert_array_equal(getattr(shorter, name), getattr(short, name))
    assert_array_equal(shorter.encode(few.X_query), short.encode(few.X_query))
    assert shorter.score(few.X_query, few.y_query) == short.score(few.X_query, few.y_query)


def test_the_end_of_stumps_is_the_optimum_over_all_stumps(iris):
    hasher = quick(nbits=40, hash_function="stump").fit(iris.X, iris.y)
    n = len(hasher.history_)
    assert hasher.optimal_
    assert n < 40
    assert not hasher.bit_weights_[n:].any()
    assert (hasher.transform(iris.X)[:, n:] == 1).all()
    stumps = np.unique([x >= value for x in iris.X.T for value in np.unique(x)[1:]], axis=0)
    triplets = triplets_of(hasher, iris.X, iris.y)
    best = by_linprog(np.column_stack([triplets.margins(h) for h in stumps]), hasher.C_).fun
    assert best <= hasher.history_[-1]["objective"] * (1 + 1e-9)
    assert hasher.history_[-1]["bound"] / (1 + hasher.tol) <= best


def test_the_smallest_c_that_gives_a_weight(few, fitted):
    smallest = fitted("stump").C_ / 4
    with pytest.raises(ValueError, match=r"C=.* leaves the first bit at weight 0; a C well above \d"):
        quick(hash_function="stump", C=0.999 * smallest).fit(few.X, few.y)
    assert quick(hash_function="stump", C=1.05 * smallest).fit(few.X, few.y).bit_weights_.any()


def test_an_unknown_solver_is_refused_before_any_work(few):
    with pytest.raises(ValueError, match=r"solver='NONE' is not installed; one of .*HIGHS.* is wanted"):
        quick(solver="NONE").fit(few.X, few.y)


def test_rows_that_are_all_equal_are_refused():
    with pytest.raises(ValueError, match="no bit that brings relevant rows nearer"):
        quick().fit(np.ones((8, 3)), [0, 0, 0, 0, 1, 1, 1, 1])


def test_score_ranks_by_weighted_distances(few):
    hasher = quick(nbits=12).fit(few.X, few.y)
    codes = hasher.transform(few.X_query), hasher.transform(few.X)
    weighted = relevance_histogram(*codes, few.y_query, few.y, bit_weights=hasher.bit_weights_)
    plain = relevance_histogram(*codes, few.y_query, few.y)
    assert hasher.score(few.X_query, few.y_query) == average_precision(weighted) != average_precision(plain)


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
        {"n_starts": 5},
    ],
    ids=str,
)
def test_every_option_matters(few, fitted, options):
    hasher = quick(**options).fit(few.X, few.y)
    assert history_of(hasher) != history_of(fitted("kernel"))
    assert hasher.score(few.X_query, few.y_query) > 0.2


def test_a_large_tolerance_ends_the_search(few, fitted):
    gains = [entry["column_gain"] for entry in fitted("linear").history_]
    hasher = quick(hash_function="linear", tol=max(gains[1:])).fit(few.X, few.y)
    assert hasher.optimal_
    assert len(hasher.history_) == 1


def test_any_affinity(few):
    codes = quick(nbits=2).fit(few.X, few.y).transform(few.X)
    one_hot = np.eye(10, dtype=int)[few.y]
    given = PrecomputedAffinity(few.y[:, None] == few.y)
    for affinity, targets in [
        ("auto", one_hot),
        ("auto", sparse.csr_array(one_hot)),
        (given, np.arange(80)),
        (lambda a, b: 3.5 * (a[:, None] == b), few.y),
    ]:
        assert_array_equal(quick(nbits=2, affinity=affinity).fit(few.X, targets).transform(few.X), codes)
    several = np.column_stack([few.y % 2 == 0, few.y % 2 == 1, few.y < 5]).astype(int)
    assert quick(nbits=2).fit(few.X, several).transform(few.X).shape == (80, 2)


@pytest.mark.filterwarnings("ignore:.* queries (have|lack)")
def test_rows_alone_teach_a_distance_affinity(few):
    hasher = quick(nbits=4, affinity=DistanceAffinity((15,), (1,))).fit(few.X)
    assert 0.3 < hasher.score(few.X_query) <= 1


def test_labels_are_worth_more_than_none(digits):
    supervised, itq = (
        hasher.fit(digits.X, digits.y).score(digits.X_query, digits.y_query)
        for hasher in (CGHashHasher(nbits=16, random_state=0), ITQHasher(nbits=16, random_state=0))
    )
    assert supervised > itq + 0.2


def test_a_monitor_sees_every_bit_and_may_stop(few, fitted):
    monitor = RetrievalMonitor(few.X_query, few.y_query)
    hasher = quick(hash_function="linear").set_callbacks(monitor).fit(few.X, few.y)
    scores = [hasher.truncate(m).score(few.X_query, few.y_query) for m in range(1, 5)]
    assert [entry["score"] for entry in monitor.log_] == scores
    assert_array_equal(hasher.encode(few.X), fitted("linear").encode(few.X))
    falling = iter([0.5, 0.6, 0.4])
    monitor = RetrievalMonitor(few.X, few.y, scoring=lambda *_: next(falling), patience=1)
    stopped = quick(nbits=8, hash_function="linear").set_callbacks(monitor).fit(few.X, few.y)
    assert len(stopped.history_) == 3
    assert_array_equal(stopped.bit_weights_[:3], fitted("linear").truncate(3).bit_weights_)
    assert not stopped.bit_weights_[3:].any()


@every_family
def test_copies(few, fitted, family):
    hasher = fitted(family)
    again = pickle.loads(pickle.dumps(hasher))
    assert_array_equal(again.project(few.X_query), hasher.project(few.X_query))
    assert again.score(few.X_query, few.y_query) == hasher.score(few.X_query, few.y_query)
    assert_array_equal(again.truncate(1).encode(few.X), hasher.truncate(1).encode(few.X))
