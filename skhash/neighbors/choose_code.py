"""The shortest code that finds the nearest vectors of new queries, with confidence.

The pairs of lengths and candidates are tested as a fixed sequence within each length (Angelopoulos et al., Learn then
Test, 2021):

    reject "mean recall with c candidates < target" at level alpha / n_lengths,   c = largest, ..., smallest,

until one is not rejected. So the probability that any accepted pair misses the target is at most alpha, however many
pairs are tried.
"""

import math
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import bisect
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, check_random_state

from skhash._validation import (
    VECTOR_METRICS,
    VectorMetric,
    as_count,
    check_not_1d,
    check_not_masked,
    check_option,
    check_queries,
    is_count,
)
from skhash.affinity import NeighborAffinity, PrecomputedAffinity
from skhash.affinity.targets import as_targets, check_complete
from skhash.codes.bits import MAX_NBITS, memory_chunks
from skhash.neighbors.hamming_neighbors import HammingNeighbors
from skhash.unwrap import find_hasher, item_factors, named_warnings

_MULTIPLES = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)  # default numbers of candidates, as multiples of k
_MAX_QUERIES = 1000  # largest default number of queries
_LARGEST_BET = 0.75  # largest share of the capital that a value of 0 loses
_SMALLEST_MEAN = 1e-9


@dataclass(frozen=True)
class MeasuredCode:
    """Recall of one length of codes with one number of candidates.

    Parameters
    ----------
    nbits : int
        Number of bits of a code.
    candidates : int
        Number of items that the search returns first.
    bytes_per_item : int
        Bytes of an item: its packed code, its factors, and the vector that is re-ranked.
    recall : float
        Mean share of the k nearest vectors among the candidates, over the queries.
    lower_bound : float
        One-sided bound of the recall of further queries, corrected for the number of lengths.

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
        Bytes of an item: its packed code, its factors, and the vector that is re-ranked.
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
    table : tuple of MeasuredCode
        All measured values, by bits and candidates. ``pandas.DataFrame(chosen.table)`` shows it.
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
    query: Literal["code", "real"]
    rerank: VectorMetric | None
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
    query: Literal["code", "real"] = "code",
    rerank: VectorMetric | None = None,
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
    ties. Take `candidates` items from the search, or let `rerank` of :class:`HammingNeighbors` sort them.

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
    query : "code" or "real", default="code"
        Rank by the codes of the queries, or by their activations, as in :class:`HammingNeighbors`.
    rerank : "cosine", "euclidean", "inner" or None, default=None
        The distance that will rank the candidates. The vectors that it needs count as bytes.
    metric : "cosine", "euclidean", "inner" or None, default=None
        The distance that decides which vectors are the nearest. None takes `rerank`, or else the attribute `metric` of
        the hasher, or else "euclidean".
    queries : array-like of shape (n_queries, n_features), default=None
        Queries of your users, if they differ from the items. Then all samples of X are items.
    n_queries : int, default=None
        Number of samples of X that are held out as queries. None takes a fifth, at most 1,000.
    confidence : float, default=0.95
        Minimum probability that the choice reaches the target for new queries like these.
    random_state : int, RandomState instance or None, default=None
        Draws the samples that are queries. The hasher has a `random_state` of its own.
    verbose : int, default=0
        Whether to print a line before each fit and one after it. Callbacks of the hasher, such as the ``ProgressBar``
        of scikit-learn, show the epochs of each fit.

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
    The target holds with `confidence` although many pairs of lengths and candidates are tried. The
    lengths share the error equally, and within a length candidates are tried from the largest number down. The
    bound of each pair is that of Waudby-Smith and Ramdas, which holds for any distribution of recalls. It is about
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
    _check_options(target_recall, confidence, query, rerank, metric)
    name = _name_of_nbits(hasher)
    near = metric or rerank or getattr(find_hasher(hasher), "metric", "euclidean")
    held_out = _hold_out(X, queries, n_queries, k, check_random_state(random_state))
    numbers = _checked_candidates(candidates, k, len(held_out.item_vectors))
    if y is not None:
        y = as_targets(y)
        check_complete(y)  # also targets of queries, so that an error does not depend on the random draw
        check_consistent_length(X, y)
    learned_from = held_out.items, None if y is None else y[held_out.item_indices]
    truth = _true_neighbors(held_out, k, near)
    fitted, n_items = None, len(held_out.item_vectors)
    hashers, recalls, sizes = {}, {}, {}
    for place, length in enumerate(reversed(lengths), 1):
        head = f"[choose_code {place}/{len(lengths)}] {length} bits"
        start = time.perf_counter()
        if fitted is not None and _prefix_is_as_good(fitted, n_items):
            hashers[length], way = _prefix(fitted, length), "cut"
        else:
            if verbose:
                print(f"{head}: fit on {n_items:,} items", flush=True)
            hashers[length], way = clone(hasher).set_params(**{name: length}), "fitted"
            with named_warnings(hashers[length]):
                hashers[length].fit(*learned_from)
            fitted = hashers[length]
        seconds = time.perf_counter() - start
        recalls[length] = _recalls(hashers[length], held_out, truth, k, numbers, query)
        if verbose:
            recall = f"{recalls[length][-1].mean():.3f} with {numbers[-1]} candidates"
            print(f"{head}: {way} in {seconds:.1f} s, recall {recall}", flush=True)
        sizes[length] = _bytes_per_item(hashers[length], held_out, length, rerank)
    table = _measured_table(dict(sorted(recalls.items())), numbers, sizes, confidence)
    best = _smallest_code(table, target_recall)
    if best is None:
        raise ValueError(_unreachable(table, target_recall, query))
    size = best.nbits, best.candidates, best.bytes_per_item
    return ChosenCode(
        *size, best.recall, (best.lower_bound, 1.0), target_recall, k, query, rerank, table, hashers[best.nbits]
    )


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


# --- measure


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Queries and items, as samples for the hashers and as vectors, whose nearest ones are the true neighbors."""

    queries: Any
    query_vectors: npt.NDArray[Any]  # of shape (n_queries, n_features)
    items: Any
    item_vectors: npt.NDArray[Any]  # of shape (n_items, n_features)
    item_indices: npt.NDArray[np.int64]  # of the items among the samples


