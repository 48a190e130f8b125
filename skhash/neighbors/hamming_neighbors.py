r"""Nearest neighbors among binary codes, in up to three stages.

    1. Hamming      d(q, x) = sum_i w_i [bit_i(q) != bit_i(x)]     w = 1, or the bit weights of the hasher
    2. real query   s(q, x) = <f(q), 2 bits(x) - 1>                f = ``project_queries``, the query is not binarized
       with factors   |q|^2 + |x|^2 - 2 |x|^2 s(q, x) / <x, code>  of centered vectors, as RaBitQ estimates it
    3. original     cosine or Euclidean distance, or inner product, of the original vectors

Stage 1 ranks all items, or picks `candidates` of them for the stages after it. All three are deterministic: of equal
distances the lowest index comes first. All three are exact, unless an index of FAISS replaces stage 1.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_array, check_is_fitted

from skhash._compat import HasMethods, Interval, StrOptions, fit_context, n_samples
from skhash._ids import checked_groups, is_text
from skhash._names import in_order_of, names_of
from skhash._threads import limited_threads, openmp_threads
from skhash._validation import (
    VECTOR_METRICS,
    VectorMetric,
    check_not_1d,
    check_not_masked,
    check_option,
    evenly_spaced,
    on_host,
)
from skhash.codes import Codes
from skhash.codes.bits import MAX_NBITS
from skhash.codes.blocks import CodeBlocks
from skhash.codes.codes import are_other, are_packed, check_same_nbits
from skhash.codes.groups import GroupedCodes
from skhash.codes.queries import Neighbors, Queries, SeveralVectors
from skhash.neighbors._approximate import BACKENDS, Backend, build_code_search
from skhash.neighbors._pairs import Pairs, near_pairs, near_rows
from skhash.neighbors.among import chosen_places
from skhash.neighbors.checks import (
    check_features,
    check_parameters,
    check_vectors_of_items,
    checked_count,
    checked_device,
    checked_radius,
    checked_stages,
    checked_vectors,
    groups_of_new,
    ids_of_new,
    n_columns,
    places_of,
    places_of_groups,
)
from skhash.neighbors.items import Items
from skhash.neighbors.search import SearchPlan, VectorQueries
from skhash.persistence.fingerprint import known_fingerprint
from skhash.unwrap import (
    check_encodes_items,
    check_has_real_queries,
    codes_of,
    find_function,
    find_hasher,
    first_step,
    items_of,
    makes_factors,
    real_queries,
    without_database,
)

if TYPE_CHECKING:
    import torch

MODES = ("connectivity", "distance")  # values of a graph


class HammingNeighbors(BaseEstimator):
    """Nearest neighbors among binary codes, with the methods of :class:`sklearn.neighbors.NearestNeighbors`.

    Parameters
    ----------
    hasher : estimator, default=None
        A hasher, or a Pipeline that ends in one, whose earlier steps transform items and queries. It is cloned and
        fitted. Wrap a fitted one in :class:`sklearn.frozen.FrozenEstimator` to use it as it is. None means that X
        holds bits, or packed codes of `nbits` bits.
    n_neighbors : int, default=10
        Number of neighbors.
    query : "code" or "real", default="code"
        Compare the code of a query with the codes of the items, or its activations, which find more of the true
        neighbors. "real" needs a hasher; if it has ``factors=True``, the distance of the vectors is estimated.
    candidates : int, default=None
        Number of items that a first stage picks, so that the last stage ranks only these. If "real" queries and
        `rerank` are both set, real queries pick them; otherwise Hamming distances do. With None the last stage ranks
        all items. In an index with groups it is a number of groups, of which the last stage ranks all items.
    rerank : "cosine", "euclidean", "inner" or None, default=None
        Distance of the original vectors that ranks the candidates in a last stage. None has no such stage.
    nbits : int, default=None
        Number of bits of packed codes, for ``hasher=None``.
    backend : "exact", "faiss-hnsw", "faiss-ivf" or "faiss-multihash", default="exact"
        "exact" compares a query with all items. The others search approximately, by an index of FAISS (``pip install
        faiss-cpu``), which cannot weight bits. A query for which FAISS finds too few items is searched exactly.
    device : str or torch.device, default=None
        Where torch compares codes: "cuda", "cuda:1", or "cpu"; "auto" is a GPU if there is one. The neighbors are the
        same; a GPU is meant for many queries at once. The device holds a copy of the codes. It compares neither
        weighted bits nor real queries with all items. None, and "auto" without a GPU, search by compiled code.
    n_jobs : int, default=None
        Number of threads; None and -1 use as many as scikit-learn's own compiled code.

    Attributes
    ----------
    hasher_ : estimator or None
        The fitted hasher. It stores no database of its own.
    codes_ : Codes
        Codes of the items, with what belongs to them. The index stores byte j of 64 items side by side: this is a copy.
    ids_ : ndarray of shape (n_samples,), int64, or object for text
        Identifiers of the items.
    groups_ : ndarray of shape (n_samples,), int64, or object for text, or None
        Group of each item, if ``fit`` was given groups.
    factors_ : float32 ndarray of shape (n_samples, 2) or None
        Factors of the items, of a hasher that has them, for "real" queries.
    vectors_ : array of shape (n_samples, n_features) or None
        Original vectors for `rerank`: those of ``fit``, not copied. After :meth:`add` or :meth:`remove` they are
        copied into one array when they are read here.
    n_samples_fit_ : int
        Number of items.
    n_features_in_ : int
        Number of features, or of columns of the codes.

    See Also
    --------
    skhash.neighbors.HammingNeighborsTransformer : Sparse graph of neighbors, for Pipelines.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash.neighbors import HammingNeighbors
    >>> X, y = load_digits(return_X_y=True)
    >>> index = HammingNeighbors(ITQHasher(32, random_state=0), n_neighbors=3).fit(X[100:])
    >>> distances, items = index.kneighbors(X[:2])
    >>> y[:2], y[100:][items]
    (array([0, 1]), array([[0, 0, 0],
           [1, 1, 1]]))
    """

    _parameter_constraints: dict[str, Any] = {
        "hasher": [HasMethods(["fit", "transform"]), None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "query": [StrOptions({"code", "real"})],
        "candidates": [Interval(Integral, 1, None, closed="left"), None],
        "rerank": [StrOptions(set(VECTOR_METRICS)), None],
        "nbits": [Interval(Integral, 1, MAX_NBITS, closed="both"), None],
        "backend": [StrOptions(set(BACKENDS))],
        "device": "no_validation",  # torch knows its devices
        "n_jobs": [Integral, None],
    }

    _items: Items
    _function: Any  # of the hasher that has made the codes, or its fingerprint; None if it is not known
    _code_search: Any  # ApproximateIndex, DeviceCodes, or None

    def __init__(
        self,
        hasher: Any = None,
        *,
        n_neighbors: int = 10,
        query: Literal["code", "real"] = "code",
        candidates: int | None = None,
        rerank: VectorMetric | None = None,
        nbits: int | None = None,
        backend: Backend = "exact",
        device: "str | torch.device | None" = None,
        n_jobs: int | None = None,
    ) -> None:
        self.hasher = hasher
        self.n_neighbors = n_neighbors
        self.query = query
        self.candidates = candidates
        self.rerank = rerank
        self.nbits = nbits
        self.backend = backend
        self.device = device
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        vectors: Any = None,
        ids: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Self:
        """Fit the hasher, and encode and store the items.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Codes
            Items, as the hasher takes them; for ``hasher=None`` their bits or packed codes. Codes are stored with what
            belongs to them: a hasher must be None, or a FrozenEstimator of the one that made them.
        y : array-like of shape (n_samples, ...), default=None
            Targets, for a hasher that learns from them.
        vectors : array-like of shape (n_samples, n_features), default=None
            Original vectors for `rerank`, of the same space as X, since those of queries are the queries. They are not
            copied, and of a memmap few are read: 32 of them are encoded, and refused if their codes are not those of
            the items. float16 and int8, which flip some bits, pass. A frame must have the columns of X, and is put in
            the order of `ids`, or of the index of X, if its index holds them. None takes X.
        ids : array-like of shape (n_samples,), ints or text, default=None
            Identifiers that searches return, all different. None takes those of Codes, or numbers the items from 0.
        groups : array-like of shape (n_samples,), ints or text, default=None
            Which rows of X are one item, such as the passages of a document: those with equal groups. Searches then
            return groups, each at the distance of its nearest row. None takes those of Codes, or each row is an item.

        Returns
        -------
        self : object
            The fitted index.

        Raises
        ------
        ValueError
            If X, y, `vectors`, `ids` or `groups` do not fit each other or the parameters.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> neighbors = HammingNeighbors().fit([[0, 0, 1], [1, 1, 1]])
        >>> neighbors.kneighbors([[0, 1, 1]], n_neighbors=1)
        (array([[1.]]), array([[0]]))
        >>> neighbors.fit([[0, 0, 1], [1, 1, 1]], ids=["cat", "dog"]).kneighbors([[0, 1, 1]], 1)
        (array([[1.]]), array([['cat']], dtype=object))
        >>> neighbors.fit([[0, 0, 1], [1, 1, 1], [1, 1, 0]], groups=["a", "b", "b"]).kneighbors(
        ...     [[1, 0, 0]], 2
        ... )
        (array([[1., 2.]]), array([['b', 'a']], dtype=object))
        """
        check_parameters(self)
        if self.query == "real" and not hasattr(find_hasher(self.hasher), "estimator"):  # a search has none yet
            check_has_real_queries(self.hasher)
        n = n_samples(X)
        new_ids = ids_of_new(_given_with(X, ids, "ids"), n)
        new_groups = groups_of_new(_given_with(X, groups, "groups"), n)
        if isinstance(X, Codes):
            return self._fit_codes(X, new_ids, vectors, new_groups)
        kept = None
        if self.rerank and vectors is None:
            kept = checked_vectors(X, n, n_columns(X), "X")
        elif self.rerank:
            rows, columns = names_of(X)
            kept = checked_vectors(vectors, n, n_columns(X), ids=[new_ids, rows], columns=columns)
        check_encodes_items(self.hasher)
        hasher = None if self.hasher is None else without_database(clone(self.hasher)).fit(X, y)
        if self.query == "real":
            check_has_real_queries(hasher)
        made = self._encode(None, X) if hasher is None else items_of(hasher, X)
        if kept is not None and vectors is not None:
            _check_vectors(hasher, kept, made.rows)
        codes = CodeBlocks.from_rows(made.rows, made.nbits)
        code_search = build_code_search(self.backend, checked_device(self), codes, hasher)
        after = self._copy()
        check_features(after, X, hasher, reset=True)
        after.hasher_, after._code_search = hasher, code_search
        after._function = find_function(hasher)
        after._items = Items.of(codes, new_ids, made.factors, kept, groups=new_groups)
        # in one step: if anything fails or is interrupted, the previous fit stays complete
        self.__dict__ = after.__dict__
        return self

    def _fit_codes(self, given: Codes, ids: npt.NDArray[Any], vectors: Any, groups: Any) -> Self:
        """Store codes that are made already."""
        if not len(given):
            raise ValueError("`X` must have at least one code. Got Codes without any.")
        if self.hasher is not None and not isinstance(self.hasher, FrozenEstimator):
            raise ValueError(
                "`hasher` must be None, or a FrozenEstimator of the hasher that made the codes, to fit Codes. Got a "
                f"{type(self.hasher).__name__} instead, which would be fitted."
            )
        after = self._copy()
        if self.hasher is None:
            check_same_nbits(given.nbits, self.nbits or given.nbits, "X", "the parameter nbits")
            after.hasher_, after._function = None, given.fingerprint
            after.n_features_in_ = given.nbits if self.nbits is None else given.rows.shape[1]
            after.__dict__.pop("feature_names_in_", None)
        else:
            after._take_hasher(self.hasher)
            after._check_made_by_hasher(given)
        columns = vars(after).get("feature_names_in_")
        kept = checked_vectors(vectors, len(given), ids=ids, columns=columns) if self.rerank else None
        if self.hasher is not None and kept is not None:
            _check_vectors(after.hasher_, kept, given.rows)
        codes = CodeBlocks.from_rows(given.rows, given.nbits)
        after._code_search = build_code_search(self.backend, checked_device(self), codes, after.hasher_)
        after._items = Items.of(codes, ids, given.factors, kept, groups=groups)
        self.__dict__ = after.__dict__
        return self

    def add(
        self, X: Any, *, vectors: Any = None, ids: npt.ArrayLike | None = None, groups: npt.ArrayLike | None = None
    ) -> Self:
        """Encode and store more items, after the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Codes
            Items, as in :meth:`fit`. The hasher does not change.
        vectors : array-like of shape (n_samples, n_features), default=None
            Their original vectors for `rerank`; None takes X. They are copied, and compared with X as in :meth:`fit`.
        ids : array-like of shape (n_samples,), ints or text, default=None
            Their identifiers, of the kind of the others and different from them. None continues after the largest one
            that an item has or had, so that no number is given twice, and is refused if the others are text. Codes
            have their own.
        groups : array-like of shape (n_samples,), ints or text, default=None
            Their groups, of the kind of the others: new ones, or those of the index, which they join. They must be
            given if the index has groups. Codes have their own.

        Returns
        -------
        self : object
            The index.

        Raises
        ------
        ValueError
            If X, `vectors`, `ids` or `groups` do not fit the index. The index does not change.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors().fit([[0, 0, 1]]).add([[1, 1, 1]]).ids_
        array([0, 1])
        """
        items = self._fitted_items()
        self._check_function(find_function(self.hasher_))
        check_encodes_items(self.hasher_)
        n = n_samples(X)
        new_ids = ids_of_new(_given_with(X, ids, "ids"), n, items)
        new_groups = groups_of_new(_given_with(X, groups, "groups"), n, items)
        codes = self._encode_more(X, are_items=items.factors is not None)
        if items.factors is not None and codes.factors is None:
            raise ValueError("`X` must be Codes with factors, as the items of the index have. Got none.")
        kept = items.vectors
        if kept is not None:
            named: dict[str, Any] = {"ids": [new_ids, names_of(X).rows], "columns": vars(self).get("feature_names_in_")}
            is_given = vectors is not None
            given, named = (vectors, named) if is_given else (X, {})
            vectors = checked_vectors(given, len(codes), kept.n_dimensions, **named)
            if is_given and len(codes):
                _check_vectors(self.hasher_, vectors, codes.rows, items.codes.rows(_spread(items.places)))
        self._items = items.with_more(codes.rows, new_ids, codes.factors, vectors, new_groups)
        return self

    def remove(self, ids: npt.ArrayLike | None = None, *, groups: npt.ArrayLike | None = None) -> Self:
        """Remove items, or all items of some groups.

        Parameters
        ----------
        ids : array-like of ints or text, default=None
            Identifiers of items of the index. Either these or `groups` must be given. A group without items is gone.
        groups : array-like of ints or text, default=None
            Groups of the index.

        Returns
        -------
        self : object
            The index. The other items keep their identifiers and their order.

        Raises
        ------
        ValueError
            If an identifier or a group is not in the index, or no item would be left. The index does not change.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors().fit([[0, 0, 1], [1, 1, 1]]).remove([0]).ids_
        array([1])
        """
        items = self._fitted_items()
        if (ids is None) == (groups is None):
            raise ValueError(
                f"Either `ids` or `groups` must be given. Got {'neither' if ids is None else 'both'} instead."
            )
        places = places_of(ids, items) if groups is None else places_of_groups(groups, items)
        if len(places) == items.codes.n_items:
            name = "ids" if groups is None else "groups"
            raise ValueError(f"`{name}` must leave at least one item in the index. Got those of all items.")
        self._items = items.without(places)
        return self

    def with_queries(self, hasher: Any) -> Self:
        """Index of the same items that takes real queries of another hasher.

        It is for a :class:`~skhash.vectors.QueryAdapter`, and for codes without a hasher, such as those that were read
        from a store.

        Parameters
        ----------
        hasher : estimator
            A fitted hasher, or a Pipeline that ends in one, with the fingerprint of the one that made the codes.

        Returns
        -------
        HammingNeighbors
            An index with ``query="real"`` and ``rerank=None``, which shares the items. Later changes of one index do
            not change the other.

        Raises
        ------
        ValueError
            If the hasher has another fingerprint or another number of bits, or factors that the items do not have.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> from skhash.neighbors import HammingNeighbors
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = ITQHasher(16, random_state=0).fit(X[100:])
        >>> codes = hasher.encode(X[100:])
        >>> index = HammingNeighbors(nbits=16).fit(codes).with_queries(hasher)
        >>> index.kneighbors(X[:2], 3, return_distance=False).shape
        (2, 3)
        """
        items = self._fitted_items()
        check_has_real_queries(hasher)
        inner = find_hasher(hasher)
        check_same_nbits(int(inner._n_features_out), items.codes.nbits, "hasher", "the items of the index")
        self._check_function(find_function(hasher), "`hasher`")
        has_factors = makes_factors(inner)
        if has_factors and items.factors is None:
            raise ValueError(
                "`hasher` must have factors=False for items without factors. Got factors=True: fit an index to the "
                "vectors of the items."
            )
        after = self._copy()
        after.set_params(query="real", rerank=None, nbits=None)
        after.hasher = hasher if isinstance(hasher, FrozenEstimator) else FrozenEstimator(hasher)
        after._take_hasher(after.hasher)
        after._items = replace(items, factors=items.factors if has_factors else None, vectors=None)
        check_parameters(after)
        return after

    def kneighbors(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
        *,
        return_ties: bool = False,
        return_members: bool = False,
        among: Any = None,
        query_groups: npt.ArrayLike | None = None,
    ) -> Any:
        """Nearest items of queries, or nearest groups, if the index has groups.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries, or their vectors with `query_groups`. None takes the items, each without itself.
        n_neighbors : int, default=None
            Number of neighbors; None takes the parameter.
        return_distance : bool, default=True
            Whether to return distances.
        return_ties : bool, default=False
            Whether to return how many items have the distance of the last neighbor. All items must be ranked for
            it: without `rerank`, without `candidates`, and with ``backend="exact"`` or `among`.
        return_members : bool, default=False
            Whether to return which item of a group is the nearest, for an index with groups.
        among : array-like, sparse matrix or list, default=None
            Items that can be found; None is all of them. The search among them is exact, and on the CPU, with any
            `backend` and `device`. In an index with groups, identifiers are those of groups, and a mask still has a
            bool for each item: a group is found by its items in the mask. One filter for all queries is

            - a mask: bools of shape (n_samples,), in the order of `ids_`, or a Series whose index holds the ids;
            - identifiers: ints or text of shape (n_ids,). Zeros and ones are identifiers, too.

            One filter for each query is

            - a list of masks or identifiers: a list whose elements are lists or arrays has n_queries filters, also
              for a single query, and a list whose elements are bools, ints or text is one filter;
            - an array with a row for each query: bools of shape (n_queries, n_samples), or identifiers;
            - a sparse matrix of shape (n_queries, n_samples), whose entries are the items. Its columns have the order
              of `ids_`. Zeros must not be stored.
        query_groups : array-like of shape (n_rows,), ints or text, default=None
            Which rows of X are one query of several vectors: those with equal labels. The results are those of the
            distinct labels, ascending. The distance of a group of items is the sum over the vectors of the distance of
            the nearest member, which is MaxSim, as a distance; `candidates` are groups. The search is exact, and on the
            CPU, with any `backend` and `device`. None, each row is a query, also of Codes with groups.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors), float64
            Distances in ascending order, only with ``return_distance=True``. They are those of the last stage:

            - codes: Hamming distances;
            - "real" queries: minus the score; with factors an estimate of the squared Euclidean distance, of
              1 - cosine, or of minus the inner product, by the `metric` of the hasher;
            - `rerank`: the distance of the vectors, or minus their inner product.

            A query whose filter has fewer than `n_neighbors` items has infinity at the end.
        ids : ndarray of shape (n_queries, n_neighbors), int64, or object for text
            Identifiers of the items. Among equal distances the first item comes first. Where a query has no more
            items, an int is -1, and text is masked, in a :class:`numpy.ma.MaskedArray`. An index with groups
            returns groups in their place, all different, each at the distance of its nearest item. Among equal
            distances the lowest group comes first, in the order of :func:`numpy.unique`.
        members : ndarray of shape (n_queries, n_neighbors), int64, or object for text
            Identifiers of the nearest item of each group, of equal distances the first one, only with
            ``return_members=True``.
        n_ties : ndarray of shape (n_queries,), int64
            Number of items, of those in `among`, with the distance of the last neighbor, or of groups, only with
            ``return_ties=True``. It is 0 if a query has none.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the index is not fitted.
        ValueError
            If `n_neighbors` is larger than the number of items or groups; `among` has unknown identifiers; the queries
            do not fit the index; or original vectors that `rerank` compares are those of other items, or have NaN.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> index = HammingNeighbors().fit([[0, 0, 1], [1, 1, 1], [1, 0, 0]])
        >>> index.kneighbors(
        ...     [[0, 1, 1]], n_neighbors=2, return_ties=True
        ... )  # two items at distance 1
        (array([[1., 1.]]), array([[0, 1]]), array([2]))
        >>> index.kneighbors([[0, 1, 1]], n_neighbors=2, among=[1, 2])  # ids
        (array([[1., 3.]]), array([[1, 2]]))
        >>> index.fit([[0, 0, 1], [1, 1, 1], [1, 0, 0]], groups=["a", "a", "b"])
        HammingNeighbors()
        >>> index.kneighbors([[1, 1, 0]], n_neighbors=2, return_members=True)
        (array([[1., 1.]]), array([['a', 'b']], dtype=object), array([[1, 2]]))

        One query of two vectors:

        >>> index.kneighbors([[0, 1, 1], [1, 1, 0]], n_neighbors=2, query_groups=[0, 0])
        (array([[2., 4.]]), array([['a', 'b']], dtype=object))
        """
        index = self._with_items_of_now()
        if return_members:
            index._check_members(query_groups)
        if query_groups is None:
            distances, places, n_ties = index._kneighbors(X, n_neighbors, return_ties, among)
        else:
            distances, places, n_ties = index._kneighbors_of_several(X, query_groups, n_neighbors, return_ties, among)
        results = [distances] if return_distance else []
        results += index._found(places, return_members, None if among is None else places < 0)
        results += [n_ties] if return_ties else []
        return tuple(results) if len(results) > 1 else results[0]

    def kneighbors_graph(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        mode: Literal["connectivity", "distance"] = "connectivity",
        *,
        among: Any = None,
    ) -> sparse.csr_matrix:
        """Sparse graph of the nearest items of queries.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries. None takes the items, each without itself.
        n_neighbors : int, default=None
            Number of neighbors; None takes the parameter.
        mode : "connectivity" or "distance", default="connectivity"
            Values of the graph: 1, or the distance.
        among : array-like, sparse matrix or list, default=None
            Items that can be found, as in :meth:`kneighbors`.

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit)
            One column per item, in the order of the index; in an index with groups one per group, in their order. A
            query whose filter has fewer than `n_neighbors` items has fewer entries.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors(n_neighbors=1).fit(
        ...     [[0, 0], [0, 1], [1, 1]]
        ... ).kneighbors_graph().toarray()
        array([[0., 1., 0.],
               [1., 0., 0.],
               [0., 1., 0.]])
        """
        check_option("mode", mode, MODES)
        index = self._with_items_of_now()
        distances, places, _ = index._kneighbors(X, n_neighbors, False, among)
        indptr = np.arange(len(places) + 1) * places.shape[1]
        if among is not None:
            is_found = places >= 0
            distances, places, indptr = distances[is_found], places[is_found], np.cumsum([0, *is_found.sum(axis=1)])
        return _graph(distances.ravel(), places.ravel(), indptr, mode, index._items)

    def radius_neighbors(
        self,
        X: Any = None,
        radius: float = 2,
        return_distance: bool = True,
        *,
        sort_results: bool = False,
        return_members: bool = False,
        among: Any = None,
        query_groups: npt.ArrayLike | None = None,
    ) -> Any:
        """All items, or groups, within a Hamming distance of queries.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries. None takes the items, each without itself.
        radius : float, default=2
            Largest distance, in bits or in the weights of the hasher.
        return_distance : bool, default=True
            Whether to return distances.
        sort_results : bool, default=False
            Whether to sort by distance; False keeps the order of the index, and of groups their order.
        return_members : bool, default=False
            Whether to return which item of a group is the nearest, for an index with groups.
        among : array-like, sparse matrix or list, default=None
            Items that can be found, as in :meth:`kneighbors`.
        query_groups : array-like of shape (n_rows,), ints or text, default=None
            Which rows of X are one query, as in :meth:`kneighbors`. The radius is that of the sum.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of float64 arrays
            Distances. Only with ``return_distance=True``.
        ids : ndarray of shape (n_queries,) of arrays of int64, or of object for text
            Identifiers of the items, or groups, each at the distance of its nearest item.
        members : ndarray of shape (n_queries,) of arrays of int64, or of object for text
            Identifiers of these nearest items. Only with ``return_members=True``.

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
        index = self._with_items_of_now()
        if return_members:
            index._check_members(query_groups)
        if query_groups is None:
            distances, places, indptr = index._radius_neighbors(X, radius, sort_results, among)
        else:
            distances, places, indptr = index._radius_of_several(X, query_groups, radius, sort_results, among)
        results = [distances] if return_distance else []
        results += index._found(places, return_members)
        of_queries = [_object_array(np.split(values, indptr[1:-1])) for values in results]
        return tuple(of_queries) if len(of_queries) > 1 else of_queries[0]

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: float = 2,
        mode: Literal["connectivity", "distance"] = "connectivity",
        *,
        sort_results: bool = False,
        among: Any = None,
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
        among : array-like, sparse matrix or list, default=None
            Items that can be found, as in :meth:`kneighbors`.

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit)
            One column per item, in the order of the index; in an index with groups one per group, in their order.

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
        check_option("mode", mode, MODES)
        index = self._with_items_of_now()
        distances, places, indptr = index._radius_neighbors(X, radius, sort_results, among)
        return _graph(distances, places, indptr, mode, index._items)

    def radius_pairs(
        self, radius: float = 2
    ) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float64]]]:
        """All pairs of items within a Hamming distance of each other, in blocks.

        All codes are compared, whatever the `backend` and the groups are. The memory is bounded: a block is made when
        it is asked for.

        Parameters
        ----------
        radius : float, default=2
            Largest distance, in bits or in the weights of the hasher.

        Returns
        -------
        iterator of (i, j, distances), each of shape (n_pairs,)
            ``i`` and ``j`` are identifiers of the two items, as ``kneighbors`` returns them, and ``distances`` are
            float64. Each pair is there once, with i < j, which is the order of text for identifiers that are text.
            Pairs are in no special order. A block has at least one, and at most 2**20.

        Raises
        ------
        ValueError
            If ``query="real"`` or `rerank` is set, whose distances are not in bits.

        See Also
        --------
        skhash.neighbors.duplicate_groups : Groups of items that such pairs connect.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> index = HammingNeighbors().fit([[0, 0, 1], [1, 1, 1], [0, 1, 1], [1, 0, 0]])
        >>> for i, j, distances in index.radius_pairs(radius=1):
        ...     print(i, j, distances)
        [0 1] [2 2] [1. 1.]
        """
        index = self._with_items_of_now()
        return index._pairs_of_ids(index._near_pairs(radius))

    def _pairs_of_ids(
        self, blocks: Iterator[Pairs]
    ) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float64]]]:
        """Blocks with identifiers, the smaller one first, in place of positions."""
        ids = self.ids_
        for left, right, distances in blocks:
            i, j = ids[left], ids[right]
            yield np.where(i < j, i, j), np.where(i < j, j, i), distances

    @property
    def codes_(self) -> Codes:
        """Codes of the items, with their identifiers, factors, groups and the fingerprint of the hasher.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors().fit([[0, 0, 1], [1, 1, 1]]).codes_
        <Codes: 2 of 3 bits, with ids>
        """
        codes = self._items.codes
        return Codes(codes.rows(), codes.nbits, self.ids_, self.factors_, self._fingerprint, self.groups_)

    @property
    def ids_(self) -> npt.NDArray[Any]:
        """Identifiers of the items.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors().fit([[0, 0, 1], [1, 1, 1]], ids=["cat", "dog"]).ids_
        array(['cat', 'dog'], dtype=object)
        """
        return self._items.of_items(self._items.ids)

    @property
    def factors_(self) -> npt.NDArray[np.float32] | None:
        """Factors of the items, or None.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors().fit([[0, 0, 1], [1, 1, 1]]).factors_ is None
        True
        """
        items = self._items
        return None if items.factors is None else items.of_items(items.factors)

    @property
    def groups_(self) -> npt.NDArray[Any] | None:
        """Groups of the items, or None.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors().fit([[0, 0, 1], [1, 1, 1]], groups=["a", "a"]).groups_
        array(['a', 'a'], dtype=object)
        """
        items = self._items
        return None if items.groups is None else items.groups.labels[items.of_items(items.groups.numbers)]

    @property
    def n_samples_fit_(self) -> int:
        """Number of items.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> HammingNeighbors().fit([[0, 0, 1], [1, 1, 1]]).n_samples_fit_
        2
        """
        return self._items.codes.n_items

    @property
    def vectors_(self) -> Any:
        """Original vectors in one array.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash import ITQHasher
        >>> from skhash.neighbors import HammingNeighbors
        >>> X = np.random.default_rng(0).normal(size=(50, 8))
        >>> index = HammingNeighbors(ITQHasher(8, random_state=0), rerank="cosine")
        >>> index.fit(X).remove([3]).vectors_.shape
        (49, 8)
        """
        items = self._items
        packed = items.packed()
        if packed.vectors is None:
            return None
        whole = packed.vectors.whole()
        if self._items is items:  # no other thread has changed the items
            self._items = packed.with_vectors(whole, packed.vectors.are_known)
        return whole

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.hasher is not None:
            tags.input_tags.sparse = get_tags(self.hasher).input_tags.sparse
            tags.target_tags.required = get_tags(self.hasher).target_tags.required
        return tags

    # --- items

    def _check_parameters(self) -> None:
        """Raise InvalidParameterError or ValueError unless each parameter is valid and they fit each other."""
        self._validate_params()
        check_parameters(self)

    def _take_hasher(self, hasher: Any) -> None:
        """Hold a fitted hasher of the codes, and what its samples are like."""
        first = first_step(hasher)
        shape = getattr(first, "input_shape_", None)  # of images
        self.hasher_, self._function = hasher, find_function(hasher)
        self.n_features_in_ = first.n_features_in_ if shape is None else shape[0]
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(first, "feature_names_in_"):
            self.feature_names_in_ = first.feature_names_in_

    def _take_items(
        self,
        codes: CodeBlocks,
        ids: npt.NDArray[Any],
        factors: npt.NDArray[np.float32] | None,
        fingerprint: str | None,
        least_id: int = 0,
        groups: Any = None,
    ) -> None:
        """Hold the items of a file, whose codes the hasher has made, or an unknown one with a fingerprint."""
        self._items = Items.of(codes, ids, factors, least_id=least_id, groups=groups)
        self._function = fingerprint if self.hasher_ is None else find_function(self.hasher_)

    def _take_vectors(self, vectors: Any) -> None:
        """Hold original vectors of the items; ValueError if they are none."""
        named: dict[str, Any] = {"ids": self.ids_, "columns": vars(self).get("feature_names_in_")}
        checked = checked_vectors(vectors, self.n_samples_fit_, self.n_features_in_, **named)
        self._items = self._items.with_vectors(checked, are_known=False)  # they may be mapped, and are not read yet

    def _copy(self) -> Self:
        """Another index that shares the parameters and items."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def _fitted_items(self) -> Items:
        """The items; NotFittedError if there are none."""
        if "_items" not in vars(self):  # the check of scikit-learn copies all tags
            check_is_fitted(self)
        return self._items

    def _encode(self, hasher: Any, X: Any) -> Codes:
        """Codes of samples."""
        if hasher is not None:
            return codes_of(hasher, X)
        if self.nbits is not None and are_packed(X, self.nbits):
            return Codes(X, self.nbits)  # what the checks would find, more slowly
        X = on_host(X)
        check_not_masked(X, "X")  # scikit-learn would take masked values
        check_not_1d(X)
        return Codes.of(check_array(X, dtype=None, estimator=self, input_name="X"), self.nbits, name="X")

    def _encode_more(self, X: Any, are_items: bool = False) -> Codes:
        """Codes of samples that have the features and the number of bits of the items; Codes pass as they are."""
        if isinstance(X, Codes):
            self._check_made_by_hasher(X)
            return X
        if hasattr(self, "n_features_in_"):  # False if the items are texts, which a Pipeline encodes
            check_not_1d(X)
        if self.hasher_ is None and self.nbits is None:
            nbits = self._items.codes.nbits
            # wrong bits, or packed codes: which of them cannot be told
            if getattr(X, "dtype", None) == np.uint8 and X.shape[1:] == (-(-nbits // 8),) != (nbits,):
                raise ValueError(
                    f"`X` must be bits of shape (n, {nbits}), or Codes, for an index with nbits=None. Got uint8 of "
                    f"shape {X.shape} instead. Pass packed codes as Codes.of(X, {nbits}), or fit "
                    f"HammingNeighbors(nbits={nbits})."
                )
        codes = items_of(self.hasher_, X) if are_items else self._encode(self.hasher_, X)
        self._check_samples(X, codes.nbits)
        return codes

    def _check_samples(self, X: Any, nbits: int) -> None:
        """Raise ValueError unless samples, of which the hasher makes `nbits` bits, are like the items."""
        check_features(self, X, self.hasher_, reset=False)
        check_same_nbits(nbits, self._items.codes.nbits, "X", "the items of the index")

    def _check_made_by_hasher(self, codes: Codes) -> None:
        """Raise ValueError unless codes may be those of the hasher of the items, or of the hasher of an empty index."""
        nbits = self._items.codes.nbits if "_items" in vars(self) else int(find_hasher(self.hasher_)._n_features_out)
        check_same_nbits(codes.nbits, nbits, "X", "the items of the index")
        if are_other(self._fingerprint, codes.fingerprint):
            raise ValueError(
                f"`X` must be codes of the hasher with the fingerprint {self._fingerprint}. Got those of one with "
                f"{codes.fingerprint} instead. Encode the samples with the hasher of the index."
            )

    @property
    def _fingerprint(self) -> str | None:
        """Fingerprint of the hasher that has made the codes, or None."""
        return self._function if isinstance(self._function, str) else known_fingerprint(self._function)

    def _check_function(self, function: Any, name: str = "`hasher_`") -> None:
        """Raise ValueError if the function of the hasher, which may be fitted elsewhere, is not that of the codes."""
        if function is self._function:
            return
        made, found = self._fingerprint, known_fingerprint(function)
        if are_other(made, found):
            raise ValueError(
                f"{name} must be the hasher that made the codes of the index, with the fingerprint "
                f"{made}. Got one with {found} instead, after another fit: fit the index again, too."
            )

    # --- search

    def _with_items_of_now(self) -> Self:
        """Copy of the index with its present items, which other threads do not change during a search."""
        self._fitted_items()
        now = self._copy()
        now.candidates = checked_stages(now.query, now.rerank, now.candidates)
        device = None if now.device is None else checked_device(now)
        known = vars(now).get("_code_search")
        codes = now._items.codes
        # changed, or loaded
        if known is None or known.codes is not codes or (known.backend, known.device) != (now.backend, device):
            now._code_search = build_code_search(now.backend, device, codes, now.hasher_)
            self._code_search = now._code_search
        return now

    def _kneighbors(self, X: Any, n_neighbors: int | None, return_ties: bool, among: Any) -> Neighbors:
        """Distances, places and ties of the nearest items; None for X takes the items, each without itself."""
        k = checked_count(self.n_neighbors if n_neighbors is None else n_neighbors)
        with _n_threads(self.n_jobs, self.hasher_):
            plan, n_found = self._plan(X, among), self._items.n_found
            if k > n_found - plan.excludes_self:
                of = "n_samples_fit" if plan.groups is None else "n_groups"
                raise ValueError(
                    f"Expected n_neighbors {'<' if X is None else '<='} {of}, but n_neighbors = {k}, "
                    f"{of} = {n_found}, n_samples = {plan.n_queries}"  # of scikit-learn
                )
            if return_ties and (plan.last is not None or (plan.by_code is not None and not plan.by_code.is_exact)):
                raise ValueError(
                    "`return_ties` must be False unless all items are ranked. Got True with "
                    f"candidates={self.candidates}, rerank={self.rerank!r} and backend={self.backend!r}."
                )
            found = plan.nearest(k)
            if return_ties and plan.groups is not None:
                return found._replace(n_ties=plan.n_ties_of_groups(found.distances))
            return found

    def _check_members(self, query_groups: Any) -> None:
        """Raise ValueError if members are asked for without groups, or for several vectors at once."""
        if query_groups is not None:
            raise ValueError(
                "`return_members` must be False with `query_groups`: each vector has a nearest member. Got True."
            )
        if self._items.groups is None:
            raise ValueError(
                "`return_members` must be False for an index without groups. Got True. The ids are those of the items."
            )

    def _found(
        self, places: npt.NDArray[np.int64], return_members: bool, is_missing: npt.NDArray[np.bool_] | None = None
    ) -> list[npt.NDArray[Any]]:
        """Identifiers at some places, or the groups there, and the identifiers as well if members are asked for."""
        ids, groups = self._items.ids.values[places], self._items.groups
        found = [ids] if groups is None else [groups.labels[groups.numbers.values[places]]] + [ids] * return_members
        return found if is_missing is None else [_with_missing(values, is_missing) for values in found]

    def _radius_neighbors(
        self, X: Any, radius: float, sort_results: bool, among: Any
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Distances and places of all items within a radius, query after query, and where those of each begin."""
        self._check_has_radius()
        if X is None and among is None and self.backend == "exact" and self._items.groups is None:
            distances, positions, indptr = near_rows(self.n_samples_fit_, self._near_pairs(radius), sort_results)
            return distances, self._items.places[positions], indptr
        with _n_threads(self.n_jobs, self.hasher_):
            plan = self._plan(X, among)
            of_queries = plan.radius_search(checked_radius(radius), sort_results)
        indptr = np.cumsum([0, *map(len, of_queries[0])])
        return np.concatenate(of_queries[0]), np.concatenate(of_queries[1]), indptr

    def _of_several(self, X: Any, query_groups: Any, among: Any) -> list[tuple[SeveralVectors, GroupedCodes]]:
        """Queries of several vectors and the groups that they search; one by one if each has a filter of its own."""
        if X is None:
            raise ValueError("`X` must be given with `query_groups`, which say what its rows are. Got None instead.")
        items, plan = self._items, self._plan(X, None)
        labels = checked_groups(query_groups, plan.n_queries, "query_groups")
        queries = SeveralVectors.of(plan.first, labels, plan.last, n_first=plan.candidates)
        if among is None:
            return [(queries, items.by_group)]
        chosen = chosen_places(among, items, queries.n_queries)
        if not isinstance(chosen, list):
            return [(queries, items.some_by_group(chosen))]
        return [(queries[query : query + 1], items.some_by_group(places)) for query, places in enumerate(chosen)]

    def _kneighbors_of_several(
        self, X: Any, query_groups: Any, n_neighbors: int | None, return_ties: bool, among: Any
    ) -> Neighbors:
        """Distances, places of the first members, and ties of the nearest groups."""
        k = checked_count(self.n_neighbors if n_neighbors is None else n_neighbors)
        with _n_threads(self.n_jobs, self.hasher_):
            searches = self._of_several(X, query_groups, among)
            n_queries = sum(queries.n_queries for queries, _ in searches)
            if among is None and k > self._items.n_found:
                raise ValueError(
                    f"Expected n_neighbors <= the number of groups, but n_neighbors = {k}, and there are "
                    f"{self._items.n_found} groups."
                )
            if return_ties and searches[0][0].last is not None:
                raise ValueError(
                    "`return_ties` must be False unless one stage ranks all groups. Got True with "
                    f"candidates={self.candidates} and rerank={self.rerank!r}."
                )
            found = Neighbors(np.full((n_queries, k), np.inf), np.full((n_queries, k), -1), np.zeros(n_queries, int))
            first = 0
            for queries, database in searches:
                part, n = slice(first, first + queries.n_queries), min(k, database.n_groups)
                if queries.n_first is not None and queries.n_first < n:
                    raise ValueError(f"`candidates` must be at least n_neighbors={k}. Got {self.candidates} instead.")
                if n:
                    nearest = queries.nearest(database, n)
                    found.distances[part, :n], found.n_ties[part] = nearest.distances, nearest.n_ties
                    found.indices[part, :n] = database.first_members(nearest.indices)
                first = part.stop
            return found

    def _radius_of_several(
        self, X: Any, query_groups: Any, radius: float, sort_results: bool, among: Any
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The same as `_radius_neighbors`, with the places of the first members of all groups within a radius."""
        self._check_has_radius()
        radius = checked_radius(radius)
        with _n_threads(self.n_jobs, self.hasher_):
            distances, places = [], []
            for queries, database in self._of_several(X, query_groups, among):
                for near, groups in zip(*queries.within(database, radius), strict=True):
                    order = np.argsort(near, kind="stable") if sort_results else slice(None)
                    distances.append(near[order])
                    places.append(database.first_members(groups[order]))
        return np.concatenate(distances), np.concatenate(places), np.cumsum([0, *map(len, distances)])

    def _near_pairs(
        self,
        radius: float,
        codes: npt.NDArray[np.uint64] | None = None,
        show: Callable[[float], object] = lambda done: None,
    ) -> Iterator[Pairs]:
        """Blocks of positions and distances of the pairs of items, or of other codes, within a radius."""
        self._check_has_radius()
        weights = getattr(find_hasher(self.hasher_), "bit_weights_", None)
        items, nbits = self._items.codes.words() if codes is None else codes, self._items.codes.nbits
        return _with_threads(near_pairs(items, checked_radius(radius), nbits, weights, show), self.n_jobs)

    def _check_vectors(self) -> None:
        """Raise ValueError unless the original vectors are those of the items, if nothing has checked them yet."""
        codes, vectors = self._items.codes, self._items.vectors
        if vectors is None or vectors.are_known:
            return
        places = _spread(self._items.places)
        check_vectors_of_items(self.hasher_, vectors.at(places), codes.rows(places), codes.rows(places))
        vectors.are_known = True

    def _check_has_radius(self) -> None:
        """Raise ValueError unless the distances of the search are those of codes."""
        if self.query == "real" or self.rerank is not None:
            options = "query='code'" + (", rerank=None" if self.rerank is not None else "")
            raise ValueError(
                f"A radius needs Hamming distances. Got query={self.query!r} and rerank={self.rerank!r} instead. "
                f"Call set_params({options}), which needs no other fit, or use kneighbors."
            )

    def _plan(self, X: Any, among: Any) -> SearchPlan:
        """Plan of the search for queries among some items, or all."""
        items, of_items, hasher = self._items, self._items.vectors, find_hasher(self.hasher_)
        if self.rerank is not None and of_items is None:
            raise ValueError(
                f"`rerank` must be None unless `fit` has kept the vectors. Got {self.rerank!r}, which was set later: "
                "fit again. With FrozenEstimator(index.hasher_) as the hasher nothing is trained again."
            )
        if X is None and self.query == "real":
            raise ValueError("`X` must be given with query='real': the index stores only codes of its items. Got None.")
        if isinstance(X, Codes) and (self.query == "real" or self.rerank is not None):
            raise ValueError(
                f"`X` must hold samples with query={self.query!r} and rerank={self.rerank!r}, which need more than "
                "codes. Got Codes instead."
            )
        if X is not None:
            self._check_function(getattr(hasher, "function_", None))
        own_places = items.places if X is None else None
        stages: list[Any] = []  # the first one ranks all items, a second one those that it has found
        if self.query == "code" or (self.rerank is None and self.candidates is not None):
            codes = Codes(items.codes.rows(), items.codes.nbits) if X is None else self._encode_more(X)
            stages.append(Queries.of(codes, getattr(hasher, "bit_weights_", None)))
        if self.query == "real":
            real = real_queries(self.hasher_, X, None if items.factors is None else items.factors.values)
            self._check_samples(X, real.zeros.shape[1])
            stages.append(real)
        if self.rerank is not None and of_items is not None:
            self._check_vectors()
            vectors = None if X is None else checked_vectors(X, n_samples(X), of_items.n_dimensions, "X")
            stages.append(VectorQueries(vectors, of_items, self.rerank, own_places))
        last = stages[1] if len(stages) > 1 else None
        plan = SearchPlan(items.codes, stages[0], last, self.candidates, own_places, self._code_search)
        if items.groups is not None:
            plan.groups, plan.n_groups = items.groups, items.n_found
        if among is not None:
            plan.by_code, plan.chosen = None, chosen_places(among, items, plan.n_queries, X)
        return plan

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_code_search"}


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
    device : str or torch.device, default=None
        Where torch compares codes; None does without torch.
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
        device: "str | torch.device | None" = None,
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
            device=device,
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
        return self.kneighbors_graph(X, checked_count(self.n_neighbors) + (self.mode == "distance"), self.mode)

    @property
    def _n_features_out(self) -> int:
        return self._items.n_found


def _spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Some of many values, from the first to the last."""
    return values[evenly_spaced(len(values), 32)]


def _check_vectors(hasher: Any, vectors: Any, rows: npt.NDArray[np.uint8], others: Any = None) -> None:
    """Raise ValueError unless vectors are those of items with packed codes; some of both are compared."""
    own = _spread(rows)
    check_vectors_of_items(hasher, _spread(vectors), own, own if others is None else others)


def _given_with(X: Any, values: Any, name: str) -> Any:
    """The given identifiers or groups, in the order of the rows of X if both name their rows; or those of Codes."""
    if values is None:
        return getattr(X, name) if isinstance(X, Codes) else None
    return in_order_of(names_of(X).rows, values, f"`{name}`", "X")


def _n_threads(n_jobs: int | None, hasher: Any) -> Any:
    """Context manager that lets kernels, and OpenMP of a hasher, use `n_jobs` threads; None and -1 change nothing.

    Limiting OpenMP takes longer than a search among few items.
    """
    if n_jobs is None or n_jobs == -1:
        return nullcontext()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, Integral)) or n_jobs == 0:
        raise ValueError(f"`n_jobs` must be None or an int that is not 0. Got {n_jobs!r} instead.")
    n_threads = 1 if n_jobs == 1 else effective_n_jobs(int(n_jobs))
    return limited_threads(n_threads) if hasher is None else openmp_threads(n_threads)


