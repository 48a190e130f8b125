"""What the engine asks of a method: a loss of one batch."""

from torch import nn


class Objective(nn.Module):
    """A loss; a module, so that whatever it learns is trained and saved with it.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.engine import Objective
    >>> class Spread(Objective):
    ...     def forward(self, encoder, X, targets, rows):
    ...         return -encoder(X).abs().mean()
    >>> Spread()(torch.nn.Identity(), torch.tensor([[1.0, -3.0]]), None, np.array([0]))
    tensor(-2.)
    """

    def start_stage(self, stage, n_stages):
        """Prepare for a stage, in methods that learn by continuation; others do nothing.

        Parameters
        ----------
        stage : int
            Its number, from 0.
        n_stages : int
            How many there are.
        """

    def forward(self, encoder, X, targets, rows):
        """Compute the loss of one batch.

        Parameters
        ----------
        encoder : torch.nn.Module
            Maps rows to activations; a method may call it on several views.
        X : tensor of shape (n_batch, n_features)
            Rows of the batch.
        targets : ndarray of shape (n_batch, ...)
            Their targets, None for a method without labels.
        rows : ndarray of shape (n_batch,)
            Their numbers in the training set.

        Returns
        -------
        tensor without axes
            The loss, to be minimised.
        """
        raise NotImplementedError
