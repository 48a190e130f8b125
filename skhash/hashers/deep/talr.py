r"""TALR, hashing as tie-aware learning to rank (He, Cakir, Bargal, Sclaroff, CVPR 2018).

Each sample of a batch ranks the others by the soft Hamming distance (eqs. 1 and 10)

    d = (b - <phi, phi'>) / 2,   phi = tanh(alpha f(x)),

the distances are counted softly (:mod:`skhash.metrics.soft_histogram`), and the loss
is one minus the metric that hard codes are scored with:

    exact       AP_T and NDCG_T of :mod:`skhash.metrics` on the soft counts c_d, C_d = c_0 + ... + c_d
    paper       AP_T with psi(C_d + 1) - psi(C_{d-1} + 1) -> ln(C_d / C_{d-1}),
                DCG_T with S(C_d) - S(C_{d-1}) -> ln 2 [li(C_d + 1) - li(C_{d-1} + 1)]
    simplified  AP_s = (1 / C+) sum_d c+_d (C+_{d-1} + C+_d + 1) / (C_{d-1} + C_d + 1),
                DCG_s = sum_d sum_v G(v) c_{d,v} / log2(C_{d-1} + (c_d + 1) / 2 + 1)

The equations of the paper are 6 and 7 (exact), 11 and 12 (paper), and 13 to 15 (soft
counts).

The two logarithmic integrals are singular at C_{d-1} = 0, which is the first
non-empty tie of every ranking: ties with C_{d-1} < 1 use the exact form. The ratio
(c+_d - 1) / (c_d - 1) has a pole at c_d = 1, which the exact form cancels and the paper's does
not; it is clipped to [0, 1], its range for whole counts. A third objective on the same
soft counts is FastAP (:func:`skhash.metrics.fast_ap`).

With prefixes l_1 < ... < b, each batch has the mean of the losses of the first l_1, l_2, ... and all bits.

On the CPU, the exact form runs as one compiled pass (_listwise.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import numpy.typing as npt
from scipy.special import expi

from skhash._compat import Interval, StrOptions
from skhash._libraries import torch
from skhash._validation import check_option, check_prefixes
from skhash.affinity import Relevance
from skhash.engine import Objective
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._objectives import HistogramObjective
from skhash.hashers.deep._parameters import SharedParameters
from skhash.hashers.deep._shared import PrefixesMixin
from skhash.hashers.shallow.linear import orthonormal_map
from skhash.metrics import RelevanceHistogram
from skhash.metrics.average_precision import expected_ap
from skhash.metrics.fast_ap import fast_ap_of_ties
from skhash.metrics.ndcg import expected_gain, expected_ndcg, level_gains
from skhash.metrics.ties import (
    cumulative_discount,
    divide,
    items_before,
    per_item,
    ranks_within,
    tied_ranking,
    tied_relevance,
)

if TYPE_CHECKING:
    from skhash.engine import Encoder


def _relaxed_ap(n: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """AP_r of the paper, exact in the first tie."""
    before, relevant_before, ranks = items_before(n), items_before(p), ranks_within(n)
    first, filled = before < 1, n > 1e-9
    late, early = filled & ~first, filled & first
    logs = torch.log(torch.where(late, ranks[:, 1:], 1.0)) - torch.log(torch.where(late, before, 1.0))
    exact = torch.digamma(torch.where(early, ranks[:, 1:], 0.0) + 1) - torch.digamma(
        torch.where(early, before, 0.0) + 1
    )
    single = (n - 1).abs() < 1e-9
    ratio = torch.where(single, 0.0, (p - 1) / torch.where(single, 1.0, n - 1)).clamp(0, 1)
    bracket = ratio * n + (relevant_before + 1 - ratio * (before + 1)) * torch.where(first, exact, logs)
    value: torch.Tensor = divide(per_item(p * bracket, n).sum(-1), p.sum(-1))
    return value


def _simplified_ap(n: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """AP_s of the authors' code."""
    before, relevant_before = items_before(n), items_before(p)
    value: torch.Tensor = divide((p * (2 * relevant_before + p + 1) / (2 * before + n + 1)).sum(-1), p.sum(-1))
    return value


