"""The formats of sentence-transformers are those of its own function."""

import numpy as np
import pytest
from _stores import LENGTHS, Items
from numpy.testing import assert_array_equal

from skhash.stores import from_sentence_transformers, to_sentence_transformers


@pytest.mark.parametrize("nbits", LENGTHS)
@pytest.mark.parametrize("precision", ["ubinary", "binary"])
def test_codes_come_back(nbits, precision):
    items = Items(nbits)
    embeddings = to_sentence_transformers(items.packed, precision, nbits=nbits)
    shift = {"ubinary": 0, "binary": 128}[precision]
    assert_array_equal(embeddings.astype(int) + shift, items.packed)
    stored = from_sentence_transformers(embeddings, nbits=nbits)
    assert (stored.nbits, stored.ids.tolist()) == (nbits, list(range(400)))
    assert_array_equal(stored.rows, items.packed)


@pytest.mark.slow  # the import takes seconds
@pytest.mark.parametrize("precision", ["ubinary", "binary"])
def test_the_format_is_theirs(precision):
    theirs = pytest.importorskip("sentence_transformers.util.quantization", reason="needs sentence-transformers")
    items = Items(48)
    expected = theirs.quantize_embeddings(2.0 * items.bits.astype(np.float32) - 1, precision)
    found = to_sentence_transformers(items.bits, precision)
    assert found.dtype == expected.dtype
    assert_array_equal(found, expected)


def test_refusals():
    with pytest.raises(ValueError, match=r"`precision` must be 'ubinary' or 'binary'. Got 'int8' instead."):
        to_sentence_transformers([[0, 1]], "int8")
    with pytest.raises(ValueError, match=r"Got float64 of shape \(1, 2\) instead."):
        from_sentence_transformers([[0.5, 1.0]])
