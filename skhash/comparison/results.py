"""The result of one fit, in code and in files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from skhash.comparison._checks import check_fields
from skhash.comparison._layouts import LAYOUTS


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(Mapping[str, Any]):
    """Result of one fit: what was fitted, the metrics, and how it was obtained.

    It can be read like an entry of ``results.json``, too: ``result["ap"]``, ``dict(result)``.
    The metrics and what follows them up to `curves` are None if the fit failed or the method does
    not apply. As a dict it has only the metrics of its task, and `model` only if it was kept.

    Parameters
    ----------
    task : "relevance" or "neighbors", default="relevance"
        What was compared.
    source : str, default=None
        Name or file of the data set.
    dataset, protocol, description : str, default=""
        Names of data set and protocol, and the split in a sentence.
    method : str
        A key of ``VARIANTS``.
    nbits : int
        Number of bits.
    seed : int
        Seed of the split and of the method.
    ap, ap_worst, ap_best, ndcg, precision_at_100, precision_radius_2 : float, default=None
        Metrics of relevance.
    neighbor_recall_at_10, neighbor_recall_at_10_worst, neighbor_recall_at_10_best : float, default=None
        Share of the ten nearest vectors of a query that are among the ten nearest codes; None for
        methods that do not encode queries.
    neighbor_recall_at_10_of_50 : float, default=None
        Share of them among the fifty nearest codes.
    real_neighbor_recall_at_10, ..._worst, ..._best, real_neighbor_recall_at_10_of_50 : float, default=None
        The same for queries that are not encoded.
    bytes_per_item : int, default=None
        Bytes that the method stores of an item, factors included.
    fit_seconds, codes_per_second : float, default=None
        Time of the fit, and speed of encoding the database.
    codes_sha256 : str, default=None
        SHA-256 of the packed codes of the database, in hex digits.
    curves : dict of str to list, default=None
        See :func:`skhash.comparison.evaluate_hasher`.
    parameters : dict, default={}
        Parameters that differ from the defaults.
    n_candidates : int, default=1
        Number of candidates that tuning compared.
    tuning_seconds : float, default=0.0
        Time of tuning.
    model : str, default=None
        File of the fitted hasher, relative to the folder of the results, if it was kept.
    not_applicable, error : str, default=None
        Why there are no metrics.
    seconds : float, default=0.0
        Time of everything.

    Examples
    --------
    >>> from skhash.comparison import Result
    >>> result = Result(dataset="digits", method="itq", nbits=16, seed=0, ap=0.5)
    >>> result.ap, result["ap"], Result.from_dict(result.to_dict()) == result
    (0.5, 0.5, True)
    """

    task: str = "relevance"
    source: str | None = None
    dataset: str = ""
    protocol: str = ""
    description: str = ""
    method: str
    nbits: int
    seed: int
    ap: float | None = None
    ap_worst: float | None = None
    ap_best: float | None = None
    ndcg: float | None = None
    precision_at_100: float | None = None
    precision_radius_2: float | None = None
    neighbor_recall_at_10: float | None = None
    neighbor_recall_at_10_worst: float | None = None
    neighbor_recall_at_10_best: float | None = None
    neighbor_recall_at_10_of_50: float | None = None
    real_neighbor_recall_at_10: float | None = None
    real_neighbor_recall_at_10_worst: float | None = None
    real_neighbor_recall_at_10_best: float | None = None
    real_neighbor_recall_at_10_of_50: float | None = None
    bytes_per_item: int | None = None
    fit_seconds: float | None = None
    codes_per_second: float | None = None
    codes_sha256: str | None = None
    curves: Mapping[str, list[float]] | None = field(default=None, repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    n_candidates: int = 1
    tuning_seconds: float = 0.0
    model: str | None = None
    not_applicable: str | None = None
    error: str | None = None
    seconds: float = 0.0

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        own = LAYOUTS[self.task].fields if self.task in LAYOUTS else frozenset()
        others = frozenset().union(*(layout.fields for layout in LAYOUTS.values())) - own
        others |= {"model"} if self.model is None else frozenset()
        return (field.name for field in fields(self) if field.name not in others)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def to_dict(self, *, curves: bool = False) -> dict[str, Any]:
        """Entry of ``results.json``.

        Parameters
        ----------
        curves : bool, default=False
            Whether to include the curves, which ``results.json`` leaves out.

        Returns
        -------
        dict
            Values that JSON can hold, by field.
        """
        return {name: value for name, value in self.items() if curves or name != "curves"}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Result":
        """Result from an entry of ``results.json``, of this or an earlier version.

        Parameters
        ----------
        values : dict
            At least "method", "nbits" and "seed". Unknown keys are ignored.

        Returns
        -------
        Result
            The result.

        Raises
        ------
        ValueError
            If a value is missing or has another type.
        """
        if missing := {"method", "nbits", "seed"} - values.keys():
            raise ValueError(
                f"A result must have the keys method, nbits and seed. {', '.join(sorted(missing))} is missing."
            )
        check_fields(cls, values)
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        return cls(**known)
