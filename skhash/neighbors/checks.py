"""Checks of the parameters, items and searches of an index."""

import math
import warnings
from contextlib import nullcontext
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import validate_data

from skhash._ids import MAX_ID, as_ids, checked_groups, checked_ids, first_repeated, is_text
from skhash._libraries import import_torch
from skhash._names import check_columns, find_names, in_order_of
from skhash._validation import (
    VECTOR_METRICS,
    as_array,
    as_count,
    as_count_or_none,
    check_not_1d,
    check_not_masked,
    check_option,
    is_dataset,
)
from skhash.neighbors.items import Items
from skhash.unwrap import codes_of, first_step

_N_FLIPPED = 2  # bits of a code that may differ, however short it is


def checked_count(n_neighbors: Any) -> int:
    """Number of neighbors as an int."""
    return as_count(n_neighbors, "n_neighbors", "None or an int >= 1")


def checked_radius(radius: Any) -> float:
    """Radius as a float."""
    if isinstance(radius, bool) or not isinstance(radius, int | float | np.number) or not 0 <= radius < math.inf:
        raise ValueError(f"`radius` must be a finite number >= 0. Got {radius!r} instead.")
    return float(radius)


def ids_of_new(ids: Any, n: int, items: Items | None = None) -> npt.NDArray[Any]:
    """Identifiers of n new items, int64 or text of shape (n,): the given ones, or numbers after those of `items`."""
    taken = np.empty(0, np.int64) if items is None else items.ids.values
    if ids is None:
        if is_text(taken):
            raise ValueError("`ids` must be given, since those of the index are text. Got None instead.")
        start = 0 if items is None else items.next_id()
        if start + n > MAX_ID + 1:
            raise ValueError(
                f"`ids` must be given if an item has or had the largest possible one, {MAX_ID}. Got None instead."
            )
        return start + np.arange(n)
    checked = checked_ids(ids, n)
    if len(taken) and n and is_text(taken) != is_text(checked):
        here, there = ("text" if is_text(array) else "ints" for array in (checked, taken))
        raise ValueError(f"`ids` must be {there}, as those in the index. Got {here} instead.")
    if items is not None and (is_text(checked) or _have_any(items, checked)):
        again = first_repeated(chain(items.of_items(items.ids).tolist(), checked.tolist()))
        if again is not None:
            raise ValueError(f"`ids` must differ from those in the index. Got {again!r}, which is there.")
    return checked


def groups_of_new(groups: Any, n: int, items: Items | None = None) -> npt.NDArray[Any] | None:
    """Groups of n new items, int64 or text of shape (n,), of the kind of those in the index; None without groups."""
    known = None if items is None else items.groups
    if items is not None and (groups is None) != (known is None):
        raise ValueError(
            "`groups` must be None for an index that was fitted without them. Got some. Fit it again, with groups."
            if known is None
            else "`groups` must be given for an index with groups. Got None instead."
        )
    if groups is None:
        return None
    checked = checked_groups(groups, n)
    if known is not None and n and is_text(known.labels) != is_text(checked):
        here, there = ("text" if is_text(array) else "ints" for array in (checked, known.labels))
        raise ValueError(f"`groups` must be {there}, as those in the index. Got {here} instead.")
    return checked


def places_of_groups(groups: Any, items: Items, name: str = "groups") -> npt.NDArray[np.int64]:
    """Ascending places of the items of some groups; ValueError if one is unknown, or has no item left."""
    known = items.groups
    if known is None:
        raise ValueError(f"`{name}` must be None for an index without groups. Got {groups!r} instead. Pass ids.")
    checked, kind = np.atleast_1d(as_ids(groups, name)), "text" if is_text(known.labels) else "ints"
    if checked.ndim > 1 or (checked.size and is_text(checked) != is_text(known.labels)):
        raise ValueError(
            f"`{name}` must be {kind} of shape (n_groups,), as those in the index. Got {groups!r} instead."
        )
    numbers = known.find(checked)
    is_known = (numbers >= 0) & items.has_items[numbers]
    if not is_known.all():
        unknown = sorted(set(checked[~is_known].tolist()))
        raise ValueError(f"`{name}` must be groups of the index. Got {unknown[:5]}, which are not.")
    places = known.places(np.unique(numbers))
    return places[items.codes.holds(places)]


