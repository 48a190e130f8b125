"""Tables of averaged results in Markdown: which columns they have, who leads, and which methods have no results."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from skhash.comparison.results import Result, as_results
from skhash.metrics import Metric

Results = Sequence[Mapping[str, Any]]
R = TypeVar("R", bound=Mapping[str, Any])

CODE_METRICS = tuple(f"neighbor_recall_at_10{ending}" for ending in ("", "_worst", "_best", "_of_50"))
REAL_METRICS = tuple(f"real_{name}" for name in CODE_METRICS)
_HEADS = {"precision_at_100": "P@100", "precision_radius_2": "P@radius 2"}
_NEIGHBOR_HEADS = {
    REAL_METRICS[0]: "R@10",
    REAL_METRICS[3]: "10 of 50",
    CODE_METRICS[0]: "R@10, codes",
    CODE_METRICS[3]: "10 of 50, codes",
}
_MEANINGS = {"AP": "average precision", "NDCG": "normalized discounted cumulative gain"}
_ABOUT_RANGES = (
    "The tie range is the metric with the relevant items of each tie last and first: the lowest and the highest value "
    "that sorting these codes can give."
)
ABOUT_SEEDS = "A method that lacks seeds shows how many it has, and is not compared with the others."
NOT_ASKED = "Methods of earlier comparisons, which the last one was not asked for (not ranked)"
_ABOUT_RADII = "The precision within a radius that holds no item is 0."
_ABOUT_NEIGHBORS = (
    "R@10 is the share of the ten nearest vectors among the ten best items, 10 of 50 their share among the best fifty; "
    "queries are real, or codes as the items are; the tie range is R@10 with the true neighbors of each tie last and "
    "first; times are of the CPU, and those of queries are per real query."
)


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
        Each with the metric in the worst and the best order, such as "ap_worst" and "ap_best".
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
    return " to ".join(f"{_mean(results, in_order(metric, ties)):.{digits}f}" for ties in ("worst", "best"))


def in_order(metric: str, ties: str) -> str:
    """Name of a metric under an order of ties; that of a function of the user gets an ending."""
    try:
        return Metric.parse(metric).with_ties(ties).name
    except ValueError:
        return f"{metric}_{ties}"


def head_of(metric: str) -> str:
    """Head of the column of a metric."""
    if metric in _HEADS:
        return _HEADS[metric]
    if metric in REAL_METRICS:
        return _NEIGHBOR_HEADS.get(metric, metric)
    try:
        return Metric.parse(metric).label("_T")
    except ValueError:  # a function of the user
        return metric


def unit_of(metric: str) -> str:
    """Unit of the sizes of codes in tables of a metric."""
    return "bytes" if metric in REAL_METRICS else "bits"


def size_of(nbits: int, unit: str) -> str:
    """Number of bits in a unit."""
    return f"{nbits / (8 if unit == 'bytes' else 1):g}"


def _mean(results: Results, name: str) -> float:
    return float(np.mean([result[name] for result in results]))


def _spread(results: Results, name: str) -> str:
    return mean_and_spread([result[name] for result in results])


def _number(form: str) -> Callable[[Results, str], str]:
    return lambda results, name: form.format(_mean(results, name))


class TableColumn(NamedTuple):
    """A column of a table, whose ``show(results, name)`` returns the text of a cell."""

    head: str
    name: str
    show: Callable[[Results, str], str] = _spread
    has_leaders: bool = True


@dataclass(frozen=True)
class Layout:
    """What tables and pictures show of the results of one data set."""

    task: str
    heads: Mapping[str, str]  # metrics whose best values are marked, and the heads of their columns
    ranges: frozenset[str]  # those with a tie range

    @property
    def headline(self) -> str:
        """The metric that orders methods."""
        return next(iter(self.heads))

    @property
    def matrices(self) -> list[str]:
        """Metrics that have a table of methods by sizes."""
        return [REAL_METRICS[0], CODE_METRICS[0]] if self.task == "neighbors" else list(self.heads)[:2]

    @property
    def columns(self) -> list[TableColumn]:
        """Columns after the method and the size."""
        columns = []
        for name, head in self.heads.items():
            is_short = name in (*_HEADS, REAL_METRICS[3], CODE_METRICS[3])
            columns.append(TableColumn(head, name, _number("{:.3f}") if is_short else _spread))
            if name in self.ranges:
                columns.append(TableColumn("tie range", name, tie_range, False))
        columns.append(TableColumn("fit s", "fit_seconds", _number("{:.1f}"), False))
        columns.append(TableColumn("codes/s", "codes_per_second", _number("{:,.0f}"), False))
        if self.task == "neighbors":
            columns.append(TableColumn("ms, one query", "single_query_ms", _number("{:.2f}"), False))
            columns.append(TableColumn("ms, in a batch", "batch_query_ms", _number("{:.2f}"), False))
        return columns

    @property
    def unit(self) -> str:
        """Unit of the sizes."""
        return unit_of(self.headline)

    @property
    def table_head(self) -> list[str]:
        """Head of a table: method, size, and the columns."""
        return ["method", self.unit, *(column.head for column in self.columns)]

    @property
    def marked(self) -> str:
        """What the mark of a leader means."""
        return f"the best mean at this number of {self.unit}, or at most two standard errors below it (paired by seed)"

    def legend(self, table: str) -> str:
        """What an asterisk and fewer seeds mean; empty for a table that has neither."""
        notes = {f"* {self.marked}.": " *" in table, ABOUT_SEEDS: " seeds)" in table}
        return " ".join(note for note, is_shown in notes.items() if is_shown)

    def size(self, nbits: int) -> str:
        """Number of bits in the unit of the tables."""
        return size_of(nbits, self.unit)

    @property
    def notes(self) -> list[str]:
        """Sentences about the metrics that are shown."""
        if self.task == "neighbors":
            return [_ABOUT_NEIGHBORS]
        averaged = [head for head in self.heads.values() if "_T" in head]
        meanings = [f"{mark} is {text}" for mark, text in _MEANINGS.items() if any(mark + "_T" in h for h in averaged)]
        are = "are means" if len(averaged) > 1 else "is the mean"
        average = f"{' and '.join(averaged)} {are} over all orders of the items at equal distance, in closed form"
        notes = {
            f"{average}; {', '.join(meanings)}.": averaged,
            _ABOUT_RANGES: self.ranges,
            _ABOUT_RADII: any(name.startswith("precision_radius") for name in self.heads),
        }
        return [note for note, is_shown in notes.items() if is_shown]


def layout_of(results: Iterable[Mapping[str, Any]]) -> Layout:
    """Layout of the results of one data set: a metric beside its worst and best order of ties has a tie range."""
    found = as_results(results)
    task = found[0].task if found else "relevance"
    if task == "neighbors":
        return Layout(task, _NEIGHBOR_HEADS, frozenset(CODE_METRICS[:1]))
    names = list(dict.fromkeys(name for result in found for name in result.metrics))
    orders = {name: (in_order(name, "worst"), in_order(name, "best")) for name in names}
    ranges = {name: pair for name, pair in orders.items() if name not in pair and set(pair) <= set(names)}
    within = {name for pair in ranges.values() for name in pair}
    return Layout(task, {name: head_of(name) for name in names if name not in within}, frozenset(ranges))


def group_by(results: Iterable[R], *names: str) -> dict[tuple[Any, ...], list[R]]:
    """Results of each combination of the values of these names, in the order of the first ones."""
    groups: dict[tuple[Any, ...], list[R]] = {}
    for result in results:
        groups.setdefault(tuple(result[name] for name in names), []).append(result)
    return groups


def split_asked(results: Iterable[Mapping[str, Any]]) -> tuple[list[Result], list[Result]]:
    """Results of the methods that the last comparison was asked for, and those of other methods in its folder."""
    found = as_results(results)
    asked = [result for result in found if result.is_asked]
    return (asked, [result for result in found if not result.is_asked]) if asked else (found, [])


def count_seeds(results: Results) -> int:
    """Number of seeds of a method that lacks none: those that were asked for, or all that occur if these are more."""
    asked = max((result.get("asked_seeds") or 0 for result in results), default=0)
    return max(asked, len({result["seed"] for result in results}))


def seeds_by_size(results: Sequence[Result]) -> dict[int, int]:
    """Number of seeds of a method that lacks none, by number of bits."""
    return {nbits: count_seeds(column) for (nbits,), column in group_by(results, "nbits").items()}


def with_all_seeds(results: Sequence[Result], metric: str) -> list[Result]:
    """Results of each method and number of bits that has a metric for all seeds."""
    n_seeds = seeds_by_size(results)
    groups = group_by((result for result in results if result[metric] is not None), "method", "nbits")
    return [result for (_, nbits), group in groups.items() if len(group) == n_seeds[nbits] for result in group]


def method_and_seeds(method: str, n_done: int, n_seeds: int) -> str:
    """Name of a method, with the number of its seeds if it lacks some."""
    return f"{method} ({n_done} of {n_seeds} seeds)" if 0 < n_done < n_seeds else method


def ranked_methods(results: Sequence[Result], metric: str) -> list[str]:
    """Methods by their mean of a metric over all results of a data set: the best first, those that lack seeds last."""
    known, n_seeds = [result for result in results if result[metric] is not None], seeds_by_size(results)
    sizes = group_by(known, "method", "nbits").items()
    lacking = {method for (method, nbits), group in sizes if len(group) < n_seeds[nbits]}
    values = {method: [result[metric] for result in own] for (method,), own in group_by(known, "method").items()}

    def place(method: str) -> tuple[bool, float]:
        return method in lacking, -float(np.mean(values[method])) if method in values else np.inf

    return sorted(dict.fromkeys(result.method for result in results), key=place)


def find_leaders(results: Results, metric: str = "ap") -> list[str]:
    """Methods with the best mean of a metric, and those whose distance to it is not significant.

    The difference of two methods is taken on the same splits. Its standard error is that of
    these paired differences, s / sqrt(n).

    Parameters
    ----------
    results : sequence of Result or of dict
        Results of one data set and number of bits, with "method", "seed" and the metric.
    metric : str, default="ap"
        The metric, a key of the results.

    Returns
    -------
    list of str
        The method with the best mean first, then those whose mean is at most two standard errors
        of the paired differences below it. With a single seed, those of equal value alone. A
        method that lacks a seed, or that the comparison was not asked for, is not among them. Empty if no method
        has results.

    Examples
    --------
    >>> from skhash.comparison import find_leaders
    >>> values = {"a": [0.5, 0.75], "b": [0.25, 0.25], "c": [0.5, 0.625]}
    >>> results = [
    ...     {"method": name, "seed": seed, "ap": ap}
    ...     for name in values
    ...     for seed, ap in enumerate(values[name])
    ... ]
    >>> find_leaders(results)
    ['a', 'c']
    """
    asked = [result for result in results if result.get("is_asked", True)]
    values: dict[str, dict[int, float]] = {}
    for result in asked:
        if result[metric] is not None:
            values.setdefault(result["method"], {})[result["seed"]] = result[metric]
    n_seeds = count_seeds(asked)
    paired = {name: np.array([own[s] for s in sorted(own)]) for name, own in values.items() if len(own) == n_seeds}
    if not paired:
        return []
    best, *others = sorted(paired, key=lambda name: -paired[name].mean())
    return [best, *(name for name in others if _is_level(paired[best] - paired[name]))]


def _is_level(differences: Any) -> bool:
    """Whether the mean of paired differences is at most two standard errors."""
    n = len(differences)
    error = differences.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    return bool(differences.mean() <= 2 * error)


def summarize(results: Results, mark: Callable[[str], str] = "{} *".format) -> list[list[str]]:
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
        A mean, and after ± the standard deviation over the seeds. The name of a method that lacks
        seeds is followed by their number. A method without results has "not applicable", "failed"
        or what it needs, such as "needs faiss-cpu", instead.

    Examples
    --------
    >>> from skhash.comparison import compare
    >>> from skhash.comparison.tables import summarize
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1)
    >>> [cells[:2] for cells in summarize(results)]
    [['pca', '8']]
    """
    lines, found = [], as_results(results)
    layout, n_seeds = layout_of(found), seeds_by_size(found)
    columns = [(column, leaders_of(found, column.name) if column.has_leaders else ()) for column in layout.columns]
    for (method, bits), group in group_by(found, "method", "nbits").items():
        done, cells = [result for result in group if result.is_done], []
        for column, leaders in columns if done else ():
            is_known = all(result[column.name] is not None for result in done)
            text = column.show(done, column.name) if is_known else "-"
            cells.append(mark(text) if (method, bits) in leaders else text)
        if not done:
            reason = group[0].not_applicable or ""
            why = "failed" if any(result.error for result in group) else "not applicable"
            cells = [reason if reason.startswith("needs ") else why, *[""] * (len(columns) - 1)]
        lines.append([method_and_seeds(method, len(done), n_seeds[bits]), layout.size(bits), *cells])
    return lines


