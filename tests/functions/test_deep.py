"""Functions of deep hashers: what a file may not hold, copies without torch, many threads, a sample alone."""

import pickle
import pickletools
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

from skhash import EmbeddingHasher, NSHHasher, OrthoHashHasher, TALRHasher
from skhash.engine import Encoder
from skhash.functions import DenseFunction, HashFunction
from skhash.functions.network import NetworkFunction, on_device
from skhash.vectors.codes import QueryFunction, ReconstructionFunction

pytestmark = pytest.mark.filterwarnings("ignore::skhash.exceptions.DegenerateCodesWarning")
X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]
IMAGES = X.reshape(-1, 1, 8, 8) / 16
KINDS = {
    "linear": (TALRHasher, {}, DenseFunction),
    "mlp": (OrthoHashHasher, {"backbone": "mlp"}, DenseFunction),
    "nsh": (NSHHasher, {}, DenseFunction),
    "smoothed": (TALRHasher, {"smoothing": 0.5}, DenseFunction),
    "two maps": (EmbeddingHasher, {"nbits": 16}, QueryFunction),
    "reconstruction": (EmbeddingHasher, {"nbits": 32, "factors": True}, ReconstructionFunction),
    "network": (TALRHasher, {"backbone": "conv"}, NetworkFunction),
    "images": (TALRHasher, {"images": True}, NetworkFunction),
}


@cache
def fitted(name):
    make, options, _ = KINDS[name]
    options = dict(options)
    samples = IMAGES if options.pop("images", False) or options.get("backbone") == "conv" else X
    options = {"nbits": 8, "n_epochs": 3, "device": "cpu", "random_state": 0} | options
    return make(**options).fit(samples, y), samples


@pytest.mark.parametrize("name", KINDS)
class TestKinds:
    def test_kind(self, name):
        hasher, samples = fitted(name)
        function = hasher.function_
        assert type(function) is KINDS[name][2]
        assert isinstance(function, HashFunction)
        assert function.shape == samples.shape[1:]
        assert repr(function) == f"{type(function).__name__}(nbits={hasher.nbits}, shape={function.shape})"

    def test_arrays_are_all_of_it(self, name):
        hasher, samples = fitted(name)
        function = hasher.function_
        again = type(function).from_arrays(function.arrays(), **function.given())
        for method in ("activations", "queries"):
            assert_array_equal(getattr(again, method)(samples), getattr(function, method)(samples))

    def test_a_pickle_has_no_tensors(self, name):
        hasher, samples = fitted(name)
        hasher.transform(samples[:2])
        content = pickle.dumps(hasher)
        names = {argument for _, argument, _ in pickletools.genops(content) if isinstance(argument, str)}
        assert not {name for name in names if name.startswith("torch")}
        assert_array_equal(pickle.loads(content).project(samples), hasher.project(samples))

    def test_a_sample_alone_and_in_a_batch(self, name):
        hasher, samples = fitted(name)
        for method in (hasher.project, hasher.project_queries):
            many, alone = method(samples[:50]), np.vstack([method(samples[i : i + 1]) for i in range(50)])
            assert many.dtype == alone.dtype == np.float32
            assert (np.abs(many - alone).max(axis=1) <= 4e-6 * np.abs(many).max(axis=1)).all()

    def test_first_bits(self, name):
        hasher, samples = fitted(name)
        first = hasher.function_.first(3)
        assert first.nbits == 3
        for method in ("activations", "queries"):
            whole, part = (getattr(function, method)(samples) for function in (hasher.function_, first))
            np.testing.assert_allclose(part, whole[:, :3], rtol=1e-4, atol=1e-5 * np.abs(whole).max())

    def test_many_threads(self, name):
        hasher, samples = fitted(name)
        function = pickle.loads(pickle.dumps(hasher.function_))  # its network is not built yet
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: function.activations(samples[:40]), range(8)))
        for activations in found[1:]:
            assert_array_equal(activations, found[0])

    def test_on_a_device(self, name):
        hasher, samples = fitted(name)
        for method in ("activations", "queries"):
            if (KINDS[name][2], method) != (ReconstructionFunction, "activations"):  # whose search runs on the CPU
                expected = getattr(hasher.function_, method)(samples)
                found = getattr(on_device(hasher.function_, torch.device("cpu")), method)(samples)
                np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def of(name, value):
    return lambda arrays: arrays | {name: value(arrays[name]) if callable(value) else value}


