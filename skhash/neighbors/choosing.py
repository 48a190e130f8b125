"""The shortest code that finds the nearest vectors of new queries, with confidence.

A way to search is a length with a kind of queries and of vectors. The numbers of candidates are tested as a fixed
sequence within each way (Angelopoulos et al., Learn then Test, 2021):

    reject "mean recall with c candidates < target" at level alpha / n_ways,   c = largest, ..., smallest,

until one is not rejected. So the probability that any accepted pair misses the target is at most alpha, however many
pairs are tried.
"""

import math
import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy.optimize import bisect
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import has_fit_parameter

from skhash._names import check_queries, names_of
from skhash._validation import (
    VECTOR_METRICS,
    VectorMetric,
    as_count,
    check_not_1d,
    check_not_masked,
    check_option,
    is_count,
)
from skhash.affinity import NeighborAffinity
from skhash.affinity.targets import as_targets, check_complete
from skhash.codes import Codes
from skhash.codes.bits import MAX_NBITS, memory_chunks
from skhash.codes.queries import Queries
from skhash.metrics.neighbor_recall import mean_of_at_most
from skhash.neighbors.hamming_neighbors import HammingNeighbors
from skhash.unwrap import codes_of, find_hasher, items_of, named_warnings, real_queries

_MULTIPLES = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)  # default numbers of candidates, as multiples of k
_MAX_QUERIES = 1000  # largest default number of queries
_N_LEARNED = 2  # smallest number of queries to learn from
Query = Literal["code", "real"]
#: how the vectors that are re-ranked are stored: as they are given, or rounded to 8 or 4 bits per feature
StoredVectors = Literal["float", "int8", "int4"]
_BITS = {"int8": 8, "int4": 4}
_LARGEST_BET = 0.75  # largest share of the capital that a value of 0 loses
_SMALLEST_MEAN = 1e-9


@dataclass(frozen=True)
class MeasuredCode:
    """Recall of one way to search with one number of candidates.

    Parameters
    ----------
    nbits : int
        Number of bits of a code.
    candidates : int
        Number of items that the search returns first.
    bytes_per_item : int
        Bytes of an item: its packed code and its factors, in memory, and `vector_bytes`.
    recall : float
        Mean share of the k nearest vectors that are found, over the queries.
    lower_bound : float
        One-sided bound of the recall of further queries, corrected for the number of ways to search.
    query : "code" or "real", default="code"
        What ranks the items.
    vectors : "float", "int8", "int4" or None, default=None
        The vectors that are re-ranked.
    vector_bytes : int, default=0
        Bytes of such a vector, which can be on a disk.

    Examples
    --------
    >>> from skhash.neighbors import MeasuredCode
    >>> MeasuredCode(64, 50, bytes_per_item=8, recall=0.93, lower_bound=0.91).recall
    0.93
    """

    nbits: int
    candidates: int
    bytes_per_item: int
    recall: float
    lower_bound: float
    query: Query = "code"
    vectors: StoredVectors | None = None
    vector_bytes: int = 0


@dataclass(frozen=True, eq=False)
class ChosenCode:
    """Length of codes and number of candidates that :func:`choose_code` chooses.

    Parameters
    ----------
    nbits : int
        Number of bits of a code.
    candidates : int
        Number of items that the search returns first, with enough of the nearest vectors among them.
    bytes_per_item : int
        Bytes of an item: its packed code and its factors, in memory, and `vector_bytes`.
    recall : float
        Mean recall of the held-out queries.
    interval : tuple of float
        One-sided interval of the recall: a lower bound that is at least the target, and 1.
    target_recall : float
        The target.
    k : int
        Number of nearest vectors.
    query : "code" or "real"
        What ranks the items: the codes of the queries, or their activations.
    rerank : "cosine", "euclidean", "inner" or None
        The distance by which the candidates will be ordered.
    vectors : "float", "int8", "int4" or None
        The vectors by which they will be ordered.
    vector_bytes : int
        Bytes of such a vector, which can be on a disk.
    table : tuple of MeasuredCode
        All measured values, by bits, queries, vectors and candidates. ``pandas.DataFrame(chosen.table)`` shows it.
    hasher : estimator
        The hasher of this length, fitted on the samples that are not queries.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash import LSHHasher
    >>> from skhash.neighbors import choose_code
    >>> X = np.random.default_rng(0).standard_normal((500, 8))
    >>> lsh = LSHHasher(random_state=0)
    >>> chosen = choose_code(lsh, X, nbits=(32, 64), random_state=0)
    >>> chosen.nbits, chosen.candidates, chosen.interval[0] >= 0.9
    (32, 100, True)
    >>> len(chosen.table)
    20
    """

    nbits: int
    candidates: int
    bytes_per_item: int
    recall: float
    interval: tuple[float, float]
    target_recall: float
    k: int
    query: Query
    rerank: VectorMetric | None
    vectors: StoredVectors | None
    vector_bytes: int
    table: tuple[MeasuredCode, ...] = field(repr=False)
    hasher: Any = field(repr=False)


