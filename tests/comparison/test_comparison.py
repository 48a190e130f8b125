"""Comparisons: figures, tuning, resuming, processes. What is written of them is tested in test_report.py."""

import json
import os
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils import Bunch

from skhash import PCAHasher, hashers
from skhash.affinity import ClassAffinity, DistanceAffinity
from skhash.cli import main
from skhash.comparison import FIGURES, GROUPS, METHODS, compare, evaluate_hasher, expand_methods, make_hasher, tuning
from skhash.comparison.methods import NEED_LABELS, SPACES
from skhash.comparison.progress import time_left
from skhash.comparison.store import Store
from skhash.comparison.tuning import best_candidate, settled_value, split_training_samples, tune
from skhash.datasets import load_dataset
from skhash.metrics import precision, recall, relevance_histogram
from skhash.registry import Around

COLUMNS = {"dataset", "protocol", "description", "method", "nbits", "seed", *FIGURES, "fit_seconds", "codes_per_second"}
COLUMNS |= {"codes_sha256", "curves", "parameters", "n_candidates", "tuning_seconds", "not_applicable", "error"}
COLUMNS |= {"seconds", "source"}


def decided(rows):
    """What does not depend on the clock."""
    return [{name: value for name, value in row.items() if "second" not in name} for row in rows]


@pytest.fixture(scope="module")
def rows():
    return compare(methods=["itq", "lsh"], nbits=[8, 16], n_seeds=2)[0]


@pytest.fixture
def broken(monkeypatch):
    """A method that cannot be fitted."""
    monkeypatch.setitem(METHODS, "broken", ("ITQHasher", {"n_iter": 0}))


# --- figures


def test_rows_hold_the_documented_figures(rows):
    assert len(rows) == 8
    assert all(row.keys() == COLUMNS for row in rows)
    for row in rows:
        assert row["ap_worst"] <= row["ap"] <= row["ap_best"]
        assert row["codes_per_second"] > 0
        assert (row["error"], row["not_applicable"], row["parameters"], row["n_candidates"]) == (None, None, {}, 1)


def test_itq_beats_lsh(rows):
    def mean(method):
        return np.mean([row["ap"] for row in rows if row["method"] == method])

    assert mean("itq") > mean("lsh")


def test_a_seed_decides_figures_and_codes(rows):
    again = compare(methods=["itq"], nbits=[8], n_seeds=1)[0]
    before = [row for row in rows if (row["method"], row["nbits"], row["seed"]) == ("itq", 8, 0)]
    assert decided(again) == decided(before)


def test_curves_are_means_of_precision_and_recall():
    data = load_dataset("digits")
    hasher = make_hasher("itq", 8, 0, "auto")
    row = evaluate_hasher(hasher, data, details=True)
    H = relevance_histogram(
        hasher.transform(data.X_query), hasher.transform(data.X_database), data.y_query, data.y_database
    )
    curves = row["curves"]
    np.testing.assert_allclose(curves["radius_precision"], [precision(H, radius=r) for r in range(9)], atol=1e-6)
    np.testing.assert_allclose(curves["radius_recall"], [recall(H, radius=r) for r in range(9)], atol=1e-6)
    np.testing.assert_allclose(curves["rank_precision"], [precision(H, k=k) for k in curves["ranks"]], atol=1e-6)
    assert row["precision_at_100"] == precision(H, k=100)


def test_rows_are_encoded_once(monkeypatch):
    data, encoded = load_dataset("digits"), []
    hasher = make_hasher("lsh", 8, 0, "auto")
    monkeypatch.setattr(type(hasher), "_project", lambda self, X: encoded.append(len(X)) or X @ self.projection_)
    evaluate_hasher(hasher, data, details=True)
    assert sum(encoded) == len(data.X_query) + len(data.X_database)


def test_a_radius_counts_bits_whatever_they_weigh():
    data = load_dataset("digits")
    plain, weighted = make_hasher("itq", 16, 0, "auto"), make_hasher("itq", 16, 0, "auto")
    weighted.bit_weights_ = np.linspace(0.01, 0.02, 16)
    plain, weighted = (evaluate_hasher(hasher, data, details=True) for hasher in (plain, weighted))
    assert set(plain) == set(weighted) >= set(FIGURES)
    assert weighted["precision_radius_2"] == plain["precision_radius_2"]
    assert weighted["curves"]["radius_recall"] == plain["curves"]["radius_recall"]
    assert weighted["curves"]["rank_precision"] != plain["curves"]["rank_precision"]
    assert weighted["ap_best"] - weighted["ap_worst"] < 0.2 * (plain["ap_best"] - plain["ap_worst"])