def without(*names):
    return lambda arrays: {key: value for key, value in arrays.items() if key not in names}


FORGED = {
    "features": ("linear", of("mean", lambda a: a[1:]), "must have shape"),
    "a missing layer": ("mlp", without("weight.1"), "is missing|is not part"),
    "layers that do not fit": ("mlp", of("weight.1", lambda a: a[1:]), "must have shape"),
    "no map of queries": (
        "two maps",
        lambda a: without("weight.queries")(without("bias.queries")(a)),
        "a map of queries",
    ),
    "a spread of 0": ("two maps", of("spread", np.zeros((), np.float32)), "one spread > 0"),
    "a scale of 0": ("reconstruction", of("scale", np.asarray(0.0)), "a scale > 0"),
    "a scale of NaN": ("reconstruction", of("scale", np.asarray(np.nan)), "must be finite"),
    "a gram of other bits": ("reconstruction", of("gram", lambda a: a[1:]), "must have shape"),
    "float64": ("reconstruction", of("gram", lambda a: a.astype(np.float64)), "must be of float32"),
    "bits that are not found": (
        "reconstruction",
        lambda a: a | {"query_weight": np.tile(a["query_weight"], 2), "query_bias": np.tile(a["query_bias"], 2)},
        "at most 32 bits",
    ),
    "a shape of nothing": ("network", of("shape", np.empty(0, np.int64)), "must have 1 to"),
    "a network that is none": ("network", of("backbone", np.asarray("bert")), "must be a name of a network"),
    "a number for a network": ("network", of("backbone", np.asarray(3)), "must be a name of a network"),
    "no hash layer": ("network", without("weights.hash.weight"), "must have 2 axes"),
    "another layer": ("network", of("weights.other", np.zeros(3, np.float32)), "must have"),
    "a huge layer": ("images", of("shape", np.array([1, 4000, 4000])), "must suit samples"),
    "half of a map of queries": ("two maps", without("bias.queries"), "is missing"),
    "a map of other queries": ("two maps", of("weight.queries", lambda a: a[:, 1:]), "must have shape"),
    "an offset of another image": ("network", of("offset", np.zeros(3)), "must have shape"),
    "a norm that is no bool": ("network", of("unit_norm", np.asarray(1.0)), "dtype kind b"),
}


@pytest.mark.parametrize(("name", "change", "match"), FORGED.values(), ids=FORGED)
def test_forged_arrays_are_refused(name, change, match):
    function = fitted(name)[0].function_
    with pytest.raises(ValueError, match=match):
        type(function).from_arrays(change(function.arrays()))


def test_a_given_module_is_not_stored():
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 12))
    function = TALRHasher(8, backbone=module, n_epochs=1, random_state=0).fit(IMAGES, y).function_
    assert function.given() == {"backbone": function.backbone}
    assert "backbone" not in function.arrays()
    again = NetworkFunction.from_arrays(function.arrays(), backbone=module)
    assert_array_equal(again.activations(IMAGES), function.activations(IMAGES))
    with pytest.raises(RuntimeError, match="state_dict"):
        NetworkFunction.from_arrays(function.arrays(), backbone=torch.nn.Flatten()).check()


def test_all_of_a_pretrained_network_moves_to_a_device():
    encoder = Encoder((3, 8, 8), 4, "conv", pretrained=True)
    weights = {name: value.numpy() for name, value in encoder.state_dict().items()}
    module = NetworkFunction((3, 8, 8), weights, "conv").module(torch.device("meta"))
    assert module(torch.zeros((2, 3, 8, 8), device="meta")).device.type == "meta"
    assert {value.device.type for value in module.state_dict().values()} == {"meta"}
