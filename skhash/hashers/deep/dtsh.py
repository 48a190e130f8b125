"""DTSH, deep supervised hashing with triplet labels (Wang, Shi, Kitani, ACCV 2016).

For each sample q of a batch, each sample p relevant to it and each sample n that is not, with
theta_ij = <u_i, u_j> / 2, the pair (q, p) is the more similar one by a margin with probability
sigma(theta_qp - theta_qn - alpha). The negative log-likelihood of the triplets, plus the
distance of the activations from their codes b_i = sign(u_i), is

    L = sum_qpn softplus(-(theta_qp - theta_qn - alpha)) + lambda sum_i |b_i - u_i|^2      (eq. 6)

here both as means: over the triplets of a batch, and over its entries.
"""

from __future__ import annotations

from numbers import Real
from typing import ClassVar, Unpack

from skhash._compat import Interval
from skhash._libraries import torch
from skhash.affinity import Relevance
from skhash.engine import Objective
from skhash.hashers.deep._objectives import QuantizedObjective
from skhash.hashers.deep._parameters import SharedParameters
from skhash.hashers.deep._shared import QuantizedDeepHasher

_MAX_TRIPLETS = 2**22  # of a batch: the differences of theta take 16 MiB


class DTSHObjective(QuantizedObjective):
    """Mean likelihood of at most `max_triplets` triplets of a batch, and the squared penalty of its activations."""

    def __init__(self, quantization_weight: float, margin: float, max_triplets: int = _MAX_TRIPLETS) -> None:
        super().__init__(quantization_weight)
        self.margin, self.max_triplets = margin, max_triplets

    def data_loss(self, u: torch.Tensor, relevance: Relevance) -> torch.Tensor:
        """Mean over triplets of softplus(margin - theta_qp + theta_qn), 0 without triplets."""
        index, _ = relevance.levels()
        similar = torch.from_numpy(index > 0).to(u.device)
        query, positive = torch.nonzero(similar.clone().fill_diagonal_(False), as_tuple=True)
        n_pairs = max(1, self.max_triplets // len(u))
        if len(query) > n_pairs:
            drawn = torch.randperm(len(query))[:n_pairs].to(u.device)
            query, positive = query[drawn], positive[drawn]
        theta = u @ u.T / 2
        # one row per pair (q, p), one column per sample n: triplets are not listed
        losses = torch.nn.functional.softplus(self.margin - theta[query, positive][:, None] + theta[query])
        valid = ~similar.fill_diagonal_(True)[query]
        return torch.where(valid, losses, 0.0).sum() / valid.sum().clamp_min(1)


class DTSHHasher(QuantizedDeepHasher):
    """Deep supervised hashing with triplet labels: relevant samples nearer by a margin.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    margin : float, default=None
        Margin alpha by which theta of a relevant pair should exceed that of an irrelevant one;
        theta is between -nbits / 2 and nbits / 2 for codes. None uses nbits / 2.
    quantization_weight : float, default=None
        Weight lambda of the mean squared distance of activations from their signs; see
        Notes for None.
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
    A step uses all triplets of its batch, or a random subset if there are more than 2**22.

    {defaults}

    The values were chosen on training samples of MNIST.

    References
    ----------
    Wang, Shi, Kitani: Deep Supervised Hashing with Triplet Labels. ACCV 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import DTSHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = DTSHHasher(nbits=16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.1f}")
    0.8
    """

    _recipes = {"linear": (2500, 128, 0.02, 0.5, 1.0), "deep": (1500, 128, 0.003, 1.0, 0.1)}
    _of_module: ClassVar = {}  # the values of "deep" are better there, too (experiments/networks.py)
    _hidden_dropout = 0.1
    _parameter_constraints = QuantizedDeepHasher._parameter_constraints | {
        "margin": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        nbits: int = 32,
        *,
        margin: float | None = None,
        quantization_weight: float | None = None,
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.margin = margin
        self.quantization_weight = quantization_weight

    def _objective(self) -> Objective:
        margin = self.nbits / 2 if self.margin is None else self.margin
        return DTSHObjective(self.settings_["quantization_weight"], margin)
