"""KSH against brute force and the generalized eigenproblem."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import eigh
from scipy.optimize import check_grad
from sklearn.metrics.pairwise import rbf_kernel

from skhash import KSHHasher
from skhash.affinity import DistanceAffinity, PrecomputedAffinity, Relevance
from skhash.hashers.shallow import ksh
from skhash.hashers.shallow.ksh import _best_bit, _pair_labels, _smoothed_loss


def signs(values):
    return np.where(values >= 0, 1.0, -1.0)


@pytest.fixture
def labeled(digits):
    K = rbf_kernel(digits.X[:80], digits.X[:30], 1e-3)
    return K - K.mean(axis=0), 8 * _pair_labels(Relevance.of(digits.y[:80]))


def test_the_gradient_of_the_smoothed_loss(labeled):
    K, R = labeled
    a = np.random.default_rng(0).normal(size=K.shape[1])
    parts = [lambda a, part=part: _smoothed_loss(a, K, R)[part] for part in (0, 1)]
    assert check_grad(*parts, a) < 1e-5 * np.linalg.norm(parts[1](a))
    assert _smoothed_loss(1e6 * a, K, R)[0] == pytest.approx(
        -signs(K @ a) @ R @ signs(K @ a)
    )  # in the limit, the true one


def test_pair_labels_are_one_for_relevant_pairs():
    assert_array_equal(
        _pair_labels(Relevance.of([[1, 1], [1, 1], [0, 1], [0, 0]])),
        [
            [1, 1, 1, -1],
            [1, 1, 1, -1],
            [1, 1, 1, -1],
            [-1, -1, -1, 1],
        ],  # whatever the level; each sample with itself, even unlabeled
    )
    assert_array_equal(_pair_labels(Relevance.of([0, 1], lambda a, b: np.less.outer(a, b))), [[1, 0], [0, 1]])


def test_the_first_weights_are_the_generalized_eigenvector(digits, monkeypatch):
    monkeypatch.setattr(ksh, "minimize", lambda function, start, *args, **options: SimpleNamespace(x=start, nit=1))
    X, y = digits.X[:100], digits.y[:100]
    hasher = KSHHasher(nbits=4, n_anchors=30, ridge=0.01, random_state=0).fit(X, y)
    K = rbf_kernel(X, hasher.anchors_, hasher.gamma_)
    K -= K.mean(axis=0)
    moments = K.T @ K + 0.01 * np.trace(K.T @ K) / 30 * np.eye(30)
    residual = 4.0 * _pair_labels(Relevance.of(y))
    for a in hasher.projection_.T:
        expected = eigh(K.T @ residual @ K, moments)[1][:, -1]
        assert abs(a @ expected) == pytest.approx(np.linalg.norm(a) * np.linalg.norm(expected))
        assert np.linalg.norm(K @ a) == pytest.approx(np.sqrt(100))
        residual -= np.outer(signs(K @ a), signs(K @ a))


def test_the_better_one_of_start_and_end_is_used(labeled, monkeypatch):
    K, R = labeled

    def value(h):
        return h @ R @ h

    after = _best_bit(K, R, 50)[1]
    monkeypatch.setattr(ksh, "minimize", lambda function, start, *args, **options: SimpleNamespace(x=0 * start, nit=1))
    start = _best_bit(K, R, 50)[1]
    assert value(after) > value(start) > value(np.ones(len(K)))


@pytest.mark.parametrize("nbits", [4, 24])  # a single bit never does: too many pairs are irrelevant
def test_every_bit_lowers_the_objective(digits, nbits):
    X, y = digits.X[:150], digits.y[:150]
    hasher = KSHHasher(nbits=nbits, max_samples=150, n_anchors=50, random_state=0).fit(X, y)
    H = 2.0 * hasher.transform(X) - 1
    S = 2.0 * np.equal.outer(y, y) - 1
    objectives = [np.linalg.norm(H[:, :k] @ H[:, :k].T / nbits - S) ** 2 for k in range(nbits + 1)]
    assert_allclose([entry["objective"] for entry in hasher.history_], objectives[1:])
    assert (np.diff(objectives) < 0).all()


def test_the_first_bit_is_near_the_best_of_all_bits():
    """All bits are possible if kernel values distinguish all samples."""
    shares = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(9, 4)), rng.integers(0, 3, 9)
        K = rbf_kernel(X, X)
        R = _pair_labels(Relevance.of(y))
        best = max(h @ R @ h for h in map(np.array, product([-1.0, 1.0], repeat=9)))
        h = _best_bit(np.linalg.solve(np.linalg.cholesky(K @ K), K).T, R, 100)[1]
        shares.append(h @ R @ h / best)
    assert max(shares) <= 1
    assert np.mean(shares) > 0.95


def test_two_classes_are_learned_without_error():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.normal(size=(60, 3)) + 8 * y[:, None]
    hasher = KSHHasher(nbits=5, random_state=0).fit(X, y)
    assert hasher.history_[-1]["objective"] == 0  # H H' / r = S
    assert_array_equal(np.unique(hasher.transform(X) ^ y[:, None].astype(np.uint8), axis=0).shape, (1, 5))


@pytest.mark.parametrize(
    ("affinity", "y"),
    [
        pytest.param(DistanceAffinity((5, 1), (1, 2)), lambda X, y: None, id="distances of X"),
        pytest.param(PrecomputedAffinity(sparse.eye_array(10)), lambda X, y: y, id="sparse matrix"),
        pytest.param(lambda a, b: 2.5 * (a[:, None] >= b), lambda X, y: y, id="not symmetric"),
    ],
)
@pytest.mark.filterwarnings("ignore:.* queries have no relevant item")
@pytest.mark.parametrize("max_samples", [1, 2, 100])
def test_any_affinity_can_be_learned(digits, affinity, y, max_samples):
    hasher = KSHHasher(nbits=8, max_samples=max_samples, affinity=affinity, random_state=0)
    hasher.fit(digits.X, y(digits.X, digits.y))
    if max_samples == 100:
        assert hasher.score(digits.X_query, y(digits.X_query, digits.y_query)) > 0.3
