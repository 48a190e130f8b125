"""Items of datasets: samples, pairs, and what is refused with a remedy."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from skhash.engine.data import DatasetArray


def sample_of(item):
    return DatasetArray([item])[:][0]


@pytest.mark.parametrize("item", [[[1, 2], 7], ([1.0, 2.0], 7), (torch.tensor([1, 2]), 0), np.array([1, 2])], ids=type)
def test_samples_keep_their_digits(item):
    sample = sample_of(item)
    assert sample.dtype == np.float64
    assert_array_equal(sample, [1, 2])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int16])
def test_samples_of_few_digits_are_float32(dtype):
    assert sample_of(np.ones(2, dtype)).dtype == np.float32


def test_bytes_stay_bytes():
    assert sample_of((np.ones((3, 2, 2), np.uint8), 1)).dtype == np.uint8


def test_a_dict_is_refused():
    with pytest.raises(TypeError, match=r"keys 'image', 'label' .*such as \(item\['image'\], item\['label'\]\)"):
        sample_of({"image": np.zeros(3), "label": 1})


@pytest.mark.parametrize("pair", [True, False])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_an_image_of_pil_is_refused_and_the_remedy_works(mode, pair):
    Image = pytest.importorskip("PIL.Image")
    image = Image.new(mode, (6, 5))
    with pytest.raises(TypeError, match=r"Got an image of PIL .*numpy.atleast_3d\(image\).transpose\(2, 0, 1\)"):
        sample_of((image, 1) if pair else image)
    assert sample_of(np.atleast_3d(image).transpose(2, 0, 1)).shape == (len(mode), 5, 6)


@pytest.mark.parametrize("sample", ["a.png", None, [[1, 2], [3]], {1, 2}, torch.zeros(2, requires_grad=True)], ids=repr)
def test_what_is_not_a_sample_is_refused(sample):
    with pytest.raises(TypeError, match="A Dataset given as X must return"):
        sample_of((sample, 0))


def test_samples_of_several_shapes_are_refused():
    X = DatasetArray([np.zeros((3, 4, 4)), np.zeros((3, 5, 4))])
    with pytest.raises(ValueError, match=r"one shape. Got \(3, 5, 4\) and \(3, 4, 4\) instead. Resize or crop"):
        X[:]
