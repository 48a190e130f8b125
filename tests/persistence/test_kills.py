"""Kills at any moment: no finished work is lost, and no file is damaged."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
from _helpers import without_times
from _writers import compare_slowly, fit, fit_slowly, save_forever, start
from numpy.testing import assert_array_equal
from safetensors import safe_open

from skhash._files import write_atomically
from skhash.comparison import compare
from skhash.persistence import load

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")

DIE = """
import os, signal, sys
from skhash._files import write_atomically
with write_atomically(sys.argv[1]) as file:
    file.write(b"new")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_within_a_write(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    assert subprocess.run([sys.executable, "-c", DIE, str(path)]).returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (left,) = partial_files(tmp_path)
    with write_atomically(path) as file:
        file.write(b"new")
    assert left.exists()  # its writer may be alive
    os.utime(left, (time.time() - 25 * 3600,) * 2)
    with write_atomically(path) as file:
        file.write(b"new")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"new"


def kill_at_random(target, arguments, folder, rng):
    """Start a process, and kill it at a random moment after its first change in a folder: whether it was killed."""
    before, process = newest(folder), start(target, *arguments)
    while newest(folder) == before and process.is_alive():
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.3))
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def newest(folder):
    times = [0]
    for path in folder.rglob("[!.]*.*"):
        with suppress(FileNotFoundError):  # the process has removed it since
            times.append(path.stat().st_mtime_ns)
    return max(times)


def partial_files(folder):
    return list(folder.rglob("*.part"))


@pytest.mark.slow
def test_twenty_kills_while_saving(tmp_path):
    path, rng = tmp_path / "hasher.safetensors", np.random.default_rng(0)
    X = rng.normal(size=(50, 16))
    codes = set()
    for _ in range(20):
        assert kill_at_random(save_forever, [path], tmp_path, rng)
        codes.add(load(path).encode(X).tobytes())
    assert len(partial_files(tmp_path)) > 5  # the kills hit writes
    assert len(codes) == 2


@pytest.mark.slow
def test_twenty_kills_while_training(tmp_path):
    folder, n_epochs, rng, epochs = tmp_path / "killed", 250, np.random.default_rng(0), []
    folder.mkdir()
    for _ in range(20):
        assert kill_at_random(fit_slowly, [folder, tmp_path / "killed.npy", n_epochs], folder, rng)
        (file,) = folder.glob("*.ckpt")
        with safe_open(file, framework="numpy") as content:
            epochs.append(json.loads(content.metadata()["skhash"])["state"]["trainer"]["n_epochs_done"])
    assert epochs == sorted(set(epochs))  # each run went on from the last one
    assert epochs[-1] < n_epochs
    assert len(partial_files(folder)) > 5  # the kills hit writes
    for name in ("killed", "unbroken"):
        process = start(fit, tmp_path / name, tmp_path / f"{name}.npy", n_epochs)
        process.join()
        assert process.exitcode == 0
    assert_array_equal(np.load(tmp_path / "killed.npy"), np.load(tmp_path / "unbroken.npy"))


@pytest.mark.slow
def test_twenty_kills_while_comparing(tmp_path):
    options = {"methods": ["lsh", "itq-cca"], "nbits": [8, 16], "n_seeds": 8, "tune": 3}
    rng, known, n_killed = np.random.default_rng(0), {}, 0
    while n_killed < 20:
        n_killed += kill_at_random(compare_slowly, [tmp_path, options], tmp_path, rng)
        stored = {path: path.read_bytes() for path in (tmp_path / "rows").glob("*.json")}
        assert all(stored[path] == data for path, data in known.items())  # no result is lost or computed again
        for path in tmp_path.rglob("*.json"):
            json.loads(path.read_text())
        known = stored
    assert len(partial_files(tmp_path)) > 2  # the kills hit writes
    results = compare(**options, folder=tmp_path)[0]
    assert without_times(results) == without_times(compare(**options)[0])
