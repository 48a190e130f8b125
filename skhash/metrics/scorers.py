"""Scorers: tie-aware metrics of a hasher, for cross-validation and searches."""

import warnings

import numpy as np

from skhash.affinity import ClassAffinity, resolve_affinity
from skhash.codes import as_packed, check_same_nbits
from skhash.metrics._ties import check_cutoff, check_options
from skhash.metrics.evaluation import Ranking, evaluate_ranking
from skhash.metrics.metric import Metric


class RetrievalScorer:
    """Score a hasher, or a Pipeline that ends in one, by ranking a database.

    Parameters
    ----------
    metric : str or list of str, default="ap"
        A name gives a float, a list of names a dict of floats from one encoding and
        one histogram: ``"ap"``, ``"ndcg"``, ``"precision_at_100"``, ``"ap_worst"``, ...
        as :meth:`skhash.metrics.Metric.parse` reads them.
    database : "fit", "fold" or tuple (X, y), default="fit"
        What the scored rows are ranked against: the rows that the hasher was fitted
        on, the other scored rows, or explicit rows, encoded by the scored estimator.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant; "auto" is the affinity that the hasher has fitted.
    k : int, default=None
        Cut-off for the names that carry none.
    empty : "skip", "zero", "one" or "nan", default="skip"
        Value of queries with nothing relevant in the database.
    weighted : bool, default=True
        Rank by the weighted Hamming distance of a hasher that has learned weights of its
        bits; False ranks by the plain one. A radius counts bits, whatever they weigh.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import StratifiedKFold, cross_validate
    >>> from skhash import ITQHasher
    >>> from skhash.metrics import RetrievalScorer
    >>> X, y = load_digits(return_X_y=True)
    >>> scores = cross_validate(ITQHasher(nbits=16), X, y, scoring=RetrievalScorer(["ap", "ndcg"]),
    ...                         cv=StratifiedKFold(3, shuffle=True, random_state=0))
    >>> sorted(scores)
    ['fit_time', 'score_time', 'test_ap', 'test_ndcg']
    """

    def __init__(self, metric="ap", database="fit", *, affinity="auto", k=None, empty="skip", weighted=True):
        self.metric = metric
        self.database = database
        self.affinity = affinity
        self.k = k
        self.empty = empty
        self.weighted = weighted
        check_options("average", empty)
        check_cutoff(k)
        names = list(metric) if isinstance(metric, list | tuple) else [metric]
        self._metrics = [Metric.parse(name, k) for name in names]
        if not (callable(affinity) or (isinstance(affinity, str) and affinity == "auto")):
            raise ValueError(f"affinity={affinity!r}; 'auto' or a callable on rows is wanted, see skhash.affinity.")
        if not names:
            raise ValueError("`metric` must have at least one name. Got an empty list instead.")
        if k is not None and all(parsed.k is None for parsed in self._metrics):
            raise ValueError(f"`k` must be None for metrics without a cutoff rank, metric={metric!r}. Got {k} instead.")
        if isinstance(database, str) and database not in ("fit", "fold"):
            raise ValueError(f"database={database!r}; 'fit', 'fold' or a tuple (X, y) is wanted.")
        if not isinstance(database, str) and not (isinstance(database, tuple) and len(database) == 2):
            raise ValueError(f"database is a {type(database).__name__}; 'fit', 'fold' or a tuple (X, y) is wanted.")

    def __repr__(self):
        database = repr(self.database) if isinstance(self.database, str) else "(X, y)"
        options = f"affinity={self.affinity!r}, k={self.k!r}, empty={self.empty!r}, weighted={self.weighted!r}"
        return f"RetrievalScorer({self.metric!r}, database={database}, {options})"

    def __call__(self, estimator, X, y=None):
        """Score `estimator` with the rows of `X` as queries.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a fitted Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Their targets; None stands for the rows that the hasher receives, where the
            affinity compares those.

        Returns
        -------
        float or dict of float
            As `metric` is a name or a list of names.

        Raises
        ------
        ValueError
            Without the targets that the affinity compares, or without a database to rank.
        TypeError
            If the estimator is no hasher, and the database is to be that of its fit.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> from skhash.metrics import RetrievalScorer
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = ITQHasher(16, random_state=0).fit(X[:1000], y[:1000])
        >>> RetrievalScorer("ap")(hasher, X[1000:], y[1000:]) == hasher.score(X[1000:], y[1000:])
        True
        """
        values = evaluate_ranking(self.ranking(estimator, X, y), self._metrics, empty=self.empty)
        return values[self.metric] if isinstance(self.metric, str) else values

    def ranking(self, estimator, X, y=None):
        """Ranking of the database for the samples of `X` as queries.

        Parameters
        ----------
        estimator : estimator
            A fitted hasher, or a fitted Pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Their targets, as in a call of the scorer.

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
        >>> hasher, scorer = LSHHasher(nbits=16, random_state=0).fit(X, y), RetrievalScorer("ap")
        >>> evaluate_ranking(scorer.ranking(hasher, X, y), ["ap"])["ap"] == scorer(hasher, X, y)
        True
        """
        hasher = find_hasher(estimator)
        if not hasattr(estimator, "transform"):
            raise TypeError(f"{type(hasher).__name__} has no transform that gives codes; a hasher of skhash is wanted.")
        queries, nbits = _packed_codes(estimator, hasher, X)
        query_y = self._targets(estimator, hasher, X, y)
        if isinstance(self.database, tuple):
            database_X, database_y = self.database
            database, database_nbits = _packed_codes(estimator, hasher, database_X)
            check_same_nbits(nbits, database_nbits, "query_codes", "database_codes")
            database_y = self._targets(estimator, hasher, database_X, database_y)
        elif self.database == "fold":
            database, database_y = queries, query_y
        else:
            database, database_y = _training_database(hasher)
        affinity = self._affinity(hasher, database_y)
        if isinstance(affinity, ClassAffinity) and len(np.unique(database_y)) == 1:
            warnings.warn(
                "The database holds a single class: every query finds everything or nothing relevant. With sorted "
                "labels use StratifiedKFold(shuffle=True).",
                UserWarning,
                stacklevel=3,
            )
        return Ranking(
            queries,
            database,
            nbits,
            query_y,
            database_y,
            affinity,
            bit_weights=getattr(hasher, "bit_weights_", None) if self.weighted else None,
            exclude_self=isinstance(self.database, str) and self.database == "fold",
        )

    def _affinity(self, hasher, database_y):
        if not callable(self.affinity) and getattr(hasher, "affinity_", None) is not None:
            return hasher.affinity_
        return resolve_affinity(self.affinity, database_y)

    def _targets(self, estimator, hasher, X, y):
        if y is not None:
            return y
        affinity = self.affinity if callable(self.affinity) else getattr(hasher, "affinity_", None)
        if getattr(affinity, "requires_y", True):
            raise ValueError(f"y is None, and the affinity {affinity or 'auto'!r} compares targets: pass y.")
        return hasher_input(estimator, X)

    def _accept_sample_weight(self):
        return False

    def get_metadata_routing(self):
        """Ask for no metadata, in scikit-learn's routing protocol."""
        from sklearn.utils.metadata_routing import MetadataRequest

        return MetadataRequest(owner=self)


