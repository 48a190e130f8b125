"""BaseHasher: what every hasher shares."""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from inspect import cleandoc, getattr_static
from numbers import Integral
from operator import attrgetter
from typing import Annotated, Any, Self, get_type_hints

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from skhash._compat import (
    CallbackSupportMixin,
    Interval,
    InvalidParameterError,
    StrOptions,
    fit_context,
    n_samples,
    validate_parameter_constraints,
    with_callbacks,
)
from skhash._files import check_writable
from skhash._ids import checked_ids
from skhash._names import check_columns, in_order_of, names_of
from skhash._slices import ENCODE_BATCH_SIZE, Source, array_source, is_sliced, iterator_source
from skhash._threads import one_thread
from skhash._validation import (
    OPTIONAL,
    Array,
    are_within,
    as_count,
    as_count_or_none,
    check_activations,
    check_kind,
    check_values,
    evenly_spaced,
    is_plain,
    missing_targets,
    with_nearest,
)
from skhash.affinity import Relevance
from skhash.affinity.targets import as_labels
from skhash.codes import Codes, threshold
from skhash.codes.bits import MAX_NBITS
from skhash.codes.codes import are_other
from skhash.exceptions import DegenerateCodesWarning
from skhash.functions import HashFunction
from skhash.persistence.encodings import RecordFile, fingerprint_beside, write_fingerprint
from skhash.persistence.fingerprint import fingerprint_of, known_fingerprint

N_CHECKED = 1000  # training samples that are encoded for the check if their codes are not stored
N_NAMED = 5  # a warning names at most this many constant bits
CHANCE = 0.05  # with few samples, balanced bits are constant by chance; a warning needs less than this


class InterruptedFit(KeyboardInterrupt):
    """The user interrupts a fit that leaves a usable hasher."""


@dataclass(frozen=True, eq=False)
class Database:
    """Codes of the training samples, which `score` ranks, and their targets.

    Parameters
    ----------
    codes : Codes
        Codes of the samples, with their factors if the hasher has any.
    y : array of shape (n_samples, ...), default=None
        What the affinity compares.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> ITQHasher(16, random_state=0).fit(X, y).database_.codes.rows.shape
    (1797, 2)
    """

    codes: Codes
    y: Any = None


def _adds_abstract_methods(cls: type) -> bool:
    return any(getattr(value, "__isabstractmethod__", False) for value in vars(cls).values())


def from_function(name: str) -> Any:
    """Property of a hasher: an attribute of its `function_`."""
    return property(attrgetter(f"function_.{name}"), doc=f"The attribute `{name}` of `function_`.")


