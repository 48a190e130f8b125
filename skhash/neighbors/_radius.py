"""Searches within a radius."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash.neighbors._checks import check_mode, checked_radius, graph, n_threads, object_array
from skhash.neighbors._items import with_items_of_now
from skhash.neighbors._stages import Stages


class RadiusMixin:
    """Search for all items within a Hamming distance, for :class:`skhash.neighbors.HammingNeighbors`."""

    ids_: npt.NDArray[np.int64]
    n_samples_fit_: int
    query: str
    rerank: str | None
    n_jobs: int | None

    def _stages(self, X: Any) -> Stages:
        raise NotImplementedError

    def radius_neighbors(
        self, X: Any = None, radius: float = 2, return_distance: bool = True, *, sort_results: bool = False
    ) -> Any:
        """All items within a Hamming distance of queries.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries. None takes the items, each without itself.
        radius : float, default=2
            Largest distance, in bits or in the weights of the hasher.
        return_distance : bool, default=True
            Whether to return distances.
        sort_results : bool, default=False
            Whether to sort by distance; False keeps the order of the index.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of float64 arrays
            Distances. Only with ``return_distance=True``.
        ids : ndarray of shape (n_queries,) of int64 arrays
            Identifiers of the items.

        Raises
        ------
        ValueError
            If ``query="real"`` or `rerank` is set, whose distances are not in bits.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors().fit([[0, 0, 1], [1, 1, 1], [1, 0, 0]]).radius_neighbors(
        ...     [[0, 1, 1]], radius=1
        ... )[1][0]
        array([0, 1])
        """
        index = with_items_of_now(self)
        distances, positions = index._within(X, radius, sort_results)
        ids = object_array([index.ids_[found] for found in positions])
        return (object_array(distances), ids) if return_distance else ids

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: float = 2,
        mode: Literal["connectivity", "distance"] = "connectivity",
        *,
        sort_results: bool = False,
    ) -> sparse.csr_matrix:
        """Sparse graph of all items within a Hamming distance of queries.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries. None takes the items, each without itself.
        radius : float, default=2
            Largest distance.
        mode : "connectivity" or "distance", default="connectivity"
            Values of the graph: 1, or the distance.
        sort_results : bool, default=False
            Whether to sort the entries of a query by distance.

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit)
            One column per item, in the order of the index.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors().fit([[0, 0], [0, 1], [1, 1]]).radius_neighbors_graph(
        ...     radius=1
        ... ).toarray()
        array([[0., 1., 0.],
               [1., 0., 1.],
               [0., 1., 0.]])
        """
        check_mode(mode)
        index = with_items_of_now(self)
        distances, positions = index._within(X, radius, sort_results)
        indptr = np.cumsum([0, *(len(found) for found in positions)])
        return graph(np.concatenate(distances), np.concatenate(positions), indptr, mode, index.n_samples_fit_)

    def _within(
        self, X: Any, radius: float, sort_results: bool
    ) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]]]:
        """Distances and positions of all items within a radius, for each query."""
        if self.query == "real" or self.rerank is not None:
            raise ValueError(
                f"A radius needs Hamming distances. Got query={self.query!r} and rerank={self.rerank!r} instead. "
                "Use query='code' and rerank=None, or kneighbors."
            )
        with n_threads(self.n_jobs):
            return self._stages(X).within(checked_radius(radius), sort_results)
