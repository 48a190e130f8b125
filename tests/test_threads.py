"""Threads and processes: the same codes for any number of threads, and nothing hangs after a fork."""

import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from _helpers import quick, run_python
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from skhash._threads import _loaded_libraries, _set_n_threads, one_thread, run_in_slices
from skhash.neighbors import HammingNeighbors
from skhash.registry import HASHERS

SHALLOW = [name for name, path in HASHERS.items() if ".shallow." in path or ".structhash." in path]

CODES_OF_ALL = """
import hashlib, numpy as np, skhash, torch
from skhash.registry import HASHERS
rng = np.random.default_rng(0)
y = rng.integers(0, 5, 800)
X = rng.standard_normal((5, 300))[y] + rng.standard_normal((800, 300))
makers = {name: lambda name=name: getattr(skhash, name)(nbits=24) for name in HASHERS}
makers["TALR mlp"] = lambda: skhash.TALRHasher(24, backbone="mlp", random_state=0)
makers["TALR itq"] = lambda: skhash.TALRHasher(24, init="itq", objective="ndcg", random_state=0)
makers["conv"] = lambda: skhash.HashNetHasher(24, backbone="conv", random_state=0)
torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(300, 700), torch.nn.ReLU(), torch.nn.Linear(700, 300), torch.nn.ReLU())
makers["module"] = lambda: skhash.TALRHasher(24, backbone=module, deterministic=True, random_state=0)
quick = {"n_epochs": 2, "random_state": 0, "n_iter": 5}
makers["StructHashHasher"] = lambda: skhash.StructHashHasher(24, n_queries=200, n_relevant=10, n_irrelevant=10)
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
import skhash
X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]
NAMES = sys.argv[1:]  # of two hashers

def score(i):
    hasher = getattr(skhash, NAMES[i % 2])(16, random_state=0)
    if hasattr(hasher, "n_epochs"):
        hasher.set_params(n_epochs=2)
    return hasher.fit(X, y).score(X, y)

def same(where, scores):
    if all(scores[i] == expected[i % 2] for i in range(len(scores))):
        print(where)

if __name__ == "__main__":
    expected = [score(0), score(1)]
    tasks = [joblib.delayed(score)(i) for i in range(4)]
"""

#: one script for processes and one for threads, since each import and each first fit take seconds
ELSEWHERE = {
    "processes": """
        with multiprocessing.get_context("fork").Pool(2) as pool:
            same("fork", pool.map(score, range(4)))
        same("joblib multiprocessing", joblib.Parallel(2, backend="multiprocessing")(tasks))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            same("spawn", pool.map(score, range(2)))
        same("joblib loky", joblib.Parallel(2, backend="loky")(tasks))
    """,
    "threads": """
        with ThreadPoolExecutor(2) as threads, multiprocessing.get_context("fork").Pool(2) as pool:
            busy = [threads.submit(score, i) for i in range(4)]
            same("fork inside of a thread", pool.map(score, range(4)) + [future.result() for future in busy])
        with ThreadPoolExecutor(4) as pool:
            same("four threads", list(pool.map(score, range(8))))
    """,
}
SAME = {
    "processes": ["fork", "joblib multiprocessing", "spawn", "joblib loky"],
    "threads": ["fork inside of a thread", "four threads"],
}


