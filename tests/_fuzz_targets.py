"""The kinds of files that are fuzzed. To add one, write its functions and put it into TARGETS."""

import contextlib
import functools
import hashlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Annotated
from unittest import mock

import numpy as np
from _fuzz import Target
from _fuzz_checkpoints import CHECKPOINTS, N_FEATURES, N_SAMPLES, samples
from _fuzz_mutators import to_json
from _helpers import checksum
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as tensors_to_bytes
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import skhash
from skhash.affinity import DistanceAffinity, PrecomputedAffinity
from skhash.cli import main
from skhash.codes import pack
from skhash.datasets import PROTOCOLS, load_dataset
from skhash.functions import Array
from skhash.neighbors import HammingNeighbors, HammingNeighborsTransformer
from skhash.persistence import load, save

# --- models


class Own(skhash.LSHHasher):
    """A class that is not part of skhash, with an attribute of its own."""

    extra_: Annotated[np.ndarray, Array("nbits")]

    def _learn_map(self, X, relevance, rng):
        self.extra_ = np.arange(float(self.nbits))
        return super()._learn_map(X, relevance, rng)


def models():
    """A few hashers that store every kind of value."""
    X, y = samples()
    names = np.array(["ant", "bee", "cat"])
    images = X.astype(np.float32).reshape(-1, 1, 2, 3)
    talr = skhash.TALRHasher(9, n_epochs=1, random_state=0, device="cpu")
    hashers = {
        "itq": skhash.ITQHasher(6, random_state=0).fit(X, names[y]),
        "lsh": skhash.LSHHasher(12, random_state=0).fit(X, names.astype(object)[y]),
        "pca": skhash.PCAHasher(5, affinity=PrecomputedAffinity(sparse.csr_array(np.eye(3)))).fit(X, y),
        "itq-cca": skhash.ITQCCAHasher(2, random_state=0).fit(X, y),
        "spectral": skhash.SpectralHasher(8).fit(X),
        "agh": skhash.AGHHasher(4, n_anchors=10, n_layers=2, random_state=0).fit(X),
        "spherical": skhash.SphericalHasher(4, random_state=0).fit(X, sparse.csr_matrix(np.eye(3)[y])),
        "ksh": skhash.KSHHasher(4, n_anchors=8, max_samples=30, random_state=0, affinity=DistanceAffinity()).fit(X),
        "structhash": skhash.StructHashHasher(
            2, n_relevant=2, n_irrelevant=2, n_queries=5, n_anchors=8, tol=0.1, random_state=0
        ).fit(X, y),
        "cghash": skhash.CGHashHasher(2, n_anchors=8, random_state=0).fit(X, y),
        "stumps": skhash.CGHashHasher(2, hash_function="stump", random_state=0).fit(X, y),
        "talr": talr.fit(X, y),
        "stream": skhash.HashNetHasher(8, n_epochs=1, random_state=0, device="cpu").partial_fit(X, y).partial_fit(X, y),
        "scaled": make_pipeline(StandardScaler(), skhash.LSHHasher(4, random_state=0)).fit(X, y),
        "own": Own(4, random_state=0).fit(X, y),
        "images": skhash.TALRHasher(4, n_epochs=1, random_state=0, device="cpu").fit(images, y),
    }
    return saved(hashers)


