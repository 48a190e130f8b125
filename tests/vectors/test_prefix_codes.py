"""EmbeddingHasher with `prefixes`: first bits that are good codes, each length with real queries of its own."""

import numpy as np
import pytest
from _helpers import StopAfter
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from skhash import EmbeddingHasher
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load, save
from skhash.vectors.codes import OF_PREFIX, ReconstructionFunction, learn_reconstructions

OPTIONS = {"metric": "euclidean", "n_epochs": 2, "random_state": 0}
PREFIXES = (32, 64)


@pytest.fixture(scope="module")
def digits():
    return train_test_split(load_digits().data, test_size=300, random_state=0)


@pytest.fixture(scope="module")
def whole(digits):
    return EmbeddingHasher(128, prefixes=PREFIXES, **OPTIONS).fit(digits[0])


@pytest.mark.parametrize("pull", [0.0, 0.7])
def test_no_other_bit_lowers_the_sum_of_the_errors_of_all_lengths(pull):
    rng = np.random.default_rng(0)
    X, start = rng.normal(size=(300, 12)).astype(np.float32), rng.normal(size=(20, 12)).astype(np.float32)
    lengths = (6, 13, 20)
    model, decoders = next(
        learn_reconstructions(X, start, np.eye(12, dtype=np.float32), 0, False, [pull], lengths[:-1])
    )

    def errors(bits):
        total = 0
        for n, decoder, weight in zip(lengths, [*decoders, model.decoder], [OF_PREFIX, OF_PREFIX, 1], strict=True):
            share = pull * np.square(decoder).sum() / n
            values = X[:40] @ model.start[:n].T - bits[:, :n]
            residuals = X[:40] - bits[:, :n] @ decoder
            total = total + weight * (np.square(residuals).sum(axis=1) + share * np.square(values).sum(axis=1))
        return total

    bits, _ = model.search(X[:40], 20)
    least = errors(bits)
    for i in range(20):
        flipped = bits.copy()
        flipped[:, i] *= -1
        assert (errors(flipped) > least - 1e-3).all()
    assert errors(-bits).min() > least.max()


def test_decoders_of_prefixes_are_regressions_on_their_bits():
    rng = np.random.default_rng(0)
    X, start = rng.normal(size=(500, 8)).astype(np.float32), rng.normal(size=(12, 8)).astype(np.float32)
    models = learn_reconstructions(X, start, np.eye(8, dtype=np.float32), 0, True, [1.0], (5,))
    for model, (decoder,) in models:
        bits, _ = model.search(X, 12)
        residuals = [X - bits[:, :5] @ decoder, X - bits @ model.decoder - model.origin]
        assert np.square(residuals[1]).sum() < np.square(residuals[0]).sum() < np.square(X).sum()
        assert_allclose(model.summed_decoder[:5], OF_PREFIX * decoder + model.decoder[:5], rtol=1e-5, atol=1e-6)


def recalls(hasher, items, queries):
    """Share of the ten nearest items that are found by Hamming distance, and by real queries."""
    exact = NearestNeighbors(n_neighbors=10).fit(items).kneighbors(queries)[1]
    values = []
    for query in ("code", "real"):
        index = HammingNeighbors(FrozenEstimator(hasher), query=query).fit(items)
        found = index.kneighbors(queries, 10, return_distance=False)
        values.append(np.mean([np.isin(*rows).mean() for rows in zip(exact, found, strict=True)]))
    return np.array(values)


def test_the_first_bits_find_more_than_those_of_a_usual_fit(digits, whole):
    items, queries = digits
    usual = EmbeddingHasher(128, **OPTIONS).fit(items)
    for n, more in ((32, 0.05), (64, 0.02)):
        with pytest.warns(UserWarning, match=rf"Fit EmbeddingHasher\(128, prefixes=\({n},\)\)"):
            first = usual.prefix(n)
        assert (recalls(whole.prefix(n), items, queries) > recalls(first, items, queries) + more).all()
    assert usual.prefix(128).nbits == 128  # without a warning
    assert (recalls(whole, items, queries) > recalls(usual, items, queries) - 0.05).all()


def test_each_prefix_has_the_first_bits_and_queries_of_its_own(digits, whole):
    X, bits = digits[1], whole.transform(digits[1])
    queries = whole.project_queries(X)
    for n in PREFIXES:
        shorter = whole.prefix(n)
        assert (shorter.nbits, shorter.prefixes) == (n, tuple(length for length in PREFIXES if length < n))
        assert_array_equal(shorter.transform(X), bits[:, :n])
        assert not np.allclose(shorter.project_queries(X), queries[:, :n], rtol=0.01)
    assert_allclose(whole.prefix(50).project_queries(X), whole.prefix(64).project_queries(X)[:, :50], atol=1e-4)
    assert_allclose(whole.prefix(100).project_queries(X), queries[:, :100], atol=1e-4)
    assert whole.prefix(100).prefixes == PREFIXES
    for path in ((100, 32), (64, 32), (64, 40, 32)):
        shorter = whole
        for n in path:
            shorter = shorter.prefix(n)
        assert_array_equal(shorter.project_queries(X), whole.prefix(32).project_queries(X))
        assert shorter.prefixes == ()
    assert whole.prefixes == PREFIXES


def test_prefixes_are_stored(digits, whole, tmp_path):
    save(whole, tmp_path / "hasher.safetensors")
    loaded = load(tmp_path / "hasher.safetensors")
    for n in (*PREFIXES, 128):
        for name in ("transform", "project", "project_queries"):
            assert_array_equal(getattr(loaded.prefix(n), name)(digits[1]), getattr(whole.prefix(n), name)(digits[1]))
    save(whole.prefix(64), tmp_path / "shorter.safetensors")
    again = load(tmp_path / "shorter.safetensors").prefix(32)
    assert_array_equal(again.project_queries(digits[1]), whole.prefix(32).project_queries(digits[1]))


