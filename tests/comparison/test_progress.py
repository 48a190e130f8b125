"""The line per finished fit, and the estimate of the time left."""

import pytest

from skhash._progress import format_seconds
from skhash.comparison import Progress, Result, Step
from skhash.comparison.progress import estimate_seconds_left

DONE = Result(dataset="d", method="itq", nbits=8, seed=1, metrics={"ap": 0.5, "ndcg": 0.75}, fit_seconds=2.0)


def taking(seconds):
    return Result(method="", nbits=8, seed=0, seconds=seconds)


def test_the_time_left_is_that_of_the_method():
    methods = ["talr", "ksh", "itq"] * 2
    results = {0: taking(70.0), 1: taking(2.0)}
    # usual seconds are 35, 1 and 1: itq takes the mean of 70 / 35 and 2 / 1
    assert estimate_seconds_left(methods, results) == 2 + 70 + 2 + 2
    assert estimate_seconds_left(methods, results, n_jobs=2) == 38


def test_a_slow_first_method_does_not_make_the_others_slow():
    methods = ["talr", "itq", "lsh"] * 3
    assert estimate_seconds_left(methods, {0: taking(35.0)}) == 2 * 35 + 6 * 1


def test_a_fit_in_progress_gives_the_first_estimate():
    methods = ["talr", "itq"] * 2
    step = Step(0, "talr", "epoch", 10, 100, seconds=70.0, seconds_left=63.0)
    assert estimate_seconds_left(methods, {}, step=step) == 63 + 2 + 70 + 2
    assert estimate_seconds_left(methods, {}, step=Step(0, "talr", "epoch", 1, 100)) == 0
    assert estimate_seconds_left(methods, {}) == 0


def test_a_line_says_what_came_out():
    line = "[1/2] itq, 8 bits, seed 1 of d: AP_T 0.500, NDCG_T 0.750, fitted in 2.0 s"
    assert str(Progress(DONE, 1, 2, 30.0)) == f"{line}; about 30 s left"
    assert str(Progress(DONE, 1, 2, 30.0, reused=True)) == f"{line}; reused"
    assert str(Progress(DONE, 2, 2, 0.0)) == line.replace("[1/2]", "[2/2]")


def test_a_line_says_why_nothing_came_out():
    failed, other = (
        Result(method="itq", nbits=8, seed=1, error="no"),
        Result(method="sdh", nbits=8, seed=1, not_applicable="no"),
    )
    assert str(Progress(failed, 2, 2, 0.0)).endswith(": failed: no")
    assert str(Progress(other, 2, 2, 0.0)).endswith(": not applicable: no")


@pytest.mark.parametrize(
    ("seconds", "text"), [(41, "about 41 s"), (600, "about 10 min"), (5399, "about 90 min"), (9000, "about 2.5 h")]
)
def test_times_in_words(seconds, text):
    assert format_seconds(seconds) == text
