"""Codes that reconstruct vectors: the descent against brute force, the digits of the norm, and what search finds."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from _helpers import stop_and_resume
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from skhash import EmbeddingHasher, ITQHasher
from skhash.persistence import load, save
from skhash.vectors import embedding
from skhash.vectors._search_kernels import descend_bits, descend_groups, perturb_bits
from skhash.vectors.codes import (
    ERRORS,
    N_STEPS,
    N_SWEEPS,
    SUMS,
    QueryFunction,
    ReconstructionFunction,
    bits_by_variance,
    changed_bits,
    learn_map,
    learn_reconstructions,
    learn_sums,
    scaled_directions,
)

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


def test_changed_bits_find_codes_that_single_bits_do_not():
    rng = np.random.default_rng(0)
    n_best = np.zeros(2, int)
    for _ in range(50):
        D = rng.normal(size=(6, 3))
        gram, goal = (D @ D.T).astype(np.float32), rng.normal(size=6).astype(np.float32)
        bits = SIGNS[rng.integers(64)][None].copy()
        fields, energy = goal - bits @ gram, energies(gram, goal)
        descend_bits(gram, fields, bits, 100)
        once = energy[(bits[0] == SIGNS).all(1)][0]
        perturb_bits(gram, fields, bits, 100, changed_bits(6, 50))
        assert_allclose(fields[0], goal - bits[0] @ gram, atol=1e-4)
        end = energy[(bits[0] == SIGNS).all(1)][0]
        assert end <= once + 1e-4
        n_best += np.array([once, end]) < energy.min() + 1e-4
    assert n_best[0] + 5 < n_best[1]


def test_the_bits_of_a_group_get_the_best_of_all_their_values():
    rng = np.random.default_rng(0)
    first = np.array([0, 3, 4, 6])
    for _ in range(20):
        D = rng.normal(size=(6, 4))
        gram, goal = (D @ D.T).astype(np.float32), rng.normal(size=6).astype(np.float32)
        bits, fields = np.zeros((1, 6), np.float32), goal[None].copy()
        descend_groups(gram, first, fields, bits, 100)
        assert_allclose(fields[0], goal - bits[0] @ gram, atol=1e-4)
        energy = energies(gram, goal)
        end = energy[(bits[0] == SIGNS).all(1)][0]
        for start, stop in itertools.pairwise(first):
            others = np.delete(np.arange(6), np.arange(start, stop))
            assert end <= energy[(SIGNS[:, others] == bits[0, others]).all(1)].min() + 1e-4


def test_sums_are_the_nearest_to_normal_values():
    values = np.random.default_rng(0).normal(size=200_000)
    for n, (sums, error) in enumerate(zip(SUMS, ERRORS[1:], strict=True), 1):
        levels = np.sort(np.array(list(itertools.product([-1, 1], repeat=n))) @ sums)
        nearest = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, values)]
        assert np.mean((values - nearest) ** 2) == pytest.approx(error, rel=0.05)


def test_bits_go_where_the_error_falls_most():
    variances, n = np.array([9.0, 4.0, 1.0, 0.1]), 7
    sizes = bits_by_variance(variances, n)
    errors = {
        tried: sum(v * ERRORS[size] for v, size in zip(variances, tried, strict=True))
        for tried in itertools.product(range(5), repeat=4)
        if sum(tried) == n
    }
    assert errors[tuple(sizes)] == pytest.approx(min(errors.values()))
    assert list(bits_by_variance(variances, 16)) == [4, 4, 4, 4]


@pytest.fixture(scope="module")
def samples():
    """500 vectors, whose directions have very different variances."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 12)) * np.linspace(2, 0.3, 12) * rng.uniform(0.5, 1.5, (500, 1))
    return X.astype(np.float32)


def learn(X, nbits, n_digits, *pulls, has_offset=True):
    directions = np.eye(X.shape[1], dtype=np.float32)
    start = learn_map(X, directions, nbits, np.random.RandomState(0))
    return [model for model, _ in learn_reconstructions(X, start, directions, n_digits, has_offset, pulls)]


def signs(model, X):
    return np.where(model.activations(X) >= 0, np.float32(1), np.float32(-1))


