"""Compiled distances of queries of several vectors from groups of codes: sums of distances to the nearest member.

The members of 64 groups lie side by side: block t of a batch has member t of each group. So the least distance of a
vector, and the sum over the vectors, are vector instructions for 64 groups, and no lane is compared with another. A
group with fewer members than the largest one of its batch repeats its last one, which changes no minimum. Groups are in
the order of their sizes, so that few are repeated. A group that is much larger than the next ones fills blocks of its
own, whose lanes are compared in the end.
"""

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from skhash._compiler import kernel
from skhash.codes.blocks import LANES
from skhash.codes.hamming_kernels import sums_of_lanes
from skhash.codes.vector_instructions import BYTE, WORD, address, load, store

TILE = 2**14  # bytes of blocks that are compared with one vector after the other, from the first-level cache
_DTYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32}


def _least_distances(typingctx, width, blocks, n_blocks, query, n_bytes, least):
    """Lower the least distances of 64 lanes by those of some blocks from a vector, whose bytes fill 64 lanes each."""

    def codegen(context, builder, signature, args):
        _, blocks, n_blocks, query, n_bytes, least = args
        few, size = ir.VectorType(BYTE, LANES), builder.mul(n_bytes, WORD(LANES))
        sums = ir.VectorType(ir.IntType(width.literal_value), LANES)
        lowest = cgutils.alloca_once_value(builder, load(builder, sums, least))

        def byte_of_query(byte):
            return load(builder, few, builder.add(query, builder.mul(byte, WORD(LANES))))

        with cgutils.for_range(builder, n_blocks, intp=WORD) as loop:
            block = builder.add(blocks, builder.mul(loop.index, size))
            found = sums_of_lanes(builder, width.literal_value, block, n_bytes, byte_of_query)
            before = builder.load(lowest)
            builder.store(builder.select(builder.icmp_unsigned("<", found, before), found, before), lowest)
        store(builder, builder.load(lowest), least)
        return context.get_dummy_value()

    kinds = types.uint64, types.int64, types.uint64, types.int64, types.uint64
    return types.void(width, *kinds), codegen


least_distances: Any = intrinsic(prefer_literal=True)(_least_distances)


@kernel
def fill_batches(sizes, by_size, batches):
    """Divide groups, of descending sizes, into batches of 64 or of one, of the fewest blocks.

    A batch is the first of its groups, the number of groups and the number of blocks. Returns how many there are.
    """
    n = len(by_size)
    fewest = np.zeros(n + 1, np.int64)  # blocks of the groups from one on
    for i in range(n - 1, -1, -1):
        size = sizes[by_size[i]]
        fewest[i] = min(size + fewest[min(i + LANES, n)], (size + LANES - 1) // LANES + 1 + fewest[i + 1])
    i, n_batches = 0, 0
    while i < n:
        size = sizes[by_size[i]]
        together = size + fewest[min(i + LANES, n)] == fewest[i]
        n_groups = min(LANES, n - i) if together else 1
        batches[n_batches, 0], batches[n_batches, 1] = i, n_groups
        batches[n_batches, 2] = size if together else (size + LANES - 1) // LANES
        n_batches += 1
        i += n_groups
    return n_batches


@kernel
def fill_members(group, starts, members):
    """Write the numbers of the items in the order of their groups; `starts` are changed."""
    for i in range(len(group)):
        members[starts[group[i]]] = i
        starts[group[i]] += 1


@kernel
def copy_members(rows, members, bounds, by_size, batches, first_blocks, blocks):
    """Copy the codes of the members of each group, which `bounds` divides, into the blocks of its batch."""
    n_bytes = rows.shape[1]
    for b in range(len(batches)):
        first, n_groups, n_blocks = batches[b]
        is_alone = n_groups == 1
        for t in range(n_blocks):
            for lane in range(LANES):
                g = by_size[first + min(lane, n_groups - 1)]
                member = LANES * t + lane if is_alone else t
                row = members[min(bounds[g] + member, bounds[g + 1] - 1)]
                for byte in range(n_bytes):
                    blocks[first_blocks[b] + t, byte, lane] = rows[row, byte]


@cache
def sums_to_groups(width: int) -> Any:
    """Kernel that writes the sums of the queries to the groups of some batches, for distances of so many bits."""
    dtype: Any = _DTYPES[width]

    def sums(vectors, bounds, blocks, by_size, batches, first_blocks, found):
        n_vectors, n_bytes = vectors.shape[:2]
        tile, largest = max(1, TILE // (n_bytes * LANES)), ~dtype(0)
        least, total = np.empty((n_vectors, LANES), dtype), np.empty(LANES, np.int64)
        for b in range(len(batches)):
            first, n_groups, n_blocks = batches[b]
            least[:] = largest
            for start in range(0, n_blocks, tile):
                size = min(tile, n_blocks - start)
                here = address(blocks) + np.uint64((first_blocks[b] + start) * n_bytes * LANES)
                for v in range(n_vectors):
                    vector, own = np.uint64(v * n_bytes * LANES), np.uint64(v * LANES * least.itemsize)
                    least_distances(width, here, size, address(vectors) + vector, n_bytes, address(least) + own)
            for q in range(len(found)):
                total[:] = 0
                for v in range(bounds[q], bounds[q + 1]):
                    if n_groups == 1:
                        nearest = least[v, 0]
                        for lane in range(LANES):
                            nearest = min(nearest, least[v, lane])
                        total[0] += nearest
                    else:
                        for lane in range(LANES):
                            total[lane] += least[v, lane]
                for lane in range(n_groups):
                    found[q, by_size[first + lane]] = total[lane]

    return kernel(sums)
