import warnings

import _oracles as oracles
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from skhash.metrics import (
    RelevanceHistogram,
    precision,
    precision_recall_curve,
    recall,
)


def test_curve_is_precision_and_recall_at_every_radius(problem):
    H = oracles.histogram([(0, 1), (1, 0), (3, 2)], [(2, 1), (3, 0), (3, 0)])
    for counts, radii in ((H, None), (H, [3, 0.5]), (problem[-1], [0, 1.5, 12])):
        p, r, at = precision_recall_curve(counts, radii=radii)
        assert at.tolist() == ([0, 1, 2, 3] if radii is None else radii)
        assert_allclose(p, [precision(counts, radius=radius) for radius in at], rtol=1e-15)
        assert_allclose(r, [recall(counts, radius=radius) for radius in at], rtol=1e-15)


def test_curve_of_real_distances_spans_them(problem):
    distances, _, H = problem
    p, r, radii = precision_recall_curve(H)
    assert (len(p), len(r), radii[0], radii[-1]) == (101, 101, distances.min(), distances.max())
    assert r[-1] == 1
    assert (np.diff(r) >= 0).all()


@pytest.mark.parametrize(("empty", "expected"), [("skip", 1), ("zero", 0.5), ("one", 1), ("nan", np.nan)])
def test_curve_treats_empty_queries_by_one_policy_and_one_warning(empty, expected):
    H = oracles.histogram([(0, 1)], [(0, 0)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        p, r, _ = precision_recall_curve(H, empty=empty)
    assert_allclose([p, r], np.full((2, 4), expected))
    assert [str(w.message)[:12] for w in caught] == ["1 of 2 queri"] * (empty == "skip")
    assert all(w.filename == __file__ for w in caught)  # the line of the call


def test_a_curve_of_soft_counts_with_a_gradient():
    counts = torch.rand((3, 5, 2), dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    curve = precision_recall_curve(RelevanceHistogram(counts, np.array([0, 1])))
    expected = precision_recall_curve(RelevanceHistogram(counts.detach().numpy(), np.array([0, 1])))
    for values, same in zip(curve, expected, strict=True):
        assert_allclose(values, same, rtol=1e-12)


def test_a_curve_needs_a_histogram():
    with pytest.raises(TypeError, match=r"`H` must be a RelevanceHistogram.* Got ndarray"):
        precision_recall_curve(np.zeros((2, 3)))
