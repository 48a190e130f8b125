"""Codes in two dimensions."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.manifold import TSNE

from skhash.displays import CodeMapDisplay


def test_code_map_is_the_embedding_of_scikit_learn(digits, itq):
    X, y = digits.X_query[:60], digits.y_query[:60]
    display = CodeMapDisplay.from_estimator(itq, X, y, perplexity=10)
    expected = TSNE(perplexity=10, metric="hamming", random_state=0).fit_transform(itq.transform(X))
    assert_array_equal(display.embedding, expected)
    drawn = dict(zip(np.unique(y), display.points_, strict=True))
    for label, points in drawn.items():
        assert_array_equal(points.get_offsets(), expected[y == label])
    assert [name.get_text() for name in display.names_] == [str(label) for label in np.unique(y)]
    assert len({(points.get_facecolor().tobytes(), len(points.get_paths()[0])) for points in display.points_}) == 10


def test_code_map_of_collapsed_codes():
    display = CodeMapDisplay.from_codes(np.zeros((40, 8), np.uint8))
    assert np.isfinite(display.embedding).all()


def test_numbers_have_a_scale_and_no_targets_are_gray():
    rng = np.random.default_rng(0)
    points, values = rng.standard_normal((50, 2)), rng.random(50)
    display = CodeMapDisplay(points, values).plot()
    assert_array_equal(display.points_[0].get_array(), values)
    assert display.colorbar_ is not None
    display = CodeMapDisplay(points).plot()
    assert (len(display.points_), display.names_, display.colorbar_) == (1, [], None)
    assert display.ax_.get_legend() is None


def test_few_codes():
    codes = np.eye(3, 8, dtype=np.uint8)
    assert CodeMapDisplay.from_codes(codes).embedding.shape == (3, 2)
    with pytest.raises(ValueError, match=r"`codes` must be of at least 2 items\. Got 1"):
        CodeMapDisplay.from_codes(codes[:1])
