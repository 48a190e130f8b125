r"""TALR, hashing as tie-aware learning to rank (He, Cakir, Bargal, Sclaroff, CVPR 2018).

The rows of a batch are ranked for each of them by the soft Hamming distance

    d = (b - <phi, phi'>) / 2,   phi = tanh(alpha f(x)),

the distances are counted softly (:mod:`skhash.metrics.soft_histogram`), and the loss
is one minus the very metric that hard codes are scored with:

    exact       AP_T and NDCG_T of :mod:`skhash.metrics` on the soft counts c_d, C_d = c_0 + ... + c_d
    paper       AP_T with psi(C_d + 1) - psi(C_{d-1} + 1) -> ln(C_d / C_{d-1}),
                DCG_T with S(C_d) - S(C_{d-1}) -> ln 2 [li(C_d + 1) - li(C_{d-1} + 1)]
    simplified  AP_s = (1 / C+) sum_d c+_d (C+_{d-1} + C+_d + 1) / (C_{d-1} + C_d + 1),
                DCG_s = sum_d sum_v G(v) c_{d,v} / log2(C_{d-1} + (c_d + 1) / 2 + 1)

The two logarithmic integrals are singular at C_{d-1} = 0, that is in the first
non-empty tie of every ranking: ties with C_{d-1} < 1 keep the exact form. The ratio
(c+_d - 1) / (c_d - 1), whose pole at c_d = 1 the exact form cancels and the paper's does
not, is clipped to [0, 1], where it lies for whole counts. A further objective on the same
soft counts is FastAP (:mod:`skhash.metrics.fastap`).
"""

from numbers import Integral, Real

import numpy as np
import torch

from skhash._compat import Interval, StrOptions
from skhash.affinity import level_indices
from skhash.engine import Objective, batch_tensor
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.shallow._linear import orthonormal_map, principal_map
from skhash.hashers.shallow.itq import quantizing_rotation
from skhash.metrics import average_precision, ndcg
from skhash.metrics._ties import (
    cumulative_discount,
    divide,
    items_before,
    merge_relevant,
    per_item,
    ranks_within,
    tied_ranking,
)
from skhash.metrics.fastap import fast_ap
from skhash.metrics.ndcg import expected_gain, level_gains
from skhash.metrics.soft_histogram import soft_histogram


def _relaxed_ap(n, p):
    """The paper's AP_r, its first tie exact."""
    before, relevant_before, ranks = items_before(n), items_before(p), ranks_within(n)
    first, filled = before < 1, n > 1e-9
    late, early = filled & ~first, filled & first
    logs = torch.log(torch.where(late, ranks[:, 1:], 1.0)) - torch.log(torch.where(late, before, 1.0))
    exact = torch.digamma(torch.where(early, ranks[:, 1:], 0.0) + 1) - torch.digamma(
        torch.where(early, before, 0.0) + 1
    )
    single = (n - 1).abs() < 1e-9
    ratio = torch.where(single, 0.0, (p - 1) / torch.where(single, 1.0, n - 1)).clamp(0, 1)
    braces = ratio * n + (relevant_before + 1 - ratio * (before + 1)) * torch.where(first, exact, logs)
    return divide(per_item(p * braces, n).sum(-1), p.sum(-1))


def _simplified_ap(n, p):
    """The AP_s of the authors' code."""
    before, relevant_before = items_before(n), items_before(p)
    return divide((p * (2 * relevant_before + p + 1) / (2 * before + n + 1)).sum(-1), p.sum(-1))


def _relaxed_dcg(n, gain):
    """The paper's DCG_r, its first tie exact."""
    ranks = ranks_within(n)
    before, after = ranks[:, :-1], ranks[:, 1:]
    late = before >= 1
    integral = np.log(2.0) * (
        _LogIntegral.apply(torch.where(late, after + 1, 2.0)) - _LogIntegral.apply(torch.where(late, before + 1, 2.0))
    )
    exact = torch.diff(cumulative_discount(ranks, "log2"), dim=-1)
    return (per_item(gain, n) * torch.where(late, integral, exact)).sum(-1)


