"""An encoder with two maps, for training: one for items, which become codes, and one for real queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from skhash.codes.queries import terms_of_items
from skhash.engine import Encoder
from skhash.engine.data import unit_of
from skhash.engine.layers import Smoothing
from skhash.functions.linear import to_unit_norm
from skhash.functions.reconstruction import (
    Reconstruction,
    activation_scale,
    factors_of_reconstructions,
    factors_of_signs,
    seen_directions,
)
from skhash.hashers.deep._initial_maps import compute_activations
from skhash.hashers.deep._objectives import sign

#: buffers of a :class:`QueryEncoder` whose codes reconstruct the items
RECONSTRUCTION = ("decoder", "origin", "field_bias", "gram", "digits", "middle", "pull", "groups", "summed_decoder")
#: what a :class:`QueryEncoder` has beside an encoder, and the offset
QUERY_STATE = {"queries.weight", "queries.bias", "unit_norm", "reconstructs", "offset", *RECONSTRUCTION}


class QueryEncoder(Encoder):
    """Encoder with a second linear layer, for real queries, and optionally codes that reconstruct the items.

    Only the first `n_kept` bits of codes that reconstruct, and their queries, are returned; None returns all. Prefixes
    of these lengths have queries of their own.
    """

    unit_norm: torch.Tensor
    reconstructs: torch.Tensor

    def __init__(
        self,
        *args: Any,
        unit_norm: bool = False,
        n_kept: int | None = None,
        prefixes: Sequence[int] = (),
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.queries = nn.Linear(self.hash.in_features, n_kept or self.hash.out_features)
        nn.init.zeros_(self.queries.bias)
        self.prefixes = tuple(map(int, prefixes))
        if prefixes:  # one map after another
            self.prefix_queries = nn.Linear(self.hash.in_features, sum(self.prefixes))
            nn.init.zeros_(self.prefix_queries.bias)
        self.unit_norm = nn.Buffer(torch.tensor(float(unit_norm)))
        if unit_norm and self.offset is not None:
            self.offset = torch.stack([self.offset, self.offset])
        width, nbits = self.hash.in_features, self.hash.out_features
        self.reconstructs = nn.Buffer(torch.tensor(0.0))  # 1 if the buffers of `RECONSTRUCTION` are learned
        self.decoder = nn.Buffer(torch.zeros(nbits, width))
        self.origin = nn.Buffer(torch.zeros(width))
        self.field_bias = nn.Buffer(torch.zeros(nbits))
        self.gram = nn.Buffer(torch.zeros(nbits, nbits))
        self.digits = nn.Buffer(torch.zeros(nbits))
        self.middle = nn.Buffer(torch.tensor(0.0))
        self.pull = nn.Buffer(torch.zeros(nbits))
        self.groups = nn.Buffer(torch.arange(nbits))
        self.summed_decoder = nn.Buffer(torch.zeros(0, width))  # it has as many rows as `decoder` with prefixes

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Activations of items, see :meth:`skhash.engine.Encoder.forward`. Codes that reconstruct have no gradient."""
        features = self.features(X)
        if not self.reconstructs:
            return self.head(features)
        activations = self._reconstruction().activations(features.detach().cpu().numpy())
        activations = activations[:, : self.queries.out_features]
        return torch.from_numpy(activations).to(X.device)

    def _reconstruction(self) -> Reconstruction:
        arrays = {name: getattr(self, name).detach().cpu().numpy() for name in RECONSTRUCTION if name != "middle"}
        summed = arrays.pop("summed_decoder")
        start = self.hash.weight.detach().cpu().numpy()
        return Reconstruction(
            start, middle=self.middle.item(), summed_decoder=summed if len(summed) else None, **arrays
        )

    @torch.no_grad()
    def set_maps(self, weight: Any) -> None:
        """Use one map (nbits, width), a tensor or an array, for items and queries."""
        weight = torch.as_tensor(weight)
        self.hash.weight.copy_(weight)
        self.queries.weight.copy_(weight)
        if self.prefixes:
            self.prefix_queries.weight.copy_(torch.cat([weight[:n] for n in self.prefixes]))

    @torch.no_grad()
    def set_reconstruction(
        self, model: Reconstruction, decoders: list[Any], shift: torch.Tensor, tells_norm: bool
    ) -> None:
        """Use codes that reconstruct the outputs of the backbone, and matching real queries plus `shift` (width,).

        If the codes tell no norm, the mean of the decoder and the map of the items finds more than the decoder. Those
        of prefixes, whose decoders are given, tell none.
        """
        for name in RECONSTRUCTION[:-1]:
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
        if model.summed_decoder is not None:
            self.summed_decoder = nn.Buffer(torch.as_tensor(model.summed_decoder).to(self.decoder.device))
            maps = [torch.as_tensor(decoder).to(self.decoder.device) for decoder in decoders]
            weight = torch.cat([(D / activation_scale(D @ D.T) + self.hash.weight[: len(D)]) / 2 for D in maps])
            self.prefix_queries.weight.copy_(weight)
            self.prefix_queries.bias.copy_(weight @ shift)

    def activation_scale(self) -> torch.Tensor:
        """About the mean square of the activations; the decoder is divided by it for queries."""
        scale: torch.Tensor = activation_scale(self.decoder @ self.decoder.T if len(self.summed_decoder) else self.gram)
        return scale

    def load_state_dict(self, state_dict: Any, *args: Any, **options: Any) -> Any:
        """Load weights; those of codes with prefixes have a sum of decoders."""
        self.summed_decoder = nn.Buffer(torch.empty_like(state_dict["summed_decoder"], device=self.decoder.device))
        return super().load_state_dict(state_dict, *args, **options)

    def read(self, X: Any, indices: slice | npt.NDArray[np.int64]) -> torch.Tensor:
        """Some samples as a tensor, see :meth:`skhash.engine.Encoder.read`."""
        samples = super().read(X, indices)
        return to_unit_norm(samples.flatten(1)).reshape(samples.shape) if self.unit_norm else samples

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

    def prefix_scores(self, X: torch.Tensor, codes: torch.Tensor) -> list[torch.Tensor]:
        """Scores (n, n_items) of the real queries of each prefix with items, whose codes are -1 and 1."""
        if not self.prefixes:
            return []
        parts = self.prefix_queries(self.features(X)).split(self.prefixes, 1)
        return [queries @ codes[:, :n].T for queries, n in zip(parts, self.prefixes, strict=True)]

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
        directions = directions_of(encoder)

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


