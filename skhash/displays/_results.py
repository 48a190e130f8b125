"""Rows of :func:`skhash.comparison.compare`, chosen and averaged."""

from numbers import Real

import numpy as np

_DESCRIBE = {"dataset", "protocol", "method", "nbits", "seed"}


def choose_results(rows, figures, **wanted):
    """Keep the rows of one data set, and of one code length where that is asked for.

    Parameters
    ----------
    rows : list of dict
        Results, each with "method", "nbits" and the figures; rows where these are None, of
        fits that failed, are left out.
    figures : sequence of str
        Keys that are to be averaged.
    **wanted : dict
        Values of "dataset" or "nbits"; None stands for the only one that there is.

    Returns
    -------
    list of dict
        The rows that are meant.

    Raises
    ------
    ValueError
        If there are none, if several are meant by None, or a figure is not there.
    """
    rows = list(rows)
    if not all(isinstance(row, dict) for row in rows):
        raise TypeError("rows holds what is no dict; rows as compare returns them, or of its results.json, are wanted.")
    for name, value in (wanted | {"protocol": None}).items():
        there = list(dict.fromkeys(row.get(name) for row in rows))
        if value is None and len(there) > 1:
            raise ValueError(f"rows hold several values of {name}, {', '.join(map(str, there))}; one is wanted.")
        if value is not None and value not in there:
            raise ValueError(f"{name}={value!r} is not in rows; they hold {', '.join(map(str, there)) or 'nothing'}.")
        rows = [row for row in rows if value in (None, row.get(name))]
    known = [key for key in dict.fromkeys(key for row in rows for key in row) if _is_figure(rows, key)]
    for figure in figures:
        if rows and figure not in known:
            raise ValueError(f"figure={figure!r} is no figure of all rows; they hold {', '.join(known) or 'none'}.")
    rows = [row for row in rows if all(row[figure] is not None for figure in figures)]
    if not rows:
        raise ValueError("rows holds no row with figures; one at least, as compare returns them, is wanted.")
    return rows


def _is_figure(rows, key):
    """Whether a key has a number in some row, and a number or None in all."""
    values = [row.get(key, "") for row in rows]
    return (
        key not in _DESCRIBE
        and all(value is None or isinstance(value, Real) for value in values)
        and any(value is not None for value in values)
    )


def methods_of(rows):
    """Names of the methods, in the order of the rows."""
    return list(dict.fromkeys(row["method"] for row in rows))


def mean_and_deviation(rows, figure, **chosen):
    """Mean of a figure over the rows with the chosen values, and its standard deviation (NaN where it has none)."""
    values = [row[figure] for row in rows if all(row[name] == value for name, value in chosen.items())]
    mean = float(np.mean(values)) if values else np.nan
    return mean, float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
