r"""QueryAdapter: vectors of a new model as queries, for items that have codes of an old one.

Items have codes b of -1 and 1, which a hasher has made from vectors of the old model. Of some items the vectors x of
the new model are known, too. A ridge regression reconstructs them from the codes, at any number of dimensions:

    x ~ D b + o

A query q of the new model has with an item about the inner product

    <q, x> ~ <D^T q, b> + <q, o>

The first term is an inner product with the bits, and the second one is the same for all items. So D^T q is a real query
for the codes. For the Euclidean distance |x|^2 / 2 is reconstructed, too, and subtracted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import RidgeCV

from skhash._compat import StrOptions, fit_context
from skhash._validation import VECTOR_METRICS, Array, VectorMetric, check_values
from skhash.base import BaseHasher
from skhash.codes.bits import as_packed, signs, unpack
from skhash.functions import DenseFunction
from skhash.functions.linear import read_samples
from skhash.unwrap import check_has_real_queries, find_hasher

_PENALTIES = 10.0 ** np.arange(-4, 2)  # of the ridge regression, per pair


@dataclass(frozen=True, eq=False, repr=False)
class AdapterFunction(DenseFunction):
    """A `DenseFunction` of queries, with the fingerprint of the hasher that has made the codes of the items.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.neighbors.query_adapter import AdapterFunction
    >>> layer = np.eye(2, dtype=np.float32), np.zeros(2, np.float32)
    >>> function = AdapterFunction(
    ...     np.zeros(2, np.float32), (layer,), fingerprint="8729583a872e085a"
    ... )
    >>> function.arrays()["fingerprint"].dtype
    dtype('uint8')
    """

    fingerprint: str = ""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays by name, see :meth:`~skhash.functions.HashFunction.arrays`."""
        return super().arrays() | {"fingerprint": np.frombuffer(bytes.fromhex(self.fingerprint), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], **given: Any) -> Self:
        """Function of the arrays of a file, see :meth:`~skhash.functions.HashFunction.from_arrays`."""
        fingerprint = arrays.get("fingerprint", np.empty(0))
        Array("8", "u").check("function_.fingerprint", fingerprint, {})
        function = super().from_arrays({name: value for name, value in arrays.items() if name != "fingerprint"})
        return replace(function, fingerprint=bytes(fingerprint.tolist()).hex())


