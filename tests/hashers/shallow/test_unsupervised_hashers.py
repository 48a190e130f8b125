"""Spectral, anchor graph and spherical hashing: what their papers promise."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import euclidean_distances

from skhash import AGHHasher, LSHHasher, SpectralHasher, SphericalHasher
from skhash.codes import hamming_distances
from skhash.hashers.shallow.agh import anchor_graph_map, anchor_weights, second_thresholds
from skhash.hashers.shallow.spectral import smoothest_eigenfunctions
from skhash.hashers.shallow.spherical import balancing_radii, overlap_excess, spread_pivots

HASHERS = [SpectralHasher, AGHHasher, SphericalHasher]


def fit(Hasher, X, **params):
    if Hasher is not SpectralHasher:
        params["random_state"] = 0
    return Hasher(**params).fit(X)


@pytest.mark.parametrize("nbits", [1, 3, 8])
@pytest.mark.parametrize("Hasher", HASHERS)
def test_rows_of_little_variety(Hasher, nbits):
    kinds = np.array([[0.0, 1.0, 0.1], [2.0, 1.0, 0.1]])
    X = np.repeat(kinds, [5, 6], axis=0)
    bits = fit(Hasher, X, nbits=nbits).transform(X)
    assert len(np.unique(bits, axis=0)) == 2  # equal rows, equal codes; the two kinds differ
    assert_array_equal(fit(Hasher, X[[0, -1]], nbits=nbits).transform(X).shape, (11, nbits))


@pytest.mark.parametrize("Hasher", [AGHHasher, SphericalHasher])
def test_float32_rows_have_the_codes_of_float64(Hasher):
    tags = np.random.default_rng(0).random((300, 40)) < 0.04  # with many equal rows, which make pivots fly far out
    wide, narrow = (tags.astype(dtype) for dtype in (np.float64, np.float32))
    codes = fit(Hasher, wide, nbits=8).encode(wide)
    assert_array_equal(codes, fit(Hasher, narrow, nbits=8).encode(narrow))
    assert len(np.unique(codes)) > 2


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e6 / 3])
@pytest.mark.parametrize("Hasher", HASHERS)
def test_equal_rows(Hasher, value):
    X = np.full((50, 7), value)
    hasher = fit(Hasher, X, nbits=9)
    assert len(np.unique(hasher.transform(X), axis=0)) == 1
    assert np.isfinite(hasher.project(X + 1.0)).all()


@pytest.mark.parametrize("Hasher", HASHERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_values_and_equal_rows(Hasher, dtype):
    X = (np.random.default_rng(0).random((300, 8)) < 0.2).astype(dtype) / 10
    hasher = fit(Hasher, X, nbits=32)
    bits = hasher.transform(X)
    rows, group = np.unique(X, axis=0, return_inverse=True)
    assert_array_equal(bits, hasher.transform(rows)[group])
    assert len(np.unique(bits, axis=0)) > len(rows) / 2


@pytest.mark.parametrize("Hasher", HASHERS)
def test_distances_ignore_where_the_rows_are_and_their_scale(digits, Hasher):
    def distances(X, queries):
        return hamming_distances(*[fit(Hasher, X, nbits=16).transform(queries)] * 2)

    before, after = (distances(digits.X, digits.X_query), distances(2 * digits.X + 64, 2 * digits.X_query + 64))
    assert np.mean(before != after) < 1e-3


# --- spectral hashing


def eigenvalue(mode, length, eps=0.1):
    return 1 - np.exp(-((eps * mode * np.pi / length) ** 2) / 2)


@pytest.mark.parametrize("nbits", [1, 7, 40])
def test_spectral_takes_the_smallest_eigenvalues_of_all(nbits):
    lengths = np.random.default_rng(nbits).uniform(0.5, 5, 6)
    axes, modes = smoothest_eigenfunctions(lengths, nbits)
    everything = sorted(product(range(6), range(1, 400)), key=lambda one: eigenvalue(one[1], lengths[one[0]]))
    assert list(zip(axes, modes, strict=True)) == everything[:nbits]


def test_spectral_activations_are_eigenvectors_of_a_random_walk_on_a_line():
    n = 41
    X = np.linspace(-3, 9, n)[:, None] * [0.6, 0.8]
    steps = np.eye(n, k=1) + np.eye(n, k=-1)
    walk = steps / steps.sum(axis=1, keepdims=True)
    hasher = SpectralHasher(nbits=10).fit(X)
    assert_array_equal(hasher.modes_, np.arange(1, 11))
    activations = hasher.project(X)
    assert_allclose(walk @ activations, np.cos(np.pi * np.arange(1, 11) / (n - 1)) * activations, atol=1e-9)
    crossings = np.abs(np.diff(activations >= 0, axis=0)).sum(axis=0)
    assert_array_equal(crossings, hasher.modes_)


def test_spectral_on_a_box():
    x, y = (axis.ravel() for axis in np.meshgrid(np.linspace(0, 3.1, 32), np.linspace(0, 1, 11)))
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    activations = SpectralHasher(nbits=5).fit(np.column_stack([x, y]) @ turn).project(np.column_stack([x, y]) @ turn)
    waves = [np.cos(np.pi * x / 3.1 * m) for m in (1, 2, 3)] + [np.cos(np.pi * y), np.cos(np.pi * x / 3.1 * 4)]
    assert_allclose(np.abs(activations), np.abs(np.column_stack(waves)), atol=1e-9)  # an axis may point either way


def test_spectral_follows_the_formulas_on_real_rows(digits):
    hasher = SpectralHasher(nbits=16).fit(digits.X)
    pca = PCA(16, svd_solver="full").fit(digits.X)
    V = pca.transform(digits.X) * np.sign((pca.components_ * hasher.components_.T).sum(axis=1))
    a, b = V.min(axis=0), V.max(axis=0)
    for k, (axis, mode) in enumerate(zip(hasher.axes_, hasher.modes_, strict=True)):
        expected = np.sin(np.pi / 2 + mode * np.pi / (b - a)[axis] * (V[:, axis] - a[axis]))
        assert_allclose(hasher.project(digits.X)[:, k], expected, atol=1e-9)
    eigenvalues = eigenvalue(hasher.modes_, hasher.lengths_[hasher.axes_])
    assert (np.diff(eigenvalues) >= 0).all()


# --- anchor graph hashing


@pytest.fixture(scope="module", params=[2, 5])
def graph(request, digits):
    """Rows, anchors, their weights and the dense affinities of an anchor graph."""
    anchors = KMeans(60, n_init=1, max_iter=5, random_state=0).fit(digits.X).cluster_centers_
    Z, t = anchor_weights(digits.X, anchors, request.param)
    return digits.X, anchors, request.param, Z, t, Z.toarray() / Z.sum(axis=0) @ Z.T.toarray()


def test_anchor_weights(graph):
    X, anchors, s, Z, t, _ = graph
    distances = euclidean_distances(X, anchors)
    nearest = np.sort(distances, axis=1)[:, s - 1]
    assert t == pytest.approx(nearest.mean() ** 2)
    kernel = np.where(distances <= nearest[:, None], np.exp(-(distances**2) / t), 0)
    assert_allclose(Z.toarray(), kernel / kernel.sum(axis=1, keepdims=True), atol=1e-12)
    far, _ = anchor_weights(X[:3] + 1e4, anchors, s, t)
    assert_allclose(far.sum(axis=1), 1)


def test_agh_finds_the_eigenvectors_of_the_whole_graph(graph):
    X, _, _, Z, _, A = graph
    assert_allclose(A.sum(axis=1), 1)
    W, eigenvalues = anchor_graph_map(Z, 20)
    Y = Z @ W
    assert_allclose(A @ Y, Y * eigenvalues, atol=1e-9)
    assert_allclose(Y.T @ Y, len(X) * np.eye(20), atol=1e-7)
    assert_allclose(Y.sum(axis=0), 0, atol=1e-8)
    assert_allclose(eigenvalues, np.linalg.eigvalsh(A)[::-1][1:21], atol=1e-10)


def test_agh_finds_the_thresholds_of_the_whole_graph(graph):
    _, _, _, Z, _, A = graph
    Y = Z @ anchor_graph_map(Z, 6)[0]
    L = np.eye(len(A)) - A

    def second(y, b):
        return np.where(y >= 0, y - b[1], b[0] - y)

    for y, thresholds in zip(Y.T, second_thresholds(Y, Z).T, strict=True):
        assert second(y, thresholds).sum() == pytest.approx(0, abs=1e-8)
        best = minimize(
            lambda b, y=y: second(y, b) @ L @ second(y, b),
            x0=[-1, 1],
            constraints={"type": "eq", "fun": lambda b, y=y: second(y, b).sum()},
            tol=1e-12,
        )
        assert_allclose(thresholds, best.x, atol=1e-4)


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("nbits", [1, 7, 12])
def test_agh_bits(digits, n_layers, nbits):
    hasher = AGHHasher(nbits, n_layers=n_layers, n_anchors=60, random_state=0).fit(digits.X)
    Z, _ = anchor_weights(digits.X - hasher.mean_, hasher.anchors_, 2, hasher.bandwidth_)
    n_columns = -(-nbits // n_layers)
    W, eigenvalues = anchor_graph_map(Z, n_columns)
    assert_allclose(hasher.eigenvalues_, eigenvalues)
    activations = hasher.project(digits.X)  # as if these rows were new
    Y, F = activations[:, :n_columns], activations[:, n_columns:]
    assert_allclose(Y, Z @ W, atol=1e-8)
    assert_allclose(activations.sum(axis=0), 0, atol=1e-6)  # balanced, but for the signs
    assert F.shape[1] == (nbits // 2 if n_layers == 2 else 0)
    below, above = hasher.thresholds_
    y = Y[:, : F.shape[1]]
    assert_allclose(F, np.where(y >= 0, y - above, below - y))
    assert ((below < 0) & (above > 0)).all()


def test_agh_tells_clusters_apart_whatever_their_shape():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 600)
    ring = np.repeat([1.0, 4.0], 300)
    X = ring[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    bits = AGHHasher(nbits=1, n_anchors=40, random_state=0).fit(X).transform(X)[:, 0]
    assert len(set(zip(ring, bits, strict=True))) == 2


def test_agh_expands_few_eigenvectors_by_an_orthonormal_map(digits):
    hasher = AGHHasher(nbits=40, n_layers=1, n_anchors=9, random_state=0).fit(digits.X)
    assert hasher.eigenvalues_.shape == (8,)
    Z, _ = anchor_weights(digits.X - hasher.mean_, hasher.anchors_, 2, hasher.bandwidth_)
    Y = Z @ anchor_graph_map(Z, 8)[0]
    activations = hasher.project(digits.X)
    assert_allclose(euclidean_distances(activations), euclidean_distances(Y), atol=1e-5)


def test_agh_leaves_out_anchors_of_no_row(digits, monkeypatch):
    anchors = np.vstack([digits.X[:30] - digits.X.mean(axis=0), np.full((1, 64), 1e3)])
    monkeypatch.setattr(AGHHasher, "_draw_anchors", lambda self, X, rng: anchors)
    hasher = AGHHasher(nbits=8, random_state=0).fit(digits.X)
    assert_array_equal(hasher.anchors_, anchors[:-1])
    assert np.isfinite(hasher.project(digits.X_query)).all()


# --- spherical hashing


@pytest.mark.parametrize("nbits", [2, 16, 48])
def test_spheres_are_balanced_and_overlap_by_a_quarter(digits, nbits):
    hasher = SphericalHasher(nbits=nbits, random_state=0).fit(digits.X)
    assert hasher.n_iter_ < hasher.max_iter
    bits = hasher.transform(digits.X).astype(int)
    n = len(bits)
    assert_array_equal(bits.sum(axis=0), n // 2)
    overlaps = (bits.T @ bits)[np.triu_indices(nbits, k=1)]
    assert np.abs(overlaps - n / 4).mean() <= 0.1 * n / 4
    assert overlaps.std() <= 0.15 * n / 4


def test_spherical_activations_are_radius_less_distance(digits):
    hasher = SphericalHasher(nbits=8, random_state=0).fit(digits.X)
    distances = np.linalg.norm(digits.X[:, None] - hasher.mean_ - hasher.pivots_, axis=2)
    assert_allclose(hasher.radii_, np.median(distances, axis=0), rtol=1e-7)
    assert_allclose(hasher.project(digits.X), hasher.radii_ - distances, atol=1e-9)


def test_rows_equal_to_the_one_at_the_border_are_well_inside():
    X = np.repeat(np.random.default_rng(0).standard_normal((3, 4)), [7, 2, 1], axis=0)
    hasher = SphericalHasher(nbits=16, random_state=0).fit(X)
    assert (hasher.project(X[:1]) > 1e-9 * hasher.radii_.max()).all()


@pytest.mark.parametrize("n", [2, 3, 10, 11])
def test_radii_hold_half_of_the_rows(n):
    distances = np.random.default_rng(n).random((n, 4))
    radii = balancing_radii(distances)
    assert_array_equal((distances <= radii).sum(axis=0), n // 2)
    if n % 2 == 0:
        assert_allclose(radii, np.median(distances, axis=0))


def test_pivots_move_by_the_forces_between_pairs(digits):
    X = digits.X - digits.X.mean(axis=0)
    pivots = X[:5] / 4
    distances = euclidean_distances(X, pivots)
    inside = distances <= np.median(distances, axis=0)
    quarter = len(X) / 4
    moved = pivots.copy()
    for i, j in product(range(5), repeat=2):
        overlap = (inside[:, i] & inside[:, j]).sum()
        assert overlap_excess(X, pivots)[i, j] == pytest.approx((overlap - quarter) / quarter)
        moved[i] += (overlap - quarter) / quarter * (pivots[i] - pivots[j]) / 2 / 5
    assert_allclose(spread_pivots(X, pivots, 1e-9, 1e-9, 2)[0], moved)


def test_pivots_that_never_settle_keep_their_best():
    X = np.random.default_rng(0).standard_normal((300, 1))

    def miss(n):
        pivots, n_iter = spread_pivots(X, X[:8] / 9, 0.1, 0.15, n)
        assert n_iter == n
        excess = overlap_excess(X, pivots)[np.triu_indices(8, k=1)]
        return max(np.abs(excess).mean() / 0.1, excess.std() / 0.15)

    misses = [miss(n) for n in range(1, 30)]
    assert (np.diff(misses) <= 0).all()
    assert misses[-1] > 1


def test_pivots_do_not_fly_off_for_ever():
    X = np.repeat([[0.0, 1.0], [2.0, 1.0], [0.0, 0.0]], [7, 2, 1], axis=0)
    hasher = SphericalHasher(nbits=9, max_iter=10**6, random_state=0).fit(X)
    assert np.abs(hasher.pivots_).max() < 1e8
    assert len(np.unique(hasher.transform(X), axis=0)) == 3


# --- all of them


@pytest.mark.parametrize("Hasher", [AGHHasher, SphericalHasher])
def test_what_is_learned_helps(digits, Hasher):
    learned, drawn = (
        H(nbits=16, random_state=0).fit(digits.X, digits.y).score(digits.X_query, digits.y_query)
        for H in (Hasher, LSHHasher)
    )
    assert learned > drawn
