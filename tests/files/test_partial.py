"""Partial files: those of killed writers are removed, those of living writers never."""

import os
import time

import pytest

from skhash._files import _partial, atomic_write, sweep
from skhash._files._partial import PartialFile

DAY = 24 * 3600


def leave(folder, machine=None, age=0.0):
    """A partial file as a kill leaves it: without a lock."""
    machine = machine or _partial._machine()
    path = folder / f".skhash-{machine}-{os.urandom(8).hex()}.part"
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_the_next_write_removes_what_was_left(tmp_path):
    left = [leave(tmp_path) for _ in range(3)]
    with atomic_write(tmp_path / "file") as file:
        assert not any(path.exists() for path in left)
        file.write(b"new")
    assert os.listdir(tmp_path) == ["file"]


def test_a_living_writer_is_left_alone(tmp_path):
    partial = PartialFile(tmp_path, 0o666)
    os.utime(partial.path, (0, 0))
    sweep(tmp_path)
    assert partial.path.exists()
    partial.move_to(tmp_path / "file", None)
    sweep(tmp_path)
    partial.remove()
    assert os.listdir(tmp_path) == ["file"]


def test_files_of_others_stay(tmp_path):
    (tmp_path / "victim").write_bytes(b"mine")
    leave(tmp_path).rename(tmp_path / "download.part")
    leave(tmp_path).rename(tmp_path / "kept")
    link = leave(tmp_path)
    link.unlink()
    link.symlink_to(tmp_path / "victim")
    pipe = leave(tmp_path)
    pipe.unlink()
    os.mkfifo(pipe)
    folder = leave(tmp_path)
    folder.unlink()
    folder.mkdir()
    before = sorted(os.listdir(tmp_path))
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("age", "stays"), [(0, True), (0.9 * DAY, True), (1.1 * DAY, False)])
def test_those_of_other_machines_and_without_locks_are_removed_after_a_day(tmp_path, monkeypatch, age, stays):
    other = leave(tmp_path, "0" * 8, age)
    sweep(tmp_path)
    assert other.exists() == stays

    def refuse(*args):
        raise OSError("no locks in this folder")

    monkeypatch.setattr(_partial.fcntl, "flock", refuse)
    own = leave(tmp_path, age=age)
    with atomic_write(tmp_path / "file") as file:
        file.write(b"new")
    assert own.exists() == stays


def test_without_locks_of_the_system_age_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(_partial, "fcntl", None)  # as on Windows
    old, new = leave(tmp_path, age=1.1 * DAY), leave(tmp_path)
    with atomic_write(tmp_path / "file") as file:
        file.write(b"new")
    assert (old.exists(), new.exists()) == (False, True)
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_sweeper_that_comes_before_the_lock_costs_a_second_try(tmp_path, monkeypatch):
    lock, n_calls = _partial.lock, []

    def sweep_first(descriptor):
        n_calls.append(descriptor)
        if len(n_calls) == 1:
            monkeypatch.setattr(_partial, "lock", lock)
            sweep(tmp_path)
            monkeypatch.setattr(_partial, "lock", sweep_first)
        return lock(descriptor)

    monkeypatch.setattr(_partial, "lock", sweep_first)
    with atomic_write(tmp_path / "file") as file:
        file.write(b"new")
    assert len(n_calls) == 2
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_cannot_be_listed_is_not_an_error(tmp_path):
    sweep(tmp_path / "none")
    assert os.listdir(tmp_path) == []
