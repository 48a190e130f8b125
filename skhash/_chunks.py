"""Chunks of items that fit into memory."""

from collections.abc import Iterator

import sklearn
from sklearn.utils import gen_batches

MAX_WORKING_MEMORY = 128  # MiB; larger chunks are faster only if a few items fill one


def memory_chunks(n: int, bytes_per_item: int) -> Iterator[slice]:
    """Successive slices of n items, each as large as fits into 128 MiB and scikit-learn's `working_memory`."""
    memory = min(sklearn.get_config()["working_memory"], MAX_WORKING_MEMORY) * 2**20
    chunks: Iterator[slice] = gen_batches(n, max(1, min(n, int(memory // max(1, bytes_per_item)))))
    return chunks
