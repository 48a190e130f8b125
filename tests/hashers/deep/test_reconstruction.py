"""Codes that reconstruct vectors: the descent against brute force, the digits of the norm, and what search finds."""

import itertools
from functools import partial

import numpy as np
import pytest
from _helpers import stop_and_resume
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from skhash import EmbeddingHasher, ITQHasher
from skhash.hashers.deep._reconstruction import N_SWEEPS, learn_reconstruction
from skhash.hashers.deep._reconstruction_kernels import descend_bits
from skhash.persistence import load, save

SIGNS = np.array(list(itertools.product([-1, 1], repeat=6)), np.float32)


def energies(gram, goal):
    """The function that the descent minimizes, of all codes of six bits."""
    return np.einsum("ki,ij,kj->k", SIGNS, gram, SIGNS) / 2 - SIGNS @ goal


def test_the_descent_ends_where_no_single_bit_can_improve():
    rng = np.random.default_rng(0)
    for _ in range(20):
        D = rng.normal(size=(6, 4))
        gram, goal = (D @ D.T).astype(np.float32), rng.normal(size=6).astype(np.float32)
        start = SIGNS[rng.integers(64)]
        bits, fields = start[None].copy(), (goal - start @ gram)[None]
        descend_bits(gram, fields, bits, 100)
        assert_allclose(fields[0], goal - bits[0] @ gram, atol=1e-4)
        energy = energies(gram, goal)
        number = {tuple(code): k for k, code in enumerate(SIGNS)}
        end = number[tuple(bits[0])]
        assert energy[end] <= energy[number[tuple(start)]] + 1e-4
        for i in range(6):
            flipped = bits[0] * np.where(np.arange(6) == i, -1, 1)
            assert energy[end] <= energy[number[tuple(flipped)]] + 1e-4
        once, fields = start[None].copy(), (goal - start @ gram)[None]
        descend_bits(gram, fields, once, 1)
        first = start.copy()
        for i in range(6):  # one sweep, by brute force
            pair = [np.where(np.arange(6) == i, value, first) for value in (-1.0, 1.0)]
            first = min(reversed(pair), key=lambda code: energy[number[tuple(code)]])
        assert_array_equal(once[0], first)