def _simplified_dcg(n, gain):
    """The DCG_s of the authors' code: the discount at each tie's middle rank."""
    return (gain / torch.log2(items_before(n) + (n + 1) / 2 + 1)).sum(-1)


class _LogIntegral(torch.autograd.Function):
    """li(x) for x > 1, which torch lacks; its derivative is 1 / ln x."""

    @staticmethod
    def forward(ctx, x):
        from scipy.special import expi

        ctx.save_for_backward(x)
        return torch.from_numpy(expi(np.log(x.detach().cpu().numpy()))).to(x.device)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient / torch.log(x)


_RELAXED = {
    ("ap", "paper"): _relaxed_ap,
    ("ap", "simplified"): _simplified_ap,
    ("ndcg", "paper"): _relaxed_dcg,
    ("ndcg", "simplified"): _simplified_dcg,
}

MAX_LEVELS = 256  # the soft histogram has one plane a level


def soft_metric(H, objective, relaxation="exact", k=None):
    """Metric of each query on soft counts, 0 for a query without relevant items.

    Parameters
    ----------
    H : RelevanceHistogram
        Soft counts, see :func:`skhash.metrics.soft_histogram.soft_histogram`.
    objective : "ap", "ndcg" or "fastap"
        The metric.
    relaxation : "exact", "paper" or "simplified", default="exact"
        The metric itself, or one of the two relaxations in the head of this file; "fastap" has none.
    k : int, default=None
        Cut-off of "ap" and "ndcg", for "exact" only; AP@k is divided by min(relevant, k).

    Returns
    -------
    float64 tensor of shape (n_queries,)
        Values; on whole counts "exact" is the metric.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.hashers.deep.talr import soft_metric
    >>> from skhash.metrics import RelevanceHistogram
    >>> counts = torch.tensor([[[0.25, 0.75], [0.75, 0.25]]], requires_grad=True)  # a relevant item, mostly nearer
    >>> value = soft_metric(RelevanceHistogram(counts, np.array([0, 1])), "ap")
    >>> round(value.item(), 3)
    0.863
    >>> (torch.autograd.grad(value.sum(), counts)[0][0, 0] > 0).tolist()  # what nearer items are worth
    [False, True]
    """
    if objective == "fastap":
        return fast_ap(*tied_ranking(merge_relevant(H.counts, H.levels), [0.0, 1.0]))
    if relaxation == "exact":
        options = {"k": k, "empty": "zero", "average": False}
        return average_precision(H, normalizer="min", **options) if objective == "ap" else ndcg(H, **options)
    relaxed = _RELAXED[objective, relaxation]
    if objective == "ap":
        return relaxed(*tied_ranking(merge_relevant(H.counts, H.levels), [0.0, 1.0]))
    gains = level_gains(H.levels)
    ideal = expected_gain(tied_ranking(H.counts.sum(1, keepdim=True), gains, "best"))
    return divide(relaxed(*tied_ranking(H.counts, gains)), ideal)


