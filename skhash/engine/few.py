"""Encoders in numpy, for few samples: torch and BLAS take longer to set their threads than to multiply."""

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from skhash.engine.encoder import Encoder

N_MAX_PRODUCTS = 2**20  # products of a sample and a weight: about a millisecond
N_MAX_INPUTS = 2**13  # of a layer: OpenBLAS computes inner products of more than 10,000 values in threads


class FewEncoder:
    """The activations of an encoder of dense layers, without threads.

    Parameters
    ----------
    encoder : Encoder
        An encoder in evaluation mode. Later changes of it do not count.

    Raises
    ------
    TypeError
        If it has layers that are not dense.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine import Encoder, FewEncoder
    >>> X = np.arange(6.0).reshape(2, 3)
    >>> encoder = Encoder(3, nbits=4, backbone="mlp").eval()
    >>> activations = encoder(encoder.read(X, slice(None))).detach().numpy()
    >>> np.allclose(FewEncoder(encoder)(X), activations, atol=1e-5)
    True
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
        """Activations of samples of shape (n, n_features), of shape (n, nbits)."""
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
    """What a batch norm multiplies by and adds in evaluation mode."""
    values = {name: value.double().numpy() for name, value in norm.state_dict().items()}
    gain = values.get("weight", 1.0) / np.sqrt(values["running_var"] + norm.eps)
    return gain, values.get("bias", 0.0) - values["running_mean"] * gain