@pytest.fixture(scope="module")
def model():
    """A model of 500 vectors with 40 bits, 6 of them digits, and the vectors."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(500, 12)) * np.linspace(2, 0.3, 12) * rng.uniform(0.5, 1.5, (500, 1))).astype(np.float32)
    start = rng.normal(size=(40, 12)).astype(np.float32)
    return learn_reconstruction(X, start, 6), X


def test_scores_are_those_of_the_reconstruction(model):
    model, X = model
    activations = model.activations(X @ model.decoder.T, X @ model.start.T)
    codes = np.where(activations >= 0, 1.0, -1.0)
    assert_array_equal(model.decoder[34:], 0)
    assert_array_equal(model.digits[:34], 0)
    assert_allclose(model.digits[34:] / model.digits[39], [32, 16, 8, 4, 2, 1])
    offset = -np.linalg.lstsq(model.decoder[:34].astype(float), model.field_bias[:34].astype(float), rcond=None)[0]
    found = codes @ model.decoder + offset
    linear = learn_reconstruction(X, model.start[:34], 0)  # a regression on the codes of its own descent
    assert_allclose(linear.decoder, model.decoder[:34], atol=1e-5)
    error = ((X - found) ** 2).sum() / (X**2).sum()
    assert error < 0.1
    squared = (found**2).sum(1) - (offset**2).sum()
    low, high = np.quantile(squared, [0.001, 0.999])
    inside = (squared > low) & (squared < high)
    assert_allclose((codes @ model.digits + model.middle)[inside], squared[inside], atol=(high - low) / 64 / 2 + 1e-3)


def test_each_bit_of_a_code_has_its_best_value(model):
    model, X = model
    codes = np.where(model.activations(X @ model.decoder.T, X @ model.start.T) >= 0, np.float32(1), np.float32(-1))
    fields = X @ model.decoder.T + model.field_bias - codes @ model.gram
    best = fields + codes * np.diag(model.gram)
    settled = ((best >= 0) == (codes >= 0))[:, :34]
    assert settled.all(axis=1).mean() > 0.95  # most samples need fewer sweeps than the largest number
    assert N_SWEEPS >= 5


def test_codes_depend_on_no_thread_and_no_other_sample(model):
    model, X = model
    whole = model.activations(X @ model.decoder.T, X @ model.start.T)
    with threadpool_limits(1):
        alone = model.activations(X @ model.decoder.T, X @ model.start.T)
    assert_array_equal(whole, alone)
    part = model.activations((X @ model.decoder.T)[7:9], (X @ model.start.T)[7:9])
    assert_allclose(part, whole[7:9], rtol=1e-4, atol=1e-4)


def test_constant_vectors_have_finite_codes():
    model = learn_reconstruction(np.zeros((5, 3), np.float32), np.zeros((32, 3), np.float32), 3)
    assert np.isfinite(model.activations(np.zeros((2, 32), np.float32), np.zeros((2, 32), np.float32))).all()


def recall(hasher, X, queries, similarities):
    true = np.argsort(-similarities, axis=1)[:, :10]
    found = np.argsort(-(hasher.project_queries(queries) @ np.where(hasher.transform(X), 1, -1).T), axis=1)[:, :10]
    return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(true, found, strict=True)])


@pytest.mark.parametrize("metric", ["cosine", "inner", "euclidean"])
@pytest.mark.parametrize("early_stopping", [True, False])
def test_search_finds_more_than_with_itq(digits, metric, early_stopping):
    X, queries = digits.X[:500] + 1.0, digits.X_query[:60] + 1.0
    if metric == "cosine":
        X, queries = (values / np.linalg.norm(values, axis=1, keepdims=True) for values in (X, queries))
    similarities = 2 * queries @ X.T - (metric == "euclidean") * (X**2).sum(1)
    options = {"n_epochs": 1, "early_stopping": early_stopping, "random_state": 0}
    hasher = EmbeddingHasher(64, metric=metric, **options).fit(X)
    assert hasher.weights_["reconstructs"] == 1
    itq = ITQHasher(64, random_state=0).fit(X)
    assert recall(hasher, X, queries, similarities) > recall(itq, X, queries, similarities) + 0.03


def test_training_changes_the_queries_only(digits):
    X, options = digits.X[:600], {"metric": "euclidean", "learning_rate": 1e-3, "batch_size": 200, "random_state": 0}
    long, short = (EmbeddingHasher(48, n_epochs=n, early_stopping=False, **options).fit(X) for n in (5, 1))
    assert_array_equal(long.encode(X), short.encode(X))
    assert (long.project_queries(X) != short.project_queries(X)).any()


def test_itq_stays_where_it_finds_more(digits, monkeypatch):
    X, options = digits.X[:200], {"metric": "euclidean", "n_epochs": 1, "random_state": 0}
    monkeypatch.setattr(EmbeddingHasher, "_n_digits", {"euclidean": 0})  # without the norm these codes are poor
    kept = EmbeddingHasher(32, **options).fit(X * np.random.default_rng(0).uniform(0.3, 1.7, (200, 1)))
    assert kept.weights_["reconstructs"] == 0
    assert_array_equal(kept.weights_["decoder"], 0)


def test_resumed_codes_are_those_of_an_uninterrupted_run(digits, tmp_path):
    options = {"n_epochs": 4, "batch_size": 100, "learning_rate": 1e-3, "random_state": 0}
    whole = EmbeddingHasher(32, **options).fit(digits.X)
    resumed = stop_and_resume(partial(EmbeddingHasher, 32, checkpoint=tmp_path, **options), digits.X)
    assert_array_equal(resumed.encode(digits.X), whole.encode(digits.X))
    assert_allclose(resumed.project_queries(digits.X_query), whole.project_queries(digits.X_query))


def test_codes_persist(digits, tmp_path):
    hasher = EmbeddingHasher(32, metric="euclidean", n_epochs=1, random_state=0).fit(digits.X[:200][::-1])
    assert hasher.weights_["reconstructs"] == 1
    save(hasher, tmp_path / "hasher.skhash")
    loaded = load(tmp_path / "hasher.skhash")
    assert_array_equal(loaded.encode(digits.X_query), hasher.encode(digits.X_query))
    assert_array_equal(loaded.project_queries(digits.X_query), hasher.project_queries(digits.X_query))
