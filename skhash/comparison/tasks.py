"""One task of a comparison: a method on one split of a data set, tuned if asked, fitted and ranked."""

import time
import traceback
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from importlib.metadata import version
from platform import python_version

import numpy as np

from skhash import __version__
from skhash.affinity import ClassAffinity
from skhash.comparison.evaluation import FIGURES, evaluate_hasher
from skhash.comparison.methods import METHODS, SPACES, make_hasher, why_not
from skhash.comparison.tuning import best_candidate, tune
from skhash.datasets import load_dataset

#: what a row has beside what it is about; None where a method does not apply or failed
RESULTS = (*FIGURES, "fit_seconds", "codes_per_second", "codes_sha256", "curves")


@dataclass(frozen=True)
class DataSource:
    """A data set under a protocol, and the facts that tell it from others.

    Parameters
    ----------
    source, protocol : str
        What :func:`skhash.datasets.load_dataset` takes.
    facts : tuple of (str, str)
        Of the split of seed 0: "dataset" and "protocol", their names; "description", the
        protocol in a sentence; "data", a hash of the arrays.
    """

    source: str
    protocol: object
    facts: tuple


@dataclass(frozen=True)
class Tuning:
    """How parameters are chosen.

    Parameters
    ----------
    budget : int
        Number of candidates of every method.
    figure : str, default="ap"
        What is compared on held-out training rows.
    """

    budget: int
    figure: str = "ap"


@dataclass(frozen=True)
class Task:
    """A method, a code length and a seed on a data set.

    Parameters
    ----------
    data : DataSource
        The data set.
    method : str
        A key of `METHODS`.
    nbits : int
        Code length.
    seed : int
        Decides the split and the method's own draws.
    tuning : Tuning, default=None
        None takes the default parameters.
    command : str, default=None
        The command line behind it, which is noted with the result.
    """

    data: DataSource
    method: str
    nbits: int
    seed: int
    tuning: Tuning | None = None
    command: str | None = None

    @property
    def settings(self):
        """Everything that decides the figures, for JSON."""
        name, parameters = METHODS[self.method]
        own = {"method": self.method, "nbits": self.nbits, "seed": self.seed}
        tuning = None if self.tuning is None else asdict(self.tuning)
        built = {"class": name, "method_parameters": parameters}
        return dict(self.data.facts) | own | built | {"tuning": tuning, "versions": versions()}

    @property
    def tuning_settings(self):
        """Everything that decides a candidate's score: all but how many there are to be."""
        return self.settings | {"tuning": self.tuning and self.tuning.figure}


@lru_cache(maxsize=1)
def versions():
    """Versions of what computes: Python, skhash and the libraries below it."""
    libraries = ("numpy", "scipy", "scikit-learn", "torch", "numba", "cvxpy")
    return {"python": python_version(), "skhash": __version__} | {name: version(name) for name in libraries}


@lru_cache(maxsize=1)
def load(source, protocol, seed):
    """Load a split; each process keeps the last one."""
    return load_dataset(source, protocol=protocol, random_state=seed)


def identify(source, protocol):
    """Load the split of seed 0 and note what tells the data set from others.

    Parameters
    ----------
    source : str
        A name or an .npz file that :func:`skhash.datasets.load_dataset` reads.
    protocol : str or Protocol
        None takes the usual one of the data set.

    Returns
    -------
    DataSource
        The data set.

    Raises
    ------
    ValueError
        If it has a single class.
    """
    import joblib

    data = load(source, protocol, 0)
    if isinstance(data.affinity, ClassAffinity) and len(np.unique(data.y_database)) == 1:
        raise ValueError(f"dataset={source!r} holds a single class, so that every row is relevant; two are wanted.")
    digest = joblib.hash([data.X_query, data.y_query, data.X_database, data.y_database, data.train_index])
    facts = {"dataset": data.name, "protocol": str(data.protocol), "description": data.DESCR, "data": digest}
    return DataSource(source, protocol, tuple(facts.items()))


def run_task(task, store):
    """Tune if asked, fit, rank, and store the row.

    Parameters
    ----------
    task : Task
        What to do.
    store : Store
        Where finished work is kept.

    Returns
    -------
    dict
        The row. Where the method does not apply, "not_applicable" says why, and where
        anything failed, "error" says what; the figures are None then.
    """
    start = time.perf_counter()
    facts = dict(task.data.facts)
    about = {"source": task.data.source} | {name: facts[name] for name in ("dataset", "protocol", "description")}
    row: dict = about | {"method": task.method, "nbits": task.nbits, "seed": task.seed} | dict.fromkeys(RESULTS)
    row |= {"parameters": METHODS[task.method][1], "n_candidates": 1, "tuning_seconds": 0.0}
    row |= {"not_applicable": None, "error": None}
    record: dict = {"command": task.command}
    try:
        data = load(task.data.source, task.data.protocol, task.seed)
        row["not_applicable"] = why_not(task.method, data)
        if row["not_applicable"] is None:
            chosen = {} if task.tuning is None else _tune(task, data, store, row)
            hasher = make_hasher(task.method, task.nbits, task.seed, data.affinity, **chosen)
            row |= evaluate_hasher(hasher, data, details=True)
            if row["ap"] != row["ap"]:
                raise ValueError("no query has a relevant row in the database")
    except Exception as error:  # the other methods go on; the row, and the exit status at the end, tell
        row |= dict.fromkeys(RESULTS) | {"error": f"{type(error).__name__}: {error}"}
        record["traceback"] = traceback.format_exc()
    row["seconds"] = time.perf_counter() - start
    record |= {"finished": datetime.now(UTC).isoformat(), "row": row}
    store.write("rows", task.settings, record)
    return row


def _tune(task, data, store, row):
    """Choose parameters, note them in the row, and return them."""
    space = SPACES.get(METHODS[task.method][0], {})
    if not space:
        return {}
    settings = task.tuning_settings
    candidates = tune(
        partial(make_hasher, task.method, task.nbits, task.seed, data.affinity),
        space,
        data,
        task.tuning.budget,
        seed=task.seed,
        figure=task.tuning.figure,
        known=(store.read("tuning", settings) or {"candidates": ()})["candidates"],
        keep=lambda candidates: store.write("tuning", settings, {"candidates": candidates}),
    )
    chosen = best_candidate(candidates)["parameters"]
    row["parameters"] = row["parameters"] | chosen
    row["n_candidates"] = len(candidates)
    row["tuning_seconds"] = sum(candidate["seconds"] for candidate in candidates)
    return chosen
