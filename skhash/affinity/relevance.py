"""Relevance: an affinity and its targets as one value, which says which samples are relevant to which, and how much.

Targets are checked once, where a Relevance is made. Code that holds one checks nothing again:

- `of` and `between` read the targets, choose the affinity for "auto", and let it turn the targets into the form that
  it compares: classes, 0/1 matrices, indices or vectors. Classes of one set become small integers.
- `levels` compares these forms. The levels of our own affinities are trusted. Those of a callable of the user are
  checked at every call, since compiled passes write where the indices of levels point.
- `take` is an index into the forms, since training takes a batch at every step.
- `keep_levels` computes the levels of all pairs once, where a batch would compute distances at every step.
- An affinity whose levels depend on all items (`depends_on_all_items`) gets all columns, whichever are asked for.
"""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import gen_batches

from skhash._validation import numeric
from skhash.affinity._labels import ClassAffinity, SharedLabelsAffinity, label_indicator, one_per_sample
from skhash.affinity._precomputed import PrecomputedAffinity, checked_levels, level_indices
from skhash.affinity._vectors import DistanceAffinity, NeighborAffinity
from skhash.affinity.targets import as_labels, as_targets, both, distinct_targets

_OF_LABELS = (ClassAffinity, SharedLabelsAffinity, PrecomputedAffinity)
_OURS = (*_OF_LABELS, DistanceAffinity, NeighborAffinity)
_BATCH_SIZE = 16  # samples that are compared with all others at a time; the first ones are usually enough
_N_MAX_KEPT = 10_000  # samples whose levels are kept, in at most 100 MB


