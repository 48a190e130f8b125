"""Soft counts: between the hard ones a straight line, and there the hard ones."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skhash.metrics import average_precision, ndcg, relevance_histogram
from skhash.metrics.soft_histogram import soft_histogram

NBITS = 8


@pytest.fixture
def level_index():
    """Levels 0, 1, 2 of the pairs of 12 rows."""
    return torch.randint(3, (12, 12), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def phi():
    """Soft codes of 12 rows, in (-1, 1)."""
    return torch.tanh(torch.randn(12, NBITS, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))


def distances(phi):
    return (phi.shape[1] - phi @ phi.T) / 2


def dense_kernel(d, level_index, n_levels, n_bins):
    """Eqs. 13 to 15 of the paper: delta(z, d) = 1 - |z - d| / width if that is >= 0, else 0, on every (pair, bin)."""
    width = NBITS / n_bins
    centers = torch.arange(n_bins + 1, dtype=d.dtype) * width
    weight = (1 - (d[:, :, None] - centers).abs() / width).clamp(min=0)
    weight = weight * ~torch.eye(len(d), dtype=torch.bool)[:, :, None]
    of_level = torch.nn.functional.one_hot(level_index, n_levels).to(d.dtype)
    return torch.einsum("qib,qil->qbl", weight, of_level)


@pytest.mark.parametrize("n_bins", [None, 1, 3, 4, 16])
def test_equals_the_dense_triangular_kernel(phi, level_index, n_bins):
    d = distances(phi).requires_grad_()
    H = soft_histogram(d, level_index, np.arange(3), max_distance=NBITS, n_bins=n_bins)
    expected = dense_kernel(d, level_index, 3, n_bins or NBITS)
    assert H.counts.dtype == torch.float64
    assert_allclose(H.counts.detach(), expected.detach(), atol=1e-14)
    cotangent = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    gradients = [torch.autograd.grad((counts * cotangent).sum(), d)[0] for counts in (H.counts, expected)]
    off_diagonal = ~torch.eye(len(d), dtype=torch.bool)  # row 0 at distance 0 of itself is at a kink
    assert_allclose(*(g[off_diagonal] for g in gradients), atol=1e-14)
    assert (gradients[0][~off_diagonal] == 0).all()


@pytest.mark.parametrize("width", [0.5, 1.0, 1.5, 2.0])
def test_only_a_triangle_of_one_bin_conserves_mass_and_keeps_whole_distances(width):
    """Why the slope of the histogram is not a parameter."""
    d, bins = torch.linspace(0, NBITS, 10 * NBITS + 1, dtype=torch.float64), torch.arange(NBITS + 1)
    weights = (1 - (d[:, None] - bins).abs() / width).clamp(min=0)
    counts_once = torch.allclose(weights.sum(1), torch.ones_like(d))
    keeps_whole_distances = torch.allclose(weights[::10], torch.eye(NBITS + 1, dtype=torch.float64))
    assert (counts_once and keeps_whole_distances) == (width == 1)


@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mass_is_conserved(phi, level_index, exclude_self, dtype):
    d = distances(phi.to(dtype))
    for n_bins in (None, 1, 5):
        options = {"max_distance": NBITS, "n_bins": n_bins, "exclude_self": exclude_self}
        H = soft_histogram(d, level_index, np.arange(3), **options)
        assert (H.counts >= 0).all()
        assert_allclose(H.counts.sum((1, 2)), len(phi) - exclude_self, rtol=1e-6)


def test_the_ends_belong_to_the_end_bins():
    d = torch.tensor([[0.0, NBITS, NBITS + 1e-6, -1e-6]])  # rounding may leave the interval
    H = soft_histogram(d, torch.zeros(1, 4, dtype=torch.int64), [0, 1], max_distance=NBITS, exclude_self=False)
    assert_allclose(H.counts[0, [0, -1], 0], [2, 2], atol=1e-5)
    assert H.counts.sum() == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hard_codes_give_the_hard_histogram(phi, dtype):
    y = np.arange(len(phi)) % 3
    codes = (phi >= 0).numpy().astype(np.uint8)
    hard = relevance_histogram(codes, codes, y, exclude_self=True)
    index = torch.from_numpy((y[:, None] == y).astype(np.int64))
    soft = soft_histogram(distances(torch.tensor(2.0 * codes - 1, dtype=dtype)), index, [0, 1], max_distance=NBITS)
    assert_array_equal(soft.counts, hard.counts)


@pytest.mark.parametrize("k", [None, 5])
@pytest.mark.parametrize("metric", [average_precision, ndcg])
def test_gradients_of_metrics(phi, level_index, metric, k):
    def value(phi):
        H = soft_histogram(distances(phi), level_index, np.arange(3), max_distance=NBITS)
        return metric(H, k=k, average=False)

    assert torch.autograd.gradcheck(value, phi.requires_grad_(), eps=1e-7, atol=1e-5)