def directions_of(encoder: QueryEncoder) -> torch.Tensor | None:
    """Orthonormal basis of the span of the bits, shape (width, rank); None if it is the whole space."""
    n_bits = encoder.queries.out_features
    return seen_directions(encoder.decoder[:n_bits] if encoder.reconstructs else encoder.queries.weight.detach())  # type: ignore[no-any-return]


@torch.no_grad()
def factors_of(
    encoder: QueryEncoder, features: torch.Tensor, codes: torch.Tensor, directions: torch.Tensor | None
) -> torch.Tensor:
    """Factors of shape (n, 2) of outputs of the backbone (n, width) with codes of -1 and 1 (n, nbits)."""
    factors: torch.Tensor
    if encoder.reconstructs:
        decoder, unit = encoder.decoder[: codes.shape[1]], encoder.activation_scale()
        factors = factors_of_reconstructions(features, codes, directions, encoder.scale, decoder, unit)
    else:
        factors = factors_of_signs(features, codes, directions, encoder.scale, encoder.queries(features))
    return factors


def neighbor_loss(similarities: torch.Tensor, scores: torch.Tensor, temperature: float) -> torch.Tensor:
    """Divergence of the ranking by scores from that by similarities, both (n_queries, n_items), summed over queries."""
    logits = similarities - similarities.mean(1, keepdim=True)
    logits = logits / (temperature * logits.square().mean(1, keepdim=True).sqrt().clamp_min(1e-12))
    scores = scores - scores.mean(1, keepdim=True)
    scale = (scores * logits).sum().clamp_min(0) / scores.square().sum().clamp_min(1e-12)
    target = torch.log_softmax(logits, 1)
    return (target.exp() * (target - torch.log_softmax(scale * scores, 1))).sum()
