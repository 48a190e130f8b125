"""Which method keeps the nearest neighbors: one method, fitted on the database of a split, and its recall.

Every search is exact for what the method stores. It also returns all items that tie with the last one that a metric
counts, so that the metrics average over the orders of ties, by histograms.
"""

import hashlib
import time
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches
from threadpoolctl import threadpool_limits

from skhash._compat import cached_property
from skhash.affinity import NeighborAffinity
from skhash.codes import Codes
from skhash.codes.queries import Bits, Queries
from skhash.comparison._baselines import FACTOR_BITS, Floats, Found, make_baseline, settings_of
from skhash.comparison.methods import make_hasher, variant_of
from skhash.comparison.tables import CODE_METRICS, REAL_METRICS
from skhash.metrics import histogram_from_distances, neighbor_recall
from skhash.registry import BASELINES
from skhash.unwrap import items_of, real_queries

SearchMetric = Literal["euclidean", "inner"]  # "cosine" is either of them, on vectors of norm 1

N_NEIGHBORS, N_CANDIDATES = 10, 50
_HELD_OUT_QUERIES, _HELD_OUT_ITEMS = 200, 20_000  # of the items, at most, to choose the setting of a baseline
_BATCH = 50  # queries at a time: if all items tie, a search returns them all
# queries that are searched one by one and in a batch, to measure their time, and how often
_N_SINGLE, _N_TOGETHER, _N_ROUNDS = 20, 100, 5


