"""What the tables, pictures and checks of each task show: columns, heads, units, and the metric that orders methods."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skhash.comparison.evaluation import METRICS

Results = Sequence[Mapping[str, Any]]

CODE_METRICS = tuple(f"neighbor_recall_at_10{ending}" for ending in ("", "_worst", "_best", "_of_50"))
REAL_METRICS = tuple(f"real_{name}" for name in CODE_METRICS)
#: what the mark of a leader in a table means
_MARKED = "the best mean at this number of {unit}, or at most two standard errors below it (paired by seed)"


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


def _mean(results: Results, name: str) -> float:
    return float(np.mean([result[name] for result in results]))


def _spread(results: Results, name: str) -> str:
    return mean_and_spread([result[name] for result in results])


def _number(form: str) -> Callable[[Results, str], str]:
    return lambda results, name: form.format(_mean(results, name))


@dataclass(frozen=True)
class Column:
    """A column of a table, whose ``show(results, metric)`` returns the text of a cell."""

    head: str
    metric: str
    show: Callable[[Results, str], str] = _spread
    has_leaders: bool = True

    def text(self, results: Results) -> str:
        """Text of the cell of finished results; a dash if the method has no such metric."""
        return "-" if any(result[self.metric] is None for result in results) else self.show(results, self.metric)


_SPEED = (
    Column("fit s", "fit_seconds", _number("{:.1f}"), False),
    Column("codes/s", "codes_per_second", _number("{:,.0f}"), False),
)


@dataclass(frozen=True)
class Layout:
    """What tables and pictures show of the results of a task."""

    headline: str  # the metric that orders methods; every finished result has it
    metrics: tuple[str, ...]  # all metrics, from 0 to 1
    columns: tuple[Column, ...]  # after the method and the size
    matrices: Mapping[str, bool]  # metrics with a table of methods by sizes, to whether it shows the tie range
    unit: str
    bits_per_unit: int
    note: str  # what the tie range means
    optional: tuple[str, ...] = ()  # metrics that some methods do not have

    @property
    def fields(self) -> frozenset[str]:
        """Fields of a result that belong to this task."""
        return frozenset(self.metrics) | ({"bytes_per_item"} if self.bits_per_unit == 8 else set())

    @property
    def heads(self) -> dict[str, str]:
        """Metrics whose best values are marked, and the heads of their columns."""
        return {column.metric: column.head for column in self.columns if column.has_leaders}

    @property
    def table_head(self) -> tuple[str, ...]:
        """Head of a table: method, size, and the columns."""
        return ("method", self.unit, *(column.head for column in self.columns))

    def legend(self, table: str) -> str:
        """What an asterisk means; empty for a table that has none, as with a single method."""
        return f"* {self.marked}." if " *" in table else ""

    @property
    def marked(self) -> str:
        """What the mark of a leader means."""
        return _MARKED.format(unit=self.unit)

    def size(self, nbits: int) -> str:
        """Number of bits in the unit of the tables."""
        return f"{nbits / self.bits_per_unit:g}"


#: layouts by task
LAYOUTS = {
    "relevance": Layout(
        headline="ap",
        metrics=METRICS,
        columns=(
            Column("AP_T", "ap"),
            Column("tie range", "ap", tie_range, False),
            Column("NDCG_T", "ndcg"),
            Column("P@100", "precision_at_100", _number("{:.3f}")),
            Column("P@radius 2", "precision_radius_2", _number("{:.3f}")),
            *_SPEED,
        ),
        matrices={"ap": True, "ndcg": False},
        unit="bits",
        bits_per_unit=1,
        note="the tie range is AP with the relevant items of each tie last and first",
    ),
    "neighbors": Layout(
        headline=REAL_METRICS[0],
        metrics=(*REAL_METRICS, *CODE_METRICS),
        optional=CODE_METRICS,
        columns=(
            Column("R@10", REAL_METRICS[0]),
            Column("10 of 50", REAL_METRICS[3], _number("{:.3f}")),
            Column("R@10, codes", CODE_METRICS[0]),
            Column("tie range", CODE_METRICS[0], tie_range, False),
            Column("10 of 50, codes", CODE_METRICS[3], _number("{:.3f}")),
            *_SPEED,
        ),
        matrices={REAL_METRICS[0]: False, CODE_METRICS[0]: True},
        unit="bytes",
        bits_per_unit=8,
        note="R@10 is the share of the ten nearest vectors among the ten best items, 10 of 50 their share among the "
        "best fifty; queries are real, or codes as the items are; the tie range is R@10 with the true neighbors of "
        "each tie last and first",
    ),
}


def layout_of(results: Iterable[Mapping[str, Any]]) -> Layout:
    """Layout of the results of one data set, which are all of one task."""
    first = next(iter(results), {})
    return LAYOUTS[first.get("task", "relevance")]


def is_done(result: Mapping[str, Any]) -> bool:
    """Whether a result has metrics."""
    return result[layout_of([result]).headline] is not None
