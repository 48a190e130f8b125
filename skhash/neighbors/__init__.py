"""Search among binary codes: neighbors, re-ranking, lists of stores, merging of shards, duplicates, code lengths."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skhash.neighbors.duplicates import duplicate_groups
from skhash.neighbors.hamming_neighbors import HammingNeighbors, HammingNeighborsTransformer
from skhash.neighbors.merging import merge_neighbors, neighbors_from_bytes, neighbors_to_bytes
from skhash.neighbors.shortlists import order_shortlist

if TYPE_CHECKING:  # type checkers read imports, not the names below
    from skhash.neighbors.choosing import ChosenCode as ChosenCode
    from skhash.neighbors.choosing import MeasuredCode as MeasuredCode
    from skhash.neighbors.choosing import choose_code as choose_code

_CHOOSING = ["ChosenCode", "MeasuredCode", "choose_code"]  # they import affinities and metrics, which no search needs

__all__ = [
    "ChosenCode",
    "HammingNeighbors",
    "HammingNeighborsTransformer",
    "MeasuredCode",
    "choose_code",
    "duplicate_groups",
    "merge_neighbors",
    "neighbors_from_bytes",
    "neighbors_to_bytes",
    "order_shortlist",
]


def __getattr__(name: str) -> Any:
    if name in _CHOOSING:
        return getattr(import_module("skhash.neighbors.choosing"), name)
    raise AttributeError(f"module 'skhash.neighbors' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