class TALRObjective(Objective):
    """One minus the mean tie-aware metric of a batch, each row ranking the others.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    objective, relaxation, k, alpha, n_bins
        As in :class:`TALRHasher`.
    """

    def __init__(self, affinity, objective="ap", relaxation="exact", k=None, alpha=1.0, n_bins=None):
        super().__init__()
        self.affinity = affinity
        self.objective, self.relaxation, self.k = objective, relaxation, k
        self.alpha, self.n_bins = alpha, n_bins

    def forward(self, encoder, X, targets, indices):
        """Compute the loss of one batch, see :class:`skhash.engine.Objective`."""
        phi = torch.tanh(self.alpha * encoder(X))
        if phi.isnan().any():
            return phi.sum()  # NaN, for the training loop to report; a histogram would lose it
        nbits = phi.shape[1]
        distances = nbits / 2 - (phi / 2) @ phi.T
        index, levels = level_indices(self.affinity, targets, targets)
        np.fill_diagonal(index, 0)  # no row is relevant to itself
        if len(levels) > MAX_LEVELS and self.objective == "ndcg":
            raise ValueError(
                f"affinity gives {len(levels)} levels in a batch; at most {MAX_LEVELS} are wanted. Round them, for "
                "example by numpy.digitize."
            )
        if self.objective != "ndcg":
            index, levels = np.minimum(index, 1), np.array([0, 1])
        level_index = torch.from_numpy(index.astype(np.int64)).to(X.device)
        return self.loss(soft_histogram(distances, level_index, levels, max_distance=nbits, n_bins=self.n_bins))

    def loss(self, H):
        """Compute the loss of the soft counts of a batch.

        Parameters
        ----------
        H : RelevanceHistogram
            Each row against the others; two levels unless the objective is "ndcg".

        Returns
        -------
        float64 tensor without axes
            One minus the mean metric of the rows to which another one is relevant.
        """
        n_queries = (H.counts[..., 1:].sum((1, 2)) > 0.5).sum().clamp_min(1)
        return 1 - soft_metric(H, self.objective, self.relaxation, self.k).sum() / n_queries


