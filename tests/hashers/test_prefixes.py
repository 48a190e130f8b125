"""Prefixes: hashers of the first bits of a code."""

import pickle
from functools import cache, partial

import numpy as np
import pytest
from _helpers import assert_same_hasher, every_hasher, quick
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from torch import nn

import skhash
from skhash import EmbeddingHasher, ITQHasher, LSHHasher, PCAHasher, TALRHasher
from skhash.base import BaseHasher
from skhash.codes import hamming_distances, pack, signs
from skhash.functions import LinearFunction
from skhash.metrics import RetrievalScorer
from skhash.neighbors import HammingNeighbors, order_shortlist
from skhash.persistence import load, save
from skhash.registry import HASHERS
from skhash.stores import from_sentence_transformers, to_sentence_transformers
from skhash.vectors.codes import ReconstructionFunction

pytestmark = pytest.mark.filterwarnings(
    "ignore::skhash.exceptions.DegenerateCodesWarning",
    "ignore:The bits of a code reconstruct the item together",  # tests/vectors/test_prefix_codes.py has this warning
)

TINY = {"n_latent": 4, "n_epochs": 1, "n_starts": 1}
LENGTHS = {"EmbeddingHasher": 40}  # so many bits reconstruct


@pytest.fixture(scope="module")
def whole(digits):
    """A fitted hasher of each class, as bytes, of 12 bits or more."""

    @cache
    def fit(name):
        return pickle.dumps(quick(name, nbits=LENGTHS.get(name, 12), **TINY).fit(digits.X[:200], digits.y[:200]))

    return lambda make: pickle.loads(fit(type(make()).__name__))


@every_hasher
def test_prefix_has_the_first_bits(make, whole, digits):
    hasher, X = whole(make), digits.X_query[:80]
    before = pickle.dumps(hasher)
    for nbits in (5, np.int64(8), 11):
        shorter = hasher.prefix(nbits)
        assert type(shorter) is type(hasher)
        bits = hasher.transform(X)[:, :nbits]
        assert_array_equal(shorter.transform(X), bits)
        assert_array_equal(shorter.encode(X), pack(bits))
        for name in ("project", "project_queries"):
            values = getattr(shorter, name)(X)
            assert values.shape == (80, nbits)
            assert_allclose(values, getattr(hasher, name)(X)[:, :nbits], rtol=1e-4, atol=1e-5)
        assert_array_equal(shorter.database_.codes.rows, shorter.encode(digits.X[:200]))
        assert_array_equal(shorter.prefix(3).transform(X), bits[:, :3])
    assert pickle.dumps(hasher) == before


@every_hasher
def test_prefix_is_a_hasher_of_its_length(make, whole, digits, tmp_path):
    hasher = whole(make)
    shorter = hasher.prefix(5)
    assert shorter.nbits == 5
    assert shorter.get_params() == hasher.get_params() | {"nbits": 5}
    assert len(shorter.get_feature_names_out()) == 5
    save(shorter, tmp_path / "hasher")
    assert_same_hasher(load(tmp_path / "hasher"), shorter, digits.X_query[:80], digits.y_query[:80])
    refitted = clone(shorter).fit(digits.X[:100], digits.y[:100])
    assert refitted.transform(digits.X[:9]).shape == (9, 5)


@every_hasher
@pytest.mark.parametrize("nbits", [0, 41, 2.0, True, None, "8"])
def test_prefix_takes_no_other_number_of_bits(make, whole, nbits):
    with pytest.raises(ValueError, match=r"`nbits` must be an int from 1 to (12|40)\. Got .* instead"):
        whole(make).prefix(nbits)


@every_hasher
def test_prefix_needs_a_fitted_hasher(make):
    with pytest.raises(NotFittedError):
        make().prefix(2)


@pytest.mark.parametrize("name", [name for name in HASHERS if hasattr(getattr(skhash, name), "partial_fit")])
def test_a_prefix_learns_on(name, whole, digits):
    shorter = whole(partial(quick, name)).prefix(5)
    before = shorter.project_queries(digits.X_query)
    shorter.partial_fit(digits.X[:200], digits.y[:200])
    assert shorter.prefix(4).transform(digits.X).shape == (len(digits.X), 4)
    assert (shorter.project_queries(digits.X_query) != before).any()


@pytest.mark.parametrize("nbits", [8, 13, 40])
def test_a_prefix_is_a_fit_of_its_length(nbits, digits):
    hasher = PCAHasher(40).fit(digits.X)
    assert hasher._prefix_is_as_good(len(digits.X))
    assert_array_equal(hasher.prefix(nbits).projection_, PCAHasher(nbits).fit(digits.X).projection_)


