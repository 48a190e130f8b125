"""Images as arrays, lists, memmaps and torch datasets; vectors of a dataset."""

import weakref

import numpy as np
import pytest
import torch
from _helpers import Dataset
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skhash import CIBHashHasher, HashNetHasher, TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.engine import Encoder
from skhash.engine.augment import crop_and_flip

SHAPE = (3, 8, 8)
OPTIONS = {"n_epochs": 2, "batch_size": 20, "random_state": 0}


@pytest.fixture(scope="module")
def images():
    """Images of two kinds, bright on the left or on the right."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.integers(0, 100, (60, *SHAPE), dtype=np.uint8)
    X[y == 0, ..., :4] += 120
    X[y == 1, ..., 4:] += 120
    return X, y


@pytest.fixture(scope="module")
def vectors(images):
    return (images[0].reshape(60, -1) / 255).astype(np.float32)


@pytest.fixture(scope="module")
def fitted(images):
    return HashNetHasher(8, backbone="conv", **OPTIONS).fit(*images)


@pytest.mark.parametrize("backbone", [None, "mlp", "conv"])
def test_backbones_for_images(images, backbone):
    X, y = images
    hasher = TALRHasher(8, backbone=backbone, **OPTIONS | {"n_epochs": 8}).fit(X, y)
    assert hasher.score(X, y) > 0.9
    assert hasher.input_shape_ == SHAPE
    assert not hasattr(hasher, "n_features_in_")
    assert hasher.transform(X).shape == (60, 8)


def test_bytes_are_values_between_zero_and_one(images):
    X, y = images
    codes = TALRHasher(8, **OPTIONS).fit(X, y).encode(X)
    floats = TALRHasher(8, **OPTIONS).fit((X / np.float32(255)), y).encode(X / np.float32(255))
    assert_array_equal(codes, floats)


def test_images_are_centered_by_channel(images):
    X, _ = images
    encoder = Encoder(SHAPE, 4)
    encoder.set_statistics(X)
    assert encoder.mean.shape == (3, 1, 1)
    assert_allclose(encoder.mean.ravel(), (X / 255).mean(axis=(0, 2, 3)), rtol=1e-5)
    centered = X / 255 - (X / 255).mean(axis=(0, 2, 3), keepdims=True)
    assert encoder.scale.item() == pytest.approx(centered.std(), rel=1e-5)


@pytest.mark.parametrize("kind", ["memmap", "Dataset", "float64", "list"])
def test_kinds_of_images(images, fitted, kind, tmp_path):
    X, y = images
    given = X
    if kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif kind == "Dataset":
        given = Dataset(X, y)
    elif kind == "float64":
        given = X / 255.0
    elif kind == "list":
        given = (X / np.float32(255)).tolist()
    hasher = HashNetHasher(8, backbone="conv", **OPTIONS).fit(given, None if kind == "Dataset" else y)
    if kind == "Dataset":
        assert hasher.score(given) == hasher.score(X, y)
    assert_array_equal(hasher.encode(given), fitted.encode(X))
    assert_array_equal(hasher.database_.codes.rows, fitted.database_.codes.rows)


def test_augmentation_of_images(images):
    X, y = images
    batch = torch.from_numpy(X[:4]).float() / 255
    versions = crop_and_flip(SHAPE)(batch)
    assert versions.shape == batch.shape
    assert (versions != batch).any()
    runs = [TALRHasher(8, backbone="conv", augment=a, **OPTIONS).fit(X, y) for a in (None, "auto", "auto")]
    assert_array_equal(runs[1].database_.codes.rows, runs[2].database_.codes.rows)
    assert runs[0].history_ != runs[1].history_


def test_bad_images(images, fitted):
    X, y = images
    with pytest.raises(ValueError, match=r"samples of shape \(3, 8, 8\), as in fit. Got \(3, 4, 8\) instead"):
        fitted.transform(X[:, :, :4])
    with pytest.raises(ValueError, match=r"`X` must hold images of shape .* for backbone='conv'"):
        TALRHasher(8, backbone="conv").fit(X.reshape(60, -1), y)
    with pytest.raises(ValueError, match="`augment` must be None or a callable for samples of shape"):
        TALRHasher(8, augment="auto").fit(X.reshape(60, -1), y)
    with pytest.raises(ValueError, match="NaN"):
        TALRHasher(8).fit(np.full((4, *SHAPE), np.nan), y[:4])
    with pytest.raises(ValueError, match=r"`X` must have at least 2 samples. Got a Dataset of 1"):
        TALRHasher(8).fit(Dataset(X[:1], y[:1]))
    with pytest.raises(ValueError, match=r"`X` must have at least 2 samples. Got a Dataset of 0"):
        TALRHasher(8).fit(Dataset(X[:0], y[:0]))


# --- channels last


@pytest.fixture(scope="module")
def channels_last(images):
    return np.ascontiguousarray(images[0].transpose(0, 2, 3, 1))


@pytest.mark.parametrize("backbone", [None, "mlp", "conv"])
@pytest.mark.parametrize("n_channels", [1, 3, 4])
def test_images_with_the_channels_last_are_refused(images, backbone, n_channels):
    X = np.zeros((60, 8, 8, n_channels), dtype=np.uint8)
    message = rf"Got samples of shape \(8, 8, {n_channels}\), which are 8 channels. .*pass X.transpose\(0, 3, 1, 2\)"
    with pytest.raises(ValueError, match=message):
        TALRHasher(8, backbone=backbone, **OPTIONS).fit(X, images[1])
    with pytest.raises(ValueError, match=r"return image.transpose\(2, 0, 1\) from the Dataset"):
        TALRHasher(8, backbone=backbone, **OPTIONS).fit(Dataset(X, images[1]))


@pytest.mark.parametrize("method", ["transform", "encode", "project", "score"])
def test_images_with_the_channels_last_are_refused_after_fit(images, channels_last, fitted, method):
    y = (images[1],) if method == "score" else ()
    with pytest.raises(ValueError, match=r"If the channels are last, pass X.transpose\(0, 3, 1, 2\)"):
        getattr(fitted, method)(channels_last, *y)


def test_the_remedy_gives_the_codes_of_channels_first(images, channels_last, fitted):
    remedied = channels_last.transpose(0, 3, 1, 2)
    assert_array_equal(fitted.encode(remedied), fitted.encode(images[0]))


def test_a_module_may_take_channels_last_with_a_warning(images, channels_last):
    with pytest.warns(UserWarning, match=r"shape \(8, 8, 3\), and axis 1 is taken for 8 channels. If .*transpose"):
        TALRHasher(8, backbone=torch.nn.Flatten(), **OPTIONS).fit(channels_last, images[1])


@pytest.mark.filterwarnings("ignore:X has images of shape")
def test_a_module_for_channels_first_refuses_channels_last(images, channels_last):
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten())
    with pytest.raises(ValueError, match=r"`backbone` must accept samples of shape \(8, 8, 3\)"):
        TALRHasher(8, backbone=module, **OPTIONS).fit(channels_last, images[1])


@pytest.mark.parametrize("shape", [(3, 8, 4), (1, 9, 3), (4, 8, 8), (2, 6, 3), (16, 1, 3), (5, 3)])
def test_ambiguous_shapes_are_taken_as_channels_first(shape):
    X = np.random.default_rng(0).normal(size=(20, *shape))
    hasher = TALRHasher(8, backbone=torch.nn.Flatten(), **OPTIONS).fit(X, np.arange(20) % 2)  # without a warning
    assert hasher.input_shape_ == shape


def test_gray_images_for_convolutions_name_the_axis(images):
    with pytest.raises(ValueError, match=r"For gray images pass X\[:, None\]"):
        TALRHasher(8, backbone="conv").fit(images[0][:, 0], images[1])


# --- datasets


def test_targets_of_a_dataset_are_used(images):
    X, y = images
    data = Dataset(X, np.zeros(len(X)))
    data.targets = y  # does not read the samples
    assert_array_equal(TALRHasher(8, **OPTIONS).fit(data).database_.y, y)


def test_a_dataset_of_samples_alone_has_no_targets(images):
    X, y = images
    stacked = torch.utils.data.StackDataset(torch.from_numpy(X))  # tuples of one
    vectors = list(torch.from_numpy(X).float().flatten(1))

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return len(vectors)

        def __getitem__(self, i):
            return vectors[i]

    with pytest.raises(ValueError, match=r"`y` must be given for a Dataset without targets. Got y=None and a Samples"):
        TALRHasher(8, **OPTIONS).fit(Samples())
    with pytest.raises(ValueError, match="Got y=None and a StackDataset of samples"):
        TALRHasher(8, **OPTIONS).fit(stacked)
    hasher = TALRHasher(8, **OPTIONS).fit(Samples(), y)
    assert_array_equal(hasher.encode(Samples()), hasher.encode(np.stack(vectors)))


def test_an_affinity_of_samples_compares_those_of_a_dataset(images, vectors):
    _, y = images
    options = OPTIONS | {"affinity": DistanceAffinity(percentiles=(20,), levels=(1,))}
    expected = TALRHasher(8, **options).fit(vectors)
    hasher = TALRHasher(8, **options).fit(Dataset(vectors, y))
    assert_array_equal(hasher.database_.codes.rows, expected.database_.codes.rows)
    for data in (vectors, Dataset(vectors, y), torch.utils.data.StackDataset(torch.from_numpy(vectors))):
        assert hasher.score(data) == expected.score(vectors)


@pytest.mark.parametrize("affinity", ["auto", DistanceAffinity((20,), (1,))], ids=type)
def test_an_unsupervised_hasher_is_scored_by_what_its_affinity_compares(images, vectors, affinity):
    y = images[1] if affinity == "auto" else None
    hasher = CIBHashHasher(8, affinity=affinity, **OPTIONS).fit(vectors, y)
    assert hasher.score(Dataset(vectors, images[1])) == hasher.score(vectors, y)


def test_a_dataset_is_not_scored_before_fit(images):
    with pytest.raises(NotFittedError):
        TALRHasher(8).score(Dataset(*images))


def test_a_dataset_without_a_length_is_refused():
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield np.zeros(3), 0

    with pytest.raises(ValueError, match=r"must have a length. Got Endless without one"):
        TALRHasher(8).fit(Endless())


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_dataset_is_read_by_slices(early_stopping):
    X = np.random.default_rng(0).normal(size=(5500, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    held, most = [], []

    class Counted(torch.utils.data.Dataset):
        """Samples that note how many of them are in memory at the same time."""

        def __len__(self):
            return len(X)

        def __getitem__(self, i):
            sample = X[i].copy()
            held.append(i)
            weakref.finalize(sample, held.remove, i)
            most.append(len(held))
            return sample, y[i]

    hasher = TALRHasher(4, early_stopping=early_stopping, **OPTIONS | {"n_epochs": 1, "batch_size": 500})
    expected = clone(hasher).fit(X, y)
    assert_array_equal(hasher.fit(Counted(), y).database_.codes.rows, expected.database_.codes.rows)
    assert 500 <= max(most) <= 4096 + 1
