"""The neighbors of samples as a sparse graph, as a replacement of scikit-learn's KNeighborsTransformer."""

from typing import Any, Literal

from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skhash._compat import StrOptions
from skhash._validation.options import VectorMetric
from skhash.neighbors._approximate import Backend
from skhash.neighbors.hamming_neighbors import HammingNeighbors


class HammingNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, HammingNeighbors):
    """Sparse graph of the nearest neighbors among binary codes.

    It replaces :class:`sklearn.neighbors.KNeighborsTransformer` before estimators that
    accept a graph, such as ``DBSCAN(metric="precomputed")``.

    Parameters
    ----------
    hasher : estimator, default=None
        A hasher, or a Pipeline that ends in one; None: X holds bits or packed codes.
    mode : "distance" or "connectivity", default="distance"
        Values of the graph: the distance, or 1. As in scikit-learn, "distance" has one more
        neighbor, because each sample of fit is its own first neighbor.
    n_neighbors : int, default=10
        Number of neighbors.
    query : "code" or "real", default="code"
        As in :class:`HammingNeighbors`, like all other parameters.
    candidates : int, default=None
        Number of items that a first stage picks.
    rerank : "cosine", "euclidean", "inner" or None, default=None
        Distance of the original vectors that ranks the candidates in a last stage.
    nbits : int, default=None
        Number of bits of packed codes, for ``hasher=None``.
    backend : "exact", "faiss-hnsw", "faiss-ivf" or "faiss-multihash", default="exact"
        Exact search, or an approximate one by an index of FAISS.
    n_jobs : int, default=None
        Number of threads.

    Attributes
    ----------
    hasher_ : estimator or None
        The fitted hasher.
    n_samples_fit_ : int
        Number of items, the columns of the graph.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash.neighbors import HammingNeighborsTransformer
    >>> X, _ = load_digits(return_X_y=True)
    >>> graph = HammingNeighborsTransformer(
    ...     ITQHasher(16, random_state=0), n_neighbors=5
    ... ).fit_transform(X)
    >>> graph.shape, graph.nnz / len(X)
    ((1797, 1797), 6.0)
    """

    _parameter_constraints: dict[str, Any] = HammingNeighbors._parameter_constraints | {
        "mode": [StrOptions({"connectivity", "distance"})]
    }

    def __init__(
        self,
        hasher: Any = None,
        *,
        mode: Literal["distance", "connectivity"] = "distance",
        n_neighbors: int = 10,
        query: Literal["code", "real"] = "code",
        candidates: int | None = None,
        rerank: VectorMetric | None = None,
        nbits: int | None = None,
        backend: Backend = "exact",
        n_jobs: int | None = None,
    ) -> None:
        self.mode = mode
        super().__init__(
            hasher,
            n_neighbors=n_neighbors,
            query=query,
            candidates=candidates,
            rerank=rerank,
            nbits=nbits,
            backend=backend,
            n_jobs=n_jobs,
        )

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Graph of the neighbors of samples among the items of fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        csr_matrix of shape (n_samples, n_samples_fit)
            The graph.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighborsTransformer
        >>> transformer = HammingNeighborsTransformer(n_neighbors=1, mode="connectivity").fit(
        ...     [[0, 0], [1, 1]]
        ... )
        >>> transformer.transform([[0, 1]]).toarray()
        array([[1., 0.]])
        """
        check_is_fitted(self)
        return self.kneighbors_graph(X, self.n_neighbors + (self.mode == "distance"), self.mode)

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_
