r"""EmbeddingHasher, asymmetric hashing of vectors (two maps as in Neyshabur et al., NIPS 2013; the loss is ours).

Two linear maps, one for items and one for queries:

    b = sign(W x + c),   score(q, x) = <A q + a, b>

Both start from ITQ of the centered vectors, W = A. Without a backbone, the code b is improved from there, so that it
reconstructs the item and stays near W x (see `_reconstruction`). Held-out queries choose how near, by their recall
with real queries and by Hamming distance. Then only A and a are trained.

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
from collections.abc import Iterator
from contextlib import nullcontext
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, Unpack, cast

import numpy as np
import numpy.typing as npt
from sklearn.callback import with_callbacks

from skhash._compat import Interval, StrOptions, fit_context
from skhash._validation import FAR, OPTIONAL, VECTOR_METRICS, VectorMetric, check_queries, evenly_spaced
from skhash.encoding import map_batches
from skhash.functions import HashFunction
from skhash.functions.reconstruction import MAX_GROUP_SIZE, QueryFunction, Reconstruction, ReconstructionFunction
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._parameters import SharedParameters
from skhash.hashers.deep._reconstruction import (
    EQUALIZED,
    N_PART,
    learn_map,
    learn_reconstructions,
    learn_sums,
    scaled_directions,
)
from skhash.hashers.deep._relevance import RelevanceMixin
from skhash.hashers.deep._shared import PrefixesMixin
from skhash.hashers.deep.drift import Drift, check_reference, compare, cut_reference, reference_of
from skhash.hashers.shallow.linear import principal_map

if TYPE_CHECKING:
    from skhash.engine import Encoder, Objective, Trainer
    from skhash.hashers.deep.query_encoder import QueryScores

_N_START = 30_000  # number of samples that the initial weights are learned from
_N_EVALUATIONS = 25  # approximate number of epochs of a fit that are measured
_BITS_PER_DIGIT = 10  # smallest number of bits of a code for each digit of the norm
_N_MIN_BITS = 32  # of codes that reconstruct, because shorter ones have too few bits for the norm
_HAMMING_WEIGHT = 2  # of the recall by Hamming distance, in the choice of codes
_HAMMING_GAIN = 0.02  # recall above that of ITQ that counts
_MOST_BITS = 2.0  # per direction, of codes without bits by variance
_N_MORE_DIGITS = 2  # of the norm, with bits by variance
_PULLS = (1.0, 2.0, 0.5, 0.25)  # of codes that also suit the Hamming distance; held-out queries choose
_QUERY_RATE = 3  # factor of the learning rate if only the map of the queries is learned
_UNUSED = ("decoder", "field_bias", "gram", "digits", "pull", "groups")  # weights of codes that do not reconstruct
_LOCAL_RATE = 3  # factor of the learning rate with local batches


class EmbeddingHasher(RelevanceMixin, PrefixesMixin, DeepHasher):
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
    affinity : None, "auto" or callable, default=None
        Learn which samples are relevant from `y`, instead of the neighbors of the vectors; see
        :mod:`skhash.affinity`. None learns neighbors, and takes "auto" for :meth:`score`.
    hamming : bool, default=True
        Whether the codes should also suit a search by Hamming distance, as in most stores. False makes them for real
        queries alone, which then usually find more. With `factors` the codes are always for real queries.
    factors : bool, default=False
        Whether real queries estimate the distance of the vectors, from two numbers per item that take 8 bytes
        beside its code: see :meth:`encode_factors`. `backbone` must be None for it.
    prefixes : tuple or list of int, default=()
        Lengths of prefixes that should be good codes, too, ascending and shorter than `nbits`: :meth:`prefix` cuts
        the codes without another fit. Each has real queries of its own. See :ref:`prefixes`. The codes must reconstruct
        the items, see the notes, so `backbone`, `affinity`, `smoothing` and `factors` must have their defaults.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}
    n_labeled_ : int
        Number of labeled samples, with an affinity.

    Notes
    -----
    With ``early_stopping=True`` a share `validation_fraction` of the samples, at most 500, is held out:
    training uses them as items, and not as queries. The validation metric of `history_` is the share of
    their ten nearest vectors that are among the first ten items of their real queries. It is measured
    about 25 times. The start is kept unless an epoch is better by more than chance, so training helps
    from some thousand samples on. Without an affinity, `y` is stored for :meth:`score`, and training does
    not use it.

    With an affinity, few labels are enough. Unlabeled samples have the class -1, as in
    :mod:`sklearn.semi_supervised`, or no label at all in a matrix of labels. For another affinity they
    are relevant to no sample, such as those without judged pairs in a
    :class:`~skhash.affinity.PrecomputedAffinity`. The rotation of the start is learned from all samples,
    with and without labels. Training starts from a ridge regression of the levels of all pairs of labeled
    samples, rotated as in ITQ, and continues as in :class:`TALRHasher`; real queries are the activations.
    The AP of held-out labeled samples, ranked by their codes, selects the penalty and the epoch.
    `temperature` is not used, and the defaults are those of the rows "relevance" of the table. Without an
    affinity, ``input_dropout=None`` is 0.

    Of the parameters that other deep hashers have, `augment` is missing: a fit learns the neighbors of the
    given vectors, and a changed vector has other ones. `early_stopping` is True by default, because only held-out
    queries tell whether training is better than its start.

    {defaults}

    From 32 bits on, or with factors, codes reconstruct the items without backbone, smoothing and affinity, and
    only queries are trained; their default learning rate is three times that of the table. For real queries alone,
    held-out queries may choose codes with one to four bits for a direction, by its variance. With more than five
    batches of samples, batches consist of near samples, and the default learning rate is once more three times
    as large.

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

    _parameter_constraints = DeepHasher._parameter_constraints | {
        "metric": [StrOptions(set(VECTOR_METRICS))],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "affinity": [StrOptions({"auto"}), callable, None],
        "hamming": ["boolean"],
        "factors": ["boolean"],
        "prefixes": [tuple, list],
    }
    del _parameter_constraints["augment"]

    _n_epochs_range = (5, 200)
    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay")
    _recipes = {
        "linear": (300, 1792, 1e-4, 0.0),
        "deep": (300, 1792, 1e-4, 0.0),
        "linear, relevance": (2500, 256, 0.1, 0.5),  # as TALR
        "deep, relevance": (1500, 256, 0.003, 0.1),
    }
    _sgd_rates = {"linear": 0.01, "deep": 0.01, "linear, relevance": 1.0, "deep, relevance": 1.0}
    _of_module: ClassVar = {}
    _n_digits = {"cosine": 5, "inner": 0, "euclidean": 7}

    _shared_defaults: ClassVar = {
        "affinity": None,
        "early_stopping": True,
        "n_iter_no_change": 50,
    }
    _hidden_dropout = 0.0
    _left_out: ClassVar = ("augment",)
    _fitted_private = (*DeepHasher._fitted_private, "_reference")

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
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.metric = metric
        self.temperature = temperature
        self.hamming = hamming
        self.factors = factors
        self.prefixes = prefixes

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, resume: bool = False, *, queries: Any = None) -> Self:
        """Learn the hash functions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...), or torch Dataset
            Items, finite real values. Images have the channels first; bytes become values in [0, 1].
        y : array-like of shape (n_samples,) or (n_samples, ...), default=None
            Targets that the affinity compares. Without an affinity they are stored for :meth:`score` only.
        resume : bool, default=False
            Continue from the checkpoint of this training, if there is one; see :ref:`resume`.
        queries : array-like of shape (n_queries, n_features), default=None
            Vectors of the queries of your users, such as embedded questions, if they differ from the items. Half of
            them, at most 500, are held out, and choose the start and the epoch. The others train the map of the
            queries. Items are queries, too, so that few queries do no harm. With ``early_stopping=False`` all of
            them train. `affinity` must be None.

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
        self._check_resume(resume)
        return self._run_fit(X, y, resume=resume, queries=queries)

    def _checked_queries(self, queries: Any) -> npt.NDArray[np.floating]:
        if self._supervised:
            raise ValueError(
                "`queries` must be None with an affinity, which decides what is relevant. Got an array instead."
            )
        if len(self.input_shape_) > 1:
            raise ValueError(
                "`queries` must be None unless the samples are vectors. "
                f"Got an array and samples of shape {self.input_shape_}."
            )
        return check_queries(queries, self.n_features_in_, least=2)

    def encode_factors(self, X: Any) -> npt.NDArray[np.float32]:
        """Two numbers per item, from which real queries estimate the distance of the vectors.

        They take 8 bytes per item, beside its code.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...), or torch Dataset
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
            If `X` does not match the training samples, or the hasher has a backbone, or its codes have
            the digits of the norm instead (see the notes of the class).

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
        X = self._validate_samples(X)
        self._check_factors()
        return self._factors(X)

    def drift(self, X: Any, *, groups: Any = None, tolerance: float | None = 0.0, random_state: Any = 0) -> Drift:
        """Whether new samples still look like those of the fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...), or torch Dataset
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
            with: it needs ``early_stopping=True``, which holds out samples, 32 bits or more, and neither a backbone nor
            an affinity.

        See Also
        --------
        skhash.hashers.deep.Drift : What is returned.

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
        X = self._validate_samples(X)
        if tolerance is not None and not (isinstance(tolerance, Real) and 0 <= tolerance <= 1):
            raise ValueError(f"`tolerance` must be None or a float from 0 to 1. Got {tolerance!r} instead.")
        self._check_reference_exists()
        return compare(self, X, groups, tolerance, random_state)

    def _check_reference_exists(self) -> None:
        """Raise ValueError if the fit has nothing to compare new samples with."""
        if hasattr(self, "_reference"):
            return
        if self._supervised or not self._may_reconstruct():
            raise ValueError(
                f"`nbits` must be at least {_N_MIN_BITS}, and `backbone`, `smoothing` and `affinity` must be None, to "
                f"measure `drift`. Got {self!r} instead. Fit such a hasher for it."
            )
        raise ValueError(
            "`early_stopping` must be True when the hasher is fitted, with 20 samples or more, to hold out those that "
            f"`drift` compares with. Got {self.early_stopping!r} instead. Call fit with early_stopping=True; "
            "partial_fit alone holds out none, and the prefix of a map has lost them."
        )

    def _factors(self, X: Any) -> npt.NDArray[np.float32]:
        """Factors of validated samples."""
        return map_batches(self, X, lambda factors: factors, "factors")

    def _queries_for_factors(self, X: Any) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.float64]]:
        """Real queries for items with factors, and what each query adds to its estimated distances."""
        X, function = self._validate_samples(X), cast("QueryFunction | ReconstructionFunction", self.function_)
        with self._environment() if function.uses_threads(len(X)) else nullcontext():
            return function.estimates(X[:], self.metric)

    def _run(self, X: Any, method: str = "activations") -> npt.NDArray[np.floating]:
        searches = method == "activations" and hasattr(self.function_, "decoder")
        if searches or method in ("factors", "errors"):  # on the CPU
            return getattr(self.function_, method)(X[:])  # type: ignore[no-any-return]
        return super()._run(X, method)

    def _is_dense(self) -> bool:
        return self._fixed["backbone"] is None or super()._is_dense()

    def _function(self) -> HashFunction:
        from skhash.functions.network import NetworkFunction, as_layer, dense_layers
        from skhash.hashers.deep.query_encoder import QUERY_STATE

        encoder = self._trained_encoder()
        offset = None if encoder.offset is None else encoder._offset_on_cpu(encoder.offset)
        weight, bias = (part.detach().numpy() for part in (encoder.queries.weight, encoder.queries.bias))
        unit_norm = self.metric == "cosine"
        if not self._is_dense():
            names = encoder.state_dict().keys() - QUERY_STATE
            weights = {name: self.weights_[name] for name in sorted(names)}
            return NetworkFunction(
                self.input_shape_, weights, self._fixed["backbone"], (weight.copy(), bias.copy()), offset, unit_norm
            )
        image_shape = None if len(self.input_shape_) == 1 else np.asarray(self.input_shape_, np.int64)
        mean = np.broadcast_to(encoder.mean.numpy(), self.input_shape_).ravel()
        offset = None if offset is None else np.broadcast_to(offset, self.input_shape_).ravel()
        scale = encoder.scale.numpy()
        layer = as_layer(weight / (scale if self._fixed["backbone"] is None else 1), bias)
        if not encoder.reconstructs:
            layers = dense_layers(encoder)
            return QueryFunction(mean, layers, layer, offset, unit_norm, scale, image_shape)
        fields: dict[str, Any] = vars(encoder._reconstruction()) | dict(
            zip(("query_weight", "query_bias"), layer, strict=True)
        )
        fields |= {"offset": offset, "unit_norm": unit_norm, "image_shape": image_shape}
        if encoder.prefixes:
            weight, bias = (part.detach().numpy() for part in encoder.prefix_queries.parameters())
            fields["prefixes"] = np.array(encoder.prefixes)
            fields["prefix_weight"], fields["prefix_bias"] = as_layer(weight / scale, bias)
        return ReconstructionFunction(mean=mean, scale=float(scale), **fields)

    def _resolve_defaults(self, X: Any) -> None:
        super()._resolve_defaults(X)
        if self.input_dropout is None and "input_dropout" in self.settings_ and not self._supervised:
            self.settings_["input_dropout"] = 0.0
        if self.learning_rate is None and not self._supervised:
            from skhash.engine import count_batches
            from skhash.hashers.deep._embedding import are_local

            is_local = are_local(count_batches(len(X), self.settings_["batch_size"]))
            factor = _QUERY_RATE if self._may_reconstruct() else 1
            self.settings_["learning_rate"] *= factor * (_LOCAL_RATE if is_local else 1)

    def _check_factors(self) -> None:
        """Raise ValueError for a backbone: the estimates are those of linear maps."""
        if self.backbone is not None:
            raise ValueError(
                f"`backbone` must be None for factors, which need linear maps. Got {self.backbone!r} instead."
            )

    def _check_options(self) -> None:
        super()._check_options()
        if self.factors:
            self._check_factors()
        if self.prefixes:
            most = self.nbits - self._n_bits_of_norm()
            self._check_prefixes(most, f"the bits of {self.nbits} that do not tell a norm")
            is_plain = not self._supervised and self.backbone is None and not self.smoothing and not self.factors
            if not is_plain or self.nbits < _N_MIN_BITS:
                raise ValueError(
                    f"`prefixes` must be () unless the codes reconstruct the items: `nbits` at least {_N_MIN_BITS}, "
                    f"and no `backbone`, `affinity`, `smoothing` or `factors`. Got {self.prefixes} instead."
                )

    def _n_bits_of_norm(self) -> int:
        """Largest number of the last bits that tell a norm."""
        return 0 if self.factors else min(self._n_digits[self.metric], self.nbits // _BITS_PER_DIGIT)

    def _database_factors(self, X: Any) -> npt.NDArray[np.float32] | None:
        return self._factors(X) if self.factors else None

    def _may_reconstruct(self) -> bool:
        """Whether training starts from codes that reconstruct the items."""
        is_plain = self.backbone is None and not self.settings_.get("smoothing")
        return is_plain and (self.factors or self.nbits >= _N_MIN_BITS)

    @property
    def _for_hamming(self) -> bool:
        """Whether codes should also suit a search by Hamming distance."""
        return self.hamming and not self.factors

    def _objective(self) -> "Objective":
        if self._supervised:
            return super()._objective()
        from skhash.hashers.deep._embedding import EmbeddingObjective

        return EmbeddingObjective(self._scores(), self.temperature)

    def _scores(self) -> "QueryScores":
        from skhash.hashers.deep.query_encoder import QueryScores

        return QueryScores(self.metric, self.factors and not self.settings_.get("smoothing"))

    def _augmentation(self) -> None:
        return None

    def _layers_of_bits(self) -> tuple[str, ...]:
        # the code of an item that is reconstructed needs all bits
        return ("queries.",) if self.weights_["reconstructs"] else (*super()._layers_of_bits(), *_UNUSED)

    def _check_stored(self, lengths: dict[str, int]) -> None:
        super()._check_stored(lengths)
        if hasattr(self, "_reference"):
            check_reference(self, lengths)

    def _cut(self, nbits: int) -> None:
        if hasattr(self, "_reference") and nbits < self._n_features_out:
            if self.weights_["reconstructs"]:
                self._reference = cut_reference(self._reference, nbits)
            else:  # the errors of fewer values are others
                del self._reference
        whole = self.prefixes
        super()._cut(nbits)
        if not self.weights_["reconstructs"]:
            self.weights_["gram"] = self.weights_["gram"][:, :nbits].copy()
        if whole:
            self._cut_queries(nbits, is_own=len(self.prefixes) < len(whole))

    def _cut_queries(self, nbits: int, is_own: bool) -> None:
        """Keep the queries of shorter prefixes; those of the shortest one that has all bits become its own."""
        first = sum(self.prefixes)
        for part in ("weight", "bias"):
            rows = self.weights_.pop(f"prefix_queries.{part}")
            if is_own:
                self.weights_[f"queries.{part}"] = rows[first : first + nbits].copy()
            if first:
                self.weights_[f"prefix_queries.{part}"] = rows[:first].copy()

    def _new_encoder(self, *args: Any, **options: Any) -> "Encoder":
        from skhash.hashers.deep.query_encoder import QueryEncoder

        return QueryEncoder(
            *args, unit_norm=self.metric == "cosine", n_kept=self.nbits, prefixes=self.prefixes, **options
        )

    def _initialize(self, encoder: Any, X: Any, rng: np.random.RandomState) -> None:
        if self.prefixes and "_queries" not in vars(self):  # only `fit` learns codes that reconstruct
            raise ValueError(
                f"`prefixes` must be () for partial_fit without fit. Got {self.prefixes} instead. Call fit first."
            )
        if self.metric == "cosine" and encoder.offset is not None:
            n_far = int(encoder.offset[0].count_nonzero())
            warnings.warn(
                f"The mean of {n_far} of the features is more than {FAR:,.0f} times the spread of the values, so "
                "that all cosines are about 1. It is subtracted before the samples are divided by their norm. "
                "Use metric='euclidean', or center the samples.",
                UserWarning,
                stacklevel=3,
            )
        if self._may_reconstruct() and not self._supervised:
            return
        from skhash.hashers.deep._initial_maps import itq_map

        indices = slice(None) if len(X) <= N_PART else evenly_spaced(len(X), N_PART)
        encoder.set_maps(itq_map(encoder, X, indices, rng).T)

    def _learn(self, X: Any, *args: Any, queries: Any = None, **options: Any) -> HashFunction:
        self.__dict__.pop("_reference", None)
        self._queries = None if queries is None else self._checked_queries(queries)
        try:
            self.function_ = super()._learn(X, *args, **options)
            held_out = self.__dict__.get("_held_out", ())
            if self._may_reconstruct() and len(held_out) > 1:  # else they took part
                self._reference = reference_of(self, X, held_out)
            return self.function_
        finally:
            self.__dict__.pop("_held_out", None)
            del self._queries

    def _hold_out(self, X: Any, relevance: Any, order: np.random.Generator) -> Any:
        if self._supervised:
            return super()._hold_out(X, relevance, order)
        from skhash.hashers.deep._embedding import N_MAX_QUERIES, HeldOutQueries, choose_queries

        indices = choose_queries(len(X), self.validation_fraction, order)
        given = None
        if self._queries is not None:
            shuffled = order.permutation(self._queries)
            given, self._queries = np.split(shuffled, [min(len(shuffled) // 2, N_MAX_QUERIES)])
        every = math.ceil(self.settings_["n_epochs"] / _N_EVALUATIONS)
        return HeldOutQueries(X, indices, self._scores(), self.n_iter_no_change, every, given)

    def _build_trainer(self, encoder: "Encoder", X: Any, *options: Any, **changes: Any) -> "Trainer":
        if self._queries is not None:
            from skhash.engine.data import StackedArrays

            X = StackedArrays(X, self._queries)
        return super()._build_trainer(encoder, X, *options, **changes)

    def _fit_loop(self, trainer: "Trainer", held_out: Any, *others: Any) -> None:
        if not self._supervised:
            self._prepare(trainer, held_out)
        super()._fit_loop(trainer, held_out, *others)

    def _prepare(self, trainer: "Trainer", held_out: Any) -> None:
        """Choose the codes that training starts from."""
        from skhash.hashers.deep.query_encoder import ItemTerms

        encoder: Any = trainer.encoder
        objective: Any = trainer.objective
        X = trainer.X
        if self._queries is not None:
            X = X.first
            objective.n_items = len(X)
        if held_out is not None:
            objective.held_out = self._held_out = held_out.indices
        if not self.history_:
            self._learn_start(encoder, X, held_out, trainer.rng)
        if encoder.reconstructs:
            objective.items = self._scores().items(encoder, X)
            if held_out is not None:
                held_out.items = ItemTerms(*(terms[held_out.rows] for terms in objective.items))

    def _learn_start(self, encoder: Any, X: Any, held_out: Any, rng: np.random.Generator) -> None:
        """Start from codes that reconstruct the items, or from signs of a map if its recall is higher."""
        from skhash.engine.data import ArraySubset
        from skhash.hashers.deep._initial_maps import compute_activations

        if self._may_reconstruct():
            indices = np.arange(len(X)) if held_out is None else held_out.others
            indices = indices[evenly_spaced(len(indices), _N_START)]
            features = compute_activations(encoder, ArraySubset(X, indices), encoder.features)
            principal = principal_map(features, min(self.nbits, *features.shape), None).T
            directions = self._keep_best(encoder, self._maps(encoder, features, principal, rng), held_out, math.inf)
            codes = self._reconstructions(encoder, features, principal, directions, rng)
            self._keep_best(encoder, codes, held_out, _HAMMING_GAIN)
        if held_out is not None:
            held_out.keep_start(held_out.measure(encoder))
        self._keep_weights(encoder.state_dict())

    def _keep_best(self, encoder: Any, starts: Iterator[Any], held_out: Any, most: float) -> Any:
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

    def _maps(self, encoder: Any, features: Any, principal: Any, rng: np.random.Generator) -> Iterator[Any]:
        """Set both maps of the encoder to ITQ, and to maps of few or many directions, which are returned.

        With prefixes there is one map of many directions for the bits of each, so that the first bits see them all.
        """
        seed = int(rng.integers(np.iinfo(np.int32).max))
        most = len(principal)
        if self.prefixes:
            directions, draws = scaled_directions(features, principal, EQUALIZED), np.random.RandomState(seed)
            lengths = np.diff([0, *self.prefixes, self.nbits])
            encoder.set_maps(np.vstack([learn_map(features, directions, int(n), draws) for n in lengths]))
            yield directions
            return
        numbers = sorted({min(most, self.nbits // part) for part in (1, 2, 4)}, reverse=True)
        for n, power in [(most, 0.0), *((n, EQUALIZED) for n in numbers)]:
            directions = scaled_directions(features, principal[:n], power)
            weight = learn_map(features, directions, self.nbits, np.random.RandomState(seed))
            encoder.set_maps(weight)
            yield directions

    def _reconstructions(
        self, encoder: Any, features: Any, principal: Any, directions: Any, rng: np.random.Generator
    ) -> Iterator[None]:
        """Set the encoder to codes that reconstruct the features, of each model, and at last to its maps alone."""
        maps = copy.deepcopy(encoder.state_dict())
        start = encoder.hash.weight.detach().cpu().numpy().copy()
        n_digits = self._n_bits_of_norm()
        shift = encoder.decoder.new_zeros(encoder.decoder.shape[1])
        if self.metric == "inner" and not self.factors:  # queries are centered, but not in the inner product
            shift = encoder.center(self.input_shape_)
        for model, decoders in self._models(features, start, principal, directions, n_digits, rng):
            encoder.set_reconstruction(model, decoders, shift, tells_norm=not n_digits or model.digits.any())
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
        has_offset, prefixes = not self.factors, self.prefixes
        if self._for_hamming:
            for n in dict.fromkeys((n_digits, 0)):
                yield from learn_reconstructions(features, start, directions, n, has_offset, _PULLS, prefixes)
            return
        rate = (self.nbits - n_digits) / len(principal)
        if prefixes or rate <= _MOST_BITS or rate > MAX_GROUP_SIZE:
            yield from learn_reconstructions(features, start, directions, n_digits, has_offset, (0.0,), prefixes)
        if not prefixes and rate <= MAX_GROUP_SIZE:
            seed = np.random.RandomState(rng.integers(np.iinfo(np.int32).max))
            n = min(n_digits + _N_MORE_DIGITS, self.nbits // _BITS_PER_DIGIT) if n_digits else 0
            yield learn_sums(features, principal, self.nbits, n, has_offset, seed), []
