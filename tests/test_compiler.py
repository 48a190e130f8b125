"""Compiled kernels on machines that write no file: they run, are read where they are kept, and say what helps."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from _helpers import run_python

import skhash

PACKAGE = Path(skhash.__file__).parent
MESSAGE = "Compiled kernels of skhash cannot be kept"

#: a module that makes the file system read-only for a process, but for temporary files, since scipy before 1.15 opens
#: one when it is imported; permissions of folders do not bind root
READ_ONLY = """
import errno, os, sys

def refuse(event, arguments):
    writes = event in ("os.mkdir", "os.rename", "os.remove")
    writes |= event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    if writes and isinstance(arguments[0], str) and not arguments[0].startswith(("/dev/", os.environ["TMPDIR"])):
        raise OSError(errno.EROFS, "Read-only file system", arguments[0])

if "READ_ONLY" in os.environ:
    sys.addaudithook(refuse)
"""
SEARCH = """
import os, warnings
import numpy as np

def search(i=0):
    from skhash.codes import hamming_distances
    bits = np.random.default_rng(0).integers(0, 2, (50, 32), dtype=np.uint8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = hamming_distances(bits[i : i + 1], bits).argmin()  # by the kernels that compile most quickly
    return os.getpid(), int(found), [str(one.message) for one in caught]

print(*search()[1:])
"""


@pytest.fixture
def installation(tmp_path):
    """A folder with a copy of the package without compiled kernels, and a file in the place of the user's home."""
    shutil.copytree(PACKAGE, tmp_path / "skhash", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "sitecustomize.py").write_text(READ_ONLY, encoding="utf-8")
    (tmp_path / "home").touch()
    (tmp_path / "temporary").mkdir()
    return tmp_path


@pytest.fixture
def run(installation):
    """A function that runs code in the installation, and returns what it prints."""
    home = str(installation / "home")
    places = {"PYTHONPATH": str(installation), "HOME": home, "XDG_CACHE_HOME": home, "NUMBA_CACHE_DIR": ""}
    places["TMPDIR"] = str(installation / "temporary")

    def run(code, **env):
        return run_python(code, "-B", env=places | env, cwd=installation, n_threads=1)

    return run


def test_one_warning_says_what_helps_where_no_kernel_can_be_kept(run):
    score = """
from skhash import ITQHasher
X, y = np.random.default_rng(0).normal(size=(60, 8)), np.arange(60) % 3
with warnings.catch_warnings():
    warnings.simplefilter("error")
    print(round(ITQHasher(8, random_state=0).fit(X, y).score(X, y), 1))
"""
    printed = run(SEARCH + score, READ_ONLY="1")
    assert printed.startswith(f'0 ["{MESSAGE}')
    assert "Set the environment variable NUMBA_CACHE_DIR to a folder that can be written" in printed
    assert printed.endswith('"]\n0.4\n')


@pytest.mark.slow
def test_each_worker_warns_at_most_once(run):
    workers = """
import joblib
results = joblib.Parallel(2)(joblib.delayed(search)(i) for i in range(6))
n_warnings = {}
for i, (process, found, messages) in enumerate(results):
    assert found == i
    n_warnings[process] = n_warnings.get(process, 0) + len(messages)
print(set(n_warnings.values()))
"""
    assert run(SEARCH + workers, READ_ONLY="1").endswith("\n{1}\n")


def test_kernels_are_read_from_folders_that_cannot_be_written(installation, run):
    env = {"NUMBA_CACHE_DIR": str(installation / "kept")}
    in_package = installation / "skhash" / "codes" / "__pycache__"
    assert run(SEARCH) == "0 []\n"
    assert list(in_package.glob("*.nbc"))
    assert run(SEARCH, READ_ONLY="1", **env) == "0 []\n"  # compiling would warn
    assert run(SEARCH, **env) == "0 []\n"
    shutil.rmtree(in_package)
    assert run(SEARCH, READ_ONLY="1", **env) == "0 []\n"


@pytest.mark.slow
def test_a_file_that_was_cut_short_is_written_again(installation, run):
    env = {"NUMBA_CACHE_DIR": str(installation / "kept")}
    run(SEARCH, **env)
    for path in (installation / "kept").rglob("*.nbc"):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    assert run(SEARCH, **env) == "0 []\n"
    assert run(SEARCH, READ_ONLY="1", **env) == "0 []\n"


def test_a_user_without_a_home_gets_no_folder_of_that_name(installation, run):
    (installation / "skhash" / "codes" / "__pycache__").touch()
    before = set(installation.iterdir())
    assert MESSAGE in run(SEARCH, HOME="~", XDG_CACHE_HOME="")  # as os.path.expanduser without a home
    assert set(installation.iterdir()) == before


def test_without_the_compiler_one_sentence_says_so():
    code = "from skhash.codes import hamming_distances; hamming_distances([[0, 1]], [[1, 1]])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith(
        "ValueError: The environment variable NUMBA_DISABLE_JIT must be 0 or"
    )


def test_all_kernels_have_the_one_decorator():
    for path in PACKAGE.rglob("*.py"):
        assert "cache=True" not in path.read_text(encoding="utf-8"), path