def _have_any(items: Items, ids: npt.NDArray[np.int64]) -> bool:
    """Whether any of some identifiers, which are numbers, is that of an item."""
    found = items.find(ids)[0] if items.ids.ascend else np.isin(ids, items.of_items(items.ids))
    return bool(found.any())


def places_of(ids: Any, items: Items, name: str = "ids") -> npt.NDArray[np.int64]:
    """Places of the items with some identifiers, each once, ascending; ValueError if an identifier is unknown."""
    known, checked = items.ids.values, np.atleast_1d(as_ids(ids, name))
    kind = "text" if is_text(known) else "ints"
    if checked.ndim > 1 or (checked.size and is_text(checked) != is_text(known)):
        raise ValueError(f"`{name}` must be {kind} of shape (n_ids,), as those in the index. Got {ids!r} instead.")
    fits = checked.dtype != np.uint64  # numpy would compare uint64 with int64 as floats
    found, places = items.find(checked if fits else checked[checked <= MAX_ID].astype(np.int64))
    if is_text(known) and not found.all():  # an accented letter may be two characters
        held = items.of_items(items.ids)
        others = find_names(checked[~found], held)
        places = np.concatenate([places, items.places[others[others >= 0]]])
        found[~found] = others >= 0
    unknown = sorted(set(checked[checked > MAX_ID].tolist() if not fits else checked[~found].tolist()))
    if unknown:
        raise ValueError(f"`{name}` must be in the index. Got {unknown[:5]}, which are not.")
    if (places[1:] > places[:-1]).all():
        return places
    places = np.sort(places)
    return places[np.r_[True, places[1:] > places[:-1]]]


def checked_vectors(
    vectors: Any,
    n: int,
    n_dimensions: int | None = None,
    name: str = "vectors",
    use: str = " for `rerank`",
    *,
    ids: Any = None,
    columns: Any = None,
) -> Any:
    """Original vectors as an array, without a copy; a memmap is not read.

    Where they have names, the rows are put in the order of the identifiers, and the columns must be those of X.
    """
    check_columns(vectors, columns, f"`{name}`", "X")
    vectors = in_order_of(ids, vectors, f"`{name}`", "the items")
    check_not_masked(vectors, name)
    check_not_1d(vectors, name)
    try:
        array = vectors if isinstance(vectors, np.ndarray) else as_array(vectors, name)
        found = f"{array.dtype} of shape {array.shape}"
    except ValueError:  # samples whose parts have different shapes
        array, found = np.empty(0), f"a {type(vectors).__name__}"
    width = n_dimensions if n_dimensions is not None else (array.shape[1] if array.ndim == 2 else None)
    if array.shape != (n, width) or array.dtype.kind not in "biuf":
        raise ValueError(
            f"`{name}` must be numbers of shape ({n}, {width or 'n_dimensions'}){use}. Got {found} instead."
        )
    return array


def check_vectors_of_items(
    hasher: Any, vectors: npt.NDArray[Any], own: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8]
) -> None:
    """Raise ValueError unless vectors are those of the items whose packed codes are `own`; `others` are any codes.

    Codes of other vectors differ from them in about as many bits as those of any two items. Codes of rounded vectors,
    such as float16 or int8, differ in single bits, and those of few levels in more, of all items. Where some differ in
    hardly any, as in a file of yesterday, one that is far from its item tells enough.
    """
    first = first_step(hasher)
    if getattr(first, "input_shape_", (getattr(first, "n_features_in_", None),)) != vectors.shape[1:]:
        return  # a hasher of texts or images, which does not take vectors
    are_finite = np.isfinite(vectors).all(axis=1)  # a search names the item of a missing value
    vectors, own = vectors[are_finite], own[are_finite]
    if not len(vectors):
        return
    has_names = hasattr(first, "feature_names_in_")  # which checked vectors have lost
    with warnings.catch_warnings() if has_names else nullcontext():
        if has_names:
            warnings.filterwarnings("ignore", "X does not have valid feature names")
        codes = codes_of(hasher, vectors).rows
    from_own = np.bitwise_count(codes ^ own).sum(axis=1)
    from_others = np.bitwise_count(codes[:, None] ^ others).sum(axis=2).mean(axis=1)
    are_far = from_own > np.maximum(_N_FLIPPED, 0.7 * from_others)
    are_exact = np.quantile(from_own, 0.3) <= 0.1 * from_others.mean()  # unless more than 7 of 10 are wrong
    if from_own.mean() > from_others.mean() / 2 or (are_exact and are_far.any()):
        raise ValueError(
            f"`vectors` must be those of the items, in their order. Got {are_far.sum()} of {len(vectors)} that were "
            "compared whose code is not nearer to that of the item than to those of other items. Pass the vectors that "
            "the items were encoded from, in the order of `ids_` and in their scale."
        )


