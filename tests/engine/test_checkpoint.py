"""Checkpoints: the same codes after any stop, and no file that cannot be read."""

import gc
import sys
import threading
from functools import partial

import numpy as np
import pytest
import torch
from _helpers import StopAfter, stop_and_resume
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from skhash import HashNetHasher, TALRHasher
from skhash.affinity import DistanceAffinity, PrecomputedAffinity
from skhash.engine import Checkpoint, Trainer, fingerprint
from skhash.metrics import RetrievalScorer

OPTIONS = {
    "linear": {},
    "early stopping": {"early_stopping": True, "n_iter_no_change": 2, "learning_rate": 0.3, "n_epochs": 12},
    "mlp": {"backbone": "mlp"},
    "sgd, no schedule": {"optimizer": "sgd", "lr_schedule": "constant"},
    "a scheduler of the user": {
        "lr_schedule": lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    },
    "augmentation": {"augment": lambda batch: batch + torch.randn_like(batch) * np.random.rand()},  # noqa: NPY002
}


def hasher(folder, Hasher=TALRHasher, **options):
    options = {"n_epochs": 6, "batch_size": 50} | options
    return Hasher(nbits=16, checkpoint=folder, random_state=0, **options)


@pytest.mark.parametrize("after", [1, 4])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_resumed_fit_gives_the_codes_of_an_unbroken_one(digits, tmp_path, name, after):
    X, y = digits.X[:300], digits.y[:300]
    unbroken = hasher(None, **OPTIONS[name]).fit(X, y)
    resumed = stop_and_resume(lambda: hasher(tmp_path, **OPTIONS[name]), X, y, after=after)
    assert resumed.history_ == unbroken.history_
    for weight, value in unbroken.weights_.items():
        assert_array_equal(resumed.weights_[weight], value)
    assert_array_equal(resumed.database_codes_, unbroken.database_codes_)


def test_stages_are_resumed(digits, tmp_path):
    X, y = digits.X[:300], digits.y[:300]
    options = {"Hasher": HashNetHasher, "n_stages": 3, "max_beta": 4, "last_beta": 9}
    unbroken = hasher(None, **options).fit(X, y)
    resumed = stop_and_resume(lambda: hasher(tmp_path, **options), X, y, after=3)
    assert resumed.history_ == unbroken.history_
    assert [entry["beta"] for entry in resumed.history_ if "beta" in entry] == pytest.approx([1, 4, 9])


def test_a_finished_fit_resumes_to_itself_without_training(digits, tmp_path, monkeypatch):
    fitted = hasher(tmp_path).fit(digits.X, digits.y)
    monkeypatch.setattr(Trainer, "run_epoch", lambda self: pytest.fail("it trains"))
    again = hasher(tmp_path).fit(digits.X, digits.y, resume=True)
    assert_array_equal(again.database_codes_, fitted.database_codes_)
    assert again.history_ == fitted.history_


def test_without_a_checkpoint_a_resumed_fit_starts_from_scratch(digits, tmp_path):
    fresh = hasher(tmp_path).fit(digits.X, digits.y, resume=True)
    assert fresh.n_epochs_ == 6
    with pytest.raises(ValueError, match="`checkpoint` must be a folder to fit with resume=True"):
        hasher(None).fit(digits.X, digits.y, resume=True)


def test_other_samples_and_parameters_have_files_of_their_own(digits, tmp_path):
    hasher(tmp_path).fit(digits.X, digits.y)
    hasher(tmp_path, n_bins=8).fit(digits.X, digits.y)
    hasher(tmp_path).fit(digits.X[:-1], digits.y[:-1])
    hasher(tmp_path).fit(digits.X, (digits.y + 1) % 10)
    hasher(tmp_path, store_database=False).fit(digits.X, digits.y)  # the first one's
    assert len(list(tmp_path.iterdir())) == 4


def backbone(width=8):
    return torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 8))


def test_what_pickle_keeps_of_a_parameter_tells_trainings_apart():
    X = np.zeros((3, 2))
    S = np.eye(3)
    values = [
        PrecomputedAffinity(S),
        PrecomputedAffinity(S[::-1].copy()),
        DistanceAffinity(),
        DistanceAffinity((9,), (1,)),
    ]
    values += [partial(torch.optim.SGD, lr=0.1), partial(torch.optim.SGD, lr=0.2), torch.optim.SGD, torch.optim.Adam]
    values += [backbone(8), backbone(9), np.random.RandomState(0), np.random.RandomState(1), None, 1, "1"]
    names = [fingerprint({"parameter": value}, X, None) for value in values]
    assert len(set(names)) == len(values)
    assert names[0] == fingerprint({"parameter": PrecomputedAffinity(S.copy())}, X, None)
    torch.manual_seed(0)
    first, other = backbone(8), backbone(8)
    torch.manual_seed(0)
    assert fingerprint({"parameter": first}, X, None) == fingerprint({"parameter": backbone(8)}, X, None)
    assert fingerprint({"parameter": first}, X, None) != fingerprint({"parameter": other}, X, None)  # fit starts there


