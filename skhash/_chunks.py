"""Chunks of items that fit into memory."""

from collections.abc import Iterator

import sklearn
from sklearn.utils import gen_batches

MAX_WORKING_MEMORY = 128  # MiB; larger chunks save time only where a few items fill one


def memory_chunks(n: int, bytes_per_item: int) -> Iterator[slice]:
    """Slices of n items, each as large as fits into 128 MiB and scikit-learn's `working_memory`.

    Parameters
    ----------
    n : int
        Number of items.
    bytes_per_item : int
        Memory of one item.

    Returns
    -------
    iterator of slice
        Successive slices that cover the items, at least one item each.

    Examples
    --------
    >>> from skhash._chunks import memory_chunks
    >>> list(memory_chunks(5, 2**26))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    memory = min(sklearn.get_config()["working_memory"], MAX_WORKING_MEMORY) * 2**20
    chunks: Iterator[slice] = gen_batches(n, max(1, min(n, int(memory // max(1, bytes_per_item)))))
    return chunks