def leaders_of(results: Sequence[Result], metric: str) -> set[tuple[str, int]]:
    """Leaders at each number of bits, as method and number of bits; none of a single method.

    A method is not the best either where all others lack seeds.
    """
    if len({result.method for result in results}) == 1:
        return set()
    leaders = set()
    for (nbits,), column in group_by(results, "nbits").items():
        known = {result.method for result in column if result[metric] is not None}
        complete = with_all_seeds(column, metric)
        if len({result.method for result in complete}) > 1 or len(known) == 1:
            leaders |= {(method, nbits) for method in find_leaders(complete, metric)}
    return leaders


def markdown_table(results: Results) -> str:
    """Markdown table of the averaged results, with aligned columns.

    Parameters
    ----------
    results : sequence of Result or of dict
        Results. Several data sets have a table each.

    Returns
    -------
    str
        The table. Methods that the last comparison was not asked for have one of their own below it.

    Examples
    --------
    >>> from skhash.comparison import compare, markdown_table
    >>> results, description = compare(methods=["pca", "itq"], nbits=[8], n_seeds=1)
    >>> len(markdown_table(results).splitlines())  # head, rule, and a line per method
    4
    """
    groups = group_by(as_results(results), "dataset", "protocol")
    if len(groups) > 1:
        parts = {", protocol ".join(name): markdown_table(part) for name, part in groups.items()}
        return "\n\n".join(f"{name}\n\n{table}" for name, table in parts.items())
    asked, others = split_asked(results)
    table = pipe_table([layout_of(asked).table_head, *summarize(asked)])
    if not others:
        return table
    return f"{table}\n\n{NOT_ASKED}:\n\n{pipe_table([layout_of(others).table_head, *summarize(others, str)])}"


def pipe_table(cells: Sequence[Sequence[str]]) -> str:
    """Markdown table of a head and lines, with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    head, *lines = (
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    )
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([head, rule, *lines])


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
    >>> from skhash.comparison import Result
    >>> from skhash.comparison.tables import absences
    >>> absences([Result(method="sdh", nbits=8, seed=0, not_applicable="no labels")])
    ['sdh: not applicable: no labels.']
    """
    reasons: dict[tuple[str, str], dict[int, list[str]]] = {}
    for result in as_results(results):
        if result.not_applicable:
            reasons.setdefault((result.method, f"not applicable: {result.not_applicable}"), {})
        elif result.error:
            seeds = reasons.setdefault((result.method, f"failed: {result.error}"), {})
            seeds.setdefault(result.nbits, []).append(str(result.seed))
    sentences = []
    for (method, reason), seeds in reasons.items():
        places = "; ".join(f"{bits} bits, seed {', '.join(which)}" for bits, which in seeds.items())
        sentences.append(f"{method}{f' ({places})' if places else ''}: {reason.removesuffix('.')}.")
    return sentences
