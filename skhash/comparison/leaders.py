"""Who leads at a code length, by how much, and whether that is more than chance between the seeds.

The lead is the mean over the seeds of the difference on one and the same split, and its
standard error is that of these paired differences, s / sqrt(n).
"""

from dataclasses import dataclass

import numpy as np

NAMES = {"ap": "AP_T", "ndcg": "NDCG_T"}
_COLUMNS = NAMES | {"precision_at_100": "P@100", "precision_radius_2": "P@radius 2"}


@dataclass(frozen=True)
class Lead:
    """The first and the second of the methods at one code length.

    Parameters
    ----------
    figure : str
        By which figure, a key of the rows.
    leader : str
        The method of the highest mean.
    value : float
        That mean.
    runner_up : str or None
        The method of the second highest mean; None without a rival.
    lead : float
        Mean of the paired differences.
    standard_error : float or None
        Theirs; None for a single seed.
    """

    figure: str
    leader: str
    value: float
    runner_up: str | None = None
    lead: float = 0.0
    standard_error: float | None = None

    @property
    def is_clear(self):
        """Whether the lead exceeds two standard errors."""
        return self.standard_error is not None and self.lead > 2 * self.standard_error


def find_lead(rows, figure="ap"):
    """Find the leader among the methods that have finished every seed.

    Parameters
    ----------
    rows : list of dict
        Rows of one data set and code length.
    figure : str, default="ap"
        The figure, a key of the rows.

    Returns
    -------
    lead : Lead or None
        None if no method has figures.
    left_out : list of str
        Methods that have figures for some of the seeds only.

    Examples
    --------
    >>> from skhash.comparison.leaders import find_lead
    >>> figures = {"a": [0.5, 0.75], "b": [0.25, 0.25]}
    >>> rows = [{"method": name, "seed": seed, "ap": ap} for name in figures for seed, ap in enumerate(figures[name])]
    >>> find_lead(rows)[0]
    Lead(figure='ap', leader='a', value=0.625, runner_up='b', lead=0.375, standard_error=0.125)
    """
    values: dict = {}
    for row in rows:
        if row[figure] is not None:
            values.setdefault(row["method"], {})[row["seed"]] = row[figure]
    if not values:
        return None, []
    seeds = max((sorted(own) for own in values.values()), key=len)
    paired = {name: np.array([own[seed] for seed in seeds]) for name, own in values.items() if sorted(own) == seeds}
    left_out = [name for name in values if name not in paired]
    leader, *rivals = sorted(paired, key=lambda name: -paired[name].mean())
    value = float(paired[leader].mean())
    if not rivals:
        return Lead(figure, leader, value), left_out
    differences = paired[leader] - paired[rivals[0]]
    error = float(differences.std(ddof=1) / np.sqrt(len(seeds))) if len(seeds) > 1 else None
    return Lead(figure, leader, value, rivals[0], float(differences.mean()), error), left_out


def column_sentence(bits, rows):
    """Say who leads at a code length, in each column of the table.

    Parameters
    ----------
    bits : int
        The code length.
    rows : list of dict
        Rows of one data set and this code length.

    Returns
    -------
    str
        A sentence.
    """
    parts, left_out = [], []
    for figure in _COLUMNS:
        lead, left_out = find_lead(rows, figure)
        if lead is None:
            return f"{bits} bits: no method has figures."
        parts.append(_clause(lead))
    note = f" Left out, as not all of their seeds are there: {', '.join(left_out)}." if left_out else ""
    return f"{bits} bits: {'; '.join(parts)}.{note}"


def _clause(lead):
    text = f"{lead.leader} leads {_COLUMNS[lead.figure]} with {lead.value:.3f}"
    if lead.runner_up is None:
        return f"{text}, without a rival"
    if lead.lead == 0:
        return f"{text}, level with {lead.runner_up}"
    text += f", {lead.lead:.3f} ahead of {lead.runner_up}"
    if lead.standard_error is None:
        return f"{text} (one seed, which has no standard error)"
    error = f"{lead.standard_error:.3f}" if lead.standard_error >= 0.0005 else "< 0.001"
    return f"{text} ({'more' if lead.is_clear else 'not more'} than twice the standard error, {error})"
