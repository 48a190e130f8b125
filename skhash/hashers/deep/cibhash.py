r"""CIBHash, hashing with a contrastive information bottleneck (Qiu, Su, Ou, Yu, Chen, IJCAI 2021).

Two random views of each row give logits f and g of its bits, and codes that are drawn:

    p = sigmoid(f),   b_k = sign(p_k - u_k),   u_k uniform in [0, 1),   db/dp = d E[b] / dp = 2

so that each bit is 1 with probability p_k, and gradients pass straight through. The codes of the two views are
to find each other among all codes of a batch, and their distributions are to agree:

    loss = NT-Xent(b, b'; tau) + beta D,   D = 1/2 [ KL(p || q) + KL(q || p) ]

the first with s_ij = cos(b_i, b_j) / tau, which falls linearly with the Hamming distance
(:func:`skhash.hashers.deep._contrast.nt_xent`), and the second, for independent bits, in closed form

    D = 1/2 sum_k (p_k - q_k) (f_k - g_k),   q = sigmoid(g).

D bounds what a code tells of its own view beyond the other one: the information bottleneck. Gradients reach
both of its arguments.
"""

from functools import partial
from numbers import Real

import torch

from skhash._compat import Interval, StrOptions
from skhash.engine import Objective
from skhash.engine.augment import two_views
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._binarize import bernoulli_sign
from skhash.hashers.deep._contrast import nt_xent, view_maker


def symmetric_kl(f, g):
    """Mean symmetrised Kullback-Leibler divergence of independent bits.

    Parameters
    ----------
    f, g : tensor of shape (n, nbits)
        Logits of the bits under the two distributions of each row.

    Returns
    -------
    tensor without axes
        The mean over the rows of 1/2 [ KL(p || q) + KL(q || p) ], in nats, at least 0.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep.cibhash import symmetric_kl
    >>> symmetric_kl(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]]))
    tensor(0.1155)
    """
    return ((torch.sigmoid(f) - torch.sigmoid(g)) * (f - g)).sum(1).mean() / 2


class CIBHashObjective(Objective):
    """NT-Xent of the drawn codes of two views, and the divergence of their distributions.

    Parameters
    ----------
    augment : callable
        Maps a batch to a random version of it.
    temperature, kl_weight
        As in :class:`CIBHashHasher`.
    """

    def __init__(self, augment, temperature=0.7, kl_weight=0.1):
        super().__init__()
        self.two_views = partial(two_views, augment)  # not a module of ours: what it holds is not trained
        self.temperature, self.kl_weight = temperature, kl_weight

    def forward(self, encoder, X, targets, indices):
        """Compute the loss of one batch, see :class:`skhash.engine.Objective`."""
        logits = encoder(torch.cat(self.two_views(X)))
        first, second = bernoulli_sign(logits).chunk(2)
        contrast = nt_xent(first, second, self.temperature)
        return contrast + self.kl_weight * symmetric_kl(*logits.chunk(2))


class CIBHashHasher(DeepHasher):
    """Contrastive information bottleneck: unsupervised codes that two views of a row share.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    temperature : float, default=0.7
        Temperature tau of the contrast; 0.3 in the paper, see Notes.
    kl_weight : float, default=0.1
        Weight beta of the divergence between the bits of the two views; 0.001 in the paper,
        see Notes.
    augment : "auto" or callable, default="auto"
        Maps each training batch (a float32 tensor) to a random version of it, drawn twice.
        "auto" for vectors is a little noise and a tenth of the features from other rows, for
        images the augmentation of MoCo v2 (needs kornia); see the Notes of :class:`NSHHasher`.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant to which, for :meth:`score` only. See :mod:`skhash.affinity`.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    Bits are drawn in training, so that an uncertain one costs contrast; :meth:`transform` takes
    the likelier value.

    Targets are for :meth:`score`, and for ``early_stopping``, which chooses an epoch by them.

    Parameters left None take these values: 5,000 steps (between 10 and 300 epochs) of 64 rows,
    step size 0.003, weight decay 1e-4; with ``optimizer="sgd"`` the step size is 0.3 and the
    weight decay, there an L2 penalty, 5e-4.

    All defaults were chosen on training rows of MNIST. On those of three data sets, at 32 bits
    and with the default augmentation of vectors, this is the AP_T of held-out rows; the first
    line has the paper's values for photographs:

    ===========  =========  ====  =====  ==========
    temperature  kl_weight  USPS  MNIST  CIFAR GIST
    ===========  =========  ====  =====  ==========
    0.3          0.001      0.53  0.40   0.17
    0.7          0.001      0.69  0.53   0.19
    0.7          0.1        0.78  0.59   0.20
    ===========  =========  ====  =====  ==========

    The closer the views are, the less their divergence may weigh: a small convolutional network
    on MNIST, under turns by 5 degrees, does best with 0.03 and a step size of 0.001.

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
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "kl_weight": [Interval(Real, 0, None, closed="left")],
        "augment": [StrOptions({"auto"}), callable],
    }

    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay")
    _recipes = {"linear": (5000, 64, 3e-3, 1e-4), "deep": (5000, 64, 3e-3, 1e-4)}
    _sgd_rates = {"linear": 0.3, "deep": 0.3}

    def __init__(
        self,
        nbits=32,
        *,
        temperature=0.7,
        kl_weight=0.1,
        augment="auto",
        affinity="auto",
        backbone="mlp",
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
        self.temperature = temperature
        self.kl_weight = kl_weight
        self.augment = augment
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
        return CIBHashObjective(view_maker(self.augment, self.input_shape_), self.temperature, self.kl_weight)

    def _augmentation(self):
        return None  # two views are drawn by the objective
