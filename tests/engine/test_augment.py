"""Augmentations: two views of vectors and of images."""

import pytest
import torch
from numpy.testing import assert_array_equal

from skhash import CIBHashHasher, NSHHasher, TALRHasher
from skhash.engine.augment import augmented, corrupt, crop_and_flip, moco_v2, two_views
from skhash.engine.runtime import seeded

CPU = torch.device("cpu")


def test_two_views_differ_and_follow_the_seed():
    X = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    given = X.clone()

    def views():
        with seeded(3, CPU):
            return two_views(corrupt, X)

    first, second = views()
    assert first.shape == second.shape == X.shape
    assert ((first - second).abs().amax(1) > 0).all()
    assert_array_equal(views()[1], second)
    assert_array_equal(X, given)  # the batch itself is not changed


def test_corrupted_features_come_from_other_samples():
    X = torch.arange(50.0)[:, None] + 1000 * torch.arange(40)
    with seeded(0, CPU):
        view = corrupt(X, share=0.3, noise=0.0)
        noisy = corrupt(X, share=0.0, noise=0.5)
    assert_array_equal(view // 1000, X // 1000)  # of the same feature
    assert 0.2 < (view != X).float().mean() < 0.4
    assert (noisy - X).std().item() == pytest.approx(0.5 * X[:, 0].std().item(), rel=0.1)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(28, 28), (8, 12)])
def test_moco_v2(channels, size):
    pytest.importorskip("kornia")
    X = torch.rand(6, channels, *size)
    with seeded(0, CPU):
        first, second = two_views(moco_v2(X.shape[1:]), X)
    assert first.shape == second.shape == X.shape
    assert (first != second).flatten(1).any(1).all()
    assert 0 <= first.min() <= first.max() <= 1 + 1e-6


def test_moco_v2_flips_half_of_the_images_and_blurs_half():
    pytest.importorskip("kornia")
    column = torch.arange(28).expand(400, 1, 28, 28)
    with seeded(0, CPU):
        slopes, stripes = (moco_v2((1, 28, 28))(batch) for batch in (column / 27, (column // 2 % 2).float()))
    falls = slopes[..., -1] < slopes[..., 0]
    assert 0.4 < falls.float().mean() < 0.6
    swings = stripes.flatten(1).max(1).values - stripes.flatten(1).min(1).values  # enlarging alone leaves them at 1
    assert 0.2 < (swings < 0.99).float().mean() < 0.6


def test_half_of_the_images_are_flipped_and_they_move_by_an_eighth():
    shape = (3, 8, 8)
    batch = torch.arange(1.0, 9.0).expand(400, *shape)
    with seeded(0, CPU):
        versions = crop_and_flip(shape)(batch)
    assert 0.4 < (versions[..., 4, 5] < versions[..., 4, 3]).float().mean() < 0.6
    border = versions == 0
    assert border[..., 0, :].any()
    assert not border[..., 1:-1, 1:-1].any()


@pytest.mark.parametrize("change", [lambda X: X[:, :3], lambda X: X[:5], lambda X: X.numpy(), lambda X: 3])
@pytest.mark.parametrize("Hasher", [TALRHasher, CIBHashHasher, NSHHasher])
def test_what_is_not_a_version_of_a_batch_is_refused(digits, Hasher, change):
    with pytest.raises(ValueError, match=r"`augment` must return a tensor of shape \(\d+, 64\), as its batch\. Got"):
        Hasher(8, n_epochs=1, augment=change).fit(digits.X[:100], digits.y[:100])


def test_images_may_be_cut():
    images = torch.zeros(4, 1, 8, 8)
    assert augmented(lambda batch: batch[..., :6], images).shape == (4, 1, 8, 6)
    with pytest.raises(ValueError, match=r"`augment` must return a tensor of 4 samples\. Got shape"):
        augmented(lambda batch: batch[:2], images)
