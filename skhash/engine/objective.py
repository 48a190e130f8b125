"""The interface between the engine and a method: the loss of one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash._compat import cached_property
from skhash._libraries import torch

if TYPE_CHECKING:
    from skhash.engine.encoder import Encoder


class Objective:
    """The loss of a method. A subclass may derive from :class:`torch.nn.Module`, too: then all of it is trained.

    Attributes
    ----------
    loss_and_gradient : callable or None
        Function of float32 arrays, the activations of a batch and its relevance, that returns the
        loss of :meth:`forward` and its derivative by the activations. Linear encoders on the CPU
        train with it in less time. None, the default, leaves the derivative to torch.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.engine import Objective
    >>> class Spread(Objective):
    ...     def forward(self, encoder, X, relevance, indices):
    ...         return -encoder(X).abs().mean()
    >>> Spread()(torch.nn.Identity(), torch.tensor([[1.0, -3.0]]), None, np.array([0]))
    tensor(-2.)

    A classifier that is trained with the encoder:

    >>> class Classify(Objective):
    ...     def __init__(self, nbits, n_classes):
    ...         self.trained["classifier"] = torch.nn.Linear(nbits, n_classes)
    ...
    ...     def forward(self, encoder, X, relevance, indices):
    ...         logits = self.trained["classifier"](encoder(X))
    ...         labels = torch.from_numpy(relevance.classes.astype(int))
    ...         return torch.nn.functional.cross_entropy(logits, labels)
    >>> [name for name, _ in Classify(2, 3).trained.named_parameters()]
    ['classifier.weight', 'classifier.bias']
    """

    loss_and_gradient: Callable[[Any, Any], tuple[float, npt.NDArray[np.float32]]] | None = None

    @cached_property
    def trained(self) -> torch.nn.ModuleDict:
        """Modules that are trained with the encoder and stored in checkpoints, by name; empty at first."""
        return torch.nn.ModuleDict()

    def start_stage(self, stage: int, n_stages: int) -> None:
        """Prepare a stage of a method that learns by continuation. The default does nothing.

        Parameters
        ----------
        stage : int
            Index of the stage.
        n_stages : int
            Number of stages.
        """

    def batches(
        self, encoder: Encoder, X: Any, relevance: Any, n_batches: int, rng: np.random.Generator
    ) -> list[npt.NDArray[np.int64]]:
        """Batches of the next epoch.

        Parameters
        ----------
        encoder : Encoder
            The encoder, which may be left in evaluation mode.
        X : array or DatasetArray of shape (n_samples, ...)
            Training samples.
        relevance : object or None
            Which of them are relevant to which; None for an unsupervised method.
        n_batches : int
            Number of batches.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        list of ndarray of int64
            Indices of the samples of each batch. The default is a random permutation, cut into batches
            whose sizes differ by at most one.
        """
        return np.array_split(rng.permutation(len(X)), n_batches)

    def __call__(
        self, encoder: Encoder, X: torch.Tensor, relevance: Any, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :meth:`forward`."""
        return self.forward(encoder, X, relevance, indices)

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: Any, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch.

        Parameters
        ----------
        encoder : Encoder
            Maps samples to activations. A method may call it on several views of the batch.
        X : tensor of shape (n_batch, n_features)
            Samples of the batch.
        relevance : Relevance or None
            Which of them are relevant to which, a :class:`skhash.affinity.Relevance`; None for a method
            that learns from samples alone.
        indices : ndarray of shape (n_batch,)
            Their indices in the training set.

        Returns
        -------
        tensor of shape ()
            The loss to minimize.
        """
        raise NotImplementedError
