"""What all shallow hashers do: invariances, samples of little variety, and better codes than a baseline."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import skhash
from skhash import (
    AGHHasher,
    BREHasher,
    ITQCCAHasher,
    ITQHasher,
    KSHHasher,
    LSHHasher,
    PCAHasher,
    SDHHasher,
    SpectralHasher,
    SphericalHasher,
)
from skhash.affinity import DistanceAffinity, PrecomputedAffinity, Relevance, SharedLabelsAffinity
from skhash.codes import hamming_distances
from skhash.hashers.shallow import LinearHasher
from skhash.persistence import load, save
from skhash.registry import METHODS

SHALLOW = {getattr(skhash, method.class_name): method for method in METHODS.values() if method.family == "shallow"}
SUPERVISED = [Hasher for Hasher, method in SHALLOW.items() if method.learns_from != "samples"]
LINEAR = [Hasher for Hasher in SHALLOW if Hasher not in SUPERVISED and issubclass(Hasher, LinearHasher)]
UNSUPERVISED = [Hasher for Hasher in SHALLOW if Hasher not in (*SUPERVISED, *LINEAR)]


def fit(Hasher, X, y=None, **params):
    if Hasher is not SpectralHasher:
        params["random_state"] = 0
    return Hasher(**params).fit(X, y)


# --- samples of little variety


@pytest.mark.parametrize("nbits", [1, 8])
@pytest.mark.parametrize("Hasher", [*LINEAR, *UNSUPERVISED])
def test_two_kinds_of_samples_have_two_codes(Hasher, nbits):
    X = np.repeat([[0.0, 1.0, 0.1], [2.0, 1.0, 0.1]], [5, 6], axis=0)
    bits = fit(Hasher, X, nbits=nbits).transform(X)
    assert len(np.unique(bits, axis=0)) == 2
    assert_array_equal(fit(Hasher, X[[0, -1]], nbits=nbits).transform(X).shape, (11, nbits))


@pytest.mark.filterwarnings("ignore:The codes of all")
@pytest.mark.parametrize("Hasher", SUPERVISED)
def test_two_kinds_of_samples_with_labels_have_two_codes(Hasher):
    y = np.repeat([0, 1], 5)
    X = np.repeat([[0.0, 1.0], [2.0, 1.0]], 5, axis=0)
    assert len(np.unique(fit(Hasher, X, y, nbits=5).transform(X), axis=0)) == 2
    equal = fit(Hasher, np.ones((10, 2)), y, nbits=5)
    assert_array_equal(np.ptp(equal.transform(np.ones((3, 2))), axis=0), 0)


@pytest.mark.filterwarnings("ignore:The codes of all")
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 3])
@pytest.mark.parametrize("Hasher", [*LINEAR, *UNSUPERVISED])
def test_equal_samples_have_equal_codes(Hasher, value):
    X = np.full((50, 7), value)
    hasher = fit(Hasher, X, nbits=9)
    assert len(np.unique(hasher.transform(X), axis=0)) == 1
    assert np.isfinite(hasher.project(X + 1.0)).all()


@pytest.mark.parametrize("Hasher", UNSUPERVISED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_repeated_samples_have_one_code(Hasher, dtype):
    X = (np.random.default_rng(0).random((200, 8)) < 0.2).astype(dtype) / 10
    hasher = fit(Hasher, X, nbits=12)
    bits = hasher.transform(X)
    distinct, group = np.unique(X, axis=0, return_inverse=True)
    assert_array_equal(bits, hasher.transform(distinct)[group])
    assert len(np.unique(bits, axis=0)) > len(distinct) / 2


# --- invariances


@pytest.mark.parametrize("Hasher", [AGHHasher, SphericalHasher])
def test_float32_samples_have_the_codes_of_float64(Hasher):
    tags = np.random.default_rng(0).random((300, 40)) < 0.04  # with many equal samples, which move pivots far away
    wide, narrow = (tags.astype(dtype) for dtype in (np.float64, np.float32))
    codes = fit(Hasher, wide, nbits=8).encode(wide)
    assert_array_equal(codes, fit(Hasher, narrow, nbits=8).encode(narrow))
    assert len(np.unique(codes)) > 2


@pytest.mark.parametrize("Hasher", [*LINEAR, *SUPERVISED, *UNSUPERVISED])
def test_codes_do_not_depend_on_the_order_in_memory(digits, Hasher):
    X = digits.X + np.random.default_rng(0).standard_normal(digits.X.shape)
    by_features = np.asfortranarray(X)  # as in a data frame
    codes = (fit(Hasher, samples, digits.y, nbits=8).encode(X) for samples in (X, by_features))
    assert_array_equal(*codes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("Hasher", [ITQHasher, KSHHasher])
def test_searches_do_not_amplify_the_order_in_memory(Hasher, dtype):
    X = np.random.default_rng(0).standard_normal((1300, 24)).astype(dtype)
    X[:, 3] *= 50
    y = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    codes = (fit(Hasher, samples, y, nbits=4).encode(X) for samples in (X, np.asfortranarray(X)))
    assert_array_equal(*codes)


@pytest.mark.parametrize("Hasher", UNSUPERVISED)
def test_distances_do_not_depend_on_the_mean_and_the_scale_of_the_samples(digits, Hasher):
    def distances(X, queries):
        bits = fit(Hasher, X, nbits=16).transform(queries)
        return hamming_distances(bits, bits)

    X, queries = digits.X[:250], digits.X_query[:100]
    assert np.mean(distances(X, queries) != distances(2 * X + 64, 2 * queries + 64)) < 1e-3


@pytest.mark.parametrize("Hasher", SUPERVISED)
def test_equivalent_labels_give_the_same_codes(digits, Hasher):
    X, y, one_hot = digits.X[:120], digits.y[:120], np.eye(10)[digits.y[:120]]
    codes = fit(Hasher, X, y, nbits=4).transform(X)
    words = np.array(list("abcdefghij"))[y]
    for labels in (words, y[:, None], one_hot, one_hot > 0, sparse.csr_array(one_hot)):
        assert_array_equal(fit(Hasher, X, labels, nbits=4).transform(X), codes)


def test_the_label_matrix_holds_one_column_per_label():
    expected = [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert_array_equal(Relevance.of(["b", "a", "c"]).labels(), expected)
    for y in (np.array(expected), np.array(expected, dtype=bool), sparse.csr_matrix(expected)):
        matrix = Relevance.of(y, SharedLabelsAffinity(binary=True)).labels()
        assert_array_equal(matrix, expected)
        assert matrix.dtype == np.float64


# --- errors


@pytest.mark.parametrize("Hasher", [ITQCCAHasher, SDHHasher])
@pytest.mark.parametrize(
    "affinity",
    [DistanceAffinity(), PrecomputedAffinity(np.eye(10)), lambda a, b: a == b.T],
    ids=["distances", "matrix", "function"],
)
def test_an_affinity_without_labels_is_an_error(digits, Hasher, affinity):
    with pytest.raises(ValueError, match=r"affinity.*ClassAffinity.*SharedLabelsAffinity"):
        Hasher(nbits=4, affinity=affinity).fit(digits.X, digits.y[:, None])


@pytest.mark.parametrize("Hasher", [ITQCCAHasher, KSHHasher, SDHHasher])
def test_a_ridge_that_is_lost_in_rounding_is_an_error(Hasher):
    X = np.random.default_rng(0).normal(size=(60, 3))
    X = np.hstack([X, X @ [[1.0, 2.0, 0.3], [0.1, 0.7, 3.0], [1.1, 1.2, 1.3]]])  # of rank 3, as are the kernel values
    gamma = {} if Hasher is ITQCCAHasher else {"gamma": 1e-9}
    with pytest.raises(ValueError, match=r"`ridge` must be large enough .* Got 1e-30 instead; use 1e-9 or more"):
        Hasher(nbits=4, ridge=1e-30, **gamma).fit(X, np.arange(60) % 3)


# --- better than a baseline


@pytest.mark.parametrize("Hasher", [AGHHasher, BREHasher, KSHHasher, SDHHasher, SphericalHasher])
def test_the_number_of_iterations_is_at_least_one_and_at_most_the_maximum(digits, Hasher, tmp_path):
    X, y = digits.X[:150], digits.y[:150]
    fits = [Hasher(8, max_iter=n, random_state=0).fit(X, y) for n in (1, 3)]
    assert fits[0].n_iter_ == 1
    assert 1 < fits[1].n_iter_ <= 3
    save(fits[1], tmp_path / "hasher")
    assert load(tmp_path / "hasher").n_iter_ == fits[1].n_iter_
    assert type(fits[1].n_iter_) is int


@pytest.mark.filterwarnings("ignore:The codes of all")
@pytest.mark.parametrize("Hasher", [AGHHasher, BREHasher, KSHHasher, SDHHasher, SphericalHasher])
def test_a_fit_that_ends_at_its_start_counts_as_one_iteration(Hasher):
    X, y = np.zeros((20, 3)), np.arange(20) % 2
    assert Hasher(2, random_state=0).fit(X, y).n_iter_ >= 1


@pytest.fixture(scope="module")
def baselines(digits):
    return {Hasher: score(Hasher, digits) for Hasher in (ITQHasher, LSHHasher, PCAHasher)}


def score(Hasher, digits):
    return fit(Hasher, digits.X, digits.y, nbits=16).score(digits.X_query, digits.y_query)


@pytest.mark.parametrize(
    ("Hasher", "Baseline", "margin"),
    [
        (ITQHasher, PCAHasher, 0.1),
        (ITQCCAHasher, ITQHasher, 0.15),
        (KSHHasher, ITQHasher, 0.15),
        (SDHHasher, ITQHasher, 0.15),
        (BREHasher, ITQHasher, 0.1),
        (AGHHasher, LSHHasher, 0),
        (SphericalHasher, LSHHasher, 0),
    ],
)
def test_ranks_digits_better_than_the_baseline(digits, baselines, Hasher, Baseline, margin):
    assert score(Hasher, digits) > baselines[Baseline] + margin
