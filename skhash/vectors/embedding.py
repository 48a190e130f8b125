r"""EmbeddingHasher, asymmetric hashing of vectors (two maps as in Neyshabur et al., NIPS 2013; the loss is ours).

Two linear maps, one for items and one for queries:

    b = sign(W x + c),   score(q, x) = <A q + a, b>

Both start from ITQ of the centered vectors, W = A. The code b is improved from there, so that it reconstructs the item
and stays near W x (see `codes.py`). Held-out queries choose how near, by their recall with real queries and by Hamming
distance. Then only A and a are trained.

In each batch, every query q ranks the items x, by their similarity
s(q, x) and by their score, both centered per query. The loss is the cross-entropy of two distributions over the items,
less the entropy of the first:

    p = softmax(s / (T std(s))),   r = softmax(g score),   loss = mean over q of sum_x p(x) ln [p(x) / r(x)]

T is the temperature, and g >= 0 the least-squares fit of the scores to the logits of p, over the batch. Gradients pass
straight through the sign. With many samples, each batch is a leaf of a random tree, so that near items meet in it.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from skhash._compat import Interval, StrOptions, fit_context, with_callbacks
from skhash._libraries import import_torch
from skhash._names import check_queries, in_order_of, names_of
from skhash._validation import (
    FAR,
    OPTIONAL,
    VECTOR_METRICS,
    Array,
    VectorMetric,
    as_count,
    check_activations,
    check_prefixes,
    check_resume,
    evenly_spaced,
    is_cpu,
    resolve_device,
)
from skhash.base import BaseHasher, InterruptedFit
from skhash.codes import Codes
from skhash.functions import HashFunction
from skhash.functions.linear import as_layer
from skhash.hashers.deep import DeepHasher
from skhash.hashers.shallow.linear import principal_map, scaled_itq_map
from skhash.vectors.codes import (
    EQUALIZED,
    MAX_GROUP_SIZE,
    N_PART,
    QueryFunction,
    Reconstruction,
    ReconstructionFunction,
    learn_map,
    learn_reconstructions,
    learn_sums,
    scaled_directions,
)
from skhash.vectors.drift import Drift, check_reference, compare, cut_reference, reference_of

if TYPE_CHECKING:
    import torch

    from skhash.engine import Trainer
    from skhash.hashers.deep.checkpoints import TrainingFile
    from skhash.vectors.queries import HeldOutQueries, NeighborObjective, QueryEncoder

_N_STEPS, _N_EPOCHS = 300, (5, 200)  # of the default, and its fewest and most epochs
_DEFAULTS = {"batch_size": 1792, "learning_rate": 1e-4, "weight_decay": 0.0}
_SGD = {"learning_rate": 0.01, "weight_decay": 5e-4}
_QUERY_RATE = 3  # factor of the default learning rate if only the map of the queries is learned
_LOCAL_RATE = 3  # factor of the default learning rate with local batches
_N_EVALUATIONS = 25  # approximate number of epochs of a fit that are measured
_N_START = 30_000  # number of samples that the codes are learned from
_N_MIN_BITS = 32  # of codes that reconstruct, because shorter ones have too few bits for the norm
_N_DIGITS = {"cosine": 5, "inner": 0, "euclidean": 7}  # largest number of bits that tell a norm
_BITS_PER_DIGIT = 10  # smallest number of bits of a code for each digit of the norm
_N_MORE_DIGITS = 2  # of the norm, with bits by variance
_MOST_BITS = 2.0  # per direction, of codes without bits by variance
_PULLS = (1.0, 2.0, 0.5, 0.25)  # of codes that also suit the Hamming distance; held-out queries choose
_HAMMING_WEIGHT = 2  # of the recall by Hamming distance, in the choice of codes
_HAMMING_GAIN = 0.02  # recall above that of ITQ that counts
#: parameters that decide the weights, and stay the same in partial_fit
_FIXED = ("nbits", "metric", "affinity", "factors", "prefixes")
#: parameters of the training, as in :class:`~skhash.hashers.deep.DeepHasher`
_OF_TRAINING = (
    *("n_epochs", "batch_size", "learning_rate", "lr_schedule", "optimizer", "weight_decay", "early_stopping"),
    *("validation_fraction", "n_iter_no_change", "checkpoint", "device", "deterministic", "random_state"),
)


class EmbeddingHasher(BaseHasher):
    """Codes that keep the neighbors of vectors, learned from the vectors alone.

    Items become codes. Queries stay real: :meth:`project_queries` is a linear map of its own, and
    :class:`skhash.neighbors.HammingNeighbors` with ``query="real"`` ranks the codes by it. Learning
    starts from ITQ, and held-out queries decide whether an epoch is better than the start.

    Parameters
    ----------
    nbits : int, default=256
        Number of bits of a code.
    metric : "cosine", "inner" or "euclidean", default="cosine"
        Which neighbors to keep: those with the largest cosine or inner product, or with the smallest
        Euclidean distance. With "cosine" all samples are divided by their norm. If the mean of a feature is more than
        1,024 times the spread of the values, all cosines are about 1: :meth:`fit` warns, and subtracts this mean first.
    temperature : float, default=0.25
        Temperature of the similarities of a query, in units of their standard deviation. A small
        value looks at the nearest items only.
    affinity : "auto" or callable, default="auto"
        Which samples are similar, for :meth:`score` only. To learn from labels, see :class:`TALRHasher`.
    hamming : bool, default=True
        Whether the codes should also suit a search by Hamming distance, as in most stores. False makes them for real
        queries alone, which then usually find more. With `factors` the codes are always for real queries.
    factors : bool, default=False
        Whether real queries estimate the distance of the vectors, from two numbers per item that take 8 bytes
        beside its code: see :meth:`encode_factors`.
    prefixes : tuple or list of int, default=()
        Lengths of prefixes that should be good codes, too, ascending and shorter than `nbits`: :meth:`prefix` cuts
        the codes without another fit. Each has real queries of its own. See :ref:`prefixes`. The codes must reconstruct
        the items, see the notes, and `factors` must be False.
    n_epochs : int, default=None
        Number of passes over the training samples; see Notes for None.
    batch_size : int, default=None
        Target batch size: an epoch has n_samples / batch_size batches, rounded, of nearly the same size. See Notes for
        None.
    learning_rate : float, default=None
        Learning rate; see Notes for None.
    lr_schedule : "cosine", "constant" or callable, default="cosine"
        Schedule of the learning rate: cosine decay to 0, none, or a function that maps the optimizer to a torch
        scheduler, which is stepped after each batch.
    optimizer : "adam", "sgd" or callable, default="adam"
        AdamW, SGD with momentum 0.9, or a function that maps parameter groups to a torch optimizer.
    weight_decay : float, default=None
        Weight decay; decoupled for "adam", an L2 penalty for "sgd"; see Notes for None.
    early_stopping : bool, default=True
        Whether to hold out samples as queries, which choose the codes that training starts from and the epoch that is
        returned.
    validation_fraction : float, default=0.1
        Fraction of the training samples to hold out.
    n_iter_no_change : int, default=50
        Number of epochs without improvement after which training stops.
    checkpoint : path-like, default=None
        Folder in which to save the state of the training after each epoch, for ``fit(X, resume=True)``. Each
        combination of parameters and data has its own file. A parameter that cannot be identified is refused, see
        :ref:`resume`. A `random_state` that is an instance changes with every fit, so it finds its checkpoint only in
        a new process. If a file cannot be written, for example because the disk is full, training continues with a
        warning.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1", ...; "auto" uses a CUDA device if there is one.
    deterministic : bool, default=False
        Whether to use deterministic algorithms of torch only. On a GPU torch may require
        ``CUBLAS_WORKSPACE_CONFIG=:4096:8`` in the environment.
    random_state : int, RandomState instance or None, default=None
        Seed of the training. The global generators are not used.

    Attributes
    ----------
    weights_ : dict of str to ndarray
        Weights of the trained maps and of the codes.
    settings_ : dict
        Values of the parameters that may be None.
    history_ : list of dict
        For each epoch its number, its mean loss, and the recall of held-out queries if it was measured.
    n_epochs_ : int
        Number of epochs run.
    function_ : HashFunction
        The learned function.
    affinity_ : callable
        Fitted affinity, None unless `affinity` is a callable.
    database_ : Database or None
        Packed codes `codes`, targets `y` and `factors` of the training samples; None with ``store_database=False``.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    With ``early_stopping=True`` a share `validation_fraction` of the samples, at most 500, is held out:
    training uses them as items, and not as queries. The validation metric of `history_` is the share of
    their ten nearest vectors that are among the first ten items of their real queries. It is measured
    about 25 times. The start is kept unless an epoch is better by more than chance, so training helps
    from some thousand samples on. Training does not use `y`, which is stored for :meth:`score`.

    `early_stopping` is True by default, because only held-out queries tell whether training is better than its start.

    From 32 bits on, or with factors, codes reconstruct the items, and only queries are trained. For real queries alone,
    held-out queries may choose codes with one to four bits for a direction, by its variance. With more than five
    batches of samples, batches consist of near samples.

    Parameters that are None: 300 steps make between 5 and 200 epochs of batches of 1,792 samples. The learning rate is
    1e-4, three times as much if only queries are trained, and once more three times as much with batches of near
    samples. The weight decay is 0. With ``optimizer="sgd"`` the learning rate is 100 times as large, and the weight
    decay is 5e-4.

    To see the epochs of a long fit, ``set_callbacks(ProgressBar())`` with ``sklearn.callback.ProgressBar``, which
    needs rich.

    References
    ----------
    Neyshabur, Srebro, Salakhutdinov, Makarychev, Yadollahpour: The Power of Asymmetry in Binary
    Hashing. NIPS 2013 (two maps; the loss and the start are ours).

    Gao, Long: RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error Bound for
    Approximate Nearest Neighbor Search. SIGMOD 2024 (the factors).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import EmbeddingHasher
    >>> from skhash.neighbors import HammingNeighbors
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = EmbeddingHasher(64, metric="euclidean", n_epochs=20, random_state=0)
    >>> search = HammingNeighbors(hasher, query="real", n_neighbors=5).fit(X[:1700])
    >>> search.kneighbors(X[1700:], return_distance=False).shape
    (97, 5)
    """

    _parameter_constraints = (
        BaseHasher._parameter_constraints
        | {name: DeepHasher._parameter_constraints[name] for name in _OF_TRAINING}
        | {
            "metric": [StrOptions(set(VECTOR_METRICS))],
            "temperature": [Interval(Real, 0, None, closed="neither")],
            "hamming": ["boolean"],
            "factors": ["boolean"],
            "prefixes": [tuple, list],
        }
    )
    _fitted_private = ("_fixed", "_stream", "_reference")

    settings_: dict[str, Any]
    weights_: dict[str, npt.NDArray[Any]]
    history_: list[dict[str, Any]]
    n_epochs_: int
    _fixed: dict[str, Any]
    _stream: Annotated[dict[str, Any], OPTIONAL]
    _reference: Annotated[dict[str, Any], OPTIONAL]  # what new samples are compared with

    def __init__(
        self,
        nbits: int = 256,
        *,
        metric: VectorMetric = "cosine",
        temperature: float = 0.25,
        hamming: bool = True,
        factors: bool = False,
        prefixes: tuple[int, ...] | list[int] = (),
        affinity: str | Callable[..., Any] = "auto",
        n_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        lr_schedule: "str | Callable[[torch.optim.Optimizer], Any]" = "cosine",
        optimizer: "str | Callable[..., torch.optim.Optimizer]" = "adam",
        weight_decay: float | None = None,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 50,
        checkpoint: str | PathLike[str] | None = None,
        store_database: bool = True,
        device: "str | torch.device" = "auto",
        deterministic: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.nbits = nbits
        self.metric = metric
        self.temperature = temperature
        self.hamming = hamming
        self.factors = factors
        self.prefixes = prefixes
        self.affinity = affinity
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.store_database = store_database
        self.device = device
        self.deterministic = deterministic
        self.random_state = random_state

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, resume: bool = False, *, queries: Any = None) -> Self:
        """Learn the hash functions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Items, finite real values.
        y : array-like of shape (n_samples,) or (n_samples, ...), default=None
            Targets that the affinity compares; they are stored for :meth:`score` only.
        resume : bool, default=False
            Continue from the checkpoint of this training, if there is one; see :ref:`resume`.
        queries : array-like of shape (n_queries, n_features), default=None
            Vectors of the queries of your users, such as embedded questions, if they differ from the items. Half of
            them, at most 500, are held out, and choose the start and the epoch. The others train the map of the
            queries. Items are queries, too, so that few queries do no harm. With ``early_stopping=False`` all of
            them train.

        Returns
        -------
        self : object
            The fitted hasher.

        Raises
        ------
        ValueError
            If `X`, `y` or `queries` is invalid. The previous fit is kept.
        skhash.exceptions.InvalidFileError
            If the checkpoint is damaged or that of another training.
        TypeError
            If a parameter cannot be identified, which `checkpoint` requires.
        FloatingPointError
            If the loss is no longer finite.
        KeyboardInterrupt
            If interrupted. A hasher that was not fitted before keeps its last or best epoch.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import EmbeddingHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> items, queries = X[:1500], X[1500:] + 2.0
        >>> hasher = EmbeddingHasher(64, metric="euclidean", n_epochs=2, random_state=0)
        >>> hasher.fit(items, queries=queries).project_queries(queries).shape
        (297, 64)
        """
        check_resume(resume, self.checkpoint)
        return self._run_fit(X, y, partial(self._learn, resume=resume, queries=queries))

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Train for one pass over the next samples of a stream.

        After :meth:`fit`, codes that reconstruct the items stay, and their queries are trained. Without it, both maps
        start from ITQ of the samples of the first call, and are trained. The mean, the scale and the parameters that
        are None are those of the first samples, too. The learning rate is constant and may change between calls. The
        state of the optimizer is kept. Callbacks, checkpoints and early stopping belong to :meth:`fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next samples; at least two.
        y : array-like of shape (n_samples, ...), default=None
            Their targets, for :meth:`score`.

        Returns
        -------
        self : object
            The hasher. :meth:`score` ranks the samples of this call.

        Raises
        ------
        ValueError
            If `X` or `y` is invalid or does not match the first samples, or if a parameter has
            changed that the learned weights depend on.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import EmbeddingHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = EmbeddingHasher(16, n_epochs=2, random_state=0).fit(X[:1000])
        >>> hasher = hasher.partial_fit(X[1000:])
        >>> [entry["epoch"] for entry in hasher.history_]
        [1, 2, 3]
        """
        import_torch()
        from skhash.engine.runtime import own_settings, seeded
        from skhash.hashers.deep.checkpoints import (
            capture_state,
            check_same_training,
            check_unchanged,
            draw_seed,
            restore_state,
        )

        with self._restored_on_failure():
            is_first = not hasattr(self, "weights_")
            if not is_first:
                check_unchanged({name: getattr(self, name) for name in _FIXED}, self._fixed)
            X, targets, relevance = self._validate_fit_data(X, y, reset=is_first)
            self._check_options()
            if is_first:
                if self.prefixes:
                    raise ValueError(
                        f"`prefixes` must be () for partial_fit without fit. Got {self.prefixes} instead. Call fit "
                        "first."
                    )
                self.history_ = []
                self.affinity_ = None if relevance is None else relevance.affinity
                self._resolve_defaults(X)
            self.settings_ = self._with_given_values(self.settings_)
            check_same_training(self, X, targets)
            device = resolve_device(self.device)
            rng, seed = draw_seed(self, check_random_state(self.random_state))
            with self._environment(), own_settings(), seeded(seed, device, self.deterministic):
                encoder = self._new_encoder(self.__dict__.get("weights_"))
                if is_first:
                    encoder.set_statistics(X)
                    encoder.set_maps(self._itq(encoder, X, rng))
                constant = {"n_epochs": 1, "lr_schedule": "constant"}
                order = np.random.default_rng(seed)
                trainer = self._new_trainer(encoder, self._new_objective(), X, order, device, **constant)
                if hasattr(self, "_stream"):
                    restore_state(trainer, self._stream, self.optimizer)
                self.history_ = [*self.history_, {"epoch": len(self.history_) + 1, "loss": trainer.run_epoch()}]
                self._stream = capture_state(trainer, {})
            self._store_weights(encoder.state_dict())
            self.n_epochs_ = len(self.history_)
            self._store_database(X, targets)
        return self

    def encode_factors(self, X: Any) -> npt.NDArray[np.float32]:
        """Two numbers per item, from which real queries estimate the distance of the vectors.

        They take 8 bytes per item, beside its code.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Items.

        Returns
        -------
        ndarray of shape (n_samples, 2), dtype float32
            Norm of the centered vector, and its product with its code: a query q has with an item x about the inner
            product ``score * norm**2 / product``, both centered, where
            ``score = project_queries(q) @ (2 * bits - 1)``. The product is between two values. One is exact for
            q = x, up to the part of x that the bits do not see. The other is best for any q, if the codes
            reconstruct the items. A product of 0 stands for an estimate of 0.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        ValueError
            If `X` does not match the training samples, or the codes have the digits of the norm instead (see the
            notes of the class).

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from skhash import EmbeddingHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = EmbeddingHasher(
        ...     64, metric="euclidean", factors=True, n_epochs=2, random_state=0
        ... ).fit(X)
        >>> norm, product = hasher.encode_factors(X[:1])[0]
        >>> score = hasher.project_queries(X[:1])[0] @ (2.0 * hasher.transform(X[:1])[0] - 1)
        >>> bool(np.isclose(score * norm**2 / product, norm**2, rtol=0.1))
        True
        """
        return self._map(X, self._factors)

    def drift(self, X: Any, *, groups: Any = None, tolerance: float | None = 0.0, random_state: Any = 0) -> Drift:
        """Whether new samples still look like those of the fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New samples, drawn at random from those to watch. Some hundred are needed to find a drift of a part of
            them. At most 10,000 are compared, drawn at random from more.
        groups : array-like of shape (n_samples,), default=None
            Names or numbers of groups of samples that belong together, such as the chunks of one document, or copies.
            One sample of each group, drawn at random, is compared: otherwise copies would look like a drift. None:
            each sample is a group.
        tolerance : float or None, default=0.0
            Loss of recall that needs no alarm. 0 raises none if the recall is certainly not lower than at the fit, and
            None raises one for each difference that a test finds.
        random_state : int, RandomState instance or None, default=0
            Draws the samples and the permutations.

        Returns
        -------
        Drift
            Errors of reconstruction, shifts of bits and recalls, and whether there is an alarm.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        ValueError
            If `X` does not match the training samples, `groups` does not match `X`, or the fit has nothing to compare
            with: it needs ``early_stopping=True``, which holds out samples, and 32 bits or more.

        See Also
        --------
        skhash.vectors.Drift : What is returned.

        Notes
        -----
        There is an alarm if one of two tests finds a difference, and the loss of recall can exceed `tolerance`. One
        is a t test of whether the mean relative error of reconstruction is above the interval of 95 % of that of the
        held-out samples of the fit. (For codes that are the signs of a map, because these found more, it is the error
        of the signs, with the best factor, for the values of the map.) The other one is a permutation test of whether
        bits are 1 more or less often than in training samples: of the sum, over the bits, of the squared differences.
        P-values are adjusted by Holm's method. So at most 5 of 100 sets of samples like those of the fit raise an
        alarm.

        The recalls are those of samples among each other, since a hasher does not keep its training samples. They are
        higher for more varied samples, whose neighbors are easier to find.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import EmbeddingHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = EmbeddingHasher(64, n_epochs=2, random_state=0).fit(X[::2][y[::2] < 8])
        >>> hasher.drift(X[1::2][y[1::2] < 8]).alarm
        False
        >>> hasher.drift(X[1::2]).alarm  # the digits 8 and 9 are new
        True
        """
        groups = in_order_of(names_of(X).rows, groups, "`groups`", "X")
        X = self._validate_samples(X)
        if tolerance is not None and not (isinstance(tolerance, Real) and 0 <= tolerance <= 1):
            raise ValueError(f"`tolerance` must be None or a float from 0 to 1. Got {tolerance!r} instead.")
        if not hasattr(self, "_reference"):
            if not self._may_reconstruct():
                raise ValueError(
                    f"`nbits` must be at least {_N_MIN_BITS} to measure `drift`. Got {self.nbits} instead. Fit such a "
                    "hasher for it."
                )
            raise ValueError(
                "`early_stopping` must be True when the hasher is fitted, with 20 samples or more, to hold out those "
                f"that `drift` compares with. Got {self.early_stopping!r} instead. Call fit with early_stopping=True; "
                "partial_fit alone holds out none, and the prefix of a map has lost them."
            )
        return compare(self, X, groups, tolerance, random_state)

    # --- hash

    def _check_input(self, X: Any, **options: Any) -> Any:
        if getattr(getattr(X, "dtype", None), "itemsize", 8) < 4:  # float32 holds these values
            options["dtype"] = [np.float32, np.float64]
        return super()._check_input(X, **options)

    def _computing(self) -> Any:
        if is_cpu(self.device):
            return self.function_
        from skhash.functions.network import on_device

        twin = on_device(self.function_, resolve_device(self.device))
        if isinstance(self.function_, ReconstructionFunction):  # compiled kernels search for the codes of items
            return twin._replace(activations=self.function_.activations)
        return twin

    def _factors(self, X: Any) -> npt.NDArray[np.float32]:
        """Factors of checked samples."""
        return check_activations(cast("Any", self.function_).factors(X), self)

    def _completed(self, codes: Codes, X: Any) -> Codes:
        return replace(codes, factors=self.encode_factors(X)) if self.factors else codes

    def _store_database(self, X: Any, targets: Any) -> None:
        super()._store_database(X, targets)
        if self.factors and self.database_ is not None:
            codes = replace(self.database_.codes, factors=self._map(X, self._factors, is_valid=True))
            self.database_ = replace(self.database_, codes=codes)

    def _queries_for_factors(self, X: Any) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.float64]]:
        """Real queries for items with factors, and what each query adds to its estimated distances."""
        X, function = self._validate_samples(X), cast("QueryFunction | ReconstructionFunction", self.function_)
        with self._environment() if function.uses_threads(len(X)) else nullcontext():
            return function.estimates(X, self.metric)

    # --- before learning

    def _check_options(self) -> None:
        if self.prefixes:
            most = int(self.nbits) - self._n_bits_of_norm()
            check_prefixes(self.prefixes, self.nbits, "the bits of a code")
            check_prefixes(self.prefixes, most, f"the bits of {self.nbits} that do not tell a norm")
            if self.factors or self.nbits < _N_MIN_BITS:
                raise ValueError(
                    f"`prefixes` must be () unless the codes reconstruct the items: `nbits` at least {_N_MIN_BITS}, "
                    f"and no `factors`. Got {self.prefixes} instead."
                )

    def _resolve_defaults(self, X: Any) -> None:
        from skhash.engine import count_batches
        from skhash.vectors.queries import are_local

        defaults: dict[str, Any] = _DEFAULTS | (_SGD if self.optimizer == "sgd" else {})
        n_batches = count_batches(len(X), self.batch_size or defaults["batch_size"])
        defaults["n_epochs"] = int(np.clip(math.ceil(_N_STEPS / n_batches), *_N_EPOCHS))
        factor = _QUERY_RATE if self._may_reconstruct() else 1
        defaults["learning_rate"] *= factor * (_LOCAL_RATE if are_local(n_batches) else 1)
        self.settings_ = self._with_given_values(defaults)
        self._fixed = {name: getattr(self, name) for name in _FIXED}

    def _with_given_values(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings, with the values of parameters that are not None; Python's ints, whose products do not overflow."""
        given = {name: settings[name] if (value := getattr(self, name)) is None else value for name in settings}
        return {name: int(value) if isinstance(value, np.integer) else value for name, value in given.items()}

    def _n_tasks(self) -> int:
        return int(self.settings_["n_epochs"])

    def _n_bits_of_norm(self) -> int:
        """Largest number of the last bits that tell a norm."""
        return 0 if self.factors else min(_N_DIGITS[self.metric], int(self.nbits) // _BITS_PER_DIGIT)

    def _may_reconstruct(self) -> bool:
        """Whether held-out queries may choose codes that reconstruct the items."""
        return self.factors or self.nbits >= _N_MIN_BITS

    @property
    def _for_hamming(self) -> bool:
        """Whether codes should also suit a search by Hamming distance."""
        return self.hamming and not self.factors

    # --- learn

    def _learn(
        self, X: Any, relevance: Any, rng: Any, targets: Any = None, resume: bool = False, queries: Any = None
    ) -> HashFunction:
        from skhash.engine.data import StackedArrays
        from skhash.engine.runtime import own_settings, seeded
        from skhash.hashers.deep.checkpoints import TrainingFile, check_same_training, draw_seed
        from skhash.vectors.queries import N_MAX_QUERIES, HeldOutQueries, ItemTerms, choose_queries, train

        self.__dict__.pop("_reference", None)
        was_fitted = hasattr(self, "weights_") and not resume
        names = vars(self).get("feature_names_in_")
        queries = None if queries is None else check_queries(queries, self.n_features_in_, names, least=2)
        check_same_training(self, X, targets, queries)
        device = resolve_device(self.device)
        file = TrainingFile(self, X, targets, resume, queries)
        rng, seed = draw_seed(self, rng, file)
        order = np.random.default_rng(seed)

        # hold out queries: samples, and half of the queries of the users
        held_out = None
        if self.early_stopping:
            indices, given = choose_queries(len(X), self.validation_fraction, order), None
            if queries is not None:
                shuffled = order.permutation(queries)
                given, queries = np.split(shuffled, [min(len(shuffled) // 2, N_MAX_QUERIES)])
            every = math.ceil(self.settings_["n_epochs"] / _N_EVALUATIONS)
            held_out = HeldOutQueries(X, indices, self.n_iter_no_change, every, given)

        with own_settings(), seeded(seed, device, self.deterministic):
            encoder = self._new_encoder().to(device)
            encoder.set_statistics(X)
            self._warn_of_far_features(encoder)
            if file.state is None:
                self._learn_codes(encoder, X, held_out, rng, order)

            # train the map of the queries, and that of the items if these are its signs
            objective = self._new_objective(len(X), held_out)
            samples = X if queries is None else StackedArrays(X, queries)
            trainer = self._new_trainer(encoder, objective, samples, order, device)
            self.history_ = []
            self.__dict__.pop("_stream", None)
            file.restore(trainer, held_out)
            if encoder.codes is not None:
                objective.items = encoder.item_terms(X)
                if held_out is not None:
                    held_out.items = ItemTerms(*(terms[held_out.rows] for terms in objective.items))
            try:
                train(trainer, held_out, self._keep_weights, *self._callbacks(trainer, held_out, file, X, targets))
            except KeyboardInterrupt as interrupt:
                if was_fitted or not self.history_:
                    raise
                self.function_ = self._function()
                self._store_database(X, targets)
                raise InterruptedFit from interrupt
        self.n_epochs_ = len(self.history_)
        self.function_ = self._function()
        if held_out is not None and self._may_reconstruct() and len(held_out.indices) > 1:  # else they took part
            self._reference = reference_of(self, X, held_out.indices)
        return self.function_

    def _new_encoder(self, weights: dict[str, npt.NDArray[Any]] | None = None) -> "QueryEncoder":
        """Encoder with random weights, or with given ones."""
        import torch

        from skhash.vectors.queries import QueryEncoder

        nbits, weights = int(self.nbits), weights or {}
        encoder = QueryEncoder(
            self.n_features_in_,
            nbits,
            self.metric,
            factors=self.factors,
            prefixes=self.prefixes,
            n_found=len(weights["hash.weight"]) if weights else nbits,
            has_offset="offset" in weights,
        )
        if weights:
            encoder.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
        return encoder

    def _new_objective(
        self, n_items: float = math.inf, held_out: "HeldOutQueries | None" = None
    ) -> "NeighborObjective":
        from skhash.vectors.queries import NeighborObjective

        return NeighborObjective(self.temperature, n_items, None if held_out is None else held_out.indices)

    def _new_trainer(
        self,
        encoder: "QueryEncoder",
        objective: "NeighborObjective",
        X: Any,
        order: np.random.Generator,
        device: "torch.device",
        **changes: Any,
    ) -> "Trainer":
        from skhash.engine import Schedule, Trainer

        options = self.settings_ | {"lr_schedule": self.lr_schedule, "optimizer": self.optimizer} | changes
        return Trainer(encoder, objective, X, None, Schedule(**options), order, device)

    def _warn_of_far_features(self, encoder: "QueryEncoder") -> None:
        if self.metric == "cosine" and encoder.offset is not None:
            n_far = int(encoder.offset[0].count_nonzero())
            warnings.warn(
                f"The mean of {n_far} of the features is more than {FAR:,.0f} times the spread of the values, so "
                "that all cosines are about 1. It is subtracted before the samples are divided by their norm. "
                "Use metric='euclidean', or center the samples.",
                UserWarning,
                stacklevel=3,
            )

    def _callbacks(
        self, trainer: "Trainer", held_out: "HeldOutQueries | None", file: "TrainingFile", X: Any, targets: Any
    ) -> tuple[Callable[[], None], Callable[[dict[str, Any]], bool]]:
        """What is called before each epoch, and with its entry of the history after it; true stops the training."""
        from skhash.engine.runtime import gather

        context = cast("Any", None)

        def begin() -> None:
            nonlocal context
            context = self._callback_fit_ctx.subcontext(task_name="epoch")
            context.call_on_fit_task_begin(estimator=self, X=X, y=targets)

        def end(entry: dict[str, Any]) -> bool:
            self.history_.append(entry)
            self.n_epochs_ = len(self.history_)
            file.write(trainer, held_out)
            weights = trainer.encoder.state_dict()
            stops = context.call_on_fit_task_end(
                estimator=self,
                X=X,
                y=targets,
                reconstruction_attributes=lambda: self._reconstruction_attributes(X, targets, weights),
            )
            return any(gather(bool(stops)))

        return begin, end

    # --- the codes that training starts from

    def _itq(self, encoder: "QueryEncoder", X: Any, rng: np.random.RandomState) -> npt.NDArray[np.float64]:
        """Map (nbits, n_features) of some samples by ITQ."""
        import torch

        indices = slice(None) if len(X) <= N_PART else evenly_spaced(len(X), N_PART)
        with torch.no_grad():
            centered = encoder.eval().features(encoder.read(X, indices)).cpu().numpy().astype(np.float64)
        return scaled_itq_map(centered, int(self.nbits), rng).T

    def _learn_codes(
        self, encoder: "QueryEncoder", X: Any, held_out: Any, rng: np.random.RandomState, order: np.random.Generator
    ) -> None:
        """Keep codes that reconstruct the items, or signs of a map if their recall is higher, with their queries."""
        from skhash.engine.data import ArraySubset

        if self._may_reconstruct():
            indices = np.arange(len(X)) if held_out is None else held_out.others
            indices = indices[evenly_spaced(len(indices), _N_START)]
            features = encoder.outputs(ArraySubset(X, indices), encoder.features)
            principal = principal_map(features, min(int(self.nbits), *features.shape), None).T
            directions = self._keep_best(encoder, self._maps(encoder, features, principal, order), held_out, math.inf)
            codes = self._reconstructions(encoder, features, principal, directions, order)
            self._keep_best(encoder, codes, held_out, _HAMMING_GAIN)
        else:
            encoder.set_maps(self._itq(encoder, X, rng))
        if held_out is not None:
            held_out.keep_start(held_out.measure(encoder))
        self._keep_weights(encoder.state_dict())

    def _keep_best(self, encoder: "QueryEncoder", starts: Iterator[Any], held_out: Any, most: float) -> Any:
        """Keep the first start, or the best one if it is better by more than chance; return what belongs to it.

        The recall by Hamming distance counts up to this much above that of ITQ.
        """
        if held_out is None:
            return next(starts)
        weights: dict[str, Any] = {}
        best, kept = -math.inf, None
        for start in starts:
            real, hamming = held_out.recalls(encoder)
            if held_out.itq is None:
                held_out.itq = hamming  # the first map is that of ITQ
            value = real + _HAMMING_WEIGHT * min(hamming - held_out.itq, most) if self._for_hamming else real
            if weights:
                value -= held_out.error
            if value > best:
                best, kept, weights = value, start, copy.deepcopy(encoder.state_dict())
        encoder.load_state_dict(weights)
        return kept

    def _maps(self, encoder: "QueryEncoder", features: Any, principal: Any, rng: np.random.Generator) -> Iterator[Any]:
        """Set both maps of the encoder to ITQ, and to maps of few or many directions, which are returned.

        With prefixes there is one map of many directions for the bits of each, so that the first bits see them all.
        """
        seed = int(rng.integers(np.iinfo(np.int32).max))
        most, nbits = len(principal), int(self.nbits)
        if self.prefixes:
            directions, draws = scaled_directions(features, principal, EQUALIZED), np.random.RandomState(seed)
            lengths = np.diff([0, *self.prefixes, nbits])
            encoder.set_maps(np.vstack([learn_map(features, directions, int(n), draws) for n in lengths]))
            yield directions
            return
        numbers = sorted({min(most, nbits // part) for part in (1, 2, 4)}, reverse=True)
        for n, power in [(most, 0.0), *((n, EQUALIZED) for n in numbers)]:
            directions = scaled_directions(features, principal[:n], power)
            weight = learn_map(features, directions, nbits, np.random.RandomState(seed))
            encoder.set_maps(weight)
            yield directions

    def _reconstructions(
        self, encoder: "QueryEncoder", features: Any, principal: Any, directions: Any, rng: np.random.Generator
    ) -> Iterator[None]:
        """Set the encoder to codes that reconstruct the features, of each model, and at last to its maps alone."""
        import torch

        maps = copy.deepcopy(encoder.state_dict())
        start = encoder.hash.weight.detach().cpu().numpy().copy()
        n_digits = self._n_bits_of_norm()
        # queries are centered, but not in the inner product
        shift = encoder.center() if self.metric == "inner" and not self.factors else torch.zeros_like(encoder.mean)
        for model, decoders in self._models(features, start, principal, directions, n_digits, rng):
            encoder.set_codes(model, decoders, shift, tells_norm=not n_digits or bool(model.digits.any()))
            yield
        if not self.prefixes:
            encoder.load_state_dict(maps)
            yield

    def _models(
        self, features: Any, start: Any, principal: Any, directions: Any, n_digits: int, rng: np.random.Generator
    ) -> Iterator[tuple[Reconstruction, list[Any]]]:
        """Learn codes that reconstruct the features, with the decoders of their prefixes.

        For the Hamming distance there are some of each pull, with and without digits of the norm. For real queries
        there are those without a pull, and those with bits by variance.
        """
        has_offset, prefixes, nbits = not self.factors, self.prefixes, int(self.nbits)
        if self._for_hamming:
            for n in dict.fromkeys((n_digits, 0)):
                yield from learn_reconstructions(features, start, directions, n, has_offset, _PULLS, prefixes)
            return
        rate = (nbits - n_digits) / len(principal)
        if prefixes or rate <= _MOST_BITS or rate > MAX_GROUP_SIZE:
            yield from learn_reconstructions(features, start, directions, n_digits, has_offset, (0.0,), prefixes)
        if not prefixes and rate <= MAX_GROUP_SIZE:
            seed = np.random.RandomState(rng.integers(np.iinfo(np.int32).max))
            n = min(n_digits + _N_MORE_DIGITS, nbits // _BITS_PER_DIGIT) if n_digits else 0
            yield learn_sums(features, principal, nbits, n, has_offset, seed), []

    # --- keep

    def _keep_weights(self, weights: "dict[str, torch.Tensor]") -> None:
        """Set `weights_`, from which the function is made when the hasher becomes usable."""
        self.weights_ = {name: value.detach().cpu().numpy().copy() for name, value in weights.items()}

    def _store_weights(self, weights: "dict[str, torch.Tensor]") -> None:
        self._keep_weights(weights)
        self.function_ = self._function()

    def _codes_of_weights(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays of a :class:`Reconstruction` but `start` in `weights_`; none for signs of a map."""
        return {name[6:]: value for name, value in self.weights_.items() if name.startswith("codes.")}

    def _function(self) -> HashFunction:
        """Function of `weights_`."""
        weights, unit_norm = self.weights_, self.metric == "cosine"
        mean, scale, offset = weights["mean"], weights["scale"], weights.get("offset")
        if offset is not None:
            offset = offset.astype(np.float64) if offset.ndim == 1 else offset.astype(np.float64).sum(axis=0)
        layer = as_layer(weights["queries.weight"] / scale, weights["queries.bias"])
        if not (codes := self._codes_of_weights()):
            items = as_layer(weights["hash.weight"].astype(np.float64) / scale.item(), weights["hash.bias"])
            return QueryFunction(mean, (items,), offset, unit_norm, scale, layer)
        fields: dict[str, Any] = codes | {"middle": codes["middle"].item(), "start": weights["hash.weight"]}
        if self.prefixes:
            fields["prefixes"] = np.array(self.prefixes, np.int64)
            fields["prefix_weight"], fields["prefix_bias"] = as_layer(
                weights["prefix_queries.weight"] / scale, weights["prefix_queries.bias"]
            )
        return ReconstructionFunction(mean, float(scale), *layer, **fields, offset=offset, unit_norm=unit_norm)

    def _check_stored(self, lengths: dict[str, int]) -> None:
        if missing := set(_FIXED) - self._fixed.keys():
            raise ValueError(f"`_fixed` must have {sorted(missing)[0]!r}.")
        shapes = {"hash.weight": "n_trained n_features", "hash.bias": "n_trained", "mean": "n_features"}
        for name, shape in shapes.items():
            Array(shape).check(f"weights_.{name}", self.weights_.get(name), lengths)
        as_count(lengths["n_trained"], "weights_", "one row per bit", least=lengths["nbits"])
        if hasattr(self, "_reference"):
            check_reference(self, lengths)

    def _cut(self, nbits: int) -> None:
        has_codes, is_shorter = bool(self._codes_of_weights()), nbits < self._n_features_out
        if has_codes and is_shorter and not (self.factors or self.prefixes):
            warnings.warn(
                f"The bits of a code reconstruct the item together: the first {nbits} of {self._n_features_out} find "
                f"less than they could. Fit EmbeddingHasher({self._n_features_out}, prefixes=({nbits},)) for codes "
                f"that are good at both lengths, or EmbeddingHasher({nbits}).",
                UserWarning,
                stacklevel=3,
            )
        if hasattr(self, "_reference") and is_shorter:
            if has_codes:
                self._reference = cut_reference(self._reference, nbits)
            else:  # the errors of fewer values are others
                del self._reference
        super()._cut(nbits)
        self.__dict__.pop("_stream", None)
        # the code of an item that is reconstructed needs all bits
        layers = ("queries.",) if has_codes else ("hash.", "queries.")
        self.weights_ = {
            name: value[:nbits].copy() if name.startswith(layers) else value for name, value in self.weights_.items()
        }
        whole, self.prefixes = self.prefixes, tuple(n for n in self.prefixes if n < nbits)
        self._fixed = self._fixed | {"nbits": nbits, "prefixes": self.prefixes}
        if whole:  # the queries of the shortest prefix that has all bits become its own
            first = sum(map(int, self.prefixes))
            for part in ("weight", "bias"):
                rows = self.weights_.pop(f"prefix_queries.{part}")
                if len(self.prefixes) < len(whole):
                    self.weights_[f"queries.{part}"] = rows[first : first + nbits].copy()
                if first:
                    self.weights_[f"prefix_queries.{part}"] = rows[:first].copy()