def test_more_bits_than_components_are_mixed(digits):
    assert not PCAHasher(70).fit(digits.X)._prefix_is_as_good(len(digits.X))
    assert not PCAHasher(40).fit(digits.X[:30])._prefix_is_as_good(30)
    assert not ITQHasher(16).fit(digits.X)._prefix_is_as_good(len(digits.X))


class Own(BaseHasher):
    """A hasher of a user."""

    def __init__(self, nbits=8, *, affinity="auto", store_database=True):
        self.nbits, self.affinity, self.store_database = nbits, affinity, store_database

    def _learn(self, X, relevance, rng):
        return LinearFunction(np.zeros(X.shape[1]), np.random.RandomState(0).standard_normal((X.shape[1], self.nbits)))


def test_functions_of_other_hashers_are_cut(digits):
    hasher = Own().fit(digits.X)
    assert_array_equal(hasher.prefix(3).transform(digits.X), hasher.transform(digits.X)[:, :3])


def test_output_and_parameters(digits):
    backbone = nn.Sequential(nn.Linear(64, 8), nn.ReLU())
    hasher = TALRHasher(8, backbone=backbone, n_epochs=1, random_state=0).set_output(transform="pandas")
    shorter = hasher.fit(digits.X, digits.y).prefix(4)
    assert shorter.backbone is backbone
    assert list(shorter.transform(digits.X)) == [f"talrhasher{i}" for i in range(4)]
    shorter.set_output(transform="default")
    assert hasattr(hasher.transform(digits.X), "columns")
    assert shorter.partial_fit(digits.X, digits.y).transform(digits.X).shape[1] == 4
    none = LSHHasher(8, store_database=False).fit(digits.X).prefix(4)
    assert none.database_ is None


@pytest.fixture(scope="module")
def embedding(digits):
    options = {"metric": "euclidean", "n_epochs": 2, "random_state": 0}
    return lambda **more: EmbeddingHasher(48, **options | more).fit(digits.X, digits.y)


def test_searches_and_stores_take_prefixes(embedding, digits):
    hasher = embedding()
    assert isinstance(hasher.function_, ReconstructionFunction)
    short = hasher.prefix(16)
    items, queries = digits.X, digits.X_query[:20]
    index = HammingNeighbors(FrozenEstimator(short), query="real").fit(items)
    scores = hasher.project_queries(queries)[:, :16] @ signs(hasher.transform(items)[:, :16]).T
    found = index.kneighbors(queries, 30, return_distance=False)
    assert_allclose(np.take_along_axis(scores, found, 1), -np.sort(-scores)[:, :30], rtol=1e-4)
    _, ids = order_shortlist(queries, found, hasher=hasher, codes=hasher.encode(items)[found])
    real = HammingNeighbors(FrozenEstimator(hasher), query="real").fit(items)
    assert np.isin(ids[:, :5], real.kneighbors(queries, 30, return_distance=False)).mean() > 0.5
    stored = from_sentence_transformers(to_sentence_transformers(short.encode(items), nbits=16))
    assert stored.nbits == 16
    assert_array_equal(
        hamming_distances(short.encode(queries), stored.rows, nbits=16),
        hamming_distances(hasher.transform(queries)[:, :16], hasher.transform(items)[:, :16]),
    )


def test_factors_of_a_prefix(embedding, digits, tmp_path):
    """They are those of its codes: an item as a query has about the distance 0 to itself."""
    hasher = embedding(factors=True)
    short = hasher.prefix(24)
    assert short.database_.codes.factors is None
    norm, product = short.encode_factors(digits.X).T
    scores = (short.project_queries(digits.X) * signs(short.transform(digits.X))).sum(1)
    whole_norm, _ = hasher.encode_factors(digits.X).T
    assert_allclose(norm, whole_norm, rtol=1e-5)
    estimates = scores * norm**2 / product
    seen = np.median(estimates / norm**2)
    assert 0.5 < seen < 1.1
    index = HammingNeighbors(FrozenEstimator(short), query="real").fit(digits.X)
    assert (index.kneighbors(digits.X[:50], 5, return_distance=False) == np.arange(50)[:, None]).any(1).mean() > 0.8
    scorer = RetrievalScorer("ap", query="real")
    with pytest.raises(ValueError, match=r"`database` must be the samples, \(X, y\), with the factors of a prefix"):
        scorer(short, digits.X_query, digits.y_query)
    save(short, tmp_path / "hasher")
    assert_array_equal(load(tmp_path / "hasher").encode_factors(digits.X[:9]), short.encode_factors(digits.X[:9]))
