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
    """Activations of shape (n_samples, nbits), batch by batch, of the encoder or of a `function` of each batch."""
    encoder.eval()
    with full_precision(encoder.mean.device):
        parts = [(function or encoder)(encoder.read(X, batch)) for batch in gen_batches(len(X), ENCODE_BATCH_SIZE)]
    return torch.cat(parts).cpu().numpy()
