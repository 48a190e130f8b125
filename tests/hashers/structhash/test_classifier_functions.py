"""StructHash: the bits that classifiers are fitted to, and the rounding of their samples."""

import numpy as np
import pytest
from _oracles import pair_weights
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier

from skhash.hashers.structhash._classifier_functions import coordinate_descent, round_to_quantiles
from skhash.hashers.structhash._linear_functions import symmetrize


def objective(A, bits):
    s = 2.0 * np.asarray(bits) - 1
    return s @ (A @ s)


def test_no_flip_improves_the_end_of_the_descent():
    for seed in range(20):
        rng = np.random.RandomState(seed)
        A = symmetrize(pair_weights(12, seed, density=0.5))
        A += sparse.diags_array(rng.standard_normal(12))
        start = rng.randint(0, 2, 12).astype(np.uint8)
        end = coordinate_descent(A.tocsr(), start.copy())
        assert end.dtype == np.uint8
        assert objective(A, end) <= objective(A, start) + 1e-12
        for i in range(12):
            flipped = end.copy()
            flipped[i] ^= 1
            assert objective(A, flipped) >= objective(A, end) - 1e-9


def test_the_descent_reaches_the_minimum_from_some_start():
    A = symmetrize(pair_weights(6, 3, density=0.8)).tocsr()
    starts = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(np.uint8)
    best = min(objective(A, bits) for bits in starts)
    assert min(objective(A, coordinate_descent(A, start)) for start in starts) == pytest.approx(best)


def test_the_descent_stays_if_nothing_can_be_gained():
    start = np.array([0, 1, 1], dtype=np.uint8)
    assert_array_equal(coordinate_descent(sparse.csr_array((3, 3)), start), start)


def test_trees_fitted_to_rounded_samples_decide_the_same_on_the_samples_themselves():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((600, 4)), rng.integers(0, 9, 600), rng.exponential(size=600).round(2)])
    rounded = round_to_quantiles(X, 255)
    assert [len(np.unique(column)) for column in rounded[:, :4].T] == [255] * 4
    few = [len(np.unique(column)) <= 255 for column in X.T]
    assert few == [False, False, False, False, True, True]
    assert_array_equal(rounded[:, few], X[:, few])
    trees = HistGradientBoostingClassifier(max_iter=5).fit(rounded, X[:, 0] * X[:, 1] > X[:, 4] - 4)
    assert_array_equal(trees.decision_function(X), trees.decision_function(rounded))


def test_features_are_rounded_to_the_nearest_kept_value():
    X = np.random.default_rng(0).standard_normal((200, 3))
    rounded = round_to_quantiles(X, 10)
    for column, out in zip(X.T, rounded.T, strict=True):
        kept = np.sort(column)[np.linspace(0, 199, 10).round().astype(int)]
        assert_array_equal(out, kept[np.abs(column[:, None] - kept).argmin(axis=1)])
