"""Bad input: one clear error names the parameter, its value and the remedy, and nothing fitted is lost."""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

from skhash import ITQHasher, NSHHasher, TALRHasher
from skhash.affinity import PrecomputedAffinity
from skhash.metrics import RetrievalScorer

QUICK = {NSHHasher: {"n_epochs": 1}, TALRHasher: {"n_epochs": 1}}
every_hasher = pytest.mark.parametrize("Hasher", [ITQHasher, NSHHasher, TALRHasher])


@pytest.fixture(scope="module")
def fit(digits):
    """Give a fitted hasher, one for each class: a test that changes it takes a copy."""
    return cache(lambda Hasher: Hasher(nbits=8, **QUICK.get(Hasher, {}), random_state=0).fit(digits.X, digits.y))


@pytest.fixture
def refuses(digits, fit):
    """Check that a hasher refuses to be fitted, and that one fitted before still is what it was."""

    def check(hasher, X, y, match, error=ValueError):
        fitted = deepcopy(fit(type(hasher)))
        good, bad = fitted.get_params(), hasher.get_params()
        codes, score = fitted.encode(digits.X_query), fitted.score(digits.X_query, digits.y_query)
        with pytest.raises(error, match=match):
            fitted.set_params(**bad).fit(X, y)
        fitted.set_params(**good)
        assert_array_equal(fitted.encode(digits.X_query), codes)
        assert fitted.score(digits.X_query, digits.y_query) == score

    return check


@every_hasher
def test_a_refused_fit_keeps_the_one_before(refuses, Hasher, digits):
    refuses(Hasher(), np.where(digits.X > 15, np.nan, digits.X), digits.y, "Input X contains NaN")
    refuses(Hasher(), digits.X[:, 0], digits.y, "Expected 2D array, got 1D array")
    refuses(Hasher(nbits=0), digits.X, digits.y, r"'nbits' parameter .* an int in the range \[1, 65536\]. Got 0")


# --- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 5, "relaxation": "paper"}, "`relaxation` must be 'exact' with k=5. Got 'paper' instead"),
        ({"backbone": "resnet"}, "`backbone` must be None, 'mlp', .* or a torch.nn.Module. Got 'resnet' instead"),
        ({"backbone": torch.nn.Flatten(0)}, "`backbone` must map samples"),
        ({"device": "cuda:77"}, r"`device` must be available, one of .* Got 'cuda:77' instead"),
        ({"device": "nowhere"}, r"`device` must be available, one of .* Got 'nowhere' instead"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_options_that_do_not_go_together_or_are_not_there(refuses, digits, options, message):
    refuses(TALRHasher(**options), digits.X, digits.y, message)


def test_too_few_samples_to_hold_some_out(refuses, digits):
    def above(a, b):  # of two rows, one is relevant to the other
        return np.greater.outer(a, b)

    hasher = TALRHasher(early_stopping=True, affinity=above)
    refuses(hasher, digits.X[:2], [0, 1], r"`X` must have at least 3 samples for early_stopping=True. Got 2 instead")


def test_backbone_of_other_width(refuses, digits):
    refuses(TALRHasher(backbone=torch.nn.Linear(10, 5)), digits.X, digits.y, "backbone.*64 features")


# --- targets


def test_targets_missing_for_a_given_affinity(refuses, digits):
    affinity = PrecomputedAffinity(np.eye(500))
    refuses(TALRHasher(affinity=affinity), digits.X, None, "requires y to be passed, but the target y is None")


@pytest.mark.parametrize("affinity", ["auto", lambda a, b: a[:, None] == b], ids=["auto", "function"])
@every_hasher
def test_targets_of_another_length(refuses, Hasher, digits, affinity):
    refuses(Hasher(affinity=affinity), digits.X, digits.y[1:], "(500.*499|499.*500)")


def test_continuous_targets(refuses, digits):
    refuses(TALRHasher(), digits.X, digits.y + 0.5, "Got 'continuous' values.*DistanceAffinity")


def test_continuous_targets_trouble_an_unsupervised_hasher_in_score_only(digits):
    hasher = make_pipeline(ITQHasher(), KNeighborsRegressor()).fit(digits.X, digits.y + 0.5)[0]
    with pytest.raises(ValueError, match="Got 'continuous' values"):
        hasher.score(digits.X, digits.y + 0.5)


def test_one_class(refuses, digits):
    message = r"`y` must have at least two classes.*StratifiedKFold\(shuffle=True\)"
    refuses(TALRHasher(), digits.X, np.zeros(500, dtype=int), message)


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%")
def test_no_relevant_pair(refuses, digits):
    refuses(TALRHasher(), digits.X, np.arange(500), "`y` must have at least one class of two samples")


def test_an_affinity_matrix_as_targets(refuses, digits):
    matrix = (digits.y[:, None] == digits.y).astype(int)
    message = r"Got a symmetric 500 x 500 matrix.*affinity=PrecomputedAffinity\(matrix\) and y=numpy.arange\(n\)"
    refuses(TALRHasher(), digits.X, matrix, message)


@pytest.mark.parametrize(
    ("affinity", "message"),
    [
        (lambda a, b: np.zeros(3), r"`affinity` must return .* Got shape \(3,\)"),
        (lambda a, b: -1.0 * (a[:, None] == b), "`affinity` must have finite levels >= 0. Got levels from -1.0"),
        (lambda a, b: np.where(a[:, None] == b, np.nan, 0.0), "`affinity` must have finite levels >= 0"),
        (PrecomputedAffinity(np.eye(4)), "indices 0 to 3"),
    ],
    ids=["shape", "negative", "NaN", "row numbers"],
)
def test_affinities_that_give_no_levels(refuses, digits, affinity, message):
    refuses(TALRHasher(affinity=affinity), digits.X, digits.y, message)


# --- scores


@every_hasher
def test_queries_and_targets_of_other_lengths(fit, Hasher, digits):
    hasher = fit(Hasher)
    with pytest.raises(ValueError, match=r"`query_y` .* Got 299 targets"):
        hasher.score(digits.X_query, digits.y_query[1:])
    with pytest.raises(ValueError, match="`y` must be given for the affinity"):
        hasher.score(digits.X_query)
    with pytest.raises(ValueError, match=r"`database_y` .* Got 499 targets"):
        RetrievalScorer(database=(digits.X, digits.y[1:]))(hasher, digits.X_query, digits.y_query)