class Relevance:
    """Which samples are relevant to which, and how much: an affinity and its targets, checked once.

    The *rows* are compared with the *columns*: the samples of a training set with each other, or queries with the items
    of a database. It is made by :meth:`of` or :meth:`between`.

    Attributes
    ----------
    affinity : callable
        The affinity, for "auto" the one that suits the targets; with :meth:`of` the fitted one.
    shape : tuple of int
        Numbers of rows and of columns.
    targets : array or sparse matrix of shape (n_rows, ...)
        Targets of the rows.
    classes : ndarray of shape (n_rows,) or None
        Index of the class of each row, unsigned integers, if there is one set of targets with a
        :class:`ClassAffinity`; otherwise None.

    Examples
    --------
    >>> from skhash.affinity import Relevance
    >>> relevance = Relevance.of(["cat", "dog", "cat"])
    >>> relevance.affinity
    ClassAffinity()
    >>> indices, levels = relevance.levels()
    >>> levels[indices]
    array([[1, 0, 1],
           [0, 1, 0],
           [1, 0, 1]])
    """

    def __init__(self, affinity: Any, rows: Any, columns: Any, class_labels: Any, given: tuple[Any, Any]) -> None:
        self.affinity: Callable[[Any, Any], Any] = affinity
        self.classes: npt.NDArray[np.unsignedinteger[Any]] | None = None if class_labels is None else rows
        self._rows, self._columns, self._class_labels = rows, columns, class_labels
        self._distinct: tuple[Self, npt.NDArray[np.intp], npt.NDArray[np.intp]] | None = None
        self._kept: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None  # levels of all pairs
        self._given = given  # the targets and None, or another Relevance and which of its rows these are

    @classmethod
    def of(cls, y: Any, affinity: str | Callable[[Any, Any], Any] = "auto") -> Self:
        """Relevance of the samples of one set to each other.

        Parameters
        ----------
        y : array-like of shape (n, ...)
            Targets: class labels, a 0/1 matrix of labels, or what the affinity compares.
        affinity : "auto" or callable, default="auto"
            "auto" is :class:`ClassAffinity` or :class:`SharedLabelsAffinity`. An affinity with a method `fit` learns
            from the targets.

        Returns
        -------
        Relevance
            With the fitted affinity; the argument does not change.

        Raises
        ------
        TypeError
            If `y` is not an array of targets, or `affinity` is a class.
        ValueError
            If the affinity cannot compare `y`, or `affinity` is unknown.

        Examples
        --------
        >>> from skhash.affinity import DistanceAffinity, Relevance
        >>> Relevance.of([[1, 1, 0], [0, 1, 1]]).affinity
        SharedLabelsAffinity(binary=False)
        >>> learns = DistanceAffinity(percentiles=(50,), levels=(1,))
        >>> Relevance.of([[0.0], [1.0], [5.0]], learns).affinity.thresholds
        array([4.])
        """
        targets, _, affinity = _read(y, y, affinity, ("y", "y"))
        if type(affinity) not in _OURS and hasattr(affinity, "fit"):
            affinity = affinity.fit(targets)
        relevance = cls._made(targets, targets, affinity)
        if isinstance(affinity, DistanceAffinity) and type(affinity) in _OURS:
            relevance.affinity = affinity._learned(relevance._rows)
        return relevance

    @classmethod
    def between(cls, query_y: Any, database_y: Any, affinity: str | Callable[[Any, Any], Any] = "auto") -> Self:
        """Relevance of the items of a database, the columns, to queries, the rows.

        Parameters
        ----------
        query_y, database_y : array-like of shape (n_queries, ...) and (n_items, ...)
            Targets, which may be the same object.
        affinity : "auto" or callable, default="auto"
            "auto" is the one that suits `database_y`. An affinity that learns must be fitted.

        Returns
        -------
        Relevance
            Of the two sets.

        Raises
        ------
        TypeError
            If targets are not an array, or `affinity` is a class.
        ValueError
            If the affinity cannot compare the targets, or `affinity` is unknown.

        Examples
        --------
        >>> from skhash.affinity import Relevance
        >>> Relevance.between(["dog"], ["dog", "cat"]).levels()
        (array([[1, 0]], dtype=uint8), array([0, 1]))
        """
        return cls._made(*_read(query_y, database_y, affinity, ("query_y", "database_y")))

    @classmethod
    def _made(cls, targets: Any, others: Any, affinity: Any) -> Self:
        """Relevance of targets that are read, which the affinity checks."""
        rows, columns = affinity._checked(targets, others) if type(affinity) in _OURS else (targets, others)
        class_labels = None
        if columns is rows and type(affinity) is ClassAffinity:
            class_labels, rows = _class_indices(rows)
            columns = rows
        return cls(affinity, rows, columns, class_labels, (targets, None))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self._rows.shape[0], self._columns.shape[0]

    @property
    def targets(self) -> Any:
        """Targets of the rows."""
        given, rows = self._given
        return given if rows is None else given.targets[rows]

    def levels(self, rows: Any = None, columns: Any = None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Levels of pairs, as indices into the levels that can occur among them.

        Parameters
        ----------
        rows, columns : slice, ndarray of int or ndarray of bool, default=None
            Which rows and columns; None for all.

        Returns
        -------
        indices : ndarray of shape (n_rows, n_columns), dtype uint8 or uint32
            ``levels[indices]`` are the levels.
        levels : ndarray of shape (n_levels,)
            Ascending, the first one 0.

        Raises
        ------
        ValueError
            If an affinity of your own returns another shape, or levels that are not numbers, not finite, below 0, or
            not among its `possible_levels`.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash.affinity import Relevance
        >>> relevance = Relevance.of([[1, 1], [1, 0], [0, 1]])
        >>> relevance.levels(np.array([0, 2]))
        (array([[2, 1, 1],
               [1, 0, 1]], dtype=uint32), array([0, 1, 2]))
        """
        if self._kept is not None:
            return _part(self._kept[0], rows, columns), self._kept[1]
        affinity, takes_all = self.affinity, columns is None or getattr(self.affinity, "depends_on_all_items", False)
        a = self._rows if rows is None else self._rows[rows]
        b = self._columns if takes_all else self._columns[columns]
        indices, levels = affinity._compare(a, b) if type(affinity) in _OURS else _checked_levels(affinity, a, b)  # type: ignore[attr-defined]
        return indices if columns is None or not takes_all else indices[:, columns], levels

    def labels(self, classes: Any = None) -> npt.NDArray[np.float64]:
        """Labels of the rows as a 0/1 matrix, for methods that learn labels.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,), default=None
            Classes that have a column, ascending; None for those of all targets. A matrix of labels keeps its columns.

        Returns
        -------
        ndarray of shape (n_rows, n_labels), float64
            1 where a sample has a label.

        Raises
        ------
        ValueError
            If the affinity is of another kind, since not every affinity comes from labels, or a row has a class that
            is not in `classes`.

        Examples
        --------
        >>> from skhash.affinity import Relevance
        >>> Relevance.of(["dog", "cat", "dog"]).labels()
        array([[0., 1.],
               [1., 0.],
               [0., 1.]])
        """
        if isinstance(self.affinity, SharedLabelsAffinity):
            labels = label_indicator(self._rows) if type(self.affinity) not in _OURS else self._rows
            return np.asarray(labels.toarray() if sparse.issparse(labels) else labels, dtype=np.float64)
        if not isinstance(self.affinity, ClassAffinity):
            raise ValueError(
                "`affinity` must be 'auto', ClassAffinity() or SharedLabelsAffinity(), with class labels or a 0/1 "
                f"matrix of labels as y, for a method that learns from labels. Got {self.affinity!r} instead."
            )
        if self.classes is None:
            known, codes = _class_indices(one_per_sample(self._rows))
        else:
            known, codes = self._class_labels, self.classes
        if classes is None:
            return _one_hot(codes, len(known))
        columns = np.searchsorted(classes, known).clip(max=len(classes) - 1)
        if (is_new := (np.asarray(classes)[columns] != known)[codes]).any():
            raise ValueError(f"`classes` must have the class of each row. Got {known[codes[is_new][0]]} in a row.")
        return _one_hot(columns[codes], len(classes))

    def take(self, rows: Any, columns: Any = None) -> Self:
        """Relevance of some samples, without a check: of a batch, a fold, or held-out samples.

        Parameters
        ----------
        rows : slice, ndarray of int or ndarray of bool
            Which rows. The columns of one set of targets are the same samples; those of two sets stay.
        columns : slice, ndarray of int or ndarray of bool, default=None
            Which columns.

        Returns
        -------
        Relevance
            Of these samples.

        Examples
        --------
        >>> from skhash.affinity import Relevance
        >>> relevance = Relevance.of(["cat", "dog", "cat"])
        >>> relevance.take([0, 2]).levels()[0].tolist()
        [[1, 1], [1, 1]]
        >>> relevance.take([1], [0, 1, 2]).levels()[0].tolist()
        [[0, 1, 0]]
        """
        a = self._rows[rows]
        is_one_set = self._columns is self._rows
        same = a if is_one_set else self._columns
        b = same if columns is None else self._columns[columns]
        taken = type(self)(self.affinity, a, b, self._class_labels, (self, rows))
        if self._kept is not None:
            taken._kept = _part(self._kept[0], rows, rows if is_one_set and columns is None else columns), self._kept[1]
        return taken

    def keep_levels(self, pairs: float) -> None:
        """Compute the levels of all pairs now, if that is faster than computing so many pairs in batches.

        It changes no level. Only distances of vectors take long enough, and only few samples have room for all pairs.

        Parameters
        ----------
        pairs : float
            Number of pairs in all batches together.

        Examples
        --------
        >>> from skhash.affinity import DistanceAffinity, Relevance
        >>> affinity = DistanceAffinity(percentiles=(50,), levels=(1,))
        >>> relevance = Relevance.of([[0.0], [1.0], [5.0]], affinity)
        >>> relevance.keep_levels(pairs=90)
        >>> relevance.take([0, 2]).levels()[0].tolist()
        [[1, 0], [0, 1]]
        """
        n_rows, n_columns = self.shape
        has_room = max(self.shape) <= _N_MAX_KEPT and n_rows * n_columns <= pairs
        if type(self.affinity) is DistanceAffinity and has_room:
            parts, levels = [], np.zeros(0)
            for batch in gen_batches(n_rows, 1000):
                indices, levels = self.levels(batch)
                parts.append(indices.astype(np.min_scalar_type(len(levels))))
            self._kept = np.concatenate(parts), levels

    def distinct(self) -> tuple[Self, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Relevance of the distinct targets, so that a pass over many samples compares each pair of targets once.

        The result is kept for the next call.

        Returns
        -------
        relevance : Relevance
            Its rows and columns have different targets, as far as they are compared quickly.
        row_groups : ndarray of shape (n_rows,), dtype intp
            Which row of the result has the target of each row.
        column_groups : ndarray of shape (n_columns,), dtype intp
            Which column of the result has the target of each column. An affinity whose levels depend on all items
            keeps all columns.

        Examples
        --------
        >>> from skhash.affinity import Relevance
        >>> distinct, rows, columns = Relevance.between(["a", "a"], ["b", "a", "b"]).distinct()
        >>> distinct.shape, rows, columns
        ((1, 2), array([0, 0]), array([1, 0, 1]))
        """
        if self._distinct is not None:
            return self._distinct
        first, row_groups = distinct_targets(self._rows)
        others: Any = None
        if getattr(self.affinity, "depends_on_all_items", False):
            others, column_groups = slice(None), np.arange(self._columns.shape[0])
        elif self._columns is self._rows:
            column_groups = row_groups
        else:
            others, column_groups = distinct_targets(self._columns)
        self._distinct = self.take(first, others), row_groups, column_groups
        return self._distinct

    def check_pairs(self) -> None:
        """Check that there is something to learn.

        Raises
        ------
        ValueError
            Unless some pairs of different samples are relevant, and others are not.

        Examples
        --------
        >>> from skhash.affinity import Relevance
        >>> Relevance.of(["cat", "cat"]).check_pairs()
        Traceback (most recent call last):
        ...
        ValueError: `y` must have at least two classes. Got targets ...
        """
        relevant = irrelevant = False
        for batch in gen_batches(self.shape[0], _BATCH_SIZE):
            indices, _ = self.levels(batch)
            others = np.ones(indices.shape, dtype=bool)
            others[np.arange(len(indices)), np.arange(batch.start, batch.stop)] = False
            relevant |= bool((indices[others] > 0).any())
            irrelevant |= bool((indices[others] == 0).any())
            if relevant and irrelevant:
                return
        if not getattr(self.affinity, "requires_y", True):
            raise ValueError(
                "`affinity` must make some pairs of different samples relevant, and others not. Got "
                f"{self.affinity!r}, with which {'all' if relevant else 'no'} pairs are."
            )
        if relevant:
            raise ValueError(
                "`y` must have at least two classes. Got targets that make every pair of samples relevant. In "
                "cross-validation sorted labels do this: use StratifiedKFold(shuffle=True)."
            )
        raise ValueError(
            "`y` must have at least one class of two samples. Got targets that make no pair of different samples "
            "relevant."
        )


