"""The items that a search is restricted to: the same ones for all queries, or different ones for each."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash._ids import as_ids, is_text
from skhash._validation import as_array, check_not_masked
from skhash.neighbors.checks import places_of
from skhash.neighbors.items import Items

Places = npt.NDArray[np.int64]


def chosen_places(among: Any, items: Items, n_queries: int) -> Places | list[Places]:
    """Ascending places of the items in `among`, or a list of those of each query."""
    check_not_masked(among, "among")
    if sparse.issparse(among):
        return _of_matrix(among, items, n_queries)
    filters = _of_each_query(among)
    if filters is None:
        return _of_filter(among, items, "among")
    if len(filters) != n_queries:
        raise ValueError(
            f"`among` must have a mask or ids for each of the {n_queries} queries. Got {len(filters)} instead. "
            "For the same items for all queries pass one mask, or one list of ids."
        )
    return [_of_filter(one, items, f"among[{query}]") for query, one in enumerate(filters)]


def _of_each_query(among: Any) -> list[Any] | None:
    """The masks or ids of each query; None if there is one for all."""
    if isinstance(among, list | tuple) or (isinstance(among, np.ndarray) and among.dtype.kind == "O"):
        values = list(among)
        are_filters = [
            hasattr(kind, "__len__") and not issubclass(kind, str | bytes) for kind in set(map(type, values))
        ]
        if any(are_filters) and not all(are_filters):
            raise ValueError(
                "`among` must be one mask or ids for all queries, or a list with one for each. Got a list of both."
            )
        return values if any(are_filters) else None
    return list(as_array(among, "among")) if getattr(among, "ndim", 1) == 2 else None


def _of_filter(given: Any, items: Items, name: str) -> Places:
    """Places of the items in one mask or some ids."""
    n_items, mask = items.codes.n_items, _as_mask(given, name)
    if mask is None:
        ids = as_ids(given, name)
        if ids.ndim == 0:
            raise ValueError(f"`{name}` must be a mask or a list of ids. Got {given!r} instead. Pass [{given!r}].")
        if ids.shape == (n_items,) and n_items > 2 and not is_text(ids) and not (ids >> 1).any():
            raise ValueError(
                f"`{name}` must be a mask of bools, or ids. Got ints that are 0 or 1 for each of the {n_items} items. "
                "Pass them as bools if they are a mask, or each one once if they are ids."
            )
        return places_of(ids, items, name)
    if mask.shape != (n_items,):
        raise ValueError(
            f"`{name}` must be a mask of shape ({n_items},), with a bool for each item in the order of `ids_`, or ids. "
            f"Got a mask of shape {mask.shape} instead."
        )
    positions = np.flatnonzero(mask)
    return positions if items.codes.is_whole else items.places[positions]


def _as_mask(given: Any, name: str) -> npt.NDArray[np.bool_] | None:
    """An array of bools; None if the values are not bools."""
    if isinstance(given, list | tuple):
        return np.array(given, bool) if given and set(map(type, given)) <= {bool, np.bool_} else None
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        return None
    array = as_array(given, name)
    if array.dtype == object and array.size and set(map(type, array.reshape(-1).tolist())) == {bool}:
        array = array.astype(bool)
    return array if array.dtype == bool else None


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