def _with_threads(blocks: Iterator[Pairs], n_jobs: int | None) -> Iterator[Pairs]:
    """The same blocks, each of which is made on `n_jobs` threads: the limit must not hold for the caller's own code."""
    while True:
        with _n_threads(n_jobs, None):
            block = next(blocks, None)
        if block is None:
            return
        yield block


def _graph(
    distances: npt.NDArray[np.float64], places: npt.NDArray[np.int64], indptr: Any, mode: str, items: Items
) -> sparse.csr_matrix:
    """Sparse matrix of shape (n_queries, n_items) of the neighbors; a distance of 0 is stored as an explicit zero."""
    values = np.ones(len(places)) if mode == "connectivity" else distances
    if items.groups is None:
        columns = items.codes.positions(places)
    else:
        columns = (np.cumsum(items.has_items) - 1)[items.groups.numbers.values[places]]
    return sparse.csr_matrix((values, columns, indptr), shape=(len(indptr) - 1, items.n_found))


def _with_missing(ids: npt.NDArray[Any], is_missing: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Identifiers with -1, or masked text, where there is no item."""
    if not is_missing.any():
        return ids
    return np.ma.array(ids, mask=is_missing) if is_text(ids) else np.where(is_missing, -1, ids)


def _object_array(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.object_]:
    """Array of shape (n,) of arrays of different lengths."""
    array = np.empty(len(parts), dtype=object)
    array[:] = parts
    return array
