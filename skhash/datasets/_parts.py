"""Indices of the parts of a split: queries, database and training samples."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from skhash.affinity._labels import label_indicator
from skhash.affinity._targets import as_labels
from skhash.datasets import _draws
from skhash.datasets.protocols import Protocol


class Drawn(NamedTuple):
    """Indices of the samples of each part, and of the training samples in the database."""

    query: _draws.Indices
    database: _draws.Indices
    train: _draws.Indices
    train_index: _draws.Indices


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
    draw_train = _draws.first if n_train == len(database) else protocol.draw_train
    train_index = draw_train(groups[database], n_train, rng)
    return Drawn(query, database, database[train_index], train_index)


def _draw_queries(
    groups: _draws.Indices, protocol: Protocol, rng: Any, marked: Any
) -> tuple[_draws.Indices, _draws.Indices, int]:
    """Indices of queries and database, and the number of training samples."""
    n = len(groups)
    n_samples, n_query, n_train = protocol.sizes(n, None if marked is None else int(marked.sum()))
    query = protocol.draw_query(groups, n_query, rng) if marked is None else np.flatnonzero(marked)
    return query, rng.permutation(np.setdiff1d(np.arange(n), query))[: n_samples - n_query], n_train


def _draw_unseen(classes: _draws.Indices, y: Any, protocol: Protocol, rng: Any, marked: Any) -> Drawn:
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
    labels: npt.NDArray[Any] = label_indicator(y).toarray() if issparse(y) else y
    if labels.ndim != 2 or not np.isin(labels, (0, 1)).all():
        raise ValueError(
            f"`y` must be a 0/1 matrix of labels for protocol {protocol.name!r}. Got shape {labels.shape} instead."
        )
    return labels


def _class_indices(y: Any, n: int) -> _draws.Indices:
    """Class of each sample as 0, 1, ...; all zero if `y` does not hold one label per sample."""
    if np.shape(y) not in ((n,), (n, 1)):
        return np.zeros(n, dtype=np.int64)
    return np.unique(np.ravel(y), return_inverse=True)[1]
