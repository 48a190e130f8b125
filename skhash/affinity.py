"""Affinities: which rows are relevant to which, and how much.

An affinity is a callable on *rows*: ``affinity(y_a, y_b)`` gives the levels, a
matrix (len a, len b) of numbers >= 0, where 0 means irrelevant. Any function of
that form will do. The classes here add what a function cannot say: whether they
need a target (`requires_y`), what they learn from the training rows (`fit`),
and which levels can occur (`possible_levels`).
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from skhash._targets import n_rows
from skhash.codes import is_count


@dataclass(frozen=True)
class ClassAffinity:
    """Level 1 for rows of the same class, 0 otherwise.

    Examples
    --------
    >>> from skhash.affinity import ClassAffinity
    >>> ClassAffinity()(["cat", "dog"], ["dog", "dog", "cat"])
    array([[0, 0, 1],
           [1, 1, 0]], dtype=uint8)
    """

    requires_y = True

    def fit(self, y):
        """Learn nothing; return the affinity itself."""
        return self

    def possible_levels(self, y_a, y_b):
        """Levels that can occur, ascending: 0 and 1."""
        return np.array([0, 1])

    def __call__(self, y_a, y_b):
        """Levels of all pairs, uint8 of shape (len a, len b)."""
        y_a, y_b = _column(y_a), _column(y_b)
        kinds = _kinds_of_classes(y_a) | _kinds_of_classes(y_b)
        if len(kinds) > 1:
            raise ValueError(f"y holds {' and '.join(sorted(kinds))} on its two sides; classes of one kind are wanted.")
        return (y_a[:, None] == y_b[None, :]).astype(np.uint8)


@dataclass(frozen=True)
class SharedLabelsAffinity:
    """Level = the number of labels that two multi-label rows share.

    Parameters
    ----------
    binary : bool, default=False
        True gives level 1 for one shared label or more.

    Examples
    --------
    >>> from skhash.affinity import SharedLabelsAffinity
    >>> SharedLabelsAffinity()([[1, 1, 0]], [[1, 1, 1], [0, 1, 0], [0, 0, 1]])
    array([[2, 1, 0]])
    """

    binary: bool = False
    requires_y = True

    def fit(self, y):
        """Learn nothing; return the affinity itself."""
        return self

    def possible_levels(self, y_a, y_b):
        """Levels that can occur, ascending: 0 to the most labels of any row."""
        most = min(int(_indicator(y).sum(axis=1).max()) for y in (y_a, y_b))
        return np.arange((1 if self.binary else most) + 1)

    def __call__(self, y_a, y_b):
        """Levels of all pairs, int64 of shape (len a, len b)."""
        a, b = _indicator(y_a), _indicator(y_b)
        if a.shape[1] != b.shape[1]:
            raise ValueError(f"the two sides have {a.shape[1]} and {b.shape[1]} labels; the same labels are wanted.")
        # float32 products go through BLAS and are exact far beyond any number of labels
        shared = a.astype(np.float32) @ b.astype(np.float32).T
        shared = np.asarray(shared if isinstance(shared, np.ndarray) else shared.toarray()).astype(np.int64)
        return np.minimum(shared, 1) if self.binary else shared


@dataclass(frozen=True, eq=False)
class DistanceAffinity:
    """Levels from Euclidean distances: the nearest pairs get the highest level.

    The distance thresholds are percentiles of the pairwise distances of the
    training rows; `fit` returns a copy that holds them. This is the LabelMe
    supervision of He et al. (CVPR 2018, section 5): the nearest 5, 1, 0.2 and
    0.1 % of the training pairs get the levels 1, 2, 5, 10.

    Parameters
    ----------
    percentiles : tuple of float, default=(5, 1, 0.2, 0.1)
        Shares of the nearest training pairs, in percent, descending.
    levels : tuple of float, default=(1, 2, 5, 10)
        Level of each share, ascending.
    max_samples : int, default=5000
        At most that many training rows, evenly spaced, give the percentiles.
    thresholds : ndarray of shape (n_levels,), default=None
        Distance that ends each level, descending; learned by `fit` when None.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.affinity import DistanceAffinity
    >>> rows = np.arange(6.0)[:, None]
    >>> affinity = DistanceAffinity(percentiles=(60, 30), levels=(1, 2)).fit(rows)
    >>> affinity(rows[:1], rows)
    array([[2., 2., 1., 0., 0., 0.]])
    """

    percentiles: tuple = (5, 1, 0.2, 0.1)
    levels: tuple = (1, 2, 5, 10)
    max_samples: int = 5000
    thresholds: np.ndarray | None = None
    requires_y = False

    def __post_init__(self):
        p, v = np.asarray(self.percentiles, dtype=float), np.asarray(self.levels, dtype=float)
        if p.ndim != 1 or p.shape != v.shape or len(p) == 0:
            raise ValueError(f"percentiles and levels have shapes {p.shape} and {v.shape}; one level a percentile.")
        if (np.diff(p) >= 0).any() or (np.diff(v) <= 0).any() or p[-1] <= 0 or p[0] > 100 or v[0] <= 0:
            raise ValueError(
                "percentiles must descend within (0, 100] and levels ascend above 0; "
                f"got {self.percentiles} and {self.levels}."
            )
        if not is_count(self.max_samples) or self.max_samples < 2:
            raise ValueError(f"max_samples={self.max_samples!r}; an integer of at least 2 is wanted.")
        if self.thresholds is not None:
            t = np.asarray(self.thresholds, dtype=float)
            if t.shape != v.shape or not np.isfinite(t).all() or (np.diff(t) > 0).any() or t[-1] < 0:
                raise ValueError(
                    f"thresholds={self.thresholds}; {len(v)} finite distances, one a level, descending, are wanted."
                )

    def fit(self, y):
        """Return a copy that holds the distance percentiles of the rows of `y`."""
        if self.thresholds is not None:
            return self
        rows = _real_rows(y)
        if len(rows) < 2:
            raise ValueError(f"y has {len(rows)} row; DistanceAffinity learns its thresholds from at least 2.")
        rows = rows[:: -(-len(rows) // self.max_samples)]
        nearest = _euclidean(rows, rows)[np.triu(np.ones((len(rows), len(rows)), dtype=bool), k=1)]
        return replace(self, thresholds=np.percentile(nearest, self.percentiles))

    def possible_levels(self, y_a, y_b):
        """Levels that can occur, ascending: 0 and the given ones."""
        return np.array([0.0, *self.levels])

    def __call__(self, y_a, y_b):
        """Levels of all pairs, float64 of shape (len a, len b)."""
        if self.thresholds is None:
            raise ValueError("DistanceAffinity holds no thresholds: call its fit with the training rows first.")
        distances = _euclidean(_real_rows(y_a), _real_rows(y_b))
        # the number of thresholds that a distance stays under is the index of its level
        # a distance that equals a threshold stays under it, however a block of distances was rounded
        thresholds = np.sort(self.thresholds) * (1 + 1e-9)
        index = len(thresholds) - np.searchsorted(thresholds, distances, side="left")
        return self.possible_levels(y_a, y_b)[index]


class PrecomputedAffinity:
    """Levels looked up in a matrix; the targets are row numbers of that matrix.

    Pass ``y = numpy.arange(n)``: row numbers survive every cross-validation
    splitter, which a matrix does not. The matrix is never copied: `clone` and
    `deepcopy` return the object itself.

    Parameters
    ----------
    matrix : array-like or sparse matrix of shape (n, n)
        Levels >= 0.

    Examples
    --------
    >>> from skhash.affinity import PrecomputedAffinity
    >>> PrecomputedAffinity([[1, 0], [0, 1]])([1], [0, 1])
    array([[0, 1]])
    """

    requires_y = True

    def __init__(self, matrix):
        self.matrix = matrix.tocsr() if sparse.issparse(matrix) else np.asarray(matrix)
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            raise ValueError(f"matrix has shape {self.matrix.shape}; a square matrix of levels is wanted.")
        stored = self.matrix.data if sparse.issparse(matrix) else self.matrix
        self._levels = np.union1d([0], _check_levels(stored, "PrecomputedAffinity's matrix"))

    def __repr__(self):
        return f"PrecomputedAffinity({self.matrix.shape[0]} rows)"

    def __deepcopy__(self, memo):
        return self

    def __sklearn_clone__(self):
        return self

    def fit(self, y):
        """Learn nothing; return the affinity itself."""
        return self

    def possible_levels(self, y_a, y_b):
        """Levels that can occur, ascending: those of the matrix, and 0."""
        return self._levels

    def __call__(self, y_a, y_b):
        """Levels of all pairs, (len a, len b)."""
        a, b = self._row_numbers(y_a), self._row_numbers(y_b)
        if sparse.issparse(self.matrix):
            return self.matrix[a][:, b].toarray()
        return self.matrix[np.ix_(a, b)]

    def _row_numbers(self, y):
        rows = _column(y)
        n = self.matrix.shape[0]
        if rows.dtype.kind not in "iu" or (len(rows) and (rows.min() < 0 or rows.max() >= n)):
            raise ValueError(f"y must hold row numbers 0 to {n - 1} of the affinity matrix, as numpy.arange(n) does.")
        return rows


def resolve_affinity(affinity, y):
    """Turn ``affinity="auto"`` into the affinity that fits the targets.

    Parameters
    ----------
    affinity : "auto" or callable
        A callable is returned as it is.
    y : array-like of shape (n,) or (n, n_labels)
        Class labels, or a 0/1 matrix of labels.

    Returns
    -------
    callable
        ClassAffinity, SharedLabelsAffinity, or `affinity` itself.

    Raises
    ------
    ValueError
        If `affinity` is unknown, or `y` is neither of the two kinds.

    Examples
    --------
    >>> from skhash.affinity import resolve_affinity
    >>> resolve_affinity("auto", [[0, 1], [1, 1], [1, 0]])
    SharedLabelsAffinity(binary=False)
    """
    if isinstance(affinity, type):
        raise TypeError(f"affinity={affinity.__name__} is a class; an instance, {affinity.__name__}(), is wanted.")
    if callable(affinity):
        return affinity
    if not isinstance(affinity, str) or affinity != "auto":
        raise ValueError(f"affinity={affinity!r}: 'auto' or a callable on rows is wanted, see skhash.affinity.")
    if y is None:
        raise ValueError("y is None, and affinity='auto' needs class labels or a 0/1 matrix of labels.")
    rows = y if sparse.issparse(y) else np.asarray(y)
    _check_labels(rows)
    if rows.ndim == 1 or rows.shape[1] == 1:
        return ClassAffinity()
    rows = _indicator(rows)
    n, m = rows.shape
    if n == m and n > 2:
        wanted = "affinity=PrecomputedAffinity(matrix) and y=numpy.arange(n)"
        if abs(rows - rows.T).sum() == 0:
            raise ValueError(f"y is a symmetric {n} x {n} matrix, an affinity rather than labels. Pass {wanted}.")
        warnings.warn(
            f"y is a {n} x {n} matrix and is taken for {n} labels of each row. If it says which rows are relevant to "
            f"which, pass {wanted}.",
            UserWarning,
            stacklevel=2,
        )
    return SharedLabelsAffinity()


def fit_affinity(affinity, y):
    """Let an affinity learn from the training rows, where it can.

    Parameters
    ----------
    affinity : callable
        An affinity; one with a `fit` method learns, a plain function does not.
    y : array-like of shape (n, ...)
        Target rows of the training set.

    Returns
    -------
    callable
        The affinity to use; the argument is never changed.

    Examples
    --------
    >>> from skhash.affinity import ClassAffinity, fit_affinity
    >>> fit_affinity(ClassAffinity(), [0, 1])
    ClassAffinity()
    """
    return affinity.fit(y) if hasattr(affinity, "fit") else affinity


def level_indices(affinity, y_a, y_b):
    """Compute the levels of all pairs as indices into the levels that occur.

    Parameters
    ----------
    affinity : callable
        Maps two sets of rows to levels.
    y_a, y_b : array-like of shape (len a, ...) and (len b, ...)
        Target rows.

    Returns
    -------
    indices : ndarray of shape (len a, len b), dtype uint32
        ``levels[indices]`` are the levels.
    levels : ndarray of shape (n_levels,)
        Ascending, the first one 0.

    Raises
    ------
    ValueError
        If the affinity returns another shape, or levels below 0 or not finite.

    Examples
    --------
    >>> from skhash.affinity import level_indices
    >>> level_indices(lambda a, b: [[0.0, 2.5]], [1], [2, 3])
    (array([[0, 1]], dtype=uint32), array([0. , 2.5]))
    """
    values = np.asarray(affinity(y_a, y_b))
    shape = (n_rows(y_a), n_rows(y_b))
    if values.shape != shape:
        raise ValueError(
            f"affinity returned shape {values.shape} for {shape[0]} and {shape[1]} rows; {shape} is wanted."
        )
    if hasattr(affinity, "possible_levels"):
        levels = np.union1d([0], affinity.possible_levels(y_a, y_b))
    else:
        levels = np.union1d([0], _check_levels(values, "affinity"))
    whole = values.dtype.kind in "bui" and np.array_equal(levels, np.arange(len(levels)))
    indices = (values if whole else np.searchsorted(levels, values)).astype(np.uint32)
    # the kernels trust these indices: one outside the levels would write outside the counts
    if indices.max(initial=0) >= len(levels) or (not whole and (levels[indices] != values).any()):
        raise ValueError(f"affinity gives levels other than its possible_levels, {levels}.")
    return indices, levels


def label_matrix(affinity, y):
    """Write the labels behind an affinity as a 0/1 matrix, for methods that regress on labels.

    Parameters
    ----------
    affinity : callable
        A ClassAffinity or a SharedLabelsAffinity.
    y : array-like of shape (n,) or (n, n_labels)
        Its target rows.

    Returns
    -------
    ndarray of shape (n, n_labels), float64
        1 where a row has a label; the labels of classes are the classes, ascending.

    Raises
    ------
    ValueError
        If the affinity is of another kind: not every relation of rows comes from labels.

    Examples
    --------
    >>> from skhash.affinity import ClassAffinity, label_matrix
    >>> label_matrix(ClassAffinity(), ["dog", "cat", "dog"])
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """
    if isinstance(affinity, ClassAffinity):
        classes, group = np.unique(_column(y), return_inverse=True)
        return np.eye(len(classes))[group]
    if isinstance(affinity, SharedLabelsAffinity):
        labels = _indicator(y)
        return np.asarray(labels.toarray() if sparse.issparse(labels) else labels, dtype=np.float64)
    raise ValueError(
        f"affinity={affinity!r} gives no labels to learn from; 'auto', ClassAffinity() or SharedLabelsAffinity() is "
        "wanted, with class labels or a 0/1 matrix of labels as y."
    )


def _check_labels(y):
    if getattr(y, "dtype", np.dtype(object)).kind in "biuU":
        return
    from sklearn.utils.multiclass import type_of_target

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")
        kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind.startswith("continuous"):
        raise ValueError(
            f"y is of kind {kind!r}, and affinity='auto' compares class labels or a 0/1 matrix of labels. For other "
            "targets pass affinity=DistanceAffinity() or any function of two sets of rows of y; for a data set take "
            "protocol 'labelme'."
        )


def _column(y):
    y = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y has rows of shape {y.shape[1:]}; one value a row, y of shape (n,), is wanted.")
    return y


_KINDS = dict.fromkeys("biuf", "numbers") | {"U": "text", "S": "bytes"}


def _kinds_of_classes(y):
    """What classes are: numbers, text, ...; arrays of objects, as pandas makes them, hold several kinds."""
    examples = {type(value): value for value in y} if y.dtype.kind == "O" else {y.dtype.type: y}
    floats = np.asarray([v for v in y if isinstance(v, float | np.floating)]) if y.dtype.kind == "O" else y
    if {"NoneType", "NAType"} & {kind.__name__ for kind in examples} or (
        floats.dtype.kind == "f" and not np.isfinite(floats).all()
    ):
        raise ValueError("y holds None, NaN or infinity; a class for each row is wanted.")
    kinds = {np.asarray(value).dtype.kind for value in examples.values()}
    return {_KINDS.get(kind, f"type {kind!r}") for kind in kinds}


def _indicator(y):
    rows = y if sparse.issparse(y) else np.asarray(y)
    stored = y.data if sparse.issparse(y) else np.asarray(y)
    if rows.ndim != 2 or stored.dtype.kind not in "biuf" or not ((stored == 0) | (stored == 1)).all():
        raise ValueError(
            f"y has rows of shape {rows.shape[1:]}, type {stored.dtype}, and is no 0/1 matrix of labels (n, n_labels), "
            "as SharedLabelsAffinity wants."
        )
    return rows.astype(np.int64) if stored.dtype.kind == "b" else rows


def _real_rows(y):
    rows = np.asarray(y, dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError(f"DistanceAffinity wants finite rows of shape (n, n_features); got shape {rows.shape}.")
    return rows


def _euclidean(rows_a, rows_b):
    from sklearn.metrics.pairwise import euclidean_distances

    centre = rows_b.mean(axis=0)  # |a|^2 + |b|^2 - 2 a.b loses the digits of rows that are far from the origin
    return euclidean_distances(rows_a - centre, rows_b - centre)


def _check_levels(values, name):
    values = np.unique(values)
    if len(values) and not (np.isfinite(values).all() and values[0] >= 0):
        raise ValueError(f"{name} gives levels from {values[0]} to {values[-1]}; finite levels >= 0 are wanted.")
    return values
