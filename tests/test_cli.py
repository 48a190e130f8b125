"""The command line."""

import json
import subprocess
import sys

import numpy as np
import pytest
from _helpers import without_times

from skhash.cli import main
from skhash.comparison import METHODS, _pictures, compare
from skhash.datasets import PROTOCOLS
from skhash.registry import GROUPS

QUICK = ["--methods", "lsh", "--bits", "8", "--seeds", "1"]


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    """Pictures take most of the time; tests/comparison/test_page.py tests them."""
    monkeypatch.setattr(_pictures, "can_draw", lambda: False)


def test_compare_shows_progress_prints_the_table_and_writes(tmp_path, capsys):
    arguments = ["compare", "digits", "--methods", "itq,lsh", "--bits", "8", "--seeds", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    output = capsys.readouterr()
    assert "[1/2] itq, 8 bits, seed 0 of digits: AP_T" in output.err
    assert " left\n[2/2] lsh, 8 bits, seed 0" in output.err
    assert "tie range" in output.out
    assert "8 bits: itq is best in AP_T (0." in output.out
    assert {path.name for path in tmp_path.iterdir()} > {"results.json", "results.md", "report.html"}
    entries = json.loads((tmp_path / "results.json").read_text())
    assert [entry["method"] for entry in entries] == ["itq", "lsh"]
    assert "skhash compare digits" in (tmp_path / "report.html").read_text(encoding="utf-8")

    assert main(arguments) == 0
    assert capsys.readouterr().err.count("; reused") == 2
    assert json.loads((tmp_path / "results.json").read_text()) == entries
    assert len(list((tmp_path / "rows").iterdir())) == 2

    (tmp_path / "report.html").unlink()
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"File: {tmp_path / 'report.html'}\n"


def test_the_command_gives_the_results_of_the_function(tmp_path):
    arguments = ["--methods", "itq-cca,lsh", "--bits", "8", "--seeds", "1", "--tune", "2", "--tune-metric", "ndcg"]
    assert main(["compare", *arguments, "--out", str(tmp_path)]) == 0
    results, _ = compare(methods=["itq-cca", "lsh"], nbits=[8], n_seeds=1, tune=2, tune_metric="ndcg")
    expected = without_times([result.to_dict() for result in results])
    assert without_times(json.loads((tmp_path / "results.json").read_text())) == expected


def test_a_failed_fit_gives_status_1(monkeypatch, capsys):
    def fail(*args, **options):
        raise FloatingPointError("no")

    monkeypatch.setattr("skhash.comparison._tasks.evaluate_hasher", fail)
    assert main(["compare", *QUICK]) == 1
    output = capsys.readouterr()
    assert "lsh, 8 bits, seed 0 of digits: failed: FloatingPointError: no" in output.err
    assert "1 of 1 fits failed" in output.err
    assert "8 bits: no method has results." in output.out


def test_an_interrupted_run_says_how_to_continue(monkeypatch, capsys):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("skhash.comparison._tasks.evaluate_hasher", interrupt)
    assert main(["compare", *QUICK]) == 130
    assert "the same command continues from here" in capsys.readouterr().err


def test_data_sets_are_names_and_files_even_with_a_comma(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    name = str(tmp_path / "mine, of May.npz")
    np.savez(name, X=rng.standard_normal((3, 8))[y] + 0.1 * rng.standard_normal((200, 8)), y=y)
    assert main(["compare", name, "digits,digits", "--methods", "itq", "--bits", "8,8", "--seeds", "1"]) == 0
    output = capsys.readouterr()
    assert "[1/2] itq, 8 bits, seed 0 of mine, of May" in output.err
    assert "[2/2] itq, 8 bits, seed 0 of digits" in output.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "digits,nothing.npz"], "nothing.npz"),
        (["compare", "digits", "--protocol", "mirflickr"], "mirflickr"),
        (["compare", "digits", "--tune", "2", "--tune-metric", "magic"], "Got 'magic' instead"),
        (["compare", ","], "`dataset` must name at least one data set"),
        (["compare", "--fresh"], "--fresh needs --out"),
        (["compare", "--tune-metric", "ndcg"], "--tune-metric needs --tune"),
        (["compare", "--out", __file__], "must be a folder"),
        (["report", "nowhere"], "nowhere has no results"),
    ],
)
def test_errors_of_the_user_get_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("skhash: error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "magic"], "must be names of methods or groups"),
        (["--protocol", "magic"], "must be one of holdout, 5k"),
        (["--bits", "0"], "must be ints >= 1, such as 16,32,64. Got '0'"),
        (["--bits", "x"], "must be ints >= 1, such as 16,32,64. Got 'x'"),
        (["--seeds", "0"], "must be an int >= 1. Got '0'"),
        (["--jobs", "x"], "must be an int >= 1. Got 'x'"),
        (["--tune", "1"], "must be an int >= 2. Got '1'"),
    ],
)
def test_bad_options_are_refused_by_the_parser(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", *arguments])
    error = capsys.readouterr().err
    assert arguments[0] in error
    assert message in error


def test_the_help_lists_protocols_methods_and_groups(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["compare", "--help"])
    text = capsys.readouterr().out
    words = text.replace(",", " ").split()
    assert all(name in words for name in (*METHODS, *GROUPS, *PROTOCOLS))
    assert max(map(len, text.splitlines())) <= 80


def test_the_command_starts_without_heavy_imports():
    code = "import sys, skhash.cli; skhash.cli._parser().format_help(); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & {"torch", "numba", "sklearn", "scipy", "numpy"}
