"""Compiled listwise metrics of a batch: soft counts, metric and derivative of each query in one pass.

The formulas are those of average_precision.py, ndcg.py and fast_ap.py on the soft counts of soft_histogram.py, which
stay the definition and the oracle. Every query is computed alone, in float64. A tie d of its ranking has ``n[d]`` items
of mass ``m[d]``: the number of relevant items ``p[d]``, or the gain. The sums over all ties do not depend on the
distances, so that normalizers are constants.
"""

import numba as nb
import numpy as np

AP, NDCG, FAST_AP = 0, 1, 2  # metrics of `listwise_metric`
SHIFT = 8.0  # digamma and its derivatives use their asymptotic series from here on
FAR = 32.0  # four terms of the series are exact from here on
TRACE = 1e-9  # a tie with fewer soft items counts as empty
POLE = 1e-3  # AP_T uses a series where n[d] is so near to 1


@nb.njit(nogil=True, error_model="numpy")
def digamma_and_trigamma(x):
    """psi(x) and psi'(x) for x > 0: recurrence up to SHIFT, then the asymptotic series."""
    psi, psi1 = 0.0, 0.0
    if x >= FAR:
        t = 1.0 / x
        s = t * t
        psi = np.log(x) - 0.5 * t - s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s / 240)))
        return psi, t + 0.5 * s + t * s * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s / 30)))
    while x < SHIFT:
        inverse = 1.0 / x
        psi -= inverse
        psi1 += inverse * inverse
        x += 1.0
    t = 1.0 / x
    s = t * t
    psi += np.log(x) - 0.5 * t
    psi -= s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760 - s / 12))))))
    series = 1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66 - s * (691 / 2730 - s * 7 / 6)))))
    psi1 += t + 0.5 * s + t * s * series
    return psi, psi1


@nb.njit(nogil=True, error_model="numpy")
def higher_polygamma(x):
    """psi''(x), psi'''(x) and psi''''(x) for x > 0, as `digamma_and_trigamma`."""
    psi2, psi3, psi4 = 0.0, 0.0, 0.0
    while x < 2 * SHIFT:
        inverse = 1.0 / x
        cube = inverse * inverse * inverse
        psi2 -= 2 * cube
        psi3 += 6 * cube * inverse
        psi4 -= 24 * cube * inverse * inverse
        x += 1.0
    t = 1.0 / x
    s = t * t
    psi2 -= s * (1 + t * (1 + t * (1 / 2 - s * (1 / 6 - s * (1 / 6 - s * (3 / 10 - s * 5 / 6))))))
    psi3 += t * s * (2 + t * (3 + t * (2 - s * (1 - s * (4 / 3 - s * (3 - s * 10))))))
    psi4 -= s * s * (6 + t * (12 + t * (10 - s * (7 - s * (12 - s * (33 - s * 130))))))
    return psi2, psi3, psi4


@nb.njit(nogil=True, error_model="numpy")
def _near_one(c, x):
    """Series of AP_T at c = n[d] - 1 near 0, with its two derivatives: `_near_one` of _precision_sums.py."""
    psi1 = digamma_and_trigamma(x)[1]
    psi2, psi3, psi4 = higher_polygamma(x)
    slope = psi1 + psi2 * c / 2 + psi3 * c * c / 6
    by_n = -(x - 1) * (psi2 / 2 + psi3 * c / 3)
    by_before = -slope - (x - 1) * (psi2 + psi3 * c / 2 + psi4 * c * c / 6)
    return 1 - (x - 1) * slope, by_n, by_before


@nb.njit(nogil=True, error_model="numpy")
def average_precision_terms(n, p, d_n, d_p):
    """AP_T times the number of relevant items, and its derivatives by `n` and `p`.

    The derivation is in _precision_sums_torch.py. ``d_n[d]`` first collects what acts through tie d
    alone, and ``by_rank[d]`` what acts through the last rank of tie d, which all ties up to d share.
    """
    n_ties = len(n)
    by_rank, by_relevant = np.zeros(n_ties + 1), np.zeros(n_ties + 1)  # of N_{d-1} and N+_{d-1}
    total, before, relevant_before = 0.0, 0.0, 0.0
    psi, psi1 = digamma_and_trigamma(1.0)
    for d in range(n_ties):
        if n[d] == 0:
            d_n[d], d_p[d] = 0.0, 0.0
            continue
        last_psi, last_psi1 = psi, psi1
        psi, psi1 = digamma_and_trigamma(before + n[d] + 1)
        harmonic = psi - last_psi
        single = abs(n[d] - 1) < POLE
        slope = 0.0 if single else 1 / (n[d] - 1)
        ratio, excess, offset = (p[d] - 1) * slope, n[d] - (before + 1) * harmonic, relevant_before + 1
        bracket = ratio * excess + offset * harmonic
        series, by_n, by_before = 0.0, 0.0, 0.0
        if single:
            series, by_n, by_before = _near_one(n[d] - 1, before + 2)
            bracket += (p[d] - 1) * series
        items = max(n[d], TRACE)
        share = p[d] / items
        total += share * bracket
        d_harmonic = share * (offset - ratio * (before + 1))
        d_p[d] = bracket / items + share * (excess * slope + series)
        d_n[d] = share * (ratio - bracket / items - excess * ratio * slope + (p[d] - 1) * by_n)
        by_rank[d + 1] += d_harmonic * psi1
        by_rank[d] += share * (p[d] - 1) * by_before - d_harmonic * last_psi1 - share * ratio * harmonic
        by_relevant[d] = share * harmonic
        before += n[d]
        relevant_before += p[d]
    _add_later(by_rank, by_relevant, d_n, d_p)
    return total


