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

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import numpy.typing as npt

from skhash._compat import Interval
from skhash._libraries import torch
from skhash.engine import Objective
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._objectives import bernoulli_sign
from skhash.hashers.deep._parameters import SharedParameters

if TYPE_CHECKING:
    from skhash.engine import Encoder


def _similarity_graph(codes: torch.Tensor) -> torch.Tensor:
    """Graph A of codes of -1 and 1: one minus the share of bits in which two samples differ."""
    return (1 + codes @ codes.T / codes.shape[1]) / 2


def _graph_convolution(graph: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    """D^-1/2 A D^-1/2 Z for a graph A (n, n) and rows Z (n, n_latent)."""
    scale = torch.rsqrt(graph.sum(1, keepdim=True))
    return scale * (graph @ (scale * Z))


def _adversarial_loss(critic: Any, encoded: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    """Sum of the losses of a bottleneck and of its critic, a linear layer; each holds the other constant."""
    softplus = torch.nn.functional.softplus
    judged = torch.nn.functional.linear(encoded, critic.weight.detach(), critic.bias.detach())
    return softplus(-judged).mean() + softplus(-critic(prior)).mean() + softplus(critic(encoded.detach())).mean()


class TBHObjective(Objective):
    """Reconstruction through twin bottlenecks, and the adversarial losses of both."""

    def __init__(
        self, nbits: int, width: int, n_inputs: int, n_latent: int = 512, adversarial_weight: float = 0.1
    ) -> None:
        from skhash.engine.backbones import HIDDEN  # imports torch

        nn = torch.nn
        self.adversarial_weight = adversarial_weight
        self.trained["latent"] = nn.Linear(width, n_latent)
        self.trained["mix"] = nn.Linear(n_latent, n_latent, bias=False)
        self.trained["decoder"] = nn.Sequential(nn.Linear(n_latent, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_inputs))
        self.trained["bit_critic"], self.trained["latent_critic"] = nn.Linear(nbits, 1), nn.Linear(n_latent, 1)

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        features = encoder.features(X)
        codes = bernoulli_sign(encoder.head(features))
        latents = torch.sigmoid(self.trained["latent"](features))
        mixed = _graph_convolution(_similarity_graph(codes), self.trained["mix"](latents))
        mixed = torch.sigmoid(torch.nn.functional.batch_norm(mixed, None, None, training=True))
        errors = self.trained["decoder"](mixed) - ((X - encoder.mean) / encoder.scale).flatten(1)
        reconstruction = torch.square(errors).sum(1).mean() / (2 * codes.shape[1])
        fair, uniform = torch.rand_like(codes).round() * 2 - 1, torch.rand_like(mixed)
        adversarial = _adversarial_loss(self.trained["bit_critic"], codes, fair)
        adversarial = adversarial + _adversarial_loss(self.trained["latent_critic"], mixed, uniform)
        return reconstruction + self.adversarial_weight * adversarial


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

    def _objective(self) -> Objective:
        n_inputs = math.prod(self.input_shape_)
        return TBHObjective(self.nbits, self._feature_width(), n_inputs, self.n_latent, self.adversarial_weight)
