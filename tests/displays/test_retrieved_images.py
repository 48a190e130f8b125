"""Nearest images of queries."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from skhash import ITQHasher
from skhash.affinity import DistanceAffinity, NeighborAffinity
from skhash.codes import hamming_distances
from skhash.displays import RetrievedImagesDisplay


def test_retrieved_images_are_the_nearest_with_ties_in_order(digits, itq):
    X, y = digits.X_query[:4], digits.y_query[:4]
    display = RetrievedImagesDisplay.from_estimator(itq, X, y, digits.X, digits.y, n_neighbors=6, image_shape=(8, 8))
    distances = hamming_distances(itq.transform(X), itq.transform(digits.X))
    drawn = iter(display.images_)
    for query in range(4):
        # (distance, place in the database) sorts ties by the order of the database
        order = sorted(range(len(digits.X)), key=lambda item, query=query: (distances[query, item], item))[:6]
        expected = [X[query], *digits.X[order]]
        for pixels in expected:
            assert_allclose(next(drawn).get_array(), pixels.reshape(8, 8) / 16, rtol=1e-12)
        assert_array_equal(display.relevant[query], digits.y[order] == y[query])
        assert_array_equal(display.distances[query], distances[query, order])
    right = display.relevant.ravel()
    assert 0 < right.sum() < right.size
    assert [mark.get_text() for mark in display.marks_] == ["✓" if hit else "✗" for hit in right]
    colors = {
        hit: {to_hex(f.get_edgecolor()) for f, h in zip(display.frames_, right, strict=True) if h == hit}
        for hit in (True, False)
    }
    assert [len(color) for color in colors.values()] == [1, 1]
    assert colors[True] != colors[False]
    assert "ties in the order of the database" in display.ax_.get_title()


def test_retrieved_images_weigh_bits_and_ask_the_affinity(digits, structhash):
    arguments = digits.X_query[:3], digits.y_query[:3], digits.X, digits.y
    display = RetrievedImagesDisplay.from_estimator(structhash, *arguments, n_neighbors=2, image_shape=(8, 8))
    codes = structhash.transform(digits.X_query[:3]), structhash.transform(digits.X)
    distances = hamming_distances(*codes, bit_weights=structhash.bit_weights_)
    assert_array_equal(display.distances, np.sort(distances, axis=1)[:, :2])
    affinity = DistanceAffinity(percentiles=(5,), levels=(1,))
    hasher = ITQHasher(nbits=8, affinity=affinity, random_state=0).fit(digits.X)
    display = RetrievedImagesDisplay.from_estimator(
        hasher, digits.X_query[:3], None, digits.X, None, n_neighbors=2, image_shape=(8, 8)
    )
    order = np.argsort(
        hamming_distances(hasher.transform(digits.X_query[:3]), hasher.transform(digits.X)), kind="stable"
    )
    expected = [hasher.affinity_(digits.X_query[[i]], digits.X[order[i, :2]])[0] > 0 for i in range(3)]
    assert_array_equal(display.relevant, expected)


def test_neighbors_among_all_items_are_relevant_and_not_among_the_found_ones(digits):
    hasher = ITQHasher(nbits=8, affinity=NeighborAffinity(5), random_state=0).fit(digits.X)
    queries = digits.X_query[:3]
    display = RetrievedImagesDisplay.from_estimator(
        hasher, queries, None, digits.X, None, n_neighbors=20, image_shape=(8, 8)
    )
    distances = hamming_distances(hasher.transform(queries), hasher.transform(digits.X))
    order = np.argsort(distances, kind="stable")[:, :20]
    expected = np.take_along_axis(NeighborAffinity(5)(queries, digits.X), order, axis=1) > 0
    assert_array_equal(display.relevant, expected)


@pytest.mark.parametrize("shape", [(3, 4, 5), (4, 5, 3), (1, 4, 5), (4, 5)])
def test_images_may_differ_from_the_samples(shape, digits, itq):
    images = np.random.default_rng(0).integers(0, 256, (len(digits.X), *shape), dtype=np.uint8)
    display = RetrievedImagesDisplay.from_estimator(
        itq, digits.X[:2], digits.y[:2], digits.X, digits.y, images[:2], images, n_neighbors=3
    )
    pixels = images[:1] / 255
    if shape[0] in (1, 3):
        pixels = np.moveaxis(pixels, 1, -1)
    assert_allclose(display.images_[0].get_array(), np.squeeze(pixels), rtol=1e-6)
    assert len(display.images_) == 2 * 4
    left, right, bottom, top = display.images_[1].get_extent()
    height, width = np.shape(display.images_[1].get_array())[:2]
    assert_allclose([right - left, bottom - top], [width / max(width, height), height / max(width, height)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"`images_query` must hold images .* Got samples of shape \(64,\) with image_shape=None instead"),
        ({"image_shape": (8, 9)}, r"Got samples of shape \(64,\) with image_shape=\(8, 9\) instead"),
        ({"image_shape": (8, 8), "n_neighbors": 0}, "`n_neighbors` must be an int from 1 to 200 items. Got 0 instead"),
        ({"image_shape": (8, 8), "n_neighbors": 201}, "Got 201 instead"),
        (
            {"image_shape": (8, 8), "images_database": np.zeros((3, 8, 8))},
            "`images_database` must hold one image for each of the 200 samples .* Got 3 images",
        ),
    ],
)
def test_unusable_images_are_rejected(options, message, digits, itq):
    with pytest.raises(ValueError, match=message):
        RetrievedImagesDisplay.from_estimator(itq, digits.X_query, digits.y_query, digits.X, digits.y, **options)