def test_the_same_codes_by_a_list_from_a_clone_and_in_parts(digits, whole):
    again = clone(whole).set_params(prefixes=[32, 64]).fit(digits[0])
    assert_array_equal(again.project(digits[1]), whole.project(digits[1]))
    assert_array_equal(again.project_queries(digits[1]), whole.project_queries(digits[1]))
    parts = [whole.encode(digits[1][i : i + 1]) for i in range(3)]
    assert_array_equal(np.concatenate(parts), whole.encode(digits[1][:3]))


@pytest.mark.parametrize(
    "options", [{"hamming": False}, {"metric": "cosine"}, {"metric": "inner"}, {"early_stopping": False}]
)
def test_every_kind_of_codes_has_prefixes(options, digits):
    hasher = EmbeddingHasher(64, prefixes=(16, 40), **OPTIONS | options).fit(digits[0])
    assert isinstance(hasher.function_, ReconstructionFunction)
    assert hasher.prefix(16).project_queries(digits[1]).shape == (300, 16)
    assert hasher.history_[0]["loss"] > 0


@pytest.mark.filterwarnings("ignore::skhash.exceptions.DegenerateCodesWarning")
def test_equal_samples_have_finite_queries():
    X = np.ones((200, 8)) + np.eye(200, 8)[:, ::-1]  # all but eight are equal
    for samples in (X, np.ones((200, 8))):
        hasher = EmbeddingHasher(64, prefixes=(16,), **OPTIONS).fit(samples)
        assert np.isfinite(hasher.prefix(16).project_queries(samples)).all()


def test_partial_fit_trains_the_queries_of_all_prefixes(digits, whole):
    hasher = clone(whole).fit(digits[0])
    codes, before = hasher.encode(digits[1]), [hasher.prefix(n).project_queries(digits[1]) for n in PREFIXES]
    hasher.partial_fit(digits[0])
    assert_array_equal(hasher.encode(digits[1]), codes)
    for n, queries in zip(PREFIXES, before, strict=True):
        assert not np.array_equal(hasher.prefix(n).project_queries(digits[1]), queries)
    shorter = hasher.prefix(64)
    codes = shorter.encode(digits[1])
    assert_array_equal(shorter.partial_fit(digits[0]).encode(digits[1]), codes)
    with pytest.raises(ValueError, match="prefixes"):
        hasher.set_params(prefixes=(32,)).partial_fit(digits[0])
    with pytest.raises(ValueError, match=r"`prefixes` must be \(\) for partial_fit without fit"):
        clone(whole).partial_fit(digits[0])


def test_an_interrupted_fit_with_prefixes_is_resumed(digits, whole, tmp_path):
    hasher = clone(whole).set_params(checkpoint=tmp_path / "training", early_stopping=False)
    with pytest.raises(KeyboardInterrupt):
        clone(hasher).set_callbacks(StopAfter(1)).fit(digits[0])
    resumed = hasher.fit(digits[0], resume=True)
    expected = clone(whole).set_params(early_stopping=False).fit(digits[0])
    for n in PREFIXES:
        assert_array_equal(resumed.prefix(n).project_queries(digits[1]), expected.prefix(n).project_queries(digits[1]))


def test_drift_compares_whole_codes_and_prefixes(digits, whole):
    assert not whole.drift(digits[1]).alarm
    assert whole.prefix(64).drift(digits[1]).error == pytest.approx(whole.drift(digits[1]).error)
    features = (digits[1] - whole.function_.mean) / whole.function_.scale
    content = whole.function_.digits == 0
    bits = 2.0 * whole.transform(digits[1])[:, content] - 1
    residuals = features - bits @ whole.function_.decoder[content] - whole.function_.origin
    expected = np.square(residuals).sum(axis=1) / np.square(features).sum(axis=1)
    assert whole.drift(digits[1]).error == pytest.approx(expected.mean(), rel=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"prefixes": (64, 32)},
        {"prefixes": (32, 32)},
        {"prefixes": (128,)},
        {"prefixes": (122,)},  # the last seven bits tell the norm
        {"prefixes": (0,)},
        {"prefixes": (32.5,)},
        {"prefixes": "32"},
        {"prefixes": 32},
        {"prefixes": (32,), "factors": True},
        {"prefixes": (8,), "nbits": 16},
    ],
)
def test_bad_prefixes_are_named(options, digits):
    hasher = EmbeddingHasher(**{"nbits": 128} | OPTIONS | options)
    with pytest.raises((ValueError, TypeError), match="prefixes"):
        hasher.fit(digits[0][:100], np.arange(100) % 5)
    assert not hasattr(hasher, "function_")


@pytest.mark.parametrize(
    "changes",
    [
        {"prefixes": np.array([64, 32])},
        {"prefixes": np.array([32, 65])},
        {"prefixes": np.array([0, 96])},
        {"prefixes": np.array([97])},
        {"prefixes": np.array([32, 128])},
        {"prefixes": None},
        {"prefix_bias": None},
        {"prefix_weight": None},
        {"prefix_bias": np.zeros(95, np.float32)},
        {"summed_decoder": np.zeros((127, 64), np.float32)},
        {"summed_decoder": np.zeros((128, 64))},
    ],
    ids=str,
)
def test_functions_with_false_prefixes_are_refused(changes, whole):
    arrays = whole.function_.arrays() | changes
    with pytest.raises(ValueError, match="function_"):
        ReconstructionFunction.from_arrays({name: value for name, value in arrays.items() if value is not None})
