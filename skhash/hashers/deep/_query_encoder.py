r"""An encoder with two maps: one for items, which become codes, and one for real queries.

Factors of items, from which real queries estimate the distance of the vectors (RaBitQ; Gao, Long, SIGMOD 2024).

Let x be a centered item, s(x) the signs of its code, and <f(q), s> the score of a centered query q. The estimate

    <q, x> ~ <f(q), s(x)> |P x|^2 / <f(x), s(x)>

is exact for q = x, up to the part of x outside of the span of f. P projects on this span. The factors are

    norm(x) = |x|,   along(x) = <f(x), s(x)> |x|^2 / |P x|^2

so that <q, x> ~ score * norm^2 / along. With as many bits as features P x = x, and this is the estimator of RaBitQ.

Codes that reconstruct x as r(b) = D^T b (see `_reconstruction`, here o = 0 and there are no digits) have

    <q, x> ~ slope(x) <q, r(b)>,   slope(x) = w |P x|^2 / <x, r(b)> + 1 - w

The first slope is exact for q = x, up to P, and 1 is the best guess for any q, given the code alone. `along` is
what makes norm^2 / along this slope, in the units of the scores. Training changes the queries, and not the slopes.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from skhash.codes.distances import terms_of_items
from skhash.engine import Encoder, NumpyEncoder, unit_of
from skhash.engine.layers import Smoothing
from skhash.hashers.deep._initial_maps import compute_activations
from skhash.hashers.deep._objectives import sign
from skhash.hashers.deep._reconstruction import Reconstruction


class QueryEncoder(Encoder):
    """Encoder with a second linear layer, for real queries, and optionally codes that reconstruct the items.

    Only the first `n_kept` bits of codes that reconstruct, and their queries, are returned; None returns all.
    """

    unit_norm: torch.Tensor
    reconstructs: torch.Tensor

    def __init__(self, *args: Any, unit_norm: bool = False, n_kept: int | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queries = nn.Linear(self.hash.in_features, n_kept or self.hash.out_features)
        nn.init.zeros_(self.queries.bias)
        self.unit_norm = nn.Buffer(torch.tensor(float(unit_norm)))
        if unit_norm and self.offset is not None:
            self.offset = torch.stack([self.offset, self.offset])
        width, nbits = self.hash.in_features, self.hash.out_features
        self.reconstructs = nn.Buffer(torch.tensor(0.0))  # 1 if the next six buffers are learned
        self.decoder = nn.Buffer(torch.zeros(nbits, width))
        self.field_bias = nn.Buffer(torch.zeros(nbits))
        self.gram = nn.Buffer(torch.zeros(nbits, nbits))
        self.digits = nn.Buffer(torch.zeros(nbits))
        self.middle = nn.Buffer(torch.tensor(0.0))
        self.pull = nn.Buffer(torch.tensor(0.0))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Activations of items, see :meth:`skhash.engine.Encoder.forward`. Codes that reconstruct have no gradient."""
        features = self.features(X)
        if not self.reconstructs:
            return self.head(features)
        activations = self._reconstruction().activations(features.detach().cpu().numpy())
        activations = activations[:, : self.queries.out_features]
        return torch.from_numpy(activations).to(X.device)

    def _reconstruction(self) -> Reconstruction:
        tensors = (self.hash.weight, self.decoder, self.field_bias, self.gram, self.digits)
        arrays = [tensor.detach().cpu().numpy() for tensor in tensors]
        start, decoder, field_bias, gram, digits = arrays
        return Reconstruction(start, decoder, field_bias, gram, digits, self.middle.item(), self.pull.item())

    @torch.no_grad()
    def set_maps(self, weight: Any) -> None:
        """Use one map (nbits, width), a tensor or an array, for items and queries."""
        weight = torch.as_tensor(weight)
        self.hash.weight.copy_(weight)
        self.queries.weight.copy_(weight)

    @torch.no_grad()
    def set_reconstruction(self, model: Reconstruction, shift: torch.Tensor, tells_norm: bool) -> None:
        """Use codes that reconstruct the outputs of the backbone, and matching real queries plus `shift` (width,).

        If the codes tell no norm, the mean of the decoder and the map of the items finds more than the decoder.
        """
        for name in ("decoder", "field_bias", "gram", "digits", "middle", "pull"):
            buffer = getattr(self, name)
            buffer.copy_(torch.as_tensor(getattr(model, name)))
        self.hash.weight.copy_(torch.from_numpy(model.start))
        self.hash.bias.zero_()
        scale = self.activation_scale()
        directions = self.decoder / scale
        if not tells_norm:
            directions = (directions + self.hash.weight) / 2
        self.queries.weight.copy_(directions)
        self.queries.bias.copy_(directions @ shift - self.digits / (2 * scale))
        self.reconstructs.fill_(1.0)

    def activation_scale(self) -> torch.Tensor:
        """About the mean square of the activations; the decoder is divided by it for queries."""
        return self.gram.diagonal().mean().clamp_min(1e-12)

    def read(self, X: Any, indices: slice | npt.NDArray[np.int64]) -> torch.Tensor:
        """Some samples as a tensor, see :meth:`skhash.engine.Encoder.read`."""
        samples = super().read(X, indices)
        return _to_unit_norm(samples, torch) if self.unit_norm else samples

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
        """Similarities (n_queries, n_items) of the vectors, up to a constant per query; larger is nearer."""
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