def _part(table: npt.NDArray[Any], rows: Any, columns: Any) -> npt.NDArray[Any]:
    """Some rows and columns of a table; None for all."""
    part = table if rows is None else table[rows]
    return part if columns is None else part[:, columns]


def _read(query_y: Any, database_y: Any, affinity: Any, names: tuple[str, str]) -> tuple[Any, Any, Any]:
    """Targets of both sides as arrays or CSR matrices, and the affinity for "auto"."""
    if isinstance(affinity, type):
        raise TypeError(f"`affinity` must be an instance, {affinity.__name__}(). Got the class itself instead.")
    is_auto = isinstance(affinity, str) and affinity == "auto"
    if not (is_auto or callable(affinity)):
        raise ValueError(
            f"`affinity` must be 'auto' or a callable on targets, see skhash.affinity. Got {affinity!r} instead."
        )
    read = as_labels if is_auto or isinstance(affinity, _OF_LABELS) else as_targets
    targets, others = both(read, query_y, database_y, names)
    return targets, others, _affinity_of(others) if is_auto else affinity


def _affinity_of(y: Any) -> ClassAffinity | SharedLabelsAffinity:
    """Affinity that suits labels; ValueError if they are real values, or an affinity themselves."""
    _check_not_continuous(y)
    if y.ndim == 1 or y.shape[1] == 1:
        return ClassAffinity()
    n, n_labels = y.shape
    if n == n_labels and n > 2:
        remedy = "pass affinity=PrecomputedAffinity(matrix) and y=numpy.arange(n)"
        labels = label_indicator(y).astype(np.int8)
        if abs(labels - labels.T).sum() == 0:
            raise ValueError(f"`y` must hold labels. Got a symmetric {n} x {n} matrix, which is an affinity: {remedy}.")
        warnings.warn(
            f"y is a {n} x {n} matrix and is taken for {n} labels of each sample. If it says which samples are "
            f"relevant to which, {remedy}.",
            UserWarning,
            stacklevel=4,
        )
    return SharedLabelsAffinity()


