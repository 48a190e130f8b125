import numpy as np
import pytest
from _helpers import Dataset, StopAfter, structhash
from sklearn.datasets import load_digits

from skhash import TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.callbacks import RetrievalMonitor
from skhash.metrics import RetrievalScorer

X, y = load_digits(return_X_y=True)
HASHER = TALRHasher(nbits=8, n_epochs=4, random_state=0)


def fit_with(monitor):
    return HASHER.set_callbacks(monitor).fit(X[:600], y[:600])


def test_monitor_logs_every_epoch_and_ends_at_the_score_of_the_model():
    monitor = RetrievalMonitor(X[600:900], y[600:900])
    hasher = fit_with(monitor)
    assert [entry["epoch"] for entry in monitor.log_] == [1, 2, 3, 4]
    assert monitor.log_[-1]["score"] == hasher.score(X[600:900], y[600:900])


def test_monitor_does_not_change_the_result():
    watched = fit_with(RetrievalMonitor(X[600:900], y[600:900])).transform(X)
    np.testing.assert_array_equal(watched, HASHER.set_callbacks().fit(X[:600], y[:600]).transform(X))


def test_patience_stops_the_fit():
    monitor = RetrievalMonitor(X[600:900], y[600:900], scoring=lambda estimator, X, y: 0.5, patience=2)
    assert fit_with(monitor).n_epochs_ == 3
    assert len(monitor.log_) == 3


@pytest.mark.parametrize(("patience", "n_epochs"), [(1, 3), (2, 4)])
def test_patience_counts_from_the_best_epoch(patience, n_epochs):
    scores = iter([0.1, 0.5, 0.3, 0.4])
    monitor = RetrievalMonitor(X[:9], y[:9], scoring=lambda estimator, X, y: next(scores), patience=patience)
    assert fit_with(monitor).n_epochs_ == n_epochs


def test_a_score_of_nan_is_no_best_one():
    scores = iter([np.nan, 0.1, 0.5, np.nan])
    monitor = RetrievalMonitor(X[:9], y[:9], scoring=lambda estimator, X, y: next(scores), patience=2)
    assert fit_with(monitor).n_epochs_ == 4


def test_a_resumed_fit_goes_on_with_the_numbers_of_the_epochs(tmp_path):
    hasher = TALRHasher(nbits=8, n_epochs=4, checkpoint=tmp_path, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        hasher.set_callbacks(StopAfter(2)).fit(X[:600], y[:600])
    monitor = RetrievalMonitor(X[600:900], y[600:900], scoring=lambda estimator, X, y: 0.5, patience=1)
    resumed = TALRHasher(nbits=8, n_epochs=4, checkpoint=tmp_path, random_state=0).set_callbacks(monitor)
    resumed.fit(X[:600], y[:600], resume=True)
    assert [entry["epoch"] for entry in monitor.log_] == [3, 4]
    assert monitor.log_[-1]["epoch"] == resumed.history_[-1]["epoch"]


def test_patience_of_a_resumed_fit_counts_its_own_epochs(tmp_path):
    hasher = TALRHasher(nbits=8, n_epochs=6, checkpoint=tmp_path, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        hasher.set_callbacks(StopAfter(2)).fit(X[:600], y[:600])
    monitor = RetrievalMonitor(X[600:900], y[600:900], scoring=lambda estimator, X, y: 0.5, patience=2)
    resumed = TALRHasher(nbits=8, n_epochs=6, checkpoint=tmp_path, random_state=0).set_callbacks(monitor)
    assert resumed.fit(X[:600], y[:600], resume=True).n_epochs_ == 5


def test_each_fit_begins_a_new_log():
    monitor = RetrievalMonitor(X[600:900], y[600:900])
    fit_with(monitor)
    first = monitor.log_
    fit_with(monitor)
    assert monitor.log_ == first
    assert len(first) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patience": 0}, "`patience` must be None or an int >= 1. Got 0 instead"),
        ({"patience": -3}, "`patience` .* Got -3 "),
        ({"patience": 1.5}, "`patience` .* Got 1.5 "),
        ({"scoring": "nope"}, "nope"),
        ({"scoring": ["ap", "ndcg"]}, r"`scoring` must have a single metric. Got \['ap', 'ndcg'\]"),
        ({"scoring": RetrievalScorer(["ap"])}, r"`scoring` must have a single metric. Got \['ap'\]"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RetrievalMonitor(X[:9], y[:9], **options)


def test_bits_are_numbered_as_epochs_are():
    monitor = RetrievalMonitor(X[200:300], y[200:300])
    hasher = structhash(nbits=3).set_callbacks(monitor).fit(X[:60], y[:60])
    assert [entry["epoch"] for entry in monitor.log_] == list(range(1, len(hasher.history_) + 1))


def test_scorer_may_be_given():
    monitor = RetrievalMonitor(X[600:900], y[600:900], scoring=RetrievalScorer("ndcg", database="fold"))
    hasher = fit_with(monitor)
    expected = RetrievalScorer("ndcg", database="fold")(hasher, X[600:900], y[600:900])
    assert monitor.log_[-1]["score"] == pytest.approx(expected)


@pytest.mark.parametrize("compares", ["labels", "samples"])
def test_a_dataset_brings_its_targets(compares):
    affinity, targets = ("auto", y) if compares == "labels" else (DistanceAffinity((30,), (1,)), X)
    queries = Dataset(X[200:300], y[200:300])
    given, read = RetrievalMonitor(X[200:300], targets[200:300]), RetrievalMonitor(queries)
    hasher = TALRHasher(nbits=8, n_epochs=2, affinity=affinity, random_state=0).set_callbacks(given, read)
    hasher.fit(X[:200], targets[:200])
    assert given.log_ == read.log_
    assert read.log_[-1]["score"] == hasher.score(queries)
