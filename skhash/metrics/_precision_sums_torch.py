"""AP_T's closed form with its derivative by hand, which takes half the time of torch's recorded operations.

With f_d = n+_d / n_d * B_d the sum of precisions of tie d and B_d its bracket term,

    B_d = r_d E_d + O_d h_d,    E_d = n_d - (N_{d-1} + 1) h_d,    O_d = N+_{d-1} + 1,
    h_d = psi(N_d + 1) - psi(N_{d-1} + 1),    r_d = (n+_d - 1) s_d,    s_d = 1 / (n_d - 1),

the derivatives at fixed ranks N_{d-1}, N_d and N+_{d-1} are

    dB/dn+ = s E,    dB/dn = r - r s E,    dB/dN+_{d-1} = h,
    dB/dN_d = q psi'(N_d + 1),    dB/dN_{d-1} = -q psi'(N_{d-1} + 1) - r h,    q = O - r (N_{d-1} + 1)

and a rank moves with the items of all ties up to it.
"""

import torch
from torch.autograd.function import once_differentiable

from skhash.metrics._precision_sums import bracket_term, tie_terms
from skhash.metrics._ties import per_item


class PrecisionSums(torch.autograd.Function):
    """``_precision_sums`` of average_precision.py without a cutoff rank, with its derivative."""

    @staticmethod
    def forward(ctx, n, p):
        """Sum of precisions of each tie, from float64 tensors of shape (n_queries, n_ties)."""
        ctx.terms = tie_terms(n, p)
        values, share = bracket_term(p, ctx.terms), per_item(p, n)
        ctx.save_for_backward(n, p, values, share)
        return share * values

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        """Gradients with respect to n and p."""
        n, p, values, share = ctx.saved_tensors
        before, harmonic, slope, ratio, excess, offset, single, (series, by_n, by_before) = ctx.terms
        trigamma = torch.polygamma(1, torch.cat([before, before[:, -1:] + n[:, -1:]], dim=-1) + 1)
        inside = gradient * share
        d_ratio, d_excess, d_offset = inside * excess, inside * ratio, inside * harmonic
        d_harmonic = inside * offset - d_excess * (before + 1)
        d_last, d_before = d_harmonic * trigamma[:, 1:], -d_harmonic * trigamma[:, :-1] - d_excess * harmonic
        d_share = per_item(gradient * values, n)
        d_p = d_share + d_ratio * slope
        d_n = d_excess - share * d_share - d_ratio * ratio * slope
        d_series = inside[single] * (p[single] - 1)
        d_p[single] += inside[single] * series
        d_n[single] += d_series * by_n
        d_before[single] += d_series * by_before
        return d_n + d_last + _later(d_last + d_before), d_p + _later(d_offset)


def _later(x):
    """Sum of the values of the later ties."""
    return x.sum(-1, keepdim=True) - x.cumsum(-1)
