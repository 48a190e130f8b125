"""Compiled listwise metrics of a batch: soft counts, metric and derivative of several queries in one pass.

The formulas are those of average_precision.py, ndcg.py and fast_ap.py on the soft counts of soft_histogram.py, which
stay the definition and the oracle. Sums are float64. A tie d of a ranking has ``n[d]`` items of mass ``m[d]``: the
number of relevant items ``p[d]``, or the gain. The sums over all ties do not depend on the distances, so that
normalizers are constants.

LANES queries are computed side by side: value l of tie d, that of query l, is at ``d * LANES + l`` of a flat array. So
loops over all values are vectorized, and so are sums over ties, which add the value LANES before. No query depends on
another one.
"""

import numba as nb
import numpy as np

AP, NDCG, FAST_AP = 0, 1, 2  # metrics of `listwise_metric`
SHIFT = 16.0  # higher derivatives of digamma use their asymptotic series from here on
ROOT_HALF, MANTISSA = 0x3FE6A09E667F3BCD, 0xFFFFFFFFFFFFF  # bits of sqrt(1 / 2), and those of a mantissa
LOG_2 = 0.6931471805599453
TRACE = 1e-9  # a tie with fewer soft items counts as empty
POLE = 1e-3  # AP_T uses a series where n[d] is so near to 1
LANES = 8  # queries that are computed side by side
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
def _add_up(values, sums):
    """Sums of the values of the ties before each tie, for one more tie than there are values."""
    sums[:LANES] = 0.0
    for i in range(len(values)):
        sums[i + LANES] = sums[i] + values[i]


@nb.njit(nogil=True, error_model="numpy")
def _add_later(values):
    """Add to each value those of all later ties, in place."""
    for i in range(len(values) - LANES - 1, -1, -1):
        values[i] += values[i + LANES]


@nb.njit(nogil=True, error_model="numpy")
def _sum_ties(values, totals):
    """Sums of the values of all ties."""
    totals[:] = 0.0
    for d in range(0, len(values), LANES):
        for lane in range(LANES):
            totals[lane] += values[d + lane]


@nb.njit(nogil=True, error_model="numpy")
def average_precision_terms(n, p, totals, d_n, d_p, work):
    """AP_T times the number of relevant items, and its derivatives by `n` and `p`.

    The derivation is in _precision_sums_torch.py. The sum over the ties is that of ``share * bracket``. What acts
    through the last rank of tie d, all ties up to d share. Loops with one output each are vectorized.
    """
    size = len(n)
    before, relevant_before, psi, psi1 = work[0], work[1], work[2, : size + LANES], work[3, : size + LANES]
    per_item, slope, bracket, d_harmonic = work[4], work[5], work[6], work[7]
    by_rank, by_relevant = work[8, : size + LANES], work[9, : size + LANES]
    _add_up(n, before)
    _add_up(p, relevant_before)
    _harmonics(before, psi, psi1)
    for i in range(size):
        per_item[i] = 1 / max(n[i], TRACE)
    for i in range(size):
        slope[i] = 0.0 if abs(n[i] - 1) < POLE else 1 / (n[i] - 1)
    for i in range(size):
        harmonic = psi[i + LANES] - psi[i]
        excess = n[i] - (before[i] + 1) * harmonic
        bracket[i] = (p[i] - 1) * slope[i] * excess + (relevant_before[i] + 1) * harmonic
    for i in range(size):
        excess = n[i] - (before[i] + 1) * (psi[i + LANES] - psi[i])
        d_p[i] = per_item[i] * (bracket[i] + p[i] * excess * slope[i])
    for i in range(size):
        ratio = (p[i] - 1) * slope[i]
        d_harmonic[i] = p[i] * per_item[i] * (relevant_before[i] + 1 - ratio * (before[i] + 1))
    for i in range(size):
        excess = n[i] - (before[i] + 1) * (psi[i + LANES] - psi[i])
        ratio = (p[i] - 1) * slope[i]
        by_tie = p[i] * per_item[i] * (ratio - bracket[i] * per_item[i] - excess * ratio * slope[i])
        d_n[i] = by_tie + d_harmonic[i] * psi1[i + LANES]
    for i in range(size):
        by_relevant[i] = p[i] * per_item[i] * (psi[i + LANES] - psi[i])
    for i in range(size):
        by_rank[i] = d_harmonic[i] * (psi1[i + LANES] - psi1[i]) - by_relevant[i] * (p[i] - 1) * slope[i]
    for i in range(size):
        if abs(n[i] - 1) < POLE:
            share, excess = p[i] * per_item[i], p[i] - 1
            series, by_n, by_before = _near_one(n[i] - 1, before[i] + 2)
            bracket[i] += excess * series
            d_n[i] += share * excess * (by_n - series * per_item[i])
            d_p[i] += (excess * per_item[i] + share) * series
            by_rank[i] += share * excess * by_before
    for i in range(size):
        bracket[i] *= p[i] * per_item[i]
    _sum_ties(bracket[:size], totals)
    by_rank[size:], by_relevant[size:] = 0.0, 0.0
    _add_later(by_rank)
    _add_later(by_relevant)
    for i in range(size):
        d_n[i] += by_rank[i + LANES]
        d_p[i] += by_relevant[i + LANES]