def _check_not_continuous(y: Any) -> None:
    """Raise ValueError for real-valued targets, which are not labels."""
    if y.dtype.kind in "biuU":
        return
    from sklearn.utils.multiclass import type_of_target

    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind.startswith("continuous"):
        raise ValueError(
            f"`y` must hold class labels or a 0/1 matrix of labels for affinity='auto'. Got {kind!r} values instead. "
            "For other targets pass affinity=DistanceAffinity() or any function of two sets of targets; for a data "
            "set use protocol 'labelme'."
        )


def _class_indices(column: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.unsignedinteger[Any]]]:
    """Classes, ascending if they have an order, and the index of that of each sample, in the smallest type."""
    if column.dtype.kind == "O":
        try:
            classes, codes = np.unique(column, return_inverse=True)
        except TypeError:  # such as members of an Enum
            known: dict[Any, int] = {}
            codes = np.array([known.setdefault(value, len(known)) for value in column], dtype=np.intp)
            classes = column[np.unique(codes, return_index=True)[1]]
    else:
        first, codes = distinct_targets(column)
        classes = column[first]
    return classes, codes.astype(np.min_scalar_type(len(classes)))


def _one_hot(codes: npt.NDArray[Any], n: int) -> npt.NDArray[np.float64]:
    """Matrix of n columns with a 1 in the column of each row."""
    return np.asarray(codes[:, None] == np.arange(n), dtype=np.float64)


