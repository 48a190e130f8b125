"""Split arrays into queries, database and training samples."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from skhash._validation import check_not_masked
from skhash.affinity import ClassAffinity, Relevance, SharedLabelsAffinity
from skhash.affinity.targets import as_labels, as_targets, check_complete
from skhash.datasets.protocols import Indices, Protocol, check_protocol

if TYPE_CHECKING:
    from sklearn.utils import Bunch

_RULES = {ClassAffinity: "same class", SharedLabelsAffinity: "number of shared labels"}


class Drawn(NamedTuple):
    """Indices of the samples of each part, and of the training samples in the database."""

    query: Indices
    database: Indices
    train: Indices
    train_index: Indices


def split(
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    protocol: str | Protocol = "holdout",
    random_state: int | np.random.RandomState | None = 0,
    *,
    scale: npt.ArrayLike = 1.0,
    name: str = "data",
    test: npt.ArrayLike | None = None,
) -> "Bunch":
    """Split arrays into queries, database and training samples by a protocol.

    Parameters
    ----------
    X : array-like of shape (n_samples, ...)
        Features.
    y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
        Class labels or a 0/1 matrix of labels. "labelme" and "neighbors" ignore it.
    protocol : str or Protocol, default="holdout"
        A name in `PROTOCOLS`, or a protocol of your own.
    random_state : int, RandomState instance or None, default=0
        Decides the split. The three random splits of the comparisons are the seeds 0, 1, 2.
    scale : float or array-like of shape (n_features,), default=1.0
        Factor of the stored X, applied to the samples that are used.
    name : str, default="data"
        Name of the data, for ``DESCR``.
    test : array-like of shape (n_samples,), default=None
        Whether each sample is a test sample, for protocols whose queries are these: "s2".

    Returns
    -------
    Bunch
        ``X_query``, ``X_database`` and ``X_train`` (float32), ``y_query``,
        ``y_database`` and ``y_train``; ``affinity`` (fitted on the training
        samples); ``train_index``, the indices of the training samples in the
        database; ``name``, ``protocol`` (a `Protocol`) and ``DESCR``, one
        sentence to print beside the results. The database is in random order.
        If all of it is for training, ``X_train`` is ``X_database``; under
        "labelme" and "neighbors" each ``y_...`` is the ``X_...`` itself. Under
        "unseen" no training sample is in the database, and ``train_index`` is empty.

    Raises
    ------
    ValueError
        If the protocol is unknown, or the data do not suit it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.datasets import split
    >>> data = split(*load_digits(return_X_y=True), "holdout", random_state=1)
    >>> data.X_query.shape, data.X_database.shape
    ((359, 64), (1438, 64))
    """
    X, factors = check_arrays(X, y, scale)
    return split_arrays(X, y, factors, check_protocol(protocol), random_state, name, test)


def check_arrays(X: Any, y: Any, scale: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
    """X and scale as arrays; ValueError unless they and y are finite and have shapes that fit each other."""
    from sklearn.utils import check_array  # slow to import, and `skhash --help` does not need it

    if np.ndim(X) < 2:
        raise ValueError(f"`X` must have shape (n_samples, n_features, ...). Got shape {np.shape(X)} instead.")
    check_not_masked(X, "X")
    X = check_array(X, allow_nd=True, input_name="X")
    if y is not None:
        y = as_targets(y)
        if y.shape[0] != len(X):
            raise ValueError(
                f"`y` must have one entry for each of the {len(X):,} samples of X. Got shape {y.shape} instead."
            )
        check_complete(y)
        _check_finite("y", y)
    scale = np.asarray(scale, dtype=np.float32)
    if scale.shape not in ((), X.shape[1:]):
        raise ValueError(
            f"`scale` must be a number or an array of shape {X.shape[1:]}. Got shape {scale.shape} instead."
        )
    _check_finite("scale", scale)
    if not (scale > 0).all():
        raise ValueError(f"`scale` must be > 0. Got {scale.min()} instead.")
    return X, scale


def _check_finite(name: str, values: Any) -> None:
    """Raise ValueError if an array of floats holds NaN or infinity. Other arrays pass."""
    values = values.data if issparse(values) else np.asarray(values)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"`{name}` must be finite. Got {values[~np.isfinite(values)][0]} instead.")


def split_arrays(
    X: npt.NDArray[Any],
    y: Any,
    factors: npt.NDArray[np.float32],
    protocol: Protocol,
    random_state: int | np.random.RandomState | None,
    name: str,
    test: Any = None,
) -> "Bunch":
    """Bunch of :func:`split`, from arrays that :func:`check_arrays` has checked."""
    if y is None and protocol.requires_y:
        raise ValueError(
            f"`y` must be given for protocol {protocol.name!r}. Got None instead; protocol='labelme' "
            "and 'neighbors' need no y."
        )
    y = None if y is None else as_targets(y)
    drawn = draw(len(X), y, protocol, random_state, test)

    def real_values(indices: Indices) -> npt.NDArray[Any]:
        values = X[indices].astype(np.float32, copy=False)
        values *= factors
        return values

    X_query, X_database = real_values(drawn.query), real_values(drawn.database)
    X_train = X_database if np.array_equal(drawn.train, drawn.database) else real_values(drawn.train)
    mean = X_train.mean(axis=0, dtype=np.float64) if protocol.unit_length else 0
    for values in (X_query, X_database) if X_train is X_database else (X_query, X_database, X_train):
        if protocol.unit_length:
            values -= mean
        if protocol.unit_length or protocol.normalize:
            length = np.linalg.norm(values, axis=1, keepdims=True)
            values /= np.where(length > 0, length, 1)
    return as_bunch((X_query, X_database, X_train), y, drawn, protocol, name)


def as_bunch(parts: tuple[Any, Any, Any], y: Any, drawn: Drawn, protocol: Protocol, name: str) -> "Bunch":
    """Bunch of the samples of queries, database and training, with their targets."""
    from sklearn.utils import Bunch

    X_query, X_database, X_train = parts
    if protocol.requires_y:
        y_query, y_database, y_train = (y[indices] for indices in drawn[:3])
    else:
        y_query, y_database, y_train = parts
    affinity = protocol.affinity if callable(protocol.affinity) else Relevance.of(y, protocol.affinity).affinity
    affinity = Relevance.of(y_train, affinity).affinity
    Relevance.between(y_query[:1], y_train[:1], affinity).levels()  # unsuitable targets fail before any training

    n_query, n_database, n_train, n_within = map(len, drawn)
    of_whom = "of them for training" if n_within == n_train else "training samples of other classes"
    sizes = f"{n_query:,} queries against {n_database:,} database samples, {n_train:,} {of_whom}"
    return Bunch(
        X_train=X_train,
        X_query=X_query,
        X_database=X_database,
        y_train=y_train,
        y_query=y_query,
        y_database=y_database,
        affinity=affinity,
        train_index=drawn.train_index,
        name=name,
        protocol=protocol,
        # stored results are found by this sentence: do not change it
        DESCR=f"{name}, protocol {protocol.name!r}: {sizes}; {_describe_relevance(protocol, affinity)}.",
    )


def _describe_relevance(protocol: Protocol, affinity: Any) -> str:
    rule = f"relevance = {protocol.relevance or _RULES.get(type(affinity), repr(affinity))}"
    return rule if not protocol.cutoff else f"{rule}; the paper cuts rankings at {protocol.cutoff}"


def draw(
    n: int, y: Any, protocol: Protocol, random_state: int | np.random.RandomState | None, test: Any = None
) -> Drawn:
    """Indices of queries, database and training samples among `n` samples."""
    from sklearn.utils import check_random_state

    if protocol.requires_y and isinstance(protocol.affinity, str):
        as_labels(y)
    marked = _marked(test, n, protocol) if protocol.n_query is None else None
    rng = check_random_state(random_state)
    if protocol.unseen:
        return _draw_unseen(_class_indices(y, n), y, protocol, rng, marked)
    groups = _label_matrix(y, protocol) if protocol.by_label else _class_indices(y, n)
    query, database, n_train = _draw_queries(groups, protocol, rng, marked)
    is_whole = n_train == len(database)
    train_index = np.arange(n_train) if is_whole else protocol.draw_train(groups[database], n_train, rng)
    return Drawn(query, database, database[train_index], train_index)


def _draw_queries(groups: Indices, protocol: Protocol, rng: Any, marked: Any) -> tuple[Indices, Indices, int]:
    """Indices of queries and database, and the number of training samples."""
    n = len(groups)
    n_samples, n_query, n_train = protocol.sizes(n, None if marked is None else int(marked.sum()))
    query = protocol.draw_query(groups, n_query, rng) if marked is None else np.flatnonzero(marked)
    return query, rng.permutation(np.setdiff1d(np.arange(n), query))[: n_samples - n_query], n_train


def _draw_unseen(classes: Indices, y: Any, protocol: Protocol, rng: Any, marked: Any) -> Drawn:
    """Indices as of `draw`, with queries and database of classes that the training samples do not have."""
    n_classes = int(classes.max(initial=-1)) + 1
    n_unseen = int(protocol.unseen * n_classes + 0.5)
    if not 2 <= n_unseen <= n_classes - 2:  # a single class makes everything relevant
        raise ValueError(
            f"`y` must hold one class per sample, and enough classes that a share of {protocol.unseen:g} of them makes "
            f"two unseen ones and two others, for protocol {protocol.name!r}. Got shape {np.shape(y)} and {n_classes} "
            f"{'class' if n_classes == 1 else 'classes'} instead."
        )
    is_unseen = np.isin(classes, rng.permutation(n_classes)[:n_unseen])
    unseen, seen = np.flatnonzero(is_unseen), np.flatnonzero(~is_unseen)
    query, database, _ = _draw_queries(classes[unseen], protocol, rng, None if marked is None else marked[unseen])
    others = rng.permutation(seen if marked is None else seen[~marked[seen]])
    if protocol.n_train is not None:
        if protocol.n_train > len(others):
            raise ValueError(
                f"`X` has too few samples for protocol {protocol.name!r}, which trains on {protocol.n_train:,} samples "
                f"of {n_classes - n_unseen} classes. Got {len(others):,} samples of these."
            )
        others = others[protocol.draw_train(classes[others], protocol.n_train, rng)]
    return Drawn(unseen[query], unseen[database], others, np.zeros(0, np.int64))


def _marked(test: Any, n: int, protocol: Protocol) -> npt.NDArray[np.bool_]:
    """Whether each sample is a test sample, of shape (n,); ValueError if `test` does not mark some."""
    marked = np.asarray(test)
    if test is None or marked.shape != (n,) or not np.isin(marked, (0, 1)).all() or not 0 < marked.sum() < n:
        n_marked = f"{np.count_nonzero(marked):,} values that are not 0"
        got = "None" if test is None else f"shape {marked.shape} with {n_marked}"
        raise ValueError(
            f"`test` must mark some of the {n:,} samples as test samples (True or 1) and others not, for protocol "
            f"{protocol.name!r}. Got {got} instead. In an .npz file it is the array named test."
        )
    return marked.astype(bool)


def _label_matrix(y: Any, protocol: Protocol) -> npt.NDArray[Any]:
    labels: npt.NDArray[Any] = Relevance.of(y, SharedLabelsAffinity()).labels() if issparse(y) else y
    if labels.ndim != 2 or not np.isin(labels, (0, 1)).all():
        raise ValueError(
            f"`y` must be a 0/1 matrix of labels for protocol {protocol.name!r}. Got shape {labels.shape} instead."
        )
    return labels


def _class_indices(y: Any, n: int) -> Indices:
    """Class of each sample as 0, 1, ...; all zero if `y` does not hold one label per sample."""
    if np.shape(y) not in ((n,), (n, 1)):
        return np.zeros(n, dtype=np.int64)
    return np.unique(np.ravel(y), return_inverse=True)[1]
