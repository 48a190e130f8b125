"""ITQ-CCA, KSH and SDH against closed forms, brute force and scikit-learn."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import eigh
from scipy.optimize import check_grad
from sklearn.cross_decomposition import CCA
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from skhash import ITQCCAHasher, ITQHasher, KSHHasher, SDHHasher
from skhash.affinity import (
    ClassAffinity,
    DistanceAffinity,
    PrecomputedAffinity,
    SharedLabelsAffinity,
    label_matrix,
)
from skhash.hashers.shallow import ksh, sdh
from skhash.hashers.shallow._linear import ridged_cholesky
from skhash.hashers.shallow.itq_cca import canonical_directions
from skhash.hashers.shallow.ksh import best_bit, pair_labels, smoothed_loss
from skhash.hashers.shallow.sdh import descend_bits

every_hasher = pytest.mark.parametrize("Hasher", [ITQCCAHasher, KSHHasher, SDHHasher])
label_hasher = pytest.mark.parametrize("Hasher", [ITQCCAHasher, SDHHasher])


def signs(values):
    return np.where(values >= 0, 1.0, -1.0)


# --- all three


@every_hasher
def test_labels_are_worth_more_than_none(digits, Hasher):
    supervised, itq = (
        hasher.fit(digits.X, digits.y).score(digits.X_query, digits.y_query)
        for hasher in (Hasher(nbits=16, random_state=0), ITQHasher(nbits=16, random_state=0))
    )
    assert supervised > itq + 0.15


@every_hasher
def test_rows_of_little_variety(Hasher):
    y = np.repeat([0, 1], 5)
    X = np.repeat([[0.0, 1.0], [2.0, 1.0]], 5, axis=0)  # one constant feature, rows that repeat
    bits = Hasher(nbits=5, random_state=0).fit(X, y).transform(X)
    assert len(np.unique(bits, axis=0)) == 2
    equal = Hasher(nbits=5, random_state=0).fit(np.ones((10, 2)), y)
    assert_array_equal(np.ptp(equal.transform(np.ones((3, 2))), axis=0), 0)


@every_hasher
def test_labels_of_many_kinds_are_the_same_labels(digits, Hasher):
    one_hot = np.eye(10)[digits.y]
    codes = Hasher(nbits=6, random_state=0).fit(digits.X[:200], digits.y[:200]).transform(digits.X)
    for y in (
        np.array(list("abcdefghij"))[digits.y],
        digits.y[:, None],
        one_hot,
        one_hot > 0,
        sparse.csr_array(one_hot),
    ):
        assert_array_equal(Hasher(nbits=6, random_state=0).fit(digits.X[:200], y[:200]).transform(digits.X), codes)


@label_hasher
@pytest.mark.parametrize(
    "affinity",
    [DistanceAffinity(), PrecomputedAffinity(np.eye(10)), lambda a, b: a == b.T],
    ids=["distances", "matrix", "function"],
)
def test_an_affinity_without_labels_is_refused(digits, Hasher, affinity):
    with pytest.raises(ValueError, match=r"affinity=.* gives no labels.*ClassAffinity\(\) or SharedLabelsAffinity\(\)"):
        Hasher(nbits=4, affinity=affinity).fit(digits.X, digits.y[:, None])


def test_label_matrices():
    expected = [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert_array_equal(label_matrix(ClassAffinity(), ["b", "a", "c"]), expected)
    for y in (np.array(expected), np.array(expected, dtype=bool), sparse.csr_matrix(expected)):
        matrix = label_matrix(SharedLabelsAffinity(binary=True), y)
        assert_array_equal(matrix, expected)
        assert matrix.dtype == np.float64


@every_hasher
def test_a_ridge_that_is_lost(Hasher):
    X = np.random.default_rng(0).normal(size=(60, 3))
    X = np.hstack([X, X @ [[1.0, 2.0, 0.3], [0.1, 0.7, 3.0], [1.1, 1.2, 1.3]]])  # of rank 3, the kernel values are, too
    gamma = {} if Hasher is ITQCCAHasher else {"gamma": 1e-9}
    with pytest.raises(ValueError, match=r"ridge=1e-30 is lost in rounding"):
        Hasher(nbits=4, ridge=1e-30, **gamma).fit(X, np.arange(60) % 3)


def test_a_ridged_cholesky_factor():
    X = np.random.default_rng(0).normal(size=(4, 6))
    L = ridged_cholesky(X, 0.5)
    assert_allclose(L @ L.T, X.T @ X + 0.5 * np.mean(np.sum(X**2, axis=0)) * np.eye(6))
    assert_array_equal(ridged_cholesky(np.zeros((4, 3)), 0.5), np.eye(3))


@pytest.mark.parametrize("Hasher", [KSHHasher, SDHHasher])
def test_kernel_values_against_anchors(digits, Hasher):
    hasher = Hasher(nbits=8, n_anchors=20, random_state=0).fit(digits.X, digits.y)
    is_anchor = (digits.X[:, None] == hasher.anchors_).all(axis=2)
    assert_array_equal(is_anchor.any(axis=0), True)
    assert is_anchor.any(axis=1).sum() == 20
    distances = np.linalg.norm(digits.X[:, None] - hasher.anchors_, axis=2)
    assert hasher.gamma_ == pytest.approx(2 / np.mean(distances**2))
    values = np.exp(-hasher.gamma_ * distances**2) @ hasher.projection_ + hasher.intercept_
    assert_allclose(hasher.project(digits.X), values, atol=1e-9)
    few = Hasher(nbits=8, gamma=0.01, random_state=0).fit(digits.X[:30], digits.y[:30])
    assert few.anchors_.shape == (30, 64)
    assert few.gamma_ == 0.01


# --- ITQ-CCA


@pytest.fixture
def two_views():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5))
    Y = X[:, :3] + rng.normal(size=(200, 3)) > 0
    return X - X.mean(axis=0), Y - Y.mean(axis=0)


@pytest.mark.parametrize("ridge", [1e-6, 0.1, 3.0])
def test_canonical_directions_solve_the_generalized_eigenproblem(two_views, ridge):
    X, Y = two_views
    Cxx, Cyy = (
        side.T @ side + ridge * np.trace(side.T @ side) / side.shape[1] * np.eye(side.shape[1]) for side in (X, Y)
    )
    squares, vectors = eigh(X.T @ Y @ np.linalg.solve(Cyy, Y.T @ X), Cxx)
    directions, correlations = canonical_directions(X, Y, ridge)
    assert_allclose(correlations**2, squares[:-4:-1], rtol=1e-9)
    assert_allclose(directions * signs((directions * vectors[:, :-4:-1]).sum(axis=0)), vectors[:, :-4:-1], rtol=1e-6)


def test_canonical_directions_are_those_of_sklearn(two_views):
    X, Y = two_views
    directions, correlations = canonical_directions(X, Y, 1e-12)
    a, b = CCA(n_components=3, scale=False, max_iter=5000, tol=1e-12).fit_transform(X, Y)
    assert_allclose([np.corrcoef(a[:, k], b[:, k])[0, 1] for k in range(3)], correlations, rtol=1e-6)
    assert_allclose(np.abs([np.corrcoef(a[:, k], X @ directions[:, k])[0, 1] for k in range(3)]), 1, rtol=1e-6)


@pytest.mark.parametrize("nbits", [4, 9, 16, 70])
def test_itq_cca_rotates_the_scaled_directions(digits, nbits):
    hasher = ITQCCAHasher(nbits=nbits, random_state=0).fit(digits.X, digits.y)
    labels = np.eye(10)[digits.y]
    X = digits.X - digits.X.mean(axis=0)
    directions, correlations = canonical_directions(X, labels - labels.mean(axis=0), hasher.ridge)
    assert_array_equal(hasher.correlations_, correlations)
    assert correlations[-1] < 1e-6  # ten classes, nine canonical directions
    scaled = (directions * correlations)[:, :nbits]
    # a rotation, or the spread over more bits than directions, keeps all inner products of rows
    assert_allclose(hasher.projection_ @ hasher.projection_.T, scaled @ scaled.T, atol=1e-12)


# --- KSH


@pytest.fixture
def labelled_rows(digits):
    K = rbf_kernel(digits.X[:80], digits.X[:30], 1e-3)
    return K - K.mean(axis=0), 8 * pair_labels(ClassAffinity(), digits.y[:80])


def test_the_gradient_of_the_smoothed_loss(labelled_rows):
    K, R = labelled_rows
    a = np.random.default_rng(0).normal(size=K.shape[1])
    parts = [lambda a, part=part: smoothed_loss(a, K, R)[part] for part in (0, 1)]
    assert check_grad(*parts, a) < 1e-5 * np.linalg.norm(parts[1](a))
    assert smoothed_loss(1e6 * a, K, R)[0] == pytest.approx(
        -signs(K @ a) @ R @ signs(K @ a)
    )  # in the limit, the true one


def test_pair_labels():
    assert_array_equal(
        pair_labels(SharedLabelsAffinity(), np.array([[1, 1], [1, 1], [0, 1], [0, 0]])),
        [[1, 1, 1, -1], [1, 1, 1, -1], [1, 1, 1, -1], [-1, -1, -1, 1]],  # whatever the level; oneself, even unlabelled
    )
    assert_array_equal(pair_labels(lambda a, b: np.less.outer(a, b), [0, 1]), [[1, 0], [0, 1]])


def test_ksh_starts_from_the_generalized_eigenvector(digits, monkeypatch):
    monkeypatch.setattr(ksh, "minimize", lambda function, start, *args, **options: SimpleNamespace(x=start))
    X, y = digits.X[:100], digits.y[:100]
    hasher = KSHHasher(nbits=4, n_anchors=30, ridge=0.01, random_state=0).fit(X, y)
    K = rbf_kernel(X, hasher.anchors_, hasher.gamma_)
    K -= K.mean(axis=0)
    moments = K.T @ K + 0.01 * np.trace(K.T @ K) / 30 * np.eye(30)
    residue = 4.0 * pair_labels(ClassAffinity(), y)
    for a in hasher.projection_.T:
        expected = eigh(K.T @ residue @ K, moments)[1][:, -1]
        assert abs(a @ expected) == pytest.approx(np.linalg.norm(a) * np.linalg.norm(expected))
        assert np.linalg.norm(K @ a) == pytest.approx(np.sqrt(100))
        residue -= np.outer(signs(K @ a), signs(K @ a))


def test_of_two_ends_the_better_bit_is_kept(labelled_rows, monkeypatch):
    K, R = labelled_rows

    def value(h):
        return h @ R @ h

    after = best_bit(K, R, 50)[1]
    monkeypatch.setattr(ksh, "minimize", lambda function, start, *args, **options: SimpleNamespace(x=0 * start))
    start = best_bit(K, R, 50)[1]
    assert value(after) > value(start) > value(np.ones(len(K)))


@pytest.mark.parametrize("nbits", [4, 12, 40])  # of a single bit no value does: too many pairs are irrelevant
def test_every_bit_lowers_the_objective_of_ksh(digits, nbits):
    X, y = digits.X[:150], digits.y[:150]
    hasher = KSHHasher(nbits=nbits, n_labeled=150, n_anchors=50, random_state=0).fit(X, y)
    H = 2.0 * hasher.transform(X) - 1
    S = 2.0 * np.equal.outer(y, y) - 1
    objectives = [np.linalg.norm(H[:, :k] @ H[:, :k].T / nbits - S) ** 2 for k in range(nbits + 1)]
    assert_allclose([entry["objective"] for entry in hasher.history_], objectives[1:])
    assert (np.diff(objectives) < 0).all()


def test_the_first_bit_of_ksh_against_all_bits():
    """Where kernel values can tell all rows apart, every bit is possible: the best one is near the best of all."""
    shares = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(9, 4)), rng.integers(0, 3, 9)
        K = rbf_kernel(X, X)
        R = pair_labels(ClassAffinity(), y)
        best = max(h @ R @ h for h in map(np.array, product([-1.0, 1.0], repeat=9)))
        h = best_bit(np.linalg.solve(np.linalg.cholesky(K @ K), K).T, R, 100)[1]
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
@pytest.mark.parametrize("n_labeled", [1, 2, 100])
def test_ksh_learns_from_any_affinity(digits, affinity, y, n_labeled):
    hasher = KSHHasher(nbits=8, n_labeled=n_labeled, affinity=affinity, random_state=0)
    hasher.fit(digits.X, y(digits.X, digits.y))
    if n_labeled == 100:
        assert hasher.score(digits.X_query, y(digits.X_query, digits.y_query)) > 0.3


# --- SDH


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    Y = np.eye(3)[[0, 0, 1, 1, 2, 2, 2, 0]]
    return SimpleNamespace(Y=Y, B=signs(rng.normal(size=(8, 2))), W=rng.normal(size=(2, 3)), F=rng.normal(size=(8, 2)))


def sdh_objective(Y, B, W, F, lam, nu):
    return np.sum((Y - B @ W) ** 2) + lam * np.sum(W**2) + nu * np.sum((B - F) ** 2)


@pytest.mark.parametrize("nu", [0.0, 1e-5, 0.5])
def test_a_bit_of_sdh_is_the_best_of_all_its_values(problem, monkeypatch, nu):
    Y, B, W, F = problem.Y, problem.B, problem.W, problem.F
    monkeypatch.setattr(sdh, "MAX_SWEEPS", 1)
    expected = B.copy()
    for k in range(2):
        candidates = [
            np.column_stack([b if j == k else expected[:, j] for j in range(2)]) for b in product([-1, 1], repeat=8)
        ]
        expected = min(candidates, key=lambda B: sdh_objective(Y, B, W, F, 1, nu))
    assert_array_equal(descend_bits(B, W, Y @ W.T + nu * F), expected)


def test_no_sweep_raises_the_objective_of_sdh(monkeypatch):
    rng = np.random.default_rng(1)
    Y = np.eye(5)[rng.integers(0, 5, 100)]
    B, W, F = signs(rng.normal(size=(100, 12))), rng.normal(size=(12, 5)), rng.normal(size=(100, 12))
    monkeypatch.setattr(sdh, "MAX_SWEEPS", 1)
    objectives = [sdh_objective(Y, B, W, F, 1, 0.1)]
    for _ in range(20):
        B = descend_bits(B, W, Y @ W.T + 0.1 * F)
        objectives.append(sdh_objective(Y, B, W, F, 1, 0.1))
    assert (np.diff(objectives) <= 1e-9).all()
    assert objectives[1] < objectives[0]
    assert objectives[-1] == objectives[-2]
    monkeypatch.undo()
    assert_array_equal(descend_bits(B, W, Y @ W.T + 0.1 * F), B)  # a fixed point


def test_the_turns_of_sdh(digits, monkeypatch):
    X, y = digits.X[:120], digits.y[:120]
    lam, nu, ridge = 2.0, 0.3, 1e-6
    turns = []

    def recorded(B, W, Q):
        turns.append((B, W, Q, descend_bits(B, W, Q)))
        return turns[-1][-1]

    monkeypatch.setattr(sdh, "descend_bits", recorded)
    hasher = SDHHasher(nbits=10, n_anchors=40, lam=lam, nu=nu, ridge=ridge, random_state=0).fit(X, y)
    Y = np.eye(10)[y]
    features = rbf_kernel(X, hasher.anchors_, hasher.gamma_)
    moments = (features - features.mean(axis=0)).T @ (features - features.mean(axis=0))
    regression = Ridge(alpha=ridge * np.trace(moments) / 40)
    objectives = []
    for B, W, Q, after in turns:
        assert_allclose(W, Ridge(alpha=lam, fit_intercept=False).fit(B, Y).coef_.T, atol=1e-9)  # G-step
        F = regression.fit(features, B).predict(features)  # F-step
        assert_allclose(Q, Y @ W.T + nu * F, atol=1e-6)
        objectives += [sdh_objective(Y, B, W, F, lam, nu), sdh_objective(Y, after, W, F, lam, nu)]
    assert 2 <= len(turns) <= 5
    assert (np.diff(objectives) <= 1e-3).all()  # up to the ridge
    assert_allclose(hasher.project(X), regression.fit(features, turns[-1][-1]).predict(features), atol=1e-6)
    assert np.mean(signs(hasher.project(X)) == turns[-1][-1]) > 0.9
