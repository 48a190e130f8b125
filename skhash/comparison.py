"""Compare methods under one protocol: fit, encode, rank, and tabulate with the tie range."""

import json
import time
from pathlib import Path

import numpy as np

from skhash import hashers
from skhash.datasets import load_dataset
from skhash.metrics.counting import iter_histograms
from skhash.metrics.named import evaluate

#: method name -> hasher class and the parameters that set it apart
METHODS: dict = {
    "talr": ("TALRHasher", {}),
    "talr-mlp": ("TALRHasher", {"backbone": "mlp"}),
    "talr-ndcg": ("TALRHasher", {"objective": "ndcg"}),
    "talr-ndcg-mlp": ("TALRHasher", {"objective": "ndcg", "backbone": "mlp"}),
    "hashnet": ("HashNetHasher", {}),
    "hashnet-mlp": ("HashNetHasher", {"backbone": "mlp"}),
    "mihash": ("MIHashHasher", {}),
    "mihash-mlp": ("MIHashHasher", {"backbone": "mlp"}),
    "dpsh": ("DPSHHasher", {}),
    "dpsh-mlp": ("DPSHHasher", {"backbone": "mlp"}),
    "dhn": ("DHNHasher", {}),
    "dhn-mlp": ("DHNHasher", {"backbone": "mlp"}),
    "greedyhash": ("GreedyHashHasher", {}),
    "greedyhash-mlp": ("GreedyHashHasher", {"backbone": "mlp"}),
    "dtsh": ("DTSHHasher", {}),
    "dtsh-mlp": ("DTSHHasher", {"backbone": "mlp"}),
    "nsh": ("NSHHasher", {}),
    "structhash": ("StructHashHasher", {}),
    "itq-cca": ("ITQCCAHasher", {}),
    "ksh": ("KSHHasher", {}),
    "sdh": ("SDHHasher", {}),
    "agh": ("AGHHasher", {}),
    "itq": ("ITQHasher", {}),
    "pca": ("PCAHasher", {}),
    "spectral": ("SpectralHasher", {}),
    "spherical": ("SphericalHasher", {}),
    "lsh": ("LSHHasher", {}),
}
FIGURES = ("ap", "ap_worst", "ap_best", "ndcg", "precision_at_100", "precision_radius_2")
_COLUMNS = ("method", "bits", "AP_T", "tie range", "NDCG_T", "P@100", "P@radius 2", "fit s", "codes/s")


def compare(dataset="digits", *, protocol=None, methods=("talr", "itq", "lsh"), nbits=(32,), n_seeds=3, report=None):
    """Fit every method on every split of a data set, and rank the database for the queries.

    Parameters
    ----------
    dataset : str, default="digits"
        A name or an .npz file that :func:`skhash.datasets.load_dataset` reads.
    protocol : str, default=None
        Name of a protocol; None takes the one of the data set.
    methods : sequence of str, default=("talr", "itq", "lsh")
        Keys of `METHODS`.
    nbits : sequence of int, default=(32,)
        Code lengths.
    n_seeds : int, default=3
        Seeds 0, 1, ...; each decides a split and the methods' own draws.
    report : callable, default=None
        Called with each finished row, to show progress.

    Returns
    -------
    rows : list of dict
        One a method, code length and seed: dataset, protocol, method, nbits, seed, the
        names in `FIGURES`, fit_seconds, codes_per_second.
    description : str
        The protocol in a sentence.

    Raises
    ------
    ValueError
        If a method is unknown.

    Examples
    --------
    >>> from skhash.comparison import compare
    >>> rows, description = compare(methods=["lsh"], nbits=[8], n_seeds=1)
    >>> rows[0]["ap_worst"] <= rows[0]["ap"] <= rows[0]["ap_best"]
    True
    """
    for method in methods:
        if method not in METHODS:
            raise ValueError(f"method {method!r} is unknown; known ones are {', '.join(METHODS)}.")
    rows, description = [], ""
    for seed in range(n_seeds):
        data = load_dataset(dataset, protocol=protocol, random_state=seed)
        description = description or data.DESCR
        for bits in nbits:
            for method in methods:
                row = {
                    "dataset": data.name,
                    "protocol": str(data.protocol),
                    "method": method,
                    "nbits": bits,
                    "seed": seed,
                }
                row |= evaluate_hasher(make_hasher(method, bits, seed, data.affinity), data)
                rows.append(row)
                if report is not None:
                    report(row)
    return rows, description


