"""Processes and threads under load: forks at bad moments, other ways to start processes, interruptions.

Each script has a time limit, so that a deadlock is an error.
"""

import importlib.util
import signal
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from _helpers import quick, run_python
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from threadpoolctl import threadpool_limits

from skhash import ITQHasher, _threads
from skhash._threads import SharedSetting, run_in_slices
from skhash.metrics import RetrievalScorer, evaluate_ranking

needs_fork = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs the fork of POSIX")

FORKED = """
import multiprocessing, os, signal, sys, threading, time
import numpy as np
from threadpoolctl import threadpool_info
from skhash._threads import _PROCESS_LIMITS, is_forked, one_thread
from skhash.metrics import relevance_histogram

rng = np.random.default_rng(0)
query, database = (rng.integers(0, 256, (n, 8), dtype=np.uint8) for n in (64, 20_000))
query_y, database_y = rng.integers(0, 5, 64), rng.integers(0, 5, 20_000)

def count(weights=None):
    H = relevance_histogram(query, database, query_y, database_y, bit_weights=weights, nbits=64)
    return H.counts.sum()

def forked(function, seconds=600):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(seconds)  # a deadlock ends here
            status = 0 if function() else 2
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]

def busy(function):
    stop = threading.Event()
    def loop():
        while not stop.is_set():
            function()
    thread = threading.Thread(target=loop)
    thread.start()
    return lambda: (stop.set(), thread.join())
"""

FORKS = {
    "in a kernel, and in a limit": """
        expected = count()
        print(expected == 64 * 20_000)
        done = busy(count)
        statuses = [forked(lambda: count() == expected and is_forked()) for _ in range(10)]
        done()
        print(statuses == [0] * 10 and not is_forked())

        def limits():
            return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

        def limited():
            with one_thread():
                time.sleep(0.001)

        def child():
            free = _PROCESS_LIMITS._n_users == 0 and limits() == before
            with one_thread():
                return free and set(limits()) <= {1}

        before = limits()
        done = busy(limited)
        statuses = [forked(child) for _ in range(20)]
        done()
        with one_thread():
            inside = forked(lambda: _PROCESS_LIMITS._n_users == 1)  # a fork inside of the body stays in it
        print(statuses == [0] * 20 and inside == 0 and limits() == before)
    """,
    "in a property that is computed once, in an index, and in a training": """
        import skhash.codes.codes as codes
        import torch
        from skhash.engine.runtime import seeded
        from skhash.neighbors import HammingNeighbors
        inside, go_on, words_of = threading.Event(), threading.Event(), codes.words_of

        def wait(*_):
            inside.set()
            go_on.wait()

        def in_body():
            with seeded(0, torch.device("cpu")):
                wait()

        def fit_like():
            with seeded(0, torch.device("cpu")):
                return True

        items = codes.Codes.of(database, 64)
        codes.words_of = lambda rows: wait() if threading.current_thread() is thread else words_of(rows)
        statuses = []
        for one, other in ((items[:9].words, lambda: len(items.words())), (in_body, fit_like)):
            thread = threading.Thread(target=one)
            thread.start()
            inside.wait()
            statuses.append(forked(other, 60))
            go_on.set()
            thread.join()
            inside.clear(), go_on.clear()

        print(statuses == [0, 0])
        few = items[:100]
        def change():
            HammingNeighbors().fit(few).add(few)
        done = busy(change)
        print([forked(lambda: change() is None, 60) for _ in range(10)] == [0] * 10)
        done()
    """,
}
SLOW_FORKS = {
    "in a compilation": """
        import numba
        def compile_and_run():
            numba.njit(lambda x: x + 1)(1)
        compile_and_run()  # the first time numba sets itself up
        done = busy(compile_and_run)
        statuses = [forked(lambda: compile_and_run() is None) for _ in range(10)]
        done()
        print(statuses == [0] * 10)
    """,
    "after torch with several threads": """
        import pickle, torch, skhash.persistence
        from torch import nn
        from sklearn.datasets import load_digits
        X, y = load_digits(return_X_y=True)
        torch.set_num_threads(4)

        def fit():
            backbone = nn.Sequential(nn.Linear(64, 512), nn.ReLU())
            hasher = skhash.TALRHasher(16, backbone=backbone, n_epochs=1, random_state=0).fit(X, y)
            return hasher.encode(X).shape == (len(X), 2)

        def load_and_encode():
            from skhash.persistence import load
            return (load("hasher.safetensors").encode(X[:1]) == codes[:1]).all()

        def encode_after_pickle():
            return (pickle.loads(pickled).encode(X[:1]) == codes[:1]).all()

        hasher = skhash.TALRHasher(300, n_epochs=1, random_state=0).fit(X, y)
        skhash.persistence.save(hasher, "hasher.safetensors")
        codes, pickled = hasher.encode(X), pickle.dumps(hasher)
        assert fit()
        torch.randn(3_000_000).exp().sum()  # starts the threads of OpenMP
        print([forked(function) for function in (fit, fit, load_and_encode, encode_after_pickle)] == [0] * 4)
    """,
}

