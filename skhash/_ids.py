"""Identifiers of items and queries: whole numbers or text, in whatever container they come."""

from collections.abc import Iterable, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._validation import as_array

MAX_ID = int(np.iinfo(np.int64).max)
_N_PADDED = 1 << 24  # characters in a file, with those that fill up the shorter texts


def as_ids(values: Any, name: str) -> npt.NDArray[Any]:
    """Identifiers of any shape: int64, uint64 if one is larger, or text of dtype object; ValueError for others.

    Text is of dtype object, since numpy's own type of text cuts a longer one, and loses zeros at its end.
    """
    array = _elements(values, name)
    if array.dtype.kind in "iu":
        return _as_smallest(array)
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype.kind != "O":
        if not array.size:
            return array.astype(np.int64)
        raise _not_an_id(sorted(array.reshape(-1).tolist(), key=lambda value: value == value)[0], name)  # NaN first
    flat = array.reshape(-1).tolist()
    kinds = set(map(type, flat))
    if wrong := {kind for kind in kinds if not _is_id(kind)}:
        raise _not_an_id(next(value for value in flat if type(value) in wrong), name)
    n_text = sum(issubclass(kind, str) for kind in kinds)
    if not n_text:
        return _as_smallest(_integers(flat, name).reshape(array.shape))
    if n_text < len(kinds):
        raise ValueError(f"`{name}` must be all ints or all text. Got both. Pass text: [str(i) for i in {name}].")
    return array if kinds == {str} else _object_array([str.__str__(text) for text in flat], array.shape)


def checked_ids(ids: Any, n: int) -> npt.NDArray[Any]:
    """A copy of the identifiers of n items, int64 or text of shape (n,), all different; ValueError for others."""
    checked = as_ids(ids, "ids")
    if checked.shape != (n,):
        raise ValueError(f"`ids` must be ints of shape ({n},), or text. Got shape {checked.shape} instead.")
    if checked.dtype == np.uint64:
        raise ValueError(f"`ids` must be at most {MAX_ID}. Got {checked.max()} instead. Pass text: ids.astype(str).")
    if (is_text(checked) or len(np.unique(checked)) < n) and (again := first_repeated(checked.tolist())) is not None:
        raise ValueError(f"`ids` must differ from each other. Got {again!r} more than once.")
    return np.array(checked)


def checked_groups(groups: Any, n: int, name: str = "groups") -> npt.NDArray[Any]:
    """A copy of the groups of n items, int64 or text of shape (n,); ValueError for others."""
    checked = as_ids(groups, name)
    if checked.shape != (n,):
        raise ValueError(f"`{name}` must be ints of shape ({n},), or text. Got shape {checked.shape} instead.")
    if checked.dtype == np.uint64:
        raise ValueError(f"`{name}` must be at most {MAX_ID}. Got {checked.max()} instead. Pass text.")
    return np.array(checked)


