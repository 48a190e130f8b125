"""HashNet, deep hashing by continuation (Cao, Long, Wang, Yu, ICCV 2017).

With g = tanh(beta z) in place of the codes h = sign(z), and s_ij = 1 for relevant pairs,

    J = sum_ij w_ij [ softplus(a <g_i, g_j>) - a s_ij <g_i, g_j> ] / sum_ij w_ij      (eq. 4)

the weighted maximum likelihood of the similarities, over the pairs of different rows
of a batch. The weights bring the two kinds of pairs to the same sum (eq. 2),

    w_ij = c_ij |S| / |S1| for similar pairs,   w_ij = |S| / |S0| for dissimilar ones

with c_ij = 1, or a continuous similarity (taken literally the paper's c_ij would
delete every dissimilar pair, so it multiplies the similar ones only). beta rises in
stages (algorithm 1): the smooth problem becomes the binary one, and the gap between
J and the loss L of the binary codes closes.
"""

from numbers import Integral, Real

import numpy as np
import torch
from torch.nn.functional import softplus

from skhash._compat import Interval, StrOptions
from skhash.affinity import SharedLabelsAffinity, label_matrix, level_indices
from skhash.engine import Objective
from skhash.hashers.deep._base import DeepHasher

SCALE = 10.0  # a = 10 / nbits, the value in the authors' code at 48 bits and about


class HashNetObjective(Objective):
    """The weighted pairwise likelihood of a batch.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    scale, class_ratio, similarity, betas
        As in :class:`HashNetHasher`; `scale` is a, `betas` one value a stage.
    """

    def __init__(self, affinity, scale, class_ratio="batch", similarity="binary", betas=(1.0,)):
        super().__init__()
        self.affinity, self.scale = affinity, scale
        self.class_ratio, self.similarity, self.betas = class_ratio, similarity, betas
        self.beta = betas[0]

    def start_stage(self, stage, n_stages):
        """Take the stage's beta."""
        self.beta = self.betas[stage]

    def forward(self, encoder, X, targets, indices):
        """Compute the loss of one batch, see :class:`skhash.engine.Objective`."""
        return self.likelihood(torch.tanh(self.beta * encoder(X)), targets)

    def likelihood(self, g, targets):
        """Compute the negative weighted log-likelihood of all pairs of different rows.

        Parameters
        ----------
        g : tensor of shape (n, nbits)
            Codes in [-1, 1].
        targets : ndarray of shape (n, ...)
            What the affinity compares.

        Returns
        -------
        tensor without axes
            The loss, >= 0.
        """
        similar, weights = (torch.from_numpy(a).to(g.device) for a in self._pairs(targets))
        products = self.scale * (g @ g.T)
        weights = weights.to(g.dtype)
        return (weights * (softplus(products) - torch.where(similar, products, 0.0))).sum() / weights.sum()

    def _pairs(self, targets):
        """Which pairs are similar, and the weights of all, 0 on the diagonal."""
        index, levels = level_indices(self.affinity, targets, targets)
        similar = index > 0
        others = ~np.eye(len(index), dtype=bool)
        n_similar = np.count_nonzero(similar & others)
        n_dissimilar = others.sum() - n_similar
        if self.class_ratio == "batch":
            # a class that is absent has no pairs to weigh
            ratio = n_dissimilar / n_similar if n_similar and n_dissimilar else 1.0
        else:
            ratio = self.class_ratio
        weights = np.where(similar, ratio, 1.0) * others
        if self.similarity == "continuous":
            weights[similar] *= _continuous_similarity(self.affinity, targets, levels[index])[similar]
        return similar, weights

    def gap(self, z, targets):
        """Compute J of the relaxed codes, L of the binary ones, and their gap, at this stage.

        Parameters
        ----------
        z : tensor of shape (n, nbits)
            Activations.
        targets : ndarray of shape (n, ...)
            Targets of these rows.

        Returns
        -------
        dict of float
            "beta", "relaxed_loss" (J), "binary_loss" (L) and "quantization_gap" (J - L).
        """
        z = z.double()
        relaxed = self.likelihood(torch.tanh(self.beta * z), targets).item()
        binary = self.likelihood(torch.where(z >= 0, 1.0, -1.0).double(), targets).item()
        return {
            "beta": self.beta,
            "relaxed_loss": relaxed,
            "binary_loss": binary,
            "quantization_gap": relaxed - binary,
        }


def _continuous_similarity(affinity, targets, levels):
    """Jaccard index of the label sets, for other affinities the level over the highest one."""
    if isinstance(affinity, SharedLabelsAffinity):
        labels = label_matrix(affinity, targets)
        shared = labels @ labels.T
        sizes = labels.sum(axis=1)
        return shared / np.maximum(sizes[:, None] + sizes - shared, 1)
    return levels / max(levels.max(), 1e-300)