@pytest.mark.parametrize("pull", [0.0, 1.0])
def test_scores_are_those_of_the_reconstruction(samples, pull):
    (model,) = learn(samples, 40, 6, pull)
    codes = signs(model, samples)
    assert_array_equal(model.decoder[34:], 0)
    assert_array_equal(model.digits[:34], 0)
    assert_allclose(model.digits[34:] / model.digits[39], [8, 8, 8, 4, 2, 1])
    offset = -np.linalg.lstsq(model.decoder[:34].astype(float), model.field_bias[:34].astype(float), rcond=None)[0]
    found = codes @ model.decoder + offset
    assert ((samples - found) ** 2).sum() / (samples**2).sum() < 0.1 + 0.1 * pull
    squared = ((found**2).sum(1) - (offset**2).sum() + (samples**2).sum(1)) / 2
    low, high = np.quantile(squared, [0.001, 0.999])
    inside = (squared > low) & (squared < high)
    assert_allclose((codes @ model.digits + model.middle)[inside], squared[inside], atol=(high - low) / 64 + 1e-3)
    steps = codes[:, 34:37]
    assert ((np.diff(steps, axis=1) <= 0).all(axis=1)).all()  # a larger norm adds steps
    assert (np.diff(steps.sum(1)[np.argsort(squared)]) >= 0).all()
    assert N_STEPS == 3


@pytest.mark.parametrize("pull", [0.0, 0.5])
def test_each_bit_of_a_code_has_its_best_value(samples, pull):
    (model,) = learn(samples, 40, 6, pull)
    codes = signs(model, samples)
    assert_allclose(model.pull[:34], pull * (model.decoder**2).sum() / 34, rtol=1e-5)
    n = 34
    offset = -np.linalg.lstsq(model.decoder[:n].astype(float), model.field_bias[:n].astype(float), rcond=None)[0]
    mapped = samples @ model.start.T

    def errors(codes):
        rest, pulled = samples - codes @ model.decoder - offset, (mapped - codes)[:, :n]
        return (rest**2).sum(1) + (model.pull[:n] * pulled**2).sum(1)

    least = errors(codes)
    settled = [errors(codes * np.where(np.arange(40) == i, -1, 1)) > least - 1e-3 for i in range(n)]
    assert np.all(settled, axis=0).mean() > 0.95  # most samples need fewer sweeps than the largest number
    assert N_SWEEPS >= 5


@pytest.mark.parametrize("nbits", [24, 40])
def test_several_bits_per_direction_reconstruct_better(samples, nbits):
    errors = []
    sums = learn_sums(samples, np.eye(12, dtype=np.float32), nbits, 0, True, np.random.RandomState(0))
    for model in (sums, *learn(samples, nbits, 0, 0.0)):
        offset = -np.linalg.lstsq(model.decoder.astype(float), model.field_bias.astype(float), rcond=None)[0]
        rest = samples - signs(model, samples) @ model.decoder - offset
        errors.append((rest**2).sum() / (samples**2).sum())
    assert errors[0] < 0.8 * errors[1]
    assert np.bincount(sums.groups).max() > 1


def test_a_group_of_many_bits_is_refused(samples):
    (model,) = learn(samples, 24, 0, 0.0)
    with pytest.raises(ValueError, match=r"`groups` must have at most 4 bits with the same number\. Got 24 instead"):
        replace(model, groups=np.zeros(24, np.int64)).activations(samples)


