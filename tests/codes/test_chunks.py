"""Chunks that cover all items, and are as large as memory allows."""

import pytest
import sklearn

from skhash.codes._bits import memory_chunks

MIB = 2**20


@pytest.mark.parametrize(
    ("n", "bytes_per_item", "memory", "sizes"),
    [
        (5, 8, 1024, [5]),
        (5, 64 * MIB, 1024, [2, 2, 1]),  # 128 MiB, though scikit-learn allows more
        (5, 64 * MIB, 70, [1] * 5),
        (3, 2**40, 1024, [1] * 3),  # an item that fits nowhere
        (3, 0, 1024, [3]),
    ],
)
def test_chunks_cover_the_items(n, bytes_per_item, memory, sizes):
    with sklearn.config_context(working_memory=memory):
        chunks = list(memory_chunks(n, bytes_per_item))
    assert [len(range(n)[chunk]) for chunk in chunks] == sizes
    assert [i for chunk in chunks for i in range(n)[chunk]] == list(range(n))
