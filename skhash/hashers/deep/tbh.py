r"""TBH, auto-encoding twin-bottleneck hashing (Shen, Qin, Chen, Yu, Liu, Zhu, Shen, Shao, CVPR 2020).

An auto-encoder passes its samples through two bottlenecks: random bits with straight-through gradients
(:func:`skhash.hashers.deep.bernoulli_sign`), and latents,

    b_i in {-1, 1}^M,  P(b_ik = 1) = sigmoid(f_k(x_i)),      z_i = sigmoid(g(x_i)).

The codes of a batch are a graph: samples are as near as their codes are similar. One graph convolution mixes the
latents, and these are decoded:

    A_ij = 1 - d_H(b_i, b_j) / M = (1 + <b_i, b_j> / M) / 2,   D = diag(A 1)
    Z'   = sigmoid(N(D^-1/2 A D^-1/2 Z W)),                    x^_i = decoder(z'_i)

where N brings each latent to mean 0 and variance 1 over the batch. A has a rank of at most M + 1: only the bits of a
sample reach the decoder, and the latents of the batch say what each bit means. N is not in the paper. Without it the
mixed latents of all samples are nearly equal, since a bit moves them by 1/M of its covariance with Z W. Decoders
then learn slowly to distinguish them.

Both bottlenecks are pulled to priors as in a Wasserstein auto-encoder, fair bits and uniform latents, by
critics c_1 and c_2, linear layers that distinguish drawn y from encoded ones:

    L   = 1/(2 M n) sum_i |x_i - x^_i|^2 - lambda/n sum_i [ ln s(c_1(b_i)) + ln s(c_2(z'_i)) ],   s = sigmoid
    L_D = -lambda/n sum_i [ ln s(c_1(y_i)) + ln s(-c_1(b_i)) + ln s(c_2(y'_i)) + ln s(-c_2(z'_i)) ]

The critics minimize L_D and all else L, in the same step. One optimizer follows the gradient of L + L_D, with the
critics held constant in L, and b and z' in L_D. So each player sees only its own loss.
"""

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, ClassVar, Unpack

from skhash._compat import Interval
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._parameters import SharedParameters

if TYPE_CHECKING:
    from skhash.engine import Objective


class TBHHasher(DeepHasher):
    """Twin-bottleneck hashing: unsupervised codes, the graph over which an auto-encoder mixes its latents.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    n_latent : int, default=512
        Number of latents, which are used in training only.
    adversarial_weight : float, default=0.1
        Weight lambda of the losses that pull bits and latents to their priors; 1 in the paper.
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
    The critics learn fastest: in the first tens of steps they may pull many bits to one value
    and back. Judge a training by its later epochs.

    Targets are used by :meth:`score`, and by ``early_stopping`` to choose an epoch.

    {defaults}

    The values were chosen on training samples of MNIST, where "mlp" reaches the same AP_T as a
    linear hasher in three times the time.

    References
    ----------
    Shen, Qin, Chen, Yu, Liu, Zhu, Shen, Shao: Auto-Encoding Twin-Bottleneck Hashing. CVPR 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import TBHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = TBHHasher(nbits=16, n_epochs=5, random_state=0).fit(X[:1000])
    >>> hasher.transform(X[1000:]).shape
    (797, 16)
    """

    _n_epochs_range = (10, 300)
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "n_latent": [Interval(Integral, 1, None, closed="left")],
        "adversarial_weight": [Interval(Real, 0, None, closed="left")],
    }

    _objective_params = ("n_latent",)
    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay")
    _recipes = {"linear": (1000, 256, 1e-3, 1e-4), "deep": (2000, 256, 3e-3, 1e-4)}
    _sgd_rates = {"linear": 0.1, "deep": 0.1}
    _of_module: ClassVar = {}

    _shared_defaults: ClassVar = {"input_dropout": 0.0}
    _hidden_dropout = 0.0

    def __init__(
        self,
        nbits: int = 32,
        *,
        n_latent: int = 512,
        adversarial_weight: float = 0.1,
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.n_latent = n_latent
        self.adversarial_weight = adversarial_weight

    def _objective(self) -> "Objective":
        from skhash.hashers.deep._tbh import TBHObjective

        n_inputs = math.prod(self.input_shape_)
        return TBHObjective(self.nbits, self._feature_width(), n_inputs, self.n_latent, self.adversarial_weight)
