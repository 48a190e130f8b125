"""A method in a package of its own: each bit halves the samples between two of them."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from skhash.base import BaseHasher
from skhash.functions import Array, LinearFunction


class PairsHasher(BaseHasher):
    """Each bit halves the samples along the line through two of them.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, for :meth:`score`.
    store_database : bool, default=True
        Whether to store the codes and targets of the samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the pairs.

    Attributes
    ----------
    pairs_ : ndarray of shape (nbits, 2)
        Indices of the two samples of each bit.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pairs import PairsHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> PairsHasher(4, random_state=0).fit_transform(X).mean(axis=0).round(1).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    pairs_: Annotated[npt.NDArray[np.int64], Array("nbits 2", "i")]

    def __init__(
        self, nbits=32, *, affinity="auto", store_database=True, random_state=None
    ):
        self.nbits = nbits
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _learn(self, X, relevance, rng):
        self.pairs_ = rng.randint(len(X), size=(self.nbits, 2))
        one, two = X[self.pairs_.T]
        mean, directions = X.mean(axis=0), (two - one).T
        middle = np.median((X - mean) @ directions, axis=0)
        return LinearFunction(mean, directions, intercept=-middle)
