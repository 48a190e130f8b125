"""Tables of averaged rows, plain and in Markdown, and what stands below them."""

import numpy as np

from skhash.comparison.leaders import column_sentence

COLUMNS = ("method", "bits", "AP_T", "tie range", "NDCG_T", "P@100", "P@radius 2", "fit s", "codes/s")
NOTE = "the tie range is AP with the relevant items of each tie last and first"


def by_dataset(rows):
    """Group rows by data set and protocol, in the order of their first ones.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them.

    Returns
    -------
    dict of (str, str) to list of dict
        The rows of each.
    """
    return _grouped(rows, "dataset", "protocol")


def by_method(rows):
    """Group rows by method and code length, in the order of their first ones.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them, of one data set.

    Returns
    -------
    dict of (str, int) to list of dict
        The rows of each.
    """
    return _grouped(rows, "method", "nbits")


def _grouped(rows, *names):
    """Rows by their values of some keys, in the order of the first ones."""
    groups: dict = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def ranked_methods(rows, figure="ap"):
    """Sort methods by the mean of a figure over all their rows, those without figures last.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them, of one data set.
    figure : str, default="ap"
        The figure.

    Returns
    -------
    list of str
        Methods, the best first.

    Examples
    --------
    >>> from skhash.comparison.tables import ranked_methods
    >>> ranked_methods([{"method": "a", "ap": None}, {"method": "b", "ap": 0.1}, {"method": "c", "ap": 0.2}])
    ['c', 'b', 'a']
    """
    values: dict = {}
    for row in rows:
        values.setdefault(row["method"], []).extend([] if row[figure] is None else [row[figure]])
    return sorted(values, key=lambda method: -np.mean(values[method]) if values[method] else np.inf)


def mean_and_spread(values, digits=3):
    """Write the mean of values over the seeds, and behind ± their standard deviation.

    Parameters
    ----------
    values : sequence of float
        One a seed.
    digits : int, default=3
        Digits behind the point.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> from skhash.comparison.tables import mean_and_spread
    >>> mean_and_spread([0.25, 0.75]), mean_and_spread([0.5])
    ('0.500 ± 0.354', '0.500')
    """
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{deviation}"


def tie_range(rows, figure="ap", digits=3):
    """Write the means of a figure over the seeds in the worst and in the best order of ties.

    Parameters
    ----------
    rows : list of dict
        Each with the figure's name and "_worst", "_best".
    figure : str, default="ap"
        The figure.
    digits : int, default=3
        Digits behind the point.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> from skhash.comparison.tables import tie_range
    >>> tie_range([{"ap_worst": 0.25, "ap_best": 0.5}, {"ap_worst": 0.35, "ap_best": 0.7}])
    '0.300 to 0.600'
    """
    return " to ".join(f"{np.mean([row[f'{figure}_{end}'] for row in rows]):.{digits}f}" for end in ("worst", "best"))


def summarize(rows):
    """Average the rows of each method and code length over the seeds.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them, of one data set.

    Returns
    -------
    list of list of str
        Table cells: a mean, and behind ± the standard deviation over the seeds. A method
        that has no figures says "not applicable" or "failed" instead.

    Examples
    --------
    >>> from skhash.comparison import compare, summarize
    >>> rows, description = compare(methods=["pca"], nbits=[8], n_seeds=1)
    >>> [cells[:2] for cells in summarize(rows)]
    [['pca', '8']]
    """
    cells = []
    for (method, bits), group in by_method(rows).items():
        done = [row for row in group if row["ap"] is not None]
        if not done:
            why = "failed" if any(row.get("error") for row in group) else "not applicable"
            cells.append([method, str(bits), why, *[""] * (len(COLUMNS) - 3)])
            continue
        values = {name: [row[name] for row in done] for name in done[0] if isinstance(done[0][name], float)}
        means = {name: float(np.mean(column)) for name, column in values.items()}
        cells.append(
            [
                method,
                str(bits),
                mean_and_spread(values["ap"]),
                tie_range(done),
                mean_and_spread(values["ndcg"]),
                *(f"{means[name]:.3f}" for name in ("precision_at_100", "precision_radius_2")),
                f"{means['fit_seconds']:.1f}",
                f"{means['codes_per_second']:,.0f}",
            ]
        )
    return cells


def markdown_table(rows):
    """Lay out the averaged rows as a Markdown table, columns aligned for plain reading.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them; of several data sets one table each.

    Returns
    -------
    str
        The table.

    Examples
    --------
    >>> from skhash.comparison import compare, markdown_table
    >>> rows, description = compare(methods=["pca", "itq"], nbits=[8], n_seeds=1)
    >>> len(markdown_table(rows).splitlines())  # head, rule, and a line each
    4
    """
    groups = by_dataset(rows)
    if len(groups) > 1:
        parts = {", protocol ".join(name): markdown_table(part) for name, part in groups.items()}
        return "\n\n".join(f"{name}\n\n{table}" for name, table in parts.items())
    return lay_out([COLUMNS, *summarize(rows)])


def lay_out(cells):
    """Lay out cells as a Markdown table, columns aligned for plain reading.

    Parameters
    ----------
    cells : list of sequences of str
        The head, then the lines.

    Returns
    -------
    str
        The table.

    Examples
    --------
    >>> from skhash.comparison.tables import lay_out
    >>> print(lay_out([["method", "AP_T"], ["itq", ".431"]]))
    | method | AP_T |
    |--------|------|
    | itq    | .431 |
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def leader_sentences(rows):
    """Say who leads at each code length, by how much, and whether that is clear.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them, of one data set.

    Returns
    -------
    list of str
        A sentence for each code length.
    """
    return [column_sentence(bits, column) for (bits,), column in _grouped(rows, "nbits").items()]


def absences(rows):
    """Say which methods have no figures, and why.

    Parameters
    ----------
    rows : list of dict
        As :func:`compare` returns them, of one data set.

    Returns
    -------
    list of str
        A sentence for each method and reason.

    Examples
    --------
    >>> from skhash.comparison.tables import absences
    >>> absences([{"method": "sdh", "nbits": 8, "seed": 0, "error": None, "not_applicable": "no labels"}])
    ['sdh: not applicable: no labels.']
    """
    reasons: dict = {}
    for row in rows:
        if row.get("not_applicable"):
            reasons.setdefault((row["method"], f"not applicable: {row['not_applicable']}"), {})
        elif row.get("error"):
            seeds = reasons.setdefault((row["method"], f"failed: {row['error']}"), {})
            seeds.setdefault(row["nbits"], []).append(str(row["seed"]))
    sentences = []
    for (method, reason), seeds in reasons.items():
        places = "; ".join(f"{bits} bits, seed {', '.join(which)}" for bits, which in seeds.items())
        sentences.append(f"{method}{f' ({places})' if places else ''}: {reason.removesuffix('.')}.")
    return sentences
