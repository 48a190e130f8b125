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
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from skhash._validation import Array
from skhash.base import BaseHasher, from_function
from skhash.functions import ArrayFunction
from skhash.hashers.shallow.linear import center, principal_map


def _smoothest_eigenfunctions(
    lengths: npt.NDArray[np.floating], nbits: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Axis and mode m of each of the `nbits` eigenfunctions with the smallest eigenvalues, ascending."""
    # a mode above nbits is never needed: its axis has nbits smaller ones
    frequencies = np.arange(1, nbits + 1)[:, None] / lengths
    smallest = np.argsort(frequencies, axis=None, kind="stable")[:nbits]
    return smallest % len(lengths), smallest // len(lengths) + 1


@dataclass(frozen=True, eq=False, repr=False)
class SpectralFunction(ArrayFunction):
    """Sinusoids along principal components."""

    mean: Annotated[npt.NDArray[Any], Array("n_features")]
    components: Annotated[npt.NDArray[Any], Array("n_features n_axes")]
    starts: Annotated[npt.NDArray[Any], Array("n_axes")]
    lengths: Annotated[npt.NDArray[Any], Array("n_axes")]
    axes: Annotated[npt.NDArray[Any], Array("nbits", "i", below="n_axes")]
    modes: Annotated[npt.NDArray[Any], Array("nbits", "i")]

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return len(self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (len(self.mean),)

    def activations(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Activations of samples, see :meth:`~skhash.functions.HashFunction.activations`."""
        positions = ((X - self.mean) @ self.components - self.starts) / self.lengths
        activations: npt.NDArray[Any] = np.cos(np.pi * self.modes * positions[:, self.axes])
        return activations


class SpectralHasher(BaseHasher):
    """Signs of the slowest sinusoids along the principal components.

    It uses no random numbers.

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
    function_ : HashFunction
        What was learned, see :mod:`skhash.functions`.
    database_ : Database or None
        Packed codes `codes` and targets `y` of the training samples; None with ``store_database=False``.
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

    mean_ = from_function("mean")
    components_ = from_function("components")
    starts_ = from_function("starts")
    lengths_ = from_function("lengths")
    axes_ = from_function("axes")
    modes_ = from_function("modes")

    def __init__(
        self, nbits: int = 32, *, affinity: str | Callable[..., Any] = "auto", store_database: bool = True
    ) -> None:
        self.nbits = nbits
        self.affinity = affinity
        self.store_database = store_database

    def _learn(self, X: npt.NDArray[Any], relevance: Any, rng: np.random.RandomState) -> SpectralFunction:
        centered, mean = center(X)
        # there are enough principal components, so that none is drawn at random
        components = principal_map(centered, min(self.nbits, *X.shape), rng=None).astype(X.dtype, copy=False)
        projected = centered @ components
        starts, lengths = projected.min(axis=0), np.ptp(projected, axis=0)
        real = lengths > np.finfo(X.dtype).eps * np.abs(X).max()  # above rounding errors
        if not real.any():  # equal samples have equal codes
            real[0], lengths[0] = True, 1
        axes, modes = _smoothest_eigenfunctions(lengths[real], self.nbits)
        return SpectralFunction(mean, components[:, real], starts[real], lengths[real], axes, modes)