class HashNetHasher(DeepHasher):
    r"""Deep hashing by continuation: pairwise likelihood of codes that become binary in stages.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    scale : float, default=None
        Slope a of the likelihood; None takes 10 / nbits.
    n_stages : int, default=10
        Stages of the continuation; 1 trains at `beta` = 1 throughout (the paper's
        HashNet-sgn).
    max_beta : float, default=None
        Slope beta of the last stage but one; it rises from 1 with the square of the stage.
        See Notes for None.
    last_beta : float, default=None
        Slope beta of the last stage, at least `max_beta`, which makes the codes binary in
        effect: small steps at a large slope close the gap at no cost in ranking, where a
        steady rise to the same value would stop learning early. See Notes for None.
    class_ratio : "batch" or float, default="batch"
        Weight of a similar pair over that of a dissimilar one: what makes the two kinds
        weigh the same in each batch, or a fixed ratio \|S0\| / \|S1\| of the data; 1 weighs
        all pairs the same (HashNet-W).
    similarity : "binary" or "continuous", default="binary"
        "continuous" multiplies the weight of a similar pair by the Jaccard index of its
        label sets, or by its level over the highest one (HashNet+C).
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
    The last epoch of a stage adds to `history_`, from up to 4,096 training rows, "beta",
    "relaxed_loss" (J), "binary_loss" (L of the codes) and "quantization_gap" (J - L).

    Parameters left None take these values, chosen on training rows of MNIST and GIST
    features (a budget of steps makes between 30 and 125 epochs):

    ============  =====  ====  =========  ============  ========  =========
    hasher        steps  rows  step size  weight decay  max_beta  last_beta
    ============  =====  ====  =========  ============  ========  =========
    linear        2500   256   0.02       0.5           5         5
    any backbone  1500   256   0.003      0.1           5         100
    ============  =====  ====  =========  ============  ========  =========

    With ``optimizer="sgd"`` the step size is 1.0 for a linear hasher and 0.1 with a
    backbone, and the weight decay, there an L2 penalty, 5e-4.

    References
    ----------
    Cao, Long, Wang, Yu: HashNet: Deep Learning to Hash by Continuation. ICCV 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import HashNetHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = HashNetHasher(nbits=16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.score(X[1000:], y[1000:]) > 0.8
    True
    >>> gap, loss = (hasher.history_[-1][name] for name in ("quantization_gap", "binary_loss"))
    >>> abs(gap) < 0.1 * loss
    True
    """

    _supervised = True
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "scale": [Interval(Real, 0, None, closed="neither"), None],
        "n_stages": [Interval(Integral, 1, None, closed="left")],
        "max_beta": [Interval(Real, 1, None, closed="left"), None],
        "last_beta": [Interval(Real, 1, None, closed="left"), None],
        "class_ratio": [StrOptions({"batch"}), Interval(Real, 0, None, closed="neither")],
        "similarity": [StrOptions({"binary", "continuous"})],
    }

    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay", "max_beta", "last_beta")
    _recipes = {
        # a linear map that cannot fit the pairs loses ranking by more saturation, though the loss L falls
        "linear": (2500, 256, 0.02, 0.5, 5.0, 5.0),
        "deep": (1500, 256, 0.003, 0.1, 5.0, 100.0),
    }
    _sgd_rates = {"linear": 1.0, "deep": 0.1}

    def __init__(
        self,
        nbits=32,
        *,
        scale=None,
        n_stages=10,
        max_beta=None,
        last_beta=None,
        class_ratio="batch",
        similarity="binary",
        backbone=None,
        affinity="auto",
        n_epochs=None,
        batch_size=None,
        learning_rate=None,
        backbone_lr_scale=1.0,
        lr_schedule="cosine",
        optimizer="adam",
        weight_decay=None,
        input_dropout=None,
        smoothing=None,
        hidden_dropout=0.3,
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
        self.scale = scale
        self.n_stages = n_stages
        self.max_beta = max_beta
        self.last_beta = last_beta
        self.class_ratio = class_ratio
        self.similarity = similarity
        self.backbone = backbone
        self.affinity = affinity
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
        scale = SCALE / self._nbits if self.scale is None else self.scale
        rising = np.linspace(0, 1, max(self.n_stages - 1, 1)) ** 2
        betas = (1 + (self.settings_["max_beta"] - 1) * rising).tolist()
        if self.n_stages > 1:
            betas.append(max(float(self.settings_["last_beta"]), betas[-1]))
        return HashNetObjective(self.affinity_, scale, self.class_ratio, self.similarity, betas)

    def _n_stages(self):
        return self.n_stages

    def _measure(self, objective, activations, targets):
        return objective.gap(activations, targets)