def _to_unit_norm(X: Any, xp: Any) -> Any:
    """Samples in `xp`, torch or numpy, divided by their norms; a sample of zeros stays."""
    rows = X.reshape(len(X), math.prod(X.shape[1:]))
    largest = xp.amax(xp.abs(rows), 1, keepdims=True)
    rows = rows / xp.clip(largest, np.finfo(np.float32).tiny, None)  # squares stay finite
    rows = rows / xp.clip(xp.linalg.vector_norm(rows, axis=1, keepdims=True), 1e-12, None)
    return rows.reshape(X.shape)


class NumpyQueryEncoder(NumpyEncoder):
    """A :class:`QueryEncoder` in numpy; its activations are those of items whose codes do not reconstruct them."""

    def __init__(self, encoder: QueryEncoder) -> None:
        super().__init__(encoder)
        self.unit_norm = bool(encoder.unit_norm)
        self._add(encoder.queries)
        self.queries = self.layers.pop()

    def read(self, X: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Samples minus the offset, see :meth:`QueryEncoder.read`."""
        samples = super().read(X)
        return _to_unit_norm(samples, np) if self.unit_norm else samples

    def query(self, X: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Real queries of shape (n, nbits) of samples of shape (n, n_features)."""
        return self.queries(self.features(X))


class ItemTerms(NamedTuple):
    """Terms of the scores of items: a query q has the score ``q @ vector - offset`` with each."""

    vectors: torch.Tensor
    offsets: torch.Tensor


@dataclass(frozen=True)
class QueryScores:
    """Scores of real queries and items; with `factors`, from the estimated distances of `metric`."""

    metric: str
    factors: bool

    def items(self, encoder: QueryEncoder, X: object) -> ItemTerms:
        """Terms of all items, on the CPU."""
        if not self.factors:
            codes = torch.from_numpy(compute_activations(encoder, X, lambda batch: sign(encoder(batch))))
            return ItemTerms(codes, torch.zeros(len(codes)))
        directions = seen_directions(encoder)

        def codes_and_factors(batch: torch.Tensor) -> torch.Tensor:
            codes = sign(encoder(batch))
            return torch.cat([codes, factors_of(encoder, encoder.features(batch), codes, directions)], 1)

        computed = compute_activations(encoder, X, codes_and_factors)
        slopes, offsets = terms_of_items(computed[:, -2:], self.metric)
        squared = encoder.scale.item() ** 2  # in the units of the encoder, numbers are about 1
        codes = computed[:, :-2] * (slopes / squared).astype(np.float32)[:, None]
        return ItemTerms(torch.from_numpy(codes), torch.from_numpy((offsets / squared).astype(np.float32)))

    def queries(self, encoder: QueryEncoder, X: torch.Tensor) -> torch.Tensor:
        """Real queries of a batch, of shape (n, nbits)."""
        if not self.factors or self.metric != "inner":
            return encoder.query(X)
        center = encoder.center(tuple(X.shape[1:]))  # the inner product is that of the vectors as they are given
        queries: torch.Tensor = encoder.queries(encoder.features(X) + center)
        return queries


EXACT = 0.75  # w


def seen_directions(encoder: QueryEncoder) -> torch.Tensor | None:
    """Orthonormal basis of the span of the bits, shape (width, rank); None if it is the whole space."""
    weight = (
        encoder.decoder[: encoder.queries.out_features] if encoder.reconstructs else encoder.queries.weight.detach()
    )
    _, values, directions = torch.linalg.svd(weight, full_matrices=False)
    rank = int((values > 1e-6 * values[0]).sum())
    return None if rank == weight.shape[1] else directions[:rank].T


@torch.no_grad()
def factors_of(
    encoder: QueryEncoder, features: torch.Tensor, codes: torch.Tensor, directions: torch.Tensor | None
) -> torch.Tensor:
    """Factors of shape (n, 2) of outputs of the backbone (n, width) with codes of -1 and 1 (n, nbits)."""
    squared = features.square().sum(1)
    inside = squared if directions is None else (features @ directions).square().sum(1)
    if encoder.reconstructs:
        along = (features * (codes @ encoder.decoder[: codes.shape[1]])).sum(1).maximum(inside / 2)
        slopes = EXACT * inside / along.clamp_min(1e-30) + 1 - EXACT
        products = squared / (slopes * encoder.activation_scale())
    else:
        queries = encoder.queries(features)
        # at least the 2-norm: codes that are the signs of the queries give the 1-norm, which is not smaller
        along = (queries * codes).sum(1).maximum(queries.norm(dim=1))
        products = along * squared / inside.clamp_min(1e-30)
    products = torch.where(inside > 1e-10 * squared, products, 0.0)
    return torch.stack([squared.sqrt() * encoder.scale, products], 1)
