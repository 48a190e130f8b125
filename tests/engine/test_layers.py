"""Dropout: which values it drops. Smoothing of tags: against the dense map, and when it is the default."""

from functools import partial

import numpy as np
import pytest
import torch
from _helpers import stop_and_resume
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits
from torch import nn

from skhash import HashNetHasher, NSHHasher, TALRHasher
from skhash.affinity import PrecomputedAffinity
from skhash.engine import Encoder
from skhash.engine.layers import N_MAX_DIRECTIONS, Dropout, Smoothing, are_tags
from skhash.engine.runtime import seeded
from skhash.functions.network import dense_function
from skhash.persistence import load, save

# --- dropout


CPU = torch.device("cpu")


def kept(n, n_features, p, seed=0):
    """Which values of a batch are kept, as 0 and 1."""
    with seeded(seed, CPU):
        return (Dropout(p)(torch.ones(n, n_features)) > 0).double().numpy()


@pytest.mark.parametrize("p", [1 / 256, 0.25, 0.3, 0.9])
def test_drops_each_value_alone_with_the_probability(p):
    n, n_features = 20_000, 13  # two words for each sample
    mask, q = kept(n, n_features, p), 1 - round(256 * p) / 256
    assert (abs(mask.mean(0) - q) < 5 * np.sqrt(q * (1 - q) / n)).all()
    centered = (mask - q) / np.sqrt(q * (1 - q))
    for others in (centered, np.roll(centered, 1, axis=0)):  # other values of a sample, and of the next one
        products = centered.T @ others / n
        if others is centered:
            np.fill_diagonal(products, 0)
        assert abs(products).max() < 6 / np.sqrt(n)


def test_keeps_the_mean_and_centers_before():
    X = torch.from_numpy(np.random.default_rng(0).normal(3, 2, (4, 6)).astype(np.float32))
    mean, scale = X.mean(0), torch.tensor(2.5)
    expected = ((X - mean) / scale).numpy()
    dropout = Dropout(0.25)
    with seeded(0, CPU):
        outputs = dropout(X, mean, scale).numpy()
        assert (outputs == 0).any()
        assert_allclose(outputs[outputs != 0], (expected / 0.75)[outputs != 0], rtol=1e-5)
        total = sum(dropout(X, mean, scale).numpy() for _ in range(4000)) / 4000
    assert_allclose(total, expected, atol=5 * np.abs(expected).max() * np.sqrt(1 / 3 / 4000))
    assert_allclose(dropout.eval()(X, mean, scale), expected, rtol=1e-6)
    for off in (Dropout(0.0), dropout):
        assert off(X) is X