@nb.njit(nogil=True, error_model="numpy")
def discounted_gain_terms(n, gain, totals, discounts, d_n, d_gain, work):
    """DCG_T and its derivatives by `n` and `gain`; `discounts` are the sums S(0), S(1), ..."""
    size = len(n)
    ranks, sums, steps, by_rank = work[0], work[1], work[2], work[3, :size]
    _add_up(n, ranks)
    for i in range(size + LANES):
        whole = int(ranks[i])
        steps[i] = discounts[whole + 1] - discounts[whole]
        sums[i] = discounts[whole] + (ranks[i] - whole) * steps[i]
    for i in range(size):
        d_gain[i] = (sums[i + LANES] - sums[i]) / max(n[i], TRACE)
    for i in range(size):
        share = gain[i] / max(n[i], TRACE)
        by_rank[i] = share * (steps[i + LANES] - steps[i])
        d_n[i] = share * (steps[i] - (d_gain[i] if n[i] >= TRACE else 0.0))
    _sum_ties(gain * d_gain, totals)
    _add_later(by_rank)
    d_n += by_rank


@nb.njit(nogil=True, error_model="numpy")
def fast_ap_terms(n, p, totals, d_n, d_p, work):
    """FastAP times the number of relevant items, and its derivatives by `n` and `p`."""
    size = len(n)
    ranks, relevant, precision = work[0], work[1], work[2]
    _add_up(n, ranks)
    _add_up(p, relevant)
    for i in range(size):
        rank = ranks[i + LANES]
        precision[i] = relevant[i + LANES] / rank if rank > 0 else 0.0
        d_n[i] = -p[i] * precision[i] / rank if rank > 0 else 0.0
        d_p[i] = p[i] / rank if rank > 0 else 0.0
    _sum_ties(p * precision[:size], totals)
    _add_later(d_n)
    _add_later(d_p)
    d_p += precision[:size]


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
def _count(places, parts, counts, uppers, n, p, n_relevant):
    """Soft counts of the items and of the relevant items, and the numbers of relevant items.

    Returns the first and the last bin with items of any of the queries. Counts of other ties stay unset.

    An item adds 1 to the count of its place and its part to what the next bin gets. Items of different queries are
    added in turn, since a sum waits for the one before it in the same place.
    """
    n_bins = len(n) // LANES - 1
    counts[:], uppers[:] = 0.0, 0.0
    for i in range(places.shape[1]):
        for lane in range(LANES):
            place = places[lane, i] * np.uint32(LANES) + np.uint32(lane)
            counts[place] += 1.0
            uppers[place] += parts[lane, i]
    first, last, relevant = 0, n_bins - 1, (n_bins + 1) * LANES
    while first < last and not _has_items(counts, first * LANES) and not _has_items(counts, relevant + first * LANES):
        first += 1
    while last > first and not _has_items(counts, last * LANES) and not _has_items(counts, relevant + last * LANES):
        last -= 1
    start, stop = first * LANES, (last + 1) * LANES
    n[start : start + LANES], p[start : start + LANES] = 0.0, 0.0
    for i in range(start, stop):
        n[i + LANES] = uppers[i] + uppers[relevant + i]
    for i in range(start, stop):
        p[i + LANES] = uppers[relevant + i]
    for i in range(start, stop):
        n[i] += counts[i] + counts[relevant + i] - (uppers[i] + uppers[relevant + i])
    for i in range(start, stop):
        p[i] += counts[relevant + i] - uppers[relevant + i]
    _sum_ties(counts[relevant + start : relevant + stop], n_relevant)
    return first, last


