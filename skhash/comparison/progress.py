"""A line for every finished task, and how long the others will take."""

import numpy as np


def progress_line(tasks, rows, row, n_jobs=1, kept=False):
    """Report a finished task in a line.

    Parameters
    ----------
    tasks : list of Task
        All of them.
    rows : list of dict or None
        Row of each task, None where it is not finished.
    row : dict
        The one to report.
    n_jobs : int, default=1
        Number of processes.
    kept : bool, default=False
        Whether it had been finished in an earlier run.

    Returns
    -------
    str
        The line.
    """
    n_done = sum(row is not None for row in rows)
    head = f"[{n_done}/{len(tasks)}] {row['method']}, {row['nbits']} bits, seed {row['seed']} of {row['dataset']}"
    if row["error"]:
        text = f"failed: {row['error']}"
    elif row["not_applicable"]:
        text = f"not applicable: {row['not_applicable']}"
    else:
        text = f"AP_T {row['ap']:.3f}, NDCG_T {row['ndcg']:.3f}, fitted in {row['fit_seconds']:.1f} s"
        if row["n_candidates"] > 1:
            text += f" after {row['n_candidates']} candidates in {row['tuning_seconds']:.1f} s"
    if kept:
        return f"{head}: {text}; of an earlier run"
    left = "" if n_done == len(tasks) else f"; {in_words(time_left(tasks, rows, n_jobs))} left"
    return f"{head}: {text}{left}"


def time_left(tasks, rows, n_jobs=1):
    """Estimate the seconds to the end: a task takes as long as its like have taken on average.

    Parameters
    ----------
    tasks : list of Task
        All of them.
    rows : list of dict or None
        Row of each task, None where it is not finished.
    n_jobs : int, default=1
        Number of processes.

    Returns
    -------
    float
        Seconds.
    """
    seconds: dict = {}
    for task, row in zip(tasks, rows, strict=True):
        for key in _likes(task) if row is not None else ():
            seconds.setdefault(key, []).append(row["seconds"])
    waiting = [task for task, row in zip(tasks, rows, strict=True) if row is None]
    return sum(np.mean(next(seconds[key] for key in _likes(task) if key in seconds)) for task in waiting) / n_jobs


def in_words(seconds):
    """Write a time roughly.

    Parameters
    ----------
    seconds : float
        The time.

    Returns
    -------
    str
        In words.

    Examples
    --------
    >>> from skhash.comparison.progress import in_words
    >>> in_words(41), in_words(600), in_words(9000)
    ('about 41 s', 'about 10 min', 'about 2.5 h')
    """
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def _likes(task):
    """What a task takes its time from, the nearest first."""
    return (task.data, task.method, task.nbits), (task.data, task.method), task.method, None