# --- methods and data sets


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_built(method):
    assert make_hasher(method, 12, 3, "auto").nbits == 12


def test_unknown_method_lists_the_known_ones():
    with pytest.raises(
        ValueError, match=r"method 'magic' is unknown; known ones are talr, .*lsh, and the groups all, "
    ):
        compare(methods=["magic"])


def test_groups_divide_the_methods():
    groups = {name: expand_methods([name]) for name in GROUPS}
    assert groups["all"] == list(METHODS)
    assert sorted(groups["deep"] + groups["shallow"]) == sorted(METHODS)
    assert sorted(groups["supervised"] + groups["unsupervised"]) == sorted(METHODS)
    assert {"talr-mlp", "nsh"} <= set(groups["deep"])
    assert {"talr", "lsh"} <= set(groups["shallow"])
    assert {"nsh", "itq"} <= set(groups["unsupervised"])
    assert expand_methods(["lsh", "all", "lsh"]) == ["lsh", *(method for method in METHODS if method != "lsh")]


def quick_hasher(name, affinity):
    """A hasher that fits in an instant."""
    hasher = getattr(hashers, name)(4, affinity=affinity)
    short = {"random_state": 0, "n_epochs": 1, "n_relevant": 5, "n_irrelevant": 5, "n_anchors": 20}
    return hasher.set_params(**{key: value for key, value in short.items() if key in hasher.get_params()})


@pytest.mark.parametrize("name", sorted({name for name, _ in METHODS.values()}))
def test_methods_that_need_labels_are_listed_and_search_spaces_fit(name):
    X = np.random.default_rng(0).standard_normal((120, 6)).astype(np.float32)
    affinity = DistanceAffinity(percentiles=(30,), levels=(1,))
    if name in NEED_LABELS:
        with pytest.raises(ValueError, match="gives no labels"):
            quick_hasher(name, affinity).fit(X, X)
        affinity = "auto"
    if name in ("StructHashHasher", "CGHashHasher"):
        assert SPACES[name]["ridge"].centre == getattr(hashers, name)._default_ridges["kernel"]
    hasher = quick_hasher(name, affinity).fit(X, X if affinity != "auto" else (X[:, 0] > 0).astype(int))
    space = SPACES.get(name, {})
    for parameter, values in space.items():
        if isinstance(values, Around):
            assert (values.centre or settled_value(hasher, parameter)) > 0
    for draw in tuning._draws(space, 10, 0):
        centres = {name: v.center or settled_value(hasher, name) for name, v in space.items() if isinstance(v, Around)}
        chosen = {name: tuning.scaled(centres[name], v) if name in centres else v for name, v in draw.items()}
        hasher.set_params(**chosen)._validate_params()


def test_several_data_sets_each_under_its_protocol(own_file):
    rows, description = compare(["digits", own_file], methods=["lsh"], nbits=[8], n_seeds=1)
    assert [(row["dataset"], row["protocol"]) for row in rows] == [("digits", "holdout"), ("mine", "labelme")]
    assert description == "\n".join(row["description"] for row in rows)
    assert "relevance = same class" in rows[0]["description"]


def test_two_data_sets_of_one_name_are_refused(own_file, tmp_path):
    (tmp_path / "other").mkdir()
    np.savez(tmp_path / "other" / "mine.npz", X=np.eye(30))
    with pytest.raises(ValueError, match="data sets of different names are wanted"):
        compare([own_file, str(tmp_path / "other" / "mine.npz")], methods=["lsh"])


@pytest.fixture
def own_file(tmp_path):
    """Rows without labels."""
    np.savez(tmp_path / "mine.npz", X=np.random.default_rng(0).standard_normal((600, 8)))
    return str(tmp_path / "mine.npz")


def test_a_method_that_does_not_apply_says_why(own_file, capsys):
    assert main(["compare", own_file, "--methods", "sdh,pca", "--bits", "8", "--seeds", "1"]) == 0
    output = capsys.readouterr()
    reason = "not applicable: it learns from labels, and relevance is given by a DistanceAffinity"
    assert f"[1/2] sdh, 8 bits, seed 0 of mine: {reason}" in output.err
    assert f"sdh: {reason}." in output.out
    assert "8 bits: pca leads AP_T" in output.out


