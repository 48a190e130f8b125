"""Arrays as bytes: equal for equal arrays, of a kind and a version, and refused if damaged."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import save

from skhash._files._arrays import arrays_from_bytes, arrays_to_bytes

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2], np.int32)}
CONTENT = arrays_to_bytes("thing", 1, ARRAYS)


def read(content, kind="thing", version=1, layouts=(("a",), ("a", "b"))):
    return arrays_from_bytes(content, kind, version, layouts)


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_arrays_come_back(view):
    found = read(view(CONTENT))
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert_array_equal(found[name], array, strict=True)
    assert arrays_to_bytes("thing", 1, dict(reversed(ARRAYS.items()))) == CONTENT
    assert_array_equal(read(arrays_to_bytes("thing", 1, {"a": np.ones((4, 3)).T}))["a"], np.ones((3, 4)), strict=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (arrays_to_bytes("other", 1, ARRAYS), r"must be bytes of a thing\. Got those of a other instead"),
        (arrays_to_bytes("thing", 2, ARRAYS), r"must have version 1 or an older one\. Got version 2 instead"),
        (arrays_to_bytes("thing", 0, ARRAYS), r"Got version 0 instead"),
        (arrays_to_bytes("thing", 1, {"b": ARRAYS["b"]}), r"Got the arrays b instead"),
        (save(ARRAYS), "Got others, or damaged ones"),
        (save(ARRAYS, {"skhash": json.dumps([1])}), "Got others, or damaged ones"),
        (b"", "Got others, or damaged ones"),
        (b"\xff" * 100, "its head is too long"),
        (CONTENT[:-1], "Got damaged ones"),
    ],
)
def test_other_bytes_are_refused(content, message):
    with pytest.raises(ValueError, match=message):
        read(content)


@pytest.mark.parametrize("place", range(0, len(CONTENT) - 56, 7))  # the values follow
def test_damage_is_an_error_or_gives_other_arrays_of_these_names(place):
    damaged = bytearray(CONTENT)
    damaged[place] ^= 0x15
    message = ""
    try:
        names = set(read(bytes(damaged)))
    except ValueError as error:
        names, message = set(), str(error)
    assert message.startswith("`content` must ") or names in ({"a"}, {"a", "b"})


def test_what_is_not_bytes_is_refused():
    with pytest.raises(TypeError, match=r"`content` must be bytes\. Got str instead\."):
        read("text")
