"""Read the files that write.py wrote: ``python read.py FOLDER``. It needs no torch, no cvxpy and no pyarrow."""

import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from skhash import EmbeddingHasher, LSHHasher, StructHashHasher, TALRHasher
from skhash.codes import Codes
from skhash.comparison import read_results
from skhash.datasets import load_images
from skhash.metrics import average_precision, relevance_histogram
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load
from skhash.stores import to_parquet
from skhash.unwrap import find_hasher


def read(folder):
    """Load, hash, search and count; the codes, neighbors and distances must be those of the version that wrote them."""
    expected = dict(np.load(folder / "expected.npz"))
    X = expected["X"]
    for path in sorted(folder.glob("*.safetensors")):
        if path.stem != "index":
            hasher = load(path)
            codes = np.packbits(hasher.transform(X), axis=1)
            np.testing.assert_array_equal(codes, expected[path.stem], err_msg=path.name)
            # codes that users have stored hold it
            assert find_hasher(hasher).fingerprint_ == expected[f"{path.stem}_fingerprint"], path.name
    for name, y in (("talr", X[:, 18:22]), ("itq", expected["y"])):
        score = load(folder / f"{name}.safetensors").score(X[50:], y[50:])
        np.testing.assert_allclose(score, expected[f"{name}_score"], rtol=1e-12)
    index = load(folder / "index.safetensors")
    distances, neighbors = index.kneighbors(X, 5)
    np.testing.assert_array_equal(neighbors, expected["neighbors"])
    np.testing.assert_allclose(distances, expected["distances"], rtol=1e-5)
    assert index.add(X[:1]).ids_[-1] == 1100
    file = np.load(folder / "codes.npz")
    codes = Codes.of(file["codes"], int(file["nbits"]), fingerprint=str(file["fingerprint"]))
    np.testing.assert_array_equal(codes.rows, expected["talr"])
    found = HammingNeighbors(nbits=16).fit(codes).kneighbors(codes[:1], 1, return_distance=False)
    assert found.item() == 0
    y = np.arange(len(codes)) % 2
    assert 0 < average_precision(relevance_histogram(codes, codes, y, y)) < 1
    assert [result.method for result in read_results(folder / "comparison")] == ["lsh"]


def ask_for_what_is_missing():
    """Calls that need another package, which the message must name."""
    X, y = np.random.RandomState(0).randn(50, 4), np.arange(50) % 2
    codes = LSHHasher(4).fit(X).codes(X)
    calls = {
        "TALRHasher.fit": (lambda: TALRHasher(4).fit(X, y), "torch"),
        "TALRHasher.partial_fit": (lambda: TALRHasher(4).partial_fit(X, y), "torch"),
        "EmbeddingHasher.fit": (lambda: EmbeddingHasher(4).fit(X), "torch"),
        "EmbeddingHasher.partial_fit": (lambda: EmbeddingHasher(4).partial_fit(X), "torch"),
        "StructHashHasher.fit": (lambda: StructHashHasher(4).fit(X, y), "cvxpy"),
        "skhash.features": (lambda: import_module("skhash.features"), "torch"),
        "skhash.onnx": (lambda: import_module("skhash.onnx"), "torch"),
        "load_images": (lambda: load_images("pictures"), "torch"),
        "HammingNeighbors(device=...)": (lambda: HammingNeighbors(nbits=4, device="cpu").fit(codes), "torch"),
        "relevance_histogram(device=...)": (lambda: relevance_histogram(codes, codes, y, y, device="cpu"), "torch"),
        "to_parquet": (lambda: to_parquet(codes, "codes.parquet"), "pyarrow"),
    }
    for name, (call, package) in calls.items():
        message = ""
        try:
            call()
        except ImportError as error:
            message = str(error)
        assert re.search(f"must be installed for .*: pip install {package}", message), f"{name}: {message}"
        print(f"{name}: {message}")


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        read(folder)
        print(f"{folder}: read")
    assert not {"torch", "cvxpy", "pyarrow"} & sys.modules.keys()
    ask_for_what_is_missing()
