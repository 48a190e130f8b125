"""Spectral hashing (Weiss, Torralba, Fergus, NIPS 2008).

Balanced, uncorrelated bits that change least between similar samples solve, relaxed to
reals, the eigenproblem of a graph Laplacian. For samples that are uniform over a box along
their principal components, with affinities exp(-|x - x'|^2 / (2 eps^2)), its
eigenfunctions along one axis [a, b] and their eigenvalues are, for m = 1, 2, ...,

    phi_m(x) = sin(pi / 2 + m pi (x - a) / (b - a)) = cos(m pi (x - a) / (b - a)),
    lambda_m = 1 - exp(-(eps^2 / 2) |m pi / (b - a)|^2).

The bits are the signs of the nbits eigenfunctions of all axes with the smallest
eigenvalues. Products over several axes are eigenfunctions, too. Their bits would be
functions of the others, and are left out. lambda grows with m / (b - a) for every eps,
so that eps need not be known.
"""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from skhash._validation import Array
from skhash.base import BaseHasher
from skhash.hashers.shallow._linear import center, principal_map


def _smoothest_eigenfunctions(
    lengths: npt.NDArray[np.floating], nbits: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Axis and mode m of each of the `nbits` eigenfunctions with the smallest eigenvalues, ascending."""
    # a mode above nbits is never needed: its axis has nbits smaller ones
    frequencies = np.arange(1, nbits + 1)[:, None] / lengths
    smallest = np.argsort(frequencies, axis=None, kind="stable")[:nbits]
    return smallest % len(lengths), smallest // len(lengths) + 1


class SpectralHasher(BaseHasher):
    """Signs of the slowest sinusoids along the principal components.

    There are no random numbers.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits. It may exceed the number of features, because a long axis has several bits,
        of modes 1, 2, ...
    affinity : "auto" or callable, default="auto"
        Which samples are relevant. Only :meth:`score` uses it.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    components_ : ndarray of shape (n_features, n_axes)
        Principal directions along which the samples differ, at most `nbits`.
    starts_ : ndarray of shape (n_axes,)
        Minimum a of the training samples along each direction.
    lengths_ : ndarray of shape (n_axes,)
        Range b - a of the training samples along each direction.
    axes_ : ndarray of shape (nbits,), int
        Axis of each bit.
    modes_ : ndarray of shape (nbits,), int
        Mode m of each bit. Its sinusoid has m half-waves from a to b.
    affinity_ : callable or None
        The fitted affinity, None if `fit` had no targets.
    database_codes_ : ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8
        Packed codes of the training samples.
    database_y_ : array of shape (n_samples, ...)
        Targets of the training samples.
    n_features_in_ : int
        Number of features seen during `fit`.

    References
    ----------
    Weiss, Torralba, Fergus: Spectral hashing. NIPS 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SpectralHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> round(SpectralHasher(nbits=16).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]), 2)
    0.39
    """

    mean_: Annotated[npt.NDArray[Any], Array("n_features")]
    components_: Annotated[npt.NDArray[Any], Array("n_features n_axes")]
    starts_: Annotated[npt.NDArray[Any], Array("n_axes")]
    lengths_: Annotated[npt.NDArray[Any], Array("n_axes")]
    axes_: Annotated[npt.NDArray[Any], Array("nbits", "i", below="n_axes")]
    modes_: Annotated[npt.NDArray[Any], Array("nbits", "i")]

    def __init__(
        self, nbits: int = 32, *, affinity: str | Callable[..., Any] = "auto", store_database: bool = True
    ) -> None:
        self.nbits = nbits
        self.affinity = affinity
        self.store_database = store_database

    def _fit(self, X: npt.NDArray[Any], targets: Any) -> None:
        centered, self.mean_ = center(X)
        # there are enough principal components, so that none is drawn at random
        components = principal_map(centered, min(self.nbits, *X.shape), rng=None).astype(X.dtype, copy=False)
        projected = centered @ components
        starts, lengths = projected.min(axis=0), np.ptp(projected, axis=0)
        real = lengths > np.finfo(X.dtype).eps * np.abs(X).max()  # above rounding errors
        if not real.any():  # equal samples have equal codes
            real[0], lengths[0] = True, 1
        self.components_, self.starts_, self.lengths_ = components[:, real], starts[real], lengths[real]
        self.axes_, self.modes_ = _smoothest_eigenfunctions(self.lengths_, self.nbits)

    def _project(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        positions = ((X - self.mean_) @ self.components_ - self.starts_) / self.lengths_
        activations: npt.NDArray[Any] = np.cos(np.pi * self.modes_ * positions[:, self.axes_])
        return activations
