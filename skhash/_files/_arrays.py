"""Arrays as bytes: a safetensors file with the kind and the version of what it holds, which runs no code when read."""

import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_KEY, _MAX_HEADER = "skhash", 2**20


def arrays_to_bytes(kind: str, version: int, arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Bytes of a safetensors file with arrays, their kind and their version; equal arrays give equal bytes."""
    from safetensors.numpy import save

    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(tensors, {_KEY: json.dumps({"kind": kind, "version": version})})


def arrays_from_bytes(
    content: bytes, kind: str, version: int, layouts: Collection[Collection[str]]
) -> dict[str, npt.NDArray[Any]]:
    """Arrays by name, from the bytes of :func:`arrays_to_bytes`.

    Raises ValueError if the bytes are damaged or newer than `version`, or have another kind or other arrays than one of
    `layouts`.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"`content` must be bytes. Got {type(content).__name__} instead.")
    content = bytes(content)
    try:
        size = int.from_bytes(content[:8], "little")
        if size > _MAX_HEADER:
            raise ValueError("its head is too long")
        about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][_KEY])
        found = (about["kind"], about["version"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"`content` must be bytes of a {kind}. Got others, or damaged ones: {error}.") from error
    if found[0] != kind:
        raise ValueError(f"`content` must be bytes of a {kind}. Got those of a {found[0]} instead.")
    if type(found[1]) is not int or not 1 <= found[1] <= version:
        raise ValueError(
            f"`content` must have version {version} or an older one. Got version {found[1]!r} instead: use the skhash "
            "that wrote it, or a newer one."
        )
    try:
        arrays: dict[str, npt.NDArray[Any]] = load(content)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"`content` must be bytes of a {kind}. Got damaged ones: {error}.") from error
    if not any(set(arrays) == set(names) for names in layouts):
        raise ValueError(f"`content` must be bytes of a {kind}. Got the arrays {', '.join(sorted(arrays))} instead.")
    return arrays
