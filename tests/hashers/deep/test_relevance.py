"""EmbeddingHasher with an affinity: its start against regressions of scikit-learn, few labels."""

import pickle
from functools import partial

import numpy as np
import pytest
from _helpers import draw, stop_and_resume
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skhash import EmbeddingHasher, ITQHasher
from skhash.affinity import ClassAffinity, NeighborAffinity, PrecomputedAffinity
from skhash.hashers.deep._relevance import relevance_map
from skhash.metrics import RetrievalScorer, average_precision, histogram_from_distances
from skhash.persistence import load, save

OPTIONS = {"n_epochs": 3, "learning_rate": 1e-3, "random_state": 0}


@pytest.mark.parametrize("penalty", [0.1, 3.0])
def test_the_start_is_two_ridge_regressions(penalty):
    X, labeled = draw(50, 6).numpy(), draw(20, 6, seed=1).numpy()
    levels = np.random.default_rng(0).integers(0, 4, (20, 20)).astype(float)
    levels += levels.T
    centered = levels - levels.mean(0) - levels.mean(1)[:, None] + levels.mean()
    ridge = Ridge(alpha=penalty * np.trace(labeled.T @ labeled) / 6, fit_intercept=False)
    by_item = ridge.fit(labeled, centered).coef_.T  # (6, 20): for each sample, a linear function of the other
    metric = ridge.fit(labeled, by_item.T).coef_
    values, vectors = np.linalg.eigh(metric)
    expected = vectors * values.clip(0) @ vectors.T
    found = relevance_map(X, labeled, levels, penalty, 6, np.random.RandomState(0))
    scale = np.trace(found @ found.T) / np.trace(expected)
    assert_allclose(found @ found.T, scale * expected, atol=1e-9 * scale)
    assert np.mean((X @ found) ** 2) == pytest.approx(1)
    few = relevance_map(X, labeled, levels, penalty, 2, np.random.RandomState(0))
    largest = (vectors[:, -2:] * values[-2:].clip(0)) @ vectors[:, -2:].T
    assert_allclose(few @ few.T / np.trace(few @ few.T), largest / np.trace(largest), atol=1e-9)
    assert relevance_map(X, labeled, levels, penalty, 9, np.random.RandomState(0)).shape == (6, 9)


def test_equal_levels_have_no_map():
    X = draw(9, 3).numpy()
    assert not relevance_map(X, X, np.ones((9, 9)), 1.0, 2, np.random.RandomState(0)).any()


@pytest.fixture(scope="module")
def quarter(digits):
    """Digits with a quarter of the labels, and a hasher that learns from them."""
    y = digits.y.copy()
    y[len(y) // 4 :] = -1
    return EmbeddingHasher(32, affinity="auto", **OPTIONS).fit(digits.X, y), y


def ap(hasher, digits, query="code"):
    scorer = RetrievalScorer(database=(digits.X, digits.y), affinity=ClassAffinity(), query=query)
    return scorer(hasher, digits.X_query, digits.y_query)


def test_few_labels_beat_the_vectors_themselves(digits, quarter):
    hasher, y = quarter
    unit, queries = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (digits.X, digits.X_query))
    of_vectors = average_precision(histogram_from_distances(-queries @ unit.T, digits.y_query, digits.y))
    assert ap(hasher, digits) > of_vectors + 0.03
    assert ap(hasher, digits, "real") > of_vectors + 0.03
    assert_array_equal(hasher.project_queries(digits.X_query), hasher.project(digits.X_query))
    assert ap(hasher, digits) > ap(ITQHasher(32, random_state=0).fit(digits.X), digits) + 0.1
    assert hasher.n_labeled_ == (y != -1).sum()
    assert isinstance(hasher.affinity_, ClassAffinity)


def test_training_goes_on_from_the_start(digits):
    options = {"affinity": "auto", "metric": "euclidean", "batch_size": 200, "random_state": 0}
    start = EmbeddingHasher(16, n_epochs=1, learning_rate=1e-9, **options).fit(digits.X, digits.y)
    learned = EmbeddingHasher(16, n_epochs=30, **options).fit(digits.X, digits.y)
    assert max(entry["validation"] for entry in learned.history_) > start.history_[0]["validation"]
    spoiled = EmbeddingHasher(16, n_epochs=2, learning_rate=100.0, **options).fit(digits.X, digits.y)
    assert_array_equal(spoiled.encode(digits.X_query), start.encode(digits.X_query))  # the start is kept