class Vectors:
    """Items and queries, and which items are nearest to each query by `metric`.

    A hasher learns from the items, and from the queries `learned`, if they are not None.
    """

    def __init__(self, items: Any, queries: Any, metric: SearchMetric = "euclidean", learned: Any = None) -> None:
        self.items, self.queries = (
            np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float32) for X in (items, queries)
        )
        self.metric: SearchMetric = metric
        self.learned = learned

    @cached_property
    def truth(self) -> list[npt.NDArray[np.int64]]:
        """Indices of the nearest items of each query, with all that are as near as the last of them."""
        affinity = NeighborAffinity(min(N_NEIGHBORS, len(self.items)), metric=self.metric)
        parts = gen_batches(len(self.queries), _BATCH)
        return [np.flatnonzero(levels) for part in parts for levels in affinity(self.queries[part], self.items)]

    @cached_property
    def held_out(self) -> "Vectors":
        """Some of the items as queries against the others, by which the setting of a baseline is chosen."""
        order = np.random.default_rng(0).permutation(len(self.items))
        n_queries = min(_HELD_OUT_QUERIES, len(order) // 5)
        others = order[n_queries:][:_HELD_OUT_ITEMS]
        return Vectors(self.items[others], self.items[order[:n_queries]], self.metric)


class HasherIndex:
    """Search of the codes of a hasher, or of any object with `fit`, `encode` and `project_queries`."""

    def __init__(self, hasher: Any) -> None:
        self.hasher = hasher

    def fit(self, items: Floats, **params: Any) -> "HasherIndex":
        """Fit the hasher."""
        self.hasher.fit(items, **params)
        return self

    def add(self, items: Floats) -> None:
        """Store the codes of items."""
        is_hasher = hasattr(self.hasher, "codes")  # baselines have codes without factors
        self.codes = items_of(self.hasher, items) if is_hasher else Codes(self.hasher.encode(items), self.hasher.nbits)
        self.blocks = self.codes.blocks()

    def search(self, queries: Floats, k: int) -> Found:
        """Nearest items of real queries, by estimated distances if the hasher has factors."""
        return self._nearest(real_queries(self.hasher, queries, self.codes), k)

    def search_codes(self, queries: Floats, k: int) -> Found:
        """Nearest items by Hamming distance."""
        return self._nearest(Bits(Codes(self.hasher.encode(queries), self.hasher.nbits)), k)

    def _nearest(self, queries: Queries, k: int) -> Found:
        found = queries.nearest(self.blocks, k)
        return found.distances, found.indices


def evaluate_method(
    method: str, nbits: int, seed: int, vectors: Vectors, watcher: Any = None, **parameters: Any
) -> tuple[dict[str, Any], Any]:
    """Values of a :class:`~skhash.comparison.Result`, and the hasher or baseline that was fitted on the items."""
    if method in BASELINES:
        parameters = _choose_setting(method, nbits, seed, vectors)
    elif variant_of(method).method.name == "embedding":
        parameters = {"metric": vectors.metric, **parameters}
    index = _make_index(method, nbits, seed, vectors.metric, watcher, **parameters)
    start = time.process_time()
    index.fit(vectors.items, **({} if vectors.learned is None else {"queries": vectors.learned}))
    fitted = time.process_time()
    index.add(vectors.items)
    values = {
        "fit_seconds": fitted - start,
        "codes_per_second": len(vectors.items) / (time.process_time() - fitted),
        **_query_times(index.search, vectors),
        "bytes_per_item": -(-nbits // 8),
        "parameters": {**variant_of(method).parameters, **parameters},
    }
    of_queries = dict(zip(REAL_METRICS, search_recalls(index.search, vectors), strict=True))
    if isinstance(index, HasherIndex):
        of_queries |= zip(CODE_METRICS, search_recalls(index.search_codes, vectors), strict=True)
        values["codes_sha256"] = hashlib.sha256(index.codes.rows.tobytes()).hexdigest()
    values |= {name: float(recalls.mean()) for name, recalls in of_queries.items()} | {"per_query": of_queries}
    return values, getattr(index, "hasher", index)


def _query_times(search: Any, vectors: Vectors) -> dict[str, float]:
    """Milliseconds of CPU time of a query that is searched alone, and of one in a batch: the fastest round.

    One thread searches. On a busy machine, several threads of OpenMP spin while they wait for each other, which takes a
    hundred times as long as a search of FAISS.
    """
    queries, k, rounds = vectors.queries, min(N_NEIGHBORS, len(vectors.items)), []
    single, together = queries[:_N_SINGLE], queries[:_N_TOGETHER]
    with threadpool_limits(1):  # also of libraries that were loaded a moment ago
        search(queries[:1], k)  # compiles
        for _ in range(_N_ROUNDS):
            start = time.process_time()
            for query in single:
                search(query[None], k)
            middle = time.process_time()
            search(together, k)
            rounds.append((middle - start, time.process_time() - middle))
    fastest = np.min(rounds, axis=0) * 1000 / (len(single), len(together))
    return dict(zip(("single_query_ms", "batch_query_ms"), fastest.tolist(), strict=True))


def search_recalls(search: Any, vectors: Vectors) -> npt.NDArray[np.float64]:
    """Recalls of shape (4, n_queries): in the mean, worst and best order of ties, and among the first 50."""
    n_items, parts = len(vectors.items), []
    for part in gen_batches(len(vectors.queries), _BATCH):
        distances, items = _with_ties(search, vectors.queries[part], n_items)
        parts.append(_recalls(distances, items, vectors.truth[part], min(N_NEIGHBORS, n_items)))
    return np.concatenate(parts, axis=1)


def _with_ties(search: Any, queries: Floats, n_items: int) -> Found:
    """Distances and indices of the nearest items, among them all that tie with the last one that a metric counts."""
    place, k = min(N_CANDIDATES, n_items), min(N_CANDIDATES + 14, n_items)
    while True:
        distances, items = search(queries, k)
        last = np.partition(distances, place - 1, axis=1)[:, place - 1]
        if k == n_items or (last < distances.max(axis=1)).all():
            return distances, items
        k = min(4 * k, n_items)


def _recalls(
    distances: npt.NDArray[Any], items: npt.NDArray[np.int64], truth: list[npt.NDArray[np.int64]], k: int
) -> npt.NDArray[np.float64]:
    """The four recalls of each query, of shape (4, n_queries), from its nearest items with all ties."""
    is_true = np.stack([np.isin(found, near) for found, near in zip(items, truth, strict=True)])
    n_missing = np.array([[len(near)] for near in truth]) - is_true.sum(axis=1, keepdims=True)
    # true neighbors that are not found rank behind all found items; more than k of them make no difference
    beyond = np.arange(k) < n_missing
    levels = np.concatenate([is_true, beyond], axis=1).astype(np.uint8)
    behind = np.repeat(distances.max(axis=1, keepdims=True) + 1.0, beyond.shape[1], axis=1)
    H = histogram_from_distances(np.concatenate([distances, behind], axis=1), levels=levels)
    orders = [neighbor_recall(H, k, ties=ties, average=False) for ties in ("average", "worst", "best")]
    return np.stack([*orders, neighbor_recall(H, k, candidates=max(k, N_CANDIDATES), average=False)])


def _choose_setting(name: str, nbits: int, seed: int, vectors: Vectors) -> dict[str, Any]:
    """Setting of a baseline with the best recall of held-out items among the others."""
    settings, _ = settings_of(name, nbits, vectors.items.shape[1])
    if len(settings) < 2:
        return settings[0] if settings else {}
    recalls = []
    for setting in settings:
        index = _make_index(name, nbits, seed, vectors.metric, **setting).fit(vectors.held_out.items)
        index.add(vectors.held_out.items)
        recalls.append(search_recalls(index.search, vectors.held_out)[0].mean())
    return settings[int(np.argmax(recalls))]


def _make_index(method: str, nbits: int, seed: int, metric: str, watcher: Any = None, /, **parameters: Any) -> Any:
    """Index of a method, not fitted."""
    if method not in BASELINES:
        n_factors = FACTOR_BITS if variant_of(method).parameters.get("factors") else 0
        hasher = make_hasher(method, nbits - n_factors, seed, "auto", **parameters)
        return HasherIndex(hasher if watcher is None else watcher.watch(hasher))
    baseline = make_baseline(method, nbits, seed, metric=metric, **parameters)
    return HasherIndex(baseline) if hasattr(baseline, "encode") else baseline
