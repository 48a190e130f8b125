"""Whole comparisons: what they return, resume, and refuse."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from _helpers import without_times
from sklearn.datasets import load_digits

from skhash import ITQCCAHasher, TALRHasher
from skhash.comparison import compare, read_results


def test_results_are_those_of_every_method_on_every_split(results):
    found = [(result.seed, result.nbits, result.method) for result in results]
    assert found == [(seed, nbits, method) for seed in (0, 1) for nbits in (8, 16) for method in ("itq", "lsh")]
    for result in results:
        assert result["ap_worst"] <= result["ap"] <= result["ap_best"]
        assert result.codes_per_second > 0
        assert (result.error, result.not_applicable, result.parameters, result.n_candidates) == (None, None, {}, 1)


def test_itq_beats_lsh(results):
    means = [np.mean([result["ap"] for result in results if result.method == method]) for method in ("itq", "lsh")]
    assert means[0] > means[1]


def test_a_seed_decides_metrics_and_codes(results):
    again = compare(methods=["itq"], nbits=[8], n_seeds=1)[0]
    before = [result for result in results if (result.method, result.nbits, result.seed) == ("itq", 8, 0)]
    before = [replace(result, asked_seeds=1) for result in before]
    assert without_times(again) == without_times(before)


def test_several_data_sets_each_under_its_protocol(own_file, tmp_path):
    results, description = compare(["digits", Path(own_file)], methods=["lsh"], nbits=[8], n_seeds=1, folder=tmp_path)
    assert [(result.dataset, result.protocol) for result in results] == [("digits", "holdout"), ("mine", "labelme")]
    assert description == "\n".join(result.description for result in results)
    assert "relevance = same class" in results[0].description


def test_a_convolutional_network_gets_images(monkeypatch, tmp_path):
    short = partial(TALRHasher, n_epochs=1)
    monkeypatch.setattr("skhash.comparison.methods.import_class", lambda name: short)
    options = {"methods": ["talr-conv"], "nbits": [8], "n_seeds": 1}
    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "vectors.npz", X=X, y=y)
    np.savez(tmp_path / "images.npz", X=X.reshape(-1, 1, 8, 8), y=y)
    (digits, vectors), _ = compare(["digits", tmp_path / "vectors.npz"], **options)
    (images,), _ = compare(tmp_path / "images.npz", **options)
    assert digits.error is None
    assert digits["ap"] > 0.2
    assert images.codes_sha256 == digits.codes_sha256
    assert vectors.not_applicable == "it learns from images, and the samples are vectors"


def test_two_data_sets_of_one_name_are_refused(own_file, tmp_path):
    (tmp_path / "other").mkdir()
    np.savez(tmp_path / "other" / "mine.npz", X=np.eye(30))
    with pytest.raises(ValueError, match="`dataset` must have data sets with different names"):
        compare([own_file, str(tmp_path / "other" / "mine.npz")], methods=["lsh"])


def test_finished_results_are_reused(tmp_path, monkeypatch):
    options = {"methods": ["lsh", "itq"], "nbits": [8], "n_seeds": 2, "folder": tmp_path}
    first = compare(**options)[0]
    calls = []

    def evaluate(*args, **options):
        calls.append(args)
        return {"ap": 0.5, "ndcg": 0.5, "fit_seconds": 0.0}

    monkeypatch.setattr(sys.modules[compare.__module__], "evaluate_hasher", evaluate)
    assert compare(**options)[0] == first
    assert not calls
    compare(**options | {"n_seeds": 3})
    assert len(calls) == 2


def test_failed_results_are_computed_again(set_broken, tmp_path):
    options = {"methods": ["broken", "lsh"], "nbits": [8], "n_seeds": 1, "folder": tmp_path}
    seen = []
    for n_iter in (0, 1, 0):  # an error, then other settings, then the error again
        set_broken(n_iter)
        compare(**options, report=lambda progress: seen.append((progress.result.method, progress.reused)))
    assert seen.count(("lsh", True)) == 2
    assert seen.count(("broken", False)) == 3


def test_other_settings_are_computed_and_fresh_computes_all(tmp_path):
    options = {"methods": ["itq-cca"], "nbits": [8], "n_seeds": 1, "folder": tmp_path}
    compare(**options)
    tuned = compare(**options, tune=2)[0]
    assert tuned[0].n_candidates == 2
    assert len(list((tmp_path / "rows").glob("*.json"))) == 2
    again = compare(**options, tune=2, fresh=True)[0]
    assert again != tuned
    assert without_times(again) == without_times(tuned)


KILLED = """
import os, signal, sys
from skhash import ITQCCAHasher
from skhash.comparison import compare, read_results

fit, done = ITQCCAHasher.fit, []

def fit_or_die(self, *args):
    if len(done) == 6:  # four candidates and the best one of them, and a candidate of the second seed
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(self)
    return fit(self, *args)

ITQCCAHasher.fit = fit_or_die
compare(methods=["lsh", "itq-cca"], nbits=[8], n_seeds=2, tune=4, folder=sys.argv[1])
"""


def test_a_killed_run_continues_where_it_stopped(tmp_path, monkeypatch):
    run = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=os.environ, capture_output=True, text=True)
    assert run.returncode == -signal.SIGKILL, run.stderr
    stored = {(result.method, result.seed) for result in read_results(tmp_path)}
    assert stored == {("lsh", 0), ("itq-cca", 0), ("lsh", 1)}
    assert not list(tmp_path.rglob("*.part"))

    ridges, fit = [], ITQCCAHasher.fit
    monkeypatch.setattr(ITQCCAHasher, "fit", lambda self, *args: ridges.append(self.ridge) or fit(self, *args))
    options = {"methods": ["lsh", "itq-cca"], "nbits": [8], "n_seeds": 2, "tune": 4}
    results = compare(**options, folder=tmp_path)[0]
    assert len(ridges) == 3 + 1  # of four candidates of the second seed, the default had been evaluated
    assert ITQCCAHasher().ridge not in ridges[:3]
    assert without_times(results) == without_times(compare(**options)[0])


@pytest.mark.slow
def test_two_processes_give_the_results_of_one(tmp_path):
    options = {"methods": ["itq-cca", "lsh"], "nbits": [8], "n_seeds": 2, "tune": 2}
    parallel = compare(**options, n_jobs=2, folder=tmp_path)[0]
    assert without_times(parallel) == without_times(compare(**options)[0])
    assert len(list((tmp_path / "rows").glob("*.json"))) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tune": 1}, "`tune` must be None or an int >= 2, the default .* Got 1"),
        ({"tune": 2, "tune_metric": "magic"}, "Got 'magic'"),
        ({"metrics": ["magic"]}, "`metric` must be one of .* Got 'magic'"),
        ({"metrics": []}, "`metrics` must hold at least one metric"),
        ({"metrics": [lambda H: 1.0]}, "`metrics` must name a function"),
        ({"n_jobs": 0}, "`n_jobs` must be an int >= 1. Got 0"),
        ({"n_seeds": 0}, "`n_seeds` must be an int >= 1. Got 0"),
        ({"methods": []}, "`methods` must name at least one method"),
        ({"methods": ["magic"]}, "`methods` must be .* names of .* Got 'magic'"),
        ({"nbits": []}, r"`nbits` must hold ints from 1 to 65536. Got \[\]"),
        ({"nbits": [8, 0]}, r"`nbits` must hold ints from 1 to 65536. Got \[8, 0\]"),
        ({"dataset": []}, "`dataset` must name at least one data set"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        compare(**{"methods": ["lsh"], "nbits": [8], "n_seeds": 1} | options)
