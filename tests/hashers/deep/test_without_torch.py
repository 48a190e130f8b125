"""A hasher that needs torch to learn is imported, built, copied and checked without it: `load` imports its class."""

import subprocess
import sys
from typing import get_type_hints

import numpy as np
import pytest
from sklearn.base import clone

import skhash
from skhash.persistence import save
from skhash.registry import METHODS

DEEP = sorted({method.path.rpartition(".")[2] for method in METHODS.values() if method.family in ("deep", "vectors")})
USED = f"""
import inspect, sys
from typing import get_type_hints
from sklearn.base import clone
import skhash, skhash.hashers.deep
for name in {DEEP}:
    kind = getattr(skhash, name)
    hasher = clone(kind(16).set_params(nbits=8, device="cpu"))
    hasher.set_params(**{{name: "mlp" for name in ("backbone",) if hasattr(hasher, name)}})
    assert kind(**hasher.get_params()).nbits == 8
    repr(hasher), inspect.signature(kind), get_type_hints(kind, include_extras=True)
    hasher._validate_params()
    hasher.__sklearn_tags__()
    assert "torch" not in sys.modules, name
"""


def test_deep_hashers_are_built_without_torch():
    subprocess.run([sys.executable, "-W", "error", "-c", USED], check=True)


@pytest.mark.parametrize("name", DEEP)
def test_annotations_name_no_class_of_torch(name):
    assert "torch" not in repr(get_type_hints(getattr(skhash, name), include_extras=True))


FILES = {
    "linear": ("TALRHasher", {}),
    "mlp": ("OrthoHashHasher", {"backbone": "mlp"}),
    "embedding": ("EmbeddingHasher", {"nbits": 32}),
    "two maps": ("EmbeddingHasher", {"nbits": 16, "metric": "inner"}),
    "factors": ("EmbeddingHasher", {"nbits": 32, "factors": True}),
}
LOADED = """
import sys
import numpy as np
from skhash.persistence import load
for path in sys.argv[1:]:
    hasher, expected = load(path), np.load(path + ".npz")
    for X in (expected["X"], expected["X"][:1]):
        np.testing.assert_allclose(hasher.project(X), expected["activations"][: len(X)], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(hasher.project_queries(X), expected["queries"][: len(X)], rtol=1e-4, atol=1e-4)
        assert (hasher.transform(X) == (expected["activations"][: len(X)] >= 0)).all()
    if getattr(hasher, "factors", False):
        np.testing.assert_allclose(hasher.encode_factors(X), expected["factors"][:1], rtol=1e-4)
    assert "torch" not in sys.modules, path
"""


def test_files_are_loaded_and_used_without_torch(digits, tmp_path):
    paths = []
    for name, (hasher, options) in FILES.items():
        options = {"nbits": 8, "n_epochs": 2, "random_state": 0, "device": "cpu"} | options
        model = getattr(skhash, hasher)(**options).fit(digits.X[:300], digits.y[:300])
        save(model, path := tmp_path / f"{name}.safetensors")
        X = digits.X_query[:20]
        arrays = {"X": X, "activations": model.project(X), "queries": model.project_queries(X)}
        if options.get("factors"):
            arrays["factors"] = model.encode_factors(X)
        np.savez(f"{path}.npz", **arrays)
        paths.append(str(path))
    subprocess.run([sys.executable, "-W", "error", "-c", LOADED, *paths], check=True)


MESSAGES = {
    "backbone": "an instance of 'str', an instance of 'torch.nn.modules.module.Module' or None. Got 3 instead.",
    "device": "an instance of 'str' or an instance of 'torch.device'. Got 3 instead.",
    "optimizer": "or a callable. Got 3 instead.",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_wrong_parameter_is_named(name):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of TALRHasher must be .*") as caught:
        skhash.TALRHasher(**{name: 3})._validate_params()
    assert str(caught.value).endswith(MESSAGES[name])


def test_modules_and_devices_of_torch_are_taken():
    import torch

    module, device = torch.nn.Linear(3, 2), torch.device("cpu")
    hasher = clone(skhash.TALRHasher(8, backbone=module, device=device))
    hasher._validate_params()
    assert isinstance(hasher.backbone, torch.nn.Linear)
    assert hasher.backbone is not module


def test_names_of_torch_are_found_when_they_are_asked_for():
    import skhash.engine as engine

    assert all(callable(getattr(engine, name)) for name in engine.__all__)
    assert set(engine.__all__) <= set(dir(engine))
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        engine.Missing  # noqa: B018


THREADS = """
import sys, threading
from skhash._libraries import torch
from skhash.hashers.deep import pairwise_loss
assert "torch" not in sys.modules
start, found, errors = threading.Barrier(8), [], []

def use():
    start.wait()
    try:
        u = torch.ones(2, 3).requires_grad_()
        found.append(pairwise_loss(u, (u > 0)[:, :2].numpy()).item())
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not errors, errors
assert len(found) == 8 and len(set(found)) == 1
"""


def test_threads_that_use_torch_first_wait_until_it_is_imported():
    subprocess.run([sys.executable, "-W", "error", "-c", THREADS], check=True)
