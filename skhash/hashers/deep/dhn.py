"""DHN, deep hashing network (Zhu, Long, Wang, Cao, AAAI 2016).

The activations z = tanh f(x) maximise the posterior of the similarities s_ij under a
bimodal Laplacian prior of the activations, p(z) ~ exp(-| |z| - 1 | / epsilon), smoothed:

    L = sum_ij ( softplus(<z_i, z_j> / 2) - s_ij <z_i, z_j> / 2 )      (pairwise cross-entropy)
    Q = sum_ik log cosh( |z_ik| - 1 )                                  (pairwise quantisation)
    C = L + lambda Q

here both as means: over the pairs of different rows of a batch, and over its entries.
"""

import math

import torch
from torch.nn.functional import softplus

from skhash.hashers.deep._quantized import QuantizedDeepHasher
from skhash.hashers.deep.dpsh import PairwiseObjective


class DHNObjective(PairwiseObjective):
    """Mean pairwise cross-entropy of a batch and the prior of its activations.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    quantization_weight : float
        lambda.
    """

    def activate(self, f):
        """Squash the outputs of the encoder into (-1, 1)."""
        return torch.tanh(f)

    def penalty(self, excess):
        """Compute log cosh without overflow."""
        return excess + softplus(-2 * excess) - math.log(2)


class DHNHasher(QuantizedDeepHasher):
    """Deep hashing network: pairwise cross-entropy under a bimodal prior of the activations.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    quantization_weight : float, default=None
        Weight lambda of the prior that draws activations to -1 and 1; see Notes for None.
    affinity : "auto" or callable, default="auto"
        Which rows are similar; "auto" takes classes or shared labels from y. See
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
    Parameters left None take these values, chosen on training rows of MNIST (a budget of
    steps makes between 30 and 125 epochs):

    ============  =====  ====  =========  ============  ===================
    hasher        steps  rows  step size  weight decay  quantization_weight
    ============  =====  ====  =========  ============  ===================
    linear        2500   256   0.1        0.5           2.0
    any backbone  1500   256   0.003      0.1           0.1
    ============  =====  ====  =========  ============  ===================

    With ``optimizer="sgd"`` the step size is 1.0 for a linear hasher and 0.1 with a
    backbone, and the weight decay, there an L2 penalty, 5e-4.

    References
    ----------
    Zhu, Long, Wang, Cao: Deep Hashing Network for Efficient Similarity Retrieval. AAAI 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import DHNHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = DHNHasher(nbits=16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.score(X[1000:], y[1000:]) > 0.8
    True
    """

    _recipes = {"linear": (2500, 256, 0.1, 0.5, 2.0), "deep": (1500, 256, 0.003, 0.1, 0.1)}
    _sgd_rates = {"linear": 1.0, "deep": 0.1}

    def _objective(self):
        return DHNObjective(self.affinity_, self.settings_["quantization_weight"])
