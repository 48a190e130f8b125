"""LSH for cosine similarity: signs of random projections (Charikar, STOC 2002).

h_k(x) = sign(<w_k, x - mean>), w_k ~ N(0, I). Two samples agree on a bit with
probability 1 - angle / pi. For a sparse x the mean is subtracted after the product,
<w_k, x> - <w_k, mean>, so that x stays sparse.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash.functions import LinearFunction
from skhash.hashers.shallow.linear import LinearHasher, spread


class LSHHasher(LinearHasher):
    """Signs of random projections of the centered samples.

    X may be a sparse matrix or array, which is never made dense.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant. Only :meth:`score` uses it.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the projections.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    scale_ : ndarray of shape (n_features,)
        Standard deviation of each feature in a thousand training samples.
    projection_ : ndarray of shape (n_features, nbits)
        The random directions.
    affinity_ : callable or None
        The fitted affinity, None if `fit` had no targets.
    function_ : LinearFunction
        What was learned, see :mod:`skhash.functions`.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
    n_features_in_ : int
        Number of features seen during `fit`.

    References
    ----------
    Charikar: Similarity estimation techniques from rounding algorithms. STOC 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import LSHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> LSHHasher(nbits=12, random_state=0).fit(X).transform(X[:1])
    array([[1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0]], dtype=uint8)
    """

    _takes_sparse = True

    def _learn(self, X: Any, relevance: Any, rng: np.random.RandomState) -> LinearFunction:
        mean = _sparse_means(X) if sparse.issparse(X) else X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        projection = self._learn_map(X, relevance, rng).astype(X.dtype, copy=False)
        return LinearFunction(mean, projection, spread=spread(X))

    def _learn_map(self, X: Any, relevance: Any, rng: np.random.RandomState) -> npt.NDArray[Any]:
        return rng.standard_normal((X.shape[1], self.nbits))

    def _prefix_is_as_good(self, n_samples: int) -> bool:
        return True


def _sparse_means(X: Any) -> npt.NDArray[Any]:
    """Mean of each feature of sparse samples, summed in double precision."""
    sums = np.bincount(X.indices, weights=X.data, minlength=X.shape[1])
    means: npt.NDArray[Any] = (sums / X.shape[0]).astype(X.dtype)
    return means
