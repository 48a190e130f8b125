"""A training whose checkpoints cannot be written: it goes on, and what was written stays."""

import errno
import os
import resource

import pytest
from numpy.testing import assert_array_equal

from skhash import TALRHasher


def hasher(folder, n_epochs=3):
    return TALRHasher(8, n_epochs=n_epochs, batch_size=100, checkpoint=folder, random_state=0)


def test_a_full_disk_does_not_stop_the_training(digits, tmp_path):
    X, y = digits.X[:200], digits.y[:200]
    unbroken = hasher(None).fit(X, y)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.warns(
            UserWarning, match="The training goes on without a new checkpoint. .*Free some space"
        ) as seen:
            fitted = hasher(tmp_path).fit(X, y)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(seen) == 3  # the same text, which Python shows once
    assert f"{tmp_path}{os.sep}" in str(seen[0].message)
    assert not list(tmp_path.iterdir())
    assert_array_equal(fitted.database_codes_, unbroken.database_codes_)


def test_the_last_checkpoint_stays(digits, tmp_path, monkeypatch):
    X, y = digits.X[:200], digits.y[:200]
    fsync, n_calls = os.fsync, []

    def fail_later(descriptor):
        n_calls.append(descriptor)
        if len(n_calls) > 2:  # the file and the folder of the first epoch
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_later)
    with pytest.warns(UserWarning, match="No space left on device"):
        unbroken = hasher(tmp_path).fit(X, y)
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 1
    resumed = hasher(tmp_path).fit(X, y, resume=True)
    assert_array_equal(resumed.database_codes_, unbroken.database_codes_)


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match=rf"checkpoints is read-only\. Choose another folder: '{tmp_path}'"):
        hasher(tmp_path).fit(digits.X, digits.y)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        hasher(tmp_path / "file").fit(digits.X, digits.y)
