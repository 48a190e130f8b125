r"""QueryAdapter: vectors of a new model as queries, for items that have codes of an old one.

Items have codes b of -1 and 1, which a hasher has made from vectors of the old model. Of some items the vectors x of
the new model are known, too. The score of a query q of the new model with an item is

    score(q, b) = <A q + a, b>

so A q + a is a real query for the codes, at any number of dimensions. The start is A = W R: W is the map of queries of
the hasher if that is linear, else the identity. R has orthonormal rows or columns, and maps the vectors x to the
decoded codes W^T b best, both centered (orthogonal Procrustes). a is the ridge regression, on the codes, of what the
scores miss of the similarities of an item, in the mean over the queries; for Euclidean distances this is the norm.

Then A and a are trained by the loss of :mod:`skhash.vectors.embedding`: queries rank the items by their score, as
the new vectors do. Held-out queries decide whether that is better than the start.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import svd
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skhash._compat import StrOptions, fit_context
from skhash._names import check_columns, in_order_of, names_of
from skhash._threads import one_thread
from skhash._validation import (
    OPTIONAL,
    VECTOR_METRICS,
    Array,
    VectorMetric,
    check_activations,
    check_values,
    evenly_spaced,
)
from skhash.codes import Codes, signs, threshold
from skhash.codes.codes import are_other
from skhash.functions import DenseFunction, LinearFunction
from skhash.functions.linear import TINY, read_samples
from skhash.unwrap import check_has_real_queries, find_hasher
from skhash.vectors.codes import QueryFunction, ReconstructionFunction

_PENALTIES = 10.0 ** np.arange(-3, 3)  # of the ridge regression, per pair
_N_STEPS = 200
_N_EVALUATIONS = 10
_N_MEASURED = 500  # largest number of held-out queries, and of queries that the start is compared with
_N_CHECKED = 100  # smallest number of pairs of which a fifth is held out to check that they belong together
_N_NEAREST = 10
_CHANCE = 3.0  # standard errors of the mean rank of the own code that pairs which do not belong together reach rarely
_LEARNING_RATE = 0.02  # the mean square of A is 1 at the start

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class AdapterFunction(DenseFunction):
    """A `DenseFunction` of queries, with the fingerprint of the hasher that has made the codes of the items.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.vectors.adapter import AdapterFunction
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


def _query_map(function: Any) -> FloatArray:
    """Map (n_features, nbits) of the real queries of a function; the identity if they are not linear."""
    if isinstance(function, ReconstructionFunction):
        return function.query_weight
    if isinstance(function, LinearFunction):
        return np.asarray(function.projection, np.float32)
    if isinstance(function, DenseFunction) and len(function.layers) == 1:
        weight: FloatArray = (function.query_layer if isinstance(function, QueryFunction) else function.layers[0])[0]
        return weight
    return np.eye(function.nbits, dtype=np.float32)


