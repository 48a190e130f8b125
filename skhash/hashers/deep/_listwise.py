"""TALR's compiled pass over a batch whose samples rank each other, for training on the CPU.

One pass over the pairs computes the metrics on the soft counts of soft_histogram.py, with a derivative by hand. Other
devices use soft_histogram.py and the formulas of average_precision.py, ndcg.py and fast_ap.py, and the tests compare
both. Sums are float64. A tie d of a ranking has ``n[d]`` items of mass ``m[d]``: the number of relevant items ``p[d]``,
or the gain. The sums over all ties do not depend on the distances, so that normalizers are constants.

A block of LANES queries is computed side by side. The value of tie d of query ``b * LANES + l``, in block b, is at
``(b * n_ties + d) * LANES + l`` of a flat array. So loops over all values are vectorized, and so are sums over ties,
which add the value LANES before. ``ends[b]`` are the bounds in that array of the ties of block b that have items.
`benchmarks/talr_step.py` measures a step.

Without numba's cache, the first training waits until the kernels are compiled. numba compiles functions of numpy
slowly, and again in each kernel. So kernels are loops over single values, the caller makes the arrays for work, and
each metric has its own kernel.
"""

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import torch
from torch.autograd.function import once_differentiable

from skhash._compiler import kernel
from skhash.metrics.ndcg import level_gains
from skhash.metrics.ties import discount_table

TRACE = 1e-9  # a tie with fewer soft items counts as empty
POLE = 1e-3  # AP_T uses a series where n[d] differs less from 1
LANES = 8  # queries that are computed side by side
TILE = 16  # rows and columns that are transposed at a time
SHIFT = 16.0  # higher derivatives use their asymptotic series from here on
ROOT_HALF, MANTISSA = 0x3FE6A09E667F3BCD, 0xFFFFFFFFFFFFF  # bits of sqrt(1 / 2), and those of a mantissa
LOG_2 = 0.6931471805599453


