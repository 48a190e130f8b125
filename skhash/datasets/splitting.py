"""Split arrays into queries, database and training samples."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from skhash.datasets._splitting import check_arrays, split_arrays
from skhash.datasets.protocols import Protocol, check_protocol

if TYPE_CHECKING:
    from sklearn.utils import Bunch


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
    X, factor = check_arrays(X, y, scale)
    return split_arrays(X, y, factor, check_protocol(protocol), random_state, name, test)
