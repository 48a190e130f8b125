"""Candidates for the parameters, and how they are compared."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils import Bunch

from skhash import PCAHasher
from skhash.affinity import ClassAffinity, Relevance
from skhash.comparison import evaluate_hasher, make_hasher
from skhash.comparison.tuning import best_candidate, divide_samples, tune
from skhash.datasets import load_dataset
from skhash.exceptions import DegenerateCodesWarning
from skhash.registry import METHODS


class ColumnHasher(PCAHasher):
    """Hashes by the sign of one column."""

    def __init__(self, nbits=1, *, column=0, affinity="auto", store_database=True, random_state=None):
        super().__init__(nbits, affinity=affinity, store_database=store_database, random_state=random_state)
        self.column = column

    def _learn_map(self, X, relevance, rng):
        if self.column == 2:
            raise ValueError("column 2 is bad")
        return np.eye(X.shape[1])[:, [self.column]]


@pytest.fixture
def misleading():
    """Training samples whose class shows in column 0, and queries whose class shows in column 1."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.choice([-1.0, 1.0], (200, 3))
    queries = rng.choice([-1.0, 1.0], (200, 3))
    X[:, 0] = queries[:, 1] = 2 * y - 1.0
    return Bunch(X_train=X, y_train=y, X_query=queries, y_query=y, affinity=ClassAffinity())


def test_tuning_uses_training_samples_only(misleading):
    make = partial(ColumnHasher, 1)
    database = {"X_database": misleading.X_query, "y_database": misleading.y_query}
    ranked = [evaluate_hasher(make(column=column), Bunch(**misleading, **database))["ap"] for column in (0, 1)]
    assert ranked[1] > ranked[0] + 0.2  # the queries would prefer column 1
    misleading = Bunch(**{name: misleading[name] for name in ("X_train", "y_train", "affinity")})  # and are not needed
    for seed in range(3):
        candidates = tune(make, {"column": [1, 0]}, misleading, 5, seed=seed)
        assert len(candidates) == 3  # the default and the whole grid
        assert best_candidate(candidates).parameters == {}
        other = next(candidate for candidate in candidates if candidate.parameters == {"column": 1})
        assert other.score < candidates[0].score - 0.2


def test_warnings_name_the_candidate(misleading):
    misleading.X_train[:] = 0
    with pytest.warns(DegenerateCodesWarning) as seen:
        tune(partial(ColumnHasher, 1), {"column": [0, 1]}, misleading, 3)
    names = [str(warning.message).partition(": ")[0] for warning in seen]
    assert names == [f"ColumnHasher, 1 bits, candidate {number}" for number in (1, 2, 3)]


def test_training_samples_are_divided_evenly_over_the_classes():
    y = np.arange(100) % 20
    learned, held_out = divide_samples(100, Relevance.of(y).classes, 0.2, 0)
    assert_array_equal(np.bincount(y[learned]), [4] * 20)
    assert_array_equal(np.bincount(y[held_out]), [1] * 20)


def test_tuning_finds_what_is_better_than_the_default(misleading):
    backwards = Bunch(**misleading | {"X_train": misleading.X_train[:, [1, 0, 2]]})
    candidates = tune(partial(ColumnHasher, 1), {"column": [1, 0]}, backwards, 3)
    assert candidates[0].parameters == {}
    assert best_candidate(candidates).parameters == {"column": 1}


def test_a_failed_candidate_is_noted_and_a_failed_default_is_raised(misleading):
    candidates = tune(partial(ColumnHasher, 1), {"column": [2]}, misleading, 2)
    assert (candidates[1].error, candidates[1].score) == ("ValueError: column 2 is bad", None)
    assert best_candidate(candidates) is candidates[0]
    with pytest.raises(ValueError, match="column 2 is bad"):
        tune(lambda column=2, **options: ColumnHasher(1, column=column, **options), {"column": [0]}, misleading, 2)


def test_only_failed_candidates_of_an_earlier_call_are_evaluated_again(misleading):
    known = tune(partial(ColumnHasher, 1), {"column": [2, 1]}, misleading, 3)
    made = []

    def make(column=0, **options):
        made.append(column)
        return ColumnHasher(1, column=0 if column == 2 else column, **options)

    candidates = tune(make, {"column": [2, 1]}, misleading, 3, known=known)
    assert made == [2]
    assert [candidate.error for candidate in candidates] == [None, None, None]


def test_candidates_lie_around_the_default_and_begin_with_the_same_ones():
    data = load_dataset("digits")
    make = partial(make_hasher, "itq-cca", 8, 0, data.affinity)
    few, more = (tune(make, METHODS["itq-cca"].search_space, data, budget) for budget in (2, 4))
    assert few[0].centers == {"ridge": 0.1}
    assert [candidate.parameters for candidate in few] == [candidate.parameters for candidate in more[:2]]
    ridges = [candidate.parameters["ridge"] for candidate in more[1:]]
    assert len(set(ridges)) == 3
    assert all(0.001 <= ridge <= 10 for ridge in ridges)