def listwise_metric(
    phi: torch.Tensor, level_index: npt.NDArray[Any], levels: npt.ArrayLike, metric: str, *, n_bins: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Soft metric "ap", "ndcg" or "fast_ap" of each sample as a query, of shape (n,), and whether it is defined."""
    n_bins = phi.shape[1] if n_bins is None else n_bins
    arguments = level_index, _masses(levels, metric), metric, n_bins
    values: tuple[torch.Tensor, torch.Tensor] = _ListwiseMetric.apply(phi, *arguments)
    return values


def listwise_loss(
    phi: npt.NDArray[Any],
    level_index: npt.NDArray[Any],
    levels: npt.ArrayLike,
    metric: str,
    *,
    n_bins: int | None = None,
) -> tuple[float, npt.NDArray[Any]]:
    """One minus the mean of the defined metrics, and its derivative by the activations, of shape (n, nbits)."""
    n_bins = phi.shape[1] if n_bins is None else n_bins
    values, is_defined, slopes = _evaluate(phi, level_index, _masses(levels, metric), metric, n_bins)
    n_defined = max(int(np.count_nonzero(is_defined)), 1)
    weights = np.full(len(phi), -1 / n_defined, phi.dtype)
    return 1 - values.sum().item() / n_defined, _differentiate(phi, slopes, weights, slopes)


def _masses(levels: npt.ArrayLike, metric: str) -> npt.NDArray[np.float64]:
    """Mass of an item of each level."""
    return level_gains(levels) if metric == "ndcg" else (np.asarray(levels) > 0).astype(np.float64)


def _evaluate(
    phi: npt.NDArray[Any], level_index: npt.NDArray[Any], masses: npt.NDArray[np.float64], metric: str, n_bins: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[Any]]:
    """Values, whether they are defined, and derivatives of shape (n, n) by half the products of each row."""
    n, nbits = phi.shape
    n_blocks, size = -(-n // LANES), (n_bins + 1) * LANES
    real, is_graded = phi.dtype.type, metric == "ndcg"
    scale = real(n_bins / nbits)
    places = np.empty((n_blocks * LANES, n), np.uint32)
    products, samples = np.empty(places.shape, phi.dtype), torch.from_numpy(phi)
    torch.mm(samples, samples.T, out=torch.from_numpy(products[:n]))
    ends = np.empty((n_blocks, 2), np.int64)
    items, masses_of_ties = np.empty((2, n_blocks * size))
    n_relevant, totals = np.empty((2, len(places)))
    bins = real(nbits), scale / 2, n_bins, places, np.empty(4 * size)
    count_items(products, level_index, *bins, items, masses_of_ties, ends, n_relevant)
    ties = items, masses_of_ties, ends, totals, np.empty((10, size + LANES))
    is_defined, normalizers = n_relevant[:n] > 0, n_relevant[:n]
    if metric == "ap":
        average_precision_terms(*ties)
    elif metric == "fast_ap":
        fast_ap_terms(*ties)
    else:
        discounts, normalizers = discount_table(1 << (n + 2).bit_length(), "log2"), np.empty(n)
        count_gains(places, products, level_index, masses, discounts, n_bins, masses_of_ties, normalizers)
        discounted_gain_terms(*ties, discounts)
    factors = is_defined / np.where(is_defined, normalizers, 1)
    slopes, table = products[:n], np.zeros(2 * size, real)
    of_ties = factors, ends, items, masses_of_ties, table  # the kernel has replaced the counts by the derivatives
    write_slopes(places, level_index, masses, is_graded, scale, *of_ties, slopes)
    return totals[:n] * factors, is_defined, slopes


def _differentiate(
    phi: npt.NDArray[Any], slopes: npt.NDArray[Any], weights: npt.NDArray[Any], sums: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Derivative of the weighted sum of the values by the activations; `sums` is overwritten, and may be `slopes`."""
    add_transposed(slopes, weights / 2, sums)
    derivative: npt.NDArray[Any] = torch.mm(torch.from_numpy(sums), torch.from_numpy(phi)).numpy()
    return derivative


class _ListwiseMetric(torch.autograd.Function):
    """The compiled metric, with its derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        phi: torch.Tensor,
        level_index: npt.NDArray[Any],
        masses: npt.NDArray[np.float64],
        metric: str,
        n_bins: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        values, defined, ctx.slopes = _evaluate(phi.detach().numpy(), level_index, masses, metric, n_bins)
        ctx.save_for_backward(phi)
        ctx.mark_non_differentiable(is_defined := torch.from_numpy(defined))
        return torch.from_numpy(values), is_defined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[torch.Tensor, None, None, None, None]:
        (phi,) = ctx.saved_tensors
        weights = gradient.to(phi.dtype).numpy()
        slopes = _differentiate(phi.detach().numpy(), ctx.slopes, weights, np.empty_like(ctx.slopes))
        return torch.from_numpy(slopes), None, None, None, None


# -- digamma and its derivatives ---------------------------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy", inline="always")
def _log(x):
    """log(x) for x > 0 without a call, so that loops are vectorized, with x = 2**k m and m near 1."""
    bits = np.int64(np.float64(x).view(np.int64) - ROOT_HALF)
    m = np.int64((bits & MANTISSA) + ROOT_HALF).view(np.float64)
    t = (m - 1.0) / (m + 1.0)
    s = t * t
    series = 1 / 11 + s * (1 / 13 + s * (1 / 15 + s * (1 / 17 + s / 19)))
    series = 1 + s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * series))))
    return np.float64(np.int32(bits >> 52)) * LOG_2 + 2 * t * series


@nb.njit(nogil=True, error_model="numpy", forceinline=True)
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
def higher_polygamma(x):
    """psi''(x), psi'''(x) and psi''''(x) for x > 0, by the recurrence and the asymptotic series."""
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


# -- soft counts, metrics and derivatives ------------------------------------------------------------------------------


@nb.njit(nogil=True, error_model="numpy")
def _near_one(c, x):
    """Series of AP_T at c = n[d] - 1 near 0 with its two derivatives, as `_near_one` of average_precision.py."""
    psi1 = digamma_and_trigamma(x)[1]
    psi2, psi3, psi4 = higher_polygamma(x)
    slope = psi1 + psi2 * c / 2 + psi3 * c * c / 6
    by_n = -(x - 1) * (psi2 / 2 + psi3 * c / 3)
    by_before = -slope - (x - 1) * (psi2 + psi3 * c / 2 + psi4 * c * c / 6)
    return 1 - (x - 1) * slope, by_n, by_before


@nb.njit(nogil=True, error_model="numpy")
def _add_up(values, size, sums):
    """Set `sums` to the sums over the ties before each tie, and over all ties."""
    for i in range(LANES):
        sums[i] = 0.0
    for i in range(size):
        sums[i + LANES] = sums[i] + values[i]


@nb.njit(nogil=True, error_model="numpy")
def _add_later(values, size):
    """Add to each value the values of all later ties, in place."""
    for i in range(size - LANES - 1, -1, -1):
        values[i] += values[i + LANES]


@nb.njit(nogil=True, error_model="numpy")
def _sum_ties(values, size, totals, start):
    """Set the totals of one block of queries to the sums of the values over all ties."""
    for lane in range(LANES):
        totals[start + lane] = 0.0
    for d in range(0, size, LANES):
        for lane in range(LANES):
            totals[start + lane] += values[d + lane]


@kernel
def average_precision_terms(items, relevant, ends, totals, work):
    """Write AP_T times the number of relevant items to `totals`, and replace the counts by its derivatives.

    With p_d / n_d * B_d the sum of precisions of tie d (average_precision.py),

        B_d = r_d E_d + O_d h_d,    E_d = n_d - (N_{d-1} + 1) h_d,    O_d = N+_{d-1} + 1,
        h_d = psi(N_d + 1) - psi(N_{d-1} + 1),    r_d = (p_d - 1) s_d,    s_d = 1 / (n_d - 1),

    the derivatives at fixed ranks N_{d-1}, N_d and N+_{d-1} are

        dB/dp = s E,    dB/dn = r - r s E,    dB/dN+_{d-1} = h,
        dB/dN_d = q psi'(N_d + 1),    dB/dN_{d-1} = -q psi'(N_{d-1} + 1) - r h,    q = O - r (N_{d-1} + 1).

    A rank moves with the items of all ties up to it, so that its derivative is added to all of them. Shapes: items and
    relevant (n_blocks * n_ties * LANES,), ends (n_blocks, 2), totals (n_blocks * LANES,), work (10, (n_ties + 1) *
    LANES).
    """
    before, relevant_before, psi, psi1 = work[0], work[1], work[2], work[3]
    per_item, bracket, by_rank, by_relevant, d_n, d_p = work[4], work[5], work[6], work[7], work[8], work[9]
    for block in range(len(ends)):
        n, p = items[ends[block, 0] : ends[block, 1]], relevant[ends[block, 0] : ends[block, 1]]
        size = len(n)
        _add_up(n, size, before)
        _add_up(p, size, relevant_before)
        for i in range(size + LANES):
            psi[i], psi1[i] = digamma_and_trigamma(before[i] + 1)
        n_near = 0
        for i in range(size):
            items_here, relevant_here, first = n[i], p[i], before[i] + 1
            is_near = abs(items_here - 1) < POLE
            n_near += is_near
            part = 1 / max(items_here, TRACE)
            slope = 0.0 if is_near else 1 / (items_here - 1)
            harmonic = psi[i + LANES] - psi[i]
            excess = items_here - first * harmonic
            ratio = (relevant_here - 1) * slope
            offset = relevant_before[i] + 1
            value = ratio * excess + offset * harmonic
            d_p[i] = part * (value + relevant_here * excess * slope)
            share = relevant_here * part
            by_harmonic = share * (offset - ratio * first)
            by_last = by_harmonic * psi1[i + LANES]
            d_n[i] = share * (ratio - value * part - excess * ratio * slope) + by_last
            by_first = share * harmonic
            by_relevant[i] = by_first
            by_rank[i] = by_harmonic * (psi1[i + LANES] - psi1[i]) - by_first * (relevant_here - 1) * slope
            per_item[i], bracket[i] = part, value
        for i in range(size if n_near else 0):
            over = n[i] - 1
            if abs(over) < POLE:
                part, excess = per_item[i], p[i] - 1
                share = p[i] * part
                series, by_n, by_before = _near_one(over, before[i] + 2)
                bracket[i] += excess * series
                d_n[i] += share * excess * (by_n - series * part)
                d_p[i] += (excess * part + share) * series
                by_rank[i] += share * excess * by_before
        for i in range(size):
            bracket[i] *= p[i] * per_item[i]
        _sum_ties(bracket, size, totals, block * LANES)
        for i in range(LANES):
            by_rank[size + i], by_relevant[size + i] = 0.0, 0.0
        _add_later(by_rank, size)
        _add_later(by_relevant, size)
        for i in range(size):
            n[i] = d_n[i] + by_rank[i + LANES]
        for i in range(size):
            p[i] = d_p[i] + by_relevant[i + LANES]


@kernel
def discounted_gain_terms(items, gains, ends, totals, work, discounts):
    """Write DCG_T to `totals`, and replace items and gains by its derivatives, as `average_precision_terms` does."""
    ranks, sums, steps, by_rank, d_gain = work[0], work[1], work[2], work[3], work[4]
    for block in range(len(ends)):
        n, gain = items[ends[block, 0] : ends[block, 1]], gains[ends[block, 0] : ends[block, 1]]
        size = len(n)
        _add_up(n, size, ranks)
        for i in range(size + LANES):
            whole = np.int64(ranks[i])
            steps[i] = discounts[whole + 1] - discounts[whole]
            sums[i] = discounts[whole] + (ranks[i] - whole) * steps[i]
        for i in range(size):
            d_gain[i] = (sums[i + LANES] - sums[i]) / max(n[i], TRACE)
        for i in range(size):
            share = gain[i] / max(n[i], TRACE)
            by_rank[i] = share * (steps[i + LANES] - steps[i])
            n[i] = share * (steps[i] - (d_gain[i] if n[i] >= TRACE else 0.0))
        for i in range(size):
            gain[i] *= d_gain[i]
        _sum_ties(gain, size, totals, block * LANES)
        _add_later(by_rank, size)
        for i in range(size):
            n[i] += by_rank[i]
        for i in range(size):
            gain[i] = d_gain[i]


@kernel
def fast_ap_terms(items, relevant, ends, totals, work):
    """Write FastAP times the number of relevant items, and its derivatives, as `average_precision_terms` does."""
    ranks, sums, precision, by_rank, by_relevant = work[0], work[1], work[2], work[3], work[4]
    for block in range(len(ends)):
        n, p = items[ends[block, 0] : ends[block, 1]], relevant[ends[block, 0] : ends[block, 1]]
        size = len(n)
        _add_up(n, size, ranks)
        _add_up(p, size, sums)
        for i in range(size):
            rank = ranks[i + LANES]
            precision[i] = sums[i + LANES] / rank if rank > 0 else 0.0
            by_rank[i] = -p[i] * precision[i] / rank if rank > 0 else 0.0
            by_relevant[i] = p[i] / rank if rank > 0 else 0.0
        for i in range(size):
            p[i] *= precision[i]
        _sum_ties(p, size, totals, block * LANES)
        _add_later(by_rank, size)
        _add_later(by_relevant, size)
        for i in range(size):
            n[i] = by_rank[i]
        for i in range(size):
            p[i] = by_relevant[i] + precision[i]


@kernel
def count_items(products, level, offset, scale, n_bins, places, counts, n, p, ends, n_relevant):
    """Soft counts of the items `n` and relevant items `p` of each query, their first and last ties, and `n_relevant`.

    The distances in bins are ``scale * (offset - products)``, for products of shape (n_blocks * LANES, n), which are
    replaced by the part of each item that the next bin gets. `places`, of the same shape, receives the bin of each
    item; relevant items have a second set of bins, after one that only the query itself uses. Items of different
    queries are added in turn, since a sum has to wait for the one before it in the same place.
    """
    n_queries, n_items = level.shape
    relevant = (n_bins + 1) * LANES
    zero, one, last_bin = products.dtype.type(0), products.dtype.type(1), np.int32(n_bins - 1)
    bits = counts.view(np.int64)
    for block in range(len(ends)):
        for lane in range(LANES):
            q = block * LANES + lane
            values, place, spare = products[q], places[q], np.uint32(n_bins * LANES + lane)
            if q >= n_queries:
                for i in range(n_items):
                    values[i], place[i] = zero, spare
                continue
            for i in range(n_items):
                position = (offset - values[i]) * scale
                b = np.int32(position)
                b = b if b > 0 else np.int32(0)
                b = b if b < last_bin else last_bin
                part = position - products.dtype.type(b)
                part = part if part > zero else zero
                values[i] = part if part < one else one
                b += np.int32(n_bins + 1) if level[q, i] != 0 else np.int32(0)
                place[i] = np.uint32(b) * np.uint32(LANES) + np.uint32(lane)
            place[q] = spare
        for i in range(4 * relevant):
            counts[i] = 0.0
        for i in range(n_items):
            for lane in range(LANES):
                place = places[block * LANES + lane, i]
                counts[place] += 1.0
                counts[np.uint64(2 * relevant) + place] += products[block * LANES + lane, i]
        start, stop = np.int64(0), n_bins * LANES
        while start < stop - LANES and not _has_items(bits, start, relevant):
            start += LANES
        while stop > start + LANES and not _has_items(bits, stop - LANES, relevant):
            stop -= LANES
        base = block * relevant
        ends[block, 0], ends[block, 1] = base + start, base + stop + LANES
        n_ties, p_ties = n[base : base + relevant], p[base : base + relevant]
        uppers, relevant_uppers = counts[2 * relevant : 3 * relevant], counts[3 * relevant :]
        for i in range(start, start + LANES):
            n_ties[i], p_ties[i] = 0.0, 0.0
        for i in range(start, stop):
            upper = uppers[i] + relevant_uppers[i]
            n_ties[i + LANES] = upper
            n_ties[i] += counts[i] + counts[relevant + i] - upper
            p_ties[i + LANES] = relevant_uppers[i]
            p_ties[i] += counts[relevant + i] - relevant_uppers[i]
        _sum_ties(counts[relevant + start :], stop - start, n_relevant, block * LANES)


@nb.njit(nogil=True, error_model="numpy")
def _has_items(bits, start, relevant):
    """Whether a bin has items of a query of the block, from the bits of the counts."""
    total = bits[start] | bits[relevant + start]
    for i in range(start + 1, start + LANES):
        total |= bits[i] | bits[relevant + i]
    return total != 0


@kernel
def count_gains(places, parts, level, masses, discounts, n_bins, gains, normalizers):
    """Gains of the ties of each query, and as `normalizers` of shape (n,) its DCG with the items sorted by level."""
    level_totals = np.empty(len(masses), np.int64)
    relevant = np.uint32((n_bins + 1) * LANES)
    gains[:] = 0.0
    for q in range(len(level)):
        level_totals[:] = 0
        base = q // LANES * (n_bins + 1) * LANES
        for i in range(level.shape[1]):
            if places[q, i] >= relevant:
                d, part, v = base + np.int64(places[q, i] - relevant), parts[q, i], level[q, i]
                gains[d] += masses[v] * (1 - part)
                gains[d + LANES] += masses[v] * part
                level_totals[v] += 1
        ideal, before = 0.0, 0
        for v in range(len(masses) - 1, -1, -1):
            last = before + level_totals[v]
            ideal += masses[v] * (discounts[last] - discounts[before])
            before = last
        normalizers[q] = ideal


@kernel
def write_slopes(places, level, masses, is_graded, scale, factors, ends, d_n, d_m, table, slopes):
    """Write the derivatives of the metric of each row by half its products, of shape (n, n), into `slopes`.

    `d_n` and `d_m` are its derivatives by the number of items and by their mass in each tie, and `factors`, of shape
    (n,), are multiplied in. The last bin and the place of the query itself must be 0 in `table`, which is overwritten.
    """
    relevant = len(table) // 2
    for q in range(len(level)):
        block = q // LANES
        if q % LANES == 0:
            start, stop, base = ends[block, 0], ends[block, 1] - LANES, block * relevant
            n_lanes = min(LANES, len(level) - q)
            for i in range(start, stop, LANES):
                for lane in range(n_lanes):
                    # the derivative by a product: a larger product moves the item to a nearer tie
                    tie, factor = i + lane, scale * factors[q + lane]
                    by_n, by_m = (d_n[tie] - d_n[tie + LANES]) * factor, (d_m[tie] - d_m[tie + LANES]) * factor
                    table[tie - base] = by_n
                    table[relevant + tie - base] = by_m if is_graded else by_n + by_m
        for i in range(level.shape[1]):
            slopes[q, i] = table[places[q, i]]
        if is_graded:
            for i in range(level.shape[1]):
                if places[q, i] >= relevant:
                    slopes[q, i] = table[places[q, i] - relevant] + masses[level[q, i]] * slopes[q, i]


@kernel
def add_transposed(slopes, weights, sums):
    """Write ``weights[:, None] * slopes`` plus its transpose, of shape (n, n), into `sums`, which may be `slopes`."""
    n = len(slopes)
    for a in range(0, n, TILE):
        for b in range(a, n, TILE):  # the tile and its transpose stay in the cache
            for i in range(a, min(a + TILE, n)):
                for j in range(max(b, i), min(b + TILE, n)):
                    total = weights[i] * slopes[i, j] + weights[j] * slopes[j, i]
                    sums[i, j] = total
                    sums[j, i] = total
