"""Codes that tell nothing apart: warnings of fit, and activations that have no bit."""

import re
import warnings

import numpy as np
import pytest
from _helpers import every_hasher, quick
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

from skhash import ITQHasher, LSHHasher, PCAHasher, StructHashHasher, TALRHasher
from skhash.base import describe_shared
from skhash.codes import Codes, binarize
from skhash.exceptions import DegenerateCodesWarning

X, y = load_digits(return_X_y=True)


@pytest.mark.parametrize("store_database", [True, False])
@pytest.mark.parametrize("Hasher", [ITQHasher, LSHHasher, TALRHasher])
def test_one_code(Hasher, store_database):
    hasher = Hasher(8, store_database=store_database, random_state=0)
    options = {"n_epochs": 1} if Hasher is TALRHasher else {}
    samples = "all 40 training samples"
    with pytest.warns(DegenerateCodesWarning, match=f"The codes of {samples} are equal.*StandardScaler") as caught:
        hasher.set_params(**options).fit(np.ones((40, 3)), np.arange(40) % 2)
    assert [warning.filename for warning in caught] == [__file__]
    assert hasher.transform(np.ones((1, 3))).shape == (1, 8)


def test_at_most_1000_samples_are_encoded():
    with pytest.warns(DegenerateCodesWarning, match="codes of 1000 evenly spaced training samples of 3000 are equal"):
        LSHHasher(8, store_database=False, random_state=0).fit(np.ones((3000, 3)))


def test_constant_bits():
    two_kinds = np.repeat(X[:2], 20, axis=0)
    with pytest.warns(DegenerateCodesWarning, match=r"\d of 8 bits are constant on all 40 .* Lower `nbits`") as caught:
        hasher = StructHashHasher(8, hash_function="stump", random_state=0).fit(two_kinds, np.repeat([0, 1], 20))
    n_constant = int((np.ptp(hasher.transform(two_kinds), axis=0) == 0).sum())
    assert str(caught[0].message).startswith(f"{n_constant} of 8")


@pytest.mark.parametrize("store_database", [True, False])
def test_classes_that_share_a_code(store_database):
    places, labels = np.array([5, 60, 200, 5]), np.array(["a", "b", "c", "d"])  # a and d have the same samples
    which = np.arange(1200) % 4
    hasher = quick("TALRHasher", nbits=16, store_database=store_database)
    message = r"2 of 4 classes have the code of another class: most samples of the classes 'a' and 'd' have the same"
    with pytest.warns(DegenerateCodesWarning, match=message) as caught:
        hasher.fit(X[places[which]], labels[which])
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("codes", "nbits", "labels", "message"),
    [
        ([1, 1, 1, 2, 3, 3], 16, list("aabbbb"), None),  # b has two codes
        ([1, 1, 1, 2, 1, 3], 16, list("aabbbb"), None),  # only half of the samples of b
        ([1, 1, 1, 1, 1, 3], 16, list("aabbbb"), "2 of 2 classes .* 'a' and 'b'"),
        ([1, 1, 1, 1, 1, 3], 5, list("aabbbb"), None),  # random codes of two classes are equal in one case of 32
        ([7, 1, 7, 1, 5, 6], 16, [4, 2, 9, 3, 5, 6], "4 of 6 classes .* 2 and 3"),
    ],
)
def test_which_classes_share_a_code(codes, nbits, labels, message):
    rows = np.zeros((6, (nbits + 7) // 8), dtype=np.uint8)
    rows[:, 0] = codes
    found = describe_shared(Codes(rows, nbits), np.array(labels))
    assert found is None if message is None else re.match(message, found)


def test_nothing_is_lost_where_warnings_are_errors():
    hasher = LSHHasher(8, random_state=0)
    with pytest.raises(DegenerateCodesWarning):  # warnings are errors in the tests
        hasher.fit(np.ones((40, 3)))
    assert_array_equal(hasher.transform(np.ones((2, 3))).shape, (2, 8))


@pytest.mark.filterwarnings("error")
@every_hasher
def test_no_false_alarm(make):
    make(n_epochs=5, n_starts=1, n_queries=50).fit(X[:500], y[:500])


@pytest.mark.parametrize(
    ("n", "nbits", "n_varying", "message"),
    [
        (2, 4, 0, None),  # by chance in one case of 16
        (2, 5, 0, "The codes of all 2 training samples are equal"),
        (9, 3, 0, "The codes of all 9 training samples are equal"),
        (6, 2, 1, None),  # by chance in one case of 16
        (10, 2, 1, "1 of 2 bits are constant on all 10 training samples: 1. They"),
        (18, 9, 1, "8 of 9 bits are constant on all 18 training samples: 1, 2, 3, 4, 5 and 3 more"),
        (18, 2, 2, None),
    ],
)
def test_few_samples_may_agree_by_chance(n, nbits, n_varying, message):
    corners = np.zeros((n, nbits))
    corners[:, :n_varying] = (np.arange(n)[:, None] >> np.arange(n_varying)) & 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PCAHasher(nbits).fit(corners)
    assert [str(warning.message).startswith(message or "never") for warning in caught] == [True] * (message is not None)


# --- activations that are not finite


@pytest.mark.parametrize("activations", [[[np.nan]], [[1.0, -np.inf, np.nan]], np.full((2, 2), np.nan, np.float32)])
def test_nan_has_no_bit(activations):
    with pytest.raises(ValueError, match=r"`activations` must not have NaN. Got \d instead"):
        binarize(activations)


def test_infinity_has_a_sign():
    assert_array_equal(binarize([[np.inf, -np.inf, -0.0]]), [[1, 0, 1]])


@pytest.mark.parametrize("method", ["project", "transform", "encode"])
@pytest.mark.parametrize("name", ["ITQHasher", "TALRHasher"])
def test_weights_that_are_not_finite(method, name):
    hasher = quick(name, n_epochs=1).fit(X[:200], y[:200])
    if name == "ITQHasher":
        hasher.function_.projection[:] = np.nan
    else:
        hasher.function_.layers[-1][1][:] = np.inf
    remedy = r"or fit again\." if name == "ITQHasher" else "fit again with a lower `learning_rate`"
    with pytest.raises(ValueError, match=f"`X` must have finite activations. Got .* for 5 of 5 samples.*{remedy}"):
        getattr(hasher, method)(X[:5])


def test_a_training_that_diverges_names_the_learning_rate():
    hasher = quick("TALRHasher", n_epochs=3).fit(X[:200], y[:200])
    codes = hasher.encode(X)
    with pytest.raises(FloatingPointError, match=r"must be finite.* Lower `learning_rate` \(now 3e\+38\)"):
        hasher.set_params(learning_rate=3e38, optimizer="sgd", lr_schedule="constant").fit(X[:200], y[:200])
    assert_array_equal(hasher.encode(X), codes)