@nb.njit(nogil=True, error_model="numpy")
def _add_later(by_rank, by_mass, d_n, d_m):
    """Add to the derivatives of each tie what acts through N_d and M_d, the sums over the ties up to d."""
    rank, mass = 0.0, 0.0
    for d in range(len(d_n) - 1, -1, -1):
        rank += by_rank[d + 1]
        mass += by_mass[d + 1]
        d_n[d] += rank
        d_m[d] += mass


@nb.njit(nogil=True, error_model="numpy")
def discounted_gain_terms(n, gain, discounts, d_n, d_gain):
    """DCG_T and its derivatives by `n` and `gain`; `discounts` are the sums S(0), S(1), ..."""
    by_rank, by_gain = np.zeros(len(n) + 1), np.zeros(len(n) + 1)
    total, before, last_sum, last_step = 0.0, 0.0, 0.0, discounts[1]
    for d in range(len(n)):
        rank = before + n[d]
        whole = int(rank)
        step = discounts[whole + 1] - discounts[whole]
        current_sum = discounts[whole] + (rank - whole) * step
        items = max(n[d], TRACE)
        share = gain[d] / items
        total += share * (current_sum - last_sum)
        d_gain[d] = (current_sum - last_sum) / items
        d_n[d] = -share * d_gain[d] if n[d] >= TRACE else 0.0
        by_rank[d + 1] += share * step
        by_rank[d] -= share * last_step
        before, last_sum, last_step = rank, current_sum, step
    _add_later(by_rank, by_gain, d_n, d_gain)
    return total


@nb.njit(nogil=True, error_model="numpy")
def fast_ap_terms(n, p, d_n, d_p):
    """FastAP times the number of relevant items, and its derivatives by `n` and `p`."""
    by_rank, by_relevant = np.zeros(len(n) + 1), np.zeros(len(n) + 1)
    total, rank, relevant = 0.0, 0.0, 0.0
    for d in range(len(n)):
        rank += n[d]
        relevant += p[d]
        precision = relevant / rank if rank > 0 else 0.0
        total += p[d] * precision
        d_n[d], d_p[d] = 0.0, precision
        by_rank[d + 1] = -p[d] * precision / rank if rank > 0 else 0.0
        by_relevant[d + 1] = p[d] / rank if rank > 0 else 0.0
    _add_later(by_rank, by_relevant, d_n, d_p)
    return total


@nb.njit(nogil=True, error_model="numpy")
def _place(products, query, offset, scale, n_bins, below, upper):
    """Bin below each item, and the item's share of the next bin. The query itself falls beyond the last bin."""
    last = np.int32(n_bins - 1)
    for i in range(len(products)):
        position = (offset - products[i]) * scale
        b = min(max(np.int32(position), np.int32(0)), last)
        below[i] = b
        upper[i] = min(max(position - b, 0.0), 1.0)
    below[query] = n_bins


@nb.njit(nogil=True, error_model="numpy")
def _count(below, upper, shares, n):
    """Soft counts of one query: an item gives a share to the bin below it, and the rest to the next.

    Successive items are counted apart, since an increment waits for the one before it in the same bin.
    """
    shares[:] = 0.0
    even, odd = shares[0], shares[1]
    half = len(below) // 2
    for i in range(half):
        b, u = below[2 * i], upper[2 * i]
        even[b, 0] += 1.0 - u
        even[b, 1] += u
        b, u = below[2 * i + 1], upper[2 * i + 1]
        odd[b, 0] += 1.0 - u
        odd[b, 1] += u
    for i in range(2 * half, len(below)):
        even[below[i], 0] += 1.0 - upper[i]
        even[below[i], 1] += upper[i]
    last = 0.0
    for d in range(len(n)):
        own = even[d, 0] + odd[d, 0] if d + 1 < len(n) else 0.0  # the last place holds the query
        n[d] = own + last
        last = even[d, 1] + odd[d, 1]


