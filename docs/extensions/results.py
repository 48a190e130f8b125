"""Tables of the results that an experiment or a comparison has written.

A table shows means over the seeds, their standard deviation, and the tie range of AP_T. The best
value of each column is bold, and so are the values that cannot be distinguished from it. This module needs
nothing but numpy; `results_table` is the directive.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Result = Mapping[str, Any]
ROOT = Path(__file__).parents[2]
LABELS = {
    "nbits": "bits",
    "fashion_mnist": "Fashion-MNIST",
    "usps": "USPS",
    "mnist": "MNIST",
    "cifar gist": "CIFAR-10 GIST",
    "cifar_gist": "CIFAR-10 GIST",
    "cifar10_gist512": "CIFAR-10 GIST",
    "mirflickr25k_tags1386": "MIRFlickr tags",
}


class Cell(NamedTuple):
    """Text of a cell, and whether it is bold: the best of its column, or within two standard errors of it."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Column:
    """How a metric is shown: its key in the results, its label, its text, and whether the highest mean is bold."""

    key: str
    label: str
    write: Callable[[Sequence[Result], str], str]
    has_best: bool = True


def _mean(results: Sequence[Result], key: str) -> float:
    return float(np.mean([result[key] for result in results]))


def _spread(results: Sequence[Result], key: str) -> str:
    deviation = f" ± {np.std([result[key] for result in results], ddof=1):.3f}" if len(results) > 1 else ""
    return f"{_mean(results, key):.3f}{deviation}"


def _range(results: Sequence[Result], key: str) -> str:
    return f"{_mean(results, f'{key}_worst'):.3f} to {_mean(results, f'{key}_best'):.3f}"


def _of_orders(results: Sequence[Result], key: str) -> str:
    return f"{_mean(results, key):.3f} ± {_mean(results, f'{key}_spread'):.3f}"


def _difference(results: Sequence[Result], key: str) -> str:
    low, high = (_mean(results, bound) for bound in ("low", "high"))
    return f"{_mean(results, key):+.3f} ({low:+.3f} to {high:+.3f})"


def _p_value(results: Sequence[Result], key: str) -> str:
    value = _mean(results, key)
    return "<0.001" if value < 0.001 else f"{value:.3f}"


COLUMNS = {
    "difference": Column("mean", "difference of AP_T", _difference, has_best=False),
    "n_queries": Column("n_queries", "queries", lambda group, key: f"{_mean(group, key):,.0f}", has_best=False),
    "p_value": Column("p_value", "p", _p_value, has_best=False),
    "ap": Column("ap", "AP_T", _spread),
    "relaxed_loss": Column("relaxed_loss", "J", lambda group, key: f"{_mean(group, key):.4f}", has_best=False),
    "binary_loss": Column("binary_loss", "L", lambda group, key: f"{_mean(group, key):.4f}", has_best=False),
    "tie_range": Column("ap", "tie range", _range, has_best=False),
    "ap_and_range": Column(
        "ap", "AP_T (tie range)", lambda group, key: f"{_spread(group, key)} ({_range(group, key)})"
    ),
    "random": Column("random", "random orders", _of_orders, has_best=False),
    "ap_at_1000_retrieved": Column("ap_at_1000_retrieved", "AP@1000", _spread),
    "ndcg": Column("ndcg", "NDCG_T", _spread),
    "ndcg_at_100": Column("ndcg_at_100_delayed_log2", "NDCG@100", _spread),
    "constraints": Column("constraints", "constraints", lambda group, key: f"{_mean(group, key):,.0f}", has_best=False),
    "precision_at_100": Column("precision_at_100", "P@100", lambda group, key: f"{_mean(group, key):.3f}"),
    "precision_radius_2": Column("precision_radius_2", "P@radius 2", lambda group, key: f"{_mean(group, key):.3f}"),
    "real_recall": Column("real_neighbor_recall_at_10", "R@10", _spread),
    "real_recall_of_50": Column("real_neighbor_recall_at_10_of_50", "10 of 50", _spread),
    "code_recall": Column("neighbor_recall_at_10", "R@10 by Hamming distance", _spread),
    "code_recall_of_50": Column("neighbor_recall_at_10_of_50", "10 of 50 by Hamming distance", _spread),
    "recall_at_10": Column("recall_at_10", "R@10", _spread),
    "fit_seconds": Column("fit_seconds", "fit s", lambda group, key: f"{_mean(group, key):.1f}", has_best=False),
    "single_query_ms": Column("single_query_ms", "ms, one query", lambda group, key: f"{_mean(group, key):.2f}", False),
    "batch_query_ms": Column("batch_query_ms", "ms, in a batch", lambda group, key: f"{_mean(group, key):.2f}", False),
    "significant": Column("significant", "found", lambda group, key: f"{_mean(group, key):.3f}", False),
    "covered": Column("covered", "covered", lambda group, key: f"{_mean(group, key):.3f}", False),
    "codes_per_second": Column("codes_per_second", "codes/s", lambda group, key: f"{_mean(group, key):,.0f}", False),
}


def read_results(path: Path) -> list[Result]:
    """Results of an experiment or a comparison: one dict per seed."""
    results: list[Result] = json.loads(path.read_text(encoding="utf-8"))
    return results


