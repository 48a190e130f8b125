"""Scorers: tie-aware metrics of a hasher, for cross-validation and searches."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import sklearn
from scipy import sparse
from sklearn.utils import _safe_indexing

from skhash._ids import checked_groups
from skhash._names import check_columns
from skhash._validation import as_count_or_none, check_option, is_dataset
from skhash.affinity import ClassAffinity, NeighborAffinity, Relevance
from skhash.codes import Codes
from skhash.codes.queries import Real
from skhash.metrics.evaluation import mean_values, values_of_queries
from skhash.metrics.histogram import Ranking
from skhash.metrics.metric import Metric
from skhash.metrics.neighbor_recall import neighbor_recall
from skhash.metrics.shards import is_dask, sharded_ranking
from skhash.metrics.ties import EMPTY, NO_RELEVANT_ITEM
from skhash.unwrap import (
    codes_of,
    find_hasher,
    hasher_input,
    items_of,
    lacks_factors,
    real_queries,
    training_database,
)


class RetrievalScorer:
    """Score a hasher, or a Pipeline that ends in one, by ranking a database.

    Parameters
    ----------
    metric : str or list of str, default="ap"
        A name returns a float. A list of names returns a dict of floats, from one encoding
        and one histogram: ``"ap"``, ``"ndcg@10"`` or ``"ndcg_at_10"``, ``"ap_worst"``, ...
        see :meth:`skhash.metrics.Metric.parse`. The keys have the cutoff: ``"ndcg_at_10"``.
    database : "fit", "fold" or tuple (X, y) or (X, y, groups), default="fit"
        Database that is ranked for the scored samples: the training samples of the hasher,
        the other scored samples, or given samples, encoded by the scored estimator. Samples of one group are one item,
        as in :func:`relevance_histogram`. Dask collections stay where they are: see :mod:`skhash.dask`.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant; "auto" is the fitted affinity of the hasher.
    k : int, default=None
        Cutoff rank of the names without one: with 5 the key of "ap" is ``"ap_at_5"``. AP with a cutoff is
        divided by all relevant items; ``"ap_at_100_retrieved"`` divides by those among the first 100.
    empty : "skip", "zero", "one" or "nan", default=None
        Value of queries with nothing relevant in the database. "skip" leaves them out, with a warning. None does
        the same, but raises an error if the database lacks the classes of most queries, as in folds of labels in
        order.
    weighted : bool, default=True
        Rank by the weighted Hamming distance if the hasher has learned weights of its
        bits; False ranks by the plain distance. A radius counts bits, whatever the weights.
    query : "code" or "real", default="code"
        Rank by the codes of the queries, or by their activations, as
        :class:`skhash.neighbors.HammingNeighbors` does, with the factors of a hasher that has them.
    candidates : int, default=None
        Number of items, the first by Hamming distance, that real queries put in order; None for all.

    Notes
    -----
    Queries of several samples need ``groups`` in a call. In cross-validation scikit-learn routes them, as it does for
    a splitter: ``cross_validate(..., scoring=scorer.set_score_request(groups=True), params={"groups": groups})``, with
    ``enable_metadata_routing=True``. With ``database="fold"`` a group is one query and one item. There is still a
    target for each sample, and that of all samples of a group must be the same.

    ``"neighbor_recall_at_10"`` compares with the nearest items in the space of the original vectors,
    which are the targets: pass them as y (``cross_val_score(hasher, X, X, scoring=...)``), or as
    ``database=(X_items, X_items)`` with ``y=X``. The attribute `metric` of the hasher decides which items are
    nearest, or else Euclidean distance; for another distance pass ``affinity=NeighborAffinity(10, metric="cosine")``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import StratifiedKFold, cross_validate
    >>> from skhash import ITQHasher
    >>> from skhash.metrics import RetrievalScorer
    >>> X, y = load_digits(return_X_y=True)
    >>> scorer = RetrievalScorer(["ap", "ndcg@10"])
    >>> folds = StratifiedKFold(3, shuffle=True, random_state=0)
    >>> scores = cross_validate(ITQHasher(nbits=16), X, y, scoring=scorer, cv=folds)
    >>> sorted(scores)
    ['fit_time', 'score_time', 'test_ap', 'test_ndcg_at_10']
    """

    def __init__(
        self,
        metric: str | Sequence[str] = "ap",
        database: str | tuple[Any, Any] = "fit",
        *,
        affinity: str | Callable[[Any, Any], Any] = "auto",
        k: int | None = None,
        empty: str | None = None,
        weighted: bool = True,
        query: Literal["code", "real"] = "code",
        candidates: int | None = None,
    ) -> None:
        self.metric = metric
        self.database = database
        self.affinity = affinity
        self.k = k = as_count_or_none(k, "k")
        self.empty = empty
        self.weighted = weighted
        self.query = query
        check_option("empty", empty, (*EMPTY, None))
        check_option("query", query, ("code", "real"))
        self.candidates = as_count_or_none(
            candidates,
            "candidates",
            what="an int >= 1 with query='real'",
            largest=math.inf if query == "real" else 0,
            got=f" with query={query!r}",
        )
        names: list[Any] = list(metric) if isinstance(metric, list | tuple) else [metric]
        self._metrics = [Metric.parse(name, k) for name in names]
        if isinstance(affinity, type) or not (callable(affinity) or (isinstance(affinity, str) and affinity == "auto")):
            raise ValueError(f"`affinity` must be 'auto' or a callable, see skhash.affinity. Got {affinity!r} instead.")
        self._n_neighbors = [metric.k if metric.function is neighbor_recall else None for metric in self._metrics]
        self._check_neighbors()
        if not isinstance(weighted, bool | np.bool_):
            raise ValueError(f"`weighted` must be True or False. Got {weighted!r} instead.")
        if not names:
            raise ValueError("`metric` must have at least one name. Got an empty list instead.")
        if k is not None and all(parsed.k is None for parsed in self._metrics):
            raise ValueError(f"`k` must be None for metrics without a cutoff rank, metric={metric!r}. Got {k} instead.")
        self._request: bool | str | None = None  # of groups
        is_given = isinstance(database, tuple) and len(database) in (2, 3)
        if not (is_given or (isinstance(database, str) and database in ("fit", "fold"))):
            given = repr(database) if isinstance(database, str) else f"a {type(database).__name__}"
            raise ValueError(
                f"`database` must be 'fit', 'fold' or a tuple (X, y) or (X, y, groups). Got {given} instead."
            )

    def _check_neighbors(self) -> None:
        """Raise ValueError unless the options for neighbors and real queries fit together."""
        if None in self._n_neighbors and any(self._n_neighbors):
            raise ValueError(
                "`metric` must be neighbor_recall alone, or other metrics alone: their truths differ. "
                f"Got {self.metric!r} instead; use one scorer for each."
            )
        if any(self._n_neighbors) and callable(self.affinity) and not isinstance(self.affinity, NeighborAffinity):
            raise ValueError(
                f"`affinity` must be 'auto' or a NeighborAffinity for {self.metric!r}. Got {self.affinity!r} instead."
            )

    def __repr__(self) -> str:
        given = "(X, y)" if len(self.database) == 2 else "(X, y, groups)"
        database = repr(self.database) if isinstance(self.database, str) else given
        options = f"affinity={self.affinity!r}, k={self.k!r}, empty={self.empty!r}, weighted={self.weighted!r}"
        options += f", query={self.query!r}, candidates={self.candidates!r}" if self.query == "real" else ""
        return f"RetrievalScorer({self.metric!r}, database={database}, {options})"

    def __call__(self, estimator: Any, X: Any, y: Any = None, *, groups: Any = None) -> Any:
        """Score of an estimator with the samples of `X` as queries.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a fitted Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Their targets; if None, those of a torch Dataset, or the samples as the hasher receives
            them, for an affinity that compares samples.
        groups : array-like of shape (n_samples,), ints or text, default=None
            Which samples are one query of several vectors: those with equal labels. They must have equal targets.

        Returns
        -------
        float or dict of float
            A float if `metric` is a name, a dict if it is a list of names.

        Raises
        ------
        ValueError
            If there are no targets that the affinity compares, no database to rank, or with ``empty=None`` if
            the database lacks the classes of more than half of the queries.
        TypeError
            If the estimator is not a hasher, and `database` is "fit".

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> from skhash.metrics import RetrievalScorer
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = ITQHasher(16, random_state=0).fit(X[:1000], y[:1000])
        >>> ap = RetrievalScorer("ap")(hasher, X[1000:], y[1000:])
        >>> ap == hasher.score(X[1000:], y[1000:])
        True
        """
        empty: str = self.empty or "skip"
        of_queries: dict[str, npt.NDArray[np.float64]] = {}
        for k, ranking in self._rankings(estimator, X, y, groups).items():
            metrics = [metric for metric, n in zip(self._metrics, self._n_neighbors, strict=True) if n == k]
            of_queries |= values_of_queries(ranking, metrics, empty)
        of_relevant = [of_queries[metric.name] for metric in self._metrics if metric._required == NO_RELEVANT_ITEM]
        if self.empty is None and of_relevant:
            _check_classes(ranking, np.isnan(of_relevant[0]))
        values = mean_values(self._metrics, of_queries, empty)
        if isinstance(self.metric, str):
            return values[self._metrics[0].name]
        return _Scores(values, {name: metric.name for name, metric in zip(self.metric, self._metrics, strict=True)})

    def ranking(self, estimator: Any, X: Any, y: Any = None, *, groups: Any = None) -> Ranking:
        """Ranking of the database for the samples of `X` as queries.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a fitted Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Their targets, as in a call of the scorer.
        groups : array-like of shape (n_samples,), ints or text, default=None
            Which samples are one query, as in a call of the scorer.

        Returns
        -------
        Ranking
            Codes, targets and affinity.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash import LSHHasher
        >>> from skhash.metrics import RetrievalScorer, evaluate_ranking
        >>> X, y = np.random.default_rng(0).standard_normal((100, 8)), np.arange(100) % 2
        >>> hasher = LSHHasher(nbits=16, random_state=0).fit(X, y)
        >>> scorer = RetrievalScorer("ap")
        >>> evaluate_ranking(scorer.ranking(hasher, X, y), ["ap"])["ap"] == scorer(hasher, X, y)
        True
        """
        return next(iter(self._rankings(estimator, X, y, groups).values()))

    def _rankings(self, estimator: Any, X: Any, y: Any, groups: Any) -> dict[int | None, Ranking]:
        """Rankings by the numbers of true neighbors of the metrics, each of which defines other relevant items."""
        hasher = find_hasher(estimator)
        if not hasattr(estimator, "transform"):
            raise TypeError(
                f"`estimator` must be a hasher, whose `transform` returns codes. Got {type(hasher).__name__} instead."
            )
        # real queries may need what the hasher stores beside the codes of items
        of_items = items_of if self.query == "real" else codes_of
        queries = (of_items if self.database == "fold" else codes_of)(estimator, X)
        queries, query_y = _by_group(queries, self._targets(estimator, hasher, X, y), groups, "`groups`")
        if isinstance(self.database, tuple):
            database_X, database_y, database_groups = *self.database, *[None] * (3 - len(self.database))
            if is_dask(database_X):
                return {self._n_neighbors[0]: self._sharded(estimator, queries, query_y)}
            database = of_items(estimator, database_X)
            database_y = self._targets(estimator, hasher, database_X, database_y)
            database, database_y = _by_group(database, database_y, database_groups, "The groups of `database`")
        elif self.database == "fold":
            if len(queries) < 2 or (queries.groups is not None and len(np.unique(queries.groups)) < 2):
                raise ValueError(
                    '`X` must have at least 2 queries with database="fold", which ranks the others for each. Got 1 '
                    'instead. Take fewer folds, or database="fit".'
                )
            database, database_y = queries, query_y
        else:
            database, database_y = training_database(hasher)
            check_columns(y, getattr(hasher, "label_names_in_", None), "`y`", "the training samples", "label")
        affinity: Any = self._affinity(hasher, database_y)
        ranking = Ranking(
            queries,
            database,
            Relevance.between(query_y, database_y, affinity),
            self._bit_weights(hasher),
            exclude_self=isinstance(self.database, str) and self.database == "fold",
            query_activations=self._real_queries(estimator, X, database) if self.query == "real" else None,
            candidates=self.candidates,
        )
        relevance = ranking.relevance
        if isinstance(relevance.affinity, ClassAffinity) and relevance.distinct()[0].shape[1] == 1:
            warnings.warn(
                "The database holds a single class: every query finds everything or nothing relevant. With sorted "
                "labels use StratifiedKFold(shuffle=True).",
                UserWarning,
                stacklevel=4,
            )
        rankings = {self._n_neighbors[0]: ranking}
        for k in self._n_neighbors[1:]:
            if k not in rankings:
                truth = Relevance.between(query_y, database_y, replace(affinity, n_neighbors=k))
                rankings[k] = replace(ranking, relevance=truth)
        return rankings

    def _sharded(self, estimator: Any, queries: Codes, query_y: Any) -> Ranking:
        """Ranking of a dask database, whose targets are in blocks."""
        if len(self.database) == 3:
            raise ValueError("`database` must be (X, y) with dask, whose blocks may divide a group. Got groups, too.")
        if self.query == "real":
            raise ValueError("`query` must be 'code' with a dask database, whose shards add. Got 'real' instead.")
        hasher = find_hasher(estimator)
        of_queries = Relevance.between(query_y, query_y, self._affinity(hasher, query_y))
        return sharded_ranking(estimator, self.database, queries, query_y, of_queries, self._bit_weights(hasher))

    def _bit_weights(self, hasher: Any) -> Any:
        return getattr(hasher, "bit_weights_", None) if self.weighted else None

    def _real_queries(self, estimator: Any, X: Any, database: Codes) -> Real:
        """Real queries, which estimate distances if the hasher has factors."""
        if lacks_factors(estimator, database):
            raise ValueError(
                "`database` must be the samples, (X, y), with the factors of a prefix, which are not stored. "
                "Got 'fit' instead."
            )
        return real_queries(estimator, X, database)

    def _affinity(self, hasher: Any, database_y: Any) -> str | Callable[[Any, Any], Any]:
        if self._n_neighbors[0] is not None:
            if np.ndim(database_y) != 2:
                raise ValueError(
                    f"`y` must hold the original vectors for {self.metric!r}: pass y=X, and fit with y=X or give "
                    f"database=(X, X). Got targets of {np.ndim(database_y)} axes instead."
                )
            if isinstance(self.affinity, NeighborAffinity):
                return replace(self.affinity, n_neighbors=self._n_neighbors[0], fraction=None)
            return NeighborAffinity(self._n_neighbors[0], metric=getattr(hasher, "metric", "euclidean"))
        if not callable(self.affinity) and getattr(hasher, "affinity_", None) is not None:
            fitted: Callable[[Any, Any], Any] = hasher.affinity_
            return fitted
        return self.affinity

    def _targets(self, estimator: Any, hasher: Any, X: Any, y: Any) -> Any:
        if y is not None:
            return y
        if any(self._n_neighbors):
            raise ValueError(f"`y` must hold the original vectors for {self.metric!r}: pass y=X. Got None instead.")
        affinity = self.affinity if callable(self.affinity) else getattr(hasher, "affinity_", None)
        requires_y, samples = getattr(affinity, "requires_y", True), hasher_input(estimator, X)
        if is_dataset(samples):
            return hasher._targets_of(samples, are_samples=not requires_y)
        if requires_y:
            raise ValueError(
                f"`y` must be given for the affinity {affinity or 'auto'!r}, which compares targets. Without labels, "
                "RetrievalScorer('neighbor_recall_at_10') scores with y=X, for a hasher that was fitted with y=X."
            )
        return samples

    def _accept_sample_weight(self) -> bool:
        return False

    def set_score_request(self, *, groups: bool | str | None) -> Self:
        """Request `groups` of scikit-learn's functions and searches that call the scorer.

        Parameters
        ----------
        groups : bool, str or None
            True requests them, False does not, and a str requests metadata of that name in their place. None, as at
            first, asks nothing: `groups` go to the splitter alone.

        Returns
        -------
        RetrievalScorer
            The scorer itself.

        Raises
        ------
        RuntimeError
            If ``sklearn.set_config(enable_metadata_routing=True)`` was not called.

        Examples
        --------
        >>> import sklearn
        >>> from skhash.metrics import RetrievalScorer
        >>> with sklearn.config_context(enable_metadata_routing=True):
        ...     scorer = RetrievalScorer("ap", "fold").set_score_request(groups=True)
        """
        if not sklearn.get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "Metadata is routed only after sklearn.set_config(enable_metadata_routing=True). A direct call of the "
                "scorer takes `groups` without it."
            )
        self._request = groups
        return self

    def get_metadata_routing(self) -> Any:
        """Request of `groups`, if it was set, in scikit-learn's routing protocol."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        if self._request is not None:
            request.score.add_request(param="groups", alias=self._request)
        return request


