"""Real queries: the maps of items and queries in torch, the loss that trains them, held-out recall, and the training.

See the equations in embedding.py.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import gen_batches
from torch import nn
from torch.nn.functional import linear

from skhash._slices import ENCODE_BATCH_SIZE
from skhash._validation import VectorMetric, evenly_spaced
from skhash.codes.queries import terms_of_items
from skhash.engine import Encoder, Objective, Trainer
from skhash.engine.data import ArraySubset, unit_of
from skhash.engine.early_stopping import BestEpoch
from skhash.functions.linear import to_unit_norm
from skhash.functions.network import in_batches
from skhash.hashers.deep import sign
from skhash.vectors.codes import (
    Reconstruction,
    activation_scale,
    factors_of_reconstructions,
    factors_of_signs,
    seen_directions,
)

N_NEIGHBORS = 10
N_MAX_QUERIES = 500
N_MAX_ITEMS = 20_000  # that a held-out query ranks
N_ASKED, N_FOUND = 256, 2048  # queries and items of a batch of pairs
_N_COORDINATES = 32  # of the tree that makes local batches


# --- what is trained


class ItemTerms(NamedTuple):
    """Terms of the scores of items: a query q has the score ``q @ vector - offset`` with each."""

    vectors: torch.Tensor
    offsets: torch.Tensor


class QueryEncoder(Encoder):
    """Two linear maps of vectors: one for items, whose signs are codes, and one for real queries.

    With `codes`, a search finds the codes of items instead, see :class:`~skhash.vectors.codes.Reconstruction`, and the
    first map is where it starts. It may find more bits, `n_found`, than the first `nbits`, which are returned. Prefixes
    of these lengths have queries of their own. With `factors`, queries rank items by estimated distances.
    """

    codes: Any  # None, or a module with the arrays of a Reconstruction but `start` as buffers

    def __init__(
        self,
        n_features: int,
        nbits: int,
        metric: VectorMetric = "cosine",
        *,
        factors: bool = False,
        prefixes: Sequence[int] = (),
        n_found: int | None = None,
        has_offset: bool = False,
    ) -> None:
        super().__init__(n_features, n_found or nbits, has_offset=has_offset)
        self.metric, self.factors, self.prefixes = metric, factors, tuple(map(int, prefixes))
        self.unit_norm = metric == "cosine"
        self.queries = nn.Linear(n_features, nbits)
        nn.init.zeros_(self.queries.bias)
        if prefixes:  # one map after another
            self.prefix_queries = nn.Linear(n_features, sum(self.prefixes))
            nn.init.zeros_(self.prefix_queries.bias)
        if self.unit_norm and self.offset is not None:
            self.offset = torch.stack([self.offset, self.offset])
        self.register_module("codes", None)

    # --- samples

    def read(self, X: Any, indices: slice | npt.NDArray[np.int64]) -> torch.Tensor:
        """Some samples as a tensor, see :meth:`skhash.engine.Encoder.read`; for cosines they are divided by norms."""
        samples = super().read(X, indices)
        return to_unit_norm(samples) if self.unit_norm else samples

    def set_statistics(self, X: Any) -> None:
        """Set the offset, the mean and the scale from training samples.

        For cosines, they are those of samples of norm 1, and the offset is the sum of two float32 values, because
        rounding it would change the norms.
        """
        unit_norm, self.unit_norm = self.unit_norm, False
        super().set_statistics(X)
        if unit_norm:
            if self.offset is not None:
                self.offset = torch.stack([self.offset, torch.where(self.offset != 0, self.mean, 0.0)])
            self.unit_norm = True
            self._set_moments(*self._moments(X))

    def offset_on_cpu(self) -> npt.NDArray[np.float64] | None:
        """The offset in float64, see :class:`skhash.engine.Encoder`."""
        values = super().offset_on_cpu()
        return values if values is None or values.ndim == 1 else values.sum(axis=0)

    def outputs(self, X: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        """Outputs of a function of samples in evaluation mode, batch by batch, as an array."""
        self.eval()
        return in_batches(X, self.mean.device, lambda batch: function(self.read(X, batch)))

    def similarities(self, queries: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Similarities (n_queries, n_items) of the vectors, up to a constant per query; larger is nearer."""
        if self.metric == "euclidean":  # centered, because distances of far vectors lose digits
            queries, items = ((X - self.mean) / self.scale for X in (queries, items))
            return 2 * queries @ items.T - (items**2).sum(1)
        unit = unit_of(self.scale) if self.metric == "inner" else 1.0
        queries, items = (self._given(X) / unit for X in (queries, items))
        return queries @ items.T

    def center(self) -> torch.Tensor:
        """Mean of samples as they were given, in units of the scale."""
        return self._given(self.mean) / self.scale

    def _given(self, X: torch.Tensor) -> torch.Tensor:
        """Samples plus the offset that :meth:`read` subtracts, unless they have unit norm."""
        return X if self.offset is None or self.unit_norm else X + self.offset

    # --- items and queries

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Activations of items, see :meth:`skhash.engine.Encoder.forward`. Codes of a search have no gradient."""
        features = self.features(X)
        if self.codes is None:
            return self.head(features)
        activations = self._reconstruction().activations(features.detach().cpu().numpy())
        return torch.from_numpy(activations[:, : self.queries.out_features]).to(X.device)

    def _reconstruction(self) -> Reconstruction:
        arrays = {name: value.cpu().numpy() for name, value in self.codes.named_buffers()}
        arrays["middle"] = arrays["middle"].item()
        return Reconstruction(self.hash.weight.detach().cpu().numpy(), **arrays)

    def query(self, X: torch.Tensor) -> torch.Tensor:
        """Real queries of shape (n, nbits) of samples that :meth:`read` returned."""
        queries: torch.Tensor = self.queries(self.features(X))
        return queries

    def ranking_query(self, X: torch.Tensor) -> torch.Tensor:
        """Real queries of shape (n, nbits) for the terms of items."""
        if not self.factors or self.metric != "inner":
            return self.query(X)
        queries: torch.Tensor = self.queries(self.features(X) + self.center())  # the inner product of given vectors
        return queries

    def item_terms(self, X: Any) -> ItemTerms:
        """Terms of all items, on the CPU."""
        if not self.factors:
            codes = torch.from_numpy(self.outputs(X, lambda batch: sign(self(batch))))
            return ItemTerms(codes, torch.zeros(len(codes)))
        decoder = None if self.codes is None else self.codes.decoder[: self.queries.out_features]
        directions = seen_directions(self.queries.weight.detach() if decoder is None else decoder)

        def codes_and_factors(batch: torch.Tensor) -> torch.Tensor:
            features, codes = self.features(batch), sign(self(batch))
            if decoder is None:
                factors = factors_of_signs(features, codes, directions, self.scale, self.queries(features))
            else:
                unit = self._activation_scale()
                factors = factors_of_reconstructions(features, codes, directions, self.scale, decoder, unit)
            return torch.cat([codes, factors], 1)

        computed = self.outputs(X, codes_and_factors)
        slopes, offsets = terms_of_items(computed[:, -2:], self.metric)
        squared = self.scale.item() ** 2  # in the units of the encoder, numbers are about 1
        codes = computed[:, :-2] * (slopes / squared).astype(np.float32)[:, None]
        return ItemTerms(torch.from_numpy(codes), torch.from_numpy((offsets / squared).astype(np.float32)))

    def prefix_scores(self, X: torch.Tensor, codes: torch.Tensor) -> list[torch.Tensor]:
        """Scores (n, n_items) of the real queries of each prefix with items, whose codes are -1 and 1."""
        if not self.prefixes:
            return []
        parts = self.prefix_queries(self.features(X)).split(self.prefixes, 1)
        return [queries @ codes[:, :n].T for queries, n in zip(parts, self.prefixes, strict=True)]

    # --- weights

    @torch.no_grad()
    def set_maps(self, weight: Any) -> None:
        """Use one map (nbits, n_features), an array, for items and queries."""
        weight = torch.as_tensor(weight)
        self.hash.weight.copy_(weight)
        self.queries.weight.copy_(weight)
        if self.prefixes:
            self.prefix_queries.weight.copy_(torch.cat([weight[:n] for n in self.prefixes]))

    @torch.no_grad()
    def set_codes(self, model: Reconstruction, decoders: list[Any], shift: torch.Tensor, tells_norm: bool) -> None:
        """Use codes that reconstruct the items, and matching real queries of samples plus `shift` (n_features,).

        If the codes tell no norm, the mean of the decoder and the map of the items finds more than the decoder. Those
        of prefixes, whose decoders are given, tell none.
        """
        device, is_first = self.mean.device, self.codes is None
        arrays = {name: value for name, value in vars(model).items() if name != "start" and value is not None}
        self._hold_codes({name: torch.tensor(value, device=device) for name, value in arrays.items()})
        self.hash.weight.copy_(torch.from_numpy(model.start))
        self.hash.bias.zero_()
        # the stored results are those of this scale: with prefixes, the first codes have that of all lengths together
        scale = activation_scale(self.codes.gram) if is_first else self._activation_scale()
        directions = self.codes.decoder / scale
        if not tells_norm:
            directions = (directions + self.hash.weight) / 2
        self.queries.weight.copy_(directions)
        self.queries.bias.copy_(directions @ shift - self.codes.digits / (2 * scale))
        if self.prefixes:
            maps = [torch.as_tensor(decoder).to(device) for decoder in decoders]
            weight = torch.cat([(D / activation_scale(D @ D.T) + self.hash.weight[: len(D)]) / 2 for D in maps])
            self.prefix_queries.weight.copy_(weight)
            self.prefix_queries.bias.copy_(weight @ shift)

    def _hold_codes(self, tensors: dict[str, torch.Tensor]) -> None:
        self.codes = nn.Module() if tensors else None
        for name, value in tensors.items():
            self.codes.register_buffer(name, value)

    def _activation_scale(self) -> torch.Tensor:
        """About the mean square of the activations; the decoder is divided by it for queries."""
        decoder = self.codes.decoder
        scale: torch.Tensor = activation_scale(decoder @ decoder.T if self.prefixes else self.codes.gram)
        return scale

    def load_state_dict(self, state_dict: Any, *args: Any, **options: Any) -> Any:
        """Load weights, which have codes or none."""
        codes = {name[6:]: value for name, value in state_dict.items() if name.startswith("codes.")}
        self._hold_codes({name: torch.empty_like(value, device=self.mean.device) for name, value in codes.items()})
        return super().load_state_dict(state_dict, *args, **options)


# --- the loss


def neighbor_loss(similarities: torch.Tensor, scores: torch.Tensor, temperature: float) -> torch.Tensor:
    """Divergence of the ranking by scores from that by similarities, both (n_queries, n_items), summed over queries."""
    logits = similarities - similarities.mean(1, keepdim=True)
    logits = logits / (temperature * logits.square().mean(1, keepdim=True).sqrt().clamp_min(1e-12))
    scores = scores - scores.mean(1, keepdim=True)
    scale = (scores * logits).sum().clamp_min(0) / scores.square().sum().clamp_min(1e-12)
    target = torch.log_softmax(logits, 1)
    return (target.exp() * (target - torch.log_softmax(scale * scores, 1))).sum()


class NeighborObjective(Objective):
    """Loss of a batch: one of `items_per_query` items, none of them held out, is a query, which ranks the others.

    Samples behind the first `n_items` are no items, but further queries. `items` holds the terms of the items if
    training does not change them.
    """

    def __init__(
        self,
        temperature: float = 0.25,
        n_items: float = math.inf,
        held_out: npt.NDArray[np.int64] | None = None,
        items: ItemTerms | None = None,
        items_per_query: int | None = 7,
    ) -> None:
        super().__init__()
        self.temperature, self.n_items, self.items, self.items_per_query = temperature, n_items, items, items_per_query
        self.held_out = np.empty(0, np.int64) if held_out is None else held_out

    def batches(
        self, encoder: Any, X: Any, relevance: None, n_batches: int, rng: np.random.Generator
    ) -> list[npt.NDArray[np.int64]]:
        """Batches of an epoch, see :class:`skhash.engine.Objective`. Many samples have local batches."""
        if not are_local(n_batches):
            return super().batches(encoder, X, relevance, n_batches, rng)
        pairs = encoder.outputs(X[rng.integers(len(X), size=2 * _N_COORDINATES)], encoder.features)
        directions = torch.from_numpy(pairs[::2] - pairs[1::2]).to(encoder.mean.device)
        coordinates = encoder.outputs(X, lambda batch: linear(encoder.features(batch), directions))
        return local_batches(coordinates, n_batches, rng)

    def forward(self, encoder: Any, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        is_query = indices >= self.n_items
        n_given = int(np.count_nonzero(is_query))
        n_chosen = 0 if self.items_per_query is None else -(-(len(X) - n_given) // self.items_per_query)
        is_query[np.flatnonzero(~is_query & ~np.isin(indices, self.held_out))[:n_chosen]] = True
        chosen = torch.from_numpy(is_query).to(X.device)
        queries, items = X[chosen], X[~chosen]
        similarities = encoder.similarities(queries, items)
        if self.items is None:
            vectors = sign(encoder(items))
            scores = encoder.query(queries) @ vectors.T
        else:
            vectors, offsets = (terms[indices[~is_query]].to(X.device) for terms in self.items)
            scores = encoder.ranking_query(queries) @ vectors.T - offsets
        ranked = [scores, *encoder.prefix_scores(queries, vectors)]
        loss: torch.Tensor = sum(neighbor_loss(similarities, values, self.temperature) for values in ranked)  # type: ignore[assignment]
        return loss / (len(ranked) * (n_chosen + n_given))


class PairsObjective(NeighborObjective):
    """The same loss with fixed codes: in each batch 256 of the `asked` queries rank 2,048 of the `others`, items.

    The samples are the items, and behind them the queries. These may be the items again, of which a batch then leaves
    out those that are its queries.
    """

    def __init__(
        self, items: ItemTerms, asked: npt.NDArray[np.int64], others: npt.NDArray[np.int64], are_items: bool
    ) -> None:
        super().__init__(n_items=len(items.vectors), items=items, items_per_query=None)
        self.asked, self.others, self.are_items = asked, others, are_items

    def batches(self, encoder: Any, X: Any, relevance: None, n_batches: int, rng: Any) -> list[npt.NDArray[np.int64]]:
        """A batch, see :class:`skhash.engine.Objective`."""
        asked = self.asked[rng.permutation(len(self.asked))[:N_ASKED]]
        found = self.others[rng.permutation(len(self.others))[:N_FOUND]]
        found = np.setdiff1d(found, asked) if self.are_items else found
        return [np.concatenate([found, int(self.n_items) + asked])]


def are_local(n_batches: int) -> bool:
    """Whether batches should hold near items, because random ones have fewer than two of ten neighbors."""
    return n_batches > 5


def local_batches(
    coordinates: npt.NDArray[np.floating], n_batches: int, rng: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Batches of samples that are near each other, whose sizes differ by at most one.

    A random tree splits the samples by coordinates of shape (n_samples, n_coordinates); its leaves are the batches.
    """
    n = len(coordinates)
    smaller, n_larger = divmod(n, n_batches)
    sizes = rng.permutation(np.repeat([smaller + 1, smaller], [n_larger, n_batches - n_larger]))
    parts, leaves = [(np.arange(n), sizes)], []
    while parts:
        part, sizes = parts.pop()
        if len(sizes) == 1:
            leaves.append(rng.permutation(part))
            continue
        part = part[np.argsort(coordinates[part, rng.integers(coordinates.shape[1])], kind="stable")]
        half = len(sizes) // 2
        cut = sizes[:half].sum()
        parts += [(part[:cut], sizes[:half]), (part[cut:], sizes[half:])]
    return [leaves[i] for i in rng.permutation(n_batches)]


