"""The contrast of two views, against a double loop."""

from functools import partial

import numpy as np
import pytest
import torch
from _helpers import NBITS, digit_images, draw, plain_nt_xent

from skhash import CIBHashHasher, NSHHasher
from skhash.hashers.deep import nt_xent


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("tau", [0.05, 0.3, 2.0])
def test_nt_xent_is_the_double_loop(n, tau):
    first, second = draw(n, NBITS), draw(n, NBITS, seed=1)
    expected = plain_nt_xent(first.tolist(), second.tolist(), tau)
    assert nt_xent(first, second, tau).item() == pytest.approx(expected, abs=1e-12)


def test_gradients():
    f, g = draw(5, NBITS).requires_grad_(), draw(5, NBITS, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda f, g: nt_xent(f, g, 0.3), (f, g))


@pytest.mark.parametrize("Hasher", [CIBHashHasher, partial(NSHHasher, own_view="sorted")])
def test_each_batch_is_augmented_twice(Hasher):
    """Bytes are values in [0, 1] there."""
    X, _ = digit_images(np.uint8, 120)
    seen = []

    def augment(batch):
        seen.append((tuple(batch.shape), batch.min().item(), batch.max().item()))
        return batch + 0.1 * torch.randn_like(batch)

    Hasher(16, augment=augment, n_epochs=1, batch_size=60, random_state=0).fit(X)
    assert len(seen) == 4
    assert all(shape == (60, 1, 8, 8) and low >= 0 and 0.9 < high <= 1 for shape, low, high in seen)


@pytest.mark.parametrize("Hasher", [CIBHashHasher, NSHHasher])
def test_auto_augmentation_needs_vectors_or_images(Hasher):
    with pytest.raises(ValueError, match=r"`augment` must be None or a callable for samples of shape \(8, 8\)"):
        Hasher(16).fit(digit_images(np.float32)[0][:, 0])
