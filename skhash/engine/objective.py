"""What the engine asks of a method: a loss of one batch."""

from torch import nn


class Objective(nn.Module):
    """A loss; a module, so that whatever it learns is trained and saved with it."""

    def start_stage(self, stage, n_stages):
        """Prepare for stage `stage` of `n_stages`, for methods that learn by continuation."""

    def forward(self, encoder, X, targets, rows):
        """Loss of one batch.

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
