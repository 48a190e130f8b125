"""Smoothing of tags: against the dense map, in the encoder, and when it is the default."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits
from torch import nn

from skhash import HashNetHasher, NSHHasher, TALRHasher
from skhash.affinity import PrecomputedAffinity
from skhash.engine import Encoder
from skhash.engine.smoothing import DIRECTIONS, Smoothing, are_tags
from skhash.persistence import load, save


def tags(n=300, n_tags=80, seed=0):
    """Rows of a few tags that stand for hidden topics, and the topics as labels."""
    rng = np.random.default_rng(seed)
    topics = rng.random((n, 5)) < 0.3
    topics[np.arange(n), rng.integers(5, size=n)] = True
    chances = topics @ (rng.random((5, n_tags)) < 0.15) * 0.1
    return (rng.random((n, n_tags)) < chances).astype(np.float32), topics.astype(int)


def dense_map(X, r, p):
    """The matrix of the module's formula, from all eigenvectors."""
    variances, directions = np.linalg.eigh(np.cov(X.T))
    scales = np.ones(len(variances))
    scales[-r:] = (variances[-r:] / variances[:-r].mean()) ** p
    factor = np.sqrt(variances.sum() / (scales**2 @ variances))
    return factor * (directions * scales) @ directions.T


@pytest.mark.parametrize("p", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("r", [1, 7])
def test_the_formula(p, r):
    X = np.random.default_rng(1).normal(size=(200, 12)) * np.linspace(5, 0.5, 12)
    smoothing = Smoothing(12, r).learn(torch.tensor(X), p, np.random.RandomState(0)).double()
    smoothed = smoothing(torch.tensor(X)).numpy()
    assert_allclose(smoothed, X @ dense_map(X, r, p), rtol=1e-3, atol=1e-4)
    assert_allclose(smoothed.var(axis=0).sum(), X.var(axis=0).sum(), rtol=1e-5)


def test_fewer_rows_than_features_share_what_variance_is_left():
    X = np.random.default_rng(1).normal(size=(10, 40))
    smoothing = Smoothing(40, 5).learn(torch.tensor(X), 0.5, np.random.RandomState(0))
    variances = np.sort(np.linalg.eigvalsh(np.cov(X.T)))[::-1]
    assert_allclose(smoothing.gains + 1, np.sqrt(variances[:5] / variances[5:9].mean()), rtol=1e-3)


@pytest.mark.parametrize("X", [np.ones((6, 4)), np.outer(np.arange(6.0), np.ones(4))])
def test_rows_of_rank_0_and_1(X):
    smoothing = Smoothing(4, 2).learn(torch.tensor(X), 0.5, np.random.RandomState(0)).double()
    smoothed = smoothing(torch.tensor(X)).numpy()
    assert_allclose(smoothed, X, rtol=1e-4, atol=1e-6)  # a single direction has nothing to be scaled against


def test_folding_changes_nothing():
    X = np.random.default_rng(0).normal(size=(50, 9)).astype(np.float32)
    encoder = Encoder(9, 3, input_dropout=0.5, n_directions=4).eval()
    encoder.set_statistics(X)
    encoder.learn_smoothing(X, 0.5, np.random.RandomState(0))
    before = encoder(torch.tensor(X))
    assert_allclose(before.detach(), Encoder.fold(encoder)(torch.tensor(X)).detach(), rtol=1e-4, atol=1e-5)
    assert isinstance(encoder.backbone, nn.Identity)
    weight = encoder.hash.weight.clone()
    assert_array_equal(encoder.fold().hash.weight.detach(), weight.detach())  # once is enough


def test_codes_are_those_of_the_folded_map():
    X, y = tags()
    hasher = TALRHasher(8, n_epochs=2, random_state=0).fit(X, y)
    weights = {name: torch.from_numpy(value) for name, value in hasher.weights_.items()}
    smoothing = Smoothing(X.shape[1], len(weights["backbone.gains"]))
    smoothing.load_state_dict({name.removeprefix("backbone."): weights[name] for name in weights if "backbone" in name})
    rows = smoothing((torch.tensor(X) - weights["mean"]) / weights["scale"])
    assert_allclose(hasher.project(X), rows @ weights["hash.weight"].T + weights["hash.bias"], rtol=1e-3, atol=1e-4)
    assert len(weights["backbone.gains"]) == 40 < DIRECTIONS  # half of the features


@pytest.mark.parametrize(("share", "answer"), [(0.04, True), (0.06, False)])
def test_tags_are_rows_of_zeros(share, answer):
    rows = np.zeros((10, 100), dtype=np.float32)
    rows.flat[: round(1000 * share)] = 2.5
    assert are_tags(rows) is answer


def settled(Hasher=TALRHasher, X=None, y=None, **options):
    tag_rows, topics = tags()
    hasher = Hasher(8, n_epochs=1, random_state=0, **options)
    return hasher.fit(tag_rows if X is None else X, topics if y is None else y).settings_["smoothing"]


def test_the_default():
    X, y = tags()
    assert are_tags(X)
    assert settled() == settled(objective="ndcg") == settled(HashNetHasher) == 0.4
    assert settled(smoothing=0.1) == 0.1
    assert settled(smoothing=0) == 0
    assert settled(X=X + 1) == 0  # not tags
    assert settled(y=y[:, 0]) == 0  # classes
    assert settled(y=np.arange(300), affinity=PrecomputedAffinity(y @ y.T)) == 0
    assert settled(NSHHasher) == 0  # learns without y, and may not depend on it
    assert settled(backbone="mlp") == 0


def test_a_hasher_that_smooths_goes_on_from_a_file(tmp_path):
    X, y = tags()
    hasher = TALRHasher(8, n_epochs=2, random_state=0).fit(X, y)
    save(hasher, tmp_path / "hasher")
    assert_array_equal(load(tmp_path / "hasher").encode(X), hasher.encode(X))
    stream = TALRHasher(8, random_state=0).partial_fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
    save(stream, tmp_path / "stream")
    again = load(tmp_path / "stream").partial_fit(X, y)
    assert_array_equal(again.encode(X), stream.partial_fit(X, y).encode(X))
    with pytest.raises(ValueError, match=r"smoothing=0\.2, but the weights were learned with None"):
        stream.set_params(smoothing=0.2).partial_fit(X, y)


def test_a_resumed_fit_smooths_along_the_same_directions(tmp_path):
    X, y = tags()
    options = {"n_epochs": 4, "random_state": 0, "lr_schedule": "constant"}
    whole = TALRHasher(8, **options).fit(X, y)

    class StopAtTwo:
        def setup(self, estimator, context): ...

        def teardown(self, estimator, context): ...

        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            return context.task_id == 1

    TALRHasher(8, **options, checkpoint=tmp_path).set_callbacks(StopAtTwo()).fit(X, y)
    resumed = TALRHasher(8, **options, checkpoint=tmp_path).fit(X, y, resume=True)
    assert len(resumed.history_) == 4
    assert_array_equal(resumed.encode(X), whole.encode(X))


def test_threads_do_not_matter():
    X, y = tags()
    codes = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            codes.append(TALRHasher(8, n_epochs=3, random_state=0).fit(X, y).encode(X))
    assert_array_equal(*codes)


@pytest.mark.parametrize("X", [tags()[0], tags()[0].reshape(300, 1, 8, 10)])
def test_only_linear_hashers_smooth(X):
    backbone = "mlp" if X.ndim == 2 else None
    with pytest.raises(ValueError, match=r"smoothing=0\.5 with backbone=.* only linear hashers smooth, 0 is wanted"):
        TALRHasher(8, backbone=backbone, smoothing=0.5).fit(X, tags()[1])


def test_one_feature_has_nothing_to_smooth():
    hasher = TALRHasher(2, smoothing=0.5, n_epochs=1, random_state=0).fit([[0.0], [1.0], [2.0], [5.0]], [0, 0, 1, 1])
    assert "backbone.gains" not in hasher.weights_
