"""The values of samples: far from 0, very large, very small. Every hasher is right, or says in one line what to do."""

import pickle
from functools import cache, partial
from importlib import import_module

import numpy as np
import pytest
from _helpers import every_hasher, quick
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

from skhash import BREHasher, ITQHasher, StructHashHasher, TALRHasher
from skhash.persistence import load, save
from skhash.registry import METHODS

X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]
ONE = np.eye(64)[20]  # a feature
TINY = {"nbits": 4, "n_epochs": 1, "n_iter": 2, "n_queries": 10, "n_starts": 1}
TINY["metric"] = "euclidean"  # of EmbeddingHasher; an offset changes the angles between vectors


@pytest.fixture(scope="module")
def fitted():
    """A hasher fitted to the digits, one of each class."""
    return cache(lambda make: make(**TINY).fit(X, y))


@pytest.mark.parametrize("offset", [1e9, 1e9 * ONE], ids=["all features", "one feature"])
@every_hasher
def test_an_offset_changes_no_code(make, fitted, offset):
    shifted = make(**TINY).fit(X + offset, y).transform(X + offset)
    assert np.mean(shifted != fitted(make).transform(X)) < 1e-3  # a mean near 1e9 has a rounding error of 1e-7


@pytest.mark.parametrize("hash_function", ["linear", "stump", "trees"])
def test_an_offset_changes_no_code_of_other_functions(hash_function):
    options = quick("StructHashHasher", **TINY).get_params() | {"hash_function": hash_function}
    make = partial(StructHashHasher, **options)
    assert_array_equal(make().fit(X + 1e9, y).transform(X + 1e9), make().fit(X, y).transform(X))


def test_an_offset_changes_no_distance_of_bre():
    fit = BREHasher(8, reconstruct="distances", n_anchors=40, max_iter=2, random_state=0).fit
    assert_array_equal(fit(X + 1e9).transform(X + 1e9), fit(X).transform(X))


@pytest.mark.parametrize("scale", [2.0**93, 2.0**-93], ids=["large", "small"])
@every_hasher
def test_a_power_of_two_changes_no_code(make, fitted, scale):
    values = (X * scale).astype(np.float32)  # float32 has no squares of them
    assert_array_equal(make(**TINY).fit(values, y).transform(values), fitted(make).transform(X))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (X * 1e154, r"`X` must have values between -1e\+30 and 1e\+30. Got 1.6e\+155 instead. Multiply all samples by"),
        (X * -1e154, r"`X` must have values between -1e\+30 and 1e\+30. Got -1.6e\+155 instead."),
        ((X * 2e37).astype(np.float32), r"`X` must have values between -1e\+30 and 1e\+30. Got 3.2e\+38 instead."),
        (X * 1e-170, r"`X` must have a feature whose values differ by 1e-30 or more. Got .* 1.6e-169 instead. Mult"),
    ],
    ids=["large", "negative", "float32", "small"],
)
@every_hasher
def test_values_out_of_range(make, values, message):
    with pytest.raises(ValueError, match=message):
        make().fit(values, y)


@pytest.mark.parametrize("Hasher", [ITQHasher, TALRHasher])
def test_queries_out_of_range(Hasher):
    hasher = Hasher(8, **({"n_epochs": 1} if Hasher is TALRHasher else {}), random_state=0).fit(X, y)
    expected = hasher.encode(X)
    for method in (hasher.transform, hasher.encode, hasher.project):
        with pytest.raises(ValueError, match=r"`X` must have values between .* Got 1e\+40 instead"):
            method(np.full((2, 64), 1e40))
    with pytest.raises(ValueError, match="`X` must have a feature whose values differ by"):
        hasher.fit(X * 1e-170, y)
    assert_array_equal(hasher.encode(X), expected)
    assert hasher.transform(X * 1e-170).shape == (300, 8)  # equal, as good as 0: no error


@pytest.mark.filterwarnings("ignore::skhash.exceptions.DegenerateCodesWarning")
def test_equal_samples_are_in_range():
    assert ITQHasher(2).fit(np.full((4, 3), 1e-200)).transform(np.full((1, 3), 1e-200)).shape == (1, 2)
    images = np.zeros((4, 1, 2, 2), np.uint8)
    assert TALRHasher(2, n_epochs=1).fit(images, [0, 0, 1, 1]).transform(images).shape == (4, 2)


@pytest.mark.parametrize(("name", "dtype"), [("TALRHasher", float), ("ITQHasher", np.float32), ("KSHHasher", float)])
def test_saved_hashers_keep_the_offset(name, dtype, tmp_path):
    shifted = (X + 1e6 * ONE).astype(dtype)  # the fewest digits that float32 has
    hasher = quick(name, **TINY).fit(shifted, y)
    save(hasher, tmp_path / "hasher.safetensors")
    for copy in (load(tmp_path / "hasher.safetensors"), pickle.loads(pickle.dumps(hasher))):
        assert_array_equal(copy.project(shifted), hasher.project(shifted))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The mean of 64 of the features")
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_an_offset_changes_no_score_at_the_default_parameters(method):
    digits = load_digits()
    Hasher = getattr(import_module(method.module), method.class_name)

    def score(samples):
        hasher = Hasher(nbits=16, **method.parameters)
        few_epochs = {"n_epochs": 10, "random_state": 0}  # up to 300 by default, which change nothing here
        hasher.set_params(**{name: few_epochs[name] for name in few_epochs.keys() & hasher.get_params().keys()})
        return hasher.fit(samples[:500], digits.target[:500]).score(samples[500:], digits.target[500:])

    near = digits.data
    if "metric" in Hasher().get_params():  # its cosines are those of centered samples
        near = near - near[:500].mean(axis=0)
    assert score(digits.data + 1e9) == pytest.approx(score(near), abs=0.005)