ELSEWHERE = """
import multiprocessing, sys
import skhash
from sklearn.datasets import load_digits

X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]

def score(nbits):
    return skhash.ITQHasher(nbits, random_state=0).fit(X, y).score(X, y)

if __name__ == "__main__":
    expected = [score(nbits) for nbits in (4, 8, 4, 8)]
"""
STARTS = {
    "forkserver": """
        with multiprocessing.get_context("forkserver").Pool(2) as pool:
            print(pool.map(score, [4, 8, 4, 8]) == expected)
    """,
    "dask processes": """
        from dask.distributed import Client
        with Client(n_workers=2, threads_per_worker=2, dashboard_address=None) as client:
            print(client.gather(client.map(score, [4, 8, 4, 8], pure=False)) == expected)
    """,
    "a search with dask": """
        import joblib
        from dask.distributed import Client
        from sklearn.model_selection import GridSearchCV
        with Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
            search = GridSearchCV(skhash.ITQHasher(random_state=0), {"nbits": [4, 8]}, cv=3)
            with joblib.parallel_backend("dask"):
                scores = search.fit(X, y).cv_results_["mean_test_score"]
        print((scores == search.set_params(n_jobs=None).fit(X, y).cv_results_["mean_test_score"]).all())
    """,
    "a search with loky": """
        from sklearn.model_selection import GridSearchCV
        search = GridSearchCV(skhash.ITQHasher(random_state=0), {"nbits": [4, 8]}, cv=3, n_jobs=2)
        scores = search.fit(X, y).cv_results_["mean_test_score"]
        print((scores == search.set_params(n_jobs=None).fit(X, y).cv_results_["mean_test_score"]).all())
    """,
}


@needs_fork
@pytest.mark.parametrize("moment", [*FORKS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_FORKS)])
def test_a_fork_while_another_thread_is(moment, tmp_path):
    """Also without a threading layer of numba, which no kernel needs."""
    assert importlib.util.find_spec("tbb") is None
    missing = {"NUMBA_THREADING_LAYER": "tbb", "NUMBA_NUM_THREADS": "2"}
    code = textwrap.dedent((FORKS | SLOW_FORKS)[moment])
    code = code.replace("hasher.safetensors", str(tmp_path / "hasher.safetensors"))
    assert run_python(FORKED + code, env=missing).split() == ["True"] * code.count("print(")


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_processes_that_are_started_in_other_ways_give_the_same_scores(start, tmp_path):
    if "dask" in start:
        pytest.importorskip("distributed")
    script = tmp_path / "elsewhere.py"  # the processes import it again
    script.write_text(ELSEWHERE + textwrap.indent(textwrap.dedent(STARTS[start]), "    "))
    assert run_python(None, str(script), cwd=tmp_path).split() == ["True"]


# --- threads


def problem(n=240):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, n)
    return rng.standard_normal((4, 16))[y] + rng.standard_normal((n, 16)), y


def test_eight_threads_that_fit_give_the_codes_of_one():
    X, y = problem()
    names = [
        "ITQHasher",
        "SDHHasher",
        "KSHHasher",
        "SphericalHasher",
        "AGHHasher",
        "ITQCCAHasher",
        "BREHasher",
        "PCAHasher",
    ]

    def codes(name):
        return quick(name).fit(X, y).encode(X)

    serial = [codes(name) for name in names]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            assert_array_equal(list(threads.map(codes, names)), serial)


def test_eight_threads_may_use_one_fitted_hasher():
    X, y = problem()
    hasher, scorer = ITQHasher(8, random_state=0).fit(X, y), RetrievalScorer("ap")

    def use(_):
        ranking = scorer.ranking(hasher, X, y)
        return hasher.score(X, y), evaluate_ranking(ranking, ["ap", "ndcg"]), hasher.transform(X).tolist()

    with ThreadPoolExecutor(8) as threads:
        assert all(used == use(0) for used in threads.map(use, range(32)))


def test_a_search_in_threads_gives_the_scores_of_one():
    X, y = problem()
    search = GridSearchCV(
        ITQHasher(random_state=0), {"nbits": [4, 8]}, cv=StratifiedKFold(3, shuffle=True, random_state=0)
    )
    expected = search.fit(X, y).cv_results_["mean_test_score"]
    import joblib

    with joblib.parallel_config("threading", n_jobs=4):
        assert_array_equal(search.fit(X, y).cv_results_["mean_test_score"], expected)


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_interrupted_kernel_leaves_the_pool_usable(monkeypatch):
    seen, begun, is_shut_down = [], threading.Event(), threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait=True, *, cancel_futures=False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            is_shut_down.set()
            super().shutdown(wait)

    def kernel(part):
        seen.append(part)
        begun.set()
        assert is_shut_down.wait(60)

    def interrupt():
        assert begun.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    monkeypatch.setattr(_threads, "ThreadPoolExecutor", Pool)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    with threadpool_limits(2, user_api="openmp"):
        user = threading.Thread(target=interrupt)
        user.start()
        with pytest.raises(KeyboardInterrupt):
            run_in_slices(kernel, 1000)
        signal.signal(signal.SIGINT, before)
        user.join()
        assert len(seen) < 8  # of 8 slices
        wait_for(lambda: not any(thread.name.startswith("skhash") for thread in threading.enumerate()))
        seen.clear()
        run_in_slices(kernel, 8)
    assert sorted(part.start for part in seen) == list(range(8))


def test_an_error_of_a_setting_leaves_it_usable():
    attempts = iter([OSError("no limit"), None])

    def change():
        if error := next(attempts):
            raise error
        return lambda: restored.append(True)

    restored, setting = [], SharedSetting(change)
    with pytest.raises(OSError, match="no limit"), setting():
        pass
    with setting():
        assert restored == []
    assert restored == [True]
