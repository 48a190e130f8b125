"""Unsupervised Greedy Hash (Su, Zhang, Han, Tian, NeurIPS 2018, section 4.2).

Without labels, the codes b = sign(u) keep the cosines of the samples,

    min  mean_ij [ cos(b_i, b_j) - cos(x_i - m, x_j - m) ]^2 + alpha | |u| - 1 |_3^3

over the pairs of different samples of a batch, where cos(b_i, b_j) = <b_i, b_j> / K for K bits, and m is the mean
of the batch. As in the supervised form, the sign is taken greedily: forward it is the sign, and backward the
gradient passes unchanged, dL/du = dL/db. The penalty is the mean over the entries of a batch.

The paper compares features of a network, which are not negative, as they are (m = 0), and each sample with one
other sample of its batch.
"""

from typing import TYPE_CHECKING, ClassVar

from skhash.hashers.deep._shared import QuantizedDeepHasher

if TYPE_CHECKING:
    from skhash.engine import Objective


class UnsupervisedGreedyHashHasher(QuantizedDeepHasher):
    """Unsupervised Greedy Hash: codes with the cosines of the samples, gradients straight through the sign.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    quantization_weight : float, default=None
        Weight alpha of the mean cubed distance of activations from their signs; see Notes
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

    The weight of the penalty and the weight decay of a linear hasher were chosen on held-out training
    samples of the digits and USPS, by the AP_T at 32 bits with one seed. There it is above that of ITQ.
    These trials are not stored. The other values are those of :class:`GreedyHashHasher`.

    References
    ----------
    Su, Zhang, Han, Tian: Greedy Hash: Towards Fast Optimization for Accurate Hash Coding in
    CNN. NeurIPS 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import UnsupervisedGreedyHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = UnsupervisedGreedyHashHasher(nbits=16, n_epochs=5, random_state=0)
    >>> hasher.fit(X[:1000]).transform(X[1000:]).shape
    (797, 16)
    """

    _supervised = False
    _recipes = {"linear": (2500, 256, 0.02, 0.5, 1.0), "deep": (1500, 256, 0.003, 0.1, 1.0)}
    _of_module: ClassVar = {}

    def _objective(self) -> "Objective":
        from skhash.hashers.deep._greedyhash_unsupervised import CosineObjective

        return CosineObjective(self.settings_["quantization_weight"])
