r"""TBH, auto-encoding twin-bottleneck hashing (Shen, Qin, Chen, Yu, Liu, Zhu, Shen, Shao, CVPR 2020).

An auto-encoder squeezes its rows through two bottlenecks: bits, drawn straight through as in
:func:`skhash.hashers.deep._binarize.bernoulli_sign`, and latents,

    b_i in {-1, 1}^M,  P(b_ik = 1) = sigmoid(f_k(x_i)),      z_i = sigmoid(g(x_i)).

The codes of a batch are a graph: rows are as near as their codes are similar. What is decoded are latents that one
graph convolution has mixed,

    A_ij = 1 - d_H(b_i, b_j) / M = (1 + <b_i, b_j> / M) / 2,   D = diag(A 1)
    Z'   = sigmoid(N(D^-1/2 A D^-1/2 Z W)),                    x^_i = decoder(z'_i)

where N takes each latent to mean 0 and variance 1 over the batch. A has a rank of at most M + 1: of a row no
more than its bits reaches the decoder, and the latents of the batch say what each bit stands for. N is not in
the paper. Without it the mixed latents of all rows are nearly equal, as a bit moves them by 1/M of its covariance
with Z W, and decoders are slow to tell them apart.

Both bottlenecks are held to priors as in a Wasserstein auto-encoder, fair bits and uniform latents, by
critics c_1 and c_2, linear layers that tell drawn y from encoded ones:

    L   = 1/(2 M n) sum_i |x_i - x^_i|^2 - lambda/n sum_i [ ln s(c_1(b_i)) + ln s(c_2(z'_i)) ],   s = sigmoid
    L_D = -lambda/n sum_i [ ln s(c_1(y_i)) + ln s(-c_1(b_i)) + ln s(c_2(y'_i)) + ln s(-c_2(z'_i)) ]

The critics minimise L_D and all else L, in the same step: one optimiser follows the gradient of L + L_D, with the
critics held constant in L, and b and z' in L_D, so that each player sees its own loss only.
"""

import math
from numbers import Integral, Real

import torch
from torch import nn
from torch.nn.functional import batch_norm, linear, softplus

from skhash._compat import Interval
from skhash.engine import Objective
from skhash.engine.backbones import HIDDEN
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._binarize import bernoulli_sign


def similarity_graph(codes):
    """Compute the graph A of codes: one minus the share of bits in which two rows differ.

    Parameters
    ----------
    codes : tensor of shape (n, nbits)
        Of -1 and 1.

    Returns
    -------
    tensor of shape (n, n)
        Weights in [0, 1], 1 on the diagonal.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep.tbh import similarity_graph
    >>> similarity_graph(torch.tensor([[1.0, 1, 1, 1], [1, 1, 1, -1]]))
    tensor([[1.0000, 0.7500],
            [0.7500, 1.0000]])
    """
    return (1 + codes @ codes.T / codes.shape[1]) / 2


def graph_convolution(graph, rows):
    """Mix rows over a graph, D^-1/2 A D^-1/2 Z.

    Parameters
    ----------
    graph : tensor of shape (n, n)
        Weights A, symmetric and not negative, positive on the diagonal.
    rows : tensor of shape (n, width)
        Rows Z.

    Returns
    -------
    tensor of shape (n, width)
        The mixed rows.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep.tbh import graph_convolution
    >>> graph_convolution(torch.ones(4, 4), torch.tensor([[0.0], [4], [4], [8]])).tolist()
    [[4.0], [4.0], [4.0], [4.0]]
    """
    scale = torch.rsqrt(graph.sum(1, keepdim=True))
    return scale * (graph @ (scale * rows))


def adversarial_loss(critic, encoded, prior):
    """Compute the two losses of a bottleneck and its critic: encoded rows pass for drawn ones, and are told from them.

    Parameters
    ----------
    critic : torch.nn.Linear
        Maps rows to one logit each; it learns to tell, and is held constant where rows learn to pass.
    encoded : tensor of shape (n, width)
        Rows of the bottleneck, which are held constant where the critic learns.
    prior : tensor of shape (n, width)
        Rows drawn from the prior.

    Returns
    -------
    tensor without axes
        -mean ln s(c(encoded)) - mean ln s(c(prior)) - mean ln s(-c(encoded)).
    """
    passing = softplus(-linear(encoded, critic.weight.detach(), critic.bias.detach())).mean()
    return passing + softplus(-critic(prior)).mean() + softplus(critic(encoded.detach())).mean()