def select(results: Iterable[Result], where: Mapping[str, Sequence[str]]) -> list[Result]:
    """Results that have one of the given values of each key, in the order of these values."""
    chosen = [result for result in results if all(str(result.get(key)) in values for key, values in where.items())]
    return sorted(chosen, key=lambda result: [values.index(str(result[key])) for key, values in where.items()])


def make_table(
    results: Sequence[Result],
    by: Sequence[str],
    columns: Sequence[str],
    across: str | None = None,
    best_within: Sequence[str] = (),
    best_in_line: bool = False,
) -> list[list[Cell]]:
    """Cells of a table: the head, then one line per combination of values.

    Parameters
    ----------
    results : sequence of dict
        One per seed.
    by : sequence of str
        Keys whose values make a line.
    columns : sequence of str
        Names in `COLUMNS`.
    across : str, default=None
        Key with one column per value; `columns` then holds one name.
    best_within : sequence of str, default=()
        The best of a column is chosen among the lines that agree in these keys.
    best_in_line : bool, default=False
        Whether the best is chosen among the columns of each line instead.

    Returns
    -------
    list of list of Cell
        The best mean is bold, with the means that `_is_level` finds no worse.
    """
    groups: dict[tuple[tuple[Any, ...], Any, str], list[Result]] = {}
    for result in results:
        line, value = tuple(result[key] for key in by), result[across] if across else None
        for name in columns:
            groups.setdefault((line, value, name), []).append(result)
    contests: dict[Any, list[Sequence[Result]]] = {}
    contest_of = {}
    for (line, value, name), group in groups.items():
        contest = line if best_in_line else (value, name, *(line[by.index(key)] for key in best_within))
        contest_of[line, value, name] = contest
        contests.setdefault(contest, []).append(group)

    def cell(place: tuple[tuple[Any, ...], Any, str]) -> Cell:
        if place not in groups:
            return Cell("")
        column = COLUMNS[place[2]]
        text = column.write(groups[place], column.key)
        if not column.has_best:
            return Cell(text)
        leader = max(contests[contest_of[place]], key=lambda group: _mean(group, column.key))
        return Cell(text, _is_level(groups[place], leader, column.key))

    heads = list(dict.fromkeys((value, name) for _, value, name in groups))
    labels = [*by, *(value if across else COLUMNS[name].label for value, name in heads)]
    table = [[Cell(_label(label)) for label in labels]]
    for line in dict.fromkeys(line for line, _, _ in groups):
        table.append([Cell(_label(value)) for value in line] + [cell((line, *head)) for head in heads])
    return table


def _is_level(results: Sequence[Result], leader: Sequence[Result], key: str) -> bool:
    """Whether the printed means are equal, or differ by at most two standard errors of the difference per seed."""
    if round(_mean(results, key), 3) == round(_mean(leader, key), 3):
        return True
    ours, best = ({result["seed"]: result[key] for result in group} for group in (results, leader))
    if ours.keys() != best.keys() or len(ours) < 2:
        return False
    differences = [best[seed] - ours[seed] for seed in ours]
    return bool(np.mean(differences) <= 2 * np.std(differences, ddof=1) / np.sqrt(len(differences)))


def _label(value: Any) -> str:
    return str(LABELS.get(value, value))


def make_described_table(path: str, options: Mapping[str, str | None]) -> tuple[list[list[Cell]], str]:
    """Cells of a table of the directive ``results-table``, and the sentence that says what is bold.

    Parameters
    ----------
    path : str
        File of the results, relative to the repository.
    options : dict of str to str
        Options of the directive.

    Returns
    -------
    table : list of list of Cell
        As from `make_table`.
    bold : str
        What a bold cell means; empty if no cell is bold.

    Raises
    ------
    ValueError
        No stored result has the values of ``where``.
    """
    stored = read_results(ROOT / path)
    results = select(stored, _conditions(options.get("where") or ""))
    if not results:
        raise ValueError(f"{path} has no such results: {options.get('where')}")
    within, in_line = (options.get("best-within") or "").split(), "best-in-line" in options
    by, columns = ((options[name] or "").split() for name in ("by", "columns"))
    table = make_table(results, by, columns, options.get("across"), within, in_line)
    if heads := options.get("heads"):
        table[0] = [Cell(head.strip()) for head in heads.split(",")]
    if not any(cell.best for line in table for cell in line):
        return table, ""
    place = "line" if in_line else "column"
    if within:
        place += f" among the lines with the same {' and '.join(map(_label, within))}"
    several = len({result["seed"] for result in stored}) > 1
    level = ", and means that are at most two standard errors of the difference below it" if several else ""
    return table, f": the best mean of each {place}{level}. "


def _conditions(text: str) -> dict[str, list[str]]:
    parts = [part.partition("=") for part in text.split(";") if part.strip()]
    return {key.strip(): [value.strip() for value in values.split("|")] for key, _, values in parts}


def as_markdown(table: Sequence[Sequence[Cell]]) -> str:
    """The table in Markdown."""
    head, *lines = [[f"**{cell.text}**" if cell.best else cell.text for cell in line] for line in table]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))
