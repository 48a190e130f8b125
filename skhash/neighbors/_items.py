"""The items of an index, changed in one step, so that a search in another thread sees them before or after it."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from skhash.neighbors._approximate import build_approximate
from skhash.neighbors._checks import check_stages

Index = TypeVar("Index")


def with_items_of_now(index: Index) -> Index:
    """Copy of the index with its present items, which other threads do not change during a search."""
    check_is_fitted(index)
    now: Any = copy_of(index)
    check_stages(now.query, now.rerank, now.candidates)
    known = vars(now).get("_approximate")
    if known is None or known.codes is not now.codes_ or known.backend != now.backend:  # changed, or loaded from a file
        now._approximate = build_approximate(now.backend, now.codes_, now._nbits, now.hasher_)
        vars(index)["_approximate"] = now._approximate
    return now  # type: ignore[no-any-return]


def copy_of(index: Index) -> Index:
    """Another index that shares the parameters and items."""
    copied = object.__new__(type(index))
    vars(copied).update(vars(index))
    return copied


class ItemVectors:
    """Original vectors of the items of an index: the given array, which is not copied, and those added later.

    A change returns a new object that shares the arrays, of which only the newest may fill free rows of `added`.
    """

    def __init__(
        self,
        given: npt.NDArray[Any],
        added: npt.NDArray[Any] | None = None,
        n_added: int = 0,
        rows: npt.NDArray[np.int64] | None = None,  # of the items, ascending, in `given` and then `added`; None is all
    ) -> None:
        self.given, self._n_added, self._rows = given, n_added, rows
        self._added = np.empty((0, given.shape[1]), given.dtype) if added is None else added
        self._can_fill = True

    def at(self, positions: npt.NDArray[np.int64], dtype: Any = np.float64) -> npt.NDArray[Any]:
        """Vectors of items at ascending positions, of `dtype` unless all are in `given`."""
        if self._rows is None and not self._n_added:
            return self.given[positions]
        rows, n_given = positions if self._rows is None else self._rows[positions], len(self.given)
        n_before = np.searchsorted(rows, n_given)
        found = np.empty((len(rows), self.given.shape[1]), dtype)
        _copy_rows(self.given, rows[:n_before], found[:n_before])
        _copy_rows(self._added, rows[n_before:] - n_given, found[n_before:])
        return found

    def __getstate__(self) -> dict[str, Any]:
        return vars(ItemVectors(self.whole()))  # no free rows, and none of removed items

    def whole(self) -> npt.NDArray[Any]:
        """Vectors of all items in one array, which is the given one if nothing has changed."""
        if self._rows is None and not self._n_added:
            return self.given
        n_items = len(self.given) + self._n_added if self._rows is None else len(self._rows)
        return self.at(np.arange(n_items), self._added.dtype)

    def with_more(self, vectors: npt.NDArray[Any]) -> "ItemVectors":
        """Vectors with `vectors` appended; many small additions take linear time in all."""
        n, end, added = self._n_added, self._n_added + len(vectors), self._added
        dtype = np.result_type(added.dtype, vectors.dtype)
        can_fill, self._can_fill = self._can_fill, False
        if not can_fill or end > len(added) or dtype != added.dtype:
            added = np.empty((max(end, 2 * n), added.shape[1]), dtype)
            added[:n] = self._added[:n]
        added[n:end] = vectors
        rows = None if self._rows is None else np.concatenate([self._rows, len(self.given) + np.arange(n, end)])
        return ItemVectors(self.given, added, end, rows)

    def kept(self, is_kept: npt.NDArray[np.bool_]) -> "ItemVectors":
        """Vectors of some items; they are copied once less than half of the rows are in use."""
        rows = np.flatnonzero(is_kept) if self._rows is None else self._rows[is_kept]
        others = ItemVectors(self.given, self._added, self._n_added, rows)
        if 2 * len(rows) < len(self.given) + self._n_added:
            return ItemVectors(others.whole())
        others._can_fill, self._can_fill = self._can_fill, False
        return others


def _copy_rows(array: npt.NDArray[Any], rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Copy rows of an array into another one, where possible without a temporary copy."""
    if array.dtype == out.dtype and array.flags.c_contiguous and array.flags.aligned:  # else `take` copies the array
        array.take(rows, axis=0, out=out, mode="clip")
    else:
        out[:] = array[rows]


def whole_vectors(index: Any) -> Any:
    """Original vectors of an index in one array, which the index then keeps in place of several."""
    vectors: ItemVectors | None = index._vectors
    if vectors is None:
        return None
    whole = vectors.whole()
    if index._vectors is vectors:  # no other thread has changed the items
        index._vectors = ItemVectors(whole)
    return whole


def replace_items(index: Any, codes: Any, ids: Any, vectors: ItemVectors | None, factors: Any) -> None:
    """Replace the items of an index in one step."""
    before = vars(index).copy()  # freed after the update, since freeing can let another thread run
    vars(index).update(codes_=codes, ids_=ids, _vectors=vectors, factors_=factors, n_samples_fit_=len(codes))
    del before