def _relaxed_dcg(n: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """DCG_r of the paper, exact in the first tie."""
    ranks = ranks_within(n)
    before, after = ranks[:, :-1], ranks[:, 1:]
    late = before >= 1
    integral = np.log(2.0) * (
        log_integral(torch.where(late, after + 1, 2.0)) - log_integral(torch.where(late, before + 1, 2.0))
    )
    exact = torch.diff(cumulative_discount(ranks, "log2"), dim=-1)
    value: torch.Tensor = (per_item(gain, n) * torch.where(late, integral, exact)).sum(-1)
    return value


def _simplified_dcg(n: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """DCG_s of the authors' code, with the discount at the middle rank of each tie."""
    return (gain / torch.log2(items_before(n) + (n + 1) / 2 + 1)).sum(-1)


_RELAXED = {
    ("ap", "paper"): _relaxed_ap,
    ("ap", "simplified"): _simplified_ap,
    ("ndcg", "paper"): _relaxed_dcg,
    ("ndcg", "simplified"): _simplified_dcg,
}


def soft_metric(H: RelevanceHistogram, objective: str, relaxation: str = "exact", k: int | None = None) -> torch.Tensor:
    """Metric of each query on soft counts, 0 for a query without relevant items.

    Parameters
    ----------
    H : RelevanceHistogram
        Soft counts, see :func:`skhash.metrics.soft_histogram.soft_histogram`.
    objective : "ap", "ndcg" or "fast_ap"
        The metric.
    relaxation : "exact", "paper" or "simplified", default="exact"
        The metric itself, or one of the two relaxations of "ap" and "ndcg" in the head of this file.
    k : int, default=None
        Cutoff of "ap" and "ndcg", for "exact" only; AP@k is divided by min(relevant, k).

    Returns
    -------
    float64 tensor of shape (n_queries,)
        One value per query; on whole counts "exact" is the metric of hard codes.

    Raises
    ------
    ValueError
        If `objective` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.hashers.deep import soft_metric
    >>> from skhash.metrics import RelevanceHistogram
    >>> # the relevant item is mostly nearer
    >>> counts = torch.tensor([[[0.25, 0.75], [0.75, 0.25]]], requires_grad=True)
    >>> value = soft_metric(RelevanceHistogram(counts, np.array([0, 1])), "ap")
    >>> round(value.item(), 3)
    0.863
    >>> # irrelevant and relevant items at distance 0
    >>> (torch.autograd.grad(value.sum(), counts)[0][0, 0] > 0).tolist()
    [False, True]
    """
    check_option("objective", objective, ("ap", "ndcg", "fast_ap"))
    values: torch.Tensor
    if objective == "fast_ap":
        values, _ = fast_ap_of_ties(*tied_relevance(H.counts))
    elif relaxation == "exact" and objective == "ap":
        values, _ = expected_ap(*tied_relevance(H.counts), k, "min")
    elif relaxation == "exact":
        values, _ = expected_ndcg(H.counts, H.levels, k)
    elif objective == "ap":
        values = _RELAXED[objective, relaxation](*tied_relevance(H.counts))
    else:
        gains = level_gains(H.levels)
        ideal = expected_gain(tied_ranking(H.counts.sum(1, keepdim=True), gains, "best"))
        values = divide(_RELAXED[objective, relaxation](*tied_ranking(H.counts, gains)), ideal)
    return values


MIN_CLASSES = 16  # of a batch of whole classes; with fewer, a batch has too few others (experiments/few_relevant.py)


def batches_of_classes(
    classes: npt.NDArray[np.unsignedinteger[Any]], n_batches: int, rng: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Batches in which the samples of a class stay together, classes and samples in random order."""
    order = rng.permutation(len(classes))
    places = rng.permutation(int(classes.max()) + 1)[classes[order]]
    return np.array_split(order[np.argsort(places, kind="stable")], n_batches)


class TALRObjective(HistogramObjective):
    """One minus the mean metric of the samples of a batch, each of which ranks the others; mean over all lengths."""

    def __init__(
        self,
        objective: str = "ap",
        relaxation: str = "exact",
        k: int | None = None,
        alpha: float = 1.0,
        n_bins: int | None = None,
        prefixes: Sequence[int] = (),
    ) -> None:
        super().__init__(alpha, n_bins, graded=objective == "ndcg")
        self.objective, self.relaxation, self.k, self.prefixes = objective, relaxation, k, tuple(prefixes)
        self._is_compiled = relaxation == "exact" and k is None
        self.loss_and_gradient = self._differentiate if self._is_compiled else None

    def batches(
        self, encoder: Any, X: Any, relevance: Relevance, n_batches: int, rng: np.random.Generator
    ) -> list[npt.NDArray[np.int64]]:
        """Batches of an epoch, see :class:`skhash.engine.Objective`. Small classes stay together."""
        classes = relevance.classes
        # in random batches most samples of such classes would meet no relevant one, and teach nothing
        most = min(n_batches, len(X) / n_batches / MIN_CLASSES)
        if classes is None or np.median(np.bincount(classes)[classes]) > most:
            return super().batches(encoder, X, relevance, n_batches, rng)
        return batches_of_classes(classes, n_batches, rng)

    def _differentiate(
        self, outputs: npt.NDArray[np.float32], relevance: Relevance
    ) -> tuple[float, npt.NDArray[np.float32]]:
        alpha = np.float32(self.alpha)
        phi = np.multiply(outputs, alpha)
        np.tanh(phi, out=phi)
        if np.isnan(np.vdot(phi, phi)):
            return np.nan, phi  # the training loop raises an error, as after `forward`
        from skhash.hashers.deep._listwise import listwise_loss  # numba is imported at first use

        levels = self._levels(relevance)
        loss, slopes = listwise_loss(phi, *levels, self.objective, n_bins=self.n_bins)
        for n in self.prefixes:
            bits = np.ascontiguousarray(phi[:, :n])
            loss_of_prefix, slopes_of_prefix = listwise_loss(bits, *levels, self.objective, n_bins=self.n_bins)
            loss += loss_of_prefix
            slopes[:, :n] += slopes_of_prefix
        n_lengths = 1 + len(self.prefixes)
        loss /= n_lengths
        slopes /= np.float32(n_lengths)
        phi *= alpha * phi
        slopes *= np.subtract(alpha, phi, out=phi)
        return loss, slopes

    def ranking_loss(self, phi: torch.Tensor, level_index: npt.NDArray[Any], levels: npt.NDArray[Any]) -> torch.Tensor:
        """Mean loss of the activations and their prefixes."""
        lengths = [*(phi[:, :n].contiguous() for n in self.prefixes), phi]
        return torch.stack([self._loss_of(bits, level_index, levels) for bits in lengths]).mean()

    def _loss_of(self, phi: torch.Tensor, level_index: npt.NDArray[Any], levels: npt.NDArray[Any]) -> torch.Tensor:
        """Loss of activations: on the CPU in one compiled pass, else of the histogram of their distances."""
        if phi.device.type != "cpu" or not self._is_compiled:
            return super().ranking_loss(phi, level_index, levels)
        from skhash.hashers.deep._listwise import listwise_metric  # as above

        values, is_defined = listwise_metric(phi, level_index, levels, self.objective, n_bins=self.n_bins)
        loss: torch.Tensor = 1 - values.sum() / is_defined.sum().clamp_min(1)
        return loss

    def loss(self, H: RelevanceHistogram) -> torch.Tensor:
        """One minus the mean over the samples to which another one is relevant."""
        n_queries: torch.Tensor = (H.counts[..., 1:].sum((1, 2)) > 0.5).sum().clamp_min(1)
        return 1 - soft_metric(H, self.objective, self.relaxation, self.k).sum() / n_queries


N_TERMS = 60  # of the series, which is as precise as float64 up to x = exp(15)


def log_integral(x: torch.Tensor) -> torch.Tensor:
    """li(x) for float64 values x > 1, with its derivative 1 / ln x: from scipy on a CPU, by its series elsewhere."""
    constant = x.detach()
    on_cpu = x.device.type == "cpu"
    values = torch.from_numpy(expi(np.log(constant.numpy()))) if on_cpu else log_integral_series(constant)
    return values + (x - constant) / torch.log(constant)  # adds 0, with the derivative


def log_integral_series(x: torch.Tensor) -> torch.Tensor:
    """li(x) = gamma + ln ln x + sum_k (ln x)^k / (k k!) for float64 values in (1, exp(15)]."""
    logarithm = torch.log(x)
    total = term = logarithm
    for k in range(2, N_TERMS):
        term = term * logarithm / k
        total = total + term / k
    return np.euler_gamma + torch.log(logarithm) + total


class TALRHasher(PrefixesMixin, DeepHasher):
    """Hashing as tie-aware learning to rank: the training loss is the metric itself.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    objective : "ap", "ndcg" or "fast_ap", default="ap"
        Metric to optimize. "ndcg" uses the levels of the affinity. "fast_ap" takes the
        precision at the end of each tie instead of the mean over its orders, see
        :func:`skhash.metrics.fast_ap`. :meth:`score` is AP for each of them.
    relaxation : "exact", "paper" or "simplified", default="exact"
        The tie-aware metric itself on soft counts, the paper's relaxation of it, or
        the one in the authors' code. "fast_ap" has no relaxation.
    k : int, default=None
        Cutoff: optimize AP@k (divided by ``min(relevant, k)``) or NDCG@k. Requires
        ``relaxation="exact"``, and is not available for "fast_ap". :meth:`score` and early stopping have
        no cutoff, see :ref:`normalizer`.
    alpha : float, default=None
        Slope of the tanh that replaces the sign in training; see Notes for None.
    n_bins : int, default=None
        Number of bins of the soft histogram. None uses one per bit, which is exact on codes.
    init : "rotation", "itq" or None, default=None
        Initial hash layer: a random orthonormal map, or the ITQ solution of the samples or, with a backbone,
        of its outputs; see Notes for None.
    prefixes : tuple or list of int, default=()
        Lengths of prefixes that should be good codes, too, ascending and shorter than `nbits`: :meth:`prefix` cuts
        the codes without another fit. The loss is the mean over all lengths. See :ref:`prefixes`.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, and how much; "auto" takes classes or shared labels
        from y. See :mod:`skhash.affinity`.
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

    The lines "ap", "ndcg" and "fast_ap" are for a linear hasher with that objective, "distances" for
    a linear hasher whose affinity compares the samples of X, as DistanceAffinity does, with any
    objective. The values were chosen on training samples of MNIST, USPS, GIST features and
    MIRFlickr, those of "fast_ap" on MNIST alone.

    References
    ----------
    He, Cakir, Bargal, Sclaroff: Hashing as Tie-Aware Learning to Rank. CVPR 2018.

    Cakir, He, Xia, Kulis, Sclaroff: Deep Metric Learning to Rank. CVPR 2019 (FastAP).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import TALRHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = TALRHasher(nbits=16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.1f}")
    0.9
    """

    _supervised = True
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "objective": [StrOptions({"ap", "ndcg", "fast_ap"})],
        "relaxation": [StrOptions({"exact", "paper", "simplified"})],
        "k": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="neither"), None],
        "n_bins": [Interval(Integral, 1, None, closed="left"), None],
        "init": [StrOptions({"rotation", "itq"}), None],
        "prefixes": [tuple, list],
    }

    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay", "alpha", "init")
    _recipes = {
        "ap": (2500, 256, 0.1, 0.5, 1.0, "rotation"),
        "ndcg": (1000, 500, 0.05, 0.3, 2.0, "rotation"),
        "fast_ap": (2500, 256, 0.1, 1.5, 0.7, "rotation"),
        # for distances between the samples themselves, ITQ is already good, and longer training overfits
        "distances": (1000, 500, 0.02, 2.0, 0.7, "itq"),
        "deep": (1500, 256, 0.003, 0.1, 0.7, "rotation"),
    }
    _sgd_rates = dict.fromkeys(_recipes, 1.0)

    def __init__(
        self,
        nbits: int = 32,
        *,
        objective: Literal["ap", "ndcg", "fast_ap"] = "ap",
        relaxation: Literal["exact", "paper", "simplified"] = "exact",
        k: int | None = None,
        alpha: float | None = None,
        n_bins: int | None = None,
        init: Literal["rotation", "itq"] | None = None,
        prefixes: tuple[int, ...] | list[int] = (),
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.objective = objective
        self.relaxation = relaxation
        self.k = k
        self.alpha = alpha
        self.n_bins = n_bins
        self.init = init
        self.prefixes = prefixes

    def _objective(self) -> Objective:
        alpha = self.settings_["alpha"]
        return TALRObjective(self.objective, self.relaxation, self.k, alpha, self.n_bins, self.prefixes)

    def _kind(self) -> str:
        if self.backbone is not None:
            return super()._kind()
        by_distance = not getattr(self.affinity_, "requires_y", True)
        return "distances" if by_distance else self.objective

    def _validation_metric(self) -> str:
        return "ap" if self.objective == "fast_ap" else self.objective

    def _check_options(self) -> None:
        super()._check_options()
        check_prefixes(self.prefixes, self.nbits, "the bits of a code")
        if self.objective == "fast_ap" and self.relaxation != "exact":
            raise ValueError(f"`relaxation` must be 'exact' with objective='fast_ap'. Got {self.relaxation!r} instead.")
        if self.objective == "fast_ap" and self.k is not None:
            raise ValueError(f"`k` must be None with objective='fast_ap'. Got {self.k} instead.")
        if self.k is not None and self.relaxation != "exact":
            raise ValueError(f"`relaxation` must be 'exact' with k={self.k}. Got {self.relaxation!r} instead.")

    def _initialize(self, encoder: Encoder, X: Any, rng: np.random.RandomState) -> None:
        from skhash.hashers.deep._initial_maps import itq_map, set_itq_head

        if self.backbone is not None:
            if self.settings_["init"] == "itq":
                set_itq_head(encoder, X, rng)
            return
        if self.settings_["init"] == "itq":
            start = itq_map(encoder, X, slice(None), rng)
        else:
            start = orthonormal_map(encoder.hash.in_features, self.nbits, rng)
        with torch.no_grad():
            encoder.hash.weight.copy_(torch.as_tensor(start.T))
