"""Checkpoints: the same codes after any stop, no damaged file that is read, and no write that stops a training."""

import errno
import os
import pickle
import re
import threading
from functools import partial

import numpy as np
import pytest
import torch
from _fuzz_checkpoints import checkpoints, read_checkpoint
from _helpers import StopAfter, stop_and_resume
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from skhash import HashNetHasher, TALRHasher
from skhash.affinity import PrecomputedAffinity
from skhash.engine import Trainer
from skhash.exceptions import InvalidFileError
from skhash.metrics import RetrievalScorer


def add_noise(batch):
    return batch + torch.randn_like(batch) * np.random.rand()  # noqa: NPY002


OPTIONS = {
    "linear": {},
    "early stopping": {"early_stopping": True, "n_iter_no_change": 2, "learning_rate": 0.3, "n_epochs": 12},
    "mlp": {"backbone": "mlp"},
    "sgd, no schedule": {"optimizer": "sgd", "lr_schedule": "constant"},
    "a scheduler of the user": {"lr_schedule": partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.9)},
    "augmentation": {"augment": add_noise},
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
    assert_array_equal(resumed.database_.codes.rows, unbroken.database_.codes.rows)


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
    assert_array_equal(again.database_.codes.rows, fitted.database_.codes.rows)
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
    """An affinity that may hold what has no identity: a lambda, or a lock."""

    def __init__(self, n, **attributes):
        self.n = n
        vars(self).update(attributes)

    def __call__(self, a, b):
        return np.equal.outer(a % self.n, b % self.n).astype(float)


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (Modulo(10, lock=threading.Lock()), "Got a .*Modulo instead, .*: cannot pickle '_thread.lock'"),
        (Modulo(10, label=lambda y: y), "Got a .*Modulo instead, .*<lambda>.* Define functions and classes in a file"),
        (
            lambda a, b: np.equal.outer(a, b).astype(float),
            "Got a .*<lambda> instead, .* Define functions and classes in a file",
        ),
    ],
)
def test_parameters_that_cannot_be_distinguished_are_refused(digits, tmp_path, affinity, expected):
    folder = tmp_path / "checkpoints"
    message = rf"`affinity` must be identifiable when `checkpoint` is set.* {expected}.*, or set `checkpoint` to None\."
    with pytest.raises(TypeError, match=message):
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
    kept = first.database_.codes.rows
    with pytest.raises(KeyboardInterrupt):  # an earlier fit is not lost to a part of a new one
        first.set_params(random_state=1).fit(digits.X, digits.y)
    assert first.database_.codes.rows is kept
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
    assert_array_equal(stopped.database_.codes.rows, interrupted.database_.codes.rows)


def test_a_full_disk_does_not_stop_the_training(digits, tmp_path):
    X, y = digits.X[:200], digits.y[:200]
    unbroken = hasher(None, n_epochs=3).fit(X, y)
    resource = pytest.importorskip("resource", reason="needs the limits of POSIX")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.warns(
            UserWarning, match="The training continues without a new checkpoint. .*Free some space"
        ) as seen:
            fitted = hasher(tmp_path, n_epochs=3).fit(X, y)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(seen) == 3  # the same text, which Python shows once
    assert f"{tmp_path}{os.sep}" in str(seen[0].message)
    assert not list(tmp_path.iterdir())
    assert_array_equal(fitted.database_.codes.rows, unbroken.database_.codes.rows)


def test_the_last_checkpoint_stays(digits, tmp_path, monkeypatch):
    X, y = digits.X[:200], digits.y[:200]
    fsync, n_calls = os.fsync, []

    def fail_later(descriptor):
        n_calls.append(descriptor)
        if len(n_calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_later)
    with pytest.warns(UserWarning, match="No space left on device"):
        unbroken = hasher(tmp_path, n_epochs=3).fit(X, y)
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 1
    resumed = hasher(tmp_path, n_epochs=3).fit(X, y, resume=True)
    assert_array_equal(resumed.database_.codes.rows, unbroken.database_.codes.rows)


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match=rf"checkpoints is read-only\. Choose another folder: '{tmp_path}'"):
        hasher(tmp_path, n_epochs=3).fit(digits.X, digits.y)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        hasher(tmp_path / "file").fit(digits.X, digits.y)


# --- damaged files


@pytest.fixture(scope="module")
def original():
    return checkpoints(["TALRHasher"])["TALRHasher 1"]


def refused(path, content, match):
    path.write_bytes(content)
    with pytest.raises(InvalidFileError, match=f"^{re.escape(str(path))} .*{match}") as error:
        read_checkpoint(path)
    assert re.search(r"Delete the file, or fit without resume=True|move the file away", str(error.value))


def test_flips_and_cuts_are_found(original, tmp_path):
    path = tmp_path / "case.ckpt"
    for place in np.linspace(0, len(original) - 1, 40).astype(int):
        refused(path, original[:place], "cannot be read as a file of skhash")
        flipped = original[:place] + bytes([original[place] ^ 4]) + original[place + 1 :]
        refused(path, flipped, "is damaged|cannot be read as a file of skhash|must ")


class Call:
    """A pickle that runs a command."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_other_files_are_named_and_no_code_is_run(tmp_path):
    for content in (b"", b"PK", b"\n" * 10_000, pickle.dumps(Call(tmp_path / "made"))):
        refused(tmp_path / "case.ckpt", content, "cannot be read as a file of skhash")
    assert not (tmp_path / "made").exists()


def test_other_versions_are_a_warning(digits, tmp_path, monkeypatch):
    X, y = digits.X[:100], digits.y[:100]
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "1.0.0+cpu")
        with pytest.raises(KeyboardInterrupt):
            hasher(tmp_path).set_callbacks(StopAfter(1)).fit(X, y)
    now = re.escape(torch.__version__[:3])
    with pytest.warns(UserWarning, match=rf"\.ckpt was written with torch 1\.0\.0, now {now}"):
        assert hasher(tmp_path).fit(X, y, resume=True).n_epochs_ == 6


# --- optimizers and schedulers of the user


def slowly(step):
    return np.cos(step / 10)


def test_a_scheduler_may_store_numpy_numbers_and_counts(digits, tmp_path):
    X, y = digits.X[:100], digits.y[:100]
    schedules = (
        partial(torch.optim.lr_scheduler.LambdaLR, lr_lambda=slowly),
        partial(torch.optim.lr_scheduler.MultiStepLR, milestones=[2, 5, 5]),
    )
    for schedule in schedules:
        resumed = stop_and_resume(lambda: hasher(tmp_path, lr_schedule=schedule), X, y, after=1)  # noqa: B023
        assert resumed.history_ == hasher(None, lr_schedule=schedule).fit(X, y).history_


class Odd(torch.optim.lr_scheduler.ConstantLR):
    """A scheduler whose state is not data."""

    def state_dict(self):
        return {"lock": threading.Lock()}


def test_a_state_that_is_not_data_is_named(digits, tmp_path):
    with pytest.raises(TypeError, match=r"state\.trainer\.scheduler\.lock is a _thread\.lock, which cannot be saved"):
        hasher(tmp_path, lr_schedule=Odd).fit(digits.X, digits.y)
    assert not list(tmp_path.iterdir())
