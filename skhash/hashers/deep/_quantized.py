"""What deep hashers share that pull their activations to the two values of a bit.

With activations u of shape (n, b) the loss of a batch is

    loss = fit(u, targets) + weight * mean_ik penalty(|u_ik| - 1)

where the fit differs from paper to paper, and of the penalty only the form: as
b_ik = sign(u_ik), |b_ik - u_ik| = | |u_ik| - 1 |. Both terms are means (over pairs,
triplets or rows, and over entries), so that one weight serves all batches and lengths.
"""

from abc import abstractmethod
from numbers import Real

import torch

from skhash._compat import Interval
from skhash.engine import Objective
from skhash.hashers.deep._base import DeepHasher


class QuantizedObjective(Objective):
    """The data loss of a batch, which a subclass gives, and the penalty of its activations.

    Parameters
    ----------
    affinity : callable
        The fitted affinity.
    quantization_weight : float
        Weight of the penalty.

    Examples
    --------
    >>> import torch
    >>> from skhash.affinity import ClassAffinity
    >>> from skhash.hashers.deep.dpsh import PairwiseObjective
    >>> from skhash.hashers.deep._quantized import QuantizedObjective
    >>> objective = PairwiseObjective(ClassAffinity(), quantization_weight=0.1)
    >>> isinstance(objective, QuantizedObjective)
    True
    >>> objective.penalty(torch.tensor([0.5, -2.0]).abs() - 1)
    tensor([0.2500, 1.0000])
    """

    def __init__(self, affinity, quantization_weight):
        super().__init__()
        self.affinity, self.quantization_weight = affinity, quantization_weight

    def forward(self, encoder, X, targets, indices):
        """Compute the loss of one batch, see :class:`skhash.engine.Objective`."""
        u = self.activate(encoder(X))
        return self.data_loss(u, targets) + self.quantization_weight * self.penalty(u.abs() - 1).mean()

    def activate(self, f):
        """Map the outputs of the encoder to activations: left as they are, unless a paper squashes them.

        Parameters
        ----------
        f : tensor of shape (n, nbits)
            Outputs.

        Returns
        -------
        tensor of shape (n, nbits)
            Activations u.
        """
        return f

    @abstractmethod
    def data_loss(self, u, targets):
        """Compute the loss of the activations without the penalty.

        Parameters
        ----------
        u : tensor of shape (n, nbits)
            Activations.
        targets : ndarray of shape (n, ...)
            What the affinity compares.

        Returns
        -------
        tensor without axes
            The loss.
        """

    def penalty(self, excess):
        """Penalise the distance of activations from their signs: by its square, unless a paper has another.

        Parameters
        ----------
        excess : tensor of shape (n, nbits)
            Entries of ``abs(u) - 1``, whose absolute values are the distances.

        Returns
        -------
        tensor of shape (n, nbits)
            Penalties, >= 0.
        """
        return torch.square(excess)


class QuantizedDeepHasher(DeepHasher):
    """A supervised hasher with the parameter `quantization_weight`.

    A subclass implements `_objective`, and sets `_recipes`: for "linear" and "deep" the
    steps, batch size, step size, weight decay and quantization_weight; `_sgd_rates` are
    the step sizes of SGD.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    quantization_weight : float, default=None
        Weight of the penalty; None takes the one of the recipe.
    affinity : "auto" or callable, default="auto"
        Which rows are similar.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Examples
    --------
    >>> from skhash import DHNHasher, DPSHHasher, DTSHHasher
    >>> from skhash.hashers.deep._quantized import QuantizedDeepHasher
    >>> all(issubclass(cls, QuantizedDeepHasher) for cls in (DHNHasher, DPSHHasher, DTSHHasher))
    True
    """

    _supervised = True
    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay", "quantization_weight")
    _sgd_rates = {"linear": 0.1, "deep": 0.1}
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "quantization_weight": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        nbits=32,
        *,
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
        self.nbits = nbits
        self.quantization_weight = quantization_weight
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
