"""The items that a search is restricted to: the same ones for all queries, or different ones for each."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._ids import as_ids, is_text
from skhash._names import count_from_0, in_order_of, names_of
from skhash._validation import as_array, check_not_masked
from skhash.neighbors.checks import places_of, places_of_groups
from skhash.neighbors.items import Items

_MISSING = ("NoneType", "NAType", "float")  # types of None, pandas.NA and NaN

Places = npt.NDArray[np.int64]


def chosen_places(among: Any, items: Items, n_queries: int, queries: Any = None) -> Places | list[Places]:
    """Ascending places of the items in `among`, or a list of those of each query.

    Rows of `among` that name the queries are put in the order of their names.
    """
    check_not_masked(among, "among")
    if sparse.issparse(among):
        return _of_matrix(among, items, n_queries)
    filters = _of_each_query(among, items, queries)
    if filters is None:
        return _of_filter(among, items, "among")
    if len(filters) != n_queries:
        raise ValueError(
            f"`among` must have a mask or ids for each of the {n_queries} queries. Got {len(filters)} instead. "
            "For the same items for all queries pass one mask, or one list of ids."
        )
    return [_of_filter(one, items, f"among[{query}]") for query, one in enumerate(filters)]


def _of_each_query(among: Any, items: Items, queries: Any) -> list[Any] | None:
    """The masks or ids of each query; None if there is one for all."""
    if isinstance(among, str | bytes) or not hasattr(among, "__len__"):
        return None
    if isinstance(among, np.ndarray) and among.ndim == 1 and among.dtype != object:
        return None  # what the rest would find, more slowly
    values: Any = among if isinstance(among, list | tuple) else as_array(among, "among")
    if getattr(values, "ndim", 1) == 2:
        if hasattr(among, "iloc"):  # a frame of masks, whose columns may name the items
            among = in_order_of(names_of(queries).rows, among, "`among`", "X")
            values = among.to_numpy() if values.dtype != bool else _paired_mask(among.T, items, "among").to_numpy().T
        return list(values)
    if not isinstance(among, list | tuple) and (values.dtype != object or values.ndim != 1):
        return None
    are_filters = [hasattr(kind, "__len__") and not issubclass(kind, str | bytes) for kind in set(map(type, values))]
    if not any(are_filters):
        return None
    if not all(are_filters):
        missing = [query for query, value in enumerate(values) if type(value).__name__ in _MISSING]
        found = f"none for query {missing[0]}" if missing else "a list of both"
        raise ValueError(f"`among` must be one mask or ids for all queries, or a list with one for each. Got {found}.")
    among = in_order_of(names_of(queries).rows, among, "`among`", "X")
    return list(among if hasattr(among, "iloc") else values)


def _of_filter(given: Any, items: Items, name: str) -> Places:
    """Places of the items in one mask or some ids."""
    n_items, mask = items.codes.n_items, _as_mask(given, name)
    if mask is not None and hasattr(given, "iloc"):
        mask = _as_mask(_paired_mask(given, items, name), name)
    if mask is None:
        ids = as_ids(given, name)
        if ids.ndim == 0:
            raise ValueError(f"`{name}` must be a mask or a list of ids. Got {given!r} instead. Pass [{given!r}].")
        if ids.shape == (n_items,) and n_items > 2 and not is_text(ids) and not (ids >> 1).any():
            raise ValueError(
                f"`{name}` must be a mask of bools, or ids. Got ints that are 0 or 1 for each of the {n_items} items. "
                "Pass them as bools if they are a mask, or each one once if they are ids."
            )
        return places_of(ids, items, name) if items.groups is None else places_of_groups(ids, items, name)
    if mask.shape != (n_items,):
        raise ValueError(
            f"`{name}` must be a mask of shape ({n_items},), with a bool for each item in the order of `ids_`, or ids. "
            f"Got a mask of shape {mask.shape} instead."
        )
    positions = np.flatnonzero(mask)
    return positions if items.codes.is_whole else items.places[positions]


def _as_mask(given: Any, name: str) -> npt.NDArray[np.bool_] | None:
    """An array of bools; None if the values are not bools."""
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        return None
    values: Any = given
    if not isinstance(given, list | tuple):
        array = as_array(given, name)
        if array.dtype != object:
            return array if array.dtype == bool else None
        values = array.tolist()
    found = set(map(type, values)) if isinstance(values, list | tuple) else set()
    if not found & {bool, np.bool_} or not all(kind in (bool, np.bool_) or kind.__name__ in _MISSING for kind in found):
        return None
    missing = [place for place, value in enumerate(values) if type(value).__name__ in _MISSING]
    if missing:
        raise ValueError(
            f"`{name}` must say of each item whether it can be found. Got a mask with {len(missing):,} missing values "
            f"of {len(values):,}, the first at {missing[0]}. Fill them: False leaves an item out."
        )
    return np.array(values, bool)


def _paired_mask(mask: Any, items: Items, name: str) -> Any:
    """A mask of pandas in the order of the items, if its index holds their ids.

    An index that only counts says nothing if the ids are other ones, unless it shares some of them, as that of an
    earlier state of the index does.
    """
    ids = items.of_items(items.ids)
    if not is_text(ids) and names_of(mask).rows is None and len(mask) == len(ids) and not count_from_0(ids):
        rows = np.asarray(mask.index)
        if rows.dtype.kind == "i" and not np.array_equal(rows, ids) and np.isin(rows, ids).any():
            raise ValueError(
                f"`{name}` must have a bool for each id of the index. Got a Series whose index holds some of them, and "
                f"lacks {np.setdiff1d(ids, rows)[:1].tolist() or 'none, in another order'}. Set its index to the ids, "
                f"or pass {name}.to_numpy() if it has the order of `ids_`."
            )
    return in_order_of(ids, mask, f"`{name}`", "the index")


def _of_matrix(among: Any, items: Items, n_queries: int) -> list[Places]:
    """Places of the items that the rows of a sparse matrix have, one row per query."""
    if among.shape != (n_queries, items.codes.n_items):
        raise ValueError(
            f"`among` must have shape ({n_queries}, {items.codes.n_items}), with a row for each query and a column for "
            f"each item. Got {among.shape} instead."
        )
    rows = among.tocsr()
    if not rows.data.all():
        raise ValueError(
            "`among` must not store zeros, which can be a distance, or no. Got a matrix with some. Call "
            "among.eliminate_zeros() to leave these items out, or set among.data[:] = 1 to keep them."
        )
    positions = [np.unique(row).astype(np.int64) for row in np.split(rows.indices, rows.indptr[1:-1])]
    return positions if items.codes.is_whole else [items.places[row] for row in positions]
