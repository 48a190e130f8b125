"""Initial maps of hash layers by ITQ, and activations of samples."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import gen_batches

from skhash.encoding import ENCODE_BATCH_SIZE
from skhash.engine import Encoder, full_precision
from skhash.hashers.shallow.linear import principal_map, quantizing_rotation

#: values of the images that are encoded at once: the layers of a network should stay in the cache of a CPU
N_VALUES = {"cpu": 2**20, "cuda": 2**24}


@torch.no_grad()
def compute_activations(
    encoder: Encoder, X: Any, function: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> Any:
    """Activations of shape (n_samples, nbits), batch by batch, of the encoder or of a `function` of each batch."""
    encoder.eval()
    device = encoder.mean.device
    n_at_once = ENCODE_BATCH_SIZE
    if X.ndim > 2:
        n_at_once = min(n_at_once, max(1, N_VALUES[device.type] // math.prod(X.shape[1:])))
    with full_precision(device):
        parts = [(function or encoder)(encoder.read(X, batch)) for batch in gen_batches(len(X), n_at_once)]
    return torch.cat(parts).cpu().numpy()


@torch.no_grad()
def itq_map(
    encoder: Encoder, X: Any, indices: slice | npt.NDArray[np.int64], rng: np.random.RandomState
) -> npt.NDArray[np.float64]:
    """Map (width, nbits) by ITQ of the outputs of the backbone, scaled to activations with mean square 1."""
    centered = encoder.eval().features(encoder.read(X, indices)).numpy().astype(np.float64)
    encoder.train()
    return rotated(principal_map(centered, encoder.hash.out_features, rng), centered, rng)


def rotated(
    start: npt.NDArray[np.float64], centered: npt.NDArray[np.float64], rng: np.random.RandomState
) -> npt.NDArray[np.float64]:
    """A linear map of centered samples, rotated as in ITQ, and scaled to activations with mean square 1."""
    start = start @ quantizing_rotation(centered @ start, 50, rng)
    scaled: npt.NDArray[np.float64] = start / max(float(np.sqrt(np.mean((centered @ start) ** 2))), 1e-12)
    return scaled
