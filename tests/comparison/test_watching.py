"""The steps within a fit, and the line of a terminal that shows them."""

import io
import math
import re
import time
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from _helpers import needs_callbacks

from skhash._progress import LiveLine
from skhash.comparison import Plan, Progress, Result, Step, compare
from skhash.comparison.progress import FitWatcher

STEP = Step(0, "talr, 8 bits", "epoch", 12, 125, 50.0, 41.0, 0.12345, n_tasks=3, total_seconds_left=130.0)
DONE = Progress(Result(dataset="d", method="itq", nbits=8, seed=1, error="no"), 1, 3, 30.0)


class Terminal(io.StringIO):
    """A text file that is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(scope="module")
def few(digits, tmp_path_factory):
    """The path of 150 digits."""
    path = tmp_path_factory.mktemp("few") / "few.npz"
    np.savez(path, X=digits.X[:150], y=digits.y[:150])
    return str(path)


def watched(data, methods, **options):
    seen = []
    results, _ = compare(data, methods=methods, nbits=[4], n_seeds=1, watch=seen.append, **options)
    return results, seen


@pytest.fixture
def set_interval(monkeypatch):
    """A function that sets the seconds between two reported steps."""
    module = import_module("skhash.comparison.compare")  # the attribute of this name is the function
    return lambda seconds: monkeypatch.setattr(module, "FitWatcher", partial(FitWatcher, interval=seconds))


@needs_callbacks
def test_each_epoch_is_told_and_changes_nothing(few, set_interval):
    set_interval(0.0)
    results, (plan, *steps) = watched(few, ["talr-ndcg", "lsh"])
    assert str(plan) == results[0].description
    assert plan.n_tasks == 2
    n = steps[0].n_steps
    assert [(step.unit, step.n_done, step.position) for step in steps] == [("epoch", i + 1, 0) for i in range(n)]
    assert all(step.loss > 0 for step in steps)
    assert steps[0].seconds is None
    assert all(0 <= step.seconds_left <= step.seconds for step in steps[1:])
    assert (steps[-1].seconds_left, steps[-1].label) == (0, "talr-ndcg, 4 bits")
    assert steps[-1].total_seconds_left > 0  # of lsh
    assert compare(few, methods=["talr-ndcg"], nbits=[4], n_seeds=1)[0][0].codes_sha256 == results[0].codes_sha256


@needs_callbacks
@pytest.mark.parametrize("start", [0.0, -5.0, 1e9])
def test_steps_are_told_a_few_times_a_second(few, monkeypatch, set_interval, start):
    """Whatever the clock shows: on some systems it begins when the machine starts."""
    clock, begin = time.perf_counter, time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: clock() - begin + start)
    set_interval(math.inf)
    _, (_, *steps) = watched(few, ["talr-ndcg"])
    assert [step.n_done for step in steps] == [1, steps[0].n_steps]


@pytest.mark.slow
def test_other_processes_report_finished_fits_alone(few):
    finished = []
    _, seen = watched(few, ["talr-ndcg", "fastap"], n_jobs=2, report=finished.append)
    assert [type(event) for event in seen] == [Plan]
    assert {progress.position for progress in finished} == {0, 1}


@needs_callbacks
@pytest.mark.slow
def test_candidates_are_counted(few):
    _, (_, *steps) = watched(few, ["cghash"], tune=2)
    assert {(step.fit, step.n_fits, step.unit) for step in steps} == {(1, 3, "bit"), (2, 3, "bit"), (3, 3, "bit")}
    assert "cghash, 4 bits, candidate 2 of 2: bit " in "\n".join(map(str, steps))


def test_the_line_of_a_step():
    line = "[1/3] talr, 8 bits: epoch 12 of 125, loss 0.123"
    assert str(STEP) == f"{line}; 41 s left, 2 min in all"
    assert str(Step(0, "talr, 8 bits", "epoch", 12, 125, loss=0.12345, n_tasks=3)) == line
    assert str(Step(0, "x", "bit", 1, 8, n_tasks=3)) == "[1/3] x: bit 1 of 8"


def test_a_terminal_shows_the_step_below_the_lines(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    with LiveLine(terminal) as live:
        live.write(Plan(["one", "two"], 3))
        live.show(STEP)
        while str(STEP) not in terminal.getvalue():  # rich draws in a thread
            time.sleep(0.01)
        live.write(DONE)
    shown = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", terminal.getvalue())
    assert shown.startswith("one\ntwo\n")
    assert shown.endswith(f"{DONE}\n")


@pytest.mark.parametrize("file", [io.StringIO, Terminal])
def test_without_rich_a_line_per_minute(monkeypatch, file):
    file, now = file(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr("skhash._progress.find_spec", lambda name: None)
    with LiveLine(file) as live:
        for now[0] in range(0, 150, 10):
            live.show(STEP)
        live.write(DONE)
    assert file.getvalue() == f"{STEP}\n" * 2 + f"{DONE}\n"
