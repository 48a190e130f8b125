"""The items of an index, changed in one step, so that a search in another thread sees them before or after it."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from skhash.neighbors._approximate import build_approximate
from skhash.neighbors._checks import check_stages

Index = TypeVar("Index")


def with_items_of_now(index: Index) -> Index:
    """The index with the items that it has now, also if another thread changes them during a search."""
    check_is_fitted(index)
    now: Any = copy_of(index)
    check_stages(now.query, now.rerank, now.candidates)
    known = vars(now).get("_approximate")
    if known is None or known.codes is not now.codes_ or known.backend != now.backend:  # other items, or from a file
        now._approximate = build_approximate(now.backend, now.codes_, now._nbits, now.hasher_)
        vars(index)["_approximate"] = now._approximate
    return now  # type: ignore[no-any-return]


def copy_of(index: Index) -> Index:
    """Another index with the same parameters and items, not copied."""
    copied = object.__new__(type(index))
    vars(copied).update(vars(index))
    return copied


class ItemVectors:
    """Original vectors of the items of an index: the given array by reference, and those added later.

    A change makes another object, which shares the arrays: a search keeps the vectors of its start. The added ones are
    in an array with free rows, which the object of the last change alone may fill.

    Parameters
    ----------
    given : ndarray of shape (n_given, n_dimensions)
        Vectors. A memmap is not read.
    added : ndarray of shape (n_rows, n_dimensions), default=None
        More vectors, of the dtype of all. None has no rows.
    n_added : int, default=0
        Number of rows of `added` that are not free.
    rows : int64 ndarray of shape (n_items,), default=None
        Ascending rows of the items, in `given` and then in `added`. None are all that are not free.
    """

    def __init__(
        self,
        given: npt.NDArray[Any],
        added: npt.NDArray[Any] | None = None,
        n_added: int = 0,
        rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.given, self._n_added, self._rows = given, n_added, rows
        self._added = np.empty((0, given.shape[1]), given.dtype) if added is None else added
        self._can_fill = True

    def at(self, positions: npt.NDArray[np.int64], dtype: Any = np.float64) -> npt.NDArray[Any]:
        """Vectors of the items at ascending positions; of the dtype, unless they are all in `given`."""
        if self._rows is None and not self._n_added:
            return self.given[positions]
        rows, n_given = positions if self._rows is None else self._rows[positions], len(self.given)
        n_before = np.searchsorted(rows, n_given)
        found = np.empty((len(rows), self.given.shape[1]), dtype)
        _copy_rows(self.given, rows[:n_before], found[:n_before])
        _copy_rows(self._added, rows[n_before:] - n_given, found[n_before:])
        return found

    def __getstate__(self) -> dict[str, Any]:
        return vars(ItemVectors(self.whole()))  # without free rows and those of removed items

    def whole(self) -> npt.NDArray[Any]:
        """The vectors of all items in one array; the given one if nothing has changed."""
        if self._rows is None and not self._n_added:
            return self.given
        n_items = len(self.given) + self._n_added if self._rows is None else len(self._rows)
        return self.at(np.arange(n_items), self._added.dtype)

    def with_more(self, vectors: npt.NDArray[Any]) -> "ItemVectors":
        """The vectors and some more; the time for all that come one by one is linear in their number."""
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
        """The vectors of some items; all are copied once the removed ones are more than the others."""
        rows = np.flatnonzero(is_kept) if self._rows is None else self._rows[is_kept]
        others = ItemVectors(self.given, self._added, self._n_added, rows)
        if 2 * len(rows) < len(self.given) + self._n_added:
            return ItemVectors(others.whole())
        others._can_fill, self._can_fill = self._can_fill, False
        return others


def _copy_rows(array: npt.NDArray[Any], rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Copy rows of an array into another one, without a copy between them where numpy can."""
    if array.dtype == out.dtype and array.flags.c_contiguous and array.flags.aligned:  # `take` copies others as a whole
        array.take(rows, axis=0, out=out, mode="clip")
    else:
        out[:] = array[rows]


def whole_vectors(index: Any) -> Any:
    """Original vectors of an index in one array, which then replaces those that it is made of."""
    vectors: ItemVectors | None = index._vectors
    if vectors is None:
        return None
    whole = vectors.whole()
    if index._vectors is vectors:  # no other thread has changed the items
        index._vectors = ItemVectors(whole)
    return whole


def replace_items(index: Any, codes: Any, ids: Any, vectors: ItemVectors | None, factors: Any) -> None:
    """Give an index other items."""
    before = vars(index).copy()  # freed after the step, because that can let another thread run
    vars(index).update(codes_=codes, ids_=ids, _vectors=vectors, factors_=factors, n_samples_fit_=len(codes))
    del before