def _start(
    items: FloatArray, offsets: FloatArray, codes: FloatArray, asked: FloatArray, query_map: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """A^T and a, from an orthogonal map of the vectors to the decoded codes, and a ridge regression of the rest.

    The similarity of a query q, one of those `asked`, with an item x is ``q @ x - offset``. The items are centered.
    """
    from sklearn.linear_model import RidgeCV  # with much of scikit-learn, which a search does not need

    decoded = codes @ query_map.T
    left, _, right = svd(items.T @ (decoded - decoded.mean(axis=0)), full_matrices=False)
    weight = left @ right @ query_map
    weight /= max(float(np.sqrt(np.mean(weight**2))), TINY)
    queries = asked[evenly_spaced(len(asked), _N_MEASURED)]
    wanted, scores = np.asarray(queries @ items.T - offsets, np.float32), queries @ weight @ codes.T
    for values in (wanted, scores):
        values -= values.mean(axis=1, keepdims=True)
    slope = max(float((wanted * scores).sum() / max((scores**2).sum(), TINY)), TINY)
    rest = (wanted - slope * scores).mean(axis=0) / slope
    ridge = RidgeCV(len(rest) * _PENALTIES).fit(codes, rest)
    return weight, ridge.coef_.astype(np.float32)


def _held_out_recall(
    items: FloatArray, offsets: FloatArray, codes: FloatArray, asked: FloatArray, query_map: FloatArray
) -> float:
    """Share of the nearest held-out items that a start finds which has learned from the other pairs.

    ValueError if a held-out vector ranks the code of its own item no better than chance.
    """
    n = min(_N_MEASURED, len(items) // 5)
    is_held = np.zeros(len(items), bool)
    is_held[evenly_spaced(len(items), n)] = True
    learned = ~is_held
    weight, bias = _start(items[learned], offsets[learned], codes[learned], asked[learned], query_map)
    scores = (asked[is_held] @ weight + bias) @ codes[is_held].T
    own = np.diag(scores)[:, None]
    n_before = (scores < own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2
    ranks = n_before / (n - 1)  # by chance uniform in [0, 1]
    if (ranks.mean() - 0.5) * np.sqrt(12 * n) < _CHANCE:
        raise ValueError(
            "`y` must be the codes of the items of `X`, in their order. Got codes that do not belong to the vectors: "
            f"of {n} pairs that were held out, the vectors rank the code of their own item no better than chance. "
            "Pair them by the identifiers of the items."
        )
    wanted = asked[is_held] @ items[is_held].T - offsets[is_held]
    for values in (wanted, scores):
        np.fill_diagonal(values, -np.inf)
    nearest, found = (np.argsort(-values, axis=1)[:, :_N_NEAREST, None] for values in (wanted, scores))
    return float((nearest == found.swapaxes(1, 2)).any(axis=1).mean())


def _trained(
    metric: VectorMetric,
    X: FloatArray,
    queries: FloatArray | None,
    codes: FloatArray,
    moments: tuple[FloatArray, float],
    start: tuple[FloatArray, FloatArray],
    rng: np.random.RandomState,
) -> tuple[FloatArray, FloatArray]:
    """A^T and a, trained from a start, which is kept if held-out queries find no more by what is trained.

    They map samples minus the first of the moments, divided by the second one. The loop is that of EmbeddingHasher.
    """
    import torch

    from skhash.engine import Schedule, Trainer
    from skhash.engine.data import StackedArrays
    from skhash.engine.runtime import own_settings, seeded
    from skhash.vectors.queries import N_NEIGHBORS, HeldOutQueries, ItemTerms, PairsObjective, QueryEncoder, train

    asked, device = X if queries is None else queries, torch.device("cpu")
    order = rng.permutation(len(asked))
    chosen, learned = np.split(order, [min(_N_MEASURED, len(order) // 10)])
    own = chosen if queries is None else chosen[:0]
    held_out = HeldOutQueries(
        X, own, _N_STEPS, _N_STEPS // _N_EVALUATIONS, None if queries is None else queries[chosen]
    )
    if len(chosen) == 0 or len(held_out.others) <= N_NEIGHBORS:
        return start
    with own_settings(), seeded(0, device):  # restores the global generators; the initial weights are replaced
        encoder = QueryEncoder(X.shape[1], codes.shape[1], metric)
        encoder.hash.requires_grad_(False)  # the codes stay
        state = {"queries.weight": torch.from_numpy(start[0].T), "queries.bias": torch.from_numpy(start[1])}
        state |= {"mean": torch.from_numpy(moments[0]), "scale": torch.tensor(moments[1])}
        encoder.load_state_dict(encoder.state_dict() | state)
        terms = ItemTerms(torch.from_numpy(codes), torch.zeros(len(codes)))
        held_out.items = ItemTerms(terms.vectors[held_out.rows], terms.offsets[held_out.rows])
        held_out.best = held_out.measure(encoder), 0
        objective = PairsObjective(terms, learned, held_out.others, queries is None)
        samples = StackedArrays(np.asarray(X, np.float32), np.asarray(asked, np.float32))
        schedule = Schedule(_N_STEPS, len(samples), _LEARNING_RATE)  # an epoch is a step
        trainer = Trainer(encoder, objective, samples, None, schedule, rng, device)  # type: ignore[arg-type]
        kept = dict(state)
        train(trainer, held_out, lambda weights: kept.update({name: weights[name].clone() for name in state}))
    return kept["queries.weight"].numpy().T, kept["queries.bias"].numpy()


class QueryAdapter(BaseEstimator):
    """Queries of a new model for items whose codes an old one has made, so that no item is encoded again.

    An embedding model is replaced, and a store is full of codes of the old one. Embed a sample of the items, some
    thousand, with the new model, of any number of dimensions. The adapter learns from these vectors and the stored
    codes of the same items. Then it makes real queries for the codes of all items, from vectors of the new model.

    Parameters
    ----------
    metric : "cosine", "inner" or "euclidean", default="cosine"
        Which neighbors of the new vectors a search should find: those with the largest cosine or inner product, or with
        the smallest Euclidean distance. With "cosine" all vectors are divided by their norm.
    random_state : int, RandomState instance or None, default=None
        Draws the held-out queries and the batches of the training.

    Attributes
    ----------
    function_ : HashFunction
        The learned function.
    recall_ : float or None
        Share of the ten nearest vectors, among a fifth of the pairs that is held out, at most 500, which are among the
        first ten by their codes. The map that is measured has learned from the other pairs, and not been trained, which
        usually adds to it. Codes of another hasher, given as an array, only make it smaller. None with fewer than 100
        pairs.
    n_features_in_ : int
        Number of dimensions of the new model.

    See Also
    --------
    skhash.neighbors.HammingNeighbors.with_queries : An index of the same items, for the queries of an adapter.
    skhash.neighbors.order_shortlist : Takes an adapter as `hasher`, for the items that a store has returned.

    Notes
    -----
    An adapter is no hasher. It makes no codes of items: encode new items with the old model and its hasher. The codes
    of :meth:`transform` are those of queries, for a store that compares codes, and for `candidates` of an index.

    An adapter bridges the time until all items are encoded again: :ref:`new_model` says how much it finds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import EmbeddingHasher
    >>> from skhash.neighbors import HammingNeighbors
    >>> from skhash.vectors import QueryAdapter
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

    _parameter_constraints = {
        "metric": [StrOptions(set(VECTOR_METRICS))],
        "random_state": ["random_state"],
    }

    function_: AdapterFunction
    recall_: float | None
    n_features_in_: int
    feature_names_in_: Annotated[npt.NDArray[Any], Array("n_features", "O"), OPTIONAL]

    def __init__(
        self, *, metric: VectorMetric = "cosine", random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.metric = metric
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, hasher: Any, queries: Any = None) -> Self:
        """Learn queries from pairs of new vectors and codes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Vectors of the new model, of some of the items. A few thousand are enough.
        y : Codes, or array-like of shape (n_samples, ceil(nbits / 8)) or (n_samples, nbits), uint8
            Codes of the same items, as they are stored: packed, or their bits. Codes with ids, and a frame with an
            index, are paired with the rows of a frame X by name.
        hasher : estimator
            The fitted hasher that has made the codes, or a Pipeline that ends in one.
        queries : array-like of shape (n_queries, n_features), default=None
            Vectors of the new model of some of your queries, without codes, which train the adapter. It finds more
            if queries are not like items. None takes X.

        Returns
        -------
        self : object
            The fitted adapter.

        Raises
        ------
        ValueError
            If `X` or `y` is invalid, they do not fit each other or the hasher, or of 100 pairs or more the vectors tell
            no more about the codes than chance. The previous fit is kept.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash import LSHHasher
        >>> from skhash.vectors import QueryAdapter
        >>> rng = np.random.default_rng(0)
        >>> old = rng.normal(size=(100, 4))
        >>> hasher, new = LSHHasher(16, random_state=0).fit(old), old @ rng.normal(size=(4, 6))
        >>> QueryAdapter().fit(new, hasher.encode(old), hasher=hasher).n_features_in_
        6
        """
        check_has_real_queries(hasher)
        hasher = find_hasher(hasher)
        fingerprint = hasher.fingerprint_
        after = copy(self)
        check_columns(queries, names_of(X).columns, "`queries`", "X")
        X = in_order_of(y.ids if isinstance(y, Codes) else names_of(y).rows, X, "`X`", "y")
        X = check_values(after._checked(X, reset=True, ensure_min_samples=2), fit=True)
        of_items = Codes.of(y, int(hasher._n_features_out), name="y")
        if are_other(of_items.fingerprint, fingerprint):
            raise ValueError(
                f"`y` must be codes of `hasher`, with the fingerprint {fingerprint}. Got those of a hasher with "
                f"{of_items.fingerprint} instead."
            )
        if queries is not None:
            queries = check_values(after._checked(queries, reset=False))
        if len(of_items) != len(X):
            raise ValueError(
                f"`y` must have one code per sample. Got {len(of_items)} codes for {len(X)} samples instead."
            )
        codes = signs(of_items.bits()).astype(np.float32)
        is_unit, is_euclidean = self.metric == "cosine", self.metric == "euclidean"
        with self._environment():
            samples = read_samples(X, None, is_unit)
            mean = samples.mean(axis=0)
            scale = max(float(np.sqrt(np.mean((samples - mean) ** 2))), TINY)
            items = (samples - mean) / np.float32(scale)
            # inner products are those of vectors that are not centered
            subtracted = mean if is_euclidean else np.zeros_like(mean)
            own = asked = (samples - subtracted) / np.float32(scale)
            if queries is not None:
                asked = (read_samples(queries, None, is_unit) - subtracted) / np.float32(scale)
            offsets = np.square(items).sum(axis=1) / 2 if is_euclidean else np.zeros(len(items), np.float32)
            query_map, after.recall_ = _query_map(hasher.function_), None
            if len(items) >= _N_CHECKED:
                after.recall_ = _held_out_recall(items, offsets, codes, own, query_map)
            start = _start(items, offsets, codes, asked, query_map)
            rng = check_random_state(self.random_state)
            weight, bias = _trained(self.metric, X, queries, codes, (subtracted, scale), start, rng)
        after.function_ = AdapterFunction(
            mean,
            ((weight / np.float32(scale), (mean - subtracted) / np.float32(scale) @ weight + bias),),
            unit_norm=is_unit,
            spread=np.asarray(scale, np.float32),
            fingerprint=fingerprint,
        )
        self.__dict__ = after.__dict__  # in one step: if anything fails, the previous fit stays
        return self

    def project_queries(self, X: Any) -> npt.NDArray[np.floating]:
        """Real queries, which are compared with codes by their inner product with the signs of the bits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Vectors of the new model.

        Returns
        -------
        ndarray of shape (n_samples, nbits), float32
            Real queries. A query q scores an item ``q @ (2 * bits - 1)``.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the adapter is not fitted.
        ValueError
            If `X` does not match the vectors of the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash import LSHHasher
        >>> from skhash.vectors import QueryAdapter
        >>> rng = np.random.default_rng(0)
        >>> old = rng.normal(size=(100, 4))
        >>> hasher, new = LSHHasher(16, random_state=0).fit(old), old @ rng.normal(size=(4, 6))
        >>> adapter = QueryAdapter().fit(new, hasher.encode(old), hasher=hasher)
        >>> adapter.project_queries(new[:5]).shape
        (5, 16)
        """
        check_is_fitted(self)
        X = check_values(self._checked(X, reset=False))
        with self._environment():
            return check_activations(self.function_.queries(X), self)

    def transform(self, X: Any) -> npt.NDArray[np.uint8]:
        """Bits of queries, the signs of :meth:`project_queries`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Vectors of the new model.

        Returns
        -------
        ndarray of shape (n_samples, nbits), dtype uint8
            Bits, 0 or 1. :func:`skhash.codes.pack` makes the codes that a store takes.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the adapter is not fitted.
        ValueError
            If `X` does not match the vectors of the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash import LSHHasher
        >>> from skhash.vectors import QueryAdapter
        >>> X = np.random.default_rng(0).normal(size=(100, 4))
        >>> hasher = LSHHasher(16, random_state=0).fit(X)
        >>> adapter = QueryAdapter().fit(X, hasher.encode(X), hasher=hasher)
        >>> adapter.transform(X[:5]).shape
        (5, 16)
        """
        return threshold(self.project_queries(X))

    @property
    def fingerprint_(self) -> str:
        """Fingerprint of the hasher that made the codes, whose indexes and stores accept the adapter.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the adapter is not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash import LSHHasher
        >>> from skhash.vectors import QueryAdapter
        >>> X = np.random.default_rng(0).normal(size=(100, 4))
        >>> hasher = LSHHasher(16, random_state=0).fit(X)
        >>> adapter = QueryAdapter().fit(X, hasher.encode(X), hasher=hasher)
        >>> adapter.fingerprint_ == hasher.fingerprint_
        True
        """
        check_is_fitted(self)
        return self.function_.fingerprint

    @property
    def _n_features_out(self) -> int:
        return self.function_.nbits

    def _environment(self) -> AbstractContextManager[None]:
        """Context manager for learning and asking with one thread, since the rounding depends on their number."""
        return one_thread()

    def _checked(self, X: Any, **options: Any) -> npt.NDArray[np.floating]:
        order = "C" if options["reset"] else None  # the memory order changes rounding
        return validate_data(self, X, dtype=[np.float64, np.float32], order=order, **options)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