class QueryAdapter(BaseHasher):
    """Queries of a new model for items whose codes an old one has made, so that no item is encoded again.

    An embedding model is replaced, and a store is full of codes of the old one. Embed a sample of the items, some
    thousand, with the new model, of any number of dimensions. The adapter learns from these vectors and the stored
    codes of the same items. Then it makes real queries for the codes of all items, from vectors of the new model.

    Parameters
    ----------
    metric : "cosine", "inner" or "euclidean", default="cosine"
        Which neighbors of the new vectors a search should find: those with the largest cosine or inner product, or with
        the smallest Euclidean distance. With "cosine" all vectors are divided by their norm.

    Attributes
    ----------
    function_ : HashFunction
        The learned function.
    n_features_in_ : int
        Number of dimensions of the new model.
    alpha_ : float
        Penalty of the ridge regression, for each pair. It is chosen by cross-validation.

    See Also
    --------
    HammingNeighbors.with_queries : An index of the same items, for the queries of an adapter.
    order_shortlist : Takes an adapter as `hasher`, for the items that a store has returned.

    Notes
    -----
    `fingerprint_` is that of the hasher that made the codes, so that its stores and indexes accept the adapter.
    `transform` and `encode` return codes of queries, for a store that compares codes. An adapter makes no codes of
    items: encode new items with the old model and its hasher. :ref:`new_model` says how much an adapter finds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import EmbeddingHasher
    >>> from skhash.neighbors import HammingNeighbors, QueryAdapter
    >>> X, _ = load_digits(return_X_y=True)
    >>> old, new = X[:, :48], X[:, 16:]  # vectors of two models
    >>> hasher = EmbeddingHasher(64, n_epochs=2, random_state=0)
    >>> index = HammingNeighbors(hasher, query="real").fit(old[100:])
    >>> pairs = new[100:1000], index.codes_[:900]
    >>> adapter = QueryAdapter().fit(*pairs, hasher=index.hasher_)
    >>> search = index.with_queries(adapter)
    >>> search.kneighbors(new[:100], 3, return_distance=False).shape
    (100, 3)
    """

    _parameter_constraints = {"metric": [StrOptions(set(VECTOR_METRICS))]}
    _encodes_items = False
    alpha_: float

    def __init__(self, *, metric: VectorMetric = "cosine") -> None:
        self.metric = metric

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, hasher: Any) -> Self:  # type: ignore[override]
        """Learn queries from pairs of new vectors and codes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Vectors of the new model, of some of the items. A few thousand are enough.
        y : array-like of shape (n_samples, ceil(nbits / 8)) or (n_samples, nbits), uint8
            Codes of the same items, as they are stored: packed, or their bits.
        hasher : estimator
            The fitted hasher that has made the codes, or a Pipeline that ends in one. Only its number of bits and its
            fingerprint are used.

        Returns
        -------
        self : object
            The fitted adapter.

        Raises
        ------
        ValueError
            If `X` or `y` is invalid, or they do not fit each other or the hasher. The previous fit is kept.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash import LSHHasher
        >>> from skhash.neighbors import QueryAdapter
        >>> rng = np.random.default_rng(0)
        >>> old = rng.normal(size=(100, 4))
        >>> hasher, new = LSHHasher(16, random_state=0).fit(old), old @ rng.normal(size=(4, 6))
        >>> QueryAdapter().fit(new, hasher.encode(old), hasher=hasher).n_features_in_
        6
        """
        check_has_real_queries(hasher)
        hasher = find_hasher(hasher)
        fingerprint = hasher.fingerprint_
        with self._restored_on_failure():
            X = check_values(self._check_input(X, reset=True, ensure_min_samples=2), fit=True)
            packed, nbits = as_packed(y, hasher._n_features_out, "y")
            if len(packed) != len(X):
                raise ValueError(
                    f"`y` must have one code per sample. Got {len(packed)} codes for {len(X)} samples instead."
                )
            self.affinity_ = self.database_ = None
            with self._environment():
                self.function_ = self._learn_queries(X, signs(unpack(packed, nbits)), fingerprint)
        return self

    def _learn_queries(self, X: Any, codes: npt.NDArray[np.float64], fingerprint: str) -> AdapterFunction:
        """Function of queries from vectors and their codes of -1 and 1, and the fingerprint of the hasher."""
        samples = read_samples(X, None, self.metric == "cosine").astype(np.float64)
        mean = samples.mean(axis=0)
        centered = samples - mean
        scale = max(float(np.sqrt(np.mean(centered**2))), 1e-30)
        targets = centered / scale
        if self.metric == "euclidean":
            targets = np.hstack([targets, np.square(targets).sum(axis=1, keepdims=True) / 2])
        model = RidgeCV(len(X) * _PENALTIES).fit(codes, targets)
        self.alpha_ = float(model.alpha_) / len(X)
        decoder = model.coef_[: len(mean)]
        bias = -model.coef_[-1] if self.metric == "euclidean" else mean @ decoder / scale
        layer = (decoder / scale).astype(np.float32), bias.astype(np.float32)
        return AdapterFunction(
            mean.astype(np.float32),
            (layer,),
            unit_norm=self.metric == "cosine",
            spread=np.float32(scale),
            fingerprint=fingerprint,
        )

    def prefix(self, nbits: int) -> Self:
        """Not for adapters: fit one to the first bits of the codes.

        Parameters
        ----------
        nbits : int
            Number of bits.

        Raises
        ------
        ValueError
            Always.

        Examples
        --------
        >>> from skhash.neighbors import QueryAdapter
        >>> QueryAdapter().prefix(8)
        Traceback (most recent call last):
        ValueError: An adapter has the bits of its codes. Fit another one with hasher.prefix(8) and its codes.
        """
        raise ValueError(
            f"An adapter has the bits of its codes. Fit another one with hasher.prefix({nbits}) and its codes."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
