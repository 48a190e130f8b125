"""Closed form of AP_T (see average_precision.py): the terms of each tie, and the bracket term {...}."""

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from skhash.metrics._ties import digamma, items_before, polygamma, ranks_within


class TieTerms(NamedTuple):
    """Terms of each tie; the bracket term is ``ratio * excess + offset * harmonic``."""

    before: Any  #: N_{d-1}
    harmonic: Any  #: psi(T + 1) - psi(N_{d-1} + 1)
    slope: Any  #: 1 / (n_d - 1), or 0 near the pole n_d = 1
    ratio: Any  #: r_d, or 0 near the pole
    excess: Any  #: m - (N_{d-1} + 1) harmonic
    offset: Any  #: N+_{d-1} + 1
    single: Any  #: indices of the ties with n_d near 1, where slope * excess is computed as a series
    series: Any  #: slope * excess of these ties, and its derivatives with respect to n_d and N_{d-1}


def tie_terms(n, p, k=None):
    """Terms of ties with n items, p of them relevant, both of shape (n_queries, n_ties), up to rank k."""
    xp = array_namespace(n)
    last = ranks_within(n)
    ranks = last if k is None else ranks_within(n, k)
    before, counted = last[..., :-1], n if k is None else xp.diff(ranks, axis=-1)
    harmonic = xp.diff(digamma(ranks + 1), axis=-1)
    single = xp.abs(n - 1) < 1e-3
    if k is not None:
        # ranks are compared, since a difference of soft ranks can be below n by rounding
        cut = before + n > k
        single = single & ~cut
    divisor = xp.where(single, xp.inf, n - 1)
    if k is not None:
        # bounds the ratio of a cut tie of fewer than two soft items; exact for whole items
        divisor = xp.where(cut & (n < 2), 1.0, divisor)
    slope, excess = 1 / divisor, counted - (before + 1) * harmonic
    if isinstance(n, np.ndarray):  # one whole relevant item adds 0, but torch needs the gradient
        single = single & (p > 0) & ((n != 1) | (p != 1))
    where = xp.nonzero(single)
    series = _near_one(n[where] - 1, before[where] + 2)
    return TieTerms(before, harmonic, slope, (p - 1) * slope, excess, items_before(p) + 1, where, series)


def bracket_term(p, terms):
    """Bracket term of each tie."""
    values = terms.ratio * terms.excess + terms.offset * terms.harmonic
    values[terms.single] += (p[terms.single] - 1) * terms.series[0]
    return values


def _near_one(c, x):
    """[n_d - (N_{d-1} + 1) harmonic] / c at c = n_d - 1 near 0, x = N_{d-1} + 2, and its two derivatives.

    It is the Taylor series around c = 0, to second order so that the gradient is accurate, too.
    """
    psi1, psi2, psi3, psi4 = (polygamma(order, x) for order in (1, 2, 3, 4))
    slope = psi1 + psi2 * c / 2 + psi3 * c**2 / 6
    by_n = -(x - 1) * (psi2 / 2 + psi3 * c / 3)
    by_before = -slope - (x - 1) * (psi2 + psi3 * c / 2 + psi4 * c**2 / 6)
    return 1 - (x - 1) * slope, by_n, by_before
