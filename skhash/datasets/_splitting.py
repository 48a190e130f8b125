"""Checked arrays, and the parts that a protocol makes of them."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from skhash._validation.numeric import check_not_masked
from skhash.affinity import ClassAffinity, SharedLabelsAffinity, fit_affinity, resolve_affinity
from skhash.affinity._targets import as_targets, check_complete
from skhash.datasets import _draws
from skhash.datasets._parts import Drawn, draw
from skhash.datasets.protocols import Protocol

if TYPE_CHECKING:
    from sklearn.utils import Bunch

_RULES = {ClassAffinity: "same class", SharedLabelsAffinity: "number of shared labels"}


def split_arrays(
    X: npt.NDArray[Any],
    y: Any,
    factor: npt.NDArray[np.float32],
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
    X_query, X_database = _real_values(X, drawn.query, factor), _real_values(X, drawn.database, factor)
    X_train = _real_values(X, drawn.train, factor) if len(drawn.train) > len(drawn.train_index) else None
    parts = [part for part in (X_query, X_database, X_train) if part is not None]
    if protocol.unit_length:
        learned = X_database[drawn.train_index] if X_train is None else X_train
        mean = learned.mean(axis=0, dtype=np.float64)
        for part in parts:
            part -= mean
    if protocol.unit_length or protocol.normalize:
        for part in parts:
            _to_unit_length(part)
    if X_train is None:
        X_train = X_database if len(drawn.train) == len(drawn.database) else X_database[drawn.train_index]
    return as_bunch((X_query, X_database, X_train), y, drawn, protocol, name)


def as_bunch(parts: tuple[Any, Any, Any], y: Any, drawn: Drawn, protocol: Protocol, name: str) -> "Bunch":
    """Bunch of the samples of queries, database and training, with their targets."""
    from sklearn.utils import Bunch

    X_query, X_database, X_train = parts
    if protocol.requires_y:
        y_query, y_database, y_train = (y[indices] for indices in drawn[:3])
    else:
        y_query, y_database, y_train = parts
    affinity = fit_affinity(resolve_affinity(protocol.affinity, y), y_train)
    affinity(y_query[:1], y_train[:1])  # unsuitable targets fail here, before any training

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


def _real_values(X: npt.NDArray[Any], indices: _draws.Indices, scale: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    values = X[indices].astype(np.float32, copy=False)
    values *= scale
    return values


def _to_unit_length(values: npt.NDArray[Any]) -> None:
    length = np.linalg.norm(values, axis=1, keepdims=True)
    values /= np.where(length > 0, length, 1)
