"""The fingerprint of a hasher: equal for equal functions, in every process, and another one for other functions."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from _helpers import every_hasher, run_python
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.svm import LinearSVC

from skhash import CGHashHasher, EmbeddingHasher, ITQHasher, LSHHasher, TALRHasher
from skhash.base import BaseHasher
from skhash.functions import LinearFunction
from skhash.persistence import save


@every_hasher
def test_a_loaded_hasher_has_the_same_fingerprint(make, few, copy):
    hasher = make(nbits=8).fit(few.X, few.y)
    before = hasher.fingerprint_
    assert len(before) == 16
    assert copy(hasher).fingerprint_ == pickle.loads(pickle.dumps(hasher)).fingerprint_ == before
    assert FrozenEstimator(hasher).fingerprint_ == hasher.prefix(8).fingerprint_ == before


@pytest.mark.parametrize("make", [ITQHasher, LSHHasher, EmbeddingHasher, TALRHasher])
def test_a_refit_to_other_samples_has_another_fingerprint(make, few):
    hasher = make(8, random_state=0)
    if hasattr(hasher, "n_epochs"):
        hasher.set_params(n_epochs=2)
    before = hasher.fit(few.X, few.y).fingerprint_
    assert clone(hasher).fit(few.X, few.y).fingerprint_ == before
    assert hasher.fit(few.X[::2] + 1, few.y[::2]).fingerprint_ != before


@pytest.mark.parametrize("make", [ITQHasher, EmbeddingHasher])
def test_a_prefix_has_a_fingerprint_of_its_own(make, few):
    hasher = make(16, random_state=0).fit(few.X)
    found = {hasher.prefix(nbits).fingerprint_ for nbits in (4, 8, 12, 16)}
    assert len(found) == 4
    assert hasher.prefix(8).fingerprint_ == hasher.prefix(12).prefix(8).fingerprint_ != hasher.fingerprint_


def test_another_training_gives_another_fingerprint(few):
    hasher = TALRHasher(8, n_epochs=1, random_state=0).fit(few.X, few.y)
    before = hasher.fingerprint_
    assert hasher.set_params(n_epochs=2, batch_size=16).fingerprint_ == before  # parameters alone change no code
    assert hasher.partial_fit(few.X, few.y).fingerprint_ != before


def test_the_memory_order_and_the_byte_order_change_nothing():
    mean, projection = np.zeros(3), np.arange(6.0).reshape(3, 2)
    found, hasher = set(), LSHHasher(2)
    for array in (projection, np.asfortranarray(projection), projection.astype(">f8")):
        hasher.function_ = LinearFunction(mean, array)
        found.add(hasher.fingerprint_)
    assert len(found) == 1


def test_another_process_finds_the_same_fingerprint(few, tmp_path):
    path, hasher = tmp_path / "itq.safetensors", ITQHasher(8, random_state=0).fit(few.X)
    save(hasher, path)
    code = f"from skhash.persistence import load; print(load({str(path)!r}).fingerprint_)"
    assert run_python(code, env={"PYTHONHASHSEED": "1"}).strip() == hasher.fingerprint_


@pytest.mark.parametrize("hash_function", ["kernel", "linear", "trees", LinearSVC()])
def test_the_function_alone_decides_the_fingerprint(hash_function):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 3
    hasher = CGHashHasher(4, hash_function=hash_function, random_state=0).fit(X, y)
    other = clone(hasher).set_params(random_state=1).fit(X[::-1], y)
    copied = pickle.loads(pickle.dumps(hasher))
    before = hasher.fingerprint_
    copied.transform(X)  # may keep arrays for the next call
    assert copied.fingerprint_ == before
    assert hasher.set_params(C=2 * hasher.C_).fingerprint_ == before != other.fingerprint_


def test_a_hasher_that_is_not_fitted_has_none():
    assert not hasattr(ITQHasher(8), "fingerprint_")
    with pytest.raises(NotFittedError):
        _ = ITQHasher(8).fingerprint_


@dataclass
class Signs:
    """A function of one's own, without arrays; its objects cannot be keys."""

    convert: Any
    nbits: int = 3
    shape: tuple[int, ...] = (3,)

    def activations(self, X):
        return self.convert(X)

    def arrays(self):
        raise TypeError("no arrays")


class Own(BaseHasher):
    def __init__(self, convert=np.negative, nbits=3, *, affinity="auto", store_database=False):
        self.convert, self.nbits, self.affinity, self.store_database = convert, nbits, affinity, store_database

    def _learn(self, X, relevance, rng):
        return Signs(self.convert)

    def _store_database(self, X, targets):
        self.database_ = None


def test_functions_of_ones_own():
    own = [Own(convert) for convert in (np.negative, np.positive, np.negative)]
    for hasher in own:
        hasher.function_ = Signs(hasher.convert)
    first, second, third = (hasher.fingerprint_ for hasher in own)
    assert first == third != second
    own[0].function_ = Signs(lambda X: X)
    with pytest.raises(TypeError, match=r"`function_` must be identifiable to have a fingerprint.* Got a .*Signs inst"):
        _ = own[0].fingerprint_
