"""Scores of real queries and items in training: by the codes alone, or by the distances that factors estimate."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from skhash.codes._search import estimates_of
from skhash.hashers.deep._activations import compute_activations
from skhash.hashers.deep._binarize import sign
from skhash.hashers.deep._factors import factors_of, seen_directions
from skhash.hashers.deep._query_encoder import QueryEncoder


class ItemTerms(NamedTuple):
    """Terms of the scores of items: a query q has the score ``q @ vector - offset`` with each.

    `vectors` of shape (n_items, nbits) are codes of -1 and 1; with factors, times the slope of the estimate.
    """

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
        slopes, offsets, _ = estimates_of(computed[:, -2:], np.zeros(0), self.metric)
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
