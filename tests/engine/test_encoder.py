"""Encoders and backbones."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from skhash.engine import Encoder
from skhash.engine.runtime import seeded

CPU = torch.device("cpu")


def test_samples_are_centered_and_divided_by_one_scale():
    X = np.random.default_rng(0).normal(loc=100, scale=(1, 2, 10), size=(50, 3))
    encoder = Encoder(3, 2)
    encoder.set_statistics(X)
    assert_allclose(encoder.mean, X.mean(axis=0), rtol=1e-6)
    assert encoder.scale.item() == pytest.approx(np.sqrt(X.var(axis=0).mean()), rel=1e-6)
    encoder.set_statistics(np.ones((5, 3), dtype=np.float32))
    assert encoder.scale.item() == 1  # constant samples: nothing to divide by
    assert encoder.eval()(torch.ones(4, 3)).shape == (4, 2)


@pytest.mark.parametrize("shape", [(50, 3), (50, 3, 4)], ids=["vectors", "channels"])
def test_an_offset_changes_nothing(shape):
    X = np.random.default_rng(0).integers(0, 17, shape).astype(float)
    shifted = X.copy()
    shifted[:, 1] += 1e9  # float32 has steps of 64 there
    encoders = [Encoder(shape[1:], 2) for _ in range(2)]
    for encoder, samples in zip(encoders, (X, shifted), strict=True):
        encoder.set_statistics(samples)
    plain, offset = encoders
    assert plain.offset is None
    assert offset.offset.flatten().tolist() == [0.0, 1e9, 0.0]
    assert_array_equal(plain.read(X, slice(0, 9)), X[:9])
    assert_array_equal(offset.read(shifted, slice(0, 9)), X[:9])
    assert_array_equal(offset.mean, plain.mean)
    assert_array_equal(offset.scale, plain.scale)
    loaded = Encoder(shape[1:], 2, has_offset=True)
    loaded.load_state_dict(offset.state_dict())
    assert_array_equal(loaded.read(shifted, slice(0, 9)), X[:9])


def test_bytes_of_images_take_an_offset():
    images = np.full((4, 1, 2, 2), 51, dtype=np.uint8)  # constant: no scale is small enough
    encoder = Encoder((1, 2, 2), 2)
    encoder.set_statistics(images)
    assert_allclose(encoder.read(images, slice(None)), 0, atol=1e-7)
    assert_allclose(encoder.offset + encoder.mean, np.float32(0.2), rtol=1e-7)


def test_backbones():
    given = nn.Sequential(nn.Linear(3, 7), nn.Tanh())
    widths = {name: Encoder(3, 2, b).hash.in_features for name, b in (("None", None), ("mlp", "mlp"), ("given", given))}
    assert widths == {"None": 3, "mlp": 512, "given": 7}
    encoder = Encoder(3, 2, given)
    assert encoder.backbone is not given
    assert encoder.backbone.training
    for bad in (nn.Flatten(0), nn.Unflatten(1, (3, 1)), nn.LSTM(3, 2)):
        with pytest.raises(ValueError, match=r"`backbone` must map samples of shape \(n, n_features\)"):
            Encoder(3, 2, bad)


@pytest.mark.parametrize(
    ("backbone", "shape", "shares"),
    [
        (None, (8,), [0.2]),
        ("mlp", (8,), [0.2, 0.4, 0.4, 0.0]),
        ("conv", (3, 8, 8), [0.4, 0.0]),
        (nn.Sequential(nn.Linear(8, 5), nn.Dropout(0.1)), (8,), [0.1, 0.0]),
    ],
    ids=["None", "mlp", "conv", "given"],
)
def test_shares_of_dropout(backbone, shape, shares):
    with seeded(0, CPU):
        encoder = Encoder(shape, 3, backbone, input_dropout=0.2, hidden_dropout=0.4)
        X = torch.randn(6, *shape)
        assert [module.p for module in encoder.modules() if isinstance(module, nn.Dropout)] == shares
        assert not torch.equal(encoder.train()(X), encoder(X))
        assert torch.equal(encoder.eval()(X), encoder(X))


def test_a_linear_encoder_drops_centered_features():
    n, p = 40_000, 102 / 256
    with seeded(0, CPU), torch.no_grad():
        encoder = Encoder(20, 4, input_dropout=0.4)
        encoder.set_statistics(np.random.default_rng(0).normal(3, 2, (50, 20)))
        X = 3 + 2 * torch.randn(1, 20)
        centered, weight = (X - encoder.mean) / encoder.scale, encoder.hash.weight
        outputs = encoder(X.repeat(n, 1))
        variance = (p / (1 - p) * centered**2 @ (weight**2).T)[0]  # of sum_j x_j w_kj m_j / (1 - p), m_j in {0, 1}
        assert (((outputs.mean(0) - (centered @ weight.T)[0]).abs() / (variance / n).sqrt()) < 5).all()
        assert_allclose(outputs.var(0), variance, rtol=5 * np.sqrt(2 / n))
        assert_allclose(encoder.eval()(X), centered @ weight.T, rtol=1e-5)


def test_mixed_precision_is_for_training_alone():
    with seeded(0, CPU):
        exact, mixed = Encoder(8, 3, "mlp"), Encoder(8, 3, "mlp", mixed_precision=True)
        mixed.load_state_dict(exact.state_dict())
        X = torch.randn(6, 8)
        assert not torch.equal(exact.train()(X), mixed.train()(X))
        mixed.load_state_dict(exact.state_dict())  # the running statistics as well
        assert torch.equal(exact.eval()(X), mixed.eval()(X))


@pytest.mark.parametrize(
    ("backbone", "shape", "places"),
    [
        ("mlp", (8,), [1, 2, 5, 6]),
        ("mlp", (1, 2, 4), [2, 3, 6, 7]),
        ("conv", (3, 8, 8), [0, 1, 4, 5, 7, 8, 11, 12, 14, 15, 18, 19]),
    ],
    ids=["mlp", "mlp of images", "conv"],
)
def test_layers_keep_the_places_that_saved_files_name(backbone, shape, places):
    names = [name.split(".") for name in Encoder(shape, 3, backbone).backbone.state_dict()]
    assert list(dict.fromkeys(int(place) for place, _ in names)) == places
