"""Search among binary codes: neighbors, re-ranking, lists of stores, merging of shards, duplicates."""

from skhash.neighbors.duplicates import duplicate_groups
from skhash.neighbors.hamming_neighbors import HammingNeighbors, HammingNeighborsTransformer
from skhash.neighbors.merging import merge_neighbors, neighbors_from_bytes, neighbors_to_bytes
from skhash.neighbors.shortlists import order_shortlist

__all__ = [
    "HammingNeighbors",
    "HammingNeighborsTransformer",
    "duplicate_groups",
    "merge_neighbors",
    "neighbors_from_bytes",
    "neighbors_to_bytes",
    "order_shortlist",
]
