"""The order of a shortlist is that of `HammingNeighbors` on the same items, whatever way the shortlist comes."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import EmbeddingHasher, ITQHasher, LSHHasher
from skhash.codes import unpack
from skhash.neighbors import HammingNeighbors, order_shortlist
from skhash.trec import write_run

NBITS = 12
RNG = np.random.default_rng(0)
DISTINCT = RNG.normal(size=(60, 8))
ITEMS, QUERIES = np.vstack([DISTINCT, DISTINCT[::-1]]), RNG.normal(size=(9, 8))  # each item twice, so that items tie
LISTS = [RNG.permutation(len(ITEMS))[: RNG.integers(1, 50)] for _ in QUERIES]
LISTS[4] = LISTS[4][:0]
LONGEST = max(map(len, LISTS))
LSH = LSHHasher(NBITS, random_state=0).fit(ITEMS)
CODES = LSH.encode(ITEMS)


def assert_ordered_as(index, found, lists=LISTS):
    """Each list is in the order in which an index of all items ranks them, and then there is no item."""
    distances, ids = found
    assert distances.shape == ids.shape == (len(lists), max(map(len, lists)))
    assert (distances.dtype, ids.dtype) == (np.float64, np.int64)
    of_all = index.kneighbors(QUERIES, len(ITEMS))
    for query, shortlist in enumerate(lists):
        is_listed, n = np.isin(of_all[1][query], shortlist), len(shortlist)
        assert_array_equal(ids[query, :n], of_all[1][query, is_listed])
        assert_array_equal(distances[query, :n], of_all[0][query, is_listed])
        assert (ids[query, n:] == -1).all()
        assert (distances[query, n:] == np.inf).all()


def real(hasher):
    return HammingNeighbors(FrozenEstimator(hasher), query="real").fit(ITEMS)


@pytest.mark.parametrize(
    "hasher",
    [LSH, ITQHasher(5, random_state=0).fit(ITEMS), make_pipeline(StandardScaler(), LSHHasher(20)).fit(ITEMS)],
    ids=["LSH", "ITQ", "Pipeline"],
)
def test_real_queries(hasher):
    index = real(hasher)
    codes = index.codes_.rows
    assert_ordered_as(index, order_shortlist(QUERIES, LISTS, codes=[codes[i] for i in LISTS], hasher=hasher))


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner"])
def test_factors(metric):
    hasher = EmbeddingHasher(NBITS, metric=metric, factors=True, n_epochs=1, random_state=0).fit(ITEMS)
    codes, factors, index = hasher.encode(ITEMS), hasher.encode_factors(ITEMS), real(hasher)
    arguments = {"codes": [codes[i] for i in LISTS], "hasher": hasher}
    of_items = [factors[i] for i in LISTS]
    assert_ordered_as(index, order_shortlist(QUERIES, LISTS, factors=of_items, **arguments))
    index._items = replace(index._items, factors=None)
    assert_ordered_as(index, order_shortlist(QUERIES, LISTS, **arguments))


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner"])
def test_vectors(metric):
    index = HammingNeighbors(FrozenEstimator(LSH), rerank=metric).fit(ITEMS)
    assert_ordered_as(index, order_shortlist(QUERIES, LISTS, vectors=[ITEMS[i] for i in LISTS], metric=metric))


@pytest.mark.parametrize(
    "form",
    [
        lambda packed: packed.astype(np.int64),
        lambda packed: packed.tolist(),
        lambda packed: unpack(packed, NBITS),
        lambda packed: [code.tobytes() for code in packed],
        lambda packed: np.array(["".join(map(str, bits)) for bits in unpack(packed, NBITS).tolist()]),
    ],
    ids=["int64", "lists", "bits", "bytes", "text"],
)
def test_forms_of_codes(form):
    lists = [i.tolist() for i in LISTS]
    assert_ordered_as(real(LSH), order_shortlist(QUERIES, lists, codes=[form(CODES[i]) for i in LISTS], hasher=LSH))


def test_no_item_as_in_faiss():
    ids = np.full((len(QUERIES), LONGEST + 2), -1)
    for query, shortlist in enumerate(LISTS):
        ids[query, query % 3 : query % 3 + len(shortlist)] = shortlist
    assert_ordered_as(real(LSH), order_shortlist(QUERIES, ids, codes=CODES[ids], hasher=LSH))
    by_vectors = order_shortlist(QUERIES, ids, vectors=np.where(ids[..., None] < 0, np.nan, ITEMS[ids]), metric="inner")
    assert_ordered_as(HammingNeighbors(FrozenEstimator(LSH), rerank="inner").fit(ITEMS), by_vectors)


def named(form):
    """The lists with each position in another form."""
    return [form(i) for i in LISTS]


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        (lambda i: i - 60, np.int64),
        (lambda i: i.astype(np.uint64) + np.uint64(2**63), np.uint64),
        (lambda i: [f"item {j:03}" for j in i], object),
        (lambda i: np.array([f"item {j:03}" for j in i], object), object),
        (lambda i: np.array([f"item {j:03}" for j in i], "U"), object),
    ],
    ids=["negative", "uint64", "lists of text", "objects", "text"],
)
def test_identifiers_of_any_kind(form, dtype):
    more = {"codes": [CODES[i] for i in LISTS], "hasher": LSH}
    expected, positions = order_shortlist(QUERIES, LISTS, **more)
    distances, ids = order_shortlist(QUERIES, named(form), **more)
    assert_array_equal(distances, expected)
    assert ids.dtype == dtype
    is_empty = np.isinf(distances)
    assert_array_equal(np.asarray(ids[~is_empty]), np.array(form(positions[~is_empty]), dtype))
    if dtype == np.int64:
        assert (ids[is_empty] == -1).all()  # those of items are at finite distances
    else:
        assert_array_equal(np.ma.getmaskarray(ids), is_empty)


def test_a_mask_says_which_places_are_empty():
    rng = np.random.default_rng(1)
    ids = np.array([rng.permutation(len(ITEMS))[:30] for _ in QUERIES]) - 1  # item -1 is one of them
    is_empty = rng.random(ids.shape) < 0.3
    lists, positions = [row[~empty] + 1 for row, empty in zip(ids, is_empty, strict=True)], ids + 1
    expected = order_shortlist(QUERIES, lists, codes=[CODES[i] for i in lists], hasher=LSH)
    vectors = np.where(is_empty[..., None], np.nan, ITEMS[positions])
    others = np.array([[None if empty else code.tobytes() for code, empty in zip(CODES[row], mask, strict=True)]
                       for row, mask in zip(positions, is_empty, strict=True)], object)  # fmt: skip
    for found in (
        order_shortlist(QUERIES, ids, missing=is_empty, codes=CODES[positions], hasher=LSH),
        order_shortlist(QUERIES, ids.tolist(), missing=is_empty.tolist(), codes=others, hasher=LSH),
        order_shortlist(QUERIES, np.ma.array(ids, mask=is_empty), codes=CODES[positions], hasher=LSH),
    ):
        assert_array_equal(found[0], expected[0])
        assert_array_equal(found[1], np.where(np.isinf(expected[0]), -1, expected[1] - 1))
    by_vectors = order_shortlist(QUERIES, ids, missing=is_empty, vectors=vectors, metric="euclidean")
    assert np.isfinite(by_vectors[0]).sum() == (~is_empty).sum()


def test_what_is_ordered_is_written(tmp_path):
    for form in (
        lambda i: i - 60,
        lambda i: [f"item-{j}" for j in i],
        lambda i: i.astype(np.uint64) + np.uint64(2**63),
    ):
        found = order_shortlist(QUERIES, named(form), codes=[CODES[i] for i in LISTS], hasher=LSH)
        write_run(tmp_path / "run", *found)
        lines = [line.split() for line in (tmp_path / "run").read_text().splitlines()]
        written = [[fields[2] for fields in lines if fields[0] == str(query)] for query in range(len(QUERIES))]
        assert [sorted(row) for row in written] == [sorted(map(str, row)) for row in named(form)]


@pytest.mark.parametrize("ids", [[[], []], [[-1], []], np.empty((2, 0)), np.full((2, 3), -1)])
def test_no_items_at_all(ids):
    distances, ordered = order_shortlist(QUERIES[:2], ids, codes=[CODES[: len(i)] for i in ids], hasher=LSH)
    assert (distances.shape, ordered.shape, ordered.dtype) == ((2, 0), (2, 0), np.int64)


def test_equal_vectors_have_equal_distances():
    vectors = np.repeat(RNG.normal(size=(1, 37)), 23, axis=0)  # a matrix product rounds some rows differently
    ids = RNG.permutation(23)[None]
    for metric in ("cosine", "euclidean", "inner"):
        assert_array_equal(order_shortlist(vectors[:1] + 1, ids, vectors=[vectors], metric=metric)[1], [np.arange(23)])


TWO, PAIR = QUERIES[:2], [[3, 4], [5, 6]]
GOOD = {"codes": CODES[PAIR], "hasher": LSH}
TEXTS = [["0" * 12, "0" * 12], ["0" * 12, "0" * 11]]


@pytest.mark.parametrize(
    ("ids", "more", "message"),
    [
        (PAIR, {}, r"Either `codes` or `vectors` must be given\. Got neither instead\."),
        (PAIR, GOOD | {"vectors": ITEMS[PAIR]}, r"Either `codes` or `vectors` must be given\. Got both instead\."),
        (PAIR, GOOD | {"hasher": None}, r"`hasher` must be given with `codes`, for the real queries\. Got None\."),
        (PAIR, GOOD | {"hasher": StandardScaler()}, r"`hasher` must be a hasher of skhash, .* Got a StandardScaler"),
        (PAIR, GOOD | {"factors": np.ones((2, 2, 2))}, r"`factors` must be None for a hasher without factors\."),
        (
            PAIR,
            {"vectors": ITEMS[PAIR]},
            r"`metric` must be one of 'euclidean', 'cosine', 'inner'\. Got None instead\.",
        ),
        (
            PAIR,
            {"vectors": ITEMS[PAIR], "metric": "l2"},
            r"`metric` must be one of 'euclidean', 'cosine', 'inner'\. Got 'l2' instead\.",
        ),
        (PAIR, {"vectors": ITEMS[PAIR, :7], "metric": "inner"}, r"`vectors` must have 8 numbers for each item\."),
        (PAIR, {"vectors": ITEMS[PAIR] * np.nan, "metric": "inner"}, r"`queries` and `vectors` must be finite\."),
        ([3, 4], GOOD, r"`ids` must have a list of items for each of the 2 queries\. .* pass \[ids\]\."),
        (PAIR[:1], GOOD, r"`ids` must have a list of items for each of the 2 queries\. Got 1 rows instead\."),
        ([["a", "b"], ["c", 4]], GOOD, r"`ids` must be all ints or all text\. Got both\. Pass text"),
        ([["a", "b"], [3, 4]], GOOD, r"`ids` must be all ints or all text\. Got both\. Pass text"),
        ([["a", "b"], ["c", None]], GOOD, r"`ids` must be ints or text\. Got None instead\. Give each one"),
        ([[3.0, 4.0], [5.0, 6.0]], GOOD, r"`ids` must be ints or text\. Got 3.0 instead\. Pass whole numbers"),
        ([[[3], [4]], [[5], [6]]], GOOD, r"`ids` must be a list of ints or text for each query"),
        ([[3, -1], [5, 6]], GOOD, r"`missing` must be given for ids with -1, which may be an item or an empty place"),
        ([[-1, -1], [5, -6]], GOOD, r"`missing` must be given for ids with -1, which may be an item or an empty place"),
        (PAIR, GOOD | {"missing": [[0, 1], [0, 0]]}, r"`missing` must be None or a mask of bools .* Got int64"),
        (PAIR, GOOD | {"missing": [[True], [True]]}, r"`missing` must have as many items as `ids` for each query"),
        (
            PAIR,
            GOOD | {"codes": CODES[:2]},
            r"`codes` must have equally many numbers for each item\. Got items of the shapes \(\)",
        ),
        (PAIR, GOOD | {"codes": CODES[[[3], [5]]]}, r"`codes` must have as many items as `ids` .* 1 and 2 for query 0"),
        (PAIR, GOOD | {"codes": CODES[PAIR][..., :1]}, r"`codes` must hold packed codes of 12 bits, .* \(4, 1\)"),
        (PAIR, GOOD | {"codes": CODES[PAIR].view(np.int8)}, r"`codes` must hold packed codes of 12 bits, .* int8"),
        (PAIR, GOOD | {"codes": TEXTS}, r"`codes` must have one length\. Got the lengths \[11, 12\] instead\."),
    ],
)
def test_refusals(ids, more, message):
    with pytest.raises(ValueError, match=message):
        order_shortlist(TWO, ids, **more)


def test_one_query_is_a_row():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        order_shortlist(QUERIES[0], PAIR, **GOOD)