@nb.njit(nogil=True, error_model="numpy")
def _count_mass(level, query, masses, below, upper, chosen, m):
    """Masses of the ties of one query, as `_count`, and the items that have a mass. Returns their number."""
    n_chosen = 0
    for i in range(len(level)):
        chosen[n_chosen] = i
        n_chosen += masses[level[i]] != 0.0 and i != query
    m[:] = 0.0
    for c in range(n_chosen):
        i = chosen[c]
        mass = masses[level[i]]
        m[below[i]] += mass * (1.0 - upper[i])
        m[below[i] + 1] += mass * upper[i]
    return n_chosen


@nb.njit(nogil=True, error_model="numpy")
def _normalizer(level, query, metric, masses, discounts, chosen, n_chosen):
    """Largest value of the sum over the ties: the number of relevant items, or the DCG of items sorted by level."""
    if metric != NDCG:
        return float(n_chosen)
    level_totals = np.zeros(len(masses), np.int64)
    for c in range(n_chosen):
        level_totals[level[chosen[c]]] += 1
    ideal, before = 0.0, 0
    for v in range(len(masses) - 1, -1, -1):
        last = before + level_totals[v]
        ideal += masses[v] * (discounts[last] - discounts[before])
        before = last
    return ideal


@nb.njit(nogil=True, cache=True, error_model="numpy")
def listwise_metric(products, level, offset, scale, n_bins, metric, masses, discounts, values, defined, slopes):
    """Metric of each sample of a batch that ranks the others, and its derivative by each inner product.

    Parameters
    ----------
    products : float32 or float64 array of shape (n, n)
        Half the inner products of the samples.
    level : unsigned integer array of shape (n, n)
        Index of the level of each pair.
    offset, scale : scalars of the same type
        ``scale * (offset - products)`` are the soft distances in units of a bin, in [0, n_bins].
    n_bins : int
        Number of bins above bin 0.
    metric : int
        AP, NDCG or FAST_AP.
    masses : float64 array of shape (n_levels,)
        Mass of an item of each level, 0 for the first: 1 for AP and FastAP, the gain for NDCG.
    discounts : float64 array of shape (>= n + 2,)
        Sums of the discounts up to each rank.
    values : float64 array of shape (n,)
        Receives the metrics, 0 where they are not defined.
    defined : bool array of shape (n,)
        Receives whether something is relevant to the sample.
    slopes : array of shape (n, n), of the type of the products
        Receives the derivatives of the metric of a row by the products in that row.
    """
    below, upper = np.empty(len(products), np.uint32), np.empty(len(products))
    chosen = np.empty(len(products), np.uint32)
    shares = np.empty((2, n_bins + 1, 2))
    n, m, d_n, d_m = np.empty((4, n_bins + 1))
    for q in range(len(products)):
        _place(products[q], q, offset, scale, n_bins, below, upper)
        n_chosen = _count_mass(level[q], q, masses, below, upper, chosen, m)
        normalizer = _normalizer(level[q], q, metric, masses, discounts, chosen, n_chosen)
        defined[q] = normalizer > 0
        if not defined[q]:
            values[q] = 0.0
            slopes[q] = 0.0
            continue
        _count(below, upper, shares, n)
        if metric == AP:
            total = average_precision_terms(n, m, d_n, d_m)
        elif metric == NDCG:
            total = discounted_gain_terms(n, m, discounts, d_n, d_m)
        else:
            total = fast_ap_terms(n, m, d_n, d_m)
        values[q] = total / normalizer
        for d in range(n_bins):  # from derivatives by counts to derivatives by products, which are nearer if larger
            d_n[d] = (d_n[d] - d_n[d + 1]) * scale / normalizer
            d_m[d] = (d_m[d] - d_m[d + 1]) * scale / normalizer
        d_n[n_bins] = 0.0  # of the query itself
        for i in range(len(products)):
            slopes[q, i] = d_n[below[i]]
        for c in range(n_chosen):
            i = chosen[c]
            slopes[q, i] = d_n[below[i]] + masses[level[q, i]] * d_m[below[i]]


@nb.njit(nogil=True, cache=True, error_model="numpy")
def add_transposed(slopes, weights, sums):
    """Sums of each pair of derivatives, since the product of two samples is in both of their rows.

    Parameters
    ----------
    slopes : array of shape (n, n)
        Derivatives of each row's value.
    weights : array of shape (n,)
        Derivatives by the values.
    sums : array of shape (n, n)
        Receives ``weights[:, None] * slopes`` plus its transpose.
    """
    n = len(slopes)
    for start in range(0, n, 16):  # columns that stay in the cache
        for i in range(n):
            for j in range(start, min(start + 16, n)):
                sums[i, j] = weights[i] * slopes[i, j] + weights[j] * slopes[j, i]
