"""Split arrays into queries, database and training samples."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from skhash._targets import take_targets
from skhash._validation.targets import labels_for_affinity
from skhash.affinity import ClassAffinity, SharedLabelsAffinity, fit_affinity, resolve_affinity
from skhash.datasets import _draws
from skhash.datasets.protocols import Protocol, check_protocol

if TYPE_CHECKING:
    from sklearn.utils import Bunch

_RULES = {ClassAffinity: "same class", SharedLabelsAffinity: "number of shared labels"}


def split(
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    protocol: str | Protocol = "holdout",
    random_state: int | np.random.RandomState | None = 0,
    *,
    scale: npt.ArrayLike = 1.0,
    name: str = "data",
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

    Returns
    -------
    Bunch
        ``X_query``, ``X_database`` and ``X_train`` (float32), ``y_query``,
        ``y_database`` and ``y_train``; ``affinity`` (fitted on the training
        samples); ``train_index``, the indices of the training samples in the
        database; ``name``, ``protocol`` (a `Protocol`) and ``DESCR``, one
        sentence to print beside the results. The database is in random order.
        If all of it is for training, ``X_train`` is ``X_database``; under
        "labelme" and "neighbors" each ``y_...`` is the ``X_...`` itself.

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
    X, factor = check_arrays(X, y, scale)
    return split_arrays(X, y, factor, check_protocol(protocol), random_state, name)


def split_arrays(
    X: npt.NDArray[Any],
    y: Any,
    factor: npt.NDArray[np.float32],
    protocol: Protocol,
    random_state: int | np.random.RandomState | None,
    name: str,
) -> "Bunch":
    """Split arrays that :func:`check_arrays` has checked."""
    from sklearn.utils import Bunch, check_random_state

    if y is None and protocol.requires_y:
        raise ValueError(
            f"`y` must be given for protocol {protocol.name!r}. Got None instead; protocol='labelme' "
            "and 'neighbors' need no y."
        )
    if protocol.requires_y and isinstance(protocol.affinity, str):
        labels_for_affinity(y)
    query, database, train = _draw(protocol, X, y, check_random_state(random_state))

    X_query, X_database = _real_values(X, query, factor), _real_values(X, database, factor)
    if protocol.unit_length:
        mean = X_database[train].mean(axis=0, dtype=np.float64)
        X_query -= mean
        X_database -= mean
    if protocol.unit_length or protocol.normalize:
        _to_unit_length(X_query)
        _to_unit_length(X_database)
    X_train = X_database if len(train) == len(database) else X_database[train]

    if protocol.requires_y:
        y_query, y_database, y_train = (take_targets(y, indices) for indices in (query, database, database[train]))
    else:
        y_query, y_database, y_train = X_query, X_database, X_train
    affinity = fit_affinity(resolve_affinity(protocol.affinity, y), y_train)
    affinity(y_query[:1], y_train[:1])  # unsuitable targets fail here, before any training

    sizes = f"{len(query):,} queries against {len(database):,} database samples, {len(train):,} of them for training"
    return Bunch(
        X_train=X_train,
        X_query=X_query,
        X_database=X_database,
        y_train=y_train,
        y_query=y_query,
        y_database=y_database,
        affinity=affinity,
        train_index=train,
        name=name,
        protocol=protocol,
        # saved results are found by this sentence: do not change its words
        DESCR=f"{name}, protocol {protocol.name!r}: {sizes}; {_describe_relevance(protocol, affinity)}.",
    )


def _describe_relevance(protocol: Protocol, affinity: Any) -> str:
    rule = f"relevance = {protocol.relevance or _RULES.get(type(affinity), repr(affinity))}"
    return rule if not protocol.cutoff else f"{rule}; the paper cuts rankings at {protocol.cutoff}"


def check_arrays(X: Any, y: Any, scale: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
    """X and scale as arrays, if they and y are finite and have shapes that fit each other."""
    from sklearn.utils import check_array  # slow to import, and `skhash --help` does without

    if np.ndim(X) < 2:
        raise ValueError(f"`X` must have shape (n_samples, n_features, ...). Got shape {np.shape(X)} instead.")
    X = check_array(X, allow_nd=True, input_name="X")
    if y is not None and np.shape(y)[:1] != (len(X),):
        raise ValueError(
            f"`y` must have one entry for each of the {len(X):,} samples of X. Got shape {np.shape(y)} instead."
        )
    _check_finite("y", y)
    scale = np.asarray(scale, dtype=np.float32)
    if scale.shape not in ((), X.shape[1:]):
        raise ValueError(
            f"`scale` must be a number or an array of shape {X.shape[1:]}. Got shape {scale.shape} instead."
        )
    _check_finite("scale", scale)
    return X, scale


def _check_finite(name: str, values: Any) -> None:
    """Raise ValueError if an array of floats holds NaN or infinity. Other arrays pass."""
    values = values.data if issparse(values) else np.asarray(values)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"`{name}` must be finite. Got {values[~np.isfinite(values)][0]} instead.")


def _draw(
    protocol: Protocol, X: npt.NDArray[Any], y: Any, rng: Any
) -> tuple[_draws.Indices, _draws.Indices, _draws.Indices]:
    """Indices of the queries and of the database in X, and of the training samples in the database."""
    n_samples, n_query, n_train = protocol.sizes(len(X))
    classes = _class_indices(y, len(X))
    query = protocol.draw_query(classes, n_query, rng)
    database = rng.permutation(np.setdiff1d(np.arange(len(X)), query))[: n_samples - n_query]
    draw_train = _draws.first if n_train == len(database) else protocol.draw_train
    return query, database, draw_train(classes[database], n_train, rng)


def _class_indices(y: Any, n: int) -> _draws.Indices:
    """Class of each sample, 0, 1, ...; all zero if `y` does not hold one label per sample."""
    if np.shape(y) not in ((n,), (n, 1)):
        return np.zeros(n, dtype=np.int64)
    return np.unique(np.ravel(y), return_inverse=True)[1]


def _real_values(X: npt.NDArray[Any], indices: _draws.Indices, scale: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    values = X[indices].astype(np.float32, copy=False)
    values *= scale
    return values


def _to_unit_length(values: npt.NDArray[Any]) -> None:
    length = np.linalg.norm(values, axis=1, keepdims=True)
    values /= np.where(length > 0, length, 1)