def test_a_method_that_fails_is_a_row_and_the_others_go_on(broken, tmp_path, capsys):
    arguments = ["compare", "--methods", "broken,lsh", "--bits", "8", "--seeds", "1", "--out", str(tmp_path)]
    assert main(arguments) == 1
    output = capsys.readouterr()
    assert "broken, 8 bits, seed 0 of digits: failed: InvalidParameterError: The 'n_iter' parameter" in output.err
    assert "1 of 2 fits failed" in output.err
    failed, done = json.loads((tmp_path / "results.json").read_text())
    assert failed["error"].startswith("InvalidParameterError")
    assert failed.keys() == done.keys() == COLUMNS - {"curves"}
    assert all(failed[name] is None for name in FIGURES)
    assert done["error"] is None
    record = next(record for record in Store(tmp_path).records() if record["row"]["error"])
    assert "Traceback" in record["traceback"]

    METHODS["broken"] = ("ITQHasher", {"n_iter": 1})  # mended: other settings
    assert main(arguments) == 0
    METHODS["broken"] = ("ITQHasher", {"n_iter": 0})  # a failed row is no finished one
    capsys.readouterr()
    assert main(arguments) == 1
    assert "lsh, 8 bits, seed 0 of digits: AP_T" in (error := capsys.readouterr().err)
    assert error.count("of an earlier run") == 1


# --- tuning


class ColumnHasher(PCAHasher):
    """Hashes by the sign of one column."""

    def __init__(self, nbits=1, *, column=0, affinity="auto", store_database=True, random_state=None):
        super().__init__(nbits, affinity=affinity, store_database=store_database, random_state=random_state)
        self.column = column

    def _learn(self, X, targets):
        if self.column == 2:
            raise ValueError("column 2 is bad")
        return np.eye(X.shape[1])[:, [self.column]]


