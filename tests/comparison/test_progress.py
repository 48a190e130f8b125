"""The line per finished fit, and the estimate of the time left."""

from sklearn.utils import Bunch

from skhash.comparison import Progress, Result
from skhash.comparison.progress import estimate_seconds_left

DONE = Result(dataset="d", method="itq", nbits=8, seed=1, ap=0.5, ndcg=0.75, fit_seconds=2.0)


def test_the_time_left_is_that_of_similar_tasks():
    tasks = [Bunch(data=data, method=method, nbits=8) for data in ("a", "b") for method in ("slow", "quick", "new")]
    results = [Bunch(seconds=90.0), Bunch(seconds=2.0), None, None, None, None]
    # new as the mean of all, 46, on either data set; slow and quick on b as on a
    assert estimate_seconds_left(tasks, results) == 46 + 90 + 2 + 46
    assert estimate_seconds_left(tasks, results, n_jobs=2) == 92


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
