r"""QueryAdapter: vectors of a new model as queries, for items that have codes of an old one.

Items have codes b of -1 and 1, which a hasher has made from vectors of the old model. Of some items the vectors x of
the new model are known, too. The score of a query q of the new model with an item is

    score(q, b) = <A q + a, b>

so A q + a is a real query for the codes, at any number of dimensions. The start is A = W R: W is the map of queries of
the hasher if that is linear, else the identity. R has orthonormal rows or columns, and maps the vectors x to the
decoded codes W^T b best, both centered (orthogonal Procrustes). a is the ridge regression, on the codes, of what the
scores miss of the similarities of an item, in the mean over the queries; for Euclidean distances this is the norm.

Then A and a are trained by the loss of :mod:`skhash.hashers.deep.embedding`: queries rank the items by their score, as
the new vectors do. Held-out queries decide whether that is better than the start.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import svd
from sklearn.utils import check_random_state

from skhash._compat import StrOptions, fit_context
from skhash._validation import VECTOR_METRICS, Array, VectorMetric, check_values, evenly_spaced
from skhash.base import BaseHasher
from skhash.codes import Codes, signs
from skhash.functions import DenseFunction, LinearFunction
from skhash.functions.linear import TINY, read_samples
from skhash.functions.reconstruction import ReconstructionFunction
from skhash.unwrap import check_has_real_queries, find_hasher

_PENALTIES = 10.0 ** np.arange(-3, 3)  # of the ridge regression, per pair
_N_QUERIES = 256  # of a batch
_N_ITEMS = 2048
_N_STEPS = 200
_N_EVALUATIONS = 10
_N_MEASURED = 500  # largest number of queries of a measurement
_LEARNING_RATE = 0.02  # the mean square of A is 1 at the start
_TEMPERATURE = 0.25
_N_NEIGHBORS = 10

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class AdapterFunction(DenseFunction):
    """A `DenseFunction` of queries, with the fingerprint of the hasher that has made the codes of the items.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.neighbors.query_adapter import AdapterFunction
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


@dataclass(frozen=True)
class Pairs:
    """Centered and scaled vectors of items (n, n_features) with their codes of -1 and 1, and queries for training.

    The similarity of a query q is ``(q + center) @ item - offset``. The queries may be the items themselves.
    """

    items: FloatArray
    offsets: FloatArray
    codes: FloatArray
    queries: FloatArray
    are_queries: bool
    center: FloatArray

    def similarities(self, queries: FloatArray) -> FloatArray:
        """Similarities (n_queries, n) of centered queries."""
        return np.asarray((queries + self.center) @ self.items.T - self.offsets, np.float32)


def _query_map(function: Any) -> FloatArray:
    """Map (n_features, nbits) of the real queries of a function; the identity if they are not linear."""
    if isinstance(function, ReconstructionFunction):
        return function.query_weight
    if isinstance(function, LinearFunction):
        return np.asarray(function.projection, np.float32)
    if isinstance(function, DenseFunction) and len(function.layers) == 1:
        weight: FloatArray = (function.query_layer or function.layers[0])[0]
        return weight
    return np.eye(function.nbits, dtype=np.float32)