def _true_neighbors(held_out: _HeldOut, k: int, metric: Any) -> PrecomputedAffinity:
    """Affinity of indices, in which the items come first and then the queries: the k nearest vectors are relevant."""
    affinity, (queries, items) = NeighborAffinity(k, metric=metric), (held_out.query_vectors, held_out.item_vectors)
    blocks = [sparse.csr_matrix(affinity(queries[part], items)) for part in memory_chunks(len(queries), len(items))]
    levels = sparse.vstack([sparse.csr_matrix((len(items), len(items)), dtype=np.uint8), *blocks], format="csr")
    levels.resize(len(items) + len(queries), len(items) + len(queries))
    return PrecomputedAffinity(levels)


def _recalls(
    hasher: Any,
    held_out: _HeldOut,
    truth: PrecomputedAffinity,
    k: int,
    candidates: Sequence[int],
    query: Literal["code", "real"],
) -> npt.NDArray[np.float64]:
    """Recall of each query, of shape (n_candidates, n_queries), in expectation over the order of ties."""
    from skhash.metrics import RetrievalScorer, neighbor_recall  # a search needs no metrics

    n_items, n_queries = len(held_out.item_vectors), len(held_out.query_vectors)
    database = held_out.items, held_out.item_vectors
    scorer = RetrievalScorer(f"neighbor_recall_at_{k}", database=database, query=query)
    ranking = replace(
        scorer.ranking(hasher, held_out.queries, held_out.query_vectors),
        query_y=np.arange(n_items, n_items + n_queries),
        database_y=np.arange(n_items),
        affinity=truth,
    )
    parts = [
        [neighbor_recall(H, k, candidates=n, average=False) for n in candidates]
        for H in (histogram.by_ranks() for histogram in ranking.histograms())
    ]
    return np.concatenate(parts, axis=1)


