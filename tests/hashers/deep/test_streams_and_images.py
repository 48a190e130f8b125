"""Rows of other kinds: streams, images, memmaps, torch datasets; backbones for them."""

import pickle
import re

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn

from skhash import CIBHashHasher, HashNetHasher, NSHHasher, TALRHasher, TBHHasher
from skhash.affinity import DistanceAffinity, PrecomputedAffinity, SharedLabelsAffinity
from skhash.engine import DatasetArray, Encoder, crop_and_flip, seeded
from skhash.persistence import load, save

SHAPE = (3, 8, 8)
OPTIONS = {"n_epochs": 3, "batch_size": 20, "random_state": 0}


@pytest.fixture(scope="module")
def images():
    """Images of two kinds, bright on the left or on the right."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.integers(0, 100, (60, *SHAPE), dtype=np.uint8)
    X[y == 0, ..., :4] += 120
    X[y == 1, ..., 4:] += 120
    return X, y


class Images(torch.utils.data.Dataset):
    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return torch.from_numpy(self.X[i].copy()), int(self.y[i])


# --- images


@pytest.mark.parametrize("backbone", [None, "mlp", "conv"])
def test_backbones_for_images(images, backbone):
    X, y = images
    hasher = TALRHasher(8, backbone=backbone, **OPTIONS | {"n_epochs": 15}).fit(X, y)
    assert hasher.score(X, y) > 0.9
    assert hasher.input_shape_ == SHAPE
    assert not hasattr(hasher, "n_features_in_")
    assert hasher.transform(X).shape == (60, 8)


def test_bytes_are_values_between_zero_and_one(images):
    X, y = images
    codes = TALRHasher(8, **OPTIONS).fit(X, y).encode(X)
    floats = TALRHasher(8, **OPTIONS).fit((X / np.float32(255)), y).encode(X / np.float32(255))
    assert_array_equal(codes, floats)


def test_flattened_images_are_vectors_with_channel_means(images):
    X, _ = images
    encoder = Encoder(SHAPE, 4)
    encoder.set_statistics(X)
    assert encoder.mean.shape == (3, 1, 1)
    assert_allclose(encoder.mean.ravel(), (X / 255).mean(axis=(0, 2, 3)), rtol=1e-5)
    centred = X / 255 - (X / 255).mean(axis=(0, 2, 3), keepdims=True)
    assert encoder.scale.item() == pytest.approx(centred.std(), rel=1e-5)


@pytest.mark.parametrize("kind", ["memmap", "Dataset", "float64", "list"])
def test_kinds_of_images(images, kind, tmp_path):
    X, y = images
    expected = HashNetHasher(8, backbone="conv", **OPTIONS).fit(X, y)
    if kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        hasher = HashNetHasher(8, backbone="conv", **OPTIONS).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
        codes = hasher.encode(np.load(tmp_path / "X.npy", mmap_mode="r"))
    elif kind == "Dataset":
        data = Images(X, y)
        hasher = HashNetHasher(8, backbone="conv", **OPTIONS).fit(data)
        codes = hasher.encode(data)
        assert hasher.score(data) == hasher.score(X, y)
    else:
        other = (X / 255.0) if kind == "float64" else (X / np.float32(255)).tolist()
        hasher = HashNetHasher(8, backbone="conv", **OPTIONS).fit(other, y)
        codes = hasher.encode(other)
    assert_array_equal(codes, expected.encode(X))
    assert_array_equal(hasher.database_codes_, expected.database_codes_)


def test_a_dataset_with_targets_is_not_read_for_them(images):
    X, y = images
    data = Images(X, np.zeros(len(X)))
    data.targets = y
    assert_array_equal(TALRHasher(8, **OPTIONS).fit(data).database_y_, y)


def test_a_dataset_of_rows_alone_has_no_targets(images):
    X, y = images
    rows = torch.utils.data.StackDataset(torch.from_numpy(X))  # tuples of one
    vectors = list(torch.from_numpy(X).float().flatten(1))

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(vectors)

        def __getitem__(self, i):
            return vectors[i]

    with pytest.raises(
        ValueError, match=r"`y` must be given for a Dataset without targets. Got y=None and a Rows of samples"
    ):
        TALRHasher(8, **OPTIONS).fit(Rows())
    with pytest.raises(ValueError, match=r"Got y=None and a StackDataset of samples"):
        TALRHasher(8, **OPTIONS).fit(rows)
    hasher = TALRHasher(8, **OPTIONS).fit(Rows(), y)
    assert_array_equal(hasher.encode(Rows()), hasher.encode(np.stack(vectors)))


def test_an_affinity_of_rows_compares_those_of_a_dataset(images):
    X, y = images
    vectors = (X.reshape(60, -1) / 255).astype(np.float32)
    options = OPTIONS | {"affinity": DistanceAffinity(percentiles=(20,), levels=(1,))}
    expected = TALRHasher(8, **options).fit(vectors)
    hasher = TALRHasher(8, **options).fit(Images(vectors, y))
    assert_array_equal(hasher.database_codes_, expected.database_codes_)
    assert hasher.score(vectors) == expected.score(vectors)
    for data in (Images(vectors, y), torch.utils.data.StackDataset(torch.from_numpy(vectors))):
        assert hasher.score(data) == expected.score(vectors)


@pytest.mark.parametrize("affinity", ["auto", DistanceAffinity((20,), (1,))], ids=type)
def test_an_unsupervised_hasher_is_scored_by_the_labels_of_a_dataset_unless_rows_are_compared(images, affinity):
    X, y = images
    vectors = (X.reshape(60, -1) / 255).astype(np.float32)
    hasher = CIBHashHasher(8, **OPTIONS | {"affinity": affinity}).fit(vectors, y if affinity == "auto" else None)
    assert hasher.score(Images(vectors, y)) == hasher.score(vectors, y if affinity == "auto" else None)


def test_a_dataset_is_not_scored_before_fit(images):
    with pytest.raises(NotFittedError):
        TALRHasher(8).score(Images(*images))


def test_a_dataset_without_a_length_is_refused():
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield np.zeros(3), 0

    with pytest.raises(ValueError, match="must have a length. Got a Endless without one"):
        TALRHasher(8).fit(Endless())


@pytest.mark.parametrize("early_stopping", [False, True])
def test_rows_of_a_dataset_are_read_by_slices(early_stopping):
    X = np.random.default_rng(0).normal(size=(9000, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    read = []

    class Counted(DatasetArray):
        def __getitem__(self, rows):
            part = super().__getitem__(rows)
            read.append(len(part))
            return part

    hasher = TALRHasher(4, early_stopping=early_stopping, **OPTIONS | {"n_epochs": 1, "batch_size": 500})
    expected = clone(hasher).fit(X, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skhash.hashers.deep._base.DatasetArray", Counted)
        codes = hasher.fit(Images(X, y), y).database_codes_
    assert_array_equal(codes, expected.database_codes_)
    assert max(read) <= 4096


def test_augmentation_of_images(images):
    X, y = images
    augment = crop_and_flip(SHAPE)
    batch = torch.from_numpy(X[:4]).float() / 255
    versions = augment(batch)
    assert versions.shape == batch.shape
    assert (versions != batch).any()
    runs = [TALRHasher(8, backbone="conv", augment=a, **OPTIONS).fit(X, y) for a in (None, "auto", "auto")]
    assert_array_equal(runs[1].database_codes_, runs[2].database_codes_)
    assert runs[0].history_ != runs[1].history_


def test_half_of_the_images_are_flipped_and_they_move_by_an_eighth():
    batch = torch.arange(1.0, 9.0).expand(400, *SHAPE)
    with seeded(0, torch.device("cpu")):
        versions = crop_and_flip(SHAPE)(batch)
    assert 0.4 < (versions[..., 4, 5] < versions[..., 4, 3]).float().mean() < 0.6
    border = versions == 0
    assert border[..., 0, :].any()
    assert not border[..., 1:-1, 1:-1].any()


def test_mixed_precision(images):
    X, y = images
    exact, mixed = (TALRHasher(8, backbone="conv", mixed_precision=m, **OPTIONS).fit(X, y) for m in (False, True))
    assert exact.history_ != mixed.history_
    assert mixed.project(X).dtype == np.float32
    assert mixed.score(X, y) > 0.9


def test_bad_images(images):
    X, y = images
    hasher = TALRHasher(8, backbone="conv", **OPTIONS).fit(X, y)
    with pytest.raises(ValueError, match=r"samples of shape \(3, 8, 8\), as in fit. Got \(3, 4, 8\) instead"):
        hasher.transform(X[:, :, :4])
    with pytest.raises(ValueError, match=r"`X` must hold images of shape .* for backbone='conv'"):
        TALRHasher(8, backbone="conv").fit(X.reshape(60, -1), y)
    with pytest.raises(ValueError, match="`augment` must be None or a callable for samples of shape"):
        TALRHasher(8, augment="auto").fit(X.reshape(60, -1), y)
    with pytest.raises(ValueError, match="NaN"):
        TALRHasher(8).fit(np.full((4, *SHAPE), np.nan), y[:4])
    with pytest.raises(ValueError, match="`X` must have at least 2 samples. Got a Dataset of 1"):
        TALRHasher(8).fit(Images(X[:1], y[:1]))


# --- backbones that are handed in


def pretrained():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())


def test_a_frozen_backbone_keeps_its_weights_and_statistics(images):
    X, y = images
    with torch.random.fork_rng():
        module = pretrained()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    frozen, slow = (TALRHasher(8, backbone=module, backbone_lr_scale=s, **OPTIONS).fit(X, y) for s in (0, 0.1))
    for name, value in before.items():
        assert_array_equal(frozen.weights_[f"backbone.{name}"], value)
    assert any((slow.weights_[f"backbone.{name}"] != value.numpy()).any() for name, value in before.items())
    assert all(parameter.requires_grad for parameter in module.parameters())


# --- streams


def chunks(X, y, size=100):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(X), size)]


@pytest.mark.parametrize("Hasher", [TALRHasher, HashNetHasher])
def test_a_stream_is_learned(digits, Hasher):
    hasher = Hasher(16, random_state=0)
    for _ in range(10):
        for X, y in chunks(digits.X, digits.y):
            hasher.partial_fit(X, y)
    codes, queries = hasher.transform(digits.X), hasher.transform(digits.X_query)
    nearest = digits.y[(queries[:, None] != codes).sum(-1).argmin(axis=1)]
    assert np.mean(nearest == digits.y_query) > 0.8
    assert hasher.n_epochs_ == len(hasher.history_) == 10 * len(chunks(digits.X, digits.y))
    assert len(hasher.database_codes_) == len(chunks(digits.X, digits.y)[-1][0])


def test_a_stream_goes_on_after_a_pickle(digits):
    parts = chunks(digits.X, digits.y)
    unbroken, pickled = TALRHasher(16, random_state=0), TALRHasher(16, random_state=0)
    for X, y in parts:
        unbroken.partial_fit(X, y)
        pickled = pickle.loads(pickle.dumps(pickled)).partial_fit(X, y)
    assert_array_equal(unbroken.encode(digits.X), pickled.encode(digits.X))
    assert unbroken.history_ == pickled.history_


def test_a_stream_goes_on_from_a_fit(digits):
    hasher = TALRHasher(16, n_epochs=30, random_state=0).fit(digits.X, digits.y)
    before = hasher.encode(digits.X_query)
    hasher.set_params(learning_rate=1e-9).partial_fit(digits.X[:50], digits.y[:50])
    assert np.mean(hasher.encode(digits.X_query) != before) < 0.01
    assert hasher.n_epochs_ == 31


def test_a_fit_forgets_the_stream(digits):
    fresh = TALRHasher(16, n_epochs=2, random_state=0).fit(digits.X, digits.y)
    streamed = TALRHasher(16, n_epochs=2, random_state=0).partial_fit(digits.X, digits.y).fit(digits.X, digits.y)
    assert_array_equal(fresh.database_codes_, streamed.database_codes_)


@pytest.mark.parametrize("after", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("Hasher", "name", "value"),
    [
        (TALRHasher, "nbits", 16),
        (TALRHasher, "backbone", None),
        (TALRHasher, "affinity", SharedLabelsAffinity()),
        (TALRHasher, "optimizer", "sgd"),
        (TALRHasher, "backbone_lr_scale", 0),
        (TBHHasher, "n_latent", 7),
        (NSHHasher, "n_latent", 7),
        (NSHHasher, "variant", "decoding"),
    ],
)
def test_a_stream_goes_on_with_the_same_model(digits, after, Hasher, name, value):
    hasher = Hasher(8, backbone="mlp", n_epochs=1, random_state=0)
    getattr(hasher, after)(digits.X, digits.y).set_params(**{name: value})
    if after == "fit" and name not in ("nbits", "backbone", "affinity"):  # fit keeps no more than weights
        assert len(hasher.partial_fit(digits.X, digits.y).history_) == 2
    else:
        with pytest.raises(
            ValueError, match=rf"`{name}` must stay .* in partial_fit. Got {re.escape(repr(value))} instead"
        ):
            hasher.partial_fit(digits.X, digits.y)


@pytest.mark.parametrize("optimizer", ["adam", "sgd", torch.optim.SGD], ids=["adam", "sgd", "factory"])
def test_step_sizes_and_decay_of_a_stream_may_be_set_anew(digits, optimizer):
    hasher = TALRHasher(8, backbone="mlp", optimizer=optimizer, weight_decay=0.5, learning_rate=0.1, random_state=0)
    before = hasher.partial_fit(digits.X, digits.y).weights_
    hasher.set_params(learning_rate=1e-12, weight_decay=0, backbone_lr_scale=0.5).partial_fit(digits.X, digits.y)
    for name in ("backbone.1.weight", "hash.weight"):
        assert_allclose(hasher.weights_[name], before[name], rtol=0, atol=1e-9)
    rates = {(group["lr"], group["weight_decay"]) for group in hasher._stream["optimizer"]["param_groups"]}
    assert rates == {(1e-12, 0.0), (5e-13, 0.0)}


def sgd(groups):
    return torch.optim.SGD(groups, momentum=0.9)


@pytest.mark.parametrize("affinity", ["auto", DistanceAffinity((20,), (1,)), PrecomputedAffinity(np.eye(10))], ids=type)
def test_a_stream_goes_on_after_a_file(digits, tmp_path, affinity):
    y = digits.y if getattr(affinity, "requires_y", True) else None
    hasher = TALRHasher(8, optimizer=sgd, affinity=affinity, random_state=0).partial_fit(digits.X, y)
    save(hasher, tmp_path / "hasher")
    with pytest.warns(UserWarning, match="optimizer is now 'adam'"):
        loaded = load(tmp_path / "hasher")
    with pytest.raises(ValueError, match=r"`optimizer` must stay 'torch.*SGD' in partial_fit. Got 'adam' instead"):
        loaded.partial_fit(digits.X, y)
    loaded.set_params(optimizer=sgd).partial_fit(digits.X, y)
    assert_array_equal(loaded.project(digits.X), hasher.partial_fit(digits.X, y).project(digits.X))


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.zeros(20, dtype=int), "`y` must have at least two classes"),
        (np.arange(20), "`y` must have at least one class of two samples"),
    ],
)
def test_rows_of_a_stream_that_teach_nothing(digits, y, said):
    hasher = TALRHasher(8, random_state=0)
    for rows in (slice(0, 20), slice(20, 40)):
        with pytest.warns(UserWarning, match=said + ".*teach little or nothing"):
            hasher.partial_fit(digits.X[rows], y)
    assert hasher.partial_fit(digits.X[:20], digits.y[:20]).history_[-1]["loss"] > 0
    CIBHashHasher(8, random_state=0).partial_fit(digits.X[:20], y)  # y does not teach


def test_a_stream_of_datasets(images):
    X, y = images
    expected, hasher = (TALRHasher(8, **OPTIONS) for _ in range(2))
    for rows in (slice(0, 30), slice(30, 60)):
        expected.partial_fit(X[rows], y[rows])
        hasher.partial_fit(Images(X[rows], y[rows]))
    assert_array_equal(hasher.database_codes_, expected.database_codes_)
    assert_array_equal(hasher.database_y_, y[30:])


def test_bad_rows_of_a_stream_change_nothing(digits):
    hasher = TALRHasher(8, random_state=0).partial_fit(digits.X, digits.y)
    codes = hasher.encode(digits.X_query)
    for X, y, message in (
        (digits.X[:, 1:], digits.y, "features"),
        (digits.X, digits.y[1:], "one target per sample"),
        (digits.X, None, "requires y"),
    ):
        with pytest.raises(ValueError, match=message):
            hasher.partial_fit(X, y)
    assert_array_equal(hasher.encode(digits.X_query), codes)
