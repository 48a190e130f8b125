"""LSH of sparse samples: the codes of the dense ones, without a dense copy."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from skhash import ITQHasher, LSHHasher
from skhash.affinity import DistanceAffinity
from skhash.metrics import RetrievalScorer

METHODS = ("transform", "encode", "project")


def draw(n=300, n_features=50, density=0.1, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)  # draws places without a permutation of all of them
    return sparse.random_array((n, n_features), density=density, random_state=rng, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "csc_matrix", "csc_array", "coo_array", "lil_matrix"])
def test_codes_are_those_of_the_dense_samples(kind, dtype):
    X = (10 * draw()).astype(dtype)
    given, dense, y = getattr(sparse, kind)(X), X.toarray(), np.arange(300) % 3
    hasher = LSHHasher(24, random_state=0).fit(given, y)
    expected = LSHHasher(24, random_state=0).fit(dense, y)
    assert_allclose(hasher.mean_, expected.mean_, rtol=1e-6)
    assert_array_equal(hasher.projection_, expected.projection_)
    assert_array_equal(hasher.database_.codes.rows, expected.database_.codes.rows)
    for method in METHODS:
        codes = getattr(hasher, method)(given)
        assert codes.dtype == getattr(expected, method)(dense).dtype
        # fitted on one kind, a hasher takes the other
        for other in (
            getattr(expected, method)(dense),
            getattr(expected, method)(given),
            getattr(hasher, method)(dense),
        ):
            if method == "project":
                assert_allclose(codes, other, atol=1e-4 if dtype == np.float32 else 1e-10)
            else:
                assert_array_equal(codes, other)
    assert hasher.score(given, y) == expected.score(dense, y)


def test_samples_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 30)) < 0.5, 1e6 + rng.normal(size=(200, 30)), 0.0)
    expected = LSHHasher(64, random_state=0).fit(X)
    assert_array_equal(
        LSHHasher(64, random_state=0).fit(sparse.csr_array(X)).encode(sparse.csr_array(X)), expected.encode(X)
    )


@pytest.mark.filterwarnings("ignore:The codes of all")
def test_a_sample_that_equals_the_mean_has_the_activation_0():
    X = sparse.csr_array(np.tile([[0.1, 0.0, 0.7, 0.3]], (4, 1)))  # 4 equal samples: their mean is exact
    hasher = LSHHasher(40, random_state=0).fit(X)
    assert_array_equal(hasher.project(X), 0)
    assert_array_equal(hasher.transform(X), 1)


def test_sparse_samples_need_no_dense_copy():
    X = draw(5_000, 100_000, density=1e-4).tocsr()  # 4 GB if it were dense
    tracemalloc.start()
    codes = LSHHasher(8, random_state=0).fit(X).encode(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert codes.shape == (5_000, 1)
    assert peak < 50e6  # the map and the mean take 7 MB


def test_values_that_are_not_finite_are_refused():
    X = draw().tocsr()
    X.data[3] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        LSHHasher(8).fit(X)


def test_tags_say_which_hashers_take_sparse_samples():
    assert get_tags(LSHHasher()).input_tags.sparse
    assert not get_tags(ITQHasher()).input_tags.sparse


def test_text_in_a_pipeline_and_scorers():
    texts = ["a red apple", "the red apple", "one red apple", "blue deep sea", "the blue sea", "a deep sea"] * 3
    y = np.repeat([0, 1], 3).tolist() * 3
    pipeline = make_pipeline(TfidfVectorizer(), LSHHasher(64, random_state=0)).fit(texts, y)
    assert RetrievalScorer("ap")(pipeline, texts, y) > 0.8
    assert RetrievalScorer("ap", database=(texts, y))(pipeline, texts, y) > 0.8


def test_distances_of_sparse_samples_are_refused():
    with pytest.raises(
        TypeError, match=r"dense vectors for DistanceAffinity. Got a sparse array instead. .*TruncatedSVD"
    ):
        LSHHasher(8, affinity=DistanceAffinity()).fit(draw().tocsr())
