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

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from skhash._compat import Interval, StrOptions
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._parameters import (
    SharedParameters,
)
from skhash.hashers.deep._shared import PrefixesMixin
from skhash.hashers.shallow.linear import orthonormal_map

if TYPE_CHECKING:
    from skhash.engine import Encoder, Objective


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

    def _objective(self) -> "Objective":
        from skhash.hashers.deep._talr import TALRObjective

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
        self._check_prefixes(self.nbits, "the bits of a code")
        if self.objective == "fast_ap" and self.relaxation != "exact":
            raise ValueError(f"`relaxation` must be 'exact' with objective='fast_ap'. Got {self.relaxation!r} instead.")
        if self.objective == "fast_ap" and self.k is not None:
            raise ValueError(f"`k` must be None with objective='fast_ap'. Got {self.k} instead.")
        if self.k is not None and self.relaxation != "exact":
            raise ValueError(f"`relaxation` must be 'exact' with k={self.k}. Got {self.relaxation!r} instead.")

    def _initialize(self, encoder: "Encoder", X: Any, rng: np.random.RandomState) -> None:
        import torch

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
