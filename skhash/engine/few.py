"""Encoders in numpy for few samples, where threads take longer than products (``benchmarks/one_sample.py``)."""

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from skhash.engine.encoder import Encoder

N_MAX_PRODUCTS = 2**20  # number of multiplications, about a millisecond
N_MAX_INPUTS = 2**13  # of a layer; OpenBLAS uses threads for inner products of more than 10,000 values


class FewEncoder:
    """Activations by an encoder of dense layers in numpy, without threads; other layers raise TypeError.

    The encoder must be in evaluation mode. Its weights are copied.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.offset = None if encoder.offset is None else encoder.offset.double().numpy()
        self.mean, self.scale = encoder.mean.numpy(), encoder.scale.numpy()
        self.layers: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], bool]] = []
        backbone = encoder.backbone
        for module in (*(backbone if isinstance(backbone, nn.Sequential) else [backbone]), encoder.hash, encoder.norm):
            self._add(module)
        self.n_products = sum(weight.size for weight, _, _ in self.layers)

    def _add(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            weight: npt.NDArray[np.float32] = module.weight.detach().numpy()
            bias = np.zeros(len(weight), np.float32) if module.bias is None else module.bias.detach().numpy()
            self.layers.append((weight, bias, False))
        elif isinstance(module, nn.BatchNorm1d) and self.layers:
            (weight, bias, _), (gain, shift) = self.layers[-1], _gain_and_shift(module)
            folded = (gain[:, None] * weight).astype(np.float32), (gain * bias + shift).astype(np.float32)
            self.layers[-1] = (*folded, False)
        elif isinstance(module, nn.ReLU) and self.layers:
            self.layers[-1] = (*self.layers[-1][:2], True)
        elif not isinstance(module, nn.Identity | nn.Dropout):
            raise TypeError(f"`encoder` must have dense layers only. Got {type(module).__name__} instead.")

    def __call__(self, X: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Activations of shape (n, nbits) of samples of shape (n, n_features)."""
        samples = np.float32(X if self.offset is None else X - self.offset)
        activations: npt.NDArray[np.float32] = (samples - self.mean) / self.scale
        for weight, bias, is_rectified in self.layers:
            if weight.shape[1] <= N_MAX_INPUTS:
                products = np.vecdot(activations[:, None], weight)
            else:
                products = np.einsum("ij,kj->ik", activations, weight)
            activations = products + bias
            activations = np.maximum(activations, 0) if is_rectified else activations
        return activations


def _gain_and_shift(norm: nn.BatchNorm1d) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Factor and summand of a batch norm in evaluation mode."""
    values = {name: value.double().numpy() for name, value in norm.state_dict().items()}
    gain = values.get("weight", 1.0) / np.sqrt(values["running_var"] + norm.eps)
    return gain, values.get("bias", 0.0) - values["running_mean"] * gain
