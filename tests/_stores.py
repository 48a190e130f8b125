"""Codes for the tests of stores, and what each store must give for them."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.frozen import FrozenEstimator

from skhash import LSHHasher
from skhash.codes import Codes, hamming_distances, pack
from skhash.exceptions import InvalidFileError
from skhash.neighbors import HammingNeighbors, order_shortlist

LENGTHS = (8, 12, 48, 64, 100)
K = 20
#: text identifiers, with what tables of text cut or take for something else
NAMES = ["b", "a", "", "a ", " a", "007", "7", "NA", "None", "\\N", "tab\tand\nline\r\\", "\"'", "ä", "名前", "x" * 99]


def assert_same_names(stored, names=NAMES, *, is_sorted=False):
    """Identifiers are the text that was written, each with its code, which is its place in `names`."""
    expected = [(name, [i]) for i, name in enumerate(names)]
    found = list(zip(stored.ids.tolist(), stored.rows.tolist(), strict=True))
    assert found == (sorted(expected) if is_sorted else expected)
    index = HammingNeighbors(n_neighbors=1, nbits=8).fit(stored)
    assert index.kneighbors(stored.rows)[1][:, 0].tolist() == stored.ids.tolist()


def assert_same_hasher_only(write, read):
    """A store keeps a fingerprint, and refuses another one; `write` and `read` take a name and options."""
    X = np.random.default_rng(0).normal(size=(40, 8))
    hasher, other = (LSHHasher(8, random_state=seed).fit(X) for seed in (0, 1))
    codes, fingerprint = hasher.encode(X), hasher.fingerprint_
    write("with", codes, nbits=8, fingerprint=fingerprint)
    write("without", codes, nbits=8)
    for options in ({}, {"fingerprint": fingerprint}, {"fingerprint": pickle.loads(pickle.dumps(hasher)).fingerprint_}):
        stored = read("with", **options)
        assert stored.fingerprint == fingerprint
        assert_array_equal(stored.rows, codes)
        index = HammingNeighbors().fit(stored)
        assert index.codes_.fingerprint == fingerprint
        assert_array_equal(index.ids_, stored.ids)
        with pytest.raises(ValueError, match=rf"`hasher` must be the hasher that made the codes .* {fingerprint}"):
            index.with_queries(other)
    message = rf"hasher that made the codes in '.*with.*', {fingerprint}\. Got {other.fingerprint_} instead\. Load that"
    with pytest.raises(ValueError, match=rf"`fingerprint` must be that of the {message}") as caught:
        read("with", fingerprint=other.fingerprint_)
    assert not isinstance(caught.value, InvalidFileError)
    assert read("without", fingerprint=other.fingerprint_).fingerprint is None
    for wrong in (hasher, "0", fingerprint.upper() + "0", f"{fingerprint}\n", b"0" * 16):
        for call in (partial(write, "new", codes, nbits=8), partial(read, "with")):
            with pytest.raises(ValueError, match=r"`fingerprint` must be None or `fingerprint_` of a hasher"):
                call(fingerprint=wrong)


def assert_takes_more(write, read, default="fail"):
    """A store takes more codes, and refuses what it has already or what is not like its codes."""
    rng = np.random.default_rng(0)
    first, second = (Codes.of(rng.integers(0, 2, (n, 12)), fingerprint="0" * 16) for n in (5, 4))
    first, second = Codes.of(first, ids=[3, 1, -9, 7, 2**62]), Codes.of(second, ids=[30, 10, 90, 70])

    def assert_holds(*parts):
        stored, rows = read(), {}
        for part in parts:
            rows |= dict(zip(part.ids.tolist(), part.rows.tolist(), strict=True))
        assert dict(zip(stored.ids.tolist(), stored.rows.tolist(), strict=True)) == rows
        assert len(stored) == len(rows)
        assert stored.fingerprint == parts[0].fingerprint

    write(first, if_exists="append")  # there is none yet
    assert_holds(first)
    write(second, if_exists="append")
    assert_holds(first, second)
    new = [1000, 1001, 1002, 1003]
    refused = {
        r'exists. Pass if_exists="append" to add the codes, or if_exists="replace"': (second, {"if_exists": "fail"}),
        r"`ids` must not be in '.*codes.*' yet. Got 90, which is": (
            Codes.of(second, ids=[*new[:3], 90]),
            {"if_exists": "append"},
        ),
        r"`codes` must have (12|16) bits, as those in '.*codes.*'. Got 32 instead": (
            Codes.of(rng.integers(0, 2, (4, 32)), ids=new),
            {"if_exists": "append"},
        ),
        r"`fingerprint` must be that of the hasher that made the codes in '.*codes.*', 0000000000000000. Got 1": (
            Codes(second.rows, 12, np.array(new), fingerprint="1" * 16),
            {"if_exists": "append"},
        ),
        r"`ids` must be ints, as those in '.*codes.*'. Got text": (
            Codes.of(second, ids=[*"abcd"]),
            {"if_exists": "append"},
        ),
        r"`if_exists` must be one of 'fail', 'replace', 'append'. Got 'apend'": (second, {"if_exists": "apend"}),
    }
    for message, (codes, options) in refused.items():
        with pytest.raises(ValueError, match=message):
            write(codes, **options)
        assert_holds(first, second)
    plain = Codes(second.rows, 12, np.array(new))  # arrays have no fingerprint
    write(plain, if_exists="append")
    assert_holds(first, second, plain)
    write(plain, if_exists="replace")
    assert_holds(plain)
    write(first, if_exists="append")  # all of its codes together are of no known hasher
    assert_holds(plain, first)
    names = Codes.of(second, ids=["a", "7", "", "ä"])
    write(names, if_exists="replace")
    assert_holds(names)
    write(Codes.of(second, ids=["b", "70", " ", "ö"]), if_exists="append")
    with pytest.raises(ValueError, match=r"`ids` must not be in '.*codes.*' yet. Got 'ö', which is. Delete that item"):
        write(Codes.of(second, ids=["c", "ö", "d", "e"]), if_exists="append")
    assert len(read()) == 8
    if default == "fail":
        with pytest.raises(ValueError, match=r"exists\."):
            write(first)
    else:
        write(first)
        assert_holds(first)


def codes_of_names(names=NAMES):
    """Packed codes of 8 bits, different ones."""
    return np.arange(len(names), dtype=np.uint8)[:, None]


class Items:
    """Codes of some length with shuffled identifiers, and queries; the first query is an item."""

    def __init__(self, nbits, n=400, n_queries=7):
        rng = np.random.default_rng(nbits)
        self.nbits = nbits
        self.bits = rng.integers(0, 2, (n, nbits), dtype=np.uint8)
        self.packed = pack(self.bits)
        self.ids = rng.permutation(10 * n)[:n]
        self.query_bits = np.vstack([self.bits[:1], rng.integers(0, 2, (n_queries - 1, nbits), dtype=np.uint8)])
        self.queries = pack(self.query_bits)

    def assert_same_neighbors(self, distances, ids):
        """K items for each query, all different, at the distances that are given, which are those of ours."""
        expected, _ = HammingNeighbors().fit(self.bits).kneighbors(self.query_bits, K)
        assert_array_equal(distances, expected)
        position = {item: i for i, item in enumerate(self.ids.tolist())}
        positions = np.array([[position[item] for item in line] for line in np.asarray(ids).tolist()])
        true = hamming_distances(self.query_bits, self.bits)
        assert_array_equal(np.take_along_axis(true, positions, axis=1), expected)
        assert all(len(set(line)) == K for line in positions.tolist())

    def assert_same_codes(self, stored, *, is_sorted=False):
        """What was read is what was written."""
        order = np.argsort(self.ids) if is_sorted else slice(None)
        assert stored.nbits == self.nbits
        assert_array_equal(stored.rows, self.packed[order])
        assert_array_equal(stored.ids, self.ids[order])
        assert (stored.rows.dtype, stored.ids.dtype) == (np.uint8, np.int64)


class Shortlists:
    """Items and queries of a hasher of 48 bits, and the order that the shortlist of a store must get."""

    nbits = 48

    def __init__(self):
        rng = np.random.default_rng(0)
        distinct = rng.normal(size=(150, 6))
        self.vectors, self.queries = np.vstack([distinct, distinct[::-1]]), rng.normal(size=(5, 6))  # each item twice
        self.ids = 7 + 3 * np.arange(len(self.vectors))
        self.hasher = LSHHasher(self.nbits, random_state=0).fit(self.vectors)
        self.packed, self.packed_queries = self.hasher.encode(self.vectors), self.hasher.encode(self.queries)

    def assert_put_in_order(self, ids, codes, *, is_sorted=True):
        """The K items that a store returned for each query are ordered as by `HammingNeighbors(query="real")`.

        With ``is_sorted=False`` the store takes any of the items that tie at the last place.
        """
        distances, ordered = order_shortlist(self.queries, ids, codes=codes, hasher=self.hasher)
        assert distances.shape == ordered.shape == (len(self.queries), K)
        frozen = FrozenEstimator(self.hasher)
        if is_sorted:
            index = HammingNeighbors(frozen, query="real", candidates=K).fit(self.vectors, ids=self.ids)
            for found, expected in zip((distances, ordered), index.kneighbors(self.queries, K), strict=True):
                assert_array_equal(found, expected)
        for query, shortlist in enumerate(ids):
            is_listed = np.isin(self.ids, np.asarray(shortlist).astype(np.int64))
            same = HammingNeighbors(frozen, query="real").fit(self.vectors[is_listed], ids=self.ids[is_listed])
            expected = same.kneighbors(self.queries[query : query + 1], K)
            assert_array_equal(distances[query], expected[0][0])
            assert_array_equal(ordered[query], expected[1][0])
