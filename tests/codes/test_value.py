"""Codes as one value: what is checked where they come in, and what stays with them on their way."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.frozen import FrozenEstimator

from skhash import EmbeddingHasher, LSHHasher
from skhash.affinity import Relevance
from skhash.codes import Codes, bit_balance, hamming_distances, pack
from skhash.metrics import Ranking, evaluate_ranking, relevance_histogram
from skhash.neighbors import HammingNeighbors
from skhash.persistence import load, save
from skhash.stores import from_parquet, to_parquet

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 6))
NAMES = [f"item {i}" for i in range(120)]


@pytest.fixture(scope="module")
def hasher():
    return LSHHasher(20, random_state=0).fit(X)


@pytest.fixture(scope="module")
def other():
    return LSHHasher(20, random_state=1).fit(X)


def test_a_value_passes_as_it_is_and_keeps_what_belongs_to_it(hasher):
    codes = hasher.codes(X, ids=NAMES)
    assert Codes.of(codes) is codes
    assert_array_equal(codes.rows, hasher.encode(X))
    assert_array_equal(codes.bits(), hasher.transform(X))
    assert (len(codes), codes.nbits, codes.fingerprint, codes.factors) == (120, 20, hasher.fingerprint_, None)
    part = codes[[5, 3]]
    assert (part.ids.tolist(), part.fingerprint) == (["item 5", "item 3"], hasher.fingerprint_)
    assert_array_equal(part.rows, codes.rows[[5, 3]])
    first = codes.first(11)
    assert_array_equal(first.bits(), hasher.transform(X)[:, :11])
    assert (first.fingerprint, first.ids.tolist()) == (None, NAMES)
    again = pickle.loads(pickle.dumps(codes))
    assert_array_equal(again.blocks().rows(), codes.rows)


@pytest.mark.parametrize(
    "groups", [[3, 3, 1, -2, 1], ["b", "b", "a", "", "a"], np.array([2, 2, 0, 1, 0], np.uint8), np.array(list("bbaca"))]
)
def test_groups_stay_with_the_codes(groups):
    codes = Codes.of([[0, 0, 1], [1, 1, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0]], groups=groups, ids=list("vwxyz"))
    expected = np.asarray(groups).tolist()
    assert codes.groups.tolist() == expected
    assert codes.groups.dtype == (object if isinstance(expected[0], str) else np.int64)
    assert repr(codes) == "<Codes: 5 of 3 bits, with ids, groups>"
    for chosen in (slice(1, 4), [4, 0], np.array([True, False, True, False, True])):
        assert codes[chosen].groups.tolist() == np.asarray(groups)[chosen].tolist()
    for same in (Codes.joined([codes[:2], codes[2:]]), codes.first(2), pickle.loads(pickle.dumps(codes))):
        assert same.groups.tolist() == expected
    assert Codes.of(codes) is codes
    assert Codes.of(codes, groups=range(5)).groups.tolist() == [0, 1, 2, 3, 4]
    assert codes.groups.tolist() == expected
    with pytest.raises(ValueError, match="`parts` must all have groups, or none of them"):
        Codes.joined([codes, Codes.of(codes.rows, 3, ids=range(5))])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nbits": 21}, "`nbits` must be None for Codes of 20 bits. Got 21"),
        ({"ids": [1, 2]}, r"`ids` must be ints of shape \(120,\)"),
        ({"ids": [7] * 120}, "`ids` must differ from each other. Got 7 more than once"),
        ({"factors": np.zeros((3, 2))}, r"`factors` must have two numbers per code, shape \(120, 2\)"),
        ({"groups": [0, 1]}, r"`groups` must be ints of shape \(120,\), or text. Got shape \(2,\)"),
        ({"groups": [0.5] * 120}, "`groups` must be ints or text. Got 0.5"),
        ({"groups": [2**63] * 120}, f"`groups` must be at most {2**63 - 1}. Got {2**63} instead. Pass text"),
        ({"fingerprint": "x"}, "`fingerprint` must be None or `fingerprint_` of a hasher"),
        ({"fingerprint": "0" * 16}, "`fingerprint` must be that of the hasher that made the codes"),
    ],
)
def test_what_does_not_belong_to_codes_is_refused(hasher, given, message):
    with pytest.raises(ValueError, match=message):
        Codes.of(hasher.codes(X), **given)


def test_functions_take_codes_in_place_of_an_array(hasher):
    bits, codes, y = hasher.transform(X), hasher.codes(X), rng.integers(0, 3, 120)
    assert_array_equal(hamming_distances(codes, codes), hamming_distances(bits, bits))
    assert_array_equal(bit_balance(codes), bit_balance(bits))
    expected = relevance_histogram(bits, bits, y)
    assert_array_equal(relevance_histogram(codes, codes, y).counts, expected.counts)
    assert_array_equal(relevance_histogram(bits, codes, y).counts, expected.counts)
    values = [evaluate_ranking(Ranking(c, c, Relevance.between(y, y)), ["ap"])["ap"] for c in (bits, codes)]
    assert values[0] == values[1]


def test_codes_of_two_hashers_are_not_compared(hasher, other):
    with pytest.raises(ValueError, match="must be codes of one hasher"):
        relevance_histogram(hasher.codes(X), other.codes(X), np.zeros(120, int))
    with pytest.raises(ValueError, match="must be codes of one hasher"):
        hamming_distances(hasher.codes(X), other.codes(X))
    index = HammingNeighbors().fit(hasher.codes(X))
    for refused in (index.kneighbors, index.add):
        with pytest.raises(ValueError, match=f"fingerprint {hasher.fingerprint_}. Got those of one with"):
            refused(other.codes(X))
    with pytest.raises(ValueError, match="must have the same number of bits"):
        index.kneighbors(hasher.prefix(8).codes(X))


def test_an_index_of_codes_searches_as_one_of_the_hasher_does(hasher, tmp_path):
    codes, queries = hasher.codes(X[20:], ids=NAMES[20:]), X[:20]
    expected = HammingNeighbors(FrozenEstimator(hasher)).fit(X[20:], ids=NAMES[20:])
    index = HammingNeighbors().fit(codes)
    save(index, tmp_path / "index")
    for given in (index, load(tmp_path / "index")):
        assert given.codes_.fingerprint == hasher.fingerprint_
        for asked in (hasher.codes(queries), hasher.transform(queries)):
            for found, right in zip(given.kneighbors(asked), expected.kneighbors(queries), strict=True):
                assert_array_equal(found, right)
    frozen = HammingNeighbors(FrozenEstimator(hasher)).fit(codes)
    assert_array_equal(frozen.kneighbors(queries)[1], expected.kneighbors(queries)[1])
    real = index.with_queries(hasher)
    assert_array_equal(real.kneighbors(queries)[0], expected.set_params(query="real").kneighbors(queries)[0])
    again = HammingNeighbors().fit(index.codes_)
    assert_array_equal(again.kneighbors(hasher.codes(queries))[1], index.kneighbors(hasher.codes(queries))[1])


def test_an_index_of_codes_takes_more_of_them(hasher):
    codes = hasher.codes(X, ids=NAMES)
    index = HammingNeighbors().fit(codes[:70]).add(codes[70:])
    assert index.ids_.tolist() == NAMES
    assert_array_equal(index.codes_.rows, codes.rows)
    with pytest.raises(ValueError, match=r"`ids` must differ from those in the index\. Got .item 3'"):
        index.add(codes[3:4])
    few = HammingNeighbors(nbits=20).fit(codes[:5])
    assert_array_equal(few.kneighbors(codes.rows[:2], 1)[1], [["item 0"], ["item 1"]])


def test_an_index_refuses_codes_that_it_cannot_use(hasher, other):
    codes = hasher.codes(X)
    with pytest.raises(ValueError, match="`hasher` must be None, or a FrozenEstimator"):
        HammingNeighbors(LSHHasher(20)).fit(codes)
    with pytest.raises(ValueError, match="Got those of one with"):
        HammingNeighbors(FrozenEstimator(other)).fit(codes)
    with pytest.raises(ValueError, match=r"must have the same number of bits\. Got 20 and 24"):
        HammingNeighbors(nbits=24).fit(codes)
    with pytest.raises(ValueError, match="at least one code"):
        HammingNeighbors().fit(codes[:0])
    with pytest.raises(ValueError, match="`X` must hold samples with query='real'"):
        HammingNeighbors().fit(codes).with_queries(hasher).kneighbors(codes)


def test_factors_stay_with_their_codes():
    hasher = EmbeddingHasher(40, factors=True, n_epochs=1, random_state=0).fit(X)
    codes = hasher.codes(X)
    assert_array_equal(codes.factors, hasher.encode_factors(X))
    expected = HammingNeighbors(FrozenEstimator(hasher), query="real").fit(X).kneighbors(X[:5])
    index = HammingNeighbors(FrozenEstimator(hasher), query="real").fit(codes[:60]).add(codes[60:])
    for found, right in zip(index.kneighbors(X[:5]), expected, strict=True):
        assert_array_equal(found, right)
    with pytest.raises(ValueError, match="`X` must be Codes with factors"):
        index.add(Codes(codes.rows[:1], 40))


def test_ids_and_fingerprint_go_through_a_store(hasher, other, tmp_path):
    codes = hasher.codes(X, ids=NAMES)
    to_parquet(codes, tmp_path / "codes.parquet")
    found = from_parquet(tmp_path / "codes.parquet")
    assert (found.ids.tolist(), found.fingerprint) == (NAMES, hasher.fingerprint_)
    index = HammingNeighbors().fit(found)
    with pytest.raises(ValueError, match="must be the hasher that made the codes"):
        index.with_queries(other)
    plain = Codes.of(pack(hasher.transform(X)), 20)
    to_parquet(plain, tmp_path / "plain.parquet")
    assert from_parquet(tmp_path / "plain.parquet").ids.tolist() == list(range(120))


def test_parts_are_joined(hasher):
    codes = hasher.codes(X, ids=NAMES)
    whole = Codes.joined([codes[:50], codes[50:]])
    assert_array_equal(whole.rows, codes.rows)
    assert (whole.ids.tolist(), whole.fingerprint) == (NAMES, hasher.fingerprint_)
    assert repr(whole) == "<Codes: 120 of 20 bits, with ids, fingerprint>"
    with pytest.raises(ValueError, match="`ids` must differ from each other"):
        Codes.joined([codes[:5], codes[:5]])
    with pytest.raises(ValueError, match="`parts` must all have ids, or none of them"):
        Codes.joined([codes[:5], hasher.codes(X)])


@pytest.mark.parametrize("codes", [b"ab", [b"ab", b"cd"]])
def test_bytes_are_no_codes(codes):
    with pytest.raises(
        ValueError, match=r"Got bytes instead. Pass numpy.frombuffer\(b\"\".join\(codes\), numpy.uint8\)"
    ):
        Codes.of(codes, 16)
    rows = [b"ab", b"cd"]
    packed = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
    assert Codes.of(packed, 16).rows.tolist() == [[97, 98], [99, 100]]