def _start(pairs: Pairs, query_map: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A^T and a, from an orthogonal map of the vectors to the decoded codes, and a ridge regression of the rest."""
    from sklearn.linear_model import RidgeCV  # with much of scikit-learn, which a search does not need

    decoded = pairs.codes @ query_map.T
    left, _, right = svd(pairs.items.T @ (decoded - decoded.mean(axis=0)), full_matrices=False)
    weight = left @ right @ query_map
    weight /= max(float(np.sqrt(np.mean(weight**2))), TINY)
    queries = pairs.queries[evenly_spaced(len(pairs.queries), _N_MEASURED)]
    wanted, scores = pairs.similarities(queries), (queries + pairs.center) @ weight @ pairs.codes.T
    for values in (wanted, scores):
        values -= values.mean(axis=1, keepdims=True)
    slope = max(float((wanted * scores).sum() / max((scores**2).sum(), TINY)), TINY)
    rest = (wanted - slope * scores).mean(axis=0) / slope
    ridge = RidgeCV(len(rest) * _PENALTIES).fit(pairs.codes, rest)
    return weight, ridge.coef_.astype(np.float32)


def _trained(
    pairs: Pairs, weight: FloatArray, bias: FloatArray, rng: np.random.RandomState
) -> tuple[FloatArray, FloatArray]:
    """A^T and a, trained from a start, which is kept if held-out queries find no more by what is trained."""
    import torch

    from skhash.engine.runtime import own_settings
    from skhash.hashers.deep.query_encoder import neighbor_loss

    order = rng.permutation(len(pairs.queries))
    n_held_out = min(_N_MEASURED, len(order) // 10)
    held_out, learned = order[:n_held_out], order[n_held_out:]
    others = np.setdiff1d(np.arange(len(pairs.items)), held_out) if pairs.are_queries else np.arange(len(pairs.items))
    if n_held_out == 0 or len(others) <= _N_NEIGHBORS:
        return weight, bias
    with own_settings():
        items, codes, queries, center, offsets = map(
            torch.from_numpy, (pairs.items, pairs.codes, pairs.queries, pairs.center, pairs.offsets)
        )
        parameters = [torch.tensor(weight, requires_grad=True), torch.tensor(bias, requires_grad=True)]
        optimizer = torch.optim.Adam(parameters, lr=_LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _N_STEPS)

        def compare(asked: Any, found: Any) -> tuple[torch.Tensor, torch.Tensor]:
            shifted = queries[asked] + center
            scores = (shifted @ parameters[0] + parameters[1]) @ codes[found].T
            return shifted @ items[found].T - offsets[found], scores

        @torch.no_grad()
        def recall() -> float:
            wanted, found = (values.topk(_N_NEIGHBORS, 1).indices for values in compare(held_out, others))
            return float((wanted[:, :, None] == found[:, None]).any(2).double().mean())

        best, kept = recall(), (weight, bias)
        for step in range(1, _N_STEPS + 1):
            asked = learned[rng.permutation(len(learned))[:_N_QUERIES]]
            found = others[rng.permutation(len(others))[:_N_ITEMS]]
            found = np.setdiff1d(found, asked) if pairs.are_queries else found
            optimizer.zero_grad()
            (neighbor_loss(*compare(asked, found), _TEMPERATURE) / len(asked)).backward()
            optimizer.step()
            schedule.step()
            if step % (_N_STEPS // _N_EVALUATIONS) == 0 and (value := recall()) > best:
                best, kept = value, (parameters[0].detach().numpy().copy(), parameters[1].detach().numpy().copy())
    return kept


class QueryAdapter(BaseHasher):
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
    n_features_in_ : int
        Number of dimensions of the new model.

    See Also
    --------
    HammingNeighbors.with_queries : An index of the same items, for the queries of an adapter.
    order_shortlist : Takes an adapter as `hasher`, for the items that a store has returned.

    Notes
    -----
    `fingerprint_` is that of the hasher that made the codes, so that its stores and indexes accept the adapter.
    `transform` and `encode` return codes of queries, for a store that compares codes. An adapter makes no codes of
    items: encode new items with the old model and its hasher.

    An adapter bridges the time until all items are encoded again: :ref:`new_model` says how much it finds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import EmbeddingHasher
    >>> from skhash.neighbors import HammingNeighbors, QueryAdapter
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
    _encodes_items = False

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
        y : array-like of shape (n_samples, ceil(nbits / 8)) or (n_samples, nbits), uint8
            Codes of the same items, as they are stored: packed, or their bits.
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
            If `X` or `y` is invalid, or they do not fit each other or the hasher. The previous fit is kept.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash import LSHHasher
        >>> from skhash.neighbors import QueryAdapter
        >>> rng = np.random.default_rng(0)
        >>> old = rng.normal(size=(100, 4))
        >>> hasher, new = LSHHasher(16, random_state=0).fit(old), old @ rng.normal(size=(4, 6))
        >>> QueryAdapter().fit(new, hasher.encode(old), hasher=hasher).n_features_in_
        6
        """
        check_has_real_queries(hasher)
        hasher = find_hasher(hasher)
        fingerprint = hasher.fingerprint_
        with self._restored_on_failure():
            X = check_values(self._check_input(X, reset=True, ensure_min_samples=2), fit=True)
            codes_of_y = Codes.of(y, int(hasher._n_features_out), name="y")
            if queries is not None:
                queries = check_values(self._check_input(queries, reset=False))
            if len(codes_of_y) != len(X):
                raise ValueError(
                    f"`y` must have one code per sample. Got {len(codes_of_y)} codes for {len(X)} samples instead."
                )
            self.affinity_ = self.database_ = None
            codes = signs(codes_of_y.bits()).astype(np.float32)
            with self._environment():
                self.function_ = self._learn_function(X, queries, codes, hasher, fingerprint)
        return self

    def _learn_function(
        self, X: Any, queries: Any, codes: FloatArray, hasher: Any, fingerprint: str
    ) -> AdapterFunction:
        """Function of queries, from vectors and their codes of -1 and 1."""
        is_unit = self.metric == "cosine"
        samples = read_samples(X, None, is_unit)
        mean = samples.mean(axis=0)
        scale = max(float(np.sqrt(np.mean((samples - mean) ** 2))), TINY)
        items = (samples - mean) / np.float32(scale)
        asked = None if queries is None else (read_samples(queries, None, is_unit) - mean) / np.float32(scale)
        # inner products are those of vectors that are not centered
        center = np.zeros_like(mean) if self.metric == "euclidean" else mean / np.float32(scale)
        offsets = np.square(items).sum(axis=1) / 2 if self.metric == "euclidean" else np.zeros(len(items), np.float32)
        pairs = Pairs(items, offsets, codes, items if asked is None else asked, asked is None, center)
        weight, bias = _trained(
            pairs, *_start(pairs, _query_map(hasher.function_)), check_random_state(self.random_state)
        )
        return AdapterFunction(
            mean,
            ((weight / np.float32(scale), center @ weight + bias),),
            unit_norm=is_unit,
            spread=np.asarray(scale, np.float32),
            fingerprint=fingerprint,
        )

    def prefix(self, nbits: int) -> Self:
        """Not for adapters: fit one to the first bits of the codes.

        Parameters
        ----------
        nbits : int
            Number of bits.

        Raises
        ------
        ValueError
            Always.

        Examples
        --------
        >>> from skhash.neighbors import QueryAdapter
        >>> QueryAdapter().prefix(8)
        Traceback (most recent call last):
        ValueError: An adapter has the bits of its codes. Fit another one with ...
        """
        raise ValueError(
            f"An adapter has the bits of its codes. Fit another one with hasher.prefix({nbits}) and its codes."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
