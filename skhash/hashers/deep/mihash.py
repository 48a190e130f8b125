"""MIHash, hashing with mutual information (Cakir, He, Bargal, Sclaroff, ICCV 2017; TPAMI 2019).

The Hamming distance D of a row to the others of its batch should tell whether these are
relevant, C = + or -. The mutual information

    I(D; C) = H(D) - [ p+ H(D | C = +) + p- H(D | C = -) ],   0 <= I <= H(C)

is largest where the distances to the two kinds do not overlap. Of the soft counts c_d, c+_d and
c-_d of :mod:`skhash.metrics.soft_histogram`, with triangular bins,

    p(D = d) = c_d / N,   p(D = d | +) = c+_d / N+,   p+ = N+ / N,   H(p) = - sum_d p_d ln p_d

and the loss is -I, averaged over the rows that have both kinds. It is another function of
the very histogram that TALR, of the same authors, ranks.
"""

from numbers import Integral, Real

import torch

from skhash._compat import Interval
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep.talr import TALRObjective
from skhash.metrics._ties import divide


def _entropy(counts):
    """Entropy of counts over axis 1; an empty bin has no gradient, where the true one is infinite."""
    p = divide(counts, counts.sum(1, keepdim=True))
    return -torch.special.xlogy(p, torch.where(p > 1e-12, p, 1.0)).sum(1)


def mutual_information(counts):
    """Mutual information between distance and relevance, in nats.

    Parameters
    ----------
    counts : float64 tensor of shape (n_queries, n_bins, n_levels)
        Items of each query by distance and level.

    Returns
    -------
    float64 tensor of shape (n_queries,)
        Values from 0 to the entropy of the levels; 0 where there is one level only.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep.mihash import mutual_information
    >>> apart, overlapping = [[2, 0], [0, 2]], [[2, 1], [0, 1]]
    >>> mutual_information(torch.tensor([apart, overlapping]).double())
    tensor([0.6931, 0.2158], dtype=torch.float64)
    """
    of_level = counts.sum(1)
    shares = divide(of_level, of_level.sum(1, keepdim=True))
    return _entropy(counts.sum(2)) - (shares * _entropy(counts)).sum(1)


class MIHashObjective(TALRObjective):
    """Minus the mean mutual information of a batch.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    alpha, n_bins
        As in :class:`MIHashHasher`.
    """

    def __init__(self, affinity, alpha=1.0, n_bins=None):
        super().__init__(affinity, alpha=alpha, n_bins=n_bins)

    def loss(self, H):
        """Compute the loss of the soft counts of a batch, of two levels."""
        has_both = (H.counts.sum(1) > 0.5).all(1)
        return -mutual_information(H.counts).sum() / has_both.sum().clamp_min(1)


class MIHashHasher(DeepHasher):
    """Hashing with mutual information: distances that tell what is relevant.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    alpha : float, default=None
        Slope of the tanh that stands for the sign in training; see Notes for None.
    n_bins : int, default=None
        Bins of the soft histogram; None takes one a bit, which makes it exact on codes.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant; "auto" takes classes or shared labels from y. See
        :mod:`skhash.affinity`.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it; "auto" for
        images crops and flips them.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    Parameters left None take these values, those of :class:`TALRHasher` for "ap" (a budget
    of steps makes between 30 and 125 epochs):

    ============  =====  ====  =========  ============  =====
    hasher        steps  rows  step size  weight decay  alpha
    ============  =====  ====  =========  ============  =====
    linear        2500   256   0.1        0.5           1.0
    any backbone  1500   256   0.003      0.1           0.7
    ============  =====  ====  =========  ============  =====

    With ``optimizer="sgd"`` the step size is 1.0 and the weight decay, there an L2
    penalty, 5e-4.

    References
    ----------
    Cakir, He, Bargal, Sclaroff: MIHash: Online Hashing with Mutual Information. ICCV 2017.

    Cakir, He, Bargal, Sclaroff: Hashing with Mutual Information. TPAMI 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import MIHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = MIHashHasher(nbits=16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.score(X[1000:], y[1000:]) > 0.8
    True
    """

    _supervised = True
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "alpha": [Interval(Real, 0, None, closed="neither"), None],
        "n_bins": [Interval(Integral, 1, None, closed="left"), None],
    }

    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay", "alpha")
    _recipes = {"linear": (2500, 256, 0.1, 0.5, 1.0), "deep": (1500, 256, 0.003, 0.1, 0.7)}
    _sgd_rates = {"linear": 1.0, "deep": 1.0}

    def __init__(
        self,
        nbits=32,
        *,
        alpha=None,
        n_bins=None,
        backbone=None,
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
        self.alpha = alpha
        self.n_bins = n_bins
        self.backbone = backbone
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
        return MIHashObjective(self.affinity_, self.settings_["alpha"], self.n_bins)
