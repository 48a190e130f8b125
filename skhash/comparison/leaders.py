"""The best method at each number of bits, its lead, and whether the lead is significant.

The lead is the mean over the seeds of the difference on the same split. Its standard error
is that of these paired differences, s / sqrt(n).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: metric to its head in tables
HEADS = {"ap": "AP_T", "ndcg": "NDCG_T", "precision_at_100": "P@100", "precision_radius_2": "P@radius 2"}


@dataclass(frozen=True)
class Lead:
    """The best and the second best method at one number of bits.

    Parameters
    ----------
    metric : str
        The metric, a key of the results.
    leader : str
        The method with the highest mean.
    value : float
        That mean.
    runner_up : str, default=None
        The method with the second highest mean, None if there is a single method.
    lead : float, default=0.0
        Mean of the paired differences.
    standard_error : float, default=None
        Standard error of `lead`, None for a single seed.
    """

    metric: str
    leader: str
    value: float
    runner_up: str | None = None
    lead: float = 0.0
    standard_error: float | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the lead exceeds two standard errors."""
        return self.standard_error is not None and self.lead > 2 * self.standard_error


def find_lead(results: Sequence[Mapping[str, Any]], metric: str = "ap") -> tuple[Lead | None, list[str]]:
    """Lead of the best method among those with results for every seed.

    Parameters
    ----------
    results : sequence of Result or of dict
        Results of one data set and number of bits, with "method", "seed" and the metric.
    metric : str, default="ap"
        The metric, a key of the results.

    Returns
    -------
    lead : Lead or None
        None if no method has results.
    left_out : list of str
        Methods that have results for some of the seeds only.

    Examples
    --------
    >>> from skhash.comparison import find_lead
    >>> values = {"a": [0.5, 0.75], "b": [0.25, 0.25]}
    >>> results = [
    ...     {"method": name, "seed": seed, "ap": ap}
    ...     for name in values
    ...     for seed, ap in enumerate(values[name])
    ... ]
    >>> lead, _ = find_lead(results)
    >>> lead.leader, lead.runner_up, lead.lead, lead.standard_error
    ('a', 'b', 0.375, 0.125)
    """
    values: dict[str, dict[int, float]] = {}
    for result in results:
        if result[metric] is not None:
            values.setdefault(result["method"], {})[result["seed"]] = result[metric]
    if not values:
        return None, []
    seeds = max((sorted(own) for own in values.values()), key=len)
    paired = {name: np.array([own[seed] for seed in seeds]) for name, own in values.items() if sorted(own) == seeds}
    left_out = [name for name in values if name not in paired]
    leader, *others = sorted(paired, key=lambda name: -paired[name].mean())
    value = float(paired[leader].mean())
    if not others:
        return Lead(metric, leader, value), left_out
    differences = paired[leader] - paired[others[0]]
    error = float(differences.std(ddof=1) / np.sqrt(len(seeds))) if len(seeds) > 1 else None
    return Lead(metric, leader, value, others[0], float(differences.mean()), error), left_out


def leader_sentences(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentence for each number of bits: the best method in each metric, and its lead.

    Parameters
    ----------
    results : sequence of Result or of dict
        Results of one data set.

    Returns
    -------
    list of str
        The sentences.

    Examples
    --------
    >>> from skhash.comparison import Result, leader_sentences
    >>> leader_sentences([Result(method="itq", nbits=8, seed=0)])
    ['8 bits: no method has results.']
    """
    columns: dict[int, list[Mapping[str, Any]]] = {}
    for result in results:
        columns.setdefault(result["nbits"], []).append(result)
    return [f"{bits} bits: {_describe_column(column)}" for bits, column in columns.items()]


def _describe_column(results: Sequence[Mapping[str, Any]]) -> str:
    leads: dict[str, list[str]] = {}
    left_out: list[str] = []
    for metric, head in HEADS.items():
        lead, left_out = find_lead(results, metric)
        if lead is None:
            return "no method has results."
        leads.setdefault(lead.leader, []).append(f"{head}{_describe_lead(lead)}")
    text = "; ".join(f"{leader} is best in {', '.join(metrics)}" for leader, metrics in leads.items())
    note = f" Left out, since some of their seeds are missing: {', '.join(left_out)}." if left_out else ""
    return f"{text}.{note}"


def _describe_lead(lead: Lead) -> str:
    if lead.runner_up is None:
        return ""
    if lead.lead == 0:
        return f" (equal to {lead.runner_up})"
    text = f"{lead.lead:.3f} above {lead.runner_up}"
    if lead.standard_error is None:
        return f" ({text}, one seed)"
    error = f"{lead.standard_error:.3f}" if lead.standard_error >= 0.0005 else "< 0.001"
    return f" ({text}, standard error {error}{'' if lead.is_clear else ', not significant'})"