def _packed_codes(estimator, hasher, X):
    """Packed codes and their number of bits: from `encode` if the hasher has it, else from the bits of `transform`."""
    if hasattr(hasher, "encode") and hasattr(hasher, "_n_features_out"):
        return hasher.encode(_last_step_input(estimator, X)), hasher._n_features_out
    return as_packed(estimator.transform(X), name=f"{type(hasher).__name__}.transform(X)")


def _training_database(hasher):
    """Packed codes and targets of the training samples of a hasher."""
    if not hasattr(hasher, "database_codes_"):
        raise TypeError(
            f"{type(hasher).__name__} keeps no database to rank: a hasher of skhash is wanted, or "
            "RetrievalScorer(database='fold' or (X, y))."
        )
    if hasher.database_codes_ is None:
        raise ValueError(
            f"{type(hasher).__name__} was fitted with store_database=False and has no database to rank; "
            "fit with store_database=True, or give RetrievalScorer(database=(X, y))."
        )
    if hasher.database_y_ is None:
        raise ValueError(f"{type(hasher).__name__} was fitted without y, so that its rows have no targets to compare.")
    return hasher.database_codes_, hasher.database_y_


def find_hasher(estimator):
    """Find the hasher inside fitted searches and Pipelines.

    Parameters
    ----------
    estimator : estimator
        A hasher, or a fitted Pipeline or search that ends in one.

    Returns
    -------
    estimator
        The hasher.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skhash import LSHHasher
    >>> from skhash.metrics.scorers import find_hasher
    >>> find_hasher(make_pipeline(StandardScaler(), LSHHasher(nbits=8)))
    LSHHasher(nbits=8)
    """
    if hasattr(estimator, "best_estimator_"):
        return find_hasher(estimator.best_estimator_)
    return find_hasher(estimator.steps[-1][1]) if hasattr(estimator, "steps") else estimator


def hasher_input(estimator, X):
    """Rows as the hasher receives them, after the earlier steps of a Pipeline.

    Parameters
    ----------
    estimator : estimator
        A hasher, or a fitted Pipeline or search that ends in one.
    X : array-like of shape (n_samples, n_features)
        Rows as the estimator receives them.

    Returns
    -------
    ndarray of shape (n_samples, ...)
        The rows that its last step sees.

    Examples
    --------
    >>> from skhash import LSHHasher
    >>> from skhash.metrics.scorers import hasher_input
    >>> hasher_input(LSHHasher(), [[0.5, 1.0]])
    array([[0.5, 1. ]])
    """
    return np.asarray(_last_step_input(estimator, X))


def _last_step_input(estimator, X):
    """Samples after the earlier steps of Pipelines, in the container that these return."""
    if hasattr(estimator, "best_estimator_"):
        return _last_step_input(estimator.best_estimator_, X)
    if not hasattr(estimator, "steps"):
        return X
    earlier, last = estimator[:-1], estimator.steps[-1][1]
    return _last_step_input(last, earlier.transform(X) if len(earlier) else X)


ap_scorer = RetrievalScorer("ap")
ndcg_scorer = RetrievalScorer("ndcg")
precision_at_100_scorer = RetrievalScorer("precision_at_100")
precision_radius_2_scorer = RetrievalScorer("precision_radius_2")
