"""Results of experiments: one dict per fit, stored as JSON, and averaged over the seeds."""

import json
from pathlib import Path

from skhash._files import write_atomically
from skhash.affinity import Relevance
from skhash.codes import Codes
from skhash.comparison import mean_and_spread, tie_range
from skhash.metrics import Ranking, evaluate_ranking

RESULTS = Path(__file__).parent / "results"


def rank(hasher, data, metrics, *, weighted=True):
    """Metrics of a fitted hasher on a split, means over the queries.

    Parameters
    ----------
    hasher : BaseHasher
        Fitted hasher.
    data : Bunch
        Split as :func:`skhash.datasets.load_dataset` returns it. With a true ``exclude_self`` the
        queries are the database, and none is ranked for itself.
    metrics : list of str
        Names of metrics, see :meth:`skhash.metrics.Metric.parse`.
    weighted : bool, default=True
        Whether to use the weights of the bits, if the hasher has learned any.

    Returns
    -------
    dict of str to float
    """
    weights = getattr(hasher, "bit_weights_", None) if weighted else None
    codes = [Codes.of(hasher.encode(X), hasher.nbits) for X in (data.X_query, data.X_database)]
    options = {"bit_weights": weights, "exclude_self": data.get("exclude_self", False)}
    ranking = Ranking(*codes, Relevance.between(data.y_query, data.y_database, data.affinity), **options)
    return evaluate_ranking(ranking, metrics)


def read(path):
    """Stored results; none if there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def store(path, results, keys):
    """Add results to a file, in place of older ones with the same values of `keys`.

    Parameters
    ----------
    path : Path
        JSON file with a list of results, created if missing.
    results : list of dict
        New results.
    keys : sequence of str
        Keys that identify a measurement.
    """
    new = {tuple(result[key] for key in keys) for result in results}
    old = read(path)
    write(path, [result for result in old if tuple(result.get(key) for key in keys) not in new] + results)


def measure_missing(path, keys, cells, measure):
    """Measure the cells, values of `keys`, whose results are not stored yet, and store each at once."""
    for cell in cells:
        wanted = dict(zip(keys, cell, strict=True)).items()
        if not any(wanted <= result.items() for result in read(path)):
            result = dict(wanted) | measure(*cell)
            store(path, [result], keys)
            print(result, flush=True)


def write_table(path, table):
    """Write the Markdown of a table, and print it."""
    path.write_text(table, encoding="utf-8")
    print(f"written: {path}\n\n{table}")


def write(path, results):
    """Write results to a file, created if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as file:
        file.write((json.dumps(results, indent=1) + "\n").encode())


def mean_text(results, metric="ap", digits=4):
    """Mean of a metric over the seeds ± its standard deviation, and for AP_T its tie range."""
    text = mean_and_spread([result[metric] for result in results], digits)
    return f"{text} ({tie_range(results, metric, digits)})" if metric == "ap" else text


def as_markdown(lines):
    """Markdown of a table: the head, then its lines."""
    head, *body = lines
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body))
