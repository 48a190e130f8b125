"""DHN, deep hashing network (Zhu, Long, Wang, Cao, AAAI 2016).

The activations z = tanh f(x) maximize the posterior of the similarities s_ij under a
bimodal Laplacian prior of the activations, p(z) ~ exp(-| |z| - 1 | / epsilon), smoothed:

    L = sum_ij ( softplus(<z_i, z_j> / 2) - s_ij <z_i, z_j> / 2 )      (pairwise cross-entropy)
    Q = sum_ik log cosh( |z_ik| - 1 )                                  (pairwise quantization)
    C = L + lambda Q

here both as means: over the pairs of different samples of a batch, and over its entries.
"""

from __future__ import annotations

import math
from typing import Unpack

from skhash._libraries import torch
from skhash.engine import Objective
from skhash.hashers.deep._objectives import PairwiseObjective
from skhash.hashers.deep._parameters import SharedParameters
from skhash.hashers.deep._shared import QuantizedDeepHasher


class DHNObjective(PairwiseObjective):
    """Mean pairwise cross-entropy of a batch, and the prior of its activations, weighted by lambda."""

    def activate(self, f: torch.Tensor) -> torch.Tensor:
        """Outputs of the encoder, squashed into (-1, 1)."""
        return torch.tanh(f)

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Log cosh, without overflow."""
        return excess + torch.nn.functional.softplus(-2 * excess) - math.log(2)


class DHNHasher(QuantizedDeepHasher):
    """Deep hashing network: pairwise cross-entropy under a bimodal prior of the activations.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    quantization_weight : float, default=None
        Weight lambda of the prior, which pulls activations to -1 and 1; see Notes for None.
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

    The values were chosen on training samples of MNIST.

    References
    ----------
    Zhu, Long, Wang, Cao: Deep Hashing Network for Efficient Similarity Retrieval. AAAI 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import DHNHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = DHNHasher(nbits=16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.1f}")
    0.8
    """

    _recipes = {"linear": (2500, 256, 0.1, 0.5, 2.0), "deep": (1500, 256, 0.003, 1.0, 0.1)}
    _hidden_dropout = 0.1
    _sgd_rates = {"linear": 1.0, "deep": 0.1}

    def __init__(
        self, nbits: int = 32, *, quantization_weight: float | None = None, **shared: Unpack[SharedParameters]
    ) -> None:
        super().__init__(nbits, quantization_weight=quantization_weight, **shared)

    def _objective(self) -> Objective:
        return DHNObjective(self.settings_["quantization_weight"])
