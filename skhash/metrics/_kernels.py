"""Compiled listwise metrics of a batch: soft counts, metric and derivative of each query in one pass.

The formulas are those of average_precision.py, ndcg.py and fast_ap.py on the soft counts of soft_histogram.py, which
stay the definition and the oracle. Every query is computed alone, in float64. A tie d of its ranking has ``n[d]`` items
of mass ``m[d]``: the number of relevant items ``p[d]``, or the gain. The sums over all ties do not depend on the
distances, so that normalizers are constants.
"""

import numba as nb
import numpy as np

AP, NDCG, FAST_AP = 0, 1, 2  # metrics of `listwise_metric`
SHIFT = 16.0  # higher derivatives of digamma use their asymptotic series from here on
ROOT_HALF, MANTISSA = 0x3FE6A09E667F3BCD, 0xFFFFFFFFFFFFF  # bits of sqrt(1 / 2), and those of a mantissa
LOG_2 = 0.6931471805599453
TRACE = 1e-9  # a tie with fewer soft items counts as empty
POLE = 1e-3  # AP_T uses a series where n[d] is so near to 1
TILE = 8  # samples whose sums are transposed at a time


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _log(x):
    """log(x) for x > 0 without a call, so that loops with it are vectorized: x = 2**k m, m near 1."""
    bits = np.int64(np.float64(x).view(np.int64) - ROOT_HALF)
    m = np.int64((bits & MANTISSA) + ROOT_HALF).view(np.float64)
    t = (m - 1.0) / (m + 1.0)
    s = t * t
    series = 1 / 11 + s * (1 / 13 + s * (1 / 15 + s * (1 / 17 + s / 19)))
    series = 1 + s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * series))))
    return np.float64(np.int32(bits >> 52)) * LOG_2 + 2 * t * series


@nb.njit(nogil=True, error_model="numpy", inline="always")
def digamma_and_trigamma(x):
    """psi(x) and psi'(x) for x > 0: eight steps of the recurrence as one fraction, then the asymptotic series.

    The eight terms 1 / (x + k) are added in pairs: with z = x (x + 7) and Q(z) = z (z + 6) (z + 10) (z + 12), their sum
    is (2 x + 7) Q'(z) / Q(z).
    """
    z, w = x * (x + 7), 2 * x + 7
    inverse = 1.0 / (z * (720 + z * (252 + z * (28 + z))))
    first = inverse * (720 + z * (504 + z * (84 + 4 * z)))
    second = inverse * (504 + z * (168 + 12 * z))
    t = 1.0 / (x + 8)
    s = t * t
    psi = _log(x + 8) - 0.5 * t - w * first
    psi -= s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * 691 / 32760)))))
    psi1 = t + 0.5 * s + t * s * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66 - s * 691 / 2730)))))
    return psi, psi1 + w * w * (first * first - second) - 2 * first


@nb.njit(nogil=True, error_model="numpy")
def _harmonics(ranks, psi, psi1):
    """psi(r + 1) and psi'(r + 1) for ranks r."""
    for d in range(len(psi)):
        psi[d], psi1[d] = digamma_and_trigamma(ranks[d] + 1)


@nb.njit(nogil=True, error_model="numpy")
def higher_polygamma(x):
    """psi''(x), psi'''(x) and psi''''(x) for x > 0, as `digamma_and_trigamma`."""
    psi2, psi3, psi4 = 0.0, 0.0, 0.0
    while x < SHIFT:
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
def average_precision_terms(n, p, d_n, d_p, work):
    """AP_T times the number of relevant items, and its derivatives by `n` and `p`.

    The derivation is in _precision_sums_torch.py. The sum over the ties is that of ``share * bracket``. What acts
    through the last rank of tie d, all ties up to d share. Loops with one output each are vectorized.
    """
    n_ties = len(n)
    before, relevant_before, psi, psi1 = work[0], work[1], work[2, : n_ties + 1], work[3, : n_ties + 1]
    per_item, slope, bracket, d_harmonic = work[4], work[5], work[6], work[7]
    before[0], relevant_before[0] = 0.0, 0.0
    for d in range(n_ties):
        before[d + 1] = before[d] + n[d]
        relevant_before[d + 1] = relevant_before[d] + p[d]
    _harmonics(before, psi, psi1)
    for d in range(n_ties):
        per_item[d] = 1 / max(n[d], TRACE)
    for d in range(n_ties):
        slope[d] = 0.0 if abs(n[d] - 1) < POLE else 1 / (n[d] - 1)
    for d in range(n_ties):
        harmonic = psi[d + 1] - psi[d]
        excess = n[d] - (before[d] + 1) * harmonic
        bracket[d] = (p[d] - 1) * slope[d] * excess + (relevant_before[d] + 1) * harmonic
    for d in range(n_ties):
        excess = n[d] - (before[d] + 1) * (psi[d + 1] - psi[d])
        d_p[d] = per_item[d] * (bracket[d] + p[d] * excess * slope[d])
    for d in range(n_ties):
        excess = n[d] - (before[d] + 1) * (psi[d + 1] - psi[d])
        ratio = (p[d] - 1) * slope[d]
        d_n[d] = p[d] * per_item[d] * (ratio - bracket[d] * per_item[d] - excess * ratio * slope[d])
    for d in range(n_ties):
        ratio = (p[d] - 1) * slope[d]
        d_harmonic[d] = p[d] * per_item[d] * (relevant_before[d] + 1 - ratio * (before[d] + 1))
    return _add_ranks(n, p, d_n, d_p, work)


