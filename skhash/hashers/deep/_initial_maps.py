"""Initial maps of hash layers by ITQ, and activations of samples."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from skhash._validation import evenly_spaced
from skhash.engine import Encoder
from skhash.engine.data import ArraySubset
from skhash.functions.network import in_batches
from skhash.hashers.shallow.linear import scaled_itq_map

N_OUTPUTS = 5000  # of a backbone, from which its hash layer is learned


def compute_activations(
    encoder: Encoder, X: Any, function: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> Any:
    """Activations of shape (n_samples, nbits), batch by batch, of the encoder or of a `function` of each batch."""
    encoder.eval()
    return in_batches(X, encoder.mean.device, lambda batch: (function or encoder)(encoder.read(X, batch)))


def set_itq_head(encoder: Encoder, X: Any, rng: np.random.RandomState) -> None:
    """Set the hash layer behind a backbone to ITQ of the outputs of the backbone for some samples."""
    some = ArraySubset(X, evenly_spaced(len(X), N_OUTPUTS))
    with torch.no_grad():
        outputs = compute_activations(encoder, some, encoder.features).astype(np.float64)
        encoder.train()
        mean = outputs.mean(axis=0)
        weight = scaled_itq_map(outputs - mean, encoder.hash.out_features, rng).T
        encoder.hash.weight.copy_(torch.as_tensor(weight))
        encoder.hash.bias.copy_(torch.as_tensor(-weight @ mean))


@torch.no_grad()
def itq_map(
    encoder: Encoder, X: Any, indices: slice | npt.NDArray[np.int64], rng: np.random.RandomState
) -> npt.NDArray[np.float64]:
    """Map (width, nbits) by ITQ of the outputs of the backbone, scaled to activations with mean square 1."""
    centered = encoder.eval().features(encoder.read(X, indices)).numpy().astype(np.float64)
    encoder.train()
    return scaled_itq_map(centered, encoder.hash.out_features, rng)
