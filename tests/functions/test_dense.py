"""Functions of dense layers: the activations of the trained encoder, for few samples without a limit of threads."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

from skhash import EmbeddingHasher, ITQHasher, LSHHasher, NSHHasher, TALRHasher
from skhash.engine import Encoder
from skhash.functions.linear import N_MAX_INPUTS
from skhash.functions.network import dense_function, on_device
from skhash.neighbors import HammingNeighbors

X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]


@pytest.mark.parametrize("offset", [0, 1e9])
@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("backbone", [None, "mlp"])
def test_activations_are_those_of_the_encoder(backbone, batch_norm, offset):
    torch.manual_seed(0)
    encoder = Encoder(64, 12, backbone, 0.2, 0.5, batch_norm=batch_norm, has_offset=offset > 0)
    encoder.set_statistics(X + offset)
    encoder(encoder.read(X + offset, slice(None)))  # statistics of the batch norms
    for module in encoder.modules():
        if isinstance(module, torch.nn.BatchNorm1d) and module.affine:
            torch.nn.init.normal_(module.weight)
            torch.nn.init.normal_(module.bias)
    with torch.no_grad():
        expected = encoder.eval()(encoder.read(X + offset, slice(None))).numpy()
    assert_allclose(dense_function(encoder).activations(X + offset), expected, atol=2e-5)


@pytest.mark.parametrize("n_features", [N_MAX_INPUTS, N_MAX_INPUTS + 1])
def test_activations_of_many_features(n_features):
    torch.manual_seed(0)
    samples = np.random.default_rng(0).standard_normal((3, n_features))
    encoder = Encoder(n_features, 4).eval()
    with torch.no_grad():
        expected = encoder(encoder.read(samples, slice(None))).numpy()
    assert_allclose(dense_function(encoder).activations(samples), expected, atol=2e-5)


@pytest.mark.parametrize(
    "hasher",
    [
        ITQHasher(16, random_state=0),
        LSHHasher(16, random_state=0),
        TALRHasher(16, n_epochs=2, random_state=0),
        TALRHasher(16, n_epochs=2, backbone="mlp", random_state=0),
        NSHHasher(16, n_epochs=2, random_state=0),
        EmbeddingHasher(16, n_epochs=2, random_state=0),
    ],
    ids=["itq", "lsh", "linear", "mlp", "nsh", "embedding"],
)
def test_one_sample_gets_the_code_that_it_gets_among_many(hasher, monkeypatch):
    hasher.fit(X, y)
    codes, activations = hasher.transform(X), hasher.project(X)
    monkeypatch.delattr(torch, "set_num_threads")  # not needed
    assert (np.vstack([hasher.transform(sample[None]) for sample in X]) == codes).all()
    assert_allclose(np.vstack([hasher.project(sample[None]) for sample in X[:3]]), activations[:3], atol=1e-5)


@pytest.mark.filterwarnings("ignore:The mean of 64 of the features")
@pytest.mark.parametrize(
    ("offset", "options"),
    [
        (0, {}),
        (1e9, {}),
        (1e9, {"metric": "euclidean"}),
        (0, {"nbits": 32}),
        (0, {"nbits": 32, "factors": True}),
        (7, {"nbits": 32, "factors": True, "metric": "inner"}),
        (1e9, {"nbits": 32, "factors": True, "metric": "euclidean"}),
    ],
    ids=["cosine", "far cosine", "far", "reconstruct", "factors", "inner", "far factors"],
)
def test_few_real_queries_are_those_of_torch(offset, options, monkeypatch):
    hasher = EmbeddingHasher(**{"nbits": 16, "n_epochs": 2, "random_state": 0} | options)
    search = HammingNeighbors(hasher, query="real", n_neighbors=20).fit(X[2:] + offset, y[2:])
    with monkeypatch.context() as patch:
        patch.delattr(torch, "set_num_threads")  # not needed
        queries, distances = search.hasher_.project_queries(X[:2] + offset), search.kneighbors(X[:2] + offset)[0]
    of_torch = on_device(search.hasher_.function_, torch.device("cpu")).queries(X[:2] + offset)
    assert queries.dtype == of_torch.dtype == np.float32
    assert_allclose(queries, of_torch, atol=2e-6 * np.abs(of_torch).max())
    many = search.kneighbors(np.tile(X[:2] + offset, (3000, 1)))[0][:2]
    assert_allclose(distances, many, rtol=1e-5, atol=1e-5 * np.abs(many).max())
