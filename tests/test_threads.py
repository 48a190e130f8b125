"""Threads and processes: the same codes for any number of threads, and nothing hangs after a fork."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from _helpers import quick
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

import skhash
from skhash._threads import run_in_slices

SHALLOW = [name for name in skhash.hashers.__all__ if ".deep." not in skhash.registry.HASHERS[name]]

CODES_OF_ALL = """
import hashlib, numpy as np, skhash
rng = np.random.default_rng(0)
y = rng.integers(0, 5, 800)
X = rng.standard_normal((5, 300))[y] + rng.standard_normal((800, 300))
makers = {name: lambda name=name: getattr(skhash, name)(nbits=24) for name in skhash.hashers.__all__}
makers["TALR mlp"] = lambda: skhash.TALRHasher(24, backbone="mlp", random_state=0)
makers["TALR itq"] = lambda: skhash.TALRHasher(24, init="itq", objective="ndcg", random_state=0)
makers["conv"] = lambda: skhash.HashNetHasher(24, backbone="conv", random_state=0)
quick = {"n_epochs": 2, "random_state": 0, "n_queries": 200, "n_relevant": 10, "n_irrelevant": 10, "n_iter": 5}
for name, make in makers.items():
    hasher = make()
    hasher.set_params(**{key: value for key, value in quick.items() if key in hasher.get_params()})
    samples = X[:600, :192].reshape(600, 3, 8, 8) if name == "conv" else X
    codes = hasher.fit(samples, y[: len(samples)]).encode(samples)
    print(name, hashlib.sha256(codes.tobytes()).hexdigest())
"""

#: what runs in other processes and threads, and what it must print
SCORE = """
import multiprocessing, sys
from concurrent.futures import ThreadPoolExecutor
import joblib
from sklearn.datasets import load_digits
from skhash import ITQHasher, TALRHasher
X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]
makers = [lambda: ITQHasher(16, random_state=0), lambda: TALRHasher(16, n_epochs=2, random_state=0)]

def score(i):
    return makers[i % 2]().fit(X, y).score(X, y)

def same(scores):
    print(all(scores[i] == expected[i % 2] for i in range(len(scores))))

if __name__ == "__main__":
    expected = [score(0), score(1)]
"""
ELSEWHERE = {
    "joblib multiprocessing": 'same(joblib.Parallel(2, backend="multiprocessing")(joblib.delayed(score)(i) for i in range(4)))',
    "joblib loky": 'same(joblib.Parallel(2, backend="loky")(joblib.delayed(score)(i) for i in range(4)))',
    "fork": 'with multiprocessing.get_context("fork").Pool(2) as pool: same(pool.map(score, range(4)))',
    "spawn": 'with multiprocessing.get_context("spawn").Pool(2) as pool: same(pool.map(score, range(4)))',
    "four threads": "with ThreadPoolExecutor(4) as pool: same(list(pool.map(score, range(8))))",
    "fork inside of a thread": (
        'with ThreadPoolExecutor(2) as threads, multiprocessing.get_context("fork").Pool(2) as pool:\n'
        "    busy = [threads.submit(score, i) for i in range(4)]\n"
        "    same(pool.map(score, range(4)) + [future.result() for future in busy])"
    ),
}


def run(code, *arguments, n_threads=2, **options):
    """Run a script in a new process with two threads for every library."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(n_threads))
    done = subprocess.run(
        [sys.executable, *arguments, *(["-c", code] if code else [])],
        env=os.environ | threads,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("where", ELSEWHERE)
def test_scoring_works_in_other_processes_and_threads(where, tmp_path):
    script = tmp_path / "score_elsewhere.py"  # spawned processes import it again
    script.write_text(SCORE + textwrap.indent(ELSEWHERE[where], "    ") + "\n")
    assert run(None, str(script)).split() == ["True"]


@pytest.mark.slow
def test_codes_do_not_depend_on_the_number_of_threads():
    codes = run(CODES_OF_ALL, n_threads=1)
    assert len(codes.splitlines()) == len(skhash.hashers.__all__) + 3
    assert codes == run(CODES_OF_ALL, n_threads=2)


@pytest.mark.parametrize("name", SHALLOW)
def test_activations_do_not_depend_on_the_number_of_threads(name):
    """They are equal to the last bit, and so are codes whose activations are next to 0."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 1000)
    X = rng.standard_normal((5, 300))[y] + rng.standard_normal((1000, 300))
    n_train = 100 if name in ("BREHasher", "CGHashHasher", "StructHashHasher") else 1000
    activations = []
    for n in (1, 2):
        with threadpool_limits(n):
            activations.append(quick(name, nbits=8, n_iter=5).fit(X[:n_train], y[:n_train]).project(X))
    assert_array_equal(*activations)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_a_kernel_sees_every_item_once(n, n_threads):
    seen = np.zeros(n, dtype=int)

    def kernel(part):
        seen[part] += 1

    with threadpool_limits(n_threads, user_api="openmp"):
        run_in_slices(kernel, n)
        run_in_slices(kernel, n, min_size=5)
    assert_array_equal(seen, 2)


def test_an_error_in_a_thread_is_raised():
    def kernel(part):
        raise ZeroDivisionError(part)

    with threadpool_limits(2, user_api="openmp"), pytest.raises(ZeroDivisionError, match="slice"):
        run_in_slices(kernel, 10)
