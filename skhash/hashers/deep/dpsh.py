"""DPSH, deep pairwise-supervised hashing (Li, Wang, Kang, IJCAI 2016).

With theta_ij = <u_i, u_j> / 2, and s_ij = 1 for relevant pairs, p(s_ij = 1) = sigma(theta_ij)
and the negative log-likelihood of the pairs, plus the distance of the activations from
their codes b_i = sign(u_i), is

    J = - sum_ij ( s_ij theta_ij - softplus(theta_ij) ) + eta sum_i |b_i - u_i|^2      (eq. 4)

here both as means: over the pairs of different samples of a batch, and over its entries.
It is HashNet's likelihood with slope 1/2 and all pairs of one weight. HashNet makes the
codes binary by continuation, DPSH by the penalty.
"""

from __future__ import annotations

from typing import Unpack

from skhash.engine import Objective
from skhash.hashers.deep._objectives import PairwiseObjective
from skhash.hashers.deep._parameters import SharedParameters
from skhash.hashers.deep._shared import QuantizedDeepHasher


class DPSHHasher(QuantizedDeepHasher):
    """Deep pairwise-supervised hashing: pairwise likelihood, and activations near their signs.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    quantization_weight : float, default=None
        Weight eta of the mean squared distance of activations from their signs; see Notes
        for None.
    affinity : "auto" or callable, default="auto"
        Which samples are similar; "auto" takes classes or shared labels from y. See
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

    The values were chosen on training samples of MNIST. With SGD the activations, which have no
    bound, diverge at larger learning rates.

    References
    ----------
    Li, Wang, Kang: Feature Learning based Deep Supervised Hashing with Pairwise Labels.
    IJCAI 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import DPSHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = DPSHHasher(nbits=16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.score(X[1000:], y[1000:]) > 0.7
    True
    """

    _recipes = {"linear": (2500, 256, 0.02, 0.5, 0.1), "deep": (1500, 256, 0.003, 1.0, 0.1)}
    _hidden_dropout = 0.1
    _sgd_rates = {"linear": 0.3, "deep": 0.01}

    def __init__(
        self, nbits: int = 32, *, quantization_weight: float | None = None, **shared: Unpack[SharedParameters]
    ) -> None:
        super().__init__(nbits, quantization_weight=quantization_weight, **shared)

    def _objective(self) -> Objective:
        return PairwiseObjective(self.settings_["quantization_weight"])
