"""MIHash, hashing with mutual information (Cakir, He, Bargal, Sclaroff, ICCV 2017; TPAMI 2019).

The Hamming distance D of a sample to the others of its batch should show whether these are
relevant, C = + or -. The mutual information

    I(D; C) = H(D) - [ p+ H(D | C = +) + p- H(D | C = -) ],   0 <= I <= H(C)

is largest where the distances to the two kinds do not overlap. Of the soft counts c_d, c+_d and
c-_d of :mod:`skhash.metrics.soft_histogram`, with triangular bins,

    p(D = d) = c_d / N,   p(D = d | +) = c+_d / N+,   p+ = N+ / N,   H(p) = - sum_d p_d ln p_d

and the loss is -I, averaged over the samples that have both kinds. It is another function of
the histogram that TALR, of the same authors, ranks.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar, Unpack

from skhash._compat import Interval
from skhash._libraries import torch
from skhash.engine import Objective
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._objectives import HistogramObjective
from skhash.hashers.deep._parameters import SharedParameters
from skhash.metrics import RelevanceHistogram
from skhash.metrics.ties import divide


def _entropy(counts: torch.Tensor) -> torch.Tensor:
    """Entropy of counts over axis 1; an empty bin has the gradient 0, not infinity."""
    p = divide(counts, counts.sum(1, keepdim=True))
    entropy: torch.Tensor = -torch.special.xlogy(p, torch.where(p > 1e-12, p, 1.0)).sum(1)
    return entropy


def _mutual_information(counts: torch.Tensor) -> torch.Tensor:
    """Mutual information between distance and level, in nats, of counts (n_queries, n_bins, n_levels)."""
    of_level = counts.sum(1)
    shares: torch.Tensor = divide(of_level, of_level.sum(1, keepdim=True))
    return _entropy(counts.sum(2)) - (shares * _entropy(counts)).sum(1)


class MIHashObjective(HistogramObjective):
    """Minus the mean mutual information of a batch."""

    def loss(self, H: RelevanceHistogram) -> torch.Tensor:
        """Minus the mean over the samples that have relevant and irrelevant ones."""
        has_both: torch.Tensor = (H.counts.sum(1) > 0.5).all(1)
        return -_mutual_information(H.counts).sum() / has_both.sum().clamp_min(1)


class MIHashHasher(DeepHasher):
    """Hashing with mutual information: distances that show what is relevant.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    alpha : float, default=None
        Slope of the tanh that replaces the sign in training; see Notes for None.
    n_bins : int, default=None
        Number of bins of the soft histogram. None uses nbits / 2: with narrower bins the loss is
        lowest for activations that differ by less than a bit, whose codes are equal.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant; "auto" takes classes or shared labels from y. See
        :mod:`skhash.affinity`.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it; "auto"
        crops and flips images.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    {defaults}

    The mutual information of a sample is estimated from the others of its batch, so batches are
    large. With a backbone, each activation is normalized over the batch, so that no bit is the
    same for all samples.

    References
    ----------
    Cakir, He, Bargal, Sclaroff: MIHash: Online Hashing with Mutual Information. ICCV 2017.

    Cakir, He, Bargal, Sclaroff: Hashing with Mutual Information. TPAMI 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import MIHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = MIHashHasher(nbits=16, n_epochs=60, random_state=0).fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.1f}")
    0.9
    """

    _supervised = True
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "alpha": [Interval(Real, 0, None, closed="neither"), None],
        "n_bins": [Interval(Integral, 1, None, closed="left"), None],
    }

    _batch_norm = ("deep",)  # balances the bits; linear hashers lose by it
    _n_epochs_range = (30, 400)
    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay", "alpha")
    _recipes = {"linear": (400, 1000, 0.1, 0.5, 2.0), "deep": (400, 1000, 0.003, 0.1, 2.0)}
    _of_module: ClassVar = {}  # the values of "deep" are better there, too (experiments/networks.py)
    _sgd_rates = {"linear": 1.0, "deep": 1.0}
    _hidden_dropout = 0.0

    def __init__(
        self,
        nbits: int = 32,
        *,
        alpha: float | None = None,
        n_bins: int | None = None,
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.alpha = alpha
        self.n_bins = n_bins

    def _objective(self) -> Objective:
        n_bins = max(self.nbits // 2, 1) if self.n_bins is None else self.n_bins
        return MIHashObjective(self.settings_["alpha"], n_bins)
