"""BaseHasher: what every hasher shares, whatever it learns from."""

from abc import abstractmethod
from contextlib import contextmanager
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from skhash._compat import Interval, StrOptions, fit_context
from skhash._targets import take_targets
from skhash._threads import one_blas_thread
from skhash.affinity import fit_affinity, level_indices, resolve_affinity
from skhash.codes import binarize, pack

ENCODE_BATCH_SIZE = 4096  # rows projected at a time: bounds memory, and the same rows meet the same arithmetic


class BaseHasher(ClassNamePrefixFeaturesOutMixin, CallbackSupportMixin, TransformerMixin, BaseEstimator):
    """Common part of all hashers: validation, codes, scoring, tags.

    A subclass implements `_fit(X, targets)`, which sets fitted attributes, and
    `_project(X)`, which maps rows to real activations; everything else follows.

    Parameters of every subclass: `nbits`, `affinity`, `store_database`.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.base import BaseHasher
    >>> class AboveMean(BaseHasher):
    ...     def __init__(self, nbits=2, *, affinity="auto", store_database=True):
    ...         self.nbits, self.affinity, self.store_database = nbits, affinity, store_database
    ...     def _fit(self, X, targets):
    ...         self.mean_ = X.mean(axis=0)
    ...     def _project(self, X):
    ...         return (X - self.mean_)[:, : self.nbits]
    >>> AboveMean(2).fit_transform(np.array([[0.0, 5.0], [2.0, 1.0]]))
    array([[0, 1],
           [1, 0]], dtype=uint8)
    """

    _parameter_constraints: dict = {
        "nbits": [Interval(Integral, 1, None, closed="left")],
        "affinity": [StrOptions({"auto"}), callable],
        "store_database": ["boolean"],
    }

    #: whether learning itself needs an affinity; unsupervised hashers keep y for `score` only
    _supervised = False
    #: what rows are converted to; the first one unless they are of another already
    _dtypes: list = [np.float64, np.float32]
    #: private attributes that belong to a fitted hasher
    _kept: tuple = ()
    history_: list  # of a method that learns in epochs or bit by bit

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn the hash functions from the rows of `X`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows, finite real values.
        y : array-like of shape (n_samples,) or (n_samples, ...), default=None
            Targets that the affinity compares: class labels, a 0/1 matrix of labels,
            or any rows that a given affinity takes. Supervised hashers require it
            unless their affinity does not; the others keep it for :meth:`score` only.

        Returns
        -------
        self : object
            The fitted hasher.

        Raises
        ------
        ValueError
            If `X` or `y` cannot be learned from; what was fitted before is kept.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> ITQHasher(16, random_state=0).fit(X)
        ITQHasher(nbits=16, random_state=0)
        """
        return self._run_fit(X, y)

    def _run_fit(self, X, y, **options):
        """Validate, learn, store the database; `options` go to `_fit`."""
        with self._kept_on_failure():
            X, targets = self._validate_training_data(X, y)
            if self._supervised and (lack := lack_of_pairs(self.affinity_, targets)):
                raise ValueError("; ".join(lack))
            context = self._init_callback_context(max_subtasks=self._prepare(X))
            context.call_on_fit_task_begin(estimator=self, X=X, y=y)
            with self._threads():
                interrupt = self._fit(X, targets, **options)
            self._store_database(X, targets)
            if interrupt is None:
                context.call_on_fit_task_end(estimator=self, X=X, y=y)
        if interrupt is not None:
            raise interrupt
        return self

    @abstractmethod
    def _fit(self, X, targets):
        """Learn from validated rows and targets; set the fitted attributes.

        A KeyboardInterrupt that left a usable model is returned, to be raised when the
        model is complete.
        """

    def _keep_weights(self, weights):
        """Set fitted attributes from the weights of a method that learns step by step."""
        raise NotImplementedError

    @abstractmethod
    def _project(self, X):
        """Map validated rows to real activations of shape (n, nbits)."""

    def project(self, X):
        """Compute the real activations whose signs are the bits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, nbits), float
            Activations; a bit is 1 where its activation is >= 0.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If the rows are not like those of `fit`.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = ITQHasher(16, random_state=0).fit(X)
        >>> bool(((hasher.project(X) >= 0) == hasher.transform(X)).all())
        True
        """
        return self._by_slices(self._validate_rows(X), lambda activations: activations)

    def transform(self, X):
        """Hash rows to bits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, nbits), dtype uint8
            Bits, 0 or 1.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If the rows are not like those of `fit`.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> ITQHasher(16, random_state=0).fit(X).transform(X[:5]).shape
        (5, 16)
        """
        return self._by_slices(self._validate_rows(X), binarize)

    def encode(self, X):
        """Hash rows to packed codes, for storage and search.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8
            Codes in :func:`numpy.packbits` order, the unused tail zero.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If the rows are not like those of `fit`.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> ITQHasher(12, random_state=0).fit(X).encode(X[:5]).shape  # 12 bits take 2 bytes
        (5, 2)
        """
        return self._by_slices(self._validate_rows(X), _binarize_and_pack)

    def score(self, X, y=None):
        """Rank the rows of fit for each row of `X` as a query, and average the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Targets of the queries; not needed where the affinity compares rows of X.

        Returns
        -------
        float
            Mean tie-aware AP, or NDCG for a hasher trained on NDCG, in [0, 1].

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            Without the targets that the affinity compares, or with ``store_database=False``.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> ITQHasher(16, random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.5
        True
        """
        from skhash.metrics.scorers import RetrievalScorer

        check_is_fitted(self)
        return RetrievalScorer(self._score_metric())(self, X, y)

    def _score_metric(self):
        return "ap"

    def _prepare(self, X):
        """Settle what depends on the data; return the number of steps that callbacks are told of."""
        return 0

    @property
    def _n_features_out(self):
        return self._nbits

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.target_tags.required = self._supervised and getattr(self.affinity, "requires_y", True)
        tags.target_tags.multi_output = True
        return tags

    def _validate_rows(self, X):
        check_is_fitted(self)
        return self._check_input(X, reset=False)

    def _check_input(self, X, **options):
        """Validate rows; `options` go to scikit-learn's validate_data."""
        return validate_data(self, X, dtype=self._dtypes, **options)

    def _validate_training_data(self, X, y, first=True):
        """Check X and y, fit the affinity; return X and the targets that it compares.

        `first` is False for further rows of a stream: what was settled stays.
        """
        given = not isinstance(self.affinity, str)
        # a missing y is looked at here, any other one below
        X = self._check_input(X, y=None if y is None else "no_validation", reset=first, ensure_min_samples=2)
        if y is None:
            # X[:], for rows of a Dataset are read by that
            targets = X[:] if given and not getattr(self.affinity, "requires_y", True) else None
        else:
            targets = check_array(
                y,
                accept_sparse="csr",
                dtype=None,
                ensure_2d=False,
                allow_nd=given,
                ensure_all_finite=not given,
                input_name="y",
                estimator=self,
            )
        if targets is not None and targets.shape[0] != X.shape[0]:
            raise ValueError(f"y has {targets.shape[0]} rows and X {X.shape[0]}; one target a row is wanted.")
        if first:
            self._nbits = int(self.nbits)
            self.affinity_ = None
            if targets is not None and (self._supervised or given):  # otherwise y is for `score`, which will look at it
                self.affinity_ = fit_affinity(resolve_affinity(self.affinity, targets), targets)
        return X, targets

    def _by_slices(self, X, function):
        """A function of the activations of validated rows, a slice of rows at a time."""
        with self._threads():
            return np.concatenate([function(self._project(X[rows])) for rows in gen_batches(len(X), ENCODE_BATCH_SIZE)])

    def _threads(self):
        """What learning and hashing are limited to: one thread, for codes that do not depend on their number."""
        return one_blas_thread()

    def _store_database(self, X, targets):
        """Keep the codes and targets of the training rows: the database of `score`."""
        self.database_codes_ = self._by_slices(X, _binarize_and_pack) if self.store_database else None
        self.database_y_ = targets if self.store_database else None

    def _snapshot(self, X, targets, weights=None):
        """Attributes of a hasher fitted up to now, or with `weights` kept, for callbacks that want one."""
        snapshot = type(self)(**self.get_params(deep=False))
        snapshot.__dict__.update({key: value for key, value in self.__dict__.items() if "callback" not in key})
        snapshot.history_ = list(self.history_)
        if weights is not None:
            snapshot._keep_weights(weights)
        snapshot._store_database(X, targets)
        return {name: value for name, value in vars(snapshot).items() if name.endswith("_") or name in self._kept}

    @contextmanager
    def _kept_on_failure(self):
        """Restore everything that was fitted before, if the body fails or is interrupted."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            # what scikit-learn's callbacks set during this fit is theirs to tear down
            transient = {
                key: value for key, value in self.__dict__.items() if key.startswith("_callback") or "_skl_" in key
            }
            self.__dict__.clear()
            self.__dict__.update(before | transient)
            raise


def _binarize_and_pack(activations):
    return pack(binarize(activations))


def lack_of_pairs(affinity, targets, step=16):
    """Say what hashing cannot be learned from: rows without a relevant pair of different ones, or an irrelevant pair.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    targets : array of shape (n_samples, ...)
        What it compares.
    step : int, default=16
        Rows that are compared with all at a time; a few tell, as a rule.

    Returns
    -------
    tuple of str or None
        What is the matter, and what is wanted; None if there are both kinds of pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.affinity import ClassAffinity
    >>> from skhash.base import lack_of_pairs
    >>> lack_of_pairs(ClassAffinity(), np.array([0, 0]))[0]
    'y makes every pair of rows relevant (a single class?)'
    >>> lack_of_pairs(ClassAffinity(), np.array([0, 0, 1])) is None
    True
    """
    n = targets.shape[0]
    relevant = irrelevant = False
    for rows in gen_batches(n, step):
        indices, _ = level_indices(affinity, take_targets(targets, rows), targets)
        others = np.ones(indices.shape, dtype=bool)
        others[np.arange(len(indices)), np.arange(rows.start, rows.stop)] = False
        relevant |= bool((indices[others] > 0).any())
        irrelevant |= bool((indices[others] == 0).any())
        if relevant and irrelevant:
            return None
    if relevant:
        return "y makes every pair of rows relevant (a single class?)", (
            "at least two classes are wanted. In cross-validation, sorted labels do this: use "
            "StratifiedKFold(shuffle=True)."
        )
    return (
        "y makes no pair of different rows relevant (every row a class of its own?)",
        "at least one class with two rows is wanted.",
    )