def _checked_levels(affinity: Any, a: Any, b: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Indices of the levels of a callable of the user, and the levels; ValueError if they are invalid."""
    values = numeric(affinity(a, b), "affinity(y_a, y_b)")
    shape = (a.shape[0], b.shape[0])
    if values.shape != shape:
        raise ValueError(f"`affinity` must return levels of shape {shape}. Got shape {values.shape} instead.")
    can_occur = values
    if hasattr(affinity, "possible_levels"):
        can_occur = numeric(affinity.possible_levels(a, b), "affinity.possible_levels(y_a, y_b)")
    levels = np.union1d([0], checked_levels(can_occur, "`affinity`"))
    indices = level_indices(values, levels)
    # the kernels trust these indices: one outside the levels would write outside the counts
    if indices.max(initial=0) >= len(levels) or (levels[indices] != values).any():
        raise ValueError(f"`affinity` must return levels among its possible_levels, {levels}. Got other levels.")
    return indices, levels


def label_matrix(affinity: Callable[[Any, Any], Any], y: Any) -> npt.NDArray[np.float64]:
    """Labels behind an affinity as a 0/1 matrix, see :meth:`Relevance.labels`.

    Parameters
    ----------
    affinity : callable
        A ClassAffinity or a SharedLabelsAffinity.
    y : array-like of shape (n,) or (n, n_labels)
        Its targets.

    Returns
    -------
    ndarray of shape (n, n_labels), float64
        1 where a sample has a label; the labels of classes are the classes, ascending.

    Raises
    ------
    ValueError
        If the affinity is of another kind, since not every affinity comes from labels.

    Examples
    --------
    >>> from skhash.affinity import ClassAffinity, label_matrix
    >>> label_matrix(ClassAffinity(), ["dog", "cat", "dog"])
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """
    return Relevance.of(y, affinity).labels()
