"""One method on one split: what fails or does not apply is a result, too."""

import sys

import numpy as np
import pytest

from skhash.comparison import METRICS, VARIANTS, compare, evaluate_hasher, make_hasher
from skhash.datasets import load_dataset
from skhash.exceptions import DegenerateCodesWarning


def test_methods_that_need_labels_do_not_apply_without(own_file):
    result, other = compare(own_file, methods=["sdh", "ksh"], nbits=[8], n_seeds=1)[0]
    assert result.not_applicable == "it learns from labels, and relevance is given by a DistanceAffinity"
    assert (result.error, result["ap"], result.codes_sha256) == (None, None, None)
    assert other["ap"] > 0


def test_a_failure_is_a_result_and_the_others_go_on(set_broken, tmp_path):
    set_broken(0)
    failed, done = compare(methods=["broken", "lsh"], nbits=[8], n_seeds=1, folder=tmp_path)[0]
    assert failed.error.startswith("InvalidParameterError: The 'n_iter' parameter")
    assert failed.keys() == done.keys()
    assert all(failed[name] is None for name in METRICS)
    assert done.error is None
    assert "Traceback" in next((tmp_path / "rows").glob("*broken*.json")).read_text()


def test_the_settings_of_a_paper_are_not_tuned(own_file):
    (result,) = compare(own_file, methods=["structhash-paper"], nbits=[4], n_seeds=1, tune=2)[0]
    assert result.n_candidates == 1
    assert result.parameters == VARIANTS["structhash-paper"].parameters


def test_a_result_holds_the_chosen_parameters():
    tuned, fixed = compare(methods=["itq-cca", "lsh"], nbits=[8], n_seeds=1, tune=3)[0]
    assert (tuned.n_candidates, fixed.n_candidates) == (3, 1)
    assert set(tuned.parameters) <= {"ridge"}
    assert tuned.tuning_seconds > 0
    assert fixed.parameters == {}
    data = load_dataset("digits")
    again = evaluate_hasher(make_hasher("itq-cca", 8, 0, data.affinity, **tuned.parameters), data)
    assert again["ap"] == tuned["ap"]


def test_a_data_set_without_relevant_samples_fails(monkeypatch):
    monkeypatch.setattr(
        sys.modules[compare.__module__], "evaluate_hasher", lambda *args, **options: {"ap": float("nan")}
    )
    result = compare(methods=["lsh"], nbits=[8], n_seeds=1)[0][0]
    assert result.error == "ValueError: No query has a relevant sample in the database."


def test_a_single_class_is_refused(tmp_path):
    np.savez(tmp_path / "one.npz", X=np.eye(60), y=np.zeros(60))
    with pytest.raises(ValueError, match=r"at least two classes. Got a single class in .*one\.npz"):
        compare(str(tmp_path / "one.npz"), methods=["lsh"])


def test_a_warning_names_its_task(tmp_path):
    np.savez(tmp_path / "equal.npz", X=np.zeros((40, 3)), y=np.arange(40) % 2)
    with pytest.warns(DegenerateCodesWarning) as seen:
        compare(str(tmp_path / "equal.npz"), methods=["lsh", "pca"], nbits=[8], n_seeds=2)
    tasks = [f"{method}, 8 bits, seed {seed} of equal" for seed in (0, 1) for method in ("lsh", "pca")]
    assert [str(warning.message).partition(": ")[0] for warning in seen] == tasks
    with pytest.warns(DegenerateCodesWarning) as seen:
        compare(str(tmp_path / "equal.npz"), methods=["itq-cca"], nbits=[8], n_seeds=1, tune=2)
    task = "itq-cca, 8 bits, seed 0 of equal: ITQCCAHasher, 8 bits"
    names = [str(warning.message).partition(": The codes")[0] for warning in seen]
    assert names == [f"{task}, candidate 1", f"{task}, candidate 2", task]
