"""Fingerprint of a hasher: it is stored with codes, so that a hasher refuses the codes of another one.

It is the beginning of a SHA-256 of the arrays of the function of the hasher, with the name of its class. So it is the
same in every process, on every platform and after loading, and another one after a fit to other samples.
"""

import hashlib
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from skhash._validation import qualified_name
from skhash.codes.codes import N_DIGITS
from skhash.persistence.identity import digest

#: fingerprints of functions, which do not change
_KNOWN: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def fingerprint_of(function: Any) -> str:
    """Fingerprint of a hash function; TypeError if it holds what nothing identifies, such as a lambda.

    A function that makes queries alone has that of the hasher that made the codes of the items.
    """
    if (of_codes := getattr(function, "fingerprint", None)) is not None:
        return str(of_codes)
    with suppress(KeyError, TypeError):  # not known yet, or an object that cannot be a key
        return _KNOWN[function]
    found = _compute(function)
    with suppress(TypeError):
        _KNOWN[function] = found
    return found


def _compute(function: Any) -> str:
    total = hashlib.sha256(type(function).__name__.encode())
    try:
        arrays = function.arrays()
    except TypeError:  # it holds code, such as classifiers
        arrays = {"function": np.asarray(_digest_of_code(function))}
    for name, array in sorted(arrays.items()):
        array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        total.update(f"\0{name}\0{array.dtype.str}{array.shape}\0".encode())
        total.update(array.tobytes())
    return total.hexdigest()[:N_DIGITS]


def _digest_of_code(function: Any) -> str:
    """Digest of a function that has no arrays."""
    try:
        return digest(function, "function_")
    except TypeError as error:
        raise TypeError(
            "`function_` must be identifiable to have a fingerprint: a function of arrays, or of objects and named "
            f"code that pickle keeps. Got a {qualified_name(function)} instead. Let its `arrays` return all that it "
            "computes with."
        ) from error


def known_fingerprint(function: Any) -> str | None:
    """Fingerprint of a hash function; None for another object, and for one that nothing identifies."""
    try:
        return None if function is None else fingerprint_of(function)
    except (AttributeError, TypeError):
        return None
