"""Compare methods: every method on every split of every data set, in one process or in several."""

from skhash.comparison.methods import expand_methods
from skhash.comparison.store import Store
from skhash.comparison.tasks import Task, Tuning, identify, load, run_task
from skhash.metrics import Metric


def compare(
    dataset="digits",
    *,
    protocol=None,
    methods=("talr", "itq", "lsh"),
    nbits=(32,),
    n_seeds=3,
    report=None,
    tune=None,
    tune_metric="ap",
    n_jobs=1,
    folder=None,
    fresh=False,
):
    """Fit every method on every split of one or several data sets, and rank the database for the queries.

    Parameters
    ----------
    dataset : str or list of str, default="digits"
        Names or .npz files that :func:`skhash.datasets.load_dataset` reads.
    protocol : str or Protocol, default=None
        A protocol for all of them; None takes the usual one of each.
    methods : sequence of str, default=("talr", "itq", "lsh")
        Keys of `METHODS`, or groups: "all", "deep" (with a network below the hash layer),
        "shallow", "supervised", "unsupervised".
    nbits : sequence of int, default=(32,)
        Code lengths.
    n_seeds : int, default=3
        Seeds 0, 1, ...; each decides a split and the methods' own draws.
    report : callable, default=None
        Called with each finished row, to show progress.
    tune : int, default=None
        Number of candidates for the parameters of every method, the default among them; see
        :mod:`skhash.comparison.tuning`. None takes the default parameters.
    tune_metric : str, default="ap"
        What candidates are compared by, a name as in :meth:`skhash.metrics.Metric.parse`.
    n_jobs : int, default=1
        Number of processes; their threads are limited so that they share the cores.
    folder : str or Path, default=None
        Where finished rows are kept. Rows of the same settings that are there already are
        used again, failed ones excepted.
    fresh : bool, default=False
        Do everything anew, whatever is kept there.

    Returns
    -------
    rows : list of dict
        One a data set, method, code length and seed: dataset, protocol, description, method,
        nbits, seed, the names in `FIGURES`, fit_seconds, codes_per_second, codes_sha256, curves
        (see :func:`evaluate_hasher`); parameters, those that differ from the defaults,
        n_candidates and tuning_seconds, how they were chosen; seconds, of everything;
        not_applicable and error, None or why the results are None.
    description : str
        The protocol in a sentence, one line a data set.

    Raises
    ------
    ValueError
        If a method or a data set is unknown, or an option is out of its range.

    Examples
    --------
    >>> from skhash.comparison import compare
    >>> rows, description = compare(methods=["lsh"], nbits=[8], n_seeds=1)
    >>> rows[0]["ap_worst"] <= rows[0]["ap"] <= rows[0]["ap_best"]
    True
    """
    tuning = None if tune is None else Tuning(tune, tune_metric)
    tasks = plan(dataset, protocol, methods, nbits, n_seeds, tuning)
    rows: list = [None] * len(tasks)
    for position, row, _ in run_tasks(tasks, Store(folder), n_jobs=n_jobs, fresh=fresh):
        rows[position] = row
        if report is not None:
            report(row)
    return rows, "\n".join(dict.fromkeys(row["description"] for row in rows))


def plan(datasets, protocol, methods, nbits, n_seeds, tuning=None, command=None):
    """List the tasks of a comparison, after a look at every data set.

    Parameters
    ----------
    datasets : str or list of str
        As in :func:`compare`.
    protocol, methods, nbits, n_seeds
        As in :func:`compare`.
    tuning : Tuning, default=None
        How parameters are chosen.
    command : str, default=None
        The command line, noted with the results.

    Returns
    -------
    list of Task
        By data set, seed, code length and method.

    Raises
    ------
    ValueError
        If a method or a data set is unknown, two data sets have one name, tuning is given fewer
        than two candidates, or there is nothing to do.
    """
    methods, nbits = expand_methods(methods), list(dict.fromkeys(nbits))
    if not methods:
        raise ValueError(f"methods={methods}; at least one method is wanted.")
    if not nbits or min(nbits) < 1:
        raise ValueError(f"nbits={nbits}; code lengths of at least 1 are wanted.")
    if n_seeds < 1:
        raise ValueError(f"n_seeds={n_seeds}; at least one seed is wanted.")
    if tuning is not None:
        Metric.parse(tuning.figure)
        if tuning.budget < 2:
            raise ValueError(f"tune={tuning.budget}; the default and at least one more candidate, 2, are wanted.")
    names = dict.fromkeys([datasets] if isinstance(datasets, str) else datasets)
    if not names:
        raise ValueError(f"dataset={datasets!r}; at least one data set is wanted.")
    sources = [identify(name, protocol) for name in names]
    called = [dict(source.facts)["dataset"] for source in sources]
    if len(set(called)) < len(called):
        raise ValueError(f"dataset={list(names)} names {called}; data sets of different names are wanted.")
    return [
        Task(source, method, bits, seed, tuning, command)
        for source in sources
        for seed in range(n_seeds)
        for bits in nbits
        for method in methods
    ]


def run_tasks(tasks, store, *, n_jobs=1, fresh=False):
    """Yield the row of every task: those that are kept already, then the others as they are finished.

    Parameters
    ----------
    tasks : list of Task
        What to do.
    store : Store
        Where finished rows are kept.
    n_jobs : int, default=1
        Number of processes.
    fresh : bool, default=False
        Remove what is kept of these tasks first.

    Yields
    ------
    position : int
        Of the task in `tasks`.
    row : dict
        Its row, see :func:`compare`.
    kept : bool
        Whether it had been finished before.
    """
    import joblib

    if n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs}; a number of processes of at least 1 is wanted.")
    waiting = []
    for position, task in enumerate(tasks):
        if fresh:
            store.discard("rows", task.settings)
            if task.tuning is not None:
                store.discard("tuning", task.tuning_settings)
        record = store.read("rows", task.settings)
        if record is None or record["row"]["error"] is not None:
            waiting.append(position)
        else:
            yield position, record["row"], True
    jobs = (joblib.delayed(_numbered)(position, tasks[position], store) for position in waiting)
    if n_jobs == 1:
        limits = {"backend": "sequential"}
    else:
        limits = {"backend": "loky", "inner_max_num_threads": max(1, joblib.cpu_count() // n_jobs)}
    try:
        with joblib.parallel_config(**limits):
            finished = joblib.Parallel(n_jobs, return_as="generator_unordered", batch_size=1)(jobs)
        for position, row in finished:
            yield position, row, False
    finally:
        load.cache_clear()


def _numbered(position, task, store):
    return position, run_task(task, store)
