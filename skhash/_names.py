"""Names of the rows and columns of what users hold, such as data frames, and how two sides that have names are paired.

Columns must have the same names in the same order, as in scikit-learn. Rows are put in the order of the identifiers.
"""

import unicodedata
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skhash._ids import as_ids, first_repeated, is_text
from skhash._validation import check_not_1d, check_not_masked, with_nearest

_N_NAMED = 5  # names in a message


class Names(NamedTuple):
    """Names of rows, which are identifiers, and of columns; None where there are none."""

    rows: npt.NDArray[Any] | None = None
    columns: list[Any] | None = None


_NONE = Names()
_UNNAMED = (np.ndarray, list, tuple)


def names_of(values: Any) -> Names:
    """Names that a data frame or a Series has; other values have none.

    An index that counts the rows from 0 names none of them, since pandas makes it by itself. Neither does one with
    repeated names, or with others than whole numbers and text.
    """
    if isinstance(values, _UNNAMED):
        return _NONE
    if hasattr(values, "iloc") and not hasattr(values, "__dask_graph__"):  # of pandas
        return Names(_named_rows(values.index), values.columns.tolist() if values.ndim == 2 else None)
    columns = getattr(values, "column_names", None)  # of pyarrow, whose `columns` are the values
    columns = getattr(values, "columns", None) if columns is None else columns
    return Names(None, list(columns) if isinstance(columns, Iterable) else None)


def _named_rows(index: Any) -> npt.NDArray[Any] | None:
    """Identifiers in an index of pandas, or None."""
    try:
        rows = as_ids(index.to_numpy(), "index")
    except ValueError:  # dates, pairs, missing names
        return None
    return None if count_from_0(rows) or first_repeated(rows.tolist()) is not None else rows


def count_from_0(ids: npt.NDArray[Any]) -> bool:
    """Whether identifiers are 0, 1, 2, ..., which are positions, and name nothing."""
    return not is_text(ids) and np.array_equal(ids, np.arange(len(ids)))


def check_columns(values: Any, names: Any, name: str, of: str, what: str = "feature") -> None:
    """Raise ValueError, in the words of scikit-learn, unless columns that both sides name are the same in one order.

    `values` have names or are a list of names; `name` is that of the values in messages, and `names` are those of
    `of`. Names of different kinds, such as text and numbers, are not compared.
    """
    given = values if isinstance(values, list) else names_of(values).columns
    if given is None or names is None:
        return
    given, names = ([composed(n) if isinstance(n, str) else n for n in one] for one in (given, names))
    if given == names or len(names) < 2 or set(map(type, given)) != set(map(type, names)):
        return
    new, missing = ([n for n in one if n not in set(other)] for one, other in ((given, names), (names, given)))
    lines = [f"The {what} names of {name} should match those of {of}."]
    if new:
        lines += [f"{what.capitalize()} names unseen in {of}:", *_items(new)]
    if missing:
        lines += [f"{what.capitalize()} names of {of}, yet now missing:", *_items(missing)]
    if not new and not missing:
        lines.append(f"{what.capitalize()} names must be in the same order as in {of}.")
    raise ValueError("\n".join(lines) + "\n")


def check_queries(queries: Any, n_features: int, names: Any, least: int = 1) -> npt.NDArray[Any]:
    """Vectors of queries as an array; ValueError unless they are finite and have the features of the items."""
    from sklearn.utils import check_array

    check_columns(queries, names, "`queries`", "X")
    check_not_masked(queries, "queries")
    check_not_1d(queries, "queries")
    vectors: npt.NDArray[Any] = check_array(queries, input_name="queries", ensure_min_samples=least)
    if vectors.shape[1] != n_features:
        raise ValueError(f"`queries` must have the {n_features} features of X. Got {vectors.shape[1]} instead.")
    return vectors


def _items(names: list[Any]) -> list[str]:
    return [f"- {name}" for name in names[:_N_NAMED]] + ["- ..."] * (len(names) > _N_NAMED)


def in_order_of(ids: Any, values: Any, name: str, of: str, rows: Any = None) -> Any:
    """Values whose rows are in the order of identifiers, if both sides name their rows; else as they are.

    `rows` are names beside the values, such as a column of a table; None takes those that the values have. `ids`
    are those of `of`, or several alternatives in a list, of which the first that has the same names decides.

    Raises
    ------
    ValueError
        If the names of the rows are other ones than the identifiers.
    """
    wanted = [one for one in (ids if isinstance(ids, list) else [ids]) if one is not None and not count_from_0(one)]
    known, is_given = (names_of(values).rows if rows is None else rows), rows is not None
    if not wanted or known is None or count_from_0(known):
        return values
    refused = None
    for one in wanted:
        is_alike = is_text(one) == is_text(known)
        here, there = (known, one) if is_alike else (_texts(known), _texts(one))
        places = find_names(there, here)
        if len(here) == len(there) and (places >= 0).all() and len(np.unique(places)) == len(places):
            if (places[1:] > places[:-1]).all():
                return values
            return values.iloc[places] if hasattr(values, "iloc") else values[places]
        if is_alike or is_given:
            refused = refused if refused is not None else _other_rows(here, there, places, name, of)
    if refused is not None:
        raise refused
    return values


def _other_rows(
    known: npt.NDArray[Any], wanted: npt.NDArray[Any], places: npt.NDArray[np.int64], name: str, of: str
) -> ValueError:
    """ValueError about rows that are named otherwise than the identifiers that they belong to."""
    missing, new = wanted[places < 0].tolist(), np.delete(known, places[places >= 0]).tolist()
    parts = [f"lacks {len(missing):,}, such as {missing[0]!r}"] if missing else []
    parts += [f"has {len(new):,} others, such as {with_nearest([str(new[0])], map(str, missing))}"] if new else []
    remedy = "Pass an array without names, such as frame.to_numpy(), if its rows are in the order of the items."
    return ValueError(
        f"{name} must have a row for each of the {len(wanted):,} ids of {of}. It {' and '.join(parts)}. "
        f"{remedy if name.startswith('`') else ''}".strip()
    )


def find_names(wanted: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Position of each identifier among known ones of the same kind, or -1.

    Text that differs only in how an accented letter is written, as one character or as two, is the same name, unless
    both are known.
    """
    if not is_text(known):
        order = np.argsort(known, kind="stable")
        places = np.searchsorted(known, wanted, sorter=order).clip(max=max(len(known) - 1, 0))
        return np.where(known[order[places]] == wanted, order[places], -1) if len(known) else places - 1
    place_of = dict(zip(known.tolist(), range(len(known)), strict=True))
    places = np.fromiter((place_of.get(text, -1) for text in wanted), np.int64, len(wanted))
    lost = [place for place in np.flatnonzero(places < 0) if not wanted[place].isascii()]
    if lost:
        of_composed = {composed(text): place for text, place in place_of.items()}
        for place in lost:
            places[place] = of_composed.get(composed(wanted[place]), -1)
    return places


def composed(text: str) -> str:
    """Text in which an accented letter is one character; some systems write it as two."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _texts(ids: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """Identifiers as text."""
    return ids if is_text(ids) else np.array([str(i) for i in ids.tolist()], dtype=object)
