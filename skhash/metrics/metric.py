"""Metrics by name: one spelling for scorers, reports and the command line, parsed in this file only."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any

from skhash._validation import as_count_or_none, check_option, with_nearest
from skhash.metrics.average_precision import average_precision
from skhash.metrics.fast_ap import fast_ap
from skhash.metrics.histogram import RelevanceHistogram
from skhash.metrics.ndcg import ndcg
from skhash.metrics.neighbor_recall import neighbor_recall
from skhash.metrics.precision import precision
from skhash.metrics.r_precision import r_precision
from skhash.metrics.recall import recall
from skhash.metrics.reciprocal_rank import reciprocal_rank
from skhash.metrics.roc_auc import roc_auc
from skhash.metrics.ties import NO_PAIR, NO_RELEVANT_ITEM, TIES

# A new metric is one file with its function, and one entry here. A name may end in the options of its function.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ap": average_precision,
    "ndcg": ndcg,
    "fast_ap": fast_ap,
    "precision": precision,
    "recall": recall,
    "r_precision": r_precision,
    "reciprocal_rank": reciprocal_rank,
    "roc_auc": roc_auc,
    "neighbor_recall": neighbor_recall,
}
#: labels that are not the name with spaces
_LABELS = {
    "ap": "AP",
    "ndcg": "NDCG",
    "fast_ap": "FastAP",
    "r_precision": "R-precision",
    "roc_auc": "Area under the ROC curve",
}
#: the divisor of AP with a cutoff, in labels
_NORMALIZERS = {
    "relevant": " of all relevant",
    "min": " of min(relevant, {k})",
    "retrieved": " of relevant retrieved",
}
_NAME = re.compile(
    rf"(?P<function>{'|'.join(sorted(_FUNCTIONS, key=len, reverse=True))})"
    r"(_at_(?P<k>[1-9]\d*)(_of_(?P<candidates>[1-9]\d*))?|_radius_(?P<radius>\d+(\.\d+)?))?(_(?P<ties>best|worst))?"
    r"(_(?P<discount>delayed_log2)|_(?P<gain>linear)|_(?P<normalizer>relevant|min|retrieved))?"
)


@dataclass(frozen=True)
class Metric:
    """A metric of a RelevanceHistogram with its options.

    Parameters
    ----------
    name : str
        Name of the metric with its options, for example ``"ap_at_10_worst"``.
    function : callable
        The metric, for example :func:`skhash.metrics.average_precision`.
    k : int, default=None
        Cutoff rank.
    radius : float, default=None
        Hamming radius.
    ties : "average", "best" or "worst", default="average"
        Order inside the ties.
    discount : "log2" or "delayed_log2", default="log2"
        Discount of NDCG.
    gain : "exponential" or "linear", default="exponential"
        Gain of NDCG.
    normalizer : "relevant", "min" or "retrieved", default="relevant"
        What AP with a cutoff is divided by, see :func:`~skhash.metrics.average_precision`.
    candidates : int, default=None
        Number of items among which `neighbor_recall` looks for the k true neighbors.

    Examples
    --------
    >>> from skhash.metrics import Metric, relevance_histogram
    >>> metric = Metric.parse("ap_at_10_worst")
    >>> metric.k, metric.ties
    (10, 'worst')
    >>> H = relevance_histogram([[0, 0]], [[0, 1], [0, 1], [1, 1]], [7], [7, 5, 7])
    >>> round(metric(H), 4)
    0.5833
    """

    name: str
    function: Callable[..., Any]
    k: int | None = None
    radius: float | None = None
    ties: str = "average"
    discount: str = "log2"
    gain: str = "exponential"
    normalizer: str = "relevant"
    candidates: int | None = None

    @classmethod
    def parse(cls, name: str, k: int | None = None) -> "Metric":
        """Metric of a name.

        Parameters
        ----------
        name : str
            ``ap``, ``ndcg``, ``fast_ap``, ``precision``, ``recall``, ``r_precision``,
            ``reciprocal_rank``, ``roc_auc`` or ``neighbor_recall``. Then ``_at_K`` or ``_radius_R``, if the metric
            has a cutoff (or ``@K``), and for ``neighbor_recall_at_K`` also ``_of_M`` candidates. Then
            ``_best`` or ``_worst`` for the order inside the ties. Then for ``ndcg`` ``_delayed_log2``, that
            discount, or ``_linear``, the gain of trec_eval; and for ``ap_at_K`` the normalizer: ``_relevant``
            (the default, all relevant items, as trec_eval's ``map_cut_K``), ``_retrieved`` (the relevant items
            among the first K, as papers on hashing report ``mAP@K``), or ``_min``.
        k : int, default=None
            Cutoff rank of a name without one, if the metric has a cutoff.

        Returns
        -------
        Metric
            The metric with its options. Its name has the cutoff, as ``_at_K``.

        Raises
        ------
        ValueError
            If the name is not the name of a metric.

        Examples
        --------
        >>> from skhash.metrics import Metric
        >>> metric = Metric.parse("ap_at_5000_retrieved")  # what many papers call mAP@5000
        >>> metric.k, metric.normalizer
        (5000, 'retrieved')
        >>> Metric.parse("ndcg@10").name, Metric.parse("ndcg_best", 10).name
        ('ndcg_at_10', 'ndcg_at_10_best')
        """
        k = as_count_or_none(k, "k")
        written = name.replace("@", "_at_", 1) if isinstance(name, str) else ""
        match = _NAME.fullmatch(written)
        if match is None:
            got = with_nearest([name], _FUNCTIONS) if isinstance(name, str) else repr(name)
            raise ValueError(
                f"`metric` must be one of {', '.join(_FUNCTIONS)}, followed by _at_K, @K or _radius_R, then _best or "
                "_worst, then _delayed_log2 or _linear (ndcg), _relevant, _min or _retrieved (ap_at_K), or _of_M "
                f"(neighbor_recall_at_K), where they apply. Got {got} instead.{_hint(name)}"
            )
        options: dict[str, Any] = {option: text for option, text in match.groupdict().items() if text}
        stem = options.pop("function")
        function = _FUNCTIONS[stem]
        accepted = signature(function).parameters
        for option in options:
            if option not in accepted:
                raise ValueError(f"`metric` must have options of its function. Got {name!r}: {stem} has no {option}.")
        if k is not None and "k" in accepted and not options.keys() & {"k", "radius"}:
            options["k"], written = k, f"{stem}_at_{k}{written.removeprefix(stem)}"
        if "normalizer" in options and "k" not in options:
            raise ValueError(f"`metric` must have a cutoff k for another normalizer, as ap_at_100_min. Got {name!r}.")
        if "radius" in accepted and not options.keys() & {"k", "radius"}:
            raise ValueError(
                f"`metric` must have a cutoff: {name}_at_100, {name}_radius_2, or the parameter k. Got {name!r}."
            )
        neighbors, candidates = (int(options.get(option, options.get("k", 0))) for option in ("k", "candidates"))
        if function is neighbor_recall and not 1 <= neighbors <= candidates:
            raise ValueError(
                "`metric` must have a number of neighbors, and at least as many candidates, as in "
                f"neighbor_recall_at_10 or neighbor_recall_at_10_of_50. Got {name!r} instead."
            )
        types = {"k": int, "radius": float, "candidates": int}
        return cls(written, function, **{option: types.get(option, str)(value) for option, value in options.items()})

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of the function that differ from its defaults."""
        values = {field: getattr(self, field.name) for field in fields(self)[2:]}
        return {field.name: value for field, value in values.items() if value != field.default}

    @property
    def _required(self) -> str:
        """What a query needs in the database to have a value."""
        return NO_PAIR if self.function is roc_auc else NO_RELEVANT_ITEM

    def __call__(self, H: RelevanceHistogram, *, empty: str = "skip", average: bool = True) -> Any:
        """Value of the metric on a histogram.

        Parameters
        ----------
        H : RelevanceHistogram
            Counts.
        empty : "skip", "zero", "one" or "nan", default="skip"
            Value of a query with nothing relevant.
        average : bool, default=True
            Mean over the queries; False returns one value per query.

        Returns
        -------
        float or ndarray of shape (n_queries,)
            As the function returns it.
        """
        return self.function(H, **self.options, empty=empty, average=average)

    def with_ties(self, ties: str) -> "Metric":
        """Same metric under another order of ties.

        Parameters
        ----------
        ties : "average", "best" or "worst"
            Order inside the ties.

        Returns
        -------
        Metric
            The metric with that order and its name.

        Raises
        ------
        ValueError
            If there is no such order, or the metric does not depend on it, as FastAP.

        Examples
        --------
        >>> from skhash.metrics import Metric
        >>> Metric.parse("ndcg_at_10_delayed_log2").with_ties("best").name
        'ndcg_at_10_best_delayed_log2'
        """
        check_option("ties", ties, TIES)
        stem, cutoff, _, ending = self._words()
        if "ties" not in signature(self.function).parameters:
            raise ValueError(f"`metric` must depend on the order of ties. Got {self.name!r} instead.")
        order = "" if ties == "average" else f"_{ties}"
        return replace(self, name=f"{stem}{cutoff}{order}{ending}", ties=ties)

    def label(self, average: str = "") -> str:
        """Label for the axis of a plot.

        Parameters
        ----------
        average : str, default=""
            Mark of AP and NDCG as means over the orders of ties, for example ``"$_T$"``.

        Returns
        -------
        str
            The label.

        Examples
        --------
        >>> from skhash.metrics import Metric
        >>> Metric.parse("precision_radius_2").label(), Metric.parse("ap_at_10_worst").label()
        ('Precision within radius 2', 'AP@10 of all relevant, worst order of ties')
        """
        stem, cutoff, order, ending = self._words()
        ending = ending.removesuffix(f"_{self.normalizer}").replace("_", ", ", 1).replace("_", " ")
        ending += " gain" if self.gain == "linear" else ""
        if stem == "ap" and self.k is not None:
            ending = _NORMALIZERS[self.normalizer].format(k=self.k)
        text = _LABELS.get(stem, stem.replace("_", " ").capitalize())
        text += average if stem in ("ap", "ndcg") and not order else ""
        text += cutoff.replace("_at_", "@").replace("_of_", " of ").replace("_radius_", " within radius ")
        return text + ending + (f", {self.ties} order of ties" if order else "")

    def _words(self) -> tuple[str, str, str, str]:
        """Parts of the name: function, cutoff, order of ties, and discount, gain or normalizer."""
        stem = next(name for name, function in _FUNCTIONS.items() if function is self.function)
        cutoff = "" if self.k is None else f"_at_{self.k}"
        cutoff += "" if self.candidates is None else f"_of_{self.candidates}"
        cutoff += "" if self.radius is None else f"_radius_{self.radius:g}"
        order = "" if self.ties == "average" else f"_{self.ties}"
        endings = [self.options[key] for key in ("discount", "gain", "normalizer") if key in self.options]
        return stem, cutoff, order, "".join(f"_{ending}" for ending in endings)


def _hint(name: Any) -> str:
    """Name in this library of what many papers call mAP@K."""
    found = re.fullmatch(r"map(\D*(\d+))?", name, re.IGNORECASE) if isinstance(name, str) else None
    k = found and (found[2] or "K")
    return f" The mAP@{k} of papers on hashing is 'ap_at_{k}_retrieved', with another divisor." if k else ""
