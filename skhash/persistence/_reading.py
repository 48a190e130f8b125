"""Read a file into JSON and tensors. Whatever is wrong with the file raises an InvalidFileError."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash import __version__, hashers
from skhash._validation.limits import check_nesting
from skhash.exceptions import InvalidFileError
from skhash.persistence._format import CHECKSUM, FORMAT, HEADER, INDEX_HEADER, INDEXES, MAX_TEXT, SCALER, TEXT, checksum

Tensors = dict[str, npt.NDArray[Any]]


class ArgumentError(ValueError):
    """Error about an argument of `load`, not about the file."""


@contextmanager
def errors_name(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Context manager that turns each error about the content of a file into an InvalidFileError with its path."""
    try:
        yield
    except (InvalidFileError, ArgumentError, OSError, MemoryError):
        raise
    except RecursionError as error:
        raise InvalidFileError(path, f"{what}: values are nested too deeply.") from error
    except ValueError as error:
        raise InvalidFileError(path, f"{what}: {short(error)}") from error
    except Exception as error:  # errors of numpy, scipy and torch for invalid values
        raise InvalidFileError(path, f"{what}: {short(repr(error))}") from error


def short(value: Any) -> str:
    """Text of a value for a message, cut if it is long."""
    text = str(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Tensors]:
    """JSON and tensors of a file, after a check of its format and checksum."""
    from safetensors import safe_open

    if Path(path).exists() and not Path(path).is_file():
        raise InvalidFileError(path, "is not a file.")
    with errors_name(path, "cannot be read as a file of skhash.persistence.save"):
        with safe_open(path, framework="numpy") as file:
            header = parse((file.metadata() or {}).get(TEXT, "null"))
            # copies, so that fitted arrays do not change with the file
            names = set(file.keys()) - set(mapped_names(header))
            tensors = {name: np.array(file.get_tensor(name)) for name in names}
        if not isinstance(header, dict) or "format" not in header:
            raise InvalidFileError(
                path, "must be a file of skhash.persistence.save. Got another safetensors file instead."
            )
        if CHECKSUM in header and header[CHECKSUM] != checksum(header, tensors):
            raise InvalidFileError(path, "is damaged: its checksum is not that of its content. Save the hasher again.")
    _check_header(path, header)
    return header, tensors


def mapped_names(header: Any) -> tuple[str, ...]:
    """Names of the tensors that are mapped, not read: the codes and identifiers of an index."""
    return ("codes_", "ids_") if isinstance(header, dict) and str(header.get("class")) in INDEXES else ()


def parse(text: str | bytes) -> Any:
    """Value of a JSON text, after a check of its length and depth."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"its JSON has {len(text):,} bytes, more than {MAX_TEXT:,}.")
    value = json.loads(text)
    check_nesting(value, len(text))
    return value


def _check_header(path: str | os.PathLike[str], header: dict[str, Any]) -> None:
    if header["format"] != FORMAT:
        raise InvalidFileError(
            path,
            f"must have format {FORMAT} for skhash {__version__}. "
            f"Got format {short(header['format'])}, written by skhash {short(header.get('version'))}, instead.",
        )
    kinds = (*hashers.__all__, *INDEXES)
    if header.get("class") not in kinds:
        raise InvalidFileError(
            path, f"must hold one of {', '.join(kinds)}. Got {short(repr(header.get('class')))} instead."
        )
    is_index = header["class"] in INDEXES
    expected = HEADER | INDEX_HEADER if is_index else HEADER
    if missing := expected - header.keys():
        raise InvalidFileError(path, f"lacks {sorted(missing)}, which every file of skhash.persistence.save has.")
    if unknown := header.keys() - expected - {CHECKSUM} - (set() if is_index else {SCALER}):
        raise InvalidFileError(path, f"has {short(sorted(unknown))}, which no file of skhash.persistence.save has.")
    if header["bit_order"] != "big":
        raise InvalidFileError(path, f"must have the bit order 'big'. Got {short(repr(header['bit_order']))} instead.")
