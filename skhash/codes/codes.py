"""Codes as one value: packed rows, their number of bits, and what belongs to them.

:meth:`Codes.of` is the only check of codes in the library. Bits and packed arrays become Codes where they come in, and
everything behind takes the value.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from skhash._compat import cached_property
from skhash._ids import checked_groups, checked_ids
from skhash._validation import as_count, numeric, on_host
from skhash.codes.blocks import CodeBlocks, words_of
from skhash.codes.groups import GroupedCodes

N_DIGITS = 16  # of a fingerprint
_FORM = re.compile(f"[0-9a-f]{{{N_DIGITS}}}")


@dataclass(frozen=True, eq=False, init=False)
class Codes:
    """Binary codes with their number of bits, and what belongs to them.

    Make them by :meth:`of`, which checks. They are what :mod:`skhash.stores` and :meth:`skhash.base.BaseHasher.codes`
    return. Functions that take codes take them in place of an array, without `nbits`, `ids` and `fingerprint`.

    Parameters
    ----------
    rows : ndarray of shape (n, ceil(nbits / 8)), dtype uint8
        Packed codes, in the order of :func:`numpy.packbits`. Unused bits of the last byte are 0.
    nbits : int
        Number of bits of a code.
    ids : ndarray of shape (n,), int64, or object for text, default=None
        Identifiers of the items, all different; None if they have none. An index of usearch can have uint64.
    factors : ndarray of shape (n, 2), dtype float32, default=None
        Factors of the items, of a hasher that has them.
    fingerprint : str, default=None
        ``fingerprint_`` of the hasher that made the codes; None if it is not known.
    groups : ndarray of shape (n,), int64, or object for text, default=None
        Which codes are one item, such as the passages of a document: those with equal labels. None if each is its own.

    Examples
    --------
    >>> from skhash.codes import Codes
    >>> codes = Codes.of([[0, 0, 1], [1, 1, 1]], ids=["cat", "dog"])
    >>> codes.rows.tolist(), codes.nbits, len(codes)
    ([[32], [224]], 3, 2)
    >>> codes[1:].ids
    array(['dog'], dtype=object)
    """

    rows: npt.NDArray[np.uint8]
    nbits: int
    ids: Any = None
    factors: npt.NDArray[np.float32] | None = None
    fingerprint: str | None = None
    groups: Any = None

    def __init__(
        self,
        rows: npt.NDArray[np.uint8],
        nbits: int,
        ids: Any = None,
        factors: npt.NDArray[np.float32] | None = None,
        fingerprint: str | None = None,
        groups: Any = None,
    ) -> None:
        # in one step: six frozen ones, each by itself, take a tenth of a search among few items
        vars(self).update(rows=rows, nbits=nbits, ids=ids, factors=factors, fingerprint=fingerprint, groups=groups)

    @classmethod
    def of(
        cls,
        codes: Any,
        nbits: int | None = None,
        *,
        ids: Any = None,
        factors: Any = None,
        fingerprint: str | None = None,
        groups: Any = None,
        name: str = "codes",
    ) -> "Codes":
        """Checked codes, from bits, from packed codes, or from Codes, which pass as they are.

        Parameters
        ----------
        codes : Codes, or array-like of shape (n, nbits) or (n, ceil(nbits / 8))
            Bits as ``transform`` returns them, or packed codes with `nbits`.
        nbits : int, default=None
            Number of bits of packed codes; None means that `codes` are bits.
        ids : array-like of shape (n,), ints or text, default=None
            Identifiers, all different; they replace those of Codes.
        factors : array-like of shape (n, 2), default=None
            Factors of the items; they replace those of Codes.
        fingerprint : str, default=None
            ``fingerprint_`` of the hasher that made the codes.
        groups : array-like of shape (n,), ints or text, default=None
            Which codes are one item: those with equal labels. They replace those of Codes.
        name : str, default="codes"
            Name of the argument in messages.

        Returns
        -------
        Codes
            The codes.

        Raises
        ------
        ValueError
            If `codes` are neither bits nor packed codes of `nbits` bits, what belongs to them does not fit them, or
            they are those of a hasher with another fingerprint.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> codes = Codes.of([[0, 1, 1]])
        >>> codes.rows
        array([[96]], dtype=uint8)
        >>> Codes.of(codes) is codes
        True
        """
        if isinstance(codes, Codes):
            checked = codes
            if nbits is not None and as_count(nbits, "nbits") != codes.nbits:
                raise ValueError(f"`nbits` must be None for Codes of {codes.nbits} bits. Got {nbits} instead.")
        elif are_packed(codes, nbits):
            checked = cls(codes, int(nbits))  # type: ignore[arg-type]
        else:
            if isinstance(codes, bytes) or (isinstance(codes, list | tuple) and codes and type(codes[0]) is bytes):
                raise ValueError(
                    f"`{name}` must be bits, or packed codes with `nbits`, in an array. Got bytes instead. Pass "
                    f'numpy.frombuffer(b"".join({name}), numpy.uint8).reshape(len({name}), -1) for a list of them.'
                )
            array = numeric(on_host(codes), name)
            nbits = None if nbits is None else as_count(nbits, "nbits")
            if nbits is None or (array.ndim == 2 and array.shape[1] == nbits and array.max(initial=0) <= 1):
                checked = cls(np.packbits(_check_bits(array, name), axis=1), array.shape[1])
            else:
                checked = cls(check_packed(array, nbits, name), nbits)
        if ids is None and factors is None and fingerprint is None and groups is None:
            return checked
        return checked._with(ids, factors, fingerprint, groups)

    def _with(self, ids: Any, factors: Any, fingerprint: str | None, groups: Any) -> "Codes":
        """The same codes with what is given, checked."""
        given: dict[str, Any] = {}
        if ids is not None:
            given["ids"] = checked_ids(ids, len(self))
        if factors is not None:
            given["factors"] = numeric(factors, "factors").astype(np.float32, copy=False)
            if given["factors"].shape != (len(self), 2):
                raise ValueError(
                    f"`factors` must have two numbers per code, shape ({len(self)}, 2). Got shape "
                    f"{given['factors'].shape} instead."
                )
            if not np.isfinite(given["factors"]).all():
                raise ValueError("`factors` must be finite. Got NaN or infinity.")
        if fingerprint is not None:
            given["fingerprint"] = checked_fingerprint(fingerprint)
            if are_other(self.fingerprint, fingerprint):
                raise ValueError(
                    f"`fingerprint` must be that of the hasher that made the codes, {self.fingerprint}. Got "
                    f"{fingerprint} instead."
                )
        if groups is not None:
            given["groups"] = checked_groups(groups, len(self))
        return replace(self, **given)

    @classmethod
    def joined(cls, parts: Sequence["Codes"]) -> "Codes":
        """Codes of several parts, one after the other.

        Parameters
        ----------
        parts : sequence of Codes
            At least one, all with the same number of bits, and all with identifiers, factors and groups or all without.

        Returns
        -------
        Codes
            The codes of all parts, with the fingerprint of the first one. Equal groups of several parts are one.

        Raises
        ------
        ValueError
            If the parts do not fit each other, or an identifier comes twice.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> codes = Codes.of([[0, 0, 1], [1, 1, 1]])
        >>> Codes.joined([codes, codes[:1]]).rows.tolist()
        [[32], [224], [32]]
        """
        first, given = parts[0], {}
        for part in parts[1:]:
            first.check_same(part, "parts[0]", "another part")
        for name in ("ids", "factors", "groups"):
            values = [getattr(part, name) for part in parts]
            if any((value is None) != (values[0] is None) for value in values):
                raise ValueError(f"`parts` must all have {name}, or none of them. Got some of both.")
            given[name] = None if values[0] is None else np.concatenate(values)
        rows = np.concatenate([part.rows for part in parts])
        joined = cls(rows, first.nbits, fingerprint=first.fingerprint)
        return joined._with(given["ids"], given["factors"], None, given["groups"])

    def __repr__(self) -> str:
        given = [name for name in ("ids", "factors", "fingerprint", "groups") if getattr(self, name) is not None]
        return f"<Codes: {len(self):,} of {self.nbits} bits{', with ' + ', '.join(given) if given else ''}>"

    @property
    def codes(self) -> npt.NDArray[np.uint8]:
        """The packed codes, as `rows`: what scripts that read a store ask for.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> Codes.of([[0, 1, 1]]).codes
        array([[96]], dtype=uint8)
        """
        return self.rows

    @property
    def bytes_per_item(self) -> int:
        """Bytes of the packed code of an item, and of its factors if there are any.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> Codes.of([[0, 1, 1]]).bytes_per_item
        1
        >>> Codes.of([[0, 1, 1]], factors=[[1.0, 0.5]]).bytes_per_item
        9
        """
        return int(self.rows.shape[1]) + (0 if self.factors is None else 8)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> "Codes":
        """Codes of some items, which a slice, a mask or positions choose, with what belongs to them."""
        ids = None if self.ids is None else self.ids[chosen]
        factors = None if self.factors is None else self.factors[chosen]
        groups = None if self.groups is None else self.groups[chosen]
        return Codes(self.rows[chosen], self.nbits, ids, factors, self.fingerprint, groups)

    def first(self, nbits: int) -> "Codes":
        """Codes of the first bits, with identifiers and groups; factors and fingerprint are those of all bits.

        Parameters
        ----------
        nbits : int
            Number of bits to keep.

        Returns
        -------
        Codes
            The shorter codes.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> Codes.of([[1, 1, 1, 1]]).first(2).rows
        array([[192]], dtype=uint8)
        """
        nbits = as_count(nbits, "nbits", largest=self.nbits)
        rows = self.rows[:, : -(-nbits // 8)].copy()
        rows[:, -1] &= 0xFF << -nbits % 8 & 0xFF
        return Codes(rows, nbits, self.ids, groups=self.groups)

    def bits(self) -> npt.NDArray[np.uint8]:
        """Bits of the codes.

        Returns
        -------
        ndarray of shape (n, nbits), dtype uint8
            Bits, 0 or 1.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> Codes.of([[1, 1, 1]]).bits()
        array([[1, 1, 1]], dtype=uint8)
        """
        return np.unpackbits(self.rows, axis=1, count=self.nbits)

    def words(self) -> npt.NDArray[np.uint64]:
        """The codes as 64-bit words, padded with zeros; they are made once.

        Returns
        -------
        ndarray of shape (n, ceil(nbits / 64)), dtype uint64
            Words; the order of the bits inside a word does not matter for a distance.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> Codes.of([[1] * 70]).words().shape
        (1, 2)
        """
        return self._words

    def blocks(self) -> CodeBlocks:
        """The codes as the search reads them, byte j of 64 items side by side; they are made once.

        Returns
        -------
        CodeBlocks
            The blocks.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> Codes.of([[1] * 70]).blocks().blocks.shape
        (1, 9, 64)
        """
        return self._blocks

    def by_group(self) -> GroupedCodes:
        """The codes in the order of their groups, each its own group if they have none; they are made once.

        Returns
        -------
        GroupedCodes
            The codes as a scan for queries of several vectors reads them.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> codes = Codes.of([[0, 0, 1], [1, 1, 1], [0, 1, 1]], groups=["b", "a", "b"])
        >>> codes.by_group().labels
        array(['a', 'b'], dtype=object)
        """
        return self._by_group

    @cached_property
    def _words(self) -> npt.NDArray[np.uint64]:
        return words_of(self.rows)

    @cached_property
    def _blocks(self) -> CodeBlocks:
        return CodeBlocks.from_rows(self.rows, self.nbits)

    @cached_property
    def _by_group(self) -> GroupedCodes:
        return GroupedCodes(self.blocks(), np.arange(len(self)) if self.groups is None else self.groups)

    def check_same(self, other: Self, name: str, other_name: str) -> None:
        """Raise ValueError unless other codes have the same number of bits and may be of the same hasher.

        Parameters
        ----------
        other : Codes
            The other codes.
        name, other_name : str
            Names of both in the message.

        Examples
        --------
        >>> from skhash.codes import Codes
        >>> Codes.of([[0, 1]]).check_same(Codes.of([[1, 1]]), "query_codes", "database_codes")
        """
        check_same_nbits(self.nbits, other.nbits, name, other_name)
        if are_other(self.fingerprint, other.fingerprint):
            raise ValueError(
                f"`{name}` and `{other_name}` must be codes of one hasher. Got those of hashers with the fingerprints "
                f"{self.fingerprint} and {other.fingerprint} instead. Encode both with the same hasher."
            )


def check_same_nbits(nbits: int, other: int, name: str, other_name: str) -> None:
    """Raise ValueError if two sets of codes have different numbers of bits."""
    if nbits != other:
        raise ValueError(
            f"`{name}` and `{other_name}` must have the same number of bits. Got {nbits} and {other} instead."
        )


def checked_fingerprint(value: Any) -> str | None:
    """A fingerprint, or None; ValueError for anything else."""
    if value is None:
        return None
    if isinstance(value, str) and _FORM.fullmatch(value):
        return str(value)
    raise ValueError(
        f"`fingerprint` must be None or `fingerprint_` of a hasher, {N_DIGITS} digits from 0 to f. Got "
        f"{repr(value)[:300]} instead."
    )


def are_other(one: str | None, other: str | None) -> bool:
    """Whether two fingerprints are those of different hashers; what has none, such as a plain array, is accepted."""
    return one is not None and other is not None and one != other


def are_packed(codes: Any, nbits: int | None) -> bool:
    """Whether codes are a plain packed array in which no bit is unused: what the checks would find, more slowly."""
    is_plain = type(codes) is np.ndarray and codes.dtype == np.uint8 and codes.ndim == 2 and len(codes) > 0
    return is_plain and type(nbits) is int and nbits > 0 and nbits % 8 == 0 and codes.shape[1] == nbits // 8


def _check_bits(bits: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    if bits.ndim != 2 or bits.shape[1] == 0:
        raise ValueError(f"`{name}` must be a matrix of bits, shape (n, nbits). Got shape {bits.shape} instead.")
    if not ((bits == 0) | (bits == 1)).all():
        raise ValueError(
            f"`{name}` must hold only 0 and 1. Got other values of dtype {bits.dtype}. Pass the bits that `transform` "
            "returns, or the packed codes that `encode` returns together with `nbits`."
        )
    return bits.astype(np.uint8, copy=False)


def check_packed(packed: npt.NDArray[Any], nbits: int, name: str) -> npt.NDArray[np.uint8]:
    """The array itself; ValueError unless it holds packed codes of this number of bits."""
    n_bytes = -(-nbits // 8)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != n_bytes:
        raise ValueError(
            f"`{name}` must hold packed codes of {nbits} bits, uint8 of shape (n, {n_bytes}). "
            f"Got {packed.dtype} of shape {packed.shape} instead."
        )
    if nbits % 8 and (packed[:, -1] & (0xFF >> nbits % 8)).any():
        raise ValueError(f"`{name}` must have zeros after bit {nbits}, in the tail of the last byte. Got ones there.")
    return packed