def choose_code(
    hasher: Any,
    X: Any,
    y: Any = None,
    *,
    target_recall: float = 0.9,
    k: int = 10,
    nbits: int | Sequence[int] = (32, 64, 128, 256, 512),
    candidates: int | Sequence[int] | None = None,
    query: Query | Sequence[Query] = "code",
    rerank: VectorMetric | None = None,
    vectors: StoredVectors | Sequence[StoredVectors] = "float",
    metric: VectorMetric | None = None,
    queries: Any = None,
    n_queries: int | None = None,
    confidence: float = 0.95,
    random_state: Any = None,
    verbose: int = 0,
) -> ChosenCode:
    """Choose the fewest bytes, and then the fewest candidates, that find the nearest vectors of new queries.

    The hasher is fitted once for each length, on the samples that are not queries. Hashers whose prefixes are as good
    as fits are fitted once: LSH, PCA, StructHash and CGHash, see :ref:`prefixes`. The recall is the share of the `k`
    nearest vectors that are among the first `candidates` items of a search by codes, in expectation over the order of
    ties. Take `candidates` items from the search, or let `rerank` of :class:`~skhash.neighbors.HammingNeighbors` sort
    them. Several kinds of queries and vectors share the fits.

    Parameters
    ----------
    hasher : estimator
        A hasher, or a Pipeline that ends in one. It is cloned for each fit.
    X : array-like of shape (n_samples, n_features)
        Vectors. Some are held out as queries; the others are the items.
    y : array-like of shape (n_samples, ...), default=None
        Targets, for a hasher that learns from them.
    target_recall : float, default=0.9
        Recall to reach, in (0, 1).
    k : int, default=10
        Number of nearest vectors of a query.
    nbits : int or sequence of int, default=(32, 64, 128, 256, 512)
        Lengths to choose from. Each one costs a fit, from the longest one on, unless a prefix is as good.
    candidates : int or sequence of int, default=None
        Numbers of candidates to choose from, at least `k`. None takes ten multiples
        of `k`, from 1 to 20.
    query : "code", "real" or sequence of them, default="code"
        Rank by the codes of the queries, or by their activations, as in :class:`~skhash.neighbors.HammingNeighbors`.
        ``("code", "real")`` chooses from both.
    rerank : "cosine", "euclidean", "inner" or None, default=None
        The distance that will rank the candidates. The vectors that it needs count as bytes.
    vectors : "float", "int8", "int4" or sequence of them, default="float"
        How these vectors are stored: as in X, or each feature rounded to 256 or 16 values between its smallest and
        its largest one, as in the scalar quantizers of FAISS. A neighbor then counts if it is also one of the `k`
        nearest rounded vectors, so a search finds at least as many.
    metric : "cosine", "euclidean", "inner" or None, default=None
        The distance that decides which vectors are the nearest. None takes `rerank`, or else the attribute `metric` of
        the hasher, or else "euclidean".
    queries : array-like of shape (n_queries, n_features), default=None
        Queries of your users, if they differ from the items. Then all samples of X are items. If the hasher learns
        from queries, as :class:`~skhash.EmbeddingHasher`, half of them go to its fit, and the
        others choose.
    n_queries : int, default=None
        Number of samples of X that are held out as queries. None takes a fifth, at most 1,000.
    confidence : float, default=0.95
        Minimum probability that the choice reaches the target for new queries like these.
    random_state : int, RandomState instance or None, default=None
        Draws the samples that are queries. The hasher has a `random_state` of its own.
    verbose : int, default=0
        Whether to print a line before each fit, one after it, and one when its recall is measured. Callbacks of the
        hasher, such as the ``ProgressBar`` of scikit-learn, show the epochs of each fit.

    Returns
    -------
    ChosenCode
        The choice, with a table of all measured values.

    Raises
    ------
    ValueError
        If a parameter is invalid, or no choice reaches the target. The message then has the best recall of each length.

    See Also
    --------
    skhash.displays.RecallByCandidatesDisplay : Plot of the table.

    Notes
    -----
    The target holds with `confidence` although many pairs are tried. The lengths, each with each kind of queries and of
    vectors, share the error equally. Within one of them, candidates are tried from the largest number down. The
    bound of each number is that of Waudby-Smith and Ramdas, which holds for any distribution of recalls. It is about
    the mean over all further queries; the mean of a few queries varies around it.

    The recall is that among as many items as X has. In a larger database more items come before the true neighbors:
    measure with as many samples as you will search.

    References
    ----------
    Waudby-Smith, Ramdas: Estimating means of bounded random variables by betting. JRSS B 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash.neighbors import choose_code
    >>> X, _ = load_digits(return_X_y=True)
    >>> chosen = choose_code(
    ...     ITQHasher(random_state=0), X, nbits=(16, 32, 64), random_state=0
    ... )
    >>> chosen.nbits, chosen.candidates, chosen.bytes_per_item
    (16, 150, 2)
    >>> chosen.interval[0] >= 0.9
    True
    """
    lengths = _checked_lengths(nbits)
    k = as_count(k, "k")
    _check_options(target_recall, confidence, rerank, metric)
    kinds, storages = _checked_ways(query, vectors, rerank)
    name = _name_of_nbits(hasher)
    near = metric or rerank or getattr(find_hasher(hasher), "metric", "euclidean")
    held_out = _hold_out(X, queries, n_queries, k, check_random_state(random_state), _learns_from_queries(hasher))
    numbers = _checked_candidates(candidates, k, len(held_out.item_vectors))
    if y is not None:
        y = as_targets(y)
        check_complete(y)  # also targets of queries, so that an error does not depend on the random draw
        check_consistent_length(X, y)
    learned_from = held_out.items, None if y is None else y[held_out.item_indices]
    fit_params = _fit_params(hasher, *learned_from, held_out.learned)
    say = partial(print, flush=True) if verbose else str  # str does nothing
    n_items = len(held_out.item_vectors)
    say(f"[choose_code] find the {k} nearest of {n_items:,} items for {len(held_out.query_vectors):,} queries")
    truths = {kind: _true_neighbors(held_out, k, near, _BITS.get(kind)) for kind in storages}
    hashers: dict[int, Any] = {}
    recalls: dict[_Way, npt.NDArray[np.float64]] = {}
    sizes: dict[_Way, tuple[int, int]] = {}
    for length, fitted, told in _fit_lengths(hasher, name, lengths, learned_from, fit_params, n_items, verbose):
        hashers[length], start = fitted, time.perf_counter()
        say(told)
        codes = items_of(fitted, held_out.items)
        told_recalls = []
        for kind in kinds:
            measured = _recalls(fitted, codes, held_out, truths, k, numbers, kind)
            for storage, values in measured.items():
                recalls[_Way(length, kind, storage)] = values
                sizes[_Way(length, kind, storage)] = _bytes_per_item(codes, held_out, storage)
            recall = max(float(values[-1].mean()) for values in measured.values())
            told_recalls.append(f"{recall:.3f}{' by real queries' if kind == 'real' and len(kinds) > 1 else ''}")
        found = f"recall {' and '.join(told_recalls)} with {numbers[-1]} candidates"
        say(f"{told.partition(':')[0]}: measured in {time.perf_counter() - start:.1f} s, {found}")
    table = _measured_table(dict(sorted(recalls.items(), key=lambda item: item[0].nbits)), numbers, sizes, confidence)
    best = _smallest_code(table, target_recall)
    if best is None:
        raise ValueError(_unreachable(table, target_recall))
    return _chosen(best, target_recall, k, rerank, table, hashers[best.nbits])


