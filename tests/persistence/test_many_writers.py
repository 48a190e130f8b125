"""Many writers of one file: processes with the same number in two namespaces, and threads, while others read."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import _writers
import numpy as np
import pytest
from _writers import is_whole, make_hasher, save_hasher, write_content

from skhash.persistence import load


def namespace():
    """Command that starts a process as number 1 of a namespace of its own, as in a container; None if forbidden."""
    for command in (["unshare", "--pid", "--fork"], ["unshare", "--user", "--map-root-user", "--pid", "--fork"]):
        try:
            if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
                return command
        except FileNotFoundError:
            return None
    return None


@pytest.fixture(params=["same number", "namespaces"])
def start(request):
    """A function that starts two processes of number 1, which write n times each."""
    command = namespace() if request.param == "namespaces" else []
    if command is None:
        pytest.skip("this system forbids namespaces of processes")

    def start_two(kind, path, n):
        command_line = [*command, sys.executable, _writers.__file__, kind, request.param, str(path), str(n)]
        return [subprocess.Popen([*command_line, str(seed)], stdout=subprocess.PIPE, text=True) for seed in (1, 2)]

    return start_two


def count_damaged(processes, read):
    """Number of damaged reads while processes run. Each has number 1 and no failed write."""
    n_damaged = 0
    while any(process.poll() is None for process in processes):
        n_damaged += not read()
        time.sleep(0.001)
    assert [process.communicate()[0].split() for process in processes] == [["1", "0"]] * 2
    return n_damaged


def test_processes_with_the_same_number(tmp_path, start):
    path = tmp_path / "file"
    write_content(path, 0, 0)
    assert count_damaged(start("contents", path, 40), lambda: is_whole(path.read_bytes())) == 0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_two_thousand_saves_of_processes_with_the_same_number(tmp_path, start):
    path, X = tmp_path / "hasher.safetensors", np.random.default_rng(3).normal(size=(50, 16))
    hashers = [make_hasher(seed) for seed in (1, 2)]
    expected = {hasher.encode(X).tobytes() for hasher in hashers}
    assert len(expected) == 2
    save_hasher(path, hashers[0])
    assert count_damaged(start("hashers", path, 1000), lambda: load(path).encode(X).tobytes() in expected) == 0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("n", [5, pytest.param(250, marks=pytest.mark.slow)])
def test_eight_threads(tmp_path, n):
    path, done = tmp_path / "file", threading.Event()
    write_content(path, 0, 0)

    def read():
        n_damaged = 0
        while not done.wait(0.001):
            n_damaged += not is_whole(path.read_bytes())
        return n_damaged

    with ThreadPoolExecutor(9) as pool:
        reader = pool.submit(read)
        n_failed = pool.map(lambda seed: sum(write_content(path, seed, i) for i in range(n)), range(8))
        assert list(n_failed) == [0] * 8
        done.set()
        assert reader.result() == 0
    assert list(tmp_path.iterdir()) == [path]
