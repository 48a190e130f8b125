"""Counts of items by distance and level, from the kernels or by sorting.

Equal codes are merged where this is faster, and queries are taken in chunks, so that memory
stays bounded for a database of any size. `benchmarks/histogram.py` times these choices.
"""

import numpy as np

from skhash._chunks import memory_chunks
from skhash._distances import HammingDistance, item_words, real_distance, without_self
from skhash._threads import run_in_slices
from skhash._views import read_only
from skhash.codes import as_words, hamming_distances, quantize_weights
from skhash.metrics._histograms import ragged_histogram
from skhash.metrics.histogram import RelevanceHistogram

MANY = 100  # queries from which sorting the database is faster
LEVEL_BITS = 10  # bits of the level in the 64-bit key of an item; 53 are the distance
LONG = 64  # items per group from which a scan group by group is faster
SHORT_ITEMS, SHORT_PAIRS = 2**13, 2**23  # items and pairs from which tables of short codes are faster than a scan
SHORT_QUERIES = 1024  # fewest queries of a thread, which has its own tables
PAIRED_ITEMS = 2**13  # items per level and word from which distances are counted in pairs


def count_plain(queries, database, nbits, pairs):
    """Dense histograms of successive chunks of queries by Hamming distances, from packed codes."""
    codes, group, multiplicity = _merge_equal(as_words(database), pairs.database_group, len(queries))
    is_merged, query_words = len(group) < len(database), item_words(queries)
    is_grouped = len(queries) >= MANY and len(group) >= LONG * pairs.n_groups
    codes, groups = _by_group(codes, group, pairs.n_groups) if is_grouped else (codes, group.astype(np.uint32))
    for chunk in memory_chunks(len(queries), 24 * pairs.n_groups + 64 * (nbits + 1)):
        table, query_group, levels = pairs.table(chunk)
        words, places = query_words[chunk], query_group
        kernel, min_size = _kernel(codes.shape, is_grouped, is_merged, len(words), nbits, len(levels))
        is_sorted = is_merged or min_size > 1  # tables of short codes are faster for sorted queries
        if is_sorted:  # distinct queries, in the order of their groups
            first, repeats = _distinct_queries(words, places)
            words, places = words[first], places[first]
        counts = np.zeros((len(places), nbits + 1, len(levels)), dtype=np.int64)
        run_in_slices(
            lambda part, kernel=kernel, words=words, table=table, places=places, counts=counts: kernel(
                words[part], codes, multiplicity, groups, table, places[part], counts[part]
            ),
            len(words),
            min_size=min_size,
        )
        if is_sorted:
            counts = counts[repeats]
        if pairs.exclude_self:
            own = table[query_group, pairs.database_group[chunk]]
            distance = np.bitwise_count(queries[chunk] ^ database[chunk]).sum(axis=1, dtype=np.int64)
            counts[np.arange(len(own)), distance, own] -= 1
        yield RelevanceHistogram(counts, levels)


def _by_group(codes, group, n_groups):
    """Codes in the order of their groups, and the bounds of the groups, of shape (n_groups + 1,)."""
    from skhash.metrics._histogram_kernels import order_by_group

    bounds = np.append(0, np.cumsum(np.bincount(group, minlength=n_groups)))
    if (group[1:] >= group[:-1]).all():  # one target, or already sorted by the merge
        return codes, bounds
    ordered = np.empty_like(codes)
    order_by_group(codes, group, bounds[:-1].copy(), ordered)
    return ordered, bounds


def _kernel(shape, is_grouped, is_merged, n_queries, nbits, n_levels):
    """Fastest kernel for codes of a shape, and the smallest number of queries that a thread takes."""
    from skhash.metrics import _histogram_kernels as kernels
    from skhash.metrics._short_kernels import MAX_BITS, short_histogram

    n_words, n_items = shape
    if not is_grouped:
        return kernels.hamming_histogram, 1
    if nbits <= MAX_BITS and n_items >= SHORT_ITEMS and n_queries * n_items >= SHORT_PAIRS:
        return short_histogram, SHORT_QUERIES
    if not is_merged and nbits < kernels.BYTE and n_items >= PAIRED_ITEMS * n_levels * n_words:
        return kernels.paired_histogram, 1
    return (kernels.grouped_words if n_words == 1 else kernels.grouped_histogram), 1


def count_weighted(queries, database, bit_weights, nbits, pairs):
    """Ragged histograms of successive chunks of queries by weighted Hamming distances."""
    weights, unit = quantize_weights(bit_weights, nbits)
    for chunk in memory_chunks(len(queries), 64 * len(database)):
        table, query_group, levels = pairs.table(chunk)
        if len(levels) <= 1 << LEVEL_BITS:
            yield _count_keys(queries, database, weights, unit, chunk, (table, query_group, levels), pairs)
        else:
            distances = hamming_distances(queries[chunk], database, bit_weights=bit_weights, nbits=nbits)
            yield count_ragged(distances, chunk, pairs)