@pytest.mark.parametrize("where", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_scoring_works_in_other_processes_and_threads(where, tmp_path):
    script = tmp_path / "score_elsewhere.py"  # spawned processes import it again
    script.write_text(SCORE + textwrap.indent(textwrap.dedent(ELSEWHERE[where]), "    "))
    # torch is slow to import: it takes part where threads meet, and where they meet a fork
    second = "TALRHasher" if where == "threads" else "PCAHasher"
    assert run_python(None, str(script), "ITQHasher", second).splitlines() == SAME[where]


@pytest.mark.slow
def test_codes_do_not_depend_on_the_number_of_threads():
    codes = run_python(None, "-c", CODES_OF_ALL, n_threads=1)
    assert len(codes.splitlines()) == len(HASHERS) + 4
    assert codes == run_python(None, "-c", CODES_OF_ALL, n_threads=2)


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
            activations.append(quick(name, nbits=8).fit(X[:n_train], y[:n_train]).project(X))
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


# --- limits


def test_one_thread_leaves_the_limits_of_all_libraries():
    before = threadpool_info()
    with one_thread():
        assert {library["num_threads"] for library in threadpool_info()} == {1}
    assert threadpool_info() == before


def test_one_thread_in_overlapping_threads_leaves_every_limit_as_it_was():
    second_has_begun, first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(4))

    def limits():
        return torch.get_num_threads(), *(library.num_threads for library in libraries)

    def first():
        assert second_has_begun.wait(60)
        with one_thread():
            first_is_in.set()
            assert second_is_in.wait(60)
        first_is_out.set()
        return torch.get_num_threads()

    def second():
        torch.get_num_threads()  # a thread that begins in the body of another has one thread from then on
        second_has_begun.set()
        assert first_is_in.wait(60)
        with one_thread():
            second_is_in.set()
            assert first_is_out.wait(60)
            with one_thread():
                pass
            inside = limits()
        return inside, torch.get_num_threads()

    blas = _loaded_libraries(True)["of the process"]
    libraries, before = blas.lib_controllers, (torch.get_num_threads(), blas.info())
    torch.set_num_threads(2)
    _set_n_threads(blas, 2)
    unlimited = limits()  # some libraries come with a BLAS of one thread only
    try:
        with ThreadPoolExecutor(2) as threads:
            running = [threads.submit(body) for body in (first, second)]
            assert [body.result() for body in running] == [2, ((1,) * (1 + len(libraries)), 2)]
            assert limits() == unlimited == threads.submit(limits).result()
    finally:
        torch.set_num_threads(before[0])
        _set_n_threads(blas, {library["filepath"]: library["num_threads"] for library in before[1]})


def in_new_thread(function):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function).result()


def test_a_thread_that_begins_under_the_limit_of_another_does_not_pass_it_on():
    def serve():
        with one_thread():
            return torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with ThreadPoolExecutor(1) as served:
            for _ in range(2):
                with one_thread():
                    assert served.submit(serve).result() == torch.get_num_threads() == 1
                for _ in range(2):
                    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 2
                    assert served.submit(serve).result() == 1
    finally:
        torch.set_num_threads(before)


def test_one_thread_leaves_a_limit_of_the_calling_thread_to_it():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(1):
            with one_thread():
                pass
            assert (torch.get_num_threads(), in_new_thread(torch.get_num_threads)) == (1, 2)
        assert (torch.get_num_threads(), in_new_thread(torch.get_num_threads)) == (2, 2)
    finally:
        torch.set_num_threads(before)


def test_a_search_with_a_number_of_threads_leaves_the_limits_of_blas_to_other_threads():
    found, limits = ThreadpoolController(), []
    paths = [
        library.filepath
        for library in found.lib_controllers
        if library.user_api == "blas" and getattr(library, "threading_layer", None) != "openmp"  # that of a thread
    ]
    blas = found.select(filepath=paths)

    class Meanwhile(TransformerMixin, BaseEstimator):
        """A hasher in whose search another thread finishes hashing."""

        def fit(self, X, y=None):
            return self

        def transform(self, X):
            blas.limit(limits=2)
            limits.append(blas.info())
            return (X > 0).astype(np.uint8)

    index = HammingNeighbors(Meanwhile(), n_neighbors=1, n_jobs=1).fit(np.eye(8))
    with blas.limit(limits=1):
        index.kneighbors(np.eye(8))
        assert blas.info() == limits[-1]


def of_mkl(default):
    """Number of threads of MKL in the calling thread, or a default where torch has no MKL."""
    lines = torch.__config__.parallel_info().splitlines()
    return next((line.split()[-1] for line in lines if "mkl_get_max_threads" in line), default)


def test_one_thread_inside_of_one_thread_leaves_one_thread_to_mkl():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            with one_thread():
                pass
            assert (of_mkl("1"), torch.get_num_threads()) == ("1", 1)
        assert (of_mkl("2"), torch.get_num_threads()) == ("2", 2)
    finally:
        torch.set_num_threads(before)


def test_one_thread_limits_what_torch_multiplies_with():
    """MKL keeps a number of its own for each thread that torch was set in, which limits of OpenMP leave as it is."""

    def begun_before():
        torch.set_num_threads(2)
        assert torch.get_num_threads() == 2  # from now on the number is this thread's
        has_begun.set()
        assert other_is_in.wait(60)
        with one_thread():
            return of_mkl(expected)

    expected, before = "1", torch.get_num_threads()
    has_begun, other_is_in = threading.Event(), threading.Event()
    try:
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(begun_before)
            assert has_begun.wait(60)
            with one_thread():
                other_is_in.set()
                assert running.result() == expected
    finally:
        torch.set_num_threads(before)
