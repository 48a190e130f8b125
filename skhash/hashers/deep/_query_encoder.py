"""An encoder with two maps: one for items, which become codes, and one for real queries."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from skhash.engine import Encoder, batch_tensor
from skhash.engine.smoothing import Smoothing


class QueryEncoder(Encoder):
    """Encoder with a second linear layer, for queries.

    Parameters
    ----------
    *args, **options
        Parameters of :class:`~skhash.engine.Encoder`.
    unit_norm : bool, default=False
        Whether samples are divided by their Euclidean norm when they are read. It is stored with the
        weights.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.deep._query_encoder import QueryEncoder
    >>> encoder = QueryEncoder(2, nbits=3, unit_norm=True)
    >>> X = encoder.read(np.array([[3.0, 4.0], [0.0, 0.0]]), slice(None))
    >>> X
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    >>> encoder(X).shape, encoder.query(X).shape
    (torch.Size([2, 3]), torch.Size([2, 3]))
    """

    unit_norm: torch.Tensor

    def __init__(self, *args: Any, unit_norm: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queries = nn.Linear(self.hash.in_features, self.hash.out_features)
        nn.init.zeros_(self.queries.bias)
        self.unit_norm = nn.Buffer(torch.tensor(float(unit_norm)))

    def read(self, X: Any, indices: slice | npt.NDArray[np.int64]) -> torch.Tensor:
        """Some samples as a tensor, see :meth:`skhash.engine.Encoder.read`."""
        if not self.unit_norm:
            return super().read(X, indices)
        samples = _to_unit_norm(batch_tensor(X, indices, self.mean.device))
        return samples if self.offset is None else samples - self.offset

    def query(self, X: torch.Tensor) -> torch.Tensor:
        """Real queries.

        Parameters
        ----------
        X : tensor of shape (n, ...), float32
            Samples, as :meth:`read` returns them.

        Returns
        -------
        tensor of shape (n, nbits), float32
            The queries.
        """
        queries: torch.Tensor = self.queries(self.features(X))
        return queries

    def similarities(self, queries: torch.Tensor, items: torch.Tensor, metric: str) -> torch.Tensor:
        """Similarities of the vectors themselves, up to a constant per query.

        Parameters
        ----------
        queries, items : tensor of shape (n, ...), float32
            Samples, as :meth:`read` returns them.
        metric : "cosine", "inner" or "euclidean"
            "cosine" is "inner" on vectors of norm 1. "euclidean" is minus the squared distance,
            without the squared norm of the query, in units of the scale.

        Returns
        -------
        tensor of shape (n_queries, n_items), float32
            Similarities; larger is nearer.
        """
        if metric == "euclidean":  # centered, because distances of far vectors lose digits
            queries, items = (((X - self.mean) / self.scale).flatten(1) for X in (queries, items))
            return 2 * queries @ items.T - (items**2).sum(1)
        return self._given(queries).flatten(1) @ self._given(items).flatten(1).T

    def _given(self, X: torch.Tensor) -> torch.Tensor:
        """Samples with the offset that :meth:`read` subtracts."""
        return X if self.offset is None else X + self.offset

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
