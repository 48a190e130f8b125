"""StructHash: decision stumps against an exhaustive search."""

import numpy as np
import pytest
from _oracles import gain_of, pair_weights
from numpy.testing import assert_array_equal
from scipy import sparse

from skhash.codes import binarize
from skhash.hashers.structhash._stump_functions import StumpFunctions


def features(seed):
    """Features with many ties, with none, of adjacent floats, constant, of huge and of tiny values."""
    rng = np.random.RandomState(seed)
    adjacent = 1 + np.finfo(float).eps * rng.randint(0, 4, 30)
    huge, tiny = rng.choice([-1e300, 0, 1e300], 30), rng.choice([0, 5e-324, 1e-323], 30)
    return np.column_stack([rng.randint(0, 4, 30), rng.standard_normal(30), adjacent, np.full(30, 7.0), huge, tiny])


@pytest.mark.parametrize("columns", [slice(None), [0], [1], [2], [3, 4], [5]])
def test_the_first_candidate_is_the_best_stump(columns):
    n_tried = 0
    for seed in range(10):
        X, A = features(seed)[:, columns], pair_weights(30, seed)
        best = max(gain_of(A, x >= value) for x in X.T for value in np.unique(x)[1:])
        if best > 0:
            functions = StumpFunctions(X)
            bits, parameters = next(next(functions.search(A)))
            assert gain_of(A, bits) == pytest.approx(best, abs=1e-12)
            assert_array_equal(binarize(functions.activations(functions.combine([parameters]), X))[:, 0], bits)
            n_tried += 1
    assert n_tried > 3


def test_a_threshold_is_halfway_between_two_values():
    X = np.array([[0.0], [1.0], [3.0]])
    A = sparse.csr_array(np.diag([1.0], 2) + np.diag([-1.0, 1.0], 1))
    _, parameters = next(next(StumpFunctions(X).search(A)))
    assert parameters == {"feature": 0, "threshold": 2.0}
