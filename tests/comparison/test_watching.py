"""The steps within a fit, and the line of a terminal that shows them."""

import io
import math
import time

import pytest

from skhash.comparison import Plan, Progress, Result, Step, _watching, compare
from skhash.comparison._live import LiveLine

STEP = Step(0, "talr, 8 bits", "epoch", 12, 125, 50.0, 41.0, 0.12345, n_tasks=3, total_seconds_left=130.0)
DONE = Progress(Result(dataset="d", method="itq", nbits=8, seed=1, error="no"), 1, 3, 30.0)


class Terminal(io.StringIO):
    """What a user sees of a text file that is a terminal."""

    def isatty(self):
        return True

    def screen(self):
        lines = []
        for line in self.getvalue().split("\n"):
            shown = ""
            for text in line.split("\r"):
                shown = text + shown[len(text) :]
            lines.append(shown.rstrip())
        return lines


def run(methods, **options):
    seen = []
    results, _ = compare(methods=methods, nbits=[4], n_seeds=1, watch=seen.append, **options)
    return results, seen


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(_watching, "_INTERVAL", 0.0)


def test_each_epoch_is_told_and_changes_nothing(every_step):
    results, (plan, *steps) = run(["talr-ndcg", "lsh"])
    assert str(plan) == results[0].description
    assert plan.n_tasks == 2
    n = steps[0].n_steps
    assert [(step.unit, step.n_done, step.position) for step in steps] == [("epoch", i + 1, 0) for i in range(n)]
    assert all(step.loss > 0 for step in steps)
    assert steps[0].seconds is None
    assert all(0 <= step.seconds_left <= step.seconds for step in steps[1:])
    assert (steps[-1].seconds_left, steps[-1].label) == (0, "talr-ndcg, 4 bits")
    assert steps[-1].total_seconds_left > 0  # of lsh
    assert compare(methods=["talr-ndcg"], nbits=[4], n_seeds=1)[0][0].codes_sha256 == results[0].codes_sha256


@pytest.mark.parametrize("start", [0.0, -5.0, 1e9])
def test_steps_are_told_a_few_times_a_second(monkeypatch, start):
    """Whatever the clock shows: on some systems it begins when the machine starts."""
    clock, begin = time.perf_counter, time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: clock() - begin + start)
    monkeypatch.setattr(_watching, "_INTERVAL", math.inf)
    _, (_, *steps) = run(["talr-ndcg"])
    assert [step.n_done for step in steps] == [1, steps[0].n_steps]


@pytest.mark.slow
def test_steps_come_from_other_processes():
    _, (_, *steps) = run(["talr-ndcg", "fastap"], n_jobs=2)
    assert {step.position for step in steps} == {0, 1}


@pytest.mark.slow
def test_candidates_are_counted():
    _, (_, *steps) = run(["cghash"], tune=2)
    assert {(step.fit, step.n_fits, step.unit) for step in steps} == {(1, 3, "bit"), (2, 3, "bit"), (3, 3, "bit")}
    assert "cghash, 4 bits, candidate 2 of 2: bit " in "\n".join(map(str, steps))


def test_the_line_of_a_step():
    line = "[1/3] talr, 8 bits: epoch 12 of 125, loss 0.123"
    assert str(STEP) == f"{line}; 41 s left, 2 min in all"
    assert str(Step(0, "talr, 8 bits", "epoch", 12, 125, loss=0.12345, n_tasks=3)) == line
    assert str(Step(0, "x", "bit", 1, 8, n_tasks=3)) == "[1/3] x: bit 1 of 8"


def test_a_terminal_shows_the_latest_step_of_the_first_fit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    with LiveLine(terminal) as live:
        live.show(Plan(["one", "two"], 3))
        live.show(STEP)
        assert terminal.screen() == ["one", "two", str(STEP)[:59]]
        live.show(Step(1, "x", "bit", 1, 8, n_tasks=3))
        assert terminal.screen()[-1] == str(STEP)[:59]
        live.write(DONE)
        live.show(Step(1, "x", "bit", 2, 8, n_tasks=3))
        assert terminal.screen() == ["one", "two", str(DONE), "[2/3] x: bit 2 of 8"]
    assert terminal.screen() == ["one", "two", str(DONE), ""]


def test_a_file_gets_a_line_per_minute(monkeypatch):
    file, now = io.StringIO(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with LiveLine(file) as live:
        for now[0] in range(0, 150, 10):
            live.show(STEP)
    assert file.getvalue() == f"{STEP}\n" * 2
