"""Rankings of a dask database: the histograms of its blocks add up."""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._names import check_columns, names_of
from skhash.affinity import NeighborAffinity, Relevance
from skhash.codes import Codes
from skhash.metrics.histogram import Ranking, RelevanceHistogram, relevance_histogram
from skhash.unwrap import codes_of

#: results of blocks that are combined at a time, which bounds the memory
SPLIT_EVERY = 8


def is_dask(value: Any) -> bool:
    """Whether a value is a dask collection."""
    return hasattr(value, "__dask_graph__")


def blocks_of(collection: Any, name: str) -> list[Any]:
    """Delayed blocks of samples of a dask array, data frame or series, each with all features."""
    if not is_dask(collection) or not hasattr(collection, "to_delayed"):
        raise TypeError(f"`{name}` must be a dask array or data frame. Got {type(collection).__name__} instead.")
    if hasattr(collection, "rechunk") and collection.ndim > 1:
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return list(np.ravel(collection.to_delayed()))


def pairs_of_blocks(codes: Any, y: Any, query_y: Any) -> list[tuple[Any, Any]]:
    """Pairs of a delayed block of codes or samples and the delayed block of its targets."""
    check_columns(query_y, names_of(y).columns, "`query_y`", "`database_y`", "label")
    blocks = blocks_of(codes, "database_codes"), blocks_of(y, "database_y")
    if len(blocks[0]) != len(blocks[1]):
        raise ValueError(
            "`database_y` must have the blocks of the database. Got "
            f"{len(blocks[1])} and {len(blocks[0])} blocks instead. Rechunk one like the other."
        )
    return list(zip(*blocks, strict=True))


def reduce_tree(parts: Sequence[Any], combine: Callable[[list[Any]], Any], split_every: int) -> Any:
    """Delayed result of combining delayed parts in their order, a few at a time."""
    from dask import delayed

    together = delayed(combine)
    while len(parts) > 1:
        parts = [together(list(parts[i : i + split_every])) for i in range(0, len(parts), split_every)]
    return parts[0]


def codes_of_block(estimator: Any, X: Any, nbits: int) -> npt.NDArray[np.uint8]:
    """Packed codes of a block of samples, which may be empty."""
    return codes_of(estimator, X).rows if X.shape[0] else np.empty((0, -(-nbits // 8)), dtype=np.uint8)


def count_blocks(
    query_codes: Codes,
    pairs: Sequence[tuple[Any, Any]],
    of_queries: Relevance,
    bit_weights: Any,
    split_every: int = SPLIT_EVERY,
    *,
    are_packed: bool = True,
) -> Any:
    """Delayed histogram of pairs of delayed codes and targets, by the relevance of the queries to each other."""
    from dask import delayed

    if isinstance(of_queries.affinity, NeighborAffinity):
        raise ValueError(
            "`affinity` must compare each item alone with a query. Got a NeighborAffinity, which ranks all items: "
            "their shards do not add."
        )
    given = delayed((query_codes, of_queries.targets, of_queries.affinity, bit_weights), pure=False)
    parts = [delayed(_count)(given, codes, y, are_packed) for codes, y in pairs]
    return delayed(_checked)(reduce_tree(parts, _add, split_every))


def _count(given: tuple[Any, ...], block: Any, y: Any, are_packed: bool) -> RelevanceHistogram | None:
    """Histogram of a block; None if it is empty."""
    if not block.shape[0]:
        return None
    query_codes, query_y, affinity, bit_weights = given
    codes = Codes.of(block, query_codes.nbits if are_packed else None, name="database_codes")
    return relevance_histogram(query_codes, codes, query_y, y, affinity, bit_weights=bit_weights)


def _add(histograms: list[RelevanceHistogram | None]) -> RelevanceHistogram | None:
    kept = [H for H in histograms if H is not None]
    return functools.reduce(operator.add, kept) if kept else None


def _checked(H: RelevanceHistogram | None) -> RelevanceHistogram:
    if H is None:
        raise ValueError("`database_codes` must have at least one item. Got empty blocks.")
    return H


@dataclass(frozen=True, eq=False)
class ShardedRanking(Ranking):
    """Ranking of a database in blocks: `database_codes` are pairs of delayed codes and targets.

    `relevance` is that of the queries to each other.
    """

    def __post_init__(self) -> None:
        """The codes are not here."""

    def histograms(self, *, weighted: bool = True) -> Any:
        """Histogram of all queries, from those of the blocks."""
        weights = self.bit_weights if weighted else None
        yield count_blocks(self.query_codes, self.database_codes, self.relevance, weights).compute()


def sharded_ranking(
    estimator: Any, database: Any, queries: Codes, query_y: Any, of_queries: Relevance, bit_weights: Any
) -> ShardedRanking:
    """Ranking of a dask database; each block is encoded by its worker and never gathered."""
    from dask import delayed

    model, encode = delayed(estimator, traverse=False), delayed(codes_of_block)
    X, y = database
    blocks = [(encode(model, block, queries.nbits), targets) for block, targets in pairs_of_blocks(X, y, query_y)]
    return ShardedRanking(queries, blocks, of_queries, bit_weights)
