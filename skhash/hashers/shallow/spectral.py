"""Spectral hashing (Weiss, Torralba, Fergus, NIPS 2008).

Balanced, uncorrelated bits that change least between similar rows solve, relaxed to
reals, the eigenproblem of a graph Laplacian. Were the rows uniform over a box along
their principal components, with affinities exp(-|x - x'|^2 / (2 eps^2)), its
eigenfunctions along one axis [a, b] and their eigenvalues would be, for m = 1, 2, ...,

    phi_m(x) = sin(pi / 2 + m pi (x - a) / (b - a)) = cos(m pi (x - a) / (b - a)),
    lambda_m = 1 - exp(-(eps^2 / 2) |m pi / (b - a)|^2).

The bits are the signs of the nbits eigenfunctions of all axes with the smallest
eigenvalues. Products over several axes are eigenfunctions, too, but their bits would
be functions of the others, and are left out. lambda grows with m / (b - a) whatever
eps is, so that eps need not be known.
"""

import numpy as np

from skhash.base import BaseHasher
from skhash.hashers.shallow._linear import feature_means, principal_map


def smoothest_eigenfunctions(lengths, nbits):
    """Choose the single-axis eigenfunctions with the smallest eigenvalues.

    Parameters
    ----------
    lengths : ndarray of shape (n_axes,), float
        Length b - a of each axis, positive.
    nbits : int
        How many to choose.

    Returns
    -------
    axes : ndarray of shape (nbits,), int
        The axis of each, in [0, n_axes), by increasing eigenvalue.
    modes : ndarray of shape (nbits,), int
        Its mode m, in [1, nbits].

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.spectral import smoothest_eigenfunctions
    >>> smoothest_eigenfunctions(np.array([2.5, 1.0]), 5)
    (array([0, 0, 1, 0, 0]), array([1, 2, 1, 3, 4]))
    """
    # a mode above nbits has nbits smaller ones on its own axis
    frequencies = np.arange(1, nbits + 1)[:, None] / lengths
    smallest = np.argsort(frequencies, axis=None, kind="stable")[:nbits]
    return smallest % len(lengths), smallest // len(lengths) + 1


class SpectralHasher(BaseHasher):
    """Signs of sinusoids along the principal components, the slowest ones.

    Draws nothing at random.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code. A long axis gets several bits, of modes 1, 2, ...; so `nbits`
        may exceed the number of features.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant; used by :meth:`score` only.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training rows.
    components_ : ndarray of shape (n_features, n_axes)
        The principal directions, at most `nbits`, along which the rows differ.
    starts_ : ndarray of shape (n_axes,)
        Least value a of the training rows along each.
    lengths_ : ndarray of shape (n_axes,)
        Length b - a of the range of the training rows along each.
    axes_ : ndarray of shape (nbits,), int
        Axis of each bit.
    modes_ : ndarray of shape (nbits,), int
        Mode m of each bit; its sinusoid has m half-waves from a to b.
    affinity_ : callable or None
        The fitted affinity, None when fit had no targets.
    database_codes_ : ndarray of shape (n_samples, ceil(nbits / 8)), dtype uint8
        Packed codes of the training rows.
    database_y_ : array of shape (n_samples, ...)
        Their targets.
    n_features_in_ : int
        Number of features of the training rows.

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

    def __init__(self, nbits=32, *, affinity="auto", store_database=True):
        self.nbits = nbits
        self.affinity = affinity
        self.store_database = store_database

    def _fit(self, X, targets):
        self.mean_ = feature_means(X)
        # as many directions as there are at most: none is drawn at random
        components = principal_map(X - self.mean_, min(self.nbits, *X.shape), rng=None).astype(X.dtype, copy=False)
        projected = (X - self.mean_) @ components
        starts, lengths = projected.min(axis=0), np.ptp(projected, axis=0)
        real = lengths > np.finfo(X.dtype).eps * np.abs(X).max()  # not of rounding alone
        if not real.any():  # all rows are equal: one code for all
            real[0], lengths[0] = True, 1
        self.components_, self.starts_, self.lengths_ = components[:, real], starts[real], lengths[real]
        self.axes_, self.modes_ = smoothest_eigenfunctions(self.lengths_, self.nbits)

    def _project(self, X):
        positions = ((X - self.mean_) @ self.components_ - self.starts_) / self.lengths_
        return np.cos(np.pi * self.modes_ * positions[:, self.axes_])
