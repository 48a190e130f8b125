"""Search among binary codes: neighbors, re-ranking, lists of stores, merging of shards, length of codes, duplicates."""

from skhash.neighbors.choose_code import ChosenCode, MeasuredCode, choose_code
from skhash.neighbors.duplicates import duplicate_groups
from skhash.neighbors.hamming_neighbors import HammingNeighbors, HammingNeighborsTransformer
from skhash.neighbors.merging import merge_neighbors, neighbors_from_bytes, neighbors_to_bytes
from skhash.neighbors.query_adapter import QueryAdapter
from skhash.neighbors.shortlists import order_shortlist

__all__ = [
    "ChosenCode",
    "HammingNeighbors",
    "HammingNeighborsTransformer",
    "MeasuredCode",
    "QueryAdapter",
    "choose_code",
    "duplicate_groups",
    "merge_neighbors",
    "neighbors_from_bytes",
    "neighbors_to_bytes",
    "order_shortlist",
]