class TBHObjective(Objective):
    """Reconstruction through twin bottlenecks, and the adversarial losses of both.

    The latents, the graph convolution, the decoder and the critics are parts of the objective:
    they are trained, and kept in checkpoints, with it.

    Parameters
    ----------
    nbits : int
        Length M of a code.
    width : int
        Number of outputs of the encoder's backbone, which the latent layer takes.
    n_inputs : int
        Number of values of a row of X.
    n_latent, adversarial_weight
        As in :class:`TBHHasher`.
    """

    def __init__(self, nbits, width, n_inputs, n_latent=512, adversarial_weight=0.1):
        super().__init__()
        self.adversarial_weight = adversarial_weight
        self.latent = nn.Linear(width, n_latent)
        self.mix = nn.Linear(n_latent, n_latent, bias=False)
        self.decoder = nn.Sequential(nn.Linear(n_latent, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_inputs))
        self.bit_critic, self.latent_critic = nn.Linear(nbits, 1), nn.Linear(n_latent, 1)

    def forward(self, encoder, X, targets, indices):
        """Compute the loss of one batch, see :class:`skhash.engine.Objective`."""
        features = encoder.features(X)
        codes = bernoulli_sign(encoder.head(features))
        latents = torch.sigmoid(self.latent(features))
        mixed = graph_convolution(similarity_graph(codes), self.mix(latents))
        mixed = torch.sigmoid(batch_norm(mixed, None, None, training=True))
        errors = self.decoder(mixed) - ((X - encoder.mean) / encoder.scale).flatten(1)
        reconstruction = torch.square(errors).sum(1).mean() / (2 * codes.shape[1])
        fair, uniform = torch.rand_like(codes).round() * 2 - 1, torch.rand_like(mixed)
        adversarial = adversarial_loss(self.bit_critic, codes, fair)
        adversarial = adversarial + adversarial_loss(self.latent_critic, mixed, uniform)
        return reconstruction + self.adversarial_weight * adversarial


class TBHHasher(DeepHasher):
    """Twin-bottleneck hashing: unsupervised codes, the graph over which an auto-encoder mixes its latents.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    n_latent : int, default=512
        Number of latents, which are used in training only.
    adversarial_weight : float, default=0.1
        Weight lambda of the losses that hold bits and latents to their priors; 1 in the paper.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant to which, for :meth:`score` only. See :mod:`skhash.affinity`.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it; "auto" for
        images crops and flips them.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    The critics move first: in the first tens of steps they may drive many bits to one value
    and back. Judge a training by its later epochs.

    Targets are for :meth:`score`, and for ``early_stopping``, which chooses an epoch by them.

    Parameters left None take these values, chosen on training rows of MNIST, where "mlp" comes
    to the same AP_T in three times the time (a budget of steps makes between 10 and 300 epochs):

    ============  =====  ====  =========  ============
    hasher        steps  rows  step size  weight decay
    ============  =====  ====  =========  ============
    linear        1000   256   0.001      0.0001
    any backbone  2000   256   0.003      0.0001
    ============  =====  ====  =========  ============

    With ``optimizer="sgd"`` the step size is 0.1 and the weight decay, there an L2
    penalty, 5e-4.

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

    def __init__(
        self,
        nbits=32,
        *,
        n_latent=512,
        adversarial_weight=0.1,
        affinity="auto",
        backbone=None,
        n_epochs=None,
        batch_size=None,
        learning_rate=None,
        backbone_lr_scale=1.0,
        lr_schedule="cosine",
        optimizer="adam",
        weight_decay=None,
        input_dropout=0.0,
        smoothing=None,
        hidden_dropout=0.0,
        augment=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        checkpoint=None,
        store_database=True,
        device="auto",
        mixed_precision=False,
        deterministic=False,
        random_state=None,
    ):
        self.nbits = nbits
        self.n_latent = n_latent
        self.adversarial_weight = adversarial_weight
        self.affinity = affinity
        self.backbone = backbone
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.backbone_lr_scale = backbone_lr_scale
        self.lr_schedule = lr_schedule
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.input_dropout = input_dropout
        self.smoothing = smoothing
        self.hidden_dropout = hidden_dropout
        self.augment = augment
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.store_database = store_database
        self.device = device
        self.mixed_precision = mixed_precision
        self.deterministic = deterministic
        self.random_state = random_state

    def _objective(self):
        n_inputs = math.prod(self.input_shape_)
        return TBHObjective(self._nbits, self._feature_width(), n_inputs, self.n_latent, self.adversarial_weight)
