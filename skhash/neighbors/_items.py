"""The items of an index, changed in one step, so that a search in another thread sees them before or after it."""

from typing import Any, TypeVar

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


def replace_items(index: Any, codes: Any, ids: Any, vectors: Any, factors: Any) -> None:
    """Give an index other items."""
    before = vars(index).copy()  # freed after the step, because that can let another thread run
    vars(index).update(codes_=codes, ids_=ids, vectors_=vectors, factors_=factors, n_samples_fit_=len(codes))
    del before
