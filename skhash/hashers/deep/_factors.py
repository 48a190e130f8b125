r"""Factors of items, from which real queries estimate the distance of the vectors (RaBitQ; Gao, Long, SIGMOD 2024).

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

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch

from skhash._validation.schema import OPTIONAL, Array
from skhash.hashers.deep._activations import compute_activations
from skhash.hashers.deep._binarize import sign
from skhash.hashers.deep._query_encoder import QueryEncoder

EXACT = 0.75  # w


class FactorsMixin:
    """Mixin of hashers with a :class:`QueryEncoder`, whose items can have factors; it goes before the base class."""

    database_factors_: Annotated[npt.NDArray[np.float32], Array("n_database 2"), OPTIONAL]
    backbone: Any
    factors: bool
    input_shape_: tuple[int, ...]
    metric: str
    store_database: bool
    _module: Any
    _thread_limits: Any
    _validate_samples: Any

    def encode_factors(self, X: Any) -> npt.NDArray[np.float32]:
        """Two numbers per item, from which real queries estimate the distance of the vectors.

        They take 8 bytes per item, beside its code.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...), or torch Dataset
            Items.

        Returns
        -------
        ndarray of shape (n_samples, 2), dtype float32
            Norm of the centered vector, and its product with its code: a query q has with an item x about the inner
            product ``score * norm**2 / product``, both centered, where
            ``score = project_queries(q) @ (2 * bits - 1)``. The product is between two values. One is exact for
            q = x, up to the part of x that the bits do not see. The other is best for any q, if the codes
            reconstruct the items. A product of 0 stands for an estimate of 0.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the hasher is not fitted.
        ValueError
            If `X` does not match the training samples, or the hasher has a backbone, or its codes have
            the digits of the norm instead (see the notes of the class).

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from skhash import EmbeddingHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = EmbeddingHasher(
        ...     64, metric="euclidean", factors=True, n_epochs=2, random_state=0
        ... ).fit(X)
        >>> norm, product = hasher.encode_factors(X[:1])[0]
        >>> score = hasher.project_queries(X[:1])[0] @ (2.0 * hasher.transform(X[:1])[0] - 1)
        >>> bool(np.isclose(score * norm**2 / product, norm**2, rtol=0.1))
        True
        """
        X = self._validate_samples(X)
        self._check_factors()
        return self._factors(X)

    def _factors(self, X: Any) -> npt.NDArray[np.float32]:
        """Factors of validated samples."""
        with self._thread_limits():
            encoder: QueryEncoder = self._module()
            if encoder.digits.any() or encoder.field_bias.any():
                raise ValueError(
                    "`factors` must be True when the hasher is fitted, for codes that suit them. Got False."
                )
            directions = seen_directions(encoder)
            factors: npt.NDArray[np.float32] = compute_activations(
                encoder, X, lambda batch: factors_of(encoder, encoder.features(batch), sign(encoder(batch)), directions)
            )
        return factors

    def _queries_for_factors(self, X: Any) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.float64]]:
        """Real queries for items with factors, and what each query adds to its estimated distances.

        The distance is the squared Euclidean one for "euclidean", half of it for "cosine", and minus the inner product
        for "inner". The vectors of an inner product are not centered, so its queries are not either.
        """
        X = self._validate_samples(X)
        with self._thread_limits():
            encoder: QueryEncoder = self._module()
            queries = compute_activations(encoder, X, encoder.query)
            features = compute_activations(encoder, X, encoder.features).astype(np.float64)
            scale = encoder.scale.item()
            if self.metric != "inner":
                constants = (features**2).sum(axis=1) * scale**2
                return queries, constants / 2 if self.metric == "cosine" else constants
            center = encoder.center(self.input_shape_)
            queries = queries + (encoder.queries.weight.detach() @ center).cpu().numpy()
            shift = center.cpu().double().numpy()
            return queries, -(features @ shift + shift @ shift) * scale**2

    def _check_factors(self) -> None:
        """Raise ValueError for a backbone: the estimates are those of linear maps."""
        if self.backbone is not None:
            raise ValueError(
                f"`backbone` must be None for factors, which need linear maps. Got {self.backbone!r} instead."
            )

    def _check_options(self) -> None:
        super()._check_options()  # type: ignore[misc]
        if self.factors:
            self._check_factors()

    def _store_database(self, X: Any, targets: Any) -> None:
        super()._store_database(X, targets)  # type: ignore[misc]
        self.__dict__.pop("database_factors_", None)  # of an earlier fit
        if self.factors and self.store_database:
            self.database_factors_ = self._factors(X)


def seen_directions(encoder: QueryEncoder) -> torch.Tensor | None:
    """Orthonormal basis of the span of the bits, shape (width, rank); None if it is the whole space."""
    weight = encoder.decoder if encoder.reconstructs else encoder.queries.weight.detach()
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
        along = (features * (codes @ encoder.decoder)).sum(1).maximum(inside / 2)
        slopes = EXACT * inside / along.clamp_min(1e-30) + 1 - EXACT
        products = squared / (slopes * encoder.activation_scale())
    else:
        queries = encoder.queries(features)
        # at least the 2-norm: codes that are the signs of the queries give the 1-norm, which is not smaller
        along = (queries * codes).sum(1).maximum(queries.norm(dim=1))
        products = along * squared / inside.clamp_min(1e-30)
    products = torch.where(inside > 1e-10 * squared, products, 0.0)
    return torch.stack([squared.sqrt() * encoder.scale, products], 1)
