"""The objective of TALR: the metric itself on soft counts, or its relaxations. See the equations in talr.py."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from skhash._validation import check_option
from skhash.affinity import Relevance
from skhash.hashers.deep._objectives import HistogramObjective
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
        LogIntegral.apply(torch.where(late, after + 1, 2.0)) - LogIntegral.apply(torch.where(late, before + 1, 2.0))
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


class LogIntegral(torch.autograd.Function):
    """li(x) for x > 1, with its derivative 1 / ln x: from scipy on a CPU, by its series on other devices."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Values of a float64 tensor of any shape."""
        from scipy.special import expi

        ctx.save_for_backward(x)
        if x.device.type == "cpu":
            return torch.from_numpy(expi(np.log(x.detach().numpy())))
        return log_integral_series(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Gradient with respect to x."""
        (x,) = ctx.saved_tensors
        return gradient / torch.log(x)


def log_integral_series(x: torch.Tensor) -> torch.Tensor:
    """li(x) = gamma + ln ln x + sum_k (ln x)^k / (k k!) for float64 values in (1, exp(15)]."""
    logarithm = torch.log(x)
    total = term = logarithm
    for k in range(2, N_TERMS):
        term = term * logarithm / k
        total = total + term / k
    return np.euler_gamma + torch.log(logarithm) + total