@nb.njit(nogil=True, error_model="numpy")
def _add_ranks(n, p, d_n, d_p, work):
    """Sum of AP_T. Adds to the derivatives what acts through ranks, and the series of ties of nearly one item."""
    before, psi, psi1 = work[0], work[2], work[3]
    per_item, slope, bracket, d_harmonic = work[4], work[5], work[6], work[7]
    total, by_rank, by_relevant = 0.0, 0.0, 0.0
    for d in range(len(n) - 1, -1, -1):
        share, harmonic = p[d] * per_item[d], psi[d + 1] - psi[d]
        total += share * bracket[d]
        d_n[d] += by_rank + d_harmonic[d] * psi1[d + 1]
        d_p[d] += by_relevant
        by_rank += d_harmonic[d] * (psi1[d + 1] - psi1[d]) - share * (p[d] - 1) * slope[d] * harmonic
        by_relevant += share * harmonic
        if abs(n[d] - 1) < POLE:
            series, by_n, by_before = _near_one(n[d] - 1, before[d] + 2)
            total += share * (p[d] - 1) * series
            d_n[d] += share * (p[d] - 1) * (by_n - series * per_item[d])
            d_p[d] += ((p[d] - 1) * per_item[d] + share) * series
            by_rank += share * (p[d] - 1) * by_before
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
def discounted_gain_terms(n, gain, discounts, d_n, d_gain, work):
    """DCG_T and its derivatives by `n` and `gain`; `discounts` are the sums S(0), S(1), ..."""
    by_rank, by_gain = work[:2, : len(n) + 1]
    by_rank[:], by_gain[:] = 0.0, 0.0
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
def fast_ap_terms(n, p, d_n, d_p, work):
    """FastAP times the number of relevant items, and its derivatives by `n` and `p`."""
    by_rank, by_relevant = work[:2, : len(n) + 1]
    by_rank[:], by_relevant[:] = 0.0, 0.0
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
def _place(products, level, query, offset, scale, n_bins, places, parts):
    """Place of each item, and the part of it that the next bin gets.

    Places are the bins below the irrelevant items, one that nothing uses but the query itself, and as many more for
    the relevant items.
    """
    zero, one, last = products.dtype.type(0), products.dtype.type(1), np.int32(n_bins - 1)
    for i in range(len(products)):
        position = (offset - products[i]) * scale
        b = min(max(np.int32(position), np.int32(0)), last)
        parts[i] = min(max(position - b, zero), one)
        places[i] = b + np.int32(level[i] != 0) * np.int32(n_bins + 1)
    places[query] = n_bins