def test_another_matrix_of_affinities_resumes_nothing(digits, tmp_path):
    indices = np.arange(300)
    first, second = (
        PrecomputedAffinity((labels[:300, None] == labels[:300]).astype(float)) for labels in (digits.y, digits.y % 2)
    )
    hasher(tmp_path, affinity=first).fit(digits.X[:300], indices)
    with pytest.warns(UserWarning, match=r"starts from scratch.*`affinity` \(.*\) has other code or other values"):
        resumed = hasher(tmp_path, affinity=second).fit(digits.X[:300], indices, resume=True)
    fresh = hasher(None, affinity=second).fit(digits.X[:300], indices)
    assert_array_equal(resumed.weights_["hash.weight"], fresh.weights_["hash.weight"])


class Modulo:
    """An affinity that holds what pickle cannot keep: a function, or a lock."""

    def __init__(self, n, lock=None):
        self.label, self.lock = lambda y: y % n, lock

    def __call__(self, a, b):
        return np.equal.outer(self.label(a), self.label(b)).astype(float)


def test_parameters_that_cannot_be_distinguished_are_refused(digits, tmp_path):
    folder = tmp_path / "checkpoints"
    affinity = Modulo(10, threading.Lock())
    expected = (
        r"`affinity` must be identifiable when `checkpoint` is set.* Got a _thread.lock at `affinity.lock` instead"
    )
    with pytest.raises(TypeError, match=expected):
        hasher(folder, affinity=affinity).fit(digits.X, digits.y)
    assert not folder.exists()
    assert hasher(None, affinity=affinity).fit(digits.X, digits.y).n_epochs_ == 6


@pytest.mark.slow
def test_clones_of_a_search_share_a_folder(digits, tmp_path):
    X, y = digits.X[:300], digits.y[:300]
    search = GridSearchCV(
        hasher(tmp_path, n_epochs=2), {"alpha": [0.5, 1.0]}, scoring=RetrievalScorer("ap"), cv=3, n_jobs=2
    )
    search.fit(X, y)
    assert len(list(tmp_path.iterdir())) == 2 * 3 + 1


def test_an_interrupted_hasher_is_usable(digits, tmp_path):
    first = hasher(tmp_path).set_callbacks(StopAfter(3))
    with pytest.raises(KeyboardInterrupt):
        first.fit(digits.X, digits.y)
    assert first.n_epochs_ == len(first.history_) == 3
    assert first.score(digits.X_query, digits.y_query) > 0.3
    kept = first.database_codes_
    with pytest.raises(KeyboardInterrupt):  # an earlier fit is not lost to a part of a new one
        first.set_params(random_state=1).fit(digits.X, digits.y)
    assert first.database_codes_ is kept
    assert "_callback_fit_ctx" not in vars(first)


def test_an_interrupted_hasher_holds_its_best_epoch(digits):
    options = {"early_stopping": True, "n_epochs": 12, "learning_rate": 0.3, "n_iter_no_change": 12}
    interrupted = hasher(None, **options).set_callbacks(StopAfter(8))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(digits.X, digits.y)
    best = max(entry["validation"] for entry in interrupted.history_)
    n_best = 1 + [entry["validation"] for entry in interrupted.history_].index(best)
    stopped = hasher(None, **options).set_callbacks(StopAfter(n_best))
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(digits.X, digits.y)
    assert_array_equal(stopped.database_codes_, interrupted.database_codes_)


class Interruption:
    """Interrupts the process at the n-th line of Python that runs in a file."""

    def __init__(self, n, file):
        self.n, self.file = n, file

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename.endswith(self.file):
            self.n -= 1
            if self.n == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("file", ["torch/serialization.py", "engine/_payload.py", "engine/checkpoint.py"])
def test_an_interruption_of_a_write_stays_an_interruption(tmp_path, file):
    checkpoint = Checkpoint(tmp_path, fingerprint({}, np.eye(2), None))
    checkpoint.write({"epoch": 1})
    state, before = {"epoch": 2, "weights": torch.zeros(100)}, sys.gettrace()
    for n in range(1, 300, 7):
        interruption = Interruption(n, file)
        sys.settrace(interruption)
        try:
            checkpoint.write(state)
        except KeyboardInterrupt:
            sys.settrace(before)
            gc.collect()  # torch's writer is finished when it is deleted
            assert checkpoint.read()["epoch"] in (1, 2)
        finally:
            sys.settrace(before)
        if interruption.n > 0:
            break
    assert checkpoint.read()["epoch"] == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_is_not_a_folder(digits, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="`checkpoint` must be a folder"):
        hasher(tmp_path / "file").fit(digits.X, digits.y)


def test_a_write_that_fails_leaves_the_last_file(tmp_path):
    checkpoint = Checkpoint(tmp_path, fingerprint({}, np.eye(2), None))
    checkpoint.write({"epoch": 1})
    with pytest.raises(TypeError, match=r"Got a builtins\.generator, which needs pickle"):
        checkpoint.write({"epoch": (x for x in "a generator")})
    assert checkpoint.read() == {"epoch": 1}
    assert len(list(tmp_path.iterdir())) == 1