def test_a_stronger_pull_gives_codes_nearer_to_the_map_and_a_worse_reconstruction(samples):
    errors, changes = [], []
    for model in learn(samples, 24, 0, 4.0, 1.0, 0.0):
        codes = signs(model, samples)
        changes.append(np.mean(codes != np.where(samples @ model.start.T >= 0, 1, -1)))
        offset = -np.linalg.lstsq(model.decoder.astype(float), model.field_bias.astype(float), rcond=None)[0]
        errors.append(((samples - codes @ model.decoder - offset) ** 2).sum())
    assert changes[0] < changes[1] < changes[2]
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("nbits", [8, 12, 20])
def test_the_map_is_nearest_to_its_signs_of_all_with_orthogonal_rows_or_columns(samples, nbits):
    directions = scaled_directions(samples, np.eye(12, dtype=np.float32), -0.125)
    assert_allclose(np.diag(directions), (samples**2).mean(0) ** -0.125, rtol=1e-5)
    rotation = learn_map(samples, directions, nbits, np.random.RandomState(0)) @ np.linalg.inv(directions)
    gram = rotation @ rotation.T if nbits <= 12 else rotation.T @ rotation
    assert_allclose(gram, gram[0, 0] * np.eye(len(gram)), atol=1e-3 * gram[0, 0])
    values = samples @ directions.T
    bits = np.where(values @ rotation.T >= 0, 1, -1)
    error = ((values @ rotation.T - bits) ** 2).sum()
    rng = np.random.default_rng(0)
    for _ in range(20):
        turn = np.linalg.qr(np.eye(12) + 0.05 * rng.normal(size=(12, 12)))[0]
        assert ((values @ (rotation @ turn).T - bits) ** 2).sum() > error - 1e-2 * error
    assert ((1.05 * values @ rotation.T - bits) ** 2).sum() > error


@pytest.mark.parametrize("pull", [0.0, 0.5])
def test_codes_depend_on_no_thread_and_no_other_sample(samples, pull):
    (model,) = learn(samples, 40, 6, pull)
    whole = model.activations(samples)
    with threadpool_limits(1):
        assert_array_equal(whole, model.activations(samples))
    assert_allclose(model.activations(samples[7:9]), whole[7:9], rtol=1e-4, atol=1e-4)


def test_constant_vectors_have_finite_codes():
    for model in learn(np.zeros((5, 3), np.float32), 32, 3, 1.0, 0.0):
        assert np.isfinite(model.activations(np.zeros((2, 3), np.float32))).all()


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
    assert isinstance(hasher.function_, ReconstructionFunction)
    itq = ITQHasher(64, random_state=0).fit(X)
    assert recall(hasher, X, queries, similarities) > recall(itq, X, queries, similarities) + 0.03


def test_training_changes_the_queries_only(digits):
    X, options = digits.X[:600], {"metric": "euclidean", "learning_rate": 1e-3, "batch_size": 200, "random_state": 0}
    long, short = (EmbeddingHasher(48, n_epochs=n, early_stopping=False, **options).fit(X) for n in (5, 1))
    assert_array_equal(long.encode(X), short.encode(X))
    assert (long.project_queries(X) != short.project_queries(X)).any()


def test_itq_stays_where_it_finds_more(digits, monkeypatch):
    X, options = digits.X[:200], {"metric": "euclidean", "n_epochs": 1, "random_state": 0}
    monkeypatch.setattr(embedding, "_N_DIGITS", {"euclidean": 0})  # without the norm these codes are poor
    kept = EmbeddingHasher(32, **options).fit(X * np.random.default_rng(0).uniform(0.3, 1.7, (200, 1)))
    assert isinstance(kept.function_, QueryFunction)


def test_resumed_codes_are_those_of_an_uninterrupted_run(digits, tmp_path):
    options = {"n_epochs": 4, "batch_size": 100, "learning_rate": 1e-3, "random_state": 0}
    whole = EmbeddingHasher(32, **options).fit(digits.X)
    resumed = stop_and_resume(partial(EmbeddingHasher, 32, checkpoint=tmp_path, **options), digits.X)
    assert_array_equal(resumed.encode(digits.X), whole.encode(digits.X))
    assert_allclose(resumed.project_queries(digits.X_query), whole.project_queries(digits.X_query))


def test_codes_persist(digits, tmp_path):
    hasher = EmbeddingHasher(32, metric="euclidean", n_epochs=1, random_state=0).fit(digits.X[:200][::-1])
    assert isinstance(hasher.function_, ReconstructionFunction)
    save(hasher, tmp_path / "hasher.skhash")
    loaded = load(tmp_path / "hasher.skhash")
    assert_array_equal(loaded.encode(digits.X_query), hasher.encode(digits.X_query))
    assert_array_equal(loaded.project_queries(digits.X_query), hasher.project_queries(digits.X_query))