class _Scores(dict[str, float]):
    """Values by name; a name as it was given, which lacks the cutoff, is an error that names the key."""

    def __init__(self, values: dict[str, float], keys: dict[str, str]) -> None:
        super().__init__(values)
        self.keys_of_names = keys

    def __contains__(self, name: object) -> bool:
        # a search asks with its `refit`, and its own error would not say what the key is
        if not super().__contains__(name) and name in self.keys_of_names:
            raise ValueError(self._message(name))
        return super().__contains__(name)

    def __missing__(self, name: str) -> float:
        raise KeyError(self._message(name))

    def _message(self, name: Any) -> str:
        keys = repr(self.keys_of_names[name]) if name in self.keys_of_names else f"one of {', '.join(self)}"
        return f"`refit`, or a key, must be {keys}. Got {name!r} instead."


def _by_group(codes: Codes, y: Any, groups: Any, name: str) -> tuple[Codes, Any]:
    """Codes with groups, and the target of each distinct group, ascending."""
    if groups is None:
        return codes, y
    labels = checked_groups(groups, len(codes), "groups")
    _, first, group = np.unique(labels, return_index=True, return_inverse=True)
    targets = sparse.csr_array(y) if sparse.issparse(y) else np.asarray(y)
    if targets.shape[:1] != (len(codes),):
        raise ValueError(f"`y` must have one target per sample, {len(codes)}. Got shape {targets.shape} instead.")
    if (targets[first[group]] != targets).sum():
        raise ValueError(f"{name} must be of samples with equal targets. Got a group whose samples have others.")
    return replace(codes, groups=labels), _safe_indexing(y, first)


def _check_classes(ranking: Ranking, is_empty: npt.NDArray[np.bool_]) -> None:
    """Raise ValueError if the database lacks the classes of most queries, as in folds of labels in order."""
    if 2 * is_empty.sum() <= len(is_empty):
        return
    targets = ranking.relevance.targets
    classes = Relevance.between(targets, targets, ranking.relevance.affinity).classes
    # queries that are each alone in their class are instances, which no splitter can keep in both parts
    if classes is not None and is_empty.sum() >= 2 * len(np.unique(classes[is_empty])):
        raise ValueError(
            f"`y` must have classes of which the database has samples. Got {is_empty.sum()} of {len(is_empty)} queries "
            "whose class it lacks. In cross-validation, labels in order do this: use StratifiedKFold(shuffle=True). "
            "RetrievalScorer(empty='skip') leaves such queries out."
        )