@pytest.fixture
def misleading():
    """Training rows whose class shows in column 0, and queries whose class shows in column 1."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.choice([-1.0, 1.0], (200, 3))
    queries = rng.choice([-1.0, 1.0], (200, 3))
    X[:, 0] = queries[:, 1] = 2 * y - 1.0
    return Bunch(X_train=X, y_train=y, X_query=queries, y_query=y, affinity=ClassAffinity())


def test_tuning_looks_at_training_rows_only(misleading):
    make = partial(ColumnHasher, 1)
    ranked = {}
    for column in (0, 1):
        database = {"X_database": misleading.X_query, "y_database": misleading.y_query}
        ranked[column] = evaluate_hasher(make(column=column), Bunch(**misleading, **database))["ap"]
    assert ranked[1] > ranked[0] + 0.2  # the queries would prefer column 1
    misleading = Bunch(**{name: misleading[name] for name in ("X_train", "y_train", "affinity")})  # and are not needed
    for seed in range(3):
        candidates = tune(make, {"column": [1, 0]}, misleading, 5, seed=seed)
        assert len(candidates) == 3  # the default and the whole grid
        assert best_candidate(candidates)["parameters"] == {}
        other = next(candidate for candidate in candidates if candidate["parameters"] == {"column": 1})
        assert other["score"] < candidates[0]["score"] - 0.2


def test_training_rows_are_divided_evenly_over_the_classes():
    y = np.arange(100) % 20
    data = Bunch(X_train=np.zeros((100, 1)), y_train=y, affinity=ClassAffinity())
    learned, held = split_training_samples(data, 0)
    assert_array_equal(np.bincount(y[learned]), [4] * 20)
    assert_array_equal(np.bincount(y[held]), [1] * 20)


def test_tuning_finds_what_is_better_than_the_default(misleading):
    candidates = tune(partial(ColumnHasher, 1), {"column": [1, 0]}, misleading, 3)
    assert candidates[0]["parameters"] == {}
    backwards = Bunch(**misleading | {"X_train": misleading.X_train[:, [1, 0, 2]]})
    candidates = tune(partial(ColumnHasher, 1), {"column": [1, 0]}, backwards, 3)
    assert best_candidate(candidates)["parameters"] == {"column": 1}


def test_a_candidate_that_fails_is_noted_and_a_default_that_fails_is_raised(misleading):
    candidates = tune(partial(ColumnHasher, 1), {"column": [2]}, misleading, 2)
    assert candidates[1]["error"] == "ValueError: column 2 is bad"
    assert candidates[1]["score"] is None
    assert best_candidate(candidates) is candidates[0]
    with pytest.raises(ValueError, match="column 2 is bad"):
        tune(lambda column=2, **options: ColumnHasher(1, column=column, **options), {"column": [0]}, misleading, 2)


def test_candidates_lie_around_the_default_and_begin_alike():
    data = load_dataset("digits")
    make = partial(make_hasher, "itq-cca", 8, 0, data.affinity)
    few, more = (tune(make, SPACES["ITQCCAHasher"], data, budget) for budget in (2, 4))
    assert few[0]["centres"] == {"ridge": 0.1}
    assert [candidate["parameters"] for candidate in few] == [candidate["parameters"] for candidate in more[:2]]
    ridges = [candidate["parameters"]["ridge"] for candidate in more[1:]]
    assert len(set(ridges)) == 3
    assert all(0.001 <= ridge <= 10 for ridge in ridges)


def test_rows_tell_what_was_chosen():
    tuned, fixed = compare(methods=["itq-cca", "lsh"], nbits=[8], n_seeds=1, tune=3)[0]
    assert (tuned["n_candidates"], fixed["n_candidates"]) == (3, 1)
    assert set(tuned["parameters"]) <= {"ridge"}
    assert tuned["tuning_seconds"] > 0
    assert fixed["parameters"] == {}
    data = load_dataset("digits")
    again = evaluate_hasher(make_hasher("itq-cca", 8, 0, data.affinity, **tuned["parameters"]), data)
    assert again["ap"] == tuned["ap"]


# --- resuming


def test_what_is_finished_is_not_done_again(tmp_path, monkeypatch):
    options = {"methods": ["lsh", "itq"], "nbits": [8], "n_seeds": 2, "folder": tmp_path}
    first = compare(**options)[0]
    calls = []
    monkeypatch.setattr("skhash.comparison.tasks.evaluate_hasher", lambda *args, **kwargs: calls.append(args) or {})
    assert compare(**options)[0] == first
    assert not calls
    compare(**options | {"n_seeds": 3})
    assert len(calls) == 2


def test_other_settings_are_done_anew_and_fresh_does_all(tmp_path):
    options = {"methods": ["itq-cca"], "nbits": [8], "n_seeds": 1, "folder": tmp_path}
    compare(**options)
    tuned = compare(**options, tune=2)[0]
    assert tuned[0]["n_candidates"] == 2
    assert len(Store(tmp_path).records()) == 2
    again = compare(**options, tune=2, fresh=True)[0]
    assert again != tuned
    assert decided(again) == decided(tuned)


def test_other_data_of_the_same_name_are_other_settings(own_file, tmp_path):
    options = {"methods": ["lsh"], "nbits": [8], "n_seeds": 1, "folder": tmp_path / "out"}
    first = compare(own_file, **options)[0]
    np.savez(own_file, X=np.random.default_rng(1).standard_normal((600, 8)))
    assert compare(own_file, **options)[0][0]["ap"] != first[0]["ap"]


KILLED = """
import os, signal, sys
from skhash.comparison import compare, tuning

evaluate, done = tuning._evaluate, []

def evaluate_or_die(*args):
    if len(done) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(args)
    return evaluate(*args)

tuning._evaluate = evaluate_or_die
compare(methods=["lsh", "itq-cca"], nbits=[8], n_seeds=2, tune=4, folder=sys.argv[1])
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path, monkeypatch):
    run = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=os.environ, capture_output=True, text=True)
    assert run.returncode == -signal.SIGKILL, run.stderr
    kept = {(record["row"]["method"], record["row"]["seed"]) for record in Store(tmp_path).records()}
    assert kept == {("lsh", 0), ("itq-cca", 0), ("lsh", 1)}
    assert not list(tmp_path.rglob("*.part"))

    evaluated, evaluate = [], tuning._evaluate
    monkeypatch.setattr(tuning, "_evaluate", lambda *args: evaluated.append(args[1]) or evaluate(*args))
    options = {"methods": ["lsh", "itq-cca"], "nbits": [8], "n_seeds": 2, "tune": 4}
    rows = compare(**options, folder=tmp_path)[0]
    assert len(evaluated) == 3  # of four candidates of the second seed, one had been evaluated
    assert {} not in evaluated
    assert decided(rows) == decided(compare(**options)[0])


def test_a_damaged_file_is_named(tmp_path):
    compare(methods=["lsh"], nbits=[8], n_seeds=1, folder=tmp_path)
    path = next((tmp_path / "rows").iterdir())
    path.write_text("{")
    with pytest.raises(ValueError, match=f"{path.name} is no JSON"):
        compare(methods=["lsh"], nbits=[8], n_seeds=1, folder=tmp_path)


