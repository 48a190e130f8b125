"""Tables of averaged results in Markdown, and the list of methods without results."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skhash.comparison._groups import by_dataset, by_method
from skhash.comparison._layouts import Layout, Results, is_done, layout_of
from skhash.comparison.leaders import find_leaders


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
        has "not applicable", "failed" or what it needs, such as "needs faiss-cpu", instead.

    Examples
    --------
    >>> from skhash.comparison import compare, summarize
    >>> results, description = compare(methods=["pca"], nbits=[8], n_seeds=1)
    >>> [cells[:2] for cells in summarize(results)]
    [['pca', '8']]
    """
    lines = []
    layout = layout_of(results)
    leaders = _leaders(results, layout)
    for (method, bits), group in by_method(results).items():
        done = [result for result in group if is_done(result)]
        if done:
            cells = [column.text(done) for column in layout.columns]
            for place, column in enumerate(layout.columns):
                if column.has_leaders and (method, bits, column.metric) in leaders:
                    cells[place] = mark(cells[place])
        else:
            why = "failed" if any(result.get("error") for result in group) else "not applicable"
            reason = group[0].get("not_applicable") or ""
            why = reason if reason.startswith("needs ") else why
            cells = [why, *[""] * (len(layout.columns) - 1)]
        lines.append([method, layout.size(bits), *cells])
    return lines


def _leaders(results: Results, layout: Layout) -> set[tuple[str, int, str]]:
    """Method, number of bits and metric of each cell of a leader."""
    if len({result["method"] for result in results}) == 1:
        return set()
    columns: dict[int, list[Mapping[str, Any]]] = {}
    for result in results:
        columns.setdefault(result["nbits"], []).append(result)
    return {
        (method, bits, metric)
        for bits, column in columns.items()
        for metric in layout.heads
        for method in find_leaders(column, metric)
    }


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
    return lay_out([layout_of(results).table_head, *summarize(results)])


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