class BaseHasher(ClassNamePrefixFeaturesOutMixin, CallbackSupportMixin, TransformerMixin, BaseEstimator):
    """Base class of all hashers: validation, codes, scores and tags.

    A subclass implements `_learn(X, relevance, rng)`, which returns a :class:`~skhash.functions.HashFunction`:
    `X` holds the checked training samples, `relevance` is their :class:`~skhash.affinity.Relevance`, and `rng` the
    RandomState of `random_state`. `relevance` is None unless the class sets `_supervised` to True. A subclass has the
    parameters `nbits`, `affinity` and `store_database`, and `random_state` if it draws from `rng`. What it lacks is an
    error where it is defined, unless it lists ABC among its bases, adds an abstract method, or has a `fit` of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.base import BaseHasher
    >>> from skhash.functions import LinearFunction
    >>> class AboveMean(BaseHasher):
    ...     def __init__(self, nbits=2, *, affinity="auto", store_database=True):
    ...         self.nbits, self.affinity = nbits, affinity
    ...         self.store_database = store_database
    ...
    ...     def _learn(self, X, relevance, rng):
    ...         return LinearFunction(X.mean(axis=0), np.eye(X.shape[1], self.nbits))
    >>> AboveMean(2).fit_transform(np.array([[0.0, 5.0], [2.0, 1.0]]))
    array([[0, 1],
           [1, 0]], dtype=uint8)
    """

    _parameter_constraints: dict[str, Any] = {
        "nbits": [Interval(Integral, 1, MAX_NBITS, closed="both")],
        "affinity": [StrOptions({"auto"}), callable],
        "store_database": ["boolean"],
    }

    #: whether learning needs an affinity; unsupervised hashers store y for `score` only
    _supervised: Any = False
    #: accepted dtypes of X; another dtype is converted to the first one
    _dtypes: list[Any] = [np.float64, np.float32]
    #: whether X may be sparse, which then stays sparse
    _takes_sparse = False
    #: private attributes that belong to a fitted hasher
    _fitted_private: tuple[str, ...] = ()
    nbits: int
    affinity: Any
    store_database: bool
    function_: HashFunction
    n_features_in_: Annotated[int, OPTIONAL]
    feature_names_in_: Annotated[npt.NDArray[Any], Array("n_features", "O"), OPTIONAL]
    label_names_in_: Annotated[list[str], OPTIONAL]  # of the columns of y, if these have names that are text
    affinity_: Any
    database_: Database | None
    history_: Annotated[list[dict[str, Any]], OPTIONAL]  # of methods that learn in epochs or bit by bit

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fits = next(base for base in cls.__mro__ if "fit" in vars(base))
        has_own_fit = not _adds_abstract_methods(fits)  # which calls no abstract method
        if not (_adds_abstract_methods(cls) or ABC in cls.__bases__ or has_own_fit):
            cls._check_definition()

    @classmethod
    def _check_definition(cls) -> None:
        """Raise TypeError for what a class lacks that can be fitted."""
        remedy = f"If {cls.__name__} is a base of other classes, list abc.ABC among its bases."
        for name in dir(cls):
            value = getattr_static(cls, name)
            if getattr(value, "__isabstractmethod__", False):
                what = cleandoc(value.__doc__ or "its part of the method").partition(".")[0]
                raise TypeError(f"{cls.__name__} must define `{name}`: {what[:1].lower()}{what[1:]}. {remedy}")
        known = cls._get_param_names()
        if missing := [name for name in cls._needed_parameters() if name not in known and not hasattr(cls, name)]:
            raise TypeError(f"{cls.__name__}.__init__ must have the parameter `{missing[0]}`. {remedy}")

    @classmethod
    def _needed_parameters(cls) -> list[str]:
        """Parameters that `fit` reads."""
        return ["nbits", "affinity", "store_database"]

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the hash functions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, finite real values.
        y : array-like of shape (n_samples,) or (n_samples, ...), default=None
            Targets that the affinity compares: class labels, a 0/1 matrix of labels, or whatever a given affinity
            takes. Supervised hashers require it unless their affinity does not. Others store it for :meth:`score`.

        Returns
        -------
        self : object
            The fitted hasher.

        Raises
        ------
        TypeError
            If `X` is sparse, a torch Dataset, or of another kind that the hasher does not take.
        ValueError
            If `X` or `y` is invalid. The previous fit is kept.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> ITQHasher(16, random_state=0).fit(X)
        ITQHasher(nbits=16, random_state=0)
        """
        return self._run_fit(X, y, lambda X, relevance, rng, targets: self._learn(X, relevance, rng))

    def _validate_params(self) -> None:
        """Check the parameters; the error for an unknown name has the most similar right one."""
        for name, value in self.get_params(deep=False).items():
            try:
                validate_parameter_constraints(self._parameter_constraints, {name: value}, type(self).__name__)
            except InvalidParameterError as error:
                constraints = self._parameter_constraints[name]
                known = [option for each in constraints if isinstance(each, StrOptions) for option in each.options]
                if not known or not isinstance(value, str):
                    raise
                text = str(error).replace(repr(value), with_nearest([value], sorted(known)))
                raise InvalidParameterError(text) from None

    def _run_fit(self, X: Any, y: Any, learn: Callable[..., HashFunction]) -> Self:
        """Validate, resolve defaults, learn, and store the database; `learn` gets what `_learn` gets, and targets."""
        with self._restored_on_failure():
            X, targets, relevance = self._validate_fit_data(X, y)
            self.affinity_ = None if relevance is None else relevance.affinity
            relevance = relevance if self._supervised else None
            self._note_relevance(relevance)
            if relevance is not None:
                relevance.check_pairs()
            self._check_options()
            self._resolve_defaults(X)
            context = self._init_callback_context(max_subtasks=self._n_tasks())
            context.call_on_fit_task_begin(estimator=self, X=X, y=targets)
            rng = check_random_state(getattr(self, "random_state", None))
            with self._environment():
                self.function_ = learn(X, relevance, rng, targets)
            self._store_database(X, targets)
            context.call_on_fit_task_end(estimator=self, X=X, y=targets)
            labels = targets if relevance is not None and relevance.classes is not None else None
            if self.database_ is None:
                checked = evenly_spaced(X.shape[0], N_CHECKED)
                codes = Codes(self._map(X[checked], self._packed, is_valid=True), self._n_features_out)
                labels = labels if labels is None else labels[checked]
            else:
                codes = self.database_.codes
        message = _describe_degenerate(codes, X.shape[0])
        if message is None and labels is not None:
            message = describe_shared(codes, labels)
        if message is not None:
            warnings.warn(message, DegenerateCodesWarning, stacklevel=5)
        self._warn_of_training(stacklevel=6)
        return self

    def _warn_of_training(self, stacklevel: int) -> None:
        """Warn of a failed training; the fitted attributes stay."""

    @abstractmethod
    def _learn(self, X: Any, relevance: Relevance | None, rng: np.random.RandomState) -> HashFunction:
        """Function learned from validated samples and their relevance; further fitted attributes may be set.

        `relevance` is None for a method that does not learn from it.
        """

    def _check_options(self) -> None:
        """Raise ValueError for parameters that do not fit each other or the samples."""

    def _resolve_defaults(self, X: Any) -> None:
        """Choose values for parameters that are None and depend on the data."""

    def _n_tasks(self) -> int:
        """Number of epochs or bits, for callbacks."""
        return 0

    def project(self, X: Any) -> npt.NDArray[np.floating]:
        """Real activations, whose signs are the bits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, nbits), float
            Activations. A bit is 1 where its activation is >= 0.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        ValueError
            If `X` does not match the training samples.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = ITQHasher(16, random_state=0).fit(X)
        >>> bool(((hasher.project(X) >= 0) == hasher.transform(X)).all())
        True
        """
        return self._map(X, self._activations)

    def project_queries(self, X: Any) -> npt.NDArray[np.floating]:
        """Real queries, which are compared with codes by their inner product with the signs of the bits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_samples, nbits), float
            The activations of :meth:`project`, unless a method learns queries of its own. A
            query q scores an item ``q @ (2 * bits - 1)``.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = ITQHasher(16, random_state=0).fit(X)
        >>> bool((hasher.project_queries(X) == hasher.project(X)).all())
        True
        """
        return self._map(X, self._real_queries)

    def transform(self, X: Any) -> npt.NDArray[np.uint8]:
        """Bits of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, nbits), dtype uint8
            Bits, 0 or 1.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        ValueError
            If `X` does not match the training samples.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> ITQHasher(16, random_state=0).fit(X).transform(X[:5]).shape
        (5, 16)
        """
        return self._map(X, lambda samples: threshold(self._activations(samples)))

    def encode(
        self,
        X: Any,
        *,
        out: str | os.PathLike[str] | npt.NDArray[np.uint8] | None = None,
        batch_size: int | None = None,
        progress: Callable[[int, int | None], object] | None = None,
        overwrite: bool = False,
    ) -> npt.NDArray[np.uint8]:
        """Packed codes of samples, for storage and search.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or iterator
            Samples. A memmap is read slice by slice, and only a slice at a time is converted. An iterator
            yields blocks of samples, of any numbers; it is called in another thread.
        out : path-like or ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8, default=None
            Where to write the codes, as they are computed: an array, or the path of an .npy file. None returns
            them in memory. Calling again with the same hasher and samples resumes an interrupted write: finished
            slices are not encoded again, except for the last one, which must be equal. Until the file is
            complete, ``out + ".part"`` lies beside it, and then ``out + ".fingerprint"``. See :ref:`resume_encoding`.
        batch_size : int, default=None
            Number of samples in a slice; None means 4096. The codes of other sizes may differ in bits whose
            activations are 0 except for rounding.
        progress : callable, default=None
            Called after each slice with the number of encoded samples, and that of all, or None for an iterator. If a
            write is resumed, the first call is that of the samples which are encoded already.
        overwrite : bool, default=False
            Whether to replace a finished file that has the codes of another hasher.

        Returns
        -------
        ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8
            Codes in the order of :func:`numpy.packbits`. Unused bits of the last byte are 0. With a path it is
            a memmap of the file, with an array that array.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        ValueError
            If `X` does not match the training samples, `out` does not match `X`, the unfinished part of `out`
            belongs to another hasher or to other samples, or `out` has the codes of another hasher.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> ITQHasher(12, random_state=0).fit(X).encode(X[:5]).shape  # 12 bits take 2 bytes
        (5, 2)
        """
        batch_size = as_count_or_none(batch_size, "batch_size")
        if progress is not None and not callable(progress):
            raise TypeError(f"`progress` must be None or callable. Got {type(progress).__name__} instead.")
        if out is None and batch_size is None and progress is None and not isinstance(X, Iterator):
            return self._map(X, self._packed)
        check_is_fitted(self)
        width, size = -(-self._n_features_out // 8), int(batch_size or ENCODE_BATCH_SIZE)
        if isinstance(out, str | os.PathLike):
            path = os.path.expanduser(out)
            self._check_path(path, X, overwrite)
            show = None if progress is None else lambda n_done, n, _: progress(n_done, n)
            with closing(self._write_records(self._source(X), self._packed, width, path, size, show)) as file:
                write_fingerprint(path, self.fingerprint_)  # before: a kill leaves an unfinished part, which goes on
                file.finish()
            return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]
        source, parts, n_done = self._source(X), [], 0
        if out is not None:
            _check_out(out, source.n, width)
        with closing(self._slices(source, size)) as slices:
            for samples in slices:
                codes = self._packed(samples)
                if out is None:
                    parts.append(codes)
                elif n_done + len(codes) > len(out):
                    raise ValueError(_wrong_length(len(out), f"more than {len(out):,}"))
                else:
                    out[n_done : n_done + len(codes)] = codes
                n_done += len(codes)
                if progress is not None:
                    progress(n_done, source.n)
        if out is None:
            return np.concatenate(parts)
        if n_done < len(out):
            raise ValueError(_wrong_length(len(out), f"{n_done:,}"))
        return out

    def codes(self, X: Any, *, ids: npt.ArrayLike | None = None) -> Codes:
        """Codes of samples with what belongs to them, for an index, a store or a file.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        ids : array-like of shape (n_samples,), ints or text, default=None
            Identifiers, all different.

        Returns
        -------
        Codes
            The codes of :meth:`encode`, their number of bits, the identifiers, the factors if the hasher has any, and
            the fingerprint of the hasher.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        ValueError
            If `X` does not match the training samples, or `ids` do not match `X`.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = ITQHasher(16, random_state=0).fit(X)
        >>> codes = hasher.codes(X[:2], ids=["first", "second"])
        >>> codes.nbits, codes.fingerprint == hasher.fingerprint_
        (16, True)
        """
        ids = None if ids is None else checked_ids(in_order_of(names_of(X).rows, ids, "`ids`", "X"), n_samples(X))
        rows = self.encode(X)
        return self._completed(Codes(rows, self._n_features_out, ids, fingerprint=known_fingerprint(self.function_)), X)

    def _completed(self, codes: Codes, X: Any) -> Codes:
        """Codes of samples with what a method stores beside them."""
        return codes

    def score(self, X: Any, y: Any = None) -> float:
        """Mean tie-aware AP of `X` as queries against the training samples as database.

        It is AP whatever the hasher was trained on, so that a search compares one metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or another form that `fit` takes
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Targets of the queries. Not needed for a Dataset, or if the affinity compares samples of X.

        Returns
        -------
        float
            Mean tie-aware AP, in [0, 1]. For another metric see :class:`skhash.metrics.RetrievalScorer`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        ValueError
            If the affinity needs targets that are missing, with ``store_database=False``, or if the classes of most
            queries are not those of training samples.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import ITQHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = ITQHasher(16, random_state=0).fit(X[:1000], y[:1000])
        >>> print(f"{hasher.score(X[1000:], y[1000:]):.1f}")
        0.6
        """
        from skhash.metrics.scorers import RetrievalScorer

        check_is_fitted(self)
        score: float = RetrievalScorer("ap")(self, X, y)
        return score

    def prefix(self, nbits: int) -> Self:
        """Hasher of the first bits.

        Its codes and real queries are the first columns of those of this hasher. Whether they find as much as the
        codes of a fit of this length depends on the method: see :ref:`prefixes`.

        Parameters
        ----------
        nbits : int
            Number of bits to keep, at most those of this hasher.

        Returns
        -------
        hasher of the same class
            A fitted hasher. This one does not change.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        ValueError
            If there are fewer bits, or if none of the first ones has a weight.

        Notes
        -----
        Methods that weight their bits use the weights that the first bits had before further bits were learned.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import LSHHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = LSHHasher(24, random_state=0).fit(X)
        >>> hasher.encode(X[:2]).tolist()
        [[24, 189, 233], [46, 194, 63]]
        >>> hasher.prefix(8).encode(X[:2]).tolist()
        [[24], [46]]
        """
        check_is_fitted(self)
        nbits = as_count(nbits, "nbits", largest=self._n_features_out)
        shorter: Self = clone(self).set_params(**(self.get_params(deep=False) | {"nbits": nbits}))
        shorter.__dict__.update(self._fitted_attributes())
        shorter._cut(nbits)
        return shorter

    def _cut(self, nbits: int) -> None:
        """Keep the first bits of the fitted attributes."""
        self.function_ = self.function_.first(nbits)
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for array in getattr(hint, "__metadata__", ()):
                axes = array.shape.split() if isinstance(array, Array) else ()
                if "nbits" in axes and name in vars(self):
                    first = tuple(slice(nbits if axis == "nbits" else None) for axis in axes)
                    setattr(self, name, getattr(self, name)[first].copy(order="K"))
        if self.database_ is not None:
            self.database_ = replace(self.database_, codes=self.database_.codes.first(nbits))

    @property
    def fingerprint_(self) -> str:
        """Sixteen hexadecimal digits that tell this hasher, and the codes that it makes, from others.

        Hashers with equal functions have one fingerprint: a hasher that is saved and loaded keeps it, in every process
        and on every platform. A fit to other samples, ``partial_fit`` and a :meth:`prefix` with fewer bits have
        another one. Only the `function_` counts, and no earlier step of a Pipeline. Classifiers of scikit-learn, of a
        :class:`~skhash.StructHashHasher` or a :class:`~skhash.CGHashHasher`, count with all that pickle keeps of them,
        so that another version of scikit-learn can change it.

        Indexes, files of codes and stores hold it, and refuse a hasher with another one: see :ref:`fingerprints`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        TypeError
            If nothing identifies a `function_` of your own, such as one that holds a lambda.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import LSHHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = LSHHasher(16, random_state=0).fit(X)
        >>> len(hasher.fingerprint_)
        16
        >>> hasher.fingerprint_ == LSHHasher(16, random_state=0).fit(X).fingerprint_
        True
        >>> hasher.fingerprint_ == LSHHasher(16, random_state=1).fit(X).fingerprint_
        False
        """
        check_is_fitted(self)
        return fingerprint_of(self.function_)

    def _prefix_is_as_good(self, n_samples: int) -> bool:
        """Whether a prefix is, by construction, as good as a fit of its length to so many samples."""
        return False

    @property
    def _n_features_out(self) -> int:
        return self.function_.nbits

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.target_tags.required = self._supervised and getattr(self.affinity, "requires_y", True)
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = self._takes_sparse
        return tags

    # --- hash, slice by slice

    def _computing(self) -> Any:
        """What computes activations and real queries: `function_`, or its twin on the device of a hasher with one."""
        return self.function_

    def _activations(self, X: Any) -> npt.NDArray[np.floating]:
        """Activations of checked samples."""
        return check_activations(self._computing().activations(X), self)

    def _real_queries(self, X: Any) -> npt.NDArray[np.floating]:
        """Real queries of checked samples."""
        return check_activations(self._computing().queries(X), self)

    def _packed(self, X: Any) -> npt.NDArray[np.uint8]:
        """Packed codes of checked samples."""
        bits = threshold(self._activations(X))
        if bits.shape[1] % 8 == 0:  # whole bytes: several times as fast as with axis=1
            return np.packbits(bits).reshape(len(bits), bits.shape[1] // 8)
        return np.packbits(bits, axis=1)

    def _map(self, X: Any, function: Callable[[Any], npt.NDArray[Any]], is_valid: bool = False) -> npt.NDArray[Any]:
        """Concatenate a function of checked samples over slices, one of which at a time is converted."""
        shape = getattr(X, "shape", ()) or (0,)  # a list is converted as a whole
        if not is_valid and not (shape[0] > ENCODE_BATCH_SIZE and is_sliced(X)):
            X, is_valid = self._validate_samples(X), True
        is_small = is_valid and type(X) is np.ndarray and len(X) <= ENCODE_BATCH_SIZE
        if is_small and not self.function_.uses_threads(len(X)):  # whose limits would take longer than a few samples
            return function(X)
        with closing(self._slices(array_source(X, is_valid), ENCODE_BATCH_SIZE)) as slices:
            return np.concatenate([function(samples) for samples in slices])

    def _slices(self, source: Source, size: int) -> Generator[Any, None, None]:
        """Checked samples, slice by slice; until the generator is closed, threads and torch are set for hashing."""
        known = None  # type of slices that need no conversion
        with self._environment(), closing(source.read(size)) as slices:
            for samples in slices:
                kind = type(samples), samples.dtype, samples.shape[1:]
                if source.is_valid or (kind == known and are_within(samples)):
                    yield samples
                    continue
                X = self._validate_samples(samples)
                known = kind if type(X) is type(samples) is np.ndarray and X.dtype == samples.dtype else None
                yield X

    def _source(self, X: Any) -> Source:
        """Source of samples of any kind, for `encode`."""
        if isinstance(X, Iterator):
            return iterator_source(X, self._validate_samples if hasattr(self, "feature_names_in_") else None)
        if is_sliced(X) and X.shape[0]:
            return array_source(X)
        X = self._validate_samples(X)
        # slices of a data frame have no names, which a second validation would miss; a Dataset is not read yet
        return array_source(X, is_valid=isinstance(X, np.ndarray) or sparse.issparse(X))

    def _check_path(self, path: str, X: Any, overwrite: bool) -> None:
        """Raise ValueError for a path that codes of X must not be written to."""
        if not path.endswith(".npy"):
            raise ValueError(f"`out` must be a path that ends with .npy, or an array. Got {path} instead.")
        mapped = X.filename if isinstance(X, np.memmap) else None
        if mapped is not None and os.path.realpath(path) == os.path.realpath(mapped):
            raise ValueError(f"`out` must not be the file of X, which would be lost. Got {path}.")
        maker = None if overwrite else fingerprint_beside(path)
        if are_other(maker, self.fingerprint_):
            raise ValueError(
                f"`out` must not be a file with the codes of another hasher. Got {path} with those of one with the "
                f"fingerprint {maker}, and this hasher has {self.fingerprint_}. Choose another file, or pass "
                "overwrite=True."
            )

    def _write_records(
        self,
        source: Source,
        function: Callable[[Any], npt.NDArray[np.uint8]],
        width: int,
        path: Any,
        size: int,
        progress: Callable[[int, int | None, int], object] | None,
    ) -> RecordFile:
        """File of the records of all samples, by a function of checked ones, that is to be finished.

        `progress` also takes the number of records that an earlier run has written.
        """
        check_writable(path)
        file = None
        try:
            with closing(self._slices(source, size)) as slices:
                for samples in slices:
                    n = samples.shape[0]
                    if file is None:  # wrong samples leave nothing behind
                        about = f"{source.n} {samples.shape[1:]} {samples.dtype}"
                        identity = {"hasher": self.fingerprint_, "number-or-type-of-samples": about}
                        file = RecordFile(path, width, size, identity)
                        if progress is not None and file.n_finished:
                            progress(file.n_finished, source.n, file.n_finished)
                    file.add(function(samples) if file.needs(n) else None, n)
                    if progress is not None and file.n_records > file.n_finished:
                        progress(file.n_records, source.n, file.n_finished)
        except BaseException:
            if file is not None:
                file.close()
            raise
        assert file is not None  # a source without samples is an error
        return file

    # --- validate

    def _validate_samples(self, X: Any) -> Any:
        if is_plain(X, self):
            return X
        check_is_fitted(self)
        return check_values(self._check_input(X, reset=False))

    def _check_input(self, X: Any, **options: Any) -> Any:
        """Validated samples; `options` are passed to scikit-learn's validate_data."""
        check_kind(X, self, takes_sparse=self._takes_sparse)
        options["order"] = "C" if options.get("reset", True) else None  # the memory order changes rounding
        options = {"dtype": self._dtypes} | options
        return validate_data(self, X, accept_sparse=self._takes_sparse and "csr", **options)

    def _validate_fit_data(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, Any, Relevance | None]:
        """Validated samples, their targets, and the relevance of the samples to each other.

        A method that learns from X alone keeps labels for `score`, which makes the relevance.
        """
        X = self._check_input(X, reset=reset, ensure_min_samples=2)  # before y: X may be what is wrong
        X = check_values(X, fit=True)
        if y is None and get_tags(self).target_tags.required:
            y = self._own_targets(X)
        if y is None and not getattr(self.affinity, "requires_y", True):
            y = X[:]  # reads a Dataset
        if y is None:
            return X, None, None
        names = names_of(y).columns
        if not reset:
            check_columns(y, vars(self).get("label_names_in_"), "`y`", "the first samples", "label")
        else:
            self.__dict__.pop("label_names_in_", None)
            if names is not None and all(isinstance(name, str) for name in names):
                self.label_names_in_ = names
        relevance = None
        if self._supervised or callable(self.affinity):
            relevance = Relevance.of(y, self.affinity) if reset else Relevance.between(y, y, self.affinity_)
        targets = as_labels(y) if relevance is None else relevance.targets
        if targets.shape[0] != X.shape[0]:
            raise ValueError(
                f"`y` must have one target per sample. Got {targets.shape[0]} targets for {X.shape[0]} samples instead."
            )
        return X, targets, relevance

    def _own_targets(self, X: Any) -> Any:
        raise missing_targets(self)  # a Dataset may have targets, an array has none

    def _note_relevance(self, relevance: Relevance | None) -> None:
        """Set the fitted attributes that come from the relevance; ValueError if the method cannot learn from it."""

    def _environment(self) -> AbstractContextManager[None]:
        """Context manager for learning and hashing with one thread, since the rounding depends on their number."""
        return one_thread()

    def _store_database(self, X: Any, targets: Any) -> None:
        """Store the codes and targets of the training samples, the database of `score`."""
        self.database_ = None
        if self.store_database:
            rows = self._map(X, self._packed, is_valid=True)
            self.database_ = Database(Codes(rows, self._n_features_out), targets)

    def _set_database(self, codes: Codes, y: Any) -> None:
        """Set the database to the values of a file, which are checked afterwards."""
        self.database_ = Database(codes, y)

    def _store_weights(self, weights: Any) -> None:
        """Set the fitted attributes of a method that learns step by step."""
        raise NotImplementedError

    def _reconstruction_attributes(self, X: Any, targets: Any, weights: Any) -> dict[str, Any]:
        """Fitted attributes of a hasher with `weights`, for callbacks during the fit."""
        snapshot = type(self)(**self.get_params(deep=False))
        snapshot.__dict__.update(self._fitted_attributes())
        snapshot.history_ = list(self.history_)
        snapshot._store_weights(weights)
        snapshot._store_database(X, targets)
        return snapshot._fitted_attributes()

    def _fitted_attributes(self) -> dict[str, Any]:
        """Attributes that fit sets."""
        return {name: getattr(self, name) for name in self._fitted_names(vars(self))}

    @classmethod
    def _fitted_names(cls, names: Iterable[str]) -> list[str]:
        """Names that fit sets: public ones with an underscore at their end, and those in `_fitted_private`."""
        return [name for name in names if name in cls._fitted_private or (name[-1:] == "_" and name[0] != "_")]

    def _check_stored(self, lengths: dict[str, int]) -> None:
        """Raise ValueError unless the fitted attributes agree beyond their annotations."""

    @contextmanager
    def _restored_on_failure(self) -> Iterator[None]:
        """Context manager that restores the fitted attributes if its body fails."""
        before = self._fitted_attributes()
        try:
            yield
        except InterruptedFit:
            raise
        except BaseException:
            for name in self._fitted_attributes():
                delattr(self, name)
            self.__dict__.update(before)
            raise


