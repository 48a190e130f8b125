"""Hashers whose class is not part of skhash: in files, and in the files of indexes."""

import sys
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pytest
from _helpers import assert_same_hasher
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import LSHHasher
from skhash.base import BaseHasher
from skhash.exceptions import InvalidFileError
from skhash.functions import OPTIONAL, Array, LinearFunction
from skhash.hashers.shallow import LinearHasher
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load, save


class Mine(LinearHasher):
    """A linear map, with an attribute of its own, and one that not every fit sets."""

    medians_: Annotated[npt.NDArray[np.float64], Array("nbits")]
    more_: Annotated[int, OPTIONAL]

    def __init__(self, nbits=8, shrink=1.0, *, affinity="auto", store_database=True, random_state=None):
        super().__init__(nbits, affinity=affinity, store_database=store_database, random_state=random_state)
        self.shrink = shrink

    def _learn_map(self, X, relevance, rng):
        projection = self.shrink * rng.standard_normal((X.shape[1], self.nbits))
        self.medians_ = np.median(X @ projection, axis=0)
        return projection


class OwnFunction(LinearFunction):
    """A kind of function that no file can hold."""


class WithOwnFunction(BaseHasher):
    def __init__(self, nbits=8, *, affinity="auto", store_database=True):
        self.nbits, self.affinity, self.store_database = nbits, affinity, store_database

    def _learn(self, X, relevance, rng):
        return OwnFunction(X.mean(axis=0), np.eye(X.shape[1], self.nbits))


def test_a_class_of_ones_own_is_loaded_if_it_is_given(few, copy):
    hasher = Mine(12, shrink=0.5, random_state=0).fit(few.X, few.y)
    loaded = copy(hasher, classes=[LSHHasher, Mine])
    assert_same_hasher(loaded, hasher, few.X_query, few.y_query)
    assert loaded.shrink == 0.5
    assert_array_equal(loaded.medians_, hasher.medians_)


def test_without_the_class_nothing_is_imported(few, tmp_path):
    save(Mine(4).fit(few.X), tmp_path / "mine")
    with pytest.raises(
        InvalidFileError, match=r"mine holds a hasher of the class .*\.Mine, .*load\(path, classes=\[Mine\]\)"
    ):
        load(tmp_path / "mine")
    with pytest.raises(TypeError, match="`classes` must hold classes that derive from"):
        load(tmp_path / "mine", classes=[StandardScaler])
    with pytest.raises(TypeError, match="`classes` must hold classes that derive from"):
        load(tmp_path / "mine", classes=Mine(4))


def test_pipelines_and_indexes_hold_such_a_hasher(few, copy):
    pipeline = make_pipeline(StandardScaler(), Mine(12, random_state=0)).fit(few.X)
    assert_array_equal(copy(pipeline, classes=[Mine]).transform(few.X_query), pipeline.transform(few.X_query))
    for hasher in (Mine(12, random_state=0), make_pipeline(StandardScaler(), Mine(12, random_state=0))):
        index = HammingNeighbors(hasher).fit(few.X)
        loaded = copy(index, classes=[Mine])
        assert_array_equal(loaded.kneighbors(few.X_query)[1], index.kneighbors(few.X_query)[1])
        with pytest.raises(InvalidFileError, match=r"classes=\[Mine\]"):
            copy(index)


def test_what_cannot_be_saved_says_why(few, tmp_path):
    hasher = WithOwnFunction().fit(few.X)
    with pytest.raises(TypeError, match=r"a `function_` that a file can hold, one of .*OwnFunction.*skops or joblib"):
        save(hasher, tmp_path / "mine")
    with pytest.raises(NotFittedError):
        save(WithOwnFunction(), tmp_path / "mine")
    annotated = Mine(4).fit(few.X)
    annotated.other_ = 1
    with pytest.raises(ValueError, match=r"`other_` is not an attribute .*, whose class does not annotate it"):
        save(annotated, tmp_path / "mine")
    annotated = Mine(4).fit(few.X)
    annotated.medians_ = annotated.medians_[:3]
    with pytest.raises(ValueError, match=r"`medians_` must have shape \(nbits\)"):
        save(annotated, tmp_path / "mine")


def test_an_index_whose_hasher_cannot_be_saved_takes_it_again(few, tmp_path):
    index = HammingNeighbors(WithOwnFunction()).fit(few.X)
    save(index, tmp_path / "index")
    loaded = load(tmp_path / "index", hasher=index.hasher_)
    assert_array_equal(loaded.kneighbors(few.X_query)[1], index.kneighbors(few.X_query)[1])


def test_a_subclass_with_the_name_of_a_hasher_of_skhash(few, copy):
    same_name = type("LSHHasher", (LSHHasher,), {"__module__": __name__})
    loaded = copy(same_name(4, random_state=0).fit(few.X), classes=[same_name])
    assert type(loaded) is same_name
    assert type(copy(LSHHasher(4).fit(few.X), classes=[same_name])) is LSHHasher


def test_of_classes_with_one_name_it_is_the_one_in_the_file(few, copy):
    other = type("Mine", (Mine,), {"__module__": "elsewhere"})
    assert type(copy(Mine(4).fit(few.X), classes=[other, Mine])) is Mine
    assert type(copy(Mine(4).fit(few.X), classes=[other])) is other


def test_an_entry_point_that_is_no_hasher_is_not_built(few, tmp_path, own_package):
    from own_package.methods import Pairs

    save(Pairs(4).fit(few.X), tmp_path / "pairs")
    own_package.forget()
    code = "class Pairs:\n    def __init__(self, **params):\n        raise SystemExit('built')\n"
    (own_package.folder / "methods.py").write_text(code)
    with pytest.raises(InvalidFileError, match=r"classes=\[Pairs\]"):
        load(tmp_path / "pairs")


def test_an_installed_package_names_its_class(few, tmp_path, own_package):
    from own_package.methods import Pairs, Unlisted

    hasher = Pairs(6, random_state=0).fit(few.X)
    save(hasher, tmp_path / "listed")
    save(Unlisted(6).fit(few.X), tmp_path / "unlisted")
    own_package.forget()
    with pytest.raises(InvalidFileError, match=r"classes=\[Unlisted\]"):
        load(tmp_path / "unlisted")
    assert "own_package" not in sys.modules
    loaded = load(tmp_path / "listed")
    assert type(loaded) is sys.modules["own_package.methods"].Pairs
    assert_array_equal(loaded.encode(few.X_query), hasher.encode(few.X_query))