def _count_keys(queries, database, weights, unit, chunk, levels_of_pairs, pairs):
    """Ragged histogram of a slice of queries; an item is one integer of distance and level, and these are sorted."""
    from skhash._kernels import byte_table, count_ties, distance_keys, fill_ties

    table, query_group, levels = levels_of_pairs
    n_queries, shift = len(query_group), (len(levels) - 1).bit_length()
    own = np.arange(chunk.start, chunk.stop) if pairs.exclude_self else np.full(n_queries, -1)
    keys = np.empty((n_queries, len(database) - pairs.exclude_self), dtype=np.int64)
    n_ties, bytes_of = np.empty(n_queries, dtype=np.int64), byte_table(weights)

    items = read_only(database)

    def rank(part):
        codes = read_only(queries[chunk][part])
        group = pairs.database_group
        distance_keys(codes, items, bytes_of, own[part], group, table, query_group[part], shift, keys[part])
        keys[part].sort(axis=1)
        count_ties(keys[part], shift, n_ties[part])

    run_in_slices(rank, n_queries)
    indptr = np.concatenate([[0], np.cumsum(n_ties)])
    small = len(database) <= np.iinfo(np.int32).max
    counts = np.zeros((indptr[-1], len(levels)), dtype=np.int32 if small else np.int64)
    distances = np.empty(indptr[-1])
    run_in_slices(lambda part: fill_ties(keys[part], shift, unit, indptr[part], counts, distances), n_queries)
    return RelevanceHistogram(counts, levels, distances, indptr)


def count_real(queries, database, activations, candidates, pairs, estimates=None):
    """Ragged histograms of successive chunks of queries, ranked by real queries of shape (n_queries, nbits).

    Real queries order the first `candidates` items by Hamming distance; the other items follow by Hamming distance.
    """
    items, by_code = item_words(database), HammingDistance(item_words(queries))
    real = real_distance(activations, estimates)
    n_items, everything = len(items), np.arange(len(items))[None]
    n_first = n_items if candidates is None else candidates + pairs.exclude_self  # one more, since a query finds itself
    for chunk in memory_chunks(len(queries), 64 * n_items):
        n_queries = len(queries[chunk])
        distances = np.empty((n_queries, n_items))

        def rank(part, chunk=chunk, distances=distances):
            some = slice(chunk.start + part.start, chunk.start + part.stop)
            if n_first >= n_items:
                distances[part] = real.to_items(some, items, everything) * real.units[some]
                return
            nearest = by_code.nearest(some, items, 0, n_items, n_first)
            shortlist = (without_self(nearest, some.start) if pairs.exclude_self else nearest).indices
            first = real.to_items(some, items, shortlist)
            rest = 2.0 + by_code.to_items(some, items, everything)  # after the largest distance of a real query
            distances[part] = rest * np.abs(first).max(axis=1, keepdims=True).clip(1)
            np.put_along_axis(distances[part], shortlist, first.astype(float), axis=1)

        run_in_slices(rank, n_queries)
        yield count_ragged(distances, chunk, pairs)


def count_ragged(distances, queries, pairs):
    """Ragged histogram of a slice of queries by their distances, of shape (n_queries, n_items)."""
    table, query_group, levels = pairs.table(queries)
    if pairs.exclude_self:
        distances = distances.copy()
        distances[np.arange(len(distances)), np.arange(queries.start, queries.stop)] = np.inf
    return ragged_histogram(distances, table[query_group][:, pairs.database_group], levels)


def _merge_equal(words, group, n_queries):
    """Codes, groups and multiplicities, with items of equal code and target merged if this halves the scan."""
    n_items = words.shape[1]
    unmerged = words, group, np.ones(n_items, dtype=np.int64)
    sample = slice(None, None, -(-n_items // 16_384))  # a sample of the items
    if n_queries < MANY or _share_of_distinct(_keys(words[:, sample], group[sample])[0]) > 0.97:
        return unmerged
    keys, code_bits = _keys(words, group)
    if code_bits is None:
        if _share_of_distinct(keys) > 0.5:
            return unmerged
        order = np.lexsort((*words, group))
        rows = np.vstack([words, group.astype(np.uint64)])[:, order]
    else:
        keys.sort()
        rows = keys[None]
    begins = np.flatnonzero(np.append(True, (rows[:, 1:] != rows[:, :-1]).any(axis=0)))
    if len(begins) > n_items / 2:
        return unmerged
    rows = rows[:, begins]
    if code_bits is not None:
        rows = np.vstack([rows & np.uint64(2**code_bits - 1), rows >> np.uint64(code_bits)])
    return np.ascontiguousarray(rows[:-1]), rows[-1].astype(np.int64), np.diff(begins, append=n_items)


def _distinct_queries(words, group):
    """Indices of the queries with distinct code and target, and for each query the index of its equal among them."""
    keys, code_bits = _keys(words.T, group)
    everything = np.arange(len(group))
    if code_bits is None:
        return everything, everything
    return np.unique(keys, return_index=True, return_inverse=True)[1:]


def _keys(words, group):
    """Integer of each pair of code and group, and its number of bits of the code; keys ascend with group and code.

    If these do not fit into 64 bits, the integers are hashes, and the number is None.
    """
    code_bits, group_bits = int(words[0].max()).bit_length(), int(group.max()).bit_length()
    if len(words) == 1 and code_bits + group_bits < 64:
        dtype = np.uint32 if code_bits + group_bits <= 32 else np.uint64  # smaller integers are sorted in half the time
        return (group.astype(dtype) << dtype(code_bits)) | words[0].astype(dtype), code_bits
    key = group.astype(np.uint64)
    for row in words:
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + row
    return key, None


def _share_of_distinct(keys):
    """Share of distinct integers, which are sorted in place."""
    keys.sort()
    return (1 + np.count_nonzero(keys[1:] != keys[:-1])) / len(keys)