def _check_out(out: Any, n: int | None, width: int) -> None:
    """Raise ValueError unless an array takes the codes."""
    fits = isinstance(out, np.ndarray) and out.dtype == np.uint8 and out.ndim == 2 and out.shape[1] == width
    if not fits or (n is not None and len(out) != n) or not out.flags.writeable:
        given = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else f"a {type(out).__name__}"
        if fits and not out.flags.writeable:
            given += " that is read-only"
        raise ValueError(
            f"`out` must be None, a path that ends with .npy, or a uint8 array of shape ({n or 'n_samples'}, {width}). "
            f"Got {given} instead."
        )


def _wrong_length(n_out: int, given: str) -> str:
    return f"`out` must have one entry per sample. Got {n_out:,} entries for {given} samples."


def _describe_degenerate(codes: Codes, n_samples: int) -> str | None:
    """Warning about codes that are equal or have constant bits; None if balanced bits may be so by chance."""
    n, nbits, rows = len(codes), codes.nbits, codes.rows
    varies = np.unpackbits(np.bitwise_and.reduce(rows, axis=0) ^ np.bitwise_or.reduce(rows, axis=0), count=nbits)
    constant = np.flatnonzero(varies == 0)
    samples = f"all {n} training samples" if n == n_samples else f"{n} evenly spaced training samples of {n_samples}"
    if len(constant) == nbits and 0.5 ** (nbits * (n - 1)) < CHANCE:
        return (
            f"The codes of {samples} are equal: a search tells none of them apart. Check that X varies, scale features "
            "of very different ranges, for example with StandardScaler, or lower `learning_rate` if there is one."
        )
    if len(constant) and nbits * 0.5 ** (n - 1) < CHANCE:
        return (
            f"{len(constant)} of {nbits} bits are constant on {samples}: {_listed(constant.tolist())}. They tell no "
            "samples apart. Lower `nbits`, or `weight_decay` if there is one, or fit more samples or for longer."
        )
    return None


