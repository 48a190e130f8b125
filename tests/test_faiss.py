"""FAISS as a second opinion: principal directions, ITQ, LSH, Hamming distances and neighbors.

FAISS computes in float32, packs the lowest bit first, and differs in three more points:

* ITQTransform scales the centered samples to length 1 before it computes principal components;
* its rotation is different. For B'V = U S W', B the signs and V the samples, the rotation that
  brings V nearest to B is W U' (orthogonal Procrustes); FAISS 1.15.1 multiplies the factors of
  the decomposition as W' U', which depends on their signs and does not lower the error;
* IndexLSH does not center, and uses orthonormal directions instead of independent ones.
"""

import faiss
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skhash import ITQHasher, LSHHasher
from skhash.codes import binarize, hamming_distances, pack
from skhash.hashers.shallow._linear import orthonormal_map, principal_map, quantizing_rotation
from skhash.metrics import average_precision, relevance_histogram

SEEDS = range(5)


def score(query_bits, database_bits, digits):
    return average_precision(relevance_histogram(query_bits, database_bits, digits.y_query, digits.y))


def quantization_error(V):
    return np.mean((2.0 * binarize(V) - 1.0 - V) ** 2)


def faiss_rotation(V, n_iter=50, seed=0, start=None):
    """The rotation of FAISS, V @ rotation."""
    itq = faiss.ITQMatrix(V.shape[1])
    itq.max_iter, itq.seed = n_iter, seed
    if start is not None:
        faiss.copy_array_to_vector(start.ravel(), itq.init_rotation)
    itq.train(V.astype(np.float32))
    return faiss.vector_to_array(itq.A).reshape(V.shape[1], -1).T


@pytest.fixture(scope="module")
def components(digits):
    """Sixteen principal components of the training samples and of the queries."""
    mean = digits.X.mean(axis=0)
    directions = principal_map(digits.X - mean, 16, np.random.RandomState(0))
    return (digits.X - mean) @ directions, (digits.X_query - mean) @ directions


# --- ITQ


@pytest.mark.parametrize("nbits", [4, 16, 40])
def test_principal_directions_span_the_same_space(digits, nbits):
    pca = faiss.PCAMatrix(64, nbits)
    pca.train(digits.X.astype(np.float32))
    theirs = faiss.vector_to_array(pca.A)[: 64 * nbits].reshape(nbits, 64)
    ours = principal_map(digits.X - digits.X.mean(axis=0), nbits, np.random.RandomState(0))
    assert_allclose(np.linalg.svd(theirs @ ours, compute_uv=False), 1, atol=1e-5)  # cosines of the angles between


def test_codes_of_the_same_rotation_are_the_same(digits):
    hasher = ITQHasher(nbits=16, random_state=0).fit(digits.X)
    itq = faiss.LinearTransform(64, 16, True)
    faiss.copy_array_to_vector(hasher.projection_.T.astype(np.float32).ravel(), itq.A)
    faiss.copy_array_to_vector((-hasher.mean_ @ hasher.projection_).astype(np.float32), itq.b)
    itq.is_trained = True
    index = faiss.IndexPreTransform(itq, faiss.IndexLSH(16, 16, False, False))
    theirs = np.unpackbits(index.sa_encode(digits.X_query.astype(np.float32)), axis=1, bitorder="little")
    assert np.mean(theirs != hasher.transform(digits.X_query)) < 1e-3  # of activations near 0 the sign is rounding