def _chosen(
    best: MeasuredCode,
    target_recall: float,
    k: int,
    rerank: VectorMetric | None,
    table: tuple[MeasuredCode, ...],
    hasher: Any,
) -> ChosenCode:
    return ChosenCode(
        best.nbits,
        best.candidates,
        best.bytes_per_item,
        best.recall,
        (best.lower_bound, 1.0),
        target_recall,
        k,
        best.query,
        rerank,
        best.vectors,
        best.vector_bytes,
        table,
        hasher,
    )


def _fit_lengths(
    hasher: Any,
    name: str,
    lengths: Sequence[int],
    learned_from: tuple[Any, Any],
    fit_params: dict[str, Any],
    n_items: int,
    verbose: int,
) -> Iterator[tuple[int, Any, str]]:
    """Each length from the longest one on, a fitted hasher, and how long it took."""
    longest = None
    for place, length in enumerate(reversed(lengths), 1):
        head = f"[choose_code {place}/{len(lengths)}] {length} bits"
        start = time.perf_counter()
        if longest is not None and _prefix_is_as_good(longest, n_items):
            fitted, way = _prefix(longest, length), "cut"
        else:
            if verbose:
                print(f"{head}: fit on {n_items:,} items", flush=True)
            fitted, way = clone(hasher).set_params(**{name: length}), "fitted"
            with named_warnings(fitted):
                fitted.fit(*learned_from, **fit_params)
            longest = fitted
        yield length, fitted, f"{head}: {way} in {time.perf_counter() - start:.1f} s"


