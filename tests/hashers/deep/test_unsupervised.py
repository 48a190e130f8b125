"""What hashers without labels have in common: they learn from samples alone, also in a stream or from a checkpoint."""

from functools import partial

import numpy as np
import pytest
from _helpers import Overflowing, digit_images, stop_and_resume
from numpy.testing import assert_array_equal
from sklearn.utils import get_tags
from torch import nn

from skhash import BiHalfHasher, CIBHashHasher, LSHHasher, NSHHasher, TBHHasher, UnsupervisedGreedyHashHasher
from skhash.metrics import RetrievalScorer

HASHERS = [BiHalfHasher, CIBHashHasher, NSHHasher, TBHHasher, UnsupervisedGreedyHashHasher]
every_hasher = pytest.mark.parametrize("Hasher", HASHERS)
OPTIONS = {"n_epochs": 2, "batch_size": 50, "random_state": 0}


@pytest.fixture(scope="module")
def unlabeled(digits):
    """Each hasher, fitted without labels."""
    return {Hasher: Hasher(16, **OPTIONS).fit(digits.X) for Hasher in HASHERS}


@every_hasher
def test_labels_are_not_needed_and_change_nothing(digits, unlabeled, Hasher):
    hasher = unlabeled[Hasher]
    assert not get_tags(hasher).target_tags.required
    assert hasher.database_.y is None
    with pytest.raises(ValueError, match="y"):
        hasher.score(digits.X_query, digits.y_query)  # there are no targets to compare them with
    assert RetrievalScorer(database="fold")(hasher, digits.X_query, digits.y_query) > 0.2
    labeled = Hasher(16, **OPTIONS).fit(digits.X, digits.y)
    assert_array_equal(hasher.encode(digits.X), labeled.encode(digits.X))


@pytest.mark.parametrize(
    ("Hasher", "n_epochs"), [(BiHalfHasher, 60), (CIBHashHasher, 6), (TBHHasher, 16), (UnsupervisedGreedyHashHasher, 6)]
)
def test_learns_from_samples_alone(digits, Hasher, n_epochs):
    hasher = Hasher(16, **OPTIONS | {"n_epochs": n_epochs}).fit(digits.X, digits.y)
    assert hasher.history_[-1]["loss"] < hasher.history_[0]["loss"]
    query = digits.X_query, digits.y_query
    random = [LSHHasher(16, random_state=i).fit(digits.X, digits.y).score(*query) for i in range(3)]
    assert hasher.score(*query) > np.mean(random) + 0.1


@every_hasher
@pytest.mark.parametrize(
    "options",
    [
        {"backbone": None},
        {"backbone": None, "optimizer": "sgd", "learning_rate": 0.01},
        {"backbone": nn.Sequential(nn.Linear(64, 9), nn.ReLU()), "deterministic": True},
    ],
    ids=["linear", "sgd", "module"],
)
def test_backbones_and_optimizers(digits, Hasher, options):
    hasher = Hasher(16, **OPTIONS | options).fit(digits.X[:200], digits.y[:200])
    assert 0.15 < hasher.score(digits.X_query, digits.y_query) <= 1


@every_hasher
def test_a_loss_that_is_not_finite_is_reported(digits, Hasher):
    with pytest.raises(FloatingPointError, match="nan in epoch 1"):
        Hasher(16, backbone=Overflowing(), **OPTIONS).fit(digits.X)
    with pytest.raises(ValueError, match="NaN"):
        Hasher(16).fit(np.full((4, 3), np.nan))


@every_hasher
def test_early_stopping_needs_targets(digits, Hasher):
    with pytest.raises(ValueError, match="early_stopping=True"):
        Hasher(16, early_stopping=True, **OPTIONS).fit(digits.X)
    hasher = Hasher(16, early_stopping=True, **OPTIONS).fit(digits.X, digits.y)
    assert all(0 < entry["validation"] <= 1 for entry in hasher.history_)


@every_hasher
def test_resumes_to_the_codes_of_an_uninterrupted_run(digits, unlabeled, Hasher, tmp_path):
    resumed = stop_and_resume(partial(Hasher, 16, checkpoint=tmp_path, **OPTIONS), digits.X, after=1)
    assert [entry["epoch"] for entry in resumed.history_] == [1, 2]
    assert resumed.history_ == unlabeled[Hasher].history_
    assert_array_equal(resumed.project(digits.X_query), unlabeled[Hasher].project(digits.X_query))


@every_hasher
def test_a_stream_without_targets(digits, Hasher):
    hasher = Hasher(16, batch_size=50, random_state=0)
    for start in range(0, 300, 100):
        hasher.partial_fit(digits.X[start : start + 100])
    assert len(hasher.history_) == 3
    assert hasher.transform(digits.X_query).shape == (300, 16)


@pytest.mark.parametrize(("backbone", "dtype"), [(None, np.float32), ("mlp", np.uint8), ("conv", np.uint8)])
@every_hasher
@pytest.mark.filterwarnings("default:The codes find the other view")  # true of one epoch with the crops of MoCo v2
def test_images(Hasher, backbone, dtype):
    pytest.importorskip("kornia")
    X, y = digit_images(dtype)
    hasher, again = (Hasher(16, backbone=backbone, **OPTIONS | {"n_epochs": 1}).fit(X, y) for _ in range(2))
    assert hasher.transform(X).shape == (60, 16)
    assert_array_equal(hasher.transform(X), again.transform(X))
    assert 0 < hasher.score(X, y) <= 1