# --- processes and progress


def test_two_processes_give_the_rows_of_one(tmp_path):
    options = {"methods": ["itq-cca", "lsh"], "nbits": [8], "n_seeds": 2, "tune": 2}
    assert decided(compare(**options, n_jobs=2, folder=tmp_path)[0]) == decided(compare(**options)[0])
    assert len(list((tmp_path / "rows").iterdir())) == 4


def test_the_time_left_is_that_of_like_tasks():
    tasks = [Bunch(data=data, method=method, nbits=8) for data in ("a", "b") for method in ("slow", "quick", "new")]
    rows = [{"seconds": 90.0}, {"seconds": 2.0}, None, None, None, None]
    # new as the mean of all, 46, on either data set; slow and quick on b as on a
    assert time_left(tasks, rows) == 46 + 90 + 2 + 46
    assert time_left(tasks, rows, n_jobs=2) == 92


# --- the command line


def test_command_line_shows_progress_prints_the_table_and_writes(tmp_path, capsys):
    arguments = ["compare", "digits", "--methods", "itq,lsh", "--bits", "8", "--seeds", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    output = capsys.readouterr()
    assert "[1/2] itq, 8 bits, seed 0 of digits: AP_T" in output.err
    assert " left\n[2/2] lsh, 8 bits, seed 0" in output.err
    assert "tie range" in output.out
    assert "8 bits: itq leads AP_T with 0." in output.out
    rows = json.loads((tmp_path / "results.json").read_text())
    assert [row["method"] for row in rows] == ["itq", "lsh"]
    assert rows[0].keys() == COLUMNS - {"curves"}
    assert main(arguments) == 0
    assert capsys.readouterr().err.count("of an earlier run") == 2
    assert json.loads((tmp_path / "results.json").read_text()) == rows
    assert len(list((tmp_path / "rows").iterdir())) == 2


def test_an_interrupted_run_says_how_to_go_on(monkeypatch, capsys):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("skhash.comparison.tasks.evaluate_hasher", interrupt)
    assert main(["compare", "--methods", "lsh", "--bits", "8", "--seeds", "1"]) == 130
    assert "the same command goes on from here" in capsys.readouterr().err


def test_users_own_file(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    name = str(tmp_path / "mine, of May.npz")
    np.savez(name, X=rng.standard_normal((3, 8))[y] + 0.1 * rng.standard_normal((200, 8)), y=y)
    assert main(["compare", name, "digits,digits", "--methods", "itq", "--bits", "8,8", "--seeds", "1"]) == 0
    output = capsys.readouterr()
    assert "itq" in output.out
    assert "[2/2] itq, 8 bits, seed 0 of digits" in output.err
    np.savez(name, X=rng.standard_normal((200, 8)), y=np.zeros(200))
    assert main(["compare", name, "--methods", "itq"]) == 2
    assert "holds a single class" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "digits,nothing.npz"], "nothing.npz"),
        (["compare", "digits", "--protocol", "mirflickr"], "mirflickr"),
        (["compare", "digits", "--tune", "2", "--tune-metric", "magic"], "Got 'magic' instead"),
        (["compare", ","], "at least one data set"),
        (["compare", "--fresh"], "--fresh without --out"),
        (["compare", "--tune-metric", "ndcg"], "--tune-metric ndcg without --tune"),
        (["compare", "--out", __file__], "is a file; a folder is wanted"),
        (["report", "nowhere"], "nowhere has no rows"),
    ],
)
def test_mistakes_get_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("skhash: error: ")
    assert message in error


@pytest.mark.parametrize(
    "arguments",
    [["--methods", "magic"], ["--bits", "0"], ["--bits", "x"], ["--seeds", "0"], ["--jobs", "0"], ["--tune", "1"]],
)
def test_bad_options_are_refused_by_the_parser(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", *arguments])
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tune": 1}, "tune=1; the default"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"n_seeds": 0}, "n_seeds=0; at least one"),
        ({"methods": []}, r"methods=\[\]; at least one"),
        ({"nbits": []}, r"nbits=\[\]; code lengths"),
        ({"nbits": [8, 0]}, r"nbits=\[8, 0\]; code lengths"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        compare(**{"methods": ["lsh"], "nbits": [8], "n_seeds": 1} | options)
