"""Bi-half codes (Li and van Gemert, AAAI 2021).

The entropy of a bit is largest if it is 1 for half of the samples. A bit whose activations are u_1, ..., u_n in a
batch of n samples therefore becomes

    b_i = 1 if u_i is among the ceil(n / 2) largest of the batch, else -1

which is the distribution with two equal halves that is nearest to the activations (optimal transport; n is even in
the paper). As in Greedy Hash without labels, the codes keep the cosines of the samples,

    L = mean_ij [ cos(b_i, b_j) - cos(x_i - m, x_j - m) ]^2

over the pairs of different samples of a batch with the mean m. Forward, the codes are b. Backward, a term pulls each
of the N activations of the batch to its code:

    dJ/du = dL/db + gamma (u - b) / N

This is the gradient, straight through b, of J = L + gamma/2 mean (u - b)^2. New samples are hashed by sign(u).
"""

from __future__ import annotations

from skhash._libraries import torch
from skhash.engine import Objective
from skhash.hashers.deep._shared import QuantizedDeepHasher
from skhash.hashers.deep.greedyhash_unsupervised import CosineObjective


class BiHalfObjective(CosineObjective):
    """Squared differences of the cosines of balanced codes and of samples, and a penalty of the activations."""

    def binarize(self, u: torch.Tensor) -> torch.Tensor:
        """Balanced codes: each bit is 1 for the half of the batch with the largest activations, and else -1."""
        ranks = u.argsort(dim=0, descending=True, stable=True).argsort(dim=0)
        return torch.where(2 * ranks < len(u), 1.0, -1.0)

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Half of the mean squared distance of the activations from their codes."""
        return torch.square(excess).mean() / 2


class BiHalfHasher(QuantizedDeepHasher):
    """Bi-half codes: balanced bits with the cosines of the samples.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    quantization_weight : float, default=None
        Weight gamma of the mean squared distance of activations from their codes; see Notes
        for None.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, for :meth:`score` only. See :mod:`skhash.affinity`.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it; "auto"
        crops and flips images.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    The cosines are those of the samples as they are given. Cosines of the pixels of images say little: pass
    features of a pretrained network, as the paper does.

    Targets are used by :meth:`score`, and by ``early_stopping`` to choose an epoch.

    {defaults}

    They were chosen on held-out training samples of USPS, MNIST, CIFAR-10 GIST and features of EfficientNet, by the
    AP_T at 16 and 64 bits (linear) and 32 bits (networks) with one seed. These trials are not stored.

    References
    ----------
    Li, van Gemert: Deep Unsupervised Image Hashing by Maximizing Bit Entropy. AAAI 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import BiHalfHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = BiHalfHasher(nbits=16, n_epochs=5, random_state=0)
    >>> hasher.fit(X[:1000]).transform(X[1000:]).shape
    (797, 16)
    """

    _supervised = False
    _recipes = {"linear": (6000, 64, 0.001, 3.0, 6.0), "deep": (1500, 256, 0.003, 0.1, 1.0)}

    def _objective(self) -> Objective:
        return BiHalfObjective(self.settings_["quantization_weight"])
