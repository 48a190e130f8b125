"""Tables of averaged results in Markdown, and the list of methods without results."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from skhash.comparison._groups import by_dataset, by_method
from skhash.comparison.leaders import HEADS, MARKED, find_leaders

COLUMNS = ("method", "bits", "AP_T", "tie range", *list(HEADS.values())[1:], "fit s", "codes/s")
NOTE = "the tie range is AP with the relevant items of each tie last and first"
LEGEND = f"* {MARKED}."

Results = Sequence[Mapping[str, Any]]


def mean_and_spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean of values over the seeds, and after ± their standard deviation.

    Parameters
    ----------
    values : sequence of float
        One per seed.
    digits : int, default=3
        Number of decimal digits.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> from skhash.comparison import mean_and_spread
    >>> mean_and_spread([0.25, 0.75]), mean_and_spread([0.5])
    ('0.500 ± 0.354', '0.500')
    """
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{deviation}"


def tie_range(results: Results, metric: str = "ap", digits: int = 3) -> str:
    """Means of a metric over the seeds in the worst and in the best order of ties.

    Parameters
    ----------
    results : sequence of Result or of dict
        Each with the metric's name followed by "_worst" and by "_best".
    metric : str, default="ap"
        The metric.
    digits : int, default=3
        Number of decimal digits.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> from skhash.comparison import tie_range
    >>> tie_range([{"ap_worst": 0.25, "ap_best": 0.5}, {"ap_worst": 0.35, "ap_best": 0.7}])
    '0.300 to 0.600'
    """
    return " to ".join(f"{_mean(results, f'{metric}_{order}'):.{digits}f}" for order in ("worst", "best"))


def _with_asterisk(text: str) -> str:
    return f"{text} *"


def summarize(results: Results, mark: Callable[[str], str] = _with_asterisk) -> list[list[str]]:
    """Cells of a table: means over the seeds for each method and number of bits.

    Parameters
    ----------
    results : sequence of Result or of dict
        Results of one data set.
    mark : callable, default=None
        ``mark(text)`` returns the text of a cell of a leader, see :func:`find_leaders`. The
        default adds an asterisk. A single method has no mark.

    Returns
    -------
    list of list of str
        A mean, and after ± the standard deviation over the seeds. A method without results
        has "not applicable" or "failed" instead.

    Examples
    --------
    >>> from skhash.comparison import compare, summarize
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1)
    >>> [cells[:2] for cells in summarize(results)]
    [['pca', '8']]
    """
    lines = []
    leaders = _leaders(results)
    for (method, bits), group in by_method(results).items():
        done = [result for result in group if result["ap"] is not None]
        if done:
            cells = _cells(done)
            for column, metric in enumerate(COLUMNS[2:]):
                if (method, bits, metric) in leaders:
                    cells[column] = mark(cells[column])
        else:
            why = "failed" if any(result.get("error") for result in group) else "not applicable"
            cells = [why, *[""] * (len(COLUMNS) - 3)]
        lines.append([method, str(bits), *cells])
    return lines


def _leaders(results: Results) -> set[tuple[str, int, str]]:
    """Method, number of bits and head of the column of each cell of a leader."""
    if len({result["method"] for result in results}) == 1:
        return set()
    columns: dict[int, list[Mapping[str, Any]]] = {}
    for result in results:
        columns.setdefault(result["nbits"], []).append(result)
    return {
        (method, bits, head)
        for bits, column in columns.items()
        for metric, head in HEADS.items()
        for method in find_leaders(column, metric)
    }


def _cells(results: Results) -> list[str]:
    return [
        mean_and_spread([result["ap"] for result in results]),
        tie_range(results),
        mean_and_spread([result["ndcg"] for result in results]),
        f"{_mean(results, 'precision_at_100'):.3f}",
        f"{_mean(results, 'precision_radius_2'):.3f}",
        f"{_mean(results, 'fit_seconds'):.1f}",
        f"{_mean(results, 'codes_per_second'):,.0f}",
    ]


def _mean(results: Results, name: str) -> float:
    return float(np.mean([result[name] for result in results]))


def markdown_table(results: Results) -> str:
    """Markdown table of the averaged results, with aligned columns.

    Parameters
    ----------
    results : sequence of Result or of dict
        Results. Several data sets have a table each.

    Returns
    -------
    str
        The table.

    Examples
    --------
    >>> from skhash.comparison import compare, markdown_table
    >>> results, description = compare(methods=["pca", "itq"], nbits=[8], n_seeds=1)
    >>> len(markdown_table(results).splitlines())  # head, rule, and a line per method
    4
    """
    groups = by_dataset(results)
    if len(groups) > 1:
        parts = {", protocol ".join(name): markdown_table(part) for name, part in groups.items()}
        return "\n\n".join(f"{name}\n\n{table}" for name, table in parts.items())
    return lay_out([COLUMNS, *summarize(results)])


def lay_out(cells: Sequence[Sequence[str]]) -> str:
    """Markdown table of cells, with aligned columns.

    Parameters
    ----------
    cells : sequence of sequences of str
        The head, then the lines.

    Returns
    -------
    str
        The table.

    Examples
    --------
    >>> from skhash.comparison import lay_out
    >>> print(lay_out([["method", "AP_T"], ["itq", ".431"]]))
    | method | AP_T |
    |--------|------|
    | itq    | .431 |
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def absences(results: Results) -> list[str]:
    """Sentences that say which methods have no results, and why.

    Parameters
    ----------
    results : sequence of Result or of dict
        Results of one data set.

    Returns
    -------
    list of str
        A sentence for each method and reason.

    Examples
    --------
    >>> from skhash.comparison import Result, absences
    >>> absences([Result(method="sdh", nbits=8, seed=0, not_applicable="no labels")])
    ['sdh: not applicable: no labels.']
    """
    reasons: dict[tuple[str, str], dict[int, list[str]]] = {}
    for result in results:
        if result.get("not_applicable"):
            reasons.setdefault((result["method"], f"not applicable: {result['not_applicable']}"), {})
        elif result.get("error"):
            seeds = reasons.setdefault((result["method"], f"failed: {result['error']}"), {})
            seeds.setdefault(result["nbits"], []).append(str(result["seed"]))
    sentences = []
    for (method, reason), seeds in reasons.items():
        places = "; ".join(f"{bits} bits, seed {', '.join(which)}" for bits, which in seeds.items())
        sentences.append(f"{method}{f' ({places})' if places else ''}: {reason.removesuffix('.')}.")
    return sentences
