r"""Tables of results for papers and other programs: LaTeX with the rules of booktabs, and CSV.

FOLDER/results.tex   a table for each data set, with its caption, for \input; the document loads the package booktabs
FOLDER/results.csv   one line for each data set, method, number of bits and metric
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from skhash.comparison.differences import Difference, Groups, Tests, grouped_tests
from skhash.comparison.results import Result, as_results
from skhash.comparison.tables import (
    ABOUT_SEEDS,
    NOT_ASKED,
    group_by,
    in_order,
    layout_of,
    leaders_of,
    mean_and_spread,
    method_and_seeds,
    seeds_by_size,
    split_asked,
)

_CSV_HEAD = (
    *("dataset", "protocol", "method", "nbits", "metric", "mean", "std", "n_seeds", "worst", "best", "is_leader"),
    *("baseline", "difference", "low", "high", "p_value", "n_queries", "lacks_seeds", "is_asked"),
)
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    mark: rf"\{mark}" for mark in "&%$#_{}"
}


def csv_table(results: Iterable[Mapping[str, Any]], baseline: str | None = None) -> str:
    """CSV of the averaged results, a line for each data set, method, number of bits and metric.

    Parameters
    ----------
    results : iterable of Result or of dict
        Results.
    baseline : str, default=None
        As in :func:`find_differences`.

    Returns
    -------
    str
        Columns: mean and std over the seeds; worst and best, the bounds of the tie range; is_leader, see
        :func:`find_leaders`; the difference to the baseline with the bounds of its interval, and its p-value over
        n_queries; lacks_seeds, whether a method has fewer than n_seeds should be; is_asked, whether the last
        comparison was asked for the method. A cell is empty where there is no value.

    Examples
    --------
    >>> from skhash.comparison import Result, csv_table
    >>> text = csv_table([Result(method="itq", nbits=8, seed=0, metrics={"ap": 0.25})])
    >>> text.splitlines()[1]
    ',,itq,8,ap,0.25,,1,,,False,,,,,,,False,True'
    """
    return _to_csv(*grouped_tests(as_results(results), baseline), baseline)


def _to_csv(groups: Groups, tests: Tests, baseline: str | None) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_CSV_HEAD)
    for name, part in groups.items():
        asked, others = split_asked(part)
        for rows, is_asked in ((asked, True), (others, False)):
            n_seeds = seeds_by_size(rows)
            for metric in layout_of(rows).heads if rows else ():
                leaders, found = leaders_of(rows, metric) if is_asked else (), tests(name, metric)
                for (method, nbits), group in group_by(rows, "method", "nbits").items():
                    cells = _csv_cells(group, metric, found.get((method, nbits)))
                    cells["is_leader"] = (method, nbits) in leaders
                    cells |= {"lacks_seeds": cells["n_seeds"] < n_seeds[nbits], "is_asked": is_asked}
                    writer.writerow([cells.get(name, "") for name in _CSV_HEAD])
    return file.getvalue()


def _csv_cells(results: Sequence[Result], metric: str, difference: Difference | None) -> dict[str, Any]:
    """Values of a line by the name of the column, but for those that depend on other methods."""
    cells: dict[str, Any] = {name: results[0][name] for name in ("dataset", "protocol", "method", "nbits")}
    values: list[float] = [result[metric] for result in results if result[metric] is not None]
    cells |= {"metric": metric, "n_seeds": len(values)}
    if values:
        cells["mean"] = float(np.mean(values))
    if len(values) > 1:
        cells["std"] = float(np.std(values, ddof=1))
    for ties in ("worst", "best"):
        name = in_order(metric, ties)
        if bounds := [bound for result in results if (bound := result.metrics.get(name)) is not None]:
            cells[ties] = float(np.mean(bounds))
    if difference is not None:
        names = ("baseline", "low", "high", "p_value", "n_queries")
        cells |= {"difference": difference.mean} | {name: getattr(difference, name) for name in names}
    return cells


def latex_table(results: Iterable[Mapping[str, Any]], baseline: str | None = None) -> str:
    r"""LaTeX of the averaged results, a `table` with the rules of booktabs for each data set.

    Parameters
    ----------
    results : iterable of Result or of dict
        Results.
    baseline : str, default=None
        As in :func:`find_differences`.

    Returns
    -------
    str
        Means over the seeds, and after the sign of plus or minus their standard deviation. Leaders, see
        :func:`find_leaders`, are bold; a dagger marks a significant difference to the baseline. The caption has the
        protocol and the number of seeds. Methods that the last comparison was not asked for have a table of their own.
        The document needs ``\usepackage{booktabs}``.

    Examples
    --------
    >>> from skhash.comparison import latex_table
    >>> row = {"dataset": "digits", "protocol": "holdout", "method": "itq", "nbits": 8}
    >>> print(latex_table([row | {"seed": 0, "ap": 0.25}]))
    % digits, protocol holdout; needs \usepackage{booktabs}
    \begin{table}
    \centering
    \caption{digits, protocol holdout. One seed.}
    \begin{tabular}{lrl}
    \toprule
    method & bits & AP$_T$ \\
    \midrule
    itq & 8 & 0.250 \\
    \bottomrule
    \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    return _to_latex(*grouped_tests(as_results(results), baseline), baseline)


