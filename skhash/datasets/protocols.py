"""Named protocols: everything that must be equal before two results can be compared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._validation import with_nearest
from skhash.affinity import DistanceAffinity, NeighborAffinity, SharedLabelsAffinity

Indices = npt.NDArray[np.int64]

# A draw maps the class (or the labels) of each sample, a size and a generator to the indices of samples.


def _randomly(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of random samples."""
    return rng.permutation(len(classes))[:size]


def _first(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of the first samples, in their order."""
    return np.arange(size)


def _evenly(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of equally many samples per class; if a class is too small, the others fill up."""
    order, rank, _ = _shuffle_by_class(classes, rng)
    return order[np.argsort(rank, kind="stable")[:size]]


def _evenly_up_to_half(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices as of `_evenly`, but a class keeps half of its samples as long as others can fill up."""
    order, rank, class_size = _shuffle_by_class(classes, rng)
    in_second_half = rank >= class_size // 2
    return order[np.lexsort((rank, in_second_half))[:size]]


def _proportionally(classes: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of the same share of each class, rounded; a class with one sample is skipped."""
    order, rank, class_size = _shuffle_by_class(classes, rng)
    return order[np.argsort((rank + 0.5) / class_size, kind="stable")[:size]]


def _evenly_by_label(labels: Indices, size: int, rng: np.random.RandomState) -> Indices:
    """Indices of equally many samples per label, drawn for the rarest label first; random samples fill up."""
    order = rng.permutation(len(labels))
    shuffled = np.asarray(labels)[order] > 0
    n_per_label = size // shuffled.shape[1]
    chosen = np.zeros(len(order), dtype=bool)
    for label in np.argsort(shuffled.sum(axis=0), kind="stable"):
        chosen[np.flatnonzero(shuffled[:, label] & ~chosen)[:n_per_label]] = True
    chosen[np.flatnonzero(~chosen)[: size - chosen.sum()]] = True
    return order[chosen]


def _shuffle_by_class(classes: Indices, rng: np.random.RandomState) -> tuple[Indices, Indices, Indices]:
    """Shuffled indices, the rank of each inside its class (from 0), and the size of its class."""
    order = rng.permutation(len(classes))
    shuffled = classes[order]
    by_class = np.argsort(shuffled, kind="stable")
    sizes = np.bincount(classes)
    rank = np.empty(len(order), dtype=np.int64)
    rank[by_class] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order, rank, sizes[shuffled]


@dataclass(frozen=True)
class Protocol:
    """Queries, database, training samples and relevance rule of an evaluation.

    The database is all samples except the queries, and contains the training samples, unless
    some classes are `unseen`. Derive your own protocol with
    ``dataclasses.replace(PROTOCOLS["5k"], name="1k", n_train=1000)``.

    Parameters
    ----------
    name : str
        Name.
    description : str
        The sizes in words.
    n_query : int, float or None
        Number of queries, or their share of the samples if a float. None takes the samples
        that the data mark as test samples.
    n_train : int, default=None
        Number of training samples. None takes the whole database.
    draw_query : callable
        ``draw_query(classes, size, rng)`` returns the indices of the queries; by default they are drawn at random.
    draw_train : callable
        As `draw_query`, for the training samples in the database.
    n_samples : int, default=None
        Number of samples used, drawn at random if the data have more (up to 999 more are
        all used). With fewer samples every size shrinks in proportion. None uses all.
    affinity : "auto" or callable, default="auto"
        Relevance rule. If it needs no labels, the targets are X.
    relevance : str, default=None
        The relevance rule in words. None describes the affinity.
    cutoff : int, default=None
        Recommended ``k`` of the metrics. None ranks the whole database.
    unit_length : bool, default=False
        Center X on the training mean, then scale each sample to unit length.
    max_query : int, default=None
        Largest number of queries, if `n_query` is a share. None sets no limit.
    normalize : bool, default=False
        Scale each sample to unit length, without centering: the nearest samples are then those
        with the largest cosine.
    by_label : bool, default=False
        Whether `draw_query` and `draw_train` get the 0/1 matrix of labels in place of the classes.
    unseen : float, default=0
        Share of the classes that are unseen, drawn at random; at least two classes are unseen, and
        two are not. Queries and database are then samples of the unseen classes, and training
        samples are of the others. The sizes of queries and database count samples of unseen
        classes, and `n_train` counts samples of the others.

    Examples
    --------
    >>> from skhash.datasets import PROTOCOLS
    >>> PROTOCOLS["struct"].sizes(9298)
    (9298, 2000, 2000)
    """

    name: str
    description: str
    n_query: int | float | None
    n_train: int | None = None
    draw_query: Callable[..., Indices] = _randomly
    draw_train: Callable[..., Indices] = _randomly
    n_samples: int | None = None
    affinity: Any = "auto"
    relevance: str | None = None
    cutoff: int | None = None
    unit_length: bool = False
    max_query: int | None = None
    normalize: bool = False
    by_label: bool = False
    unseen: float = 0

    def __str__(self) -> str:
        return self.name

    @property
    def requires_y(self) -> bool:
        """Whether labels are needed."""
        return getattr(self.affinity, "requires_y", True)

    @property
    def has_fixed_queries(self) -> bool:
        """Whether all splits have the same queries."""
        return self.n_query is None or self.draw_query is _first

    def sizes(self, n: int, n_test: int | None = None) -> tuple[int, int, int]:
        """Numbers of samples, queries and training samples that are used.

        Parameters
        ----------
        n : int
            Number of samples of the data; of the samples of unseen classes, if there are any.
        n_test : int, default=None
            Number of test samples, for a protocol whose `n_query` is None.

        Returns
        -------
        n_samples : int
            Number of samples used.
        n_query : int
            Number of queries.
        n_train : int
            Number of training samples; if some classes are unseen, the size of the database.

        Raises
        ------
        ValueError
            If the data are too small for the protocol.

        Examples
        --------
        >>> from skhash.datasets import PROTOCOLS
        >>> PROTOCOLS["labelme"].sizes(11_000)  # half the size of the original data
        (11000, 1000, 2500)
        """
        n = int(n)
        n_samples = n if self.n_samples is None or n < int(self.n_samples) + 1000 else int(self.n_samples)
        shrink = 1 if self.n_samples is None else min(1, n / self.n_samples)
        size = (n_test or 0) if self.n_query is None else self.n_query
        n_query = round(size * n_samples) if isinstance(size, float) else int(size * shrink)
        n_query = n_query if self.max_query is None else min(n_query, int(self.max_query))
        n_train = n_samples - n_query if self.n_train is None or self.unseen else int(self.n_train * shrink)
        if n_query < 1 or n_train < 2 or n_query + n_train > n_samples:
            raise ValueError(
                f"`X` has too few samples for protocol {self.name!r}, which needs {max(1, n_query):,} queries and "
                f"{max(2, n_train):,} other samples to train on. Got {n:,} samples instead."
            )
        return n_samples, n_query, n_train


def check_protocol(protocol: str | Protocol) -> Protocol:
    """Protocol of a name, or the given Protocol."""
    if isinstance(protocol, Protocol):
        return protocol
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        names = ", ".join(map(repr, PROTOCOLS))
        got = with_nearest([protocol], PROTOCOLS) if isinstance(protocol, str) else repr(protocol)
        raise ValueError(f"`protocol` must be one of {names}, or a Protocol. Got {got} instead.")
    return PROTOCOLS[protocol]


#: protocols by name
PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "holdout", "20 % of each class are queries; training on the whole database", 0.2, draw_query=_proportionally
        ),
        Protocol(
            "5k",
            "1,000 queries and 5,000 training samples, equally many per class",
            1000,
            5000,
            _evenly_up_to_half,
            _evenly,
        ),
        Protocol("s2", "the test samples of the data are the queries; training on the whole database", None),
        Protocol(
            "unseen",
            "a quarter of the classes is unseen: 20 % of their samples are queries, the others the database; training "
            "on all samples of the other classes",
            0.2,
            draw_query=_proportionally,
            unseen=0.25,
        ),
        Protocol("struct", "2,000 random queries and 2,000 random training samples", 2000, 2000, cutoff=100),
        Protocol(
            "labelme",
            "22,000 samples, centered and of unit length: 2,000 random queries, 5,000 random training samples",
            2000,
            5000,
            n_samples=22_000,
            affinity=DistanceAffinity(percentiles=(5, 1, 0.2, 0.1), levels=(1, 2, 5, 10)),
            relevance="levels 1, 2, 5, 10 at the distances of the nearest 5, 1, 0.2, 0.1 % of the training pairs",
            unit_length=True,
        ),
        Protocol(
            "mirflickr",
            "the first 2,000 samples are the queries; 5,000 random training samples",
            2000,
            5000,
            draw_query=_first,
            affinity=SharedLabelsAffinity(),
        ),
        Protocol(
            "nus-wide",
            "2,100 queries and 10,500 training samples, equally many per label",
            2100,
            10_500,
            _evenly_by_label,
            _evenly_by_label,
            affinity=SharedLabelsAffinity(),
            by_label=True,
        ),
        Protocol(
            "ms-coco",
            "5,000 random queries and 10,000 random training samples",
            5000,
            10_000,
            affinity=SharedLabelsAffinity(),
            cutoff=5000,
        ),
        Protocol(
            "imagenet100",
            "the test samples of the data are the queries; 13,000 training samples, equally many per class",
            None,
            13_000,
            draw_train=_evenly,
            cutoff=1000,
        ),
        Protocol(
            "neighbors",
            "500 random queries, at most 20 %; training on the whole database, without labels",
            0.2,
            affinity=NeighborAffinity(10),
            relevance="the 10 nearest samples",
            max_query=500,
        ),
        Protocol(
            "neighbors-cosine",
            "as neighbors, on samples of unit length",
            0.2,
            affinity=NeighborAffinity(10),
            relevance="the 10 samples with the largest cosine",
            max_query=500,
            normalize=True,
        ),
        Protocol(
            "neighbors-inner",
            "as neighbors, with the nearest by inner product",
            0.2,
            affinity=NeighborAffinity(10, metric="inner"),
            relevance="the 10 samples with the largest inner product",
            max_query=500,
        ),
    )
}
