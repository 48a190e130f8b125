r"""What :func:`skhash.neighbors.choose_code` measures and chooses.

The pairs of lengths and candidates are tested as a fixed sequence within each length (Angelopoulos et al., Learn then
Test, 2021):

    reject "mean recall with c candidates < target" at level alpha / n_lengths,   c = largest, ..., smallest,

until one is not rejected. So the probability that any accepted pair misses the target is at most alpha, however many
pairs are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skhash._validation.options import VectorMetric
from skhash.neighbors._lower_bound import lower_bound


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
        Bytes of an item: its packed code, its factors, and the vector that is re-ranked. An index of
        :class:`HammingNeighbors` pads the code to a multiple of 8 bytes.
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


def measured_table(
    values: dict[int, npt.NDArray[np.float64]], candidates: Sequence[int], sizes: dict[int, int], confidence: float
) -> tuple[MeasuredCode, ...]:
    """Recall and lower bound of each length and number of candidates, in ascending order.

    `values` maps the number of bits to recalls of shape (n_candidates, n_queries). All lengths share the error equally.
    """
    each = 1 - (1 - confidence) / len(values)
    return tuple(
        MeasuredCode(nbits, n, sizes[nbits], float(recalls.mean()), lower_bound(recalls, each))
        for nbits, by_candidates in values.items()
        for n, recalls in zip(candidates, by_candidates, strict=True)
    )


def smallest_code(table: Sequence[MeasuredCode], target_recall: float) -> MeasuredCode | None:
    """Code with the fewest bytes, then the fewest candidates, whose bound reaches a target; None if there is none."""
    reached = []
    for nbits in dict.fromkeys(code.nbits for code in table):
        for code in sorted((code for code in table if code.nbits == nbits), key=lambda code: -code.candidates):
            if code.lower_bound < target_recall:
                break
            reached.append(code)
    return min(reached, key=lambda code: (code.bytes_per_item, code.candidates, code.nbits), default=None)