def _bytes_per_item(hasher: Any, held_out: _HeldOut, nbits: int, rerank: str | None) -> int:
    """Bytes of the packed code of an item, of its factors, and of the vector that is re-ranked."""
    factors = item_factors(hasher, _safe_indexing(held_out.items, [0]))
    size = -(-nbits // 8) + (0 if factors is None else factors.nbytes)
    return size + (held_out.item_vectors[:1].nbytes if rerank else 0)


def _measured_table(
    values: dict[int, npt.NDArray[np.float64]], candidates: Sequence[int], sizes: dict[int, int], confidence: float
) -> tuple[MeasuredCode, ...]:
    """Recall and lower bound of each length and number of candidates, in ascending order.

    `values` maps the number of bits to recalls of shape (n_candidates, n_queries). All lengths share the error equally.
    """
    each = 1 - (1 - confidence) / len(values)
    return tuple(
        MeasuredCode(nbits, n, sizes[nbits], float(recalls.mean()), _lower_bound(recalls, each))
        for nbits, by_candidates in values.items()
        for n, recalls in zip(candidates, by_candidates, strict=True)
    )


def _smallest_code(table: Sequence[MeasuredCode], target_recall: float) -> MeasuredCode | None:
    """Code with the fewest bytes, then the fewest candidates, whose bound reaches a target; None if there is none."""
    reached = []
    for nbits in dict.fromkeys(code.nbits for code in table):
        for code in sorted((code for code in table if code.nbits == nbits), key=lambda code: -code.candidates):
            if code.lower_bound < target_recall:
                break
            reached.append(code)
    return min(reached, key=lambda code: (code.bytes_per_item, code.candidates, code.nbits), default=None)


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


def _unreachable(table: Sequence[MeasuredCode], target_recall: float, query: str) -> str:
    """Message that no code reaches the target, with the best recall of each length."""
    best = max(table, key=lambda code: code.lower_bound)
    by_length = {code.nbits: code.recall for code in table if code.candidates == table[-1].candidates}
    listed = ", ".join(f"{recall:.3f} with {nbits} bits" for nbits, recall in by_length.items())
    if max(code.recall for code in table) >= target_recall:
        remedy = "The bound is too low for so few queries: pass more `n_queries` or `queries`."
    elif query == "code":
        remedy = "Pass longer `nbits`, more `candidates`, or query='real'."
    else:
        remedy = "Pass longer `nbits` or more `candidates`."
    return (
        f"`target_recall` must be at most {best.lower_bound:.3f}, the best lower bound found. Got {target_recall} "
        f"instead. The recalls with {table[-1].candidates} candidates are {listed}. {remedy}"
    )


# --- hold out queries


def _hold_out(X: Any, queries: Any, n_queries: Any, k: int, rng: np.random.RandomState) -> _HeldOut:
    """Queries in random order, and the items: the samples that are not queries."""
    check_not_masked(X, "X")
    check_not_1d(X)
    vectors = check_array(X, input_name="X")
    if queries is not None:
        if n_queries is not None:
            raise ValueError(f"`n_queries` must be None with given `queries`. Got {n_queries!r} instead.")
        query_vectors = check_queries(queries, vectors.shape[1])
        order = rng.permutation(len(query_vectors))
        held_out = _HeldOut(_safe_indexing(queries, order), query_vectors[order], X, vectors, np.arange(len(vectors)))
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


def _check_options(target_recall: Any, confidence: Any, query: Any, rerank: Any, metric: Any) -> None:
    """Raise ValueError for invalid options."""
    for name, share in {"target_recall": target_recall, "confidence": confidence}.items():
        if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share < 1:
            raise ValueError(f"`{name}` must be a number in (0, 1). Got {share!r} instead.")
    check_option("query", query, ("code", "real"))
    for name, distance in {"rerank": rerank, "metric": metric}.items():
        if distance is not None:
            check_option(name, distance, VECTOR_METRICS)
    if None not in (rerank, metric) and rerank != metric:
        raise ValueError(
            f"`metric` must be None or equal to `rerank`, which decides what is found. Got {metric!r} and {rerank!r}."
        )


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