def describe_shared(codes: Codes, labels: npt.NDArray[Any]) -> str | None:
    """Warning about classes most of whose samples have the code of another class; None if few bits may do that."""
    names, y = np.unique(np.ravel(labels), return_inverse=True)
    if len(names) ** 2 * 0.5 ** (codes.nbits + 1) >= CHANCE:  # random codes of the classes would be equal, too
        return None
    rows = np.ascontiguousarray(codes.rows).view(np.dtype((np.void, codes.rows.shape[1])))[:, 0]
    numbers = np.unique(rows, return_inverse=True)[1].astype(np.int64)
    pairs, counts = np.unique(y * (numbers.max() + 1) + numbers, return_counts=True)
    classes, of_class = np.divmod(pairs, numbers.max() + 1)
    is_most = 2 * counts > np.bincount(y)[classes]  # of at most one code per class
    classes, of_class = classes[is_most], of_class[is_most]
    shared = np.flatnonzero(np.bincount(of_class, minlength=1)[of_class] > 1)
    if len(shared) == 0:
        return None
    first, second = names[classes[of_class == of_class[shared[0]]][:2]].tolist()
    return (
        f"{len(shared)} of {len(names)} classes have the code of another class: most samples of the classes "
        f"{first!r} and {second!r} have the same code, and a search tells none of them apart. Lower "
        "`hidden_dropout` or `weight_decay` if there is one, fit for longer, or try another method."
    )


def _listed(bits: list[int]) -> str:
    named = [str(bit) for bit in bits[:N_NAMED]]
    if len(bits) > N_NAMED:
        named.append(f"{len(bits) - N_NAMED} more")
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
