"""CGHash: the hasher. The tests of its base class are in test_column_generation.py."""

import numpy as np
import pytest
from _helpers import cghash, history_of
from _oracles import triplet_optimum
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skhash import CGHashHasher, ITQHasher
from skhash.hashers._ranking_lists import draw_ranking_lists
from skhash.hashers.structhash._triplets import TripletMasterProblem, Triplets


def triplets_of(hasher, y):
    """The triplets that the hasher draws."""
    rng = np.random.RandomState(0)
    return Triplets(draw_ranking_lists(hasher.affinity_, y, hasher.n_relevant, hasher.n_irrelevant, len(y), rng))


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
        {"n_starts": 5, "nbits": 4},
    ],
    ids=str,
)
def test_every_option_changes_the_fit(few, fitted, options):
    hasher = cghash(**{"nbits": 2} | options).fit(few.X, few.y)
    assert history_of(hasher) != history_of(fitted(cghash, "kernel").truncate(hasher.nbits))
    assert hasher.score(few.X_query, few.y_query) > 0.2


def test_ranks_digits_better_than_itq(digits):
    supervised, itq = (
        hasher.fit(digits.X, digits.y).score(digits.X_query, digits.y_query)
        for hasher in (CGHashHasher(nbits=8, random_state=0), ITQHasher(nbits=8, random_state=0))
    )
    assert supervised > itq + 0.2
