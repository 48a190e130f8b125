"""Early stopping, and the callbacks of scikit-learn that see each epoch."""

from functools import partial

import numpy as np
import pytest
from _helpers import Callback, Stop
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from skhash import DPSHHasher, TALRHasher
from skhash.affinity import DistanceAffinity
from skhash.metrics import RetrievalScorer

quick = partial(TALRHasher, nbits=16, n_epochs=3, batch_size=100, random_state=0)


class Recorder(Callback):
    """Records the hasher of each epoch, and may stop the training."""

    def __init__(self, stop_at=None):
        self.stop_at, self.epochs, self.fits = stop_at, [], []

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        (self.epochs if context.task_name == "epoch" else self.fits).append(fitted_estimator)
        return len(self.epochs) == self.stop_at


@pytest.fixture
def callback():
    return pytest.importorskip("sklearn.callback", reason="fits have callbacks from scikit-learn 1.9 on")


@pytest.fixture(scope="module")
def plain(digits):
    return quick().fit(digits.X, digits.y)


def test_early_stopping_returns_the_best_epoch(digits):
    callback = Recorder()
    hasher = quick(early_stopping=True, n_iter_no_change=2, n_epochs=30, learning_rate=0.5)
    hasher.set_callbacks(callback).fit(digits.X, digits.y)
    values = [entry["validation"] for entry in hasher.history_]
    best = int(np.argmax(values))
    assert len(values) == hasher.n_epochs_ == min(best + 1 + 2, 30)
    assert_array_equal(hasher.project(digits.X_query), callback.epochs[best].project(digits.X_query))
    assert (hasher.project(digits.X_query) != callback.epochs[-1].project(digits.X_query)).any()
    assert len(hasher.database_.y) == len(digits.y)  # the database has held-out samples, too


def test_a_training_that_diverges_in_the_last_step_of_an_epoch_says_so(digits):
    hasher = DPSHHasher(
        8, backbone="mlp", optimizer="sgd", learning_rate=1e4, batch_size=len(digits.X), early_stopping=True, n_epochs=3
    )
    with pytest.raises(FloatingPointError, match=r"must be finite\. Got NaN .* Lower `learning_rate`"):
        hasher.set_params(random_state=0).fit(digits.X, digits.y)


def test_held_out_samples_without_a_relevant_one_count_as_zero(digits):
    n = len(digits.y)
    unique = np.where(np.arange(n) % 2, 0, np.arange(n))  # a sample of every other class is alone
    hasher = quick(early_stopping=True, learning_rate=1e-12, n_epochs=1, validation_fraction=0.5)
    (entry,) = hasher.fit(digits.X, unique).history_
    assert 0.15 < entry["validation"] < 0.35  # about half of the samples are relevant to the others


def test_early_stopping_stops_when_nothing_improves(digits):
    hasher = quick(early_stopping=True, n_epochs=4, n_iter_no_change=2, learning_rate=1e-12, validation_fraction=0.3)
    assert hasher.fit(digits.X, digits.y).n_epochs_ == 3


def test_early_stopping_without_targets(digits):
    hasher = quick(affinity=DistanceAffinity(), objective="ndcg", early_stopping=True, n_epochs=2).fit(digits.X)
    assert all(0 < entry["validation"] <= 1 for entry in hasher.history_)


def test_each_epoch_is_shown_to_callbacks(digits, plain):
    callback = Recorder()
    hasher = quick().set_callbacks(callback).fit(digits.X, digits.y)
    assert_array_equal(hasher.encode(digits.X), plain.encode(digits.X))  # callbacks change nothing
    assert len(callback.epochs) == 3
    assert len(callback.fits) == 1
    assert_array_equal(callback.epochs[-1].encode(digits.X_query), hasher.encode(digits.X_query))
    assert [len(epoch.history_) for epoch in callback.epochs] == [1, 2, 3]


def test_a_callback_may_stop_the_training(digits):
    hasher = quick(n_epochs=10).set_callbacks(Recorder(stop_at=2)).fit(digits.X, digits.y)
    assert hasher.n_epochs_ == len(hasher.history_) == 2


def test_scoring_monitor(digits, callback):
    monitor = callback.ScoringMonitor(scoring={"ap": RetrievalScorer("ap")})
    hasher = quick().set_callbacks(monitor).fit(digits.X, digits.y)
    values = [row["ap"] for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(values) == 3
    assert values[-1] == hasher.score(digits.X, digits.y)


def test_progress_bar(digits, callback, capsys):
    pytest.importorskip("rich")
    quick(n_epochs=1).set_callbacks(callback.ProgressBar()).fit(digits.X, digits.y)
    shown = capsys.readouterr().out
    assert "TALRHasher - fit" in shown
    assert "100%" in shown


def test_a_progress_bar_inside_a_search(digits, callback, capsys):
    pytest.importorskip("rich")
    search = GridSearchCV(quick(), {"nbits": [4, 16]}, cv=StratifiedKFold(2))
    search.set_callbacks(callback.ProgressBar(None)).fit(digits.X, digits.y)
    assert search.best_params_ == {"nbits": 16}
    assert "TALRHasher - fit" in capsys.readouterr().out


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_early_stopping_and_a_callback_inside_a_search(digits, n_jobs):
    stopped = quick(early_stopping=True).set_callbacks(Stop())
    search = GridSearchCV(stopped, {"alpha": [0.5, 1.0]}, cv=KFold(2), n_jobs=n_jobs).fit(digits.X, digits.y)
    assert search.best_estimator_.n_epochs_ == 1
