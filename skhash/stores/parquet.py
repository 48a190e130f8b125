"""Parquet: a column of bytes, padded to whole bytes. The metadata of the file has the number of bits."""

import os

import numpy.typing as npt

from skhash._files import check_writable, write_atomically
from skhash._ids import is_text
from skhash._libraries import library
from skhash._validation import check_option
from skhash.codes import Codes
from skhash.exceptions import InvalidFileError
from skhash.stores._arrow import as_table, from_table
from skhash.stores._common import (
    IF_EXISTS,
    IfExists,
    check_appended,
    check_new_ids,
    check_same_hasher,
    exists,
    with_ids,
)


def to_parquet(
    codes: Codes | npt.ArrayLike,
    path: str | os.PathLike[str],
    *,
    nbits: int | None = None,
    ids: npt.ArrayLike | None = None,
    fingerprint: str | None = None,
    if_exists: IfExists = "replace",
) -> None:
    """Write codes to a Parquet file, with the columns ``id`` and ``code``.

    Parameters
    ----------
    codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Codes, bits, or packed codes when `nbits` is given.
    path : path-like
        The file.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.
    ids : array-like of shape (n,), ints or text, default=None
        Identifiers, all different. None takes those of Codes, or numbers the codes from 0.
    fingerprint : str, default=None
        ``fingerprint_`` of the hasher that made the codes. It is kept in the metadata of the file.
    if_exists : {"fail", "replace", "append"}, default="replace"
        What happens if there is such a file: a ValueError, a new file in its place, as in ``to_parquet`` of pandas, or
        a file with both codes. The old one is replaced when the new one is complete. Codes are added only if they have
        the length of those in it, other identifiers, and no other fingerprint; all of them are in memory meanwhile.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If `codes` or `ids` are not as described, the file exists, or codes cannot be added to it.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skhash.stores import from_parquet, to_parquet
    >>> path = Path(tempfile.mkdtemp()) / "codes.parquet"
    >>> to_parquet([[0, 0, 1], [1, 1, 1]], path)
    >>> from_parquet(path).nbits
    3
    """
    arrow = library("pyarrow", "pyarrow", "to_parquet")
    parquet = library("pyarrow.parquet", "pyarrow", "to_parquet")
    check_option("if_exists", if_exists, IF_EXISTS)
    check_writable(path)
    stored = with_ids(codes, nbits, ids, fingerprint=fingerprint)
    if if_exists != "replace" and os.path.exists(os.path.expanduser(path)):
        if if_exists == "fail":
            raise exists("path", os.fspath(path))
        stored = _added_to(stored, path)
    n, n_bytes = stored.rows.shape
    column = arrow.Array.from_buffers(arrow.binary(n_bytes), n, [None, arrow.py_buffer(stored.rows)])
    with write_atomically(path) as file:
        parquet.write_table(as_table(stored, column), file)


def _added_to(stored: Codes, path: str | os.PathLike[str]) -> Codes:
    """The codes of a file, and more codes; ValueError if they do not belong together."""
    parquet = library("pyarrow.parquet", "pyarrow", "to_parquet")
    old, place = from_parquet(path), os.fspath(path)
    names = parquet.read_schema(os.path.expanduser(path)).names
    if others := [name for name in names if name not in ("id", "code")]:
        raise ValueError(
            f"`path` must be a file of codes alone, to which codes are added. Got {others[0]!r} in {place!r}."
        )
    check_appended(stored, place, nbits=old.nbits, has_text=is_text(old.ids), fingerprint=old.fingerprint)
    present = set(old.ids.tolist())
    check_new_ids((i for i in stored.ids.tolist() if i in present), place)
    return Codes.joined([old, Codes(stored.rows, stored.nbits, stored.ids, fingerprint=stored.fingerprint)])


def from_parquet(path: str | os.PathLike[str], *, fingerprint: str | None = None) -> Codes:
    """Codes of a Parquet file.

    Parameters
    ----------
    path : path-like
        A file with a column ``code`` of bytes or of lists of integers from 0 to 255, all of one length, and optionally
        a column ``id``.
    fingerprint : str, default=None
        ``fingerprint_`` of a hasher, which refuses codes with another one. None takes any codes.

    Returns
    -------
    Codes
        Packed codes, number of bits and identifiers, in the order of the file. If another program wrote the file,
        all bits of the bytes count.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    InvalidFileError
        If the file is damaged or has no such column, or one with nulls, other values or several lengths.
    ValueError
        If the codes are those of a hasher with another `fingerprint`.
    FileNotFoundError
        If there is no file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skhash.stores import from_parquet, to_parquet
    >>> path = Path(tempfile.mkdtemp()) / "codes.parquet"
    >>> to_parquet([[0, 0, 1], [1, 1, 1]], path, ids=[7, 8])
    >>> from_parquet(path)
    <Codes: 2 of 3 bits, with ids>
    """
    arrow = library("pyarrow", "pyarrow", "from_parquet")
    parquet = library("pyarrow.parquet", "pyarrow", "from_parquet")
    with open(os.path.expanduser(path), "rb") as file:
        try:
            stored = from_table(parquet.read_table(file))
        except (arrow.ArrowException, ValueError, OSError) as error:
            raise InvalidFileError(path, f"has no codes: {' '.join(str(error).split())}") from error
    check_same_hasher(stored.fingerprint, fingerprint, os.fspath(path))
    return stored
