"""Targets: what is missing, mixed or no array gets one error with a line that mends it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags

import skhash
from skhash import ITQCCAHasher, LSHHasher, TALRHasher, registry

X = np.random.default_rng(0).normal(size=(40, 6))
y = np.arange(40) % 4
HASHERS = [TALRHasher(4, n_epochs=1), ITQCCAHasher(4), LSHHasher(4)]


def changed(index, value):
    targets = y.astype(object)
    targets[index] = value
    return targets


@pytest.mark.parametrize("hasher", HASHERS, ids=lambda hasher: type(hasher).__name__)
@pytest.mark.parametrize(
    ("targets", "error", "message"),
    [
        (changed(3, None), ValueError, "None or NaN for 1 of 40 samples"),
        (changed(3, np.nan), ValueError, "None or NaN for 1 of 40 samples"),
        (changed(3, pd.NA), ValueError, "None or NaN for 1 of 40 samples"),
        (changed(3, pd.NaT), ValueError, "None or NaN for 1 of 40 samples"),
        (["cat", None] * 20, ValueError, "None or NaN for 20 of 40 samples"),
        (pd.Series(["cat", None] * 20), ValueError, "20 of 40 samples|Input y contains NaN"),
        (changed(3, "cat"), ValueError, r"one type. Got numbers and text instead"),
        (changed(3, True), ValueError, r"one type. Got booleans and numbers instead"),
        (changed(3, b"cat"), ValueError, r"one type. Got numbers and values of type bytes"),
        ([["cat", "dog"], ["cat"]] * 20, ValueError, "Got lists of labels"),
        ([{"cat", "dog"}, {"cat"}] * 20, ValueError, "Got lists of labels"),
        ([{"cat"}] * 40, ValueError, "Got lists of labels"),
        (np.zeros((40, 0)), ValueError, r"at least one label per sample. Got shape \(40, 0\)"),
        (sparse.csr_matrix((40, 0)), ValueError, r"at least one label per sample. Got shape \(40, 0\)"),
        (pd.DataFrame(index=range(40)), ValueError, r"at least one label per sample. Got shape \(40, 0\)"),
        ([[]] * 40, ValueError, r"at least one label per sample. Got shape \(40, 0\)"),
        (
            np.zeros((40, 1, 1)),
            ValueError,
            r"`y` must hold class labels or a 0/1 matrix of labels. Got shape \(40, 1, 1\)",
        ),
        ({"y": y}, TypeError, "Got a value of type dict"),
        ("cat", TypeError, "Got a value of type str"),
        (3, TypeError, "Got a value of type int"),
        ((label for label in y), TypeError, "Got a value of type generator"),
        (y[:3], ValueError, "40.*3|3.*40"),
        ([], ValueError, "40.*0|0.*40"),
        (y + 1j, ValueError, "[Cc]omplex"),
        ([np.inf, 1] * 20, ValueError, "inf"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bad_targets(hasher, targets, error, message):
    with pytest.raises(error, match=message):
        clone(hasher).fit(X, targets)


def test_the_remedy_for_missing_targets():
    targets = changed(3, None)
    with pytest.raises(ValueError, match="`y` must hold a target for each sample") as error:
        TALRHasher(4, n_epochs=1).fit(X, targets)
    scope = {"pandas": pd, "X": X, "y": targets}
    exec(str(error.value).partition("samples out: ")[2], scope)
    assert len(TALRHasher(4, n_epochs=1).fit(scope["X"], scope["y"]).database_.y) == 39


def test_the_remedy_for_lists_of_labels():
    targets = [["cat", "dog"], ["cat"], ["sea"]] * 13 + [["dog"]]
    with pytest.raises(ValueError, match="Convert them first") as error:
        TALRHasher(4, n_epochs=1).fit(X, targets)
    scope = {"y": targets}
    exec(str(error.value).splitlines()[1], scope)
    assert TALRHasher(4, n_epochs=1).fit(X, scope["y"]).database_.y.shape == (40, 3)


# --- no targets

SUPERVISED = [
    method
    for method in registry.METHODS.values()
    if get_tags(getattr(skhash, method.class_name)()).target_tags.required
]


@pytest.mark.parametrize("method", SUPERVISED, ids=lambda method: method.name)
def test_a_fit_without_targets_names_what_helps(method):
    hasher = getattr(skhash, method.class_name)(nbits=4)
    remedy = "ITQHasher" if method.needs_labels else "DistanceAffinity"
    with pytest.raises(ValueError, match=rf"requires y to be passed, but the target y is None.*\s.*{remedy}"):
        hasher.fit(X)


def test_the_remedy_for_no_targets():
    with pytest.raises(ValueError, match="Without labels learn from the distances") as error:
        TALRHasher(4).fit(X)
    scope = {"TALRHasher": TALRHasher, "X": X}
    exec(str(error.value).splitlines()[1], scope)
    assert scope["hasher"].transform(X).shape == (40, 4)


def test_no_targets_for_a_given_affinity():
    with pytest.raises(ValueError, match="Pass the targets that <function"):
        TALRHasher(4, affinity=lambda a, b: a[:, None] == b).fit(X)