def _to_latex(groups: Groups, tests: Tests, baseline: str | None) -> str:
    tables = []
    for name, part in groups.items():
        asked, others = split_asked(part)
        tables.append(_latex_of(name, asked, tests, baseline))
        if others:
            tables.append(_latex_of(name, others, None, baseline))
    return "\n".join(tables)


def _latex_of(name: tuple[str, str], results: Sequence[Result], tests: Tests | None, baseline: str | None) -> str:
    """Table of one data set; without tests and bold values for methods that were not asked for."""
    layout, n_seeds = layout_of(results), seeds_by_size(results)
    columns: dict[str, Any] = {
        metric: (leaders_of(results, metric), tests(name, metric)) if tests else ((), {}) for metric in layout.heads
    }
    lines = []
    for (method, nbits), group in group_by(results, "method", "nbits").items():
        n_done = sum(result.is_done for result in group)
        cells = [_escape(method_and_seeds(method, n_done, n_seeds[nbits])), layout.size(nbits)]
        for metric, (leaders, differences) in columns.items():
            key = (method, nbits)
            differs = key in differences and differences[key].is_significant
            cells.append(_latex_cell(group, metric, key in leaders, differs))
        lines.append(rf"{' & '.join(cells)} \\")
    is_marked = any(r"\dagger" in line for line in lines)
    lines.append(r"\bottomrule")
    if is_marked:
        against = baseline or f"the best method at this number of {layout.unit}"
        lines.append(
            rf"\multicolumn{{{2 + len(columns)}}}{{l}}{{\footnotesize $\dagger$ differs from {_escape(against)}: "
            r"$p < 0.05$ over queries, Holm's correction} \\"
        )
    heads = ["method", layout.unit, *(_latex_head(head) for head in layout.heads.values())]
    most = max(n_seeds.values())
    sentences = [
        results[0].description or f"{', protocol '.join(name)}.",
        "" if tests else f"{NOT_ASKED}.",
        f"Means over {most} seeds, ± their standard deviation." if most > 1 else "One seed.",
        f"Bold: {layout.marked}." if any(r"\textbf" in line for line in lines) else "",
        ABOUT_SEEDS if tests and any(" seeds)" in line for line in lines) else "",
    ]
    caption = _escape(" ".join(filter(None, sentences))).replace("±", r"$\pm$")
    return "\n".join(
        [
            rf"% {', protocol '.join(name)}; needs \usepackage{{booktabs}}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{lr{'l' * len(columns)}}}",
            r"\toprule",
            rf"{' & '.join(heads)} \\",
            r"\midrule",
            *lines,
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _latex_cell(results: Sequence[Result], metric: str, is_leader: bool, is_marked: bool) -> str:
    values = [result[metric] for result in results if result[metric] is not None]
    if not values:
        return "--"
    text = mean_and_spread(values).replace(" ± ", r" $\pm$ ")
    return (rf"\textbf{{{text}}}" if is_leader else text) + r"$^\dagger$" * is_marked


def _latex_head(head: str) -> str:
    return re.sub(r"\\_T(?=@|$)", "$_T$", _escape(head))


def _escape(text: str) -> str:
    return "".join(_SPECIAL.get(mark, mark) for mark in text)


#: function that writes a table, and the ending of its file, by the name of the format
FORMATS: dict[str, tuple[Callable[[Groups, Tests, str | None], str], str]] = {
    "csv": (_to_csv, "csv"),
    "latex": (_to_latex, "tex"),
}


def check_formats(names: Iterable[str]) -> list[str]:
    """Names of formats; ValueError if one is unknown."""
    names = [names] if isinstance(names, str) else list(names)
    if unknown := [name for name in names if name not in FORMATS]:
        raise ValueError(f"`formats` must be {' or '.join(FORMATS)}. Got {', '.join(map(repr, unknown))} instead.")
    return names