def test_rotations_start_the_same_and_multiply_the_factors_in_another_order(components):
    V, _ = components
    start = orthonormal_map(16, 16, np.random.RandomState(5))
    assert_allclose(faiss_rotation(V, 0, start=start), start, atol=1e-6)
    U, _, Wt = np.linalg.svd((2.0 * binarize(V @ start) - 1.0).T @ V)
    ours, theirs = quantizing_rotation(V, 1, np.random.RandomState(5)), faiss_rotation(V, 1, start=start)
    assert_allclose(ours, Wt.T @ U.T, atol=1e-9)
    in_their_order = np.abs(theirs @ U) - np.abs(Wt)  # up to the signs of singular vectors
    fixed = np.abs(theirs - ours)  # in a version of FAISS that solves the Procrustes problem
    assert min(np.abs(in_their_order).max(), fixed.max()) < 1e-5
    for rotation in (ours, theirs):
        assert_allclose(rotation.T @ rotation, np.eye(16), atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_our_rotation_has_no_larger_quantization_error(components, seed):
    V, _ = components
    ours, theirs, start = (
        quantization_error(V @ rotation)
        for rotation in (
            quantizing_rotation(V, 50, np.random.RandomState(seed)),
            faiss_rotation(V, 50, seed),
            orthonormal_map(16, 16, np.random.RandomState(seed)),
        )
    )
    assert ours <= theirs * (1 + 1e-6)
    assert ours < start


@pytest.mark.parametrize("nbits", [16, 32])
def test_itq_ranks_no_worse(digits, nbits):
    """Means over three rotations; ours may be worse by at most 0.01."""
    ours, theirs = [], []
    for seed in SEEDS[:3]:
        hasher = ITQHasher(nbits, random_state=seed).fit(digits.X)
        ours.append(score(hasher.transform(digits.X_query), hasher.transform(digits.X), digits))
        itq = faiss.ITQTransform(64, nbits, True)
        itq.itq.seed = seed
        index = faiss.IndexPreTransform(itq, faiss.IndexLSH(nbits, nbits, False, False))
        index.train(digits.X.astype(np.float32))
        codes = (index.sa_encode(rows.astype(np.float32)) for rows in (digits.X_query, digits.X))
        theirs.append(score(*(np.unpackbits(packed, axis=1, bitorder="little") for packed in codes), digits))
    assert np.mean(ours) > np.mean(theirs) - 0.01
    assert np.mean(theirs) > 0.4  # so that the comparison says something


# --- LSH


def lsh_bits(rows, nbits, seed):
    index = faiss.IndexLSH(rows[0].shape[1], nbits, True, False)
    index.rrot.init(seed)
    codes = (index.sa_encode(np.ascontiguousarray(X, dtype=np.float32)) for X in rows)
    return [np.unpackbits(packed, axis=1, bitorder="little")[:, :nbits] for packed in codes]


@pytest.mark.parametrize("nbits", [8, 16])
def test_lsh_ranks_as_well(digits, nbits):
    """The means over five draws differ by less than twice the deviation of their difference."""
    mean = digits.X.mean(axis=0)
    ours, theirs = [], []
    for seed in SEEDS:
        hasher = LSHHasher(nbits, random_state=seed).fit(digits.X)
        ours.append(score(hasher.transform(digits.X_query), hasher.transform(digits.X), digits))
        theirs.append(score(*lsh_bits((digits.X_query - mean, digits.X - mean), nbits, seed), digits))
    spread = np.sqrt((np.var(ours, ddof=1) + np.var(theirs, ddof=1)) / len(SEEDS))
    assert abs(np.mean(ours) - np.mean(theirs)) < 2 * spread


def test_shares_of_differing_bits_are_the_angles(digits):
    centered = digits.X - digits.X.mean(axis=0)
    rows = centered[:50]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = np.arccos(np.clip(units @ units.T, -1, 1)) / np.pi
    ours, theirs = (
        np.mean([hamming_distances(bits, bits) / 64 for bits in draws], axis=0)
        for draws in (
            [LSHHasher(64, random_state=seed).fit(digits.X).transform(digits.X[:50]) for seed in range(40)],
            [lsh_bits((rows,), 64, seed)[0] for seed in range(40)],
        )
    )
    for shares in (ours, theirs):  # 2,560 bits: a deviation of at most 0.01
        assert np.abs(shares - expected).max() < 0.05
        assert np.sqrt(np.mean((shares - expected) ** 2)) < 0.011


# --- distances and neighbors


def random_bits(n, nbits, seed):
    return np.random.default_rng(seed).integers(0, 2, (n, nbits), dtype=np.uint8)


@pytest.mark.parametrize("nbits", [8, 13, 32, 64, 70, 256])
def test_distances_and_neighbors_are_those_of_faiss(nbits):
    queries, database = random_bits(40, nbits, 0), random_bits(500, nbits, 1)
    index = faiss.IndexBinaryFlat(-(-nbits // 8) * 8)  # the unused tail of both sides is 0
    index.add(pack(database))
    ours = hamming_distances(queries, database)
    assert_array_equal(hamming_distances(pack(queries), pack(database), nbits=nbits), ours)
    distances, items = index.search(pack(queries), len(database))
    assert_array_equal(distances, np.sort(ours, axis=1))
    assert_array_equal(np.take_along_axis(ours, items, axis=1), distances)
    assert_array_equal(np.sort(items, axis=1), np.broadcast_to(np.arange(500), items.shape))
    nearest, items = index.search(pack(queries), 10)
    assert_array_equal(nearest, distances[:, :10])
    for row, near, found in zip(ours, nearest, items, strict=True):
        assert set(np.flatnonzero(row < near[-1])) <= set(found)  # any items of the last tie may be returned


def test_encoded_samples_go_into_an_index_as_they_are(digits):
    hasher = ITQHasher(nbits=24, random_state=0).fit(digits.X)
    index = faiss.IndexBinaryFlat(24)
    index.add(hasher.encode(digits.X))
    distances, items = index.search(hasher.encode(digits.X_query), 5)
    ours = hamming_distances(hasher.transform(digits.X_query), hasher.transform(digits.X))
    assert_array_equal(np.take_along_axis(ours, items, axis=1), distances)
    assert_array_equal(distances, np.sort(ours, axis=1)[:, :5])


def test_the_order_of_bits_in_a_byte(digits):
    """Ours is the highest bit first, that of IndexLSH the lowest: different bytes, the same distances."""
    centered = (digits.X - digits.X.mean(axis=0)).astype(np.float32)
    index = faiss.IndexLSH(64, 64, False, False)
    bits = binarize(centered)
    assert_array_equal(index.sa_encode(centered), np.packbits(bits, axis=1, bitorder="little"))
    assert (index.sa_encode(centered) != pack(bits)).any()
    index.add(centered)
    distances, items = index.search(centered[:20], 30)
    ours = hamming_distances(bits[:20], bits)
    assert_array_equal(np.take_along_axis(ours, items, axis=1), distances)
    assert_array_equal(distances, np.sort(ours, axis=1)[:, :30])