def test_the_derivative_drops_the_same_values():
    X = torch.randn(5, 9, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with seeded(0, CPU):
        outputs = Dropout(0.5)(X)
    (gradient,) = torch.autograd.grad(outputs.sum(), X)
    assert_allclose(gradient, outputs.detach() / X.detach(), rtol=1e-6)


def test_the_global_generator_alone_decides():
    assert (kept(8, 20, 0.5) == kept(8, 20, 0.5)).all()
    assert (kept(8, 20, 0.5) != kept(8, 20, 0.5, seed=1)).any()
    with seeded(0, CPU):
        dropout, X = Dropout(0.5), torch.ones(8, 20)
        assert not torch.equal(dropout(X), dropout(X))


@pytest.mark.parametrize("kind", [{"dtype": torch.float64}, {"dtype": torch.bfloat16}])
def test_other_types_take_the_dropout_of_torch(kind):
    X = torch.ones(4, 6, **kind)
    with seeded(0, CPU):
        outputs = Dropout(0.5)(X)
    with seeded(0, CPU):
        assert torch.equal(outputs, nn.functional.dropout(X, 0.5))


# --- smoothing


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


def test_fewer_samples_than_features_share_what_variance_is_left():
    X = np.random.default_rng(1).normal(size=(10, 40))
    smoothing = Smoothing(40, 5).learn(torch.tensor(X), 0.5, np.random.RandomState(0))
    variances = np.sort(np.linalg.eigvalsh(np.cov(X.T)))[::-1]
    assert_allclose(smoothing.gains + 1, np.sqrt(variances[:5] / variances[5:9].mean()), rtol=1e-3)


@pytest.mark.parametrize("X", [np.ones((6, 4)), np.outer(np.arange(6.0), np.ones(4)), np.eye(2, 4)])
def test_samples_of_few_dimensions_leave_the_identity(X):
    smoothing = Smoothing(4, 1 if len(X) == 2 else 2).learn(torch.tensor(X), 0.5, np.random.RandomState(0))
    assert_array_equal(smoothing(torch.eye(4)), np.eye(4))


def test_ratios_of_variances_are_bounded():
    X = np.random.default_rng(1).normal(size=(200, 6)) * [1e4, 1, 1, 1, 1, 1]
    smoothing = Smoothing(6, 1).learn(torch.tensor(X), 0.5, np.random.RandomState(0))
    assert_allclose(smoothing.gains + 1, [1000**0.5], rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*teach little or nothing")
def test_a_stream_may_begin_with_two_samples():
    X, y = tags()
    streams = [TALRHasher(8, smoothing=p, random_state=0).partial_fit(X[:2], y[:2]) for p in (0.0, 0.4)]
    codes = [hasher.partial_fit(X, y).encode(X) for hasher in streams]
    assert_array_equal(*codes)


@pytest.mark.parametrize(("shape", "backbone"), [(4, "mlp"), ((1, 2, 2), None)])
def test_only_encoders_of_vectors_without_backbone_have_directions(shape, backbone):
    with pytest.raises(ValueError, match=r"`n_directions` must be 0 with a backbone .* Got 2 with backbone="):
        Encoder(shape, 3, backbone, n_directions=2)
    with pytest.raises(ValueError, match=r"`n_directions` must be >= 1 to learn smoothing. Got 0"):
        Encoder(4, 3).learn_smoothing(np.eye(4), 0.5, np.random.RandomState(0))


def test_mixed_precision_leaves_linear_hashers_alone():
    X = torch.tensor(np.random.default_rng(0).normal(size=(50, 9)).astype(np.float32))
    encoder = Encoder(9, 3, mixed_precision=True, n_directions=4).train()
    encoder.learn_smoothing(X.numpy(), 0.5, np.random.RandomState(0))
    assert_array_equal(encoder.features(X), encoder.eval().features(X))


def test_the_look_for_tags_is_spared_where_smoothing_is_given():
    class Rows(torch.utils.data.Dataset):
        reads = 0
        X, targets = tags()

        def __len__(self):
            return len(self.X)

        def __getitem__(self, row):
            type(self).reads += 1
            return self.X[row]

    reads = []
    for smoothing in (0.0, None):
        Rows.reads = 0
        hasher = TALRHasher(8, smoothing=smoothing, n_epochs=1, random_state=0).fit(Rows())
        reads.append(Rows.reads)
    assert reads[1] > reads[0]
    assert_array_equal(hasher.encode(Rows.X), TALRHasher(8, n_epochs=1, random_state=0).fit(*tags()).encode(Rows.X))


def test_early_stopping_and_another_length_after_it():
    X, y = tags()
    hasher = TALRHasher(8, n_epochs=3, early_stopping=True, random_state=0).fit(X, y)
    best = max(entry["validation"] for entry in hasher.history_)
    assert best > 0.5
    state = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    assert hasher.set_params(nbits=5, early_stopping=False).fit(X, y).transform(X).shape == (300, 5)
    assert hasher.set_params(backbone="mlp").fit(X, y).transform(X).shape == (300, 5)
    assert (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == state  # noqa: NPY002


def test_a_function_has_the_smoothing_in_its_weights():
    X = np.random.default_rng(0).normal(size=(50, 9)).astype(np.float32)
    encoder = Encoder(9, 3, input_dropout=0.5, n_directions=4).eval()
    encoder.set_statistics(X)
    encoder.learn_smoothing(X, 0.5, np.random.RandomState(0))
    before = encoder(torch.tensor(X)).detach()
    function = dense_function(encoder.train())
    assert_allclose(function.activations(X), before, rtol=1e-4, atol=1e-5)
    assert len(function.layers) == 1
    assert_array_equal(encoder.eval()(torch.tensor(X)).detach(), before)  # the encoder can be trained further


def test_codes_are_those_of_the_folded_map():
    X, y = tags()
    hasher = TALRHasher(8, n_epochs=2, random_state=0).fit(X, y)
    weights = {name: torch.from_numpy(value) for name, value in hasher.weights_.items()}
    smoothing = Smoothing(X.shape[1], len(weights["backbone.gains"]))
    smoothing.load_state_dict({name.removeprefix("backbone."): weights[name] for name in weights if "backbone" in name})
    samples = smoothing((torch.tensor(X) - weights["mean"]) / weights["scale"])
    assert_allclose(hasher.project(X), samples @ weights["hash.weight"].T + weights["hash.bias"], rtol=1e-3, atol=1e-4)
    assert len(weights["backbone.gains"]) == 40 < N_MAX_DIRECTIONS  # half of the features


@pytest.mark.parametrize(("share", "answer"), [(0.04, True), (0.06, False)])
def test_tags_are_samples_of_zeros(share, answer):
    samples = np.zeros((10, 100), dtype=np.float32)
    samples.flat[: round(1000 * share)] = 2.5
    assert are_tags(samples) is answer


def settled(Hasher=TALRHasher, X=None, y=None, **options):
    tag_rows, topics = tags()
    hasher = Hasher(8, n_epochs=1, random_state=0, **options)
    hasher.fit(tag_rows if X is None else X, topics if y is None else y)
    return hasher.settings_.get("smoothing", 0)  # a network has none


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
    with pytest.raises(ValueError, match=r"`smoothing` must stay None in partial_fit. Got 0\.2"):
        stream.set_params(smoothing=0.2).partial_fit(X, y)


def test_a_resumed_fit_smooths_along_the_same_directions(tmp_path):
    X, y = tags()
    options = {"n_epochs": 4, "random_state": 0, "lr_schedule": "constant"}
    whole = TALRHasher(8, **options).fit(X, y)
    resumed = stop_and_resume(partial(TALRHasher, 8, **options, checkpoint=tmp_path), X, y)
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
    with pytest.raises(ValueError, match=r"`smoothing` must be None or 0 with a backbone .* Got 0\.5 with backbone="):
        TALRHasher(8, backbone=backbone, smoothing=0.5).fit(X, tags()[1])


def test_one_feature_has_nothing_to_smooth():
    hasher = TALRHasher(2, smoothing=0.5, n_epochs=1, random_state=0).fit([[0.0], [1.0], [2.0], [5.0]], [0, 0, 1, 1])
    assert "backbone.gains" not in hasher.weights_
