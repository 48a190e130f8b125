"""What all stores share: checked codes with identifiers, names of tables, and codes that are added to others."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from skhash._ids import MAX_ID, is_text
from skhash.codes import Codes
from skhash.codes.codes import N_DIGITS, are_other, checked_fingerprint
from skhash.exceptions import parameter

#: what writing does where codes are already, named as by pandas' ``to_sql``
IfExists = Literal["fail", "replace", "append"]
IF_EXISTS = get_args(IfExists)


def bit_strings(codes: Codes | npt.ArrayLike, *, nbits: int | None = None) -> list[str]:
    """Codes as strings of zeros and ones, the form of bits in DuckDB and PostgreSQL.

    Parameters
    ----------
    codes : array-like of shape (n, nbits) or (n, ceil(nbits / 8))
        Bits, or packed codes when `nbits` is given.
    nbits : int, default=None
        Number of bits of packed codes; None means that `codes` are bits.

    Returns
    -------
    list of str
        A string of `nbits` characters per code.

    Raises
    ------
    ValueError
        If `codes` are neither bits nor packed codes of `nbits` bits.

    Examples
    --------
    >>> from skhash.stores import bit_strings
    >>> bit_strings([[0, 1, 1], [1, 0, 0]])
    ['011', '100']
    """
    bits = Codes.of(codes, nbits).bits()
    return [str(code, "ascii") for code in (bits + ord("0")).view(f"S{bits.shape[1]}")[:, 0]]


def with_ids(codes: Any, nbits: int | None, ids: Any, name: str = "codes", fingerprint: str | None = None) -> Codes:
    """Checked codes that have identifiers: the given ones, those of Codes, or numbers from 0."""
    ids = codes.ids if ids is None and isinstance(codes, Codes) else ids  # from usearch they may be too large
    stored = Codes.of(codes, nbits, ids=ids, fingerprint=fingerprint, name=name)
    stored = replace(stored, rows=np.ascontiguousarray(stored.rows))
    if stored.ids is None:
        return replace(stored, ids=np.arange(len(stored)))
    if is_text(stored.ids):
        try:
            "".join(stored.ids).encode()
        except UnicodeEncodeError as error:  # a file name that is not UTF-8
            wrong = next(text for text in stored.ids if text.encode(errors="replace").decode() != text)
            raise ValueError(f"`ids` must be text that UTF-8 can hold. Got {wrong!r}. Replace it.") from error
    return stored


def check_same_hasher(found: str | None, fingerprint: str | None, place: str) -> None:
    """Raise ValueError if the fingerprint in a store is not the one that its codes must have."""
    if are_other(found, checked_fingerprint(fingerprint)):
        raise ValueError(
            f"`fingerprint` must be that of the hasher that made the codes in {place!r}, {found}. Got {fingerprint} "
            "instead. Load that hasher, or encode the items again with yours and store these codes."
        )


def check_appended(stored: Codes, place: str, *, nbits: int, has_text: bool, fingerprint: str | None) -> None:
    """Raise ValueError unless codes are like those in a store: their length, kind of identifiers and hasher."""
    if stored.nbits != nbits:
        raise ValueError(f"`codes` must have {nbits} bits, as those in {place!r}. Got {stored.nbits} instead.")
    if is_text(stored.ids) != has_text:
        kinds = ("text", "ints") if has_text else ("ints", "text")
        raise ValueError(f"`ids` must be {kinds[0]}, as those in {place!r}. Got {kinds[1]} instead.")
    check_same_hasher(fingerprint, stored.fingerprint, place)


def check_new_ids(present: Iterable[Any], place: str) -> None:
    """Raise ValueError if there are identifiers that codes to add have, and a store has already."""
    for first in present:
        raise ValueError(f"`ids` must not be in {place!r} yet. Got {first!r}, which is. Delete that item there first.")


def fingerprint_note(stored: Codes) -> str | None:
    """Comment on a table that holds codes of a hasher with a fingerprint."""
    return None if stored.fingerprint is None else f"skhash.fingerprint={stored.fingerprint}"


def noted_fingerprint(comment: str | None) -> str | None:
    """Fingerprint in a comment, which may have other text beside it."""
    found = re.search(rf"skhash\.fingerprint=([0-9a-f]{{{N_DIGITS}}})", comment or "")
    return None if found is None else found[1]


def check_whole(ids: npt.NDArray[Any], store: str) -> None:
    """Raise ValueError if identifiers are text, for a store that holds only whole numbers."""
    if is_text(ids):
        raise ValueError(
            f"`ids` must be ints in {store}. Got text, such as {ids[0]!r}. Pass None, and keep a list of the text: a "
            "search then finds positions in it."
        )


def from_strings(rows: Sequence[tuple[Any, Any]], table: str) -> Codes:
    """Codes from rows of a table: pairs of an identifier and a string of zeros and ones."""
    ids, codes = columns_of(rows, str, table)
    text = "".join(codes)
    bits = np.frombuffer(text.encode(), dtype=np.uint8) - ord("0")  # other characters are above 1
    if (bits > 1).any():
        raise ValueError(f"`table` must have codes of 0 and 1. Got other characters in {table!r}.")
    return with_ids(bits.reshape(len(rows), -1), None, ids, table)


def columns_of(rows: Sequence[tuple[Any, Any]], kind: type, table: str) -> tuple[Sequence[Any], Sequence[Any]]:
    """Checked identifiers, and codes of type `kind` and of one length, of rows that any program may have written."""
    if not rows:
        raise ValueError(f"`table` must have codes. Got none in {table!r}.")
    ids, codes = zip(*rows, strict=True)
    kinds = {type(i) for i in ids}
    if kinds != {int} and kinds != {str}:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"`table` must have ints as ids. Got {found} in {table!r}. Or make all of them text.")
    if kinds == {int} and (max(ids) > MAX_ID or min(ids) < -MAX_ID - 1):
        extreme = max(ids, key=abs)
        raise ValueError(f"`table` must have ids of at most {MAX_ID}, as int64 holds. Got {extreme} in {table!r}.")
    if wrong := {type(code).__name__ for code in codes if type(code) is not kind}:
        raise ValueError(
            f"`table` must have codes of type {kind.__name__}. Got {', '.join(sorted(wrong))} in {table!r}."
        )
    lengths = {len(code) for code in codes}
    if len(lengths) > 1 or 0 in lengths:
        raise ValueError(f"`table` must have codes of one length. Got the lengths {sorted(lengths)} in {table!r}.")
    return ids, codes


def check_table(table: Any) -> str:
    """Checked name of a table."""
    if not isinstance(table, str) or not table:
        raise ValueError(f"`table` must be the name of a table. Got {table!r} instead.")
    return table


def check_connection(connection: Any, kind: type | tuple[type, ...], call: str) -> None:
    """Raise TypeError for what is no open connection, such as the path or the address of a database."""
    if not isinstance(connection, kind):
        given = f"{type(connection).__module__}.{type(connection).__name__}"
        remedy = ""
        if isinstance(connection, str | os.PathLike):
            given = repr(os.fspath(connection))
            remedy = f" Open it: {call}({given})."
        raise TypeError(f"`connection` must be what {call} returns. Got {given} instead.{remedy}")


def exists(name: str, value: Any) -> ValueError:
    """ValueError with a message that the table or the file exists."""
    kind = {"table": "the name of a new table", "path": "a new file"}[name]
    ways = f"{parameter('if_exists', 'append')} to add the codes, or {parameter('if_exists', 'replace')}"
    return ValueError(f"`{name}` must be {kind}. Got {value!r}, which exists. Pass {ways}.")


def is_hidden(table: str) -> ValueError:
    """ValueError with a message that a temporary table hides the one to replace."""
    return ValueError(f"`table` must not be hidden by a temporary table. Got {table!r}, which is. Drop that one first.")


def no_such_table(table: str, reason: object) -> ValueError:
    """ValueError with a message that there is no table with the columns of codes."""
    reason = str(reason).strip().partition("\n")[0]
    return ValueError(f"`table` must be the name of a table with the columns id and code. Got {table!r}: {reason}")


def quoted(table: str) -> str:
    """Checked name of a table in quotes, so that SQL takes any name."""
    return '"' + check_table(table).replace('"', '""') + '"'
