import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skhash.codes import Codes, binarize, bit_balance, bit_correlation, hamming_distances, pack, unpack
from skhash.codes.bits import quantize_weights

BITS = [1, 7, 8, 12, 64, 65, 130]
every_length = pytest.mark.parametrize("nbits", BITS)


def random_codes(n, nbits, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (n, nbits))


def test_the_threshold_is_at_zero_and_zero_is_one():
    bits = binarize([[-1e-300, -0.0, 0.0, 1e-300]])
    assert (bits.tolist(), bits.dtype) == ([[0, 1, 1, 1]], np.uint8)


@every_length
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32])
def test_packing_is_that_of_numpy_and_unpacking_its_inverse(nbits, dtype):
    codes = random_codes(5, nbits).astype(dtype)
    packed = pack(codes)
    assert_array_equal(packed, np.packbits(codes.astype(bool), axis=1))
    assert_array_equal(unpack(packed, nbits), codes)
    for given_codes in (codes, packed):
        again = Codes.of(given_codes, nbits)
        assert again.nbits == nbits
        assert_array_equal(again.rows, packed)


@every_length
def test_words_hold_all_bits(nbits):
    codes = random_codes(6, nbits)
    words = Codes.of(codes).words()
    assert words.shape == (6, -(-nbits // 64))
    assert_array_equal(np.bitwise_count(words).sum(axis=1), codes.sum(axis=1))


@every_length
@pytest.mark.parametrize("packed", [False, True])
def test_distances_count_the_differing_bits(nbits, packed):
    a, b = random_codes(4, nbits), random_codes(6, nbits, seed=1)
    expected = (a[:, None] != b[None]).sum(axis=2)
    distances = hamming_distances(pack(a), pack(b), nbits=nbits) if packed else hamming_distances(a, b)
    assert (distances.shape, distances.dtype) == ((4, 6), np.int64)
    assert_array_equal(distances, expected)


@every_length
def test_weighted_distances_sum_the_weights_of_the_differing_bits(nbits):
    a, b = random_codes(4, nbits), random_codes(6, nbits, seed=1)
    weights = np.random.default_rng(2).exponential(size=nbits) ** 3
    expected = (a[:, None] != b[None]) @ weights
    assert_allclose(hamming_distances(a, b, bit_weights=weights), expected, rtol=0, atol=1e-12 * weights.sum())
    assert_array_equal(hamming_distances(a, b, bit_weights=np.full(nbits, 0.25)) * 4, hamming_distances(a, b))


@given(weights=st.lists(st.floats(0, 1e100), min_size=1, max_size=60).filter(any))
def test_quantized_weights_are_near_and_their_sums_exact_in_any_order(weights):
    integers, unit = quantize_weights(weights, len(weights))
    assert integers.sum() < 2**52
    assert np.frexp(unit)[0] == 0.5  # a power of two
    assert_allclose(integers * unit, weights, rtol=0, atol=2.0**-50 * np.sum(weights))
    assert np.sum(integers * unit) == np.sum((integers * unit)[::-1]) == int(integers.sum()) * unit


@pytest.mark.parametrize(
    ("codes", "nbits", "message"),
    [
        ([[0, 2]], None, "`codes` must hold only 0 and 1. Got other values of dtype int64"),
        ([[-1, 1]], None, "`codes` must hold only 0 and 1.*bits that `transform` returns"),
        ([[0.0, np.nan]], None, "`codes` must hold only 0 and 1"),
        ([["0", "1"]], None, "`codes` must be an array of numbers. Got text"),
        ([0, 1], None, r"`codes` must be a matrix of bits.* Got shape \(2,\)"),
        ([[]], None, r"`codes` must be a matrix.* Got shape \(1, 0\)"),
        (
            np.zeros((2, 3), np.uint8),
            8,
            r"packed codes of 8 bits, uint8 of shape \(n, 1\). Got uint8 of shape \(2, 3\)",
        ),
        (np.zeros((2, 2)), 9, "`codes` must hold packed codes of 9 bits, uint8 .* Got float64"),
        (np.full((2, 1), 255, np.uint8), 3, "`codes` must have zeros after bit 3"),
        *(([[0]], nbits, f"`nbits` must be an int >= 1. Got {nbits!r}") for nbits in (0, -8, 2.5, "8")),
    ],
)
def test_what_is_neither_bits_nor_packed_codes_is_refused(codes, nbits, message):
    with pytest.raises(ValueError, match=message):
        Codes.of(codes, nbits)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1], r"`bit_weights` must have one weight per bit, shape \(2,\). Got shape \(1,\)"),
        ([[1, 1]], r"`bit_weights` .* Got shape \(1, 2\)"),
        ([0, 0], r"`bit_weights` must be >= 0 with a finite sum, and at least one above 0. Got \[0, 0\]"),
        ([1, -1], "`bit_weights` must be >= 0 with a finite sum"),
        ([1, np.nan], "`bit_weights` must be >= 0 with a finite sum"),
        ([1, np.inf], "`bit_weights` must be >= 0 with a finite sum"),
    ],
)
def test_bad_bit_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        hamming_distances([[0, 1]], [[1, 1]], bit_weights=weights)


def test_codes_of_different_nbits_are_refused():
    with pytest.raises(ValueError, match=r"`codes_a` and `codes_b` must have the same number of bits. Got 2 and 3"):
        hamming_distances([[0, 1]], [[0, 1, 1]])


@every_length
@pytest.mark.parametrize("packed", [False, True])
def test_balance_and_correlation_are_those_of_numpy(nbits, packed):
    codes = (np.random.default_rng(3).random((200, nbits)) < np.linspace(0.2, 0.8, nbits)).astype(np.uint8)
    codes[:, -1] = 1 - codes[:, 0] if nbits > 1 else codes[:, 0]
    given = {"codes": pack(codes), "nbits": nbits} if packed else {"codes": codes}
    assert_allclose(bit_balance(**given), codes.mean(axis=0), rtol=0, atol=1e-15)
    expected = np.corrcoef(codes.astype(float), rowvar=False).reshape(nbits, nbits)
    assert_allclose(bit_correlation(**given), expected, rtol=0, atol=1e-12)


def test_a_constant_bit_is_correlated_with_itself_alone():
    codes = random_codes(50, 4)
    codes[:, 1], codes[:, 3] = 0, 1
    correlation = bit_correlation(codes)
    assert_array_equal(correlation[[1, 3]], np.eye(4)[[1, 3]])
    assert_array_equal(correlation, correlation.T)
    assert_array_equal(bit_correlation([[0, 1, 1]]), np.eye(3))


@pytest.mark.parametrize("function", [bit_balance, bit_correlation])
def test_no_codes_have_no_statistics(function):
    with pytest.raises(ValueError, match=r"`codes` must hold at least one code"):
        function(np.zeros((0, 8), np.uint8))
