"""Search among binary codes: exact nearest neighbors, real queries, re-ranking, and merging of shards."""

from skhash.neighbors.hamming_neighbors import HammingNeighbors
from skhash.neighbors.merging import merge_neighbors
from skhash.neighbors.transformer import HammingNeighborsTransformer

__all__ = ["HammingNeighbors", "HammingNeighborsTransformer", "merge_neighbors"]
