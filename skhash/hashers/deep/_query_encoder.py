"""An encoder with two maps: one for items, which become codes, and one for real queries."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import linear

from skhash.engine import Encoder, unit_of
from skhash.engine.smoothing import Smoothing
from skhash.hashers.deep._reconstruction import Reconstruction


class QueryEncoder(Encoder):
    """Encoder with a second linear layer, for real queries, and optionally codes that reconstruct the items.

    With `unit_norm`, samples are divided by their norm when they are read.
    """

    unit_norm: torch.Tensor
    reconstructs: torch.Tensor

    def __init__(self, *args: Any, unit_norm: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queries = nn.Linear(self.hash.in_features, self.hash.out_features)
        nn.init.zeros_(self.queries.bias)
        self.unit_norm = nn.Buffer(torch.tensor(float(unit_norm)))
        if unit_norm and self.offset is not None:
            self.offset = torch.stack([self.offset, self.offset])
        width, nbits = self.hash.in_features, self.hash.out_features
        self.reconstructs = nn.Buffer(torch.tensor(0.0))  # 1 if the next five buffers are learned
        self.decoder = nn.Buffer(torch.zeros(nbits, width))
        self.field_bias = nn.Buffer(torch.zeros(nbits))
        self.gram = nn.Buffer(torch.zeros(nbits, nbits))
        self.digits = nn.Buffer(torch.zeros(nbits))
        self.middle = nn.Buffer(torch.tensor(0.0))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Activations of items, see :meth:`skhash.engine.Encoder.forward`. Codes that reconstruct have no gradient."""
        features = self.features(X)
        start = self.head(features)
        if not self.reconstructs:
            return start
        projected, start = linear(features, self.decoder).detach().cpu(), start.detach().cpu()
        activations = self._reconstruction().activations(projected.numpy(), start.numpy())
        return torch.from_numpy(activations).to(X.device)

    def _reconstruction(self) -> Reconstruction:
        tensors = (self.hash.weight, self.decoder, self.field_bias, self.gram, self.digits)
        arrays = [tensor.detach().cpu().numpy() for tensor in tensors]
        return Reconstruction(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], self.middle.item())

    @torch.no_grad()
    def set_reconstruction(self, model: Reconstruction, shift: torch.Tensor) -> None:
        """Use codes that reconstruct the outputs of the backbone, and matching real queries plus `shift` (width,)."""
        for name in ("decoder", "field_bias", "gram", "digits", "middle"):
            buffer = getattr(self, name)
            buffer.copy_(torch.as_tensor(getattr(model, name)))
        self.hash.weight.copy_(torch.from_numpy(model.start))
        self.hash.bias.zero_()
        scale = self.activation_scale()
        self.queries.weight.copy_(self.decoder / scale)
        self.queries.bias.copy_((self.decoder @ shift - self.digits / 2) / scale)
        self.reconstructs.fill_(1.0)

    def activation_scale(self) -> torch.Tensor:
        """About the mean square of the activations; the decoder is divided by it for queries."""
        return self.gram.diagonal().mean().clamp_min(1e-12)

    def read(self, X: Any, indices: slice | npt.NDArray[np.int64]) -> torch.Tensor:
        """Some samples as a tensor, see :meth:`skhash.engine.Encoder.read`."""
        samples = super().read(X, indices)
        return _to_unit_norm(samples) if self.unit_norm else samples

    def set_statistics(self, X: Any) -> None:
        """Set the offset, the mean and the scale from training samples.

        With `unit_norm`, they are those of samples of norm 1, and the offset is the sum of two float32 values, because
        rounding it would change the norms.
        """
        unit_norm = self.unit_norm.clone()
        self.unit_norm.zero_()
        super().set_statistics(X)
        if unit_norm:
            if self.offset is not None:
                self.offset = torch.stack([self.offset, torch.where(self.offset != 0, self.mean, 0.0)])
            self.unit_norm.copy_(unit_norm)
            self._set_moments(*self._moments(X))

    def _offset_on_cpu(self, offset: torch.Tensor) -> npt.NDArray[np.float64]:
        """The offset in float64, see :class:`skhash.engine.Encoder`."""
        values = super()._offset_on_cpu(offset)
        return values if values.ndim == self.mean.ndim else values.sum(axis=0)

    def query(self, X: torch.Tensor) -> torch.Tensor:
        """Real queries of shape (n, nbits) of samples that :meth:`read` returned."""
        queries: torch.Tensor = self.queries(self.features(X))
        return queries

    def similarities(self, queries: torch.Tensor, items: torch.Tensor, metric: str) -> torch.Tensor:
        """Similarities (n_queries, n_items) of the vectors, up to a constant per query; larger is nearer.

        For "cosine", the inner product of vectors of norm 1. For "inner", the inner product in other units. For
        "euclidean", minus the squared distance without the squared norm of the query.
        """
        if metric == "euclidean":  # centered, because distances of far vectors lose digits
            queries, items = (((X - self.mean) / self.scale).flatten(1) for X in (queries, items))
            return 2 * queries @ items.T - (items**2).sum(1)
        unit = unit_of(self.scale) if metric == "inner" else 1.0
        queries, items = ((self._given(X) / unit).flatten(1) for X in (queries, items))
        return queries @ items.T

    def center(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Mean of samples of this shape as they were given, flat, in units of the scale."""
        return torch.broadcast_to(self._given(self.mean), shape).flatten() / self.scale

    def _given(self, X: torch.Tensor) -> torch.Tensor:
        """Samples plus the offset that :meth:`read` subtracts, unless they have unit norm."""
        return X if self.offset is None or self.unit_norm else X + self.offset

    def fold(self) -> "QueryEncoder":
        """Fold the smoothing, which only training needs, into both layers, in place."""
        if isinstance(self.backbone, Smoothing):
            self.queries.weight.data = self.backbone(self.queries.weight.data)
        super().fold()
        return self


def _per_sample(values: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
    """One value per sample, in a shape that broadcasts to the samples."""
    return values.reshape(-1, *(1 for _ in X.shape[1:]))


def _to_unit_norm(X: torch.Tensor) -> torch.Tensor:
    """Samples divided by their norms; a sample of zeros stays."""
    largest = X.flatten(1).abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny)
    X = X / _per_sample(largest, X)  # their squares do not overflow
    return X / _per_sample(X.flatten(1).norm(dim=1).clamp_min(1e-12), X)