def make_hasher(method, nbits, seed, affinity):
    """Build the hasher of a method name.

    Parameters
    ----------
    method : str
        A key of `METHODS`.
    nbits : int
        Code length.
    seed : int
        Its `random_state`.
    affinity : "auto" or callable
        Its affinity.

    Returns
    -------
    BaseHasher
        Not fitted.

    Examples
    --------
    >>> from skhash.comparison import make_hasher
    >>> make_hasher("itq", 16, 0, "auto")
    ITQHasher(nbits=16, random_state=0, store_database=False)
    """
    name, parameters = METHODS[method]
    hasher = getattr(hashers, name)(nbits, affinity=affinity, store_database=False, **parameters)
    return hasher.set_params(random_state=seed) if hasattr(hasher, "random_state") else hasher


def evaluate_hasher(hasher, data):
    """Fit a hasher on the training rows of a split and rank its database.

    Parameters
    ----------
    hasher : BaseHasher
        Fitted here.
    data : Bunch
        As :func:`skhash.datasets.load_dataset` returns it.

    Returns
    -------
    dict
        The names in `FIGURES`, those of ranks by weighted distances where the hasher has learned
        weights of its bits; fit_seconds, codes_per_second.
    """
    start = time.perf_counter()
    hasher.fit(data.X_train, data.y_train)
    fit_seconds = time.perf_counter() - start
    queries = hasher.encode(data.X_query)
    start = time.perf_counter()
    database = hasher.encode(data.X_database)
    encode_seconds = time.perf_counter() - start
    weights = getattr(hasher, "bit_weights_", None)
    passes: list = [(None, FIGURES)]
    if weights is not None:  # but a radius counts bits: weights would give it another meaning
        within = [name for name in FIGURES if "radius" in name]
        passes = [(weights, [name for name in FIGURES if name not in within]), (None, within)]
    figures: dict = {}
    for bit_weights, names in passes:
        options = {"affinity": data.affinity, "bit_weights": bit_weights, "nbits": hasher.nbits}
        figures |= evaluate(iter_histograms(queries, database, data.y_query, data.y_database, **options), names)
    return figures | {
        "fit_seconds": fit_seconds,
        "codes_per_second": len(database) / encode_seconds,
    }


def summarize(rows):
    """Average the rows of each method and code length over the seeds.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them.

    Returns
    -------
    list of list of str
        Table cells: a mean, and behind ± the standard deviation over the seeds.
    """
    cells = []
    for method, bits in dict.fromkeys((row["method"], row["nbits"]) for row in rows):
        group = [row for row in rows if (row["method"], row["nbits"]) == (method, bits)]

        def mean(name, group=group):
            return float(np.mean([row[name] for row in group]))

        def spread(name, group=group):
            deviation = f" ± {np.std([row[name] for row in group], ddof=1):.3f}" if len(group) > 1 else ""
            return f"{mean(name, group):.3f}{deviation}"

        cells.append(
            [
                method,
                str(bits),
                spread("ap"),
                f"{mean('ap_worst'):.3f} to {mean('ap_best'):.3f}",
                spread("ndcg"),
                *(f"{mean(name):.3f}" for name in ("precision_at_100", "precision_radius_2")),
                f"{mean('fit_seconds'):.1f}",
                f"{mean('codes_per_second'):,.0f}",
            ]
        )
    return cells


def markdown_table(rows):
    """Lay out the averaged rows as a Markdown table, columns aligned for plain reading.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them.

    Returns
    -------
    str
        The table.
    """
    cells = [list(_COLUMNS), *summarize(rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_COLUMNS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def write_rows(folder, rows):
    """Write ``results.json``, the rows as they are.

    Parameters
    ----------
    folder : str or Path
        An existing folder.
    rows : list of dict
        As :func:`compare` returns them.
    """
    (Path(folder) / "results.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def write_report(folder, rows, description):
    """Write ``results.json`` and ``results.md``.

    Parameters
    ----------
    folder : str or Path
        Created if need be.
    rows : list of dict
        As :func:`compare` returns them.
    description : str
        The protocol in a sentence.

    Returns
    -------
    Path
        The folder.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder, rows)
    seeds = len({row["seed"] for row in rows})
    note = (
        f"Means over {seeds} seeds, ± their standard deviation; "
        "the tie range is AP with the relevant items of each tie last and first."
    )
    text = (
        f"# {rows[0]['dataset']}, protocol {rows[0]['protocol']}\n\n{description}\n\n{markdown_table(rows)}\n\n{note}\n"
    )
    (folder / "results.md").write_text(text, encoding="utf-8")
    return folder