def test_shared_labels_levels_and_judged_pairs(digits):
    X, y = digits.X[:300], digits.y[:300]
    labels = np.stack([y % 2 == 0, y < 5, y > 7, y % 3 == 0], axis=1).astype(int)
    labels[100:] = 0
    for given in (labels, sparse.csr_matrix(labels)):
        shared = EmbeddingHasher(16, affinity="auto", **OPTIONS).fit(X, given)
        assert shared.n_labeled_ == labels.any(axis=1).sum()
    texts = np.where(y < 5, "-1", "a")  # a class like any other
    assert EmbeddingHasher(16, affinity="auto", **OPTIONS).fit(X, texts).n_labeled_ == 300
    same = np.equal.outer(y[:100], y[:100])
    i, j = np.nonzero(np.triu(same, 1))
    judged = sparse.csr_matrix((np.ones(2 * len(i)), (np.r_[i, j], np.r_[j, i])), (300, 300))
    pairs = EmbeddingHasher(16, affinity=PrecomputedAffinity(judged), **OPTIONS).fit(X, np.arange(300))
    assert pairs.n_labeled_ == 100
    itq = ITQHasher(16, random_state=0).fit(X)
    assert ap(pairs, digits) > ap(itq, digits) + 0.05
    graded = EmbeddingHasher(16, affinity=lambda a, b: np.maximum(2.5 - np.abs(np.subtract.outer(a, b)), 0), **OPTIONS)
    assert graded.fit(X, y).n_labeled_ == 300


def test_relevance_of_the_vectors_needs_no_labels(digits):
    hasher = EmbeddingHasher(16, affinity=NeighborAffinity(20), **OPTIONS).fit(digits.X)
    itq = ITQHasher(16, random_state=0).fit(digits.X)
    assert ap(hasher, digits) > ap(itq, digits) - 0.05


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        ([-1] * 59 + [1], "at least two labeled samples"),
        ([-1] * 40 + [2] * 20, "at least two classes"),
        (np.r_[np.full(30, -1), np.arange(30)], "at least one class of two samples"),
    ],
)
def test_targets_that_teach_nothing(digits, y, message):
    with pytest.raises(ValueError, match=message):
        EmbeddingHasher(8, affinity="auto", **OPTIONS).fit(digits.X[:60], y)


def test_copies_files_and_streams(digits, quarter, tmp_path):
    hasher, y = quarter
    codes = hasher.encode(digits.X_query)
    save(hasher, tmp_path / "hasher.skhash")
    for copy in (pickle.loads(pickle.dumps(hasher)), load(tmp_path / "hasher.skhash"), clone(hasher).fit(digits.X, y)):
        assert_array_equal(copy.encode(digits.X_query), codes)
        assert copy.n_labeled_ == hasher.n_labeled_
    assert not hasattr(clone(hasher).set_params(affinity=None).fit(digits.X[:60]), "n_labeled_")
    stream = clone(hasher).partial_fit(digits.X[:200], y[:200])
    stream.partial_fit(digits.X[50:150], y[50:150])
    with pytest.raises(ValueError, match="at least two labeled samples"):
        stream.partial_fit(digits.X[200:250], y[200:250])
    assert len(stream.history_) == 2


def test_resumes_to_the_codes_of_an_uninterrupted_run(digits, quarter, tmp_path):
    make = partial(EmbeddingHasher, 16, affinity="auto", **OPTIONS | {"n_epochs": 4, "batch_size": 50})
    whole = make().fit(digits.X, quarter[1])
    resumed = stop_and_resume(partial(make, checkpoint=tmp_path), digits.X, quarter[1])
    assert resumed.history_ == whole.history_
    assert_array_equal(resumed.encode(digits.X_query), whole.encode(digits.X_query))


def test_without_held_out_samples(digits, quarter):
    hasher = EmbeddingHasher(16, affinity="auto", early_stopping=False, **OPTIONS).fit(digits.X, quarter[1])
    assert ap(hasher, digits) > ap(ITQHasher(16, random_state=0).fit(digits.X), digits) + 0.1
    assert all("validation" not in entry for entry in hasher.history_)


def test_hidden_layers(digits):
    hasher = EmbeddingHasher(16, affinity="auto", backbone="mlp", n_epochs=5, batch_size=100, random_state=0)
    assert hasher.fit(digits.X, digits.y).score(digits.X_query, digits.y_query) > 0.6
