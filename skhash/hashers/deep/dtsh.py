"""DTSH, deep supervised hashing with triplet labels (Wang, Shi, Kitani, ACCV 2016).

For each row q of a batch, each row p relevant to it and each row n that is not, with
theta_ij = <u_i, u_j> / 2, the pair (q, p) is the more similar one by a margin with probability
sigma(theta_qp - theta_qn - alpha). The negative log-likelihood of the triplets, plus the
distance of the activations from their codes b_i = sign(u_i), is

    L = sum_qpn softplus(-(theta_qp - theta_qn - alpha)) + lambda sum_i |b_i - u_i|^2      (eq. 6)

here both as means: over the triplets of a batch, and over its entries.
"""

from numbers import Real

import torch
from torch.nn.functional import softplus

from skhash._compat import Interval
from skhash.affinity import level_indices
from skhash.hashers.deep._quantized import QuantizedDeepHasher, QuantizedObjective

MAX_TRIPLETS = 2**22  # of a batch: the differences of theta take 16 MiB


class DTSHObjective(QuantizedObjective):
    """Mean likelihood of the triplets of a batch, and a penalty of its activations.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    quantization_weight : float
        lambda.
    margin : float
        alpha.
    max_triplets : int, default=MAX_TRIPLETS
        Where a batch has more, as many of its pairs (q, p) are drawn as keep to this number.
    """

    def __init__(self, affinity, quantization_weight, margin, max_triplets=MAX_TRIPLETS):
        super().__init__(affinity, quantization_weight)
        self.margin, self.max_triplets = margin, max_triplets

    def data_loss(self, u, targets):
        """Compute the mean over triplets of softplus(margin - theta_qp + theta_qn), 0 without any."""
        index, _ = level_indices(self.affinity, targets, targets)
        similar = torch.from_numpy(index > 0).to(u.device)
        query, positive = torch.nonzero(similar.clone().fill_diagonal_(False), as_tuple=True)
        n_pairs = max(1, self.max_triplets // len(u))
        if len(query) > n_pairs:
            drawn = torch.randperm(len(query))[:n_pairs].to(u.device)
            query, positive = query[drawn], positive[drawn]
        theta = u @ u.T / 2
        # one row a pair (q, p), one column a row n: no triplets are written out
        losses = softplus(self.margin - theta[query, positive][:, None] + theta[query])
        valid = ~similar.fill_diagonal_(True)[query]
        return torch.where(valid, losses, 0.0).sum() / valid.sum().clamp_min(1)


class DTSHHasher(QuantizedDeepHasher):
    """Deep supervised hashing with triplet labels: relevant rows nearer by a margin.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    margin : float, default=None
        Margin alpha, by which theta of a relevant pair should exceed that of an irrelevant one;
        theta goes from -nbits / 2 to nbits / 2 for codes. None takes nbits / 2.
    quantization_weight : float, default=None
        Weight lambda of the mean squared distance of activations from their signs; see
        Notes for None.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant; "auto" takes classes or shared labels from y. See
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
    All triplets of a batch count, up to 2**22 of them; of more, a part is drawn at random.

    Parameters left None take these values, chosen on training rows of MNIST (a budget of
    steps makes between 30 and 125 epochs):

    ============  =====  ====  =========  ============  ===================
    hasher        steps  rows  step size  weight decay  quantization_weight
    ============  =====  ====  =========  ============  ===================
    linear        2500   128   0.02       0.5           1.0
    any backbone  1500   128   0.003      0.1           0.1
    ============  =====  ====  =========  ============  ===================

    With ``optimizer="sgd"`` the step size is 0.1 and the weight decay, there an L2
    penalty, 5e-4.

    References
    ----------
    Wang, Shi, Kitani: Deep Supervised Hashing with Triplet Labels. ACCV 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import DTSHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = DTSHHasher(nbits=16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.score(X[1000:], y[1000:]) > 0.8
    True
    """

    _recipes = {"linear": (2500, 128, 0.02, 0.5, 1.0), "deep": (1500, 128, 0.003, 0.1, 0.1)}
    _parameter_constraints = QuantizedDeepHasher._parameter_constraints | {
        "margin": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        nbits=32,
        *,
        margin=None,
        quantization_weight=None,
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
        super().__init__(
            nbits,
            quantization_weight=quantization_weight,
            backbone=backbone,
            affinity=affinity,
            n_epochs=n_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            backbone_lr_scale=backbone_lr_scale,
            lr_schedule=lr_schedule,
            optimizer=optimizer,
            weight_decay=weight_decay,
            input_dropout=input_dropout,
            smoothing=smoothing,
            hidden_dropout=hidden_dropout,
            augment=augment,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            checkpoint=checkpoint,
            store_database=store_database,
            device=device,
            mixed_precision=mixed_precision,
            deterministic=deterministic,
            random_state=random_state,
        )
        self.margin = margin

    def _objective(self):
        margin = self._nbits / 2 if self.margin is None else self.margin
        return DTSHObjective(self.affinity_, self.settings_["quantization_weight"], margin)