# --- held-out queries


def choose_queries(n: int, fraction: float, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Indices of the samples to hold out, in ascending order; none of fewer than 4 samples."""
    n_queries = min(round(n * fraction), N_MAX_QUERIES)
    return np.sort(rng.permutation(n)[: n_queries if n >= 4 else 0]).astype(np.int64)


class HeldOutQueries(BestEpoch):
    """Recall of the nearest neighbors of held-out queries among samples, `others`, or some of these, `rows`.

    Held-out samples are items in training, but no queries. `given` queries replace as many of them. `items` holds the
    terms of `rows` if training does not change them.
    """

    def __init__(
        self,
        X: Any,
        indices: npt.NDArray[np.int64],
        n_iter_no_change: int,
        every: int = 1,
        given: npt.NDArray[np.floating] | None = None,
    ) -> None:
        n_given = 0 if given is None else len(given)
        super().__init__(max(len(indices), n_given), n_iter_no_change)
        self.X, self.indices, self.given, self.every = X, indices, given, every
        self.own = indices[evenly_spaced(len(indices), self.n_queries - n_given)]
        self.others = np.setdiff1d(np.arange(len(X)), indices)
        self.rows = self.others[evenly_spaced(len(self.others), N_MAX_ITEMS)]
        self.items: ItemTerms | None = None
        self.itq: float | None = None  # recall of ITQ by Hamming distance
        self._neighbors: torch.Tensor | None = None

    def improves(self, encoder: Any, entry: dict[str, Any]) -> bool:
        """Add the recall to the entry of an epoch that is measured; return whether it is the best so far."""
        return entry["epoch"] % self.every == 0 and super().improves(encoder, entry)

    def measure(self, encoder: QueryEncoder) -> float:
        """Share of the nearest neighbors that are among the best items of the real queries, mean over the queries."""
        return self._recall_of_queries(encoder, self._terms(encoder))

    def recalls(self, encoder: QueryEncoder) -> tuple[float, float]:
        """Recall of the real queries, and that of their codes by Hamming distance; means with those of prefixes."""
        terms = self._terms(encoder)
        return self._recall_of_queries(encoder, terms), self._recall_of_codes(encoder, terms)

    def _terms(self, encoder: QueryEncoder) -> ItemTerms:
        return self.items or encoder.item_terms(ArraySubset(self.X, self.rows))

    @torch.no_grad()
    def _recall_of_queries(self, encoder: QueryEncoder, terms: ItemTerms) -> float:
        samples = self._read(encoder.eval())
        scores = (encoder.ranking_query(samples).cpu() @ terms.vectors.T).sub_(terms.offsets)
        others = encoder.prefix_scores(samples, terms.vectors.to(samples.device))
        return self._recall(encoder, [scores, *(values.cpu() for values in others)])

    @torch.no_grad()
    def _recall_of_codes(self, encoder: QueryEncoder, terms: ItemTerms) -> float:
        codes, others = sign(encoder(self._read(encoder.eval()))).cpu(), sign(terms.vectors)
        lengths = (codes.shape[1], *encoder.prefixes)
        return self._recall(encoder, [codes[:, :n] @ others[:, :n].T for n in lengths])

    def _recall(self, encoder: QueryEncoder, ranked: list[torch.Tensor]) -> float:
        """Mean recall of the scores of all lengths."""
        if self.n_queries == 0:
            return 0.0
        if self._neighbors is None:
            queries = self._read(encoder)
            parts = [
                encoder.similarities(queries, encoder.read(self.X, self.rows[batch]))
                for batch in gen_batches(len(self.rows), ENCODE_BATCH_SIZE)
            ]
            self._neighbors = _nearest(torch.cat(parts, 1).cpu())
        found = [_nearest(scores)[:, :, None] == self._neighbors[:, None] for scores in ranked]
        return sum(float(near.any(2).double().mean()) for near in found) / len(found)

    def _read(self, encoder: QueryEncoder) -> torch.Tensor:
        samples = encoder.read(self.X, self.own)
        return samples if self.given is None else torch.cat([samples, encoder.read(self.given, slice(None))])


def _nearest(scores: torch.Tensor) -> torch.Tensor:
    return scores.topk(min(N_NEIGHBORS, scores.shape[1]), 1).indices


# --- the training


def train(
    trainer: Trainer,
    held_out: HeldOutQueries | None,
    keep: Callable[[dict[str, torch.Tensor]], object],
    begin: Callable[[], object] = lambda: None,
    end: Callable[[dict[str, Any]], object] = lambda entry: None,
) -> None:
    """Train until the last epoch, until held-out queries find no more, or until `end` of an epoch returns true.

    `keep` gets the weights of each epoch that is the best so far; `begin` is called before an epoch, and `end` gets its
    entry of the history.
    """
    while trainer.n_epochs_done < trainer.schedule.n_epochs:
        if held_out is not None and held_out.should_stop(trainer.n_epochs_done):
            break
        begin()
        entry = {"epoch": trainer.n_epochs_done + 1, "loss": trainer.run_epoch()}
        if held_out is None or held_out.improves(trainer.encoder, entry):
            keep(trainer.encoder.state_dict())
        if end(entry):
            break