def numbered(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """The different labels in their order, and the number of each label of an array by this order."""
    if not is_text(labels) and len(labels):
        least = labels.min()
        span = int(labels.max()) - int(least) + 1
        if span <= 4 * len(labels):  # no sort, which takes ten times as long
            is_there = np.zeros(span, bool)
            is_there[labels - least] = True
            return np.flatnonzero(is_there) + least, (np.cumsum(is_there, dtype=np.int32) - 1)[labels - least]
    values, numbers = np.unique(labels, return_inverse=True)
    return values, numbers.astype(np.int32)


def joined_elements(parts: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Identifiers that nothing has checked, in one array of shape (n,) that rounds and converts none of them."""
    filled = [part for part in parts if part.size]
    if len({part.dtype for part in filled}) > 1:  # numpy would round int64 with uint64, and make text of numbers
        filled = [part.astype(object) for part in filled]
    return np.concatenate(filled) if filled else np.empty(0, np.int64)


def as_plain(ids: Any, path: Any) -> npt.NDArray[Any]:
    """Identifiers as an array that a file of numpy holds, in which each text takes the room of the longest one.

    ValueError if that is most of the file.
    """
    if isinstance(ids, np.ndarray) and not is_text(ids):
        return ids
    texts = list(ids.flat if isinstance(ids, np.ndarray) else ids)
    n_characters, longest = sum(map(len, texts)), max(map(len, texts), default=0)
    if longest * len(texts) > max(_N_PADDED, 16 * n_characters):
        raise ValueError(
            f"{path} would hold {longest * len(texts):,} characters for {n_characters:,} of the ids, since each takes "
            f"the room of the longest one, {texts[[*map(len, texts)].index(longest)][:30]!r}... Use shorter ids."
        )
    return np.array(texts).reshape(np.shape(ids))


def as_names(values: Any, name: str) -> list[str]:
    """Identifiers as text, for files of text; ValueError unless each is text or a whole number."""
    is_list = isinstance(values, list | tuple)
    if not is_list and (isinstance(values, str | bytes) or not isinstance(values, Sized) or _is_tensor(values)):
        raise _not_an_id(values, name)
    array = _elements(values, name)
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be a list of ints or text. Got a {type(values).__name__} instead.")
    flat = array.tolist()
    if wrong := {kind for kind in set(map(type, flat)) if not _is_id(kind)}:
        raise _not_an_id(next(value for value in flat if type(value) in wrong), name)
    return [str.__str__(value) if isinstance(value, str) else str(int(value)) for value in flat]


def first_repeated(ids: Iterable[Any]) -> Any:
    """The first identifier that was there before, or None."""
    seen: set[Any] = set()
    return next((i for i in ids if i in seen or seen.add(i)), None)  # type: ignore[func-returns-value]


def is_text(ids: npt.NDArray[Any]) -> bool:
    """Whether identifiers from :func:`as_ids` are text."""
    return ids.dtype.kind == "O"


def ranks(ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers of the shape of `ids` that have the order of the identifiers."""
    return np.unique(ids, return_inverse=True)[1].reshape(ids.shape) if is_text(ids) else ids


def with_mask(ids: Any, missing: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Identifiers that nothing has checked, and which places are empty: by `missing`, and by a masked array."""
    is_masked = isinstance(ids, np.ma.MaskedArray)
    array = _elements(np.ma.getdata(ids) if is_masked else ids, "ids")
    is_empty = np.ma.getmaskarray(ids) if is_masked else np.zeros(array.shape, bool)
    if missing is None:
        return array, is_empty
    given = as_array(missing, "missing")
    if given.shape != array.shape or (given.dtype != bool and given.size):
        raise ValueError(
            f"`missing` must be None or a mask of bools of the shape of `ids`, {array.shape}. "
            f"Got {given.dtype} of shape {given.shape} instead."
        )
    return array, given.astype(bool) | is_empty


def _elements(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array; those of lists stay the objects that they are, since numpy makes text of ["a", 1]."""
    if not isinstance(values, list | tuple):
        return as_array(values, name)
    try:
        array = np.array(values, dtype=object)
    except ValueError:  # lists of several lengths
        array = np.empty(1, dtype=object)
        array[0] = values
    return array


def _as_smallest(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers as int64, or as uint64 if one is larger."""
    is_large = array.dtype.kind == "u" and array.dtype.itemsize == 8 and int(array.max(initial=0)) > MAX_ID
    return array.astype(np.uint64 if is_large else np.int64, copy=False)


def _integers(flat: list[Any], name: str) -> npt.NDArray[Any]:
    """Whole numbers of a list as an array of 64 bits."""
    for dtype in (np.int64, np.uint64):
        try:
            return np.array([int(value) for value in flat], dtype=dtype)
        except OverflowError:
            continue
    extreme = max(map(int, flat), key=abs)
    raise ValueError(
        f"`{name}` must be ints that one type of 64 bits holds. Got {extreme}. Pass text: [str(i) for i in {name}]."
    )


def _object_array(values: list[Any], shape: tuple[int, ...]) -> npt.NDArray[np.object_]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


def _is_id(kind: type) -> bool:
    """Whether objects of a class are whole numbers or text."""
    return issubclass(kind, str | int | np.integer) and kind is not bool


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def _not_an_id(value: Any, name: str) -> ValueError:
    """ValueError about a value that is neither a whole number nor text, with what to do about it."""
    value = value.item() if isinstance(value, np.generic) else value
    kind, each = type(value).__name__, f"for i in {name}]"
    found, remedy = f"{value!r}" if np.isscalar(value) else f"a {kind}", f"Pass text: [str(i) {each}."
    if value is None or kind in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        found, remedy = "NaN" if isinstance(value, float) else str(value), "Give each one an identifier of its own."
    elif isinstance(value, bytes):
        remedy = f"Decode them: [i.decode() {each}."
    elif isinstance(value, float):
        remedy = f"Pass whole numbers: [int(i) {each}."
    elif _is_tensor(value):
        remedy = f"Pass numbers: [int(i) {each}."
    elif isinstance(value, bool):
        remedy = "Pass numbers or names."
    elif isinstance(value, list | tuple | np.ndarray):
        return ValueError(f"`{name}` must have the same number of values in each row. Got lists of several lengths.")
    elif isinstance(value, str | set | frozenset | dict):
        remedy = "Pass a list."
    return ValueError(f"`{name}` must be ints or text. Got {found[:60]} instead. {remedy}")