def check_features(index: Any, X: Any, hasher: Any, *, reset: bool) -> None:
    """Check the number and names of the features, or set them with `reset`."""
    plain = not reset and type(X) is np.ndarray and X.ndim == 2 and "feature_names_in_" not in vars(index)
    if plain and X.shape[1] == vars(index).get("n_features_in_"):
        return  # what scikit-learn would find, more slowly
    if not reset and hasattr(first_step(hasher), "feature_names_in_"):
        return  # the hasher has compared the names: a warning would come twice
    shape = getattr(first_step(hasher), "input_shape_", None)  # it checks images and Datasets itself
    if shape is None or not is_dataset(X):
        validate_data(index, X, reset=reset, skip_check_array=True)
    elif reset:  # scikit-learn would take len(X[0])
        index.n_features_in_ = shape[0]
        vars(index).pop("feature_names_in_", None)


def n_columns(X: Any) -> int | None:
    """Number of columns of samples that are a matrix; None for others."""
    shape = tuple(getattr(X, "shape", ()))
    return int(shape[1]) if len(shape) == 2 else None


def check_parameters(index: Any) -> None:
    """Raise ValueError for parameters of an index that do not fit each other."""
    if index.hasher is None and (index.query == "real" or index.rerank is not None):
        raise ValueError("`hasher` must be given with query='real' or `rerank`, which need more than codes. Got None.")
    if index.hasher is not None and index.nbits is not None:
        raise ValueError(f"`nbits` must be None with a hasher, which has its own. Got {index.nbits} instead.")
    if index.candidates is not None and index.query == "code" and index.rerank is None:
        raise ValueError(
            f"`candidates` must be None unless query='real' or `rerank` orders them. Got {index.candidates} instead."
        )
    if index.backend != "exact" and index.candidates is None and (index.query == "real" or index.rerank is not None):
        raise ValueError(
            f"`candidates` must be set with backend={index.backend!r} where query='real' or `rerank` orders them. "
            "Got None, which ranks all items."
        )
    checked_device(index)


def checked_device(index: Any) -> Any:
    """Device of torch for the parameter `device`, or None; ValueError unless the parameters let it search codes."""
    if index.device is None:
        return None
    if index.backend != "exact":
        raise ValueError(f"`device` must be None with backend={index.backend!r}. Got {index.device!r} instead.")
    if index.query == "real" and (index.candidates is None or index.rerank is not None):
        raise ValueError(
            "`device` must be None where real queries are compared with all items, since a device searches by Hamming "
            f"distance. Got {index.device!r} with candidates={index.candidates} and rerank={index.rerank!r}. Set "
            "query='code', or `candidates` without `rerank`."
        )
    import_torch("`device`")
    from skhash.codes.torch_search import chosen_device

    return chosen_device(index.device)


def checked_stages(query: Any, rerank: Any, candidates: Any) -> int | None:
    """Number of candidates as an int; ValueError for wrong parameters of the stages, which can be set after fit."""
    check_option("query", query, ("code", "real"))
    check_option("rerank", rerank, (None, *VECTOR_METRICS))
    return as_count_or_none(candidates, "candidates")