class TALRHasher(DeepHasher):
    """Hashing as tie-aware learning to rank: the training loss is the metric itself.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    objective : "ap", "ndcg" or "fastap", default="ap"
        The metric to optimise; NDCG makes use of graded affinities. "fastap" takes the
        precision at the end of each tie instead of the mean over its orders, see
        :mod:`skhash.metrics.fastap`; scores are then AP.
    relaxation : "exact", "paper" or "simplified", default="exact"
        The tie-aware metric itself on soft counts, the paper's relaxation of it, or
        the one in the authors' code. FastAP has none.
    k : int, default=None
        Optimise AP@k (divided by ``min(relevant, k)``) or NDCG@k; "exact" only, not "fastap".
    alpha : float, default=None
        Slope of the tanh that stands for the sign in training; see Notes for None.
    n_bins : int, default=None
        Bins of the soft histogram; None takes one a bit, which makes it exact on codes.
    init : "rotation", "itq" or None, default=None
        First hash layer: a random orthonormal map, or the ITQ solution (linear only); see
        Notes for None.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant, and how much; "auto" takes classes or shared labels
        from y. See :mod:`skhash.affinity`.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it; "auto" for
        images crops and flips them.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    Parameters left None take these values, chosen on training rows of MNIST, USPS,
    GIST features and MIRFlickr (a budget of steps makes between 30 and 125 epochs):

    =================  =====  ====  =========  ============  =====  ========
    hasher             steps  rows  step size  weight decay  alpha  init
    =================  =====  ====  =========  ============  =====  ========
    linear, "ap"       2500   256   0.1        0.5           1.0    rotation
    linear, "ndcg"     1000   500   0.05       0.3           2.0    rotation
    linear, "fastap"   2500   256   0.1        1.5           0.7    rotation
    linear, distances  1000   500   0.02       2.0           0.7    itq
    any backbone       1500   256   0.003      0.1           0.7    rotation
    =================  =====  ====  =========  ============  =====  ========

    Those of "fastap" were chosen on MNIST alone. "Distances" stands for an affinity that
    compares the rows of X themselves, as DistanceAffinity does, under any objective.

    With ``optimizer="sgd"`` the step size is 1.0 and the weight decay, there an L2
    penalty, 5e-4.

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
    >>> hasher.score(X[1000:], y[1000:]) > 0.8
    True
    """

    _supervised = True
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "objective": [StrOptions({"ap", "ndcg", "fastap"})],
        "relaxation": [StrOptions({"exact", "paper", "simplified"})],
        "k": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="neither"), None],
        "n_bins": [Interval(Integral, 1, None, closed="left"), None],
        "init": [StrOptions({"rotation", "itq"}), None],
    }

    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay", "alpha", "init")
    _recipes = {
        "ap": (2500, 256, 0.1, 0.5, 1.0, "rotation"),
        "ndcg": (1000, 500, 0.05, 0.3, 2.0, "rotation"),
        "fastap": (2500, 256, 0.1, 1.5, 0.7, "rotation"),
        # distances between the rows themselves: ITQ is a good answer already, and is easily overfitted away
        "distances": (1000, 500, 0.02, 2.0, 0.7, "itq"),
        "deep": (1500, 256, 0.003, 0.1, 0.7, "rotation"),
    }
    _sgd_rates = dict.fromkeys(_recipes, 1.0)

    def __init__(
        self,
        nbits=32,
        *,
        objective="ap",
        relaxation="exact",
        k=None,
        alpha=None,
        n_bins=None,
        backbone=None,
        init=None,
        affinity="auto",
        n_epochs=None,
        batch_size=None,
        learning_rate=None,
        backbone_lr_scale=1.0,
        lr_schedule="cosine",
        optimizer="adam",
        weight_decay=None,
        input_dropout=None,
        smoothing=None,
        hidden_dropout=0.3,
        augment=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        checkpoint=None,
        store_database=True,
        device="auto",
        mixed_precision=False,
        deterministic=False,
        random_state=None,
    ):
        self.nbits = nbits
        self.objective = objective
        self.relaxation = relaxation
        self.k = k
        self.alpha = alpha
        self.n_bins = n_bins
        self.backbone = backbone
        self.init = init
        self.affinity = affinity
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.backbone_lr_scale = backbone_lr_scale
        self.lr_schedule = lr_schedule
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.input_dropout = input_dropout
        self.smoothing = smoothing
        self.hidden_dropout = hidden_dropout
        self.augment = augment
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.store_database = store_database
        self.device = device
        self.mixed_precision = mixed_precision
        self.deterministic = deterministic
        self.random_state = random_state

    def _objective(self):
        alpha = self.settings_["alpha"]
        return TALRObjective(self.affinity_, self.objective, self.relaxation, self.k, alpha, self.n_bins)

    def _kind(self):
        by_distance = not getattr(self.affinity_, "requires_y", True)
        return "deep" if self.backbone is not None else "distances" if by_distance else self.objective

    def _score_metric(self):
        return "ap" if self.objective == "fastap" else self.objective

    def _check_options(self, X):
        super()._check_options(X)
        if self.objective == "fastap" and (self.k is not None or self.relaxation != "exact"):
            given = f"relaxation={self.relaxation!r}" if self.k is None else f"k={self.k}"
            raise ValueError(f"{given} with objective='fastap'; k=None and relaxation='exact' are wanted.")
        if self.k is not None and self.relaxation != "exact":
            raise ValueError(f"k={self.k} with relaxation={self.relaxation!r}: a cut-off wants relaxation='exact'.")
        if self.init == "itq" and self.backbone is not None:
            raise ValueError("init='itq' starts a linear hasher; with a backbone use init='rotation'.")

    def _initialize(self, encoder, X, rng):
        if self.backbone is not None:
            return
        if self.settings_["init"] == "itq":
            rows = batch_tensor(X, slice(None), encoder.mean.device)
            with torch.no_grad():
                centred = encoder.eval().features(rows).numpy().astype(np.float64)
            encoder.train()
            start = principal_map(centred, self.nbits, rng)
            start = start @ quantizing_rotation(centred @ start, 50, rng)
            start /= max(float(np.sqrt(np.mean((centred @ start) ** 2))), 1e-12)
        else:
            start = orthonormal_map(encoder.hash.in_features, self.nbits, rng)
        with torch.no_grad():
            encoder.hash.weight.copy_(torch.as_tensor(start.T))