@nb.njit(nogil=True, error_model="numpy")
def _has_items(counts, start):
    """Whether a bin has items of any of the queries."""
    return counts[start : start + LANES].sum() > 0


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


@nb.njit(nogil=True, error_model="numpy")
def _write_slopes(places, level, masses, is_graded, table, lane, slopes):
    """Derivatives of one query by its products, from those of the places of the items."""
    n_places = len(table) // (2 * LANES)
    for i in range(len(places)):
        slopes[i] = table[places[i] * np.uint32(LANES) + np.uint32(lane)]
    if is_graded:
        for i in range(len(places)):
            if places[i] >= n_places:
                slopes[i] = table[(places[i] - n_places) * LANES + lane] + masses[level[i]] * slopes[i]


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
        Receives the derivatives of the metric of a row by the products in that row. It may be `products`.
    """
    n_ties, size = n_bins + 1, (n_bins + 1) * LANES
    places, parts = np.full((LANES, len(products)), n_bins, np.uint32), np.zeros((LANES, len(products)), products.dtype)
    counts, uppers = np.empty(2 * size), np.empty(2 * size)
    n, m, d_n, d_m = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    work, table = np.empty((10, size + LANES)), np.zeros(2 * size, products.dtype)
    n_relevant, totals, normalizers = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for start in range(0, len(products), LANES):
        n_queries = min(LANES, len(products) - start)
        places[n_queries:], parts[n_queries:] = n_bins, 0.0
        for lane in range(n_queries):
            q = start + lane
            _place(products[q], level[q], q, offset, scale, n_bins, places[lane], parts[lane])
        first, last = _count(places, parts, counts, uppers, n, m, n_relevant)
        ties = slice(first * LANES, (last + 2) * LANES)
        normalizers[:] = n_relevant
        if metric == AP:
            average_precision_terms(n[ties], m[ties], totals, d_n[ties], d_m[ties], work)
        elif metric == NDCG:
            gains = m.reshape(n_ties, LANES)
            for lane in range(n_queries):
                of_query = places[lane], parts[lane], level[start + lane]
                normalizers[lane] = _count_gains(*of_query, masses, discounts, gains[:, lane])
            discounted_gain_terms(n[ties], m[ties], totals, discounts, d_n[ties], d_m[ties], work)
        else:
            fast_ap_terms(n[ties], m[ties], totals, d_n[ties], d_m[ties], work)
        for lane in range(n_queries):
            q = start + lane
            defined[q] = n_relevant[lane] > 0
            factor = 1 / normalizers[lane] if defined[q] else 0.0
            values[q] = totals[lane] * factor
            for i in range(first * LANES + lane, (last + 1) * LANES, LANES):
                # from derivatives by counts to those by products, nearer if larger
                by_n, by_m = (d_n[i] - d_n[i + LANES]) * (scale * factor), (d_m[i] - d_m[i + LANES]) * (scale * factor)
                table[i], table[size + i] = by_n, by_m if metric == NDCG else by_n + by_m
            _write_slopes(places[lane], level[q], masses, metric == NDCG, table, lane, slopes[q])


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
        Receives ``weights[:, None] * slopes`` plus its transpose. It may be `slopes`.
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