def _prefix_is_as_good(estimator: Any, n_samples: int) -> bool:
    """Whether the hasher of a fitted estimator has prefixes that are as good as fits."""
    ask = getattr(find_hasher(estimator), "_prefix_is_as_good", None)  # other hashers have none
    return ask is not None and ask(n_samples)


def _prefix(estimator: Any, nbits: int) -> Any:
    """Prefix of a fitted hasher, or a Pipeline that ends in it."""
    if not hasattr(estimator, "steps"):
        return estimator.prefix(nbits)
    shorter = copy(estimator)
    *earlier, (name, last) = estimator.steps
    shorter.steps = [*earlier, (name, _prefix(last, nbits))]
    return shorter


def _learns_from_queries(estimator: Any) -> bool:
    """Whether a fit of the hasher of an estimator takes queries."""
    return bool(has_fit_parameter(find_hasher(estimator), "queries"))


def _fit_params(estimator: Any, items: Any, y: Any, queries: Any, prefix: str = "") -> dict[str, Any]:
    """Argument of a fit with these queries, which the earlier steps of a Pipeline transform."""
    if queries is None:
        return {}
    if not hasattr(estimator, "steps"):
        return {f"{prefix}queries": queries}
    if len(estimator.steps) > 1:
        earlier = clone(estimator[:-1])
        items = earlier.fit_transform(items, y)
        queries = earlier.transform(queries)
    name, last = estimator.steps[-1]
    return _fit_params(last, items, y, queries, f"{prefix}{name}__")


# --- measure


