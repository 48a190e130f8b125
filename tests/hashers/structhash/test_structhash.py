"""StructHash: the hasher. The tests of its base class are in test_column_generation.py."""

from functools import partial

import numpy as np
import pytest
from _helpers import history_of, structhash
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from skhash.callbacks import RetrievalMonitor
from skhash.metrics import average_precision, ndcg, relevance_histogram
from skhash.persistence import load, save

stumps = partial(structhash, hash_function="stump")
C_FACTOR = 15  # of the default of C, as the docs say


def ap_gain(g, t, n_relevant, n_irrelevant):
    """Average precision as a loss of a user."""
    return g / t / n_relevant


@pytest.mark.parametrize(
    "family", ["kernel", "linear", "stump", "trees", pytest.param(LogisticRegression(C=0.01), id="logistic")]
)
def test_every_bit_improves_the_objective_and_its_weights_are_optimal(few, fitted, family):
    hasher = fitted(structhash, family)
    assert [entry["bit"] for entry in hasher.history_] == [1, 2, 3, 4]
    for m, entry in enumerate(hasher.history_, 1):
        weights = hasher.bit_weights_path_[m - 1]
        assert entry["column_gain"] > 1
        assert entry["loss"] - entry["xi"] <= 0.01
        assert entry["violation"] == pytest.approx(entry["loss"] - entry["xi"])
        assert entry["bound"] <= entry["objective"]
        assert entry["gap"] == pytest.approx(entry["objective"] - entry["bound"])
        assert entry["gap"] <= hasher.C_ * 0.01
        assert entry["objective"] == pytest.approx(weights.sum() + hasher.C_ * entry["loss"])
        assert (weights[:m] >= 0).all()
        assert not weights[m:].any()
        assert entry["effective_bits"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
        assert entry["n_nonzero"] == (weights > 1e-6 * weights.max()).sum()
    assert (np.diff([entry["objective"] for entry in hasher.history_]) <= 0).all()
    assert hasher.n_iter_ == max(entry["n_iter"] for entry in hasher.history_)
    assert_array_equal(hasher.bit_weights_, hasher.bit_weights_path_[-1])
    assert not hasher.optimal_
    assert hasher.score(few.X_query, few.y_query) > 0.4


def test_stage_wise_search_leaves_the_older_weights_on_the_path(few):
    hasher = structhash(hash_function="linear", fully_corrective=False).fit(few.X, few.y)
    assert_allclose(hasher.bit_weights_path_, np.tril(np.ones((4, 4))) * hasher.bit_weights_)
    assert (np.diff([entry["objective"] for entry in hasher.history_]) <= 0).all()


# --- bits without a weight


@pytest.mark.parametrize(
    ("options", "match"),
    [
        pytest.param({"C": 1.005}, r"weights of all \d bits at 0 .* Increase C or nbits", id="C barely enough"),
        pytest.param(
            {"objective": "precision", "k": 8},
            "The loss of `objective` must be above 0 for reversed rankings",
            id="k = all items",
        ),
        pytest.param({"k": 1, "nbits": 1}, r"weights of all 1 bits at 0 .* Increase C or nbits", id="too few bits"),
    ],
)
def test_weights_that_are_all_zero_are_an_error(few, fitted, options, match):
    if "C" in options:
        options = options | {"C": options["C"] * fitted(structhash, "stump").C_ / C_FACTOR}
    with pytest.raises(ValueError, match=match):
        stumps(**options).fit(few.X, few.y)


def test_a_cutoff_needs_a_loss_that_has_one(few):
    with pytest.raises(
        ValueError, match=r"`k` must be None unless `objective` is 'ndcg' or 'precision'\. Got 3 for 'ap'"
    ):
        stumps(objective="ap", k=3).fit(few.X, few.y)


def test_an_early_stop_before_any_weight_is_an_error(few):
    monitor = RetrievalMonitor(few.X_query, few.y_query, scoring=lambda *_: 0.5, patience=1)
    with pytest.raises(ValueError, match=r"all 2 bits at 0 .* Increase C or nbits"):
        stumps(k=1, nbits=12).set_callbacks(monitor).fit(few.X, few.y)


def test_with_a_cutoff_the_first_bits_have_no_weight(few, fitted):
    monitor = RetrievalMonitor(few.X_query, few.y_query)
    hasher = stumps(k=1, nbits=8).set_callbacks(monitor).fit(few.X, few.y)
    n_weighted = [entry["n_nonzero"] for entry in hasher.history_]
    assert n_weighted[0] == 0 < n_weighted[-1]
    assert hasher.history_[0]["effective_bits"] == 0 < hasher.effective_bits_
    assert hasher.score(few.X_query, few.y_query) > 0.2
    bits, bits_query = (hasher.transform(X)[:, :1] for X in (few.X, few.X_query))
    plain = average_precision(relevance_histogram(bits_query, bits, few.y_query, few.y))
    assert monitor.log_[0]["score"] == pytest.approx(plain)
    assert n_weighted[1] == 0
    assert monitor.log_[1]["score"] != monitor.log_[0]["score"]
    first = n_weighted.count(0) + 1
    assert hasher.prefix(first).bit_weights_.any()
    with pytest.raises(ValueError, match=f"`nbits` must include a bit with a weight. Got {first - 1}"):
        hasher.prefix(first - 1)
    # C is scaled by the fewest misordered pairs of the largest loss: one of four irrelevant items at rank 1
    assert pytest.approx(4 * fitted(structhash, "stump").C_) == hasher.C_
    with pytest.raises(ValueError, match="or the first bit has weight 0"):
        hasher.set_params(C=hasher.C_ / C_FACTOR / 1.01).set_callbacks().fit(few.X, few.y)


# --- objectives and options


@pytest.mark.parametrize("objective", ["ndcg", "ap", "auc", "precision", ap_gain])
def test_every_objective_is_scored_by_average_precision(few, objective):
    hasher = structhash(nbits=2, objective=objective, hash_function="linear").fit(few.X, few.y)
    codes = hasher.transform(few.X_query), hasher.transform(few.X)
    H = relevance_histogram(*codes, few.y_query, few.y, bit_weights=hasher.bit_weights_)
    assert hasher.score(few.X_query, few.y_query) == average_precision(H) != ndcg(H)


def test_a_callable_objective_equals_the_one_of_that_name(few):
    named, called = (
        structhash(nbits=2, objective=objective, hash_function="linear").fit(few.X, few.y)
        for objective in ("ap", ap_gain)
    )
    assert history_of(named) == history_of(called)
    assert_array_equal(named.bit_weights_, called.bit_weights_)


def test_a_search_without_scoring_compares_objectives_by_average_precision(few):
    objectives, cv = ["ap", "ndcg"], StratifiedKFold(2, shuffle=True, random_state=0)
    hasher = structhash(nbits=2, hash_function="linear")
    search = GridSearchCV(hasher, {"objective": objectives}, cv=cv).fit(few.X, few.y)
    of_ap, of_ndcg = [], []
    for objective in objectives:
        histograms = []
        for train, test in cv.split(few.X, few.y):
            fold = clone(hasher).set_params(objective=objective).fit(few.X[train], few.y[train])
            codes = fold.transform(few.X[test]), fold.transform(few.X[train])
            targets = few.y[test], few.y[train]
            histograms.append(relevance_histogram(*codes, *targets, bit_weights=fold.bit_weights_))
        of_ap.append(np.mean([average_precision(H) for H in histograms]))
        of_ndcg.append(np.mean([ndcg(H) for H in histograms]))
    assert search.best_params_ == {"objective": objectives[np.argmax(of_ap)]}
    assert search.best_score_ == pytest.approx(max(of_ap), abs=1e-14)
    assert of_ndcg[1] > max(of_ap)  # NDCG would win over AP, whatever the codes


@pytest.mark.filterwarnings("ignore:.* was saved with objective=")
def test_a_loaded_hasher_scores_as_before(few, tmp_path):
    hasher = stumps(nbits=1, objective=ap_gain).fit(few.X, few.y)
    save(hasher, tmp_path / "hasher")
    assert load(tmp_path / "hasher").score(few.X_query, few.y_query) == hasher.score(few.X_query, few.y_query)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "ap"},
        {"objective": "auc"},
        {"objective": "precision"},
        {"k": 2, "nbits": 2},
        {"discount": "log2"},
        {"C": 10.0},
        {"n_relevant": 2},
        {"n_irrelevant": 2},
        {"n_queries": 30},
        {"hash_function": "linear"},
        {"n_anchors": 10},
        {"gamma": 1e-4},
        {"ridge": 10.0},
        {"n_starts": 5, "nbits": 4},
        {"fully_corrective": False, "nbits": 2},
        {"tol": 0.1, "nbits": 4},
    ],
    ids=str,
)
def test_every_option_changes_the_fit(few, fitted, options):
    nbits = options.get("nbits", 1)
    hasher = structhash(**{"nbits": 1} | options).fit(few.X, few.y)
    assert history_of(hasher) != history_of(fitted(structhash, "kernel").prefix(nbits))
    assert hasher.score(few.X_query, few.y_query) > 0.1