def saved(estimators):
    """Bytes of the files of estimators."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "estimator")
        files = {}
        for name, estimator in estimators.items():
            save(estimator, path)
            files[name] = path.read_bytes()
    return files


def read_model(path):
    """Codes and displays of the hasher in a file."""
    model = load(path, classes=[Own])
    X, _ = samples()
    hasher = model
    if isinstance(model, Pipeline):
        hasher, X = model[-1], model[:-1].transform(X)
    shape = getattr(hasher, "input_shape_", None)
    codes = hasher.encode(X if shape is None or len(shape) == 1 else X.astype(np.float32).reshape(len(X), *shape))
    estimator_html_repr(model)
    repr(hasher)
    database = None if hasher.database_ is None else hasher.database_.y
    database = database.toarray() if sparse.issparse(database) else database
    if isinstance(database, np.ndarray) and database.dtype.kind == "O":
        database = database.tolist()
    return repr(model), codes, None if hasher.database_ is None else hasher.database_.codes.rows, database


def unpack_model(data):
    length = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["skhash"])
    return {"header": header, "tensors": load_tensors(data)}


def pack_model(tree):
    header = tree["header"]
    tensors = {name: np.array(tensor, order="C") for name, tensor in tree["tensors"].items()}
    with contextlib.suppress(Exception):  # of what is nested too deeply
        header = json.loads(to_json(header))
        header["sha256"] = checksum(header, tensors)
    return tensors_to_bytes(tensors, {"skhash": to_json(header)})


# --- indexes


def indexes():
    """An index of every kind."""
    X, y = samples()
    hasher = skhash.ITQHasher(6, random_state=0)
    fitted = {
        "bits": HammingNeighbors().fit((X > 2).astype(np.uint8), ids=np.arange(N_SAMPLES) * 7),
        "packed": HammingNeighbors(nbits=6).fit(pack((X > 2).astype(np.uint8))),
        "real": HammingNeighbors(hasher, query="real", candidates=20).fit(X),
        "scan": HammingNeighbors(hasher, query="real").fit(X),  # also loads the kernel, which a case has no time to
        "frozen": HammingNeighborsTransformer(FrozenEstimator(hasher.fit(X, y)), n_neighbors=3, n_jobs=1).fit(X),
    }
    return saved(fitted)


def read_index(path):
    """Neighbors that the index in a file finds."""
    index = load(path)
    X, _ = samples()
    queries = X[:3] if index.hasher_ is not None else np.zeros((3, index.n_features_in_), dtype=np.uint8)
    codes = index.codes_.rows.copy(), index.ids_.copy()  # both are mapped, and the next case has the same path
    if index.hasher_ is not None and index.n_features_in_ != N_FEATURES:
        return repr(index), codes
    index.set_params(n_neighbors=min(index.n_neighbors, index.n_samples_fit_ - 1), n_jobs=1)
    candidates = None if index.candidates is None else max(index.candidates, index.n_neighbors)
    return repr(index), codes, index.set_params(candidates=candidates).kneighbors(queries)


def digest(array):
    """The checksum of codes or identifiers."""
    return hashlib.sha256(array.tobytes()).hexdigest()


def pack_index(tree):
    header = tree["header"]
    mapped = {name: np.array(tree["tensors"][name]) for name in ("blocks", "ids_") if name in tree["tensors"]}
    with contextlib.suppress(Exception):
        header["mapped"] |= {name: digest(array) for name, array in mapped.items() if name in header["mapped"]}
    tensors = {name: np.array(tensor, order="C") for name, tensor in tree["tensors"].items()}
    with contextlib.suppress(Exception):  # of what is nested too deeply
        header = json.loads(to_json(header))
        header["sha256"] = checksum(header, {name: array for name, array in tensors.items() if name not in mapped})
    return tensors_to_bytes(tensors, {"skhash": to_json(header)})


INDEXES = Target("indexes", ".safetensors", indexes, read_index, unpack_model, pack_index)

MODELS = Target("models", ".safetensors", models, read_model, unpack_model, pack_model)

# --- data sets


def datasets():
    """Archives of arrays of several dtypes, compressed and not."""
    X, y = samples()
    contents = {
        "labels": {"X": X.astype(np.float32), "y": y, "scale": 0.5},
        "names": {"X": (10 * X).astype(np.int16), "y": np.array(["ant", "bee", "cat"])[y], "test": y > 1},
        "tags": {"X": X, "y": np.eye(3, dtype=np.uint8)[y], "scale": np.linspace(1, 2, N_FEATURES)},
        "images": {"X": X.astype(np.float32).reshape(-1, 1, 2, 3), "y": y.astype(np.uint8)},
    }
    files = {}
    for i, (name, arrays) in enumerate(contents.items()):
        file = io.BytesIO()
        (np.savez_compressed if i % 2 else np.savez)(file, **arrays)
        files[name] = file.getvalue()
    return files


def read_dataset(path):
    """Arrays of the split that a comparison would use."""
    data = load_dataset(path, protocol=PROTOCOLS["holdout"])
    return data.X_train, data.X_query, data.y_train, data.y_query


def unpack_dataset(data):
    with np.load(io.BytesIO(data)) as file:
        return dict(file)


def pack_dataset(tree):
    file = io.BytesIO()
    np.savez(file, **tree)
    return file.getvalue()


DATASETS = Target("data sets", ".npz", datasets, read_dataset, unpack_dataset, pack_dataset)


# --- codes of the command line


def code_files():
    """Archives of codes of several lengths, with factors and without."""
    rng = np.random.default_rng(0)
    files = {}
    for nbits in (6, 12, 64):
        codes = pack(rng.integers(0, 2, (N_SAMPLES, nbits), dtype=np.uint8))
        factors = {"factors": rng.normal(size=(N_SAMPLES, 2)).astype(np.float32)} if nbits == 12 else {}
        files[f"{nbits} bits"] = pack_dataset({"codes": codes, "nbits": np.array(nbits)} | factors)
    return files


@functools.cache
def search_files():
    """A folder with a hasher that has factors, and with queries."""
    folder = tempfile.TemporaryDirectory()
    X, _ = samples()
    hasher = skhash.EmbeddingHasher(12, factors=True, n_epochs=1, random_state=0, device="cpu")
    save(hasher.fit(X), Path(folder.name, "hasher"))
    np.save(Path(folder.name, "queries.npy"), X[:3])
    return folder


def read_code_file(path):
    """Codes that the command line exports, and the distances that it estimates by the factors."""
    folder = search_files().name
    out, text = f"{folder}/out-{os.getpid()}", io.StringIO()
    with mock.patch.dict(os.environ, SKHASH_TRACEBACK="1"), contextlib.redirect_stdout(text):  # raises errors
        main(["export", str(path), "--to", "ubinary", "--out", f"{out}.npy"])
        about = text.getvalue().partition(": ")[0]
        if about != f"{N_SAMPLES} codes of 12 bits, without their factors":
            return about, np.load(f"{out}.npy")
        command = ["search", f"{folder}/hasher", str(path), f"{folder}/queries.npy", "--query", "real"]
        main([*command, "--k", str(N_SAMPLES), "--out", f"{out}.npz"])
    with np.load(f"{out}.npz") as found:
        return about, np.load(f"{out}.npy"), found["distances"], found["ids"]


CODES = Target("codes", ".npz", code_files, read_code_file, unpack_dataset, pack_dataset)

TARGETS = (MODELS, INDEXES, DATASETS, CODES, CHECKPOINTS)