class _Way(NamedTuple):
    """A way to search."""

    nbits: int
    query: Query
    vectors: StoredVectors | None


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Queries and items, as samples for the hashers and as vectors, whose nearest ones are the true neighbors."""

    queries: Any
    query_vectors: npt.NDArray[Any]  # of shape (n_queries, n_features)
    items: Any
    item_vectors: npt.NDArray[Any]  # of shape (n_items, n_features)
    item_indices: npt.NDArray[np.int64]  # of the items among the samples
    learned: Any = None  # queries that a hasher learns from


def _true_neighbors(held_out: _HeldOut, k: int, metric: Any, bits: int | None = None) -> npt.NDArray[np.int64]:
    """Places of the nearest vectors of each query; with `bits`, -1 for those that rounding moves behind others."""
    queries, items = held_out.query_vectors, held_out.item_vectors
    nearest = _nearest(queries, items, k, metric)
    if bits is None:
        return nearest
    rounded = _nearest(queries, _rounded(items, bits), k, metric)
    return np.where((nearest[:, :, None] == rounded[:, None]).any(axis=2), nearest, -1)


def _nearest(queries: npt.NDArray[Any], items: npt.NDArray[Any], k: int, metric: Any) -> npt.NDArray[np.int64]:
    """Places of the k nearest items of each query, ascending, and of others as near as the last; -1 fills the rows."""
    affinity = NeighborAffinity(k, metric=metric)
    parts = memory_chunks(len(queries), len(items))
    found = [np.flatnonzero(levels) for part in parts for levels in affinity(queries[part], items)]
    places = np.full((len(queries), max(map(len, found))), -1)
    for row, near in zip(places, found, strict=True):
        row[: len(near)] = near
    return places


def _rounded(vectors: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
    """Vectors whose features are rounded to equally spaced values between their smallest and largest ones."""
    low, high = vectors.min(axis=0), vectors.max(axis=0)
    step = np.where(high > low, high - low, 1) / (2**bits - 1)
    return np.rint((vectors - low) / step) * step + low  # type: ignore[no-any-return]


def _recalls(
    hasher: Any,
    codes: Codes,
    held_out: _HeldOut,
    truths: dict[StoredVectors | None, npt.NDArray[np.int64]],
    k: int,
    candidates: Sequence[int],
    query: Query,
) -> dict[StoredVectors | None, npt.NDArray[np.float64]]:
    """Recall of each query, of shape (n_candidates, n_queries), in expectation over the order of ties.

    The search returns the most candidates. It says how many items share the distance of the last one, and the distance
    of a true neighbor is known, so that no other items are counted.
    """
    asked: Queries
    if query == "real":
        asked = real_queries(hasher, held_out.queries, codes)
    else:
        weights = getattr(find_hasher(hasher), "bit_weights_", None)
        asked = Queries.of(codes_of(hasher, held_out.queries), weights)
    blocks = codes.blocks()
    found = asked.nearest(blocks, candidates[-1])
    last = found.distances[:, -1:]
    recalls = {}
    for kind, truth in truths.items():
        of_true = np.empty(truth.shape)
        for part in memory_chunks(len(truth), found.indices.shape[1] * truth.shape[1]):
            is_true = found.indices[part, :, None] == truth[part, None]
            listed = np.take_along_axis(found.distances[part], is_true.argmax(axis=1), axis=1)
            others = np.maximum(asked[part].to_items(blocks, np.maximum(truth[part], 0)), last[part])
            of_true[part] = np.where(is_true.any(axis=1), listed, others)
        of_true[truth < 0] = np.inf
        values = []
        for n in candidates:
            edge = found.distances[:, n - 1, None]
            n_before = (found.distances < edge).sum(axis=1)
            n_equal = np.where(edge[:, 0] == last[:, 0], found.n_ties, (found.distances == edge).sum(axis=1))
            share = (n - n_before) / n_equal  # of the items at this distance, any of which may come first
            nearer, equal = (of_true < edge).sum(axis=1), (of_true == edge).sum(axis=1)
            hits = nearer + share * equal
            for row in np.flatnonzero(nearer + equal > k):  # copies: any k of them are all that can be found
                ties = np.array([n_before[row], n_equal[row]]), np.array([nearer[row], equal[row]])
                hits[row] = mean_of_at_most(*ties, n, k)
            values.append(hits / k)
        recalls[kind] = np.stack(values)
    return recalls


def _bytes_per_item(codes: Codes, held_out: _HeldOut, vectors: StoredVectors | None) -> tuple[int, int]:
    """Bytes of the packed code of an item and its factors, and of the vector that is re-ranked."""
    size, first = codes.bytes_per_item, held_out.item_vectors[:1]
    if vectors is None:
        return size, 0
    return size, first.nbytes if vectors == "float" else -(-first.size * _BITS[vectors] // 8)


def _measured_table(
    values: dict[_Way, npt.NDArray[np.float64]],
    candidates: Sequence[int],
    sizes: dict[_Way, tuple[int, int]],
    confidence: float,
) -> tuple[MeasuredCode, ...]:
    """Recall and lower bound of each way to search and number of candidates, in ascending order.

    `values` are recalls of shape (n_candidates, n_queries). All ways share the error equally.
    """
    each = 1 - (1 - confidence) / len(values)
    return tuple(
        MeasuredCode(
            way.nbits, n, sum(sizes[way]), float(recalls.mean()), _lower_bound(recalls, each), *way[1:], sizes[way][1]
        )
        for way, by_candidates in values.items()
        for n, recalls in zip(candidates, by_candidates, strict=True)
    )


def _by_way(table: Sequence[MeasuredCode]) -> dict[_Way, list[MeasuredCode]]:
    """Rows of each way to search."""
    rows: dict[_Way, list[MeasuredCode]] = {}
    for code in table:
        rows.setdefault(_Way(code.nbits, code.query, code.vectors), []).append(code)
    return rows


def _smallest_code(table: Sequence[MeasuredCode], target_recall: float) -> MeasuredCode | None:
    """Code with the fewest bytes, then the fewest candidates, whose bound reaches a target; None if there is none."""
    reached = []
    for rows in _by_way(table).values():
        for code in sorted(rows, key=lambda code: -code.candidates):
            if code.lower_bound < target_recall:
                break
            reached.append(code)
    return min(
        reached, key=lambda code: (code.bytes_per_item, code.candidates, code.nbits, -code.lower_bound), default=None
    )


def _lower_bound(values: npt.NDArray[np.float64], confidence: float) -> float:
    r"""Lower bound, in [0, 1], of the mean of a distribution, from independent draws of shape (n,) in random order.

    It bets against each mean m (Waudby-Smith and Ramdas, JRSS B 2024):

        K_t(m) = prod_{i<=t} [1 + lambda_i (x_i - m)]
        lambda_i = min(sqrt(2 ln(1 / alpha) / (n s^2_{i-1})), c / m),   c = 3/4

    s^2 is a running variance, which starts at 1/4. If the mean is at most m, K_t(m) exceeds 1 / alpha at any t with a
    probability of at most alpha (Ville). So the smallest m whose K_t(m) stays below is a lower bound with confidence
    1 - alpha, for any distribution in [0, 1] and any n. A normal bound is too high here: where most recalls are 1 and
    few are low, samples without the few have a high mean and a small variance.
    """
    threshold = -math.log1p(-confidence)
    n = len(values)
    count = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(values)) / (count + 1)
    variances = (0.25 + np.cumsum(np.square(values - means))) / (count + 1)
    bets = np.sqrt(2 * threshold / (n * np.concatenate([[0.25], variances[:-1]])))

    def excess(mean: float) -> float:
        """Logarithm of the largest capital over 1 / alpha, which falls with the mean."""
        growth = np.log1p(np.minimum(bets, _LARGEST_BET / mean) * (values - mean))
        return float(np.cumsum(growth).max()) - threshold

    return float(bisect(excess, _SMALLEST_MEAN, 1.0, xtol=1e-7)) if excess(_SMALLEST_MEAN) > 0 else 0.0


def _unreachable(table: Sequence[MeasuredCode], target_recall: float) -> str:
    """Message that no code reaches the target, with the best recall of each length."""
    best = max(table, key=lambda code: code.lower_bound)
    by_length: dict[int, float] = {}
    for (nbits, *_), rows in _by_way(table).items():
        by_length[nbits] = max(by_length.get(nbits, 0.0), rows[-1].recall)
    listed = ", ".join(f"{recall:.3f} with {nbits} bits" for nbits, recall in by_length.items())
    if max(code.recall for code in table) >= target_recall:
        remedy = "The bound is too low for so few queries: pass more `n_queries` or `queries`."
    elif all(code.query == "code" for code in table):
        remedy = "Pass longer `nbits`, more `candidates`, or query='real'."
    else:
        remedy = "Pass longer `nbits` or more `candidates`."
    return (
        f"`target_recall` must be at most {best.lower_bound:.3f}, the best lower bound found. Got {target_recall} "
        f"instead. The recalls with {table[-1].candidates} candidates are {listed}. {remedy}"
    )


# --- hold out queries


def _hold_out(X: Any, queries: Any, n_queries: Any, k: int, rng: np.random.RandomState, learns: bool) -> _HeldOut:
    """Queries in random order, and the items: the samples that are not queries.

    If a hasher `learns` from given queries, half of them are for it.
    """
    check_not_masked(X, "X")
    check_not_1d(X)
    vectors = check_array(X, input_name="X")
    if queries is not None:
        if n_queries is not None:
            raise ValueError(f"`n_queries` must be None with given `queries`. Got {n_queries!r} instead.")
        query_vectors = check_queries(queries, vectors.shape[1], names_of(X).columns)
        order, learned = rng.permutation(len(query_vectors)), None
        if learns and len(order) >= 2 * _N_LEARNED:
            half, order = np.split(order, [len(order) // 2])
            learned = _safe_indexing(queries, half)
        measured = _safe_indexing(queries, order), query_vectors[order]
        held_out = _HeldOut(*measured, X, vectors, np.arange(len(vectors)), learned)
    else:
        n = min(len(vectors) // 5, _MAX_QUERIES) if n_queries is None else n_queries
        what = f"None or an int from 1 to {len(vectors) - 1}, so that items are left"
        n = as_count(n, "n_queries", what, largest=len(vectors) - 1, got=f" with {len(vectors)} samples")
        order = rng.permutation(len(vectors))
        chosen, rest = order[:n], np.sort(order[n:])
        held_out = _HeldOut(_safe_indexing(X, chosen), vectors[chosen], _safe_indexing(X, rest), vectors[rest], rest)
    if k > len(held_out.item_vectors):
        raise ValueError(f"`k` must be at most {len(held_out.item_vectors)}, the number of items. Got {k} instead.")
    return held_out


# --- validate


def _check_options(target_recall: Any, confidence: Any, rerank: Any, metric: Any) -> None:
    """Raise ValueError for invalid options."""
    for name, share in {"target_recall": target_recall, "confidence": confidence}.items():
        if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share < 1:
            raise ValueError(f"`{name}` must be a number in (0, 1). Got {share!r} instead.")
    for name, distance in {"rerank": rerank, "metric": metric}.items():
        if distance is not None:
            check_option(name, distance, VECTOR_METRICS)
    if None not in (rerank, metric) and rerank != metric:
        raise ValueError(
            f"`metric` must be None or equal to `rerank`, which decides what is found. Got {metric!r} and {rerank!r}."
        )


def _checked_ways(query: Any, vectors: Any, rerank: Any) -> tuple[list[Any], list[Any]]:
    """Kinds of queries, and of vectors that are re-ranked: None if there are no such vectors."""
    kinds, storages = (
        _checked_kinds(name, given, get_args(allowed))
        for name, given, allowed in (("query", query, Query), ("vectors", vectors, StoredVectors))
    )
    if rerank is not None:
        return kinds, storages
    if storages != ["float"]:
        raise ValueError(f"`vectors` must be 'float' unless `rerank` is a distance. Got {vectors!r} instead.")
    return kinds, [None]


def _checked_kinds(name: str, given: Any, allowed: tuple[Any, ...]) -> list[Any]:
    """One or several allowed values of an option, in the order of these."""
    kinds = given if isinstance(given, list | tuple) and given else [given]
    for kind in kinds:
        check_option(name, kind, allowed)
    return [kind for kind in allowed if kind in kinds]


def _checked_lengths(nbits: Any) -> list[int]:
    """Numbers of bits, ascending."""
    lengths = [nbits] if is_count(nbits) else nbits
    if not _are_counts(lengths, MAX_NBITS):
        raise ValueError(f"`nbits` must be an int from 1 to {MAX_NBITS}, or several. Got {nbits!r} instead.")
    return sorted(set(map(int, lengths)))


def _checked_candidates(candidates: Any, k: int, n_items: int) -> list[int]:
    """Numbers of candidates, ascending."""
    if candidates is None:
        return [k * multiple for multiple in _MULTIPLES if k * multiple <= n_items]
    numbers = [candidates] if is_count(candidates) else candidates
    if not _are_counts(numbers, n_items) or min(numbers) < k:
        raise ValueError(
            f"`candidates` must be None, an int from k={k} to {n_items}, the number of items, or several. "
            f"Got {candidates!r} instead."
        )
    return sorted(set(map(int, numbers)))


def _are_counts(values: Any, largest: int) -> bool:
    """Whether values are a sequence of at least one int from 1 to `largest`."""
    is_sequence = isinstance(values, Sequence | np.ndarray) and np.ndim(values) == 1 and len(values) > 0
    return is_sequence and all(is_count(value, largest) for value in values)


def _name_of_nbits(hasher: Any) -> str:
    """Name of the parameter `nbits` of a hasher, or of the last step of a Pipeline."""
    prefix, last = "", hasher
    while hasattr(last, "steps"):
        prefix += f"{last.steps[-1][0]}__"
        last = last.steps[-1][1]
    is_other = isinstance(last, type | HammingNeighbors) or not hasattr(last, "get_params")
    if is_other or "nbits" not in last.get_params(deep=False):
        raise ValueError(
            "`hasher` must be a hasher with the parameter `nbits`, or a Pipeline that ends in one: each length is "
            f"fitted. Got {last!r} instead."
        )
    return f"{prefix}nbits"
