"""Compiled digamma function and its derivatives, which the kernels of AP_T and of its derivatives call."""

import numba as nb
import numpy as np

SHIFT = 16.0  # higher derivatives use their asymptotic series from here on
ROOT_HALF, MANTISSA = 0x3FE6A09E667F3BCD, 0xFFFFFFFFFFFFF  # bits of sqrt(1 / 2), and those of a mantissa
LOG_2 = 0.6931471805599453


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
