"""Activations of samples by a trained encoder."""

from collections.abc import Callable
from typing import Any

import torch
from sklearn.utils import gen_batches

from skhash._encoding import ENCODE_BATCH_SIZE
from skhash.engine import Encoder, full_precision


@torch.no_grad()
def compute_activations(
    encoder: Encoder, X: Any, function: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> Any:
    """Activations of samples by an encoder in evaluation mode, batch by batch.

    Parameters
    ----------
    encoder : Encoder
        The encoder.
    X : array or DatasetArray of shape (n_samples, ...)
        Samples.
    function : callable, default=None
        Function of a batch that the encoder has read. None uses the encoder itself.

    Returns
    -------
    ndarray of shape (n_samples, nbits), dtype float32
        Activations.
    """
    encoder.eval()
    with full_precision(encoder.mean.device):
        parts = [(function or encoder)(encoder.read(X, batch)) for batch in gen_batches(len(X), ENCODE_BATCH_SIZE)]
    return torch.cat(parts).cpu().numpy()