@nb.njit(nogil=True, error_model="numpy")
def _count(places, parts, sums, n, p):
    """Soft counts of the items and of the relevant items of one query.

    Returns the number of relevant items, and the first and the last bin with items. Counts of other ties stay unset.

    An item adds 1 and its part to the sums of its place. Successive items are added apart, since a sum waits for the
    one before it in the same place.
    """
    sums[:] = 0.0
    even, odd = sums[0], sums[1]
    half = len(places) // 2
    for i in range(half):
        even[places[2 * i], 0] += 1.0
        even[places[2 * i], 1] += parts[2 * i]
        odd[places[2 * i + 1], 0] += 1.0
        odd[places[2 * i + 1], 1] += parts[2 * i + 1]
    for i in range(2 * half, len(places)):
        even[places[i], 0] += 1.0
        even[places[i], 1] += parts[i]
    n_bins, n_relevant = len(n) - 1, 0.0
    even += odd
    first, last = 0, n_bins - 1
    while first < last and even[first, 0] + even[n_bins + 1 + first, 0] == 0:
        first += 1
    while last > first and even[last, 0] + even[n_bins + 1 + last, 0] == 0:
        last -= 1
    n[first], p[first] = 0.0, 0.0
    for d in range(first, last + 1):
        relevant, relevant_upper = even[n_bins + 1 + d]
        upper = even[d, 1] + relevant_upper
        n[d] += even[d, 0] + relevant - upper
        p[d] += relevant - relevant_upper
        n[d + 1], p[d + 1] = upper, relevant_upper
        n_relevant += relevant
    return n_relevant, first, last


@nb.njit(nogil=True, error_model="numpy")
def _count_gains(places, parts, level, masses, discounts, gain):
    """Gains of the ties of one query. Returns the largest DCG, that of the items sorted by level."""
    n_bins = len(gain) - 1
    level_totals = np.zeros(len(masses), np.int64)
    gain[:] = 0.0
    for i in range(len(places)):
        if places[i] > n_bins:
            d, part = places[i] - n_bins - 1, parts[i]
            gain[d] += masses[level[i]] * (1 - part)
            gain[d + 1] += masses[level[i]] * part
            level_totals[level[i]] += 1
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
    places, parts = np.empty(len(products), np.uint32), np.empty(len(products), products.dtype)
    sums = np.empty((2, 2 * n_bins + 2, 2))
    n, m, d_n, d_m = np.empty((4, n_bins + 1))
    work, table = np.empty((8, n_bins + 2)), np.zeros(2 * n_bins + 2, products.dtype)
    for q in range(len(products)):
        _place(products[q], level[q], q, offset, scale, n_bins, places, parts)
        n_relevant, first, last = _count(places, parts, sums, n, m)
        defined[q] = n_relevant > 0
        if not defined[q]:
            values[q] = 0.0
            slopes[q] = 0.0
            continue
        ties, normalizer = slice(first, last + 2), n_relevant
        if metric == AP:
            total = average_precision_terms(n[ties], m[ties], d_n[ties], d_m[ties], work)
        elif metric == NDCG:
            normalizer = _count_gains(places, parts, level[q], masses, discounts, m)
            total = discounted_gain_terms(n[ties], m[ties], discounts, d_n[ties], d_m[ties], work)
        else:
            total = fast_ap_terms(n[ties], m[ties], d_n[ties], d_m[ties], work)
        values[q] = total / normalizer
        for d in range(first, last + 1):  # from derivatives by counts to those by products, nearer if larger
            by_n, by_m = (d_n[d] - d_n[d + 1]) * (scale / normalizer), (d_m[d] - d_m[d + 1]) * (scale / normalizer)
            table[d], table[n_bins + 1 + d] = by_n, by_m if metric == NDCG else by_n + by_m
        for i in range(len(products)):
            slopes[q, i] = table[places[i]]
        if metric == NDCG:
            for i in range(len(products)):
                if places[i] > n_bins:
                    slopes[q, i] = table[places[i] - n_bins - 1] + masses[level[q, i]] * slopes[q, i]


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
    n, tile = len(slopes), np.empty((TILE, TILE), slopes.dtype)
    n_whole = n - n % TILE
    for a in range(0, n_whole, TILE):
        for b in range(a, n_whole, TILE):
            for j in range(TILE):
                for i in range(TILE):
                    tile[i, j] = weights[b + j] * slopes[b + j, a + i]
            for i in range(TILE):
                for j in range(TILE):
                    tile[i, j] += weights[a + i] * slopes[a + i, b + j]
                    sums[a + i, b + j] = tile[i, j]
            for j in range(TILE):
                for i in range(TILE):
                    sums[b + j, a + i] = tile[i, j]
    for i in range(n_whole, n):
        for j in range(i + 1):
            sums[i, j] = weights[i] * slopes[i, j] + weights[j] * slopes[j, i]
            sums[j, i] = sums[i, j]
