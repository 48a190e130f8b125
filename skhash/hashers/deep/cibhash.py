r"""CIBHash, hashing with a contrastive information bottleneck (Qiu, Su, Ou, Yu, Chen, IJCAI 2021).

Two random views of each sample give logits f and g of its bits, and random codes:

    p = sigmoid(f),   b_k = sign(p_k - u_k),   u_k uniform in [0, 1),   db/dp = d E[b] / dp = 2

so that each bit is 1 with probability p_k, and gradients pass straight through. The codes of the two views must
find each other among all codes of a batch, and their distributions must agree:

    loss = NT-Xent(b, b'; tau) + beta D,   D = 1/2 [ KL(p || q) + KL(q || p) ]

the first with s_ij = cos(b_i, b_j) / tau, which falls linearly with the Hamming distance
(:func:`skhash.hashers.deep.nt_xent`), and the second, for independent bits, in closed form

    D = 1/2 sum_k (p_k - q_k) (f_k - g_k),   q = sigmoid(g).

D bounds what a code tells of its own view beyond the other one: the information bottleneck. Gradients reach
both of its arguments.
"""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import numpy.typing as npt

from skhash._compat import Interval, StrOptions
from skhash._libraries import torch
from skhash.engine import Objective
from skhash.engine.augment import two_views
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._objectives import bernoulli_sign, nt_xent, view_maker
from skhash.hashers.deep._parameters import Augmentation, SharedParameters

if TYPE_CHECKING:
    from skhash.engine import Encoder


def _symmetric_kl(f: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """Mean of 1/2 [ KL(p || q) + KL(q || p) ] over the samples, in nats, for independent bits with logits f and g."""
    return ((torch.sigmoid(f) - torch.sigmoid(g)) * (f - g)).sum(1).mean() / 2


class CIBHashObjective(Objective):
    """NT-Xent of the random codes of two views, and the divergence of their distributions."""

    def __init__(self, augment: Augmentation, temperature: float = 0.7, kl_weight: float = 0.1) -> None:
        self.two_views = partial(two_views, augment)  # `augment` may be a module of the user, which is not trained
        self.temperature, self.kl_weight = temperature, kl_weight

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        logits = encoder(torch.cat(self.two_views(X)))
        first, second = bernoulli_sign(logits).chunk(2)
        contrast = nt_xent(first, second, self.temperature)
        return contrast + self.kl_weight * _symmetric_kl(*logits.chunk(2))


class CIBHashHasher(DeepHasher):
    """Contrastive information bottleneck: unsupervised codes that two views of a sample share.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    temperature : float, default=None
        Temperature tau of the contrast. None is 0.7; it is 0.3, as in the paper, for images with
        ``augment="auto"``. See Notes.
    kl_weight : float, default=None
        Weight beta of the divergence between the bits of the two views. None is 0.1; it is 0.001,
        as in the paper, for images with ``augment="auto"``. See Notes.
    augment : "auto" or callable, default="auto"
        Maps each training batch (a float32 tensor) to a random version of it; it is called twice.
        "auto" is, for vectors, a little noise and a tenth of the features from other samples, for
        images the augmentation of MoCo v2 (needs kornia); see the Notes of :class:`NSHHasher`.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, for :meth:`score` only. See :mod:`skhash.affinity`.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    Bits are random in training, so that an uncertain bit costs contrast; :meth:`transform` takes
    the more likely value.

    Targets are used by :meth:`score`, and by ``early_stopping`` to choose an epoch.

    {defaults}

    The values for vectors were chosen on training samples of MNIST. This table has the AP_T of
    held-out training samples at 32 bits with the default augmentation of vectors; its first line
    has the paper's values, which images have by default:

    ===========  =========  ====  =====  ==========
    temperature  kl_weight  USPS  MNIST  CIFAR GIST
    ===========  =========  ====  =====  ==========
    0.3          0.001      0.53  0.40   0.17
    0.7          0.001      0.69  0.53   0.19
    0.7          0.1        0.78  0.59   0.20
    ===========  =========  ====  =====  ==========

    The closer the views are, the smaller the weight of their divergence should be. A small
    convolutional network on MNIST, with rotations by 5 degrees, is best with 0.03 and a learning
    rate of 0.001. These trials, and those of the table, are not stored. With the augmentation of
    MoCo v2 and the values for vectors, images get similar codes, or one (:doc:`/methods/cibhash`).

    References
    ----------
    Qiu, Su, Ou, Yu, Chen: Unsupervised Hashing with Contrastive Information Bottleneck. IJCAI 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import CIBHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = CIBHashHasher(nbits=16, n_epochs=5, random_state=0).fit(X[:1000])
    >>> hasher.transform(X[1000:]).shape
    (797, 16)
    """

    _n_epochs_range = (10, 300)
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "temperature": [Interval(Real, 0, None, closed="neither"), None],
        "kl_weight": [Interval(Real, 0, None, closed="left"), None],
        "augment": [StrOptions({"auto"}), callable],
    }

    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay")
    _recipes = {"linear": (5000, 64, 3e-3, 1e-4), "deep": (5000, 64, 3e-3, 1e-4)}
    _sgd_rates = {"linear": 0.3, "deep": 0.3}
    _of_module: ClassVar = {}
    _network_scale = 0.0  # with a network that is trained all codes become equal

    _shared_defaults: ClassVar = {"augment": "auto", "backbone": "mlp", "input_dropout": 0.0}
    _hidden_dropout = 0.0

    def __init__(
        self,
        nbits: int = 32,
        *,
        temperature: float | None = None,
        kl_weight: float | None = None,
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.temperature = temperature
        self.kl_weight = kl_weight

    def _resolve_defaults(self, X: Any) -> None:
        super()._resolve_defaults(X)
        # the views of MoCo v2 differ so much that a larger weight makes all codes equal
        has_moco_v2 = len(self.input_shape_) > 1 and not callable(self.augment)
        temperature, kl_weight = (0.3, 0.001) if has_moco_v2 else (0.7, 0.1)
        self.settings_ |= self._with_given_values({"temperature": temperature, "kl_weight": kl_weight})

    def _objective(self) -> Objective:
        temperature, kl_weight = self.settings_["temperature"], self.settings_["kl_weight"]
        return CIBHashObjective(view_maker(self.augment, self.input_shape_), temperature, kl_weight)

    def _augmentation(self) -> None:
        return None  # the objective draws two views
