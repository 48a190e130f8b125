"""AGH, anchor graph hashing (Liu, Wang, Kumar, Chang, ICML 2011).

Each sample is connected to its s nearest of m anchors u_j, the centers of k-means, by the weights

    z_j(x) = exp(-|x - u_j|^2 / t) / sum over the s nearest,  0 for the others.

Z of shape (n, m) holds those of the training samples. Samples that share anchors are similar:

    A = Z Lambda^-1 Z^T,  Lambda = diag(Z^T 1),

whose rows sum to 1, so that the graph Laplacian is L = I - A. Its smoothest
eigenvectors come from a small eigenproblem,

    M = Lambda^-1/2 Z^T Z Lambda^-1/2 = V Sigma V^T,
    Y = Z W,  W = sqrt(n) Lambda^-1/2 V Sigma^-1/2,

without the constant one, of eigenvalue 1; z(x)^T W extends them to new samples. With one
layer the bits are the signs of nbits eigenvectors.

With two layers every eigenvector y gives a second bit, which splits both sides of the
first one: sign(y - b+) where y >= 0, and sign(b- - y) elsewhere. The thresholds make

    f = (y - b+ where y >= 0, b- - y elsewhere)

smoothest, that is minimize f^T L f, and balanced, 1^T f = 0. The balanced ones are a line:
with n+ and n- samples on the two sides, y+ and y- the means of y there, f0 the f of
b+ = y+ and b- = y-, and u = (1 / n+ where y >= 0, -1 / n- elsewhere), it is

    b+ = y+ + beta / n+,  b- = y- + beta / n-,  f = f0 - beta u,

and f^T L f is smallest at beta = u^T L f0 / u^T L u.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from skhash._compat import Interval
from skhash._slices import ENCODE_BATCH_SIZE
from skhash._validation import Array
from skhash.base import BaseHasher, from_function
from skhash.functions import ArrayFunction
from skhash.hashers.shallow.linear import center, orthonormal_map

_MIN_SAMPLES_PER_ANCHOR = 5  # with fewer, the graph has many parts, and eigenvectors only distinguish those
_MIN_EIGENVALUE = 1e-8  # smaller eigenvalues, out of at most 1, are rounding errors


def _anchor_weights(
    X: npt.NDArray[np.floating],
    anchors: npt.NDArray[np.float64],
    s: int,
    t: float | None = None,
    mean: npt.NDArray[np.float64] | float = 0.0,
) -> tuple[csr_array, float]:
    """Gaussian weights (n_samples, m) of the s nearest anchors of every sample, and t."""
    n, m, s = len(X), len(anchors), min(s, len(anchors))
    nearest = NearestNeighbors(n_neighbors=s).fit(anchors)
    found = [nearest.kneighbors(X[batch] - mean) for batch in gen_batches(n, ENCODE_BATCH_SIZE)]
    distances, indices = (np.concatenate(parts) for parts in zip(*found, strict=True))
    # equal samples lie on their only anchor, at distance 0
    t = t or float(distances[:, -1].mean(dtype=np.float64)) ** 2 or 1.0
    # before normalization the nearest anchor has weight 1, so that the weights of distant samples are not all 0
    weights = np.exp((distances[:, :1] ** 2.0 - distances**2.0) / t)
    weights /= weights.sum(axis=1, keepdims=True)
    return csr_array((weights.ravel(), indices.ravel(), np.arange(0, n * s + 1, s)), shape=(n, m)), t


def _anchor_graph_map(Z: csr_array, n_columns: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Map (m, r) of anchor weights to the smoothest eigenvectors of the anchor graph, and their eigenvalues."""
    n = Z.shape[0]
    root = np.sqrt(Z.sum(axis=0))
    # minus the constant eigenvector, because others have eigenvalue 1, too, if the graph has several parts
    M = (Z.T @ Z).toarray() / np.outer(root, root) - np.outer(root, root) / n
    eigenvalues, V = eigh(M)
    chosen = np.flatnonzero(eigenvalues > _MIN_EIGENVALUE)[::-1][:n_columns]
    return np.sqrt(n / eigenvalues[chosen]) * V[:, chosen] / root[:, None], eigenvalues[chosen]


def _second_thresholds(Y: npt.NDArray[np.float64], Z: csr_array) -> npt.NDArray[np.float64]:
    """Thresholds b- and b+ of the second bits, of shape (2, r), for eigenvectors Y (n_samples, r)."""

    def quadratic_form(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> Any:  # a^T L b of each column
        return (a * b).sum(axis=0) - ((Z.T @ a) * (Z.T @ b) / Z.sum(axis=0)[:, None]).sum(axis=0)

    above = Y >= 0
    sizes = np.maximum([(~above).sum(axis=0), above.sum(axis=0)], 1)
    means = np.array([np.where(above, 0, Y).sum(axis=0), np.where(above, Y, 0).sum(axis=0)]) / sizes
    u = np.where(above, 1 / sizes[1], -1 / sizes[0])
    f = np.where(above, Y - means[1], means[0] - Y)
    curvature = quadratic_form(u, u)
    # without curvature no edge joins the two sides, and every beta is optimal
    curved = curvature > _MIN_EIGENVALUE * (u * u).sum(axis=0)
    beta = np.where(curved, quadratic_form(u, f) / np.where(curved, curvature, 1), 0)
    thresholds: npt.NDArray[np.float64] = means + beta / sizes
    return thresholds


@dataclass(frozen=True, eq=False, repr=False)
class AnchorGraphFunction(ArrayFunction):
    """A map of the weights of the nearest anchors, and second bits, which split both sides of the first ones."""

    mean: Annotated[npt.NDArray[Any], Array("n_features")]
    anchors: Annotated[npt.NDArray[Any], Array("n_anchors n_features")]
    n_neighbors: Annotated[int, Array("", "i", minimum=1)]
    gamma: Annotated[float, Array("")]
    projection: Annotated[npt.NDArray[Any], Array("n_anchors n_columns")]
    thresholds: Annotated[npt.NDArray[Any], Array("2 n_halved")]

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return int(self.projection.shape[1] + self.thresholds.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (len(self.mean),)

    def activations(self, X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Activations of samples, see :meth:`~skhash.functions.HashFunction.activations`."""
        Z, _ = _anchor_weights(X, self.anchors, self.n_neighbors, 1 / self.gamma, self.mean)
        Y = Z @ self.projection
        halved = Y[:, : self.thresholds.shape[1]]
        below, above = self.thresholds
        return np.hstack([Y, np.where(halved >= 0, halved - above, below - halved)])

    def first(self, nbits: int) -> "AnchorGraphFunction":
        """Function of the first bits, see :meth:`~skhash.functions.HashFunction.first`."""
        n_columns = self.projection.shape[1]
        projection, thresholds = self.projection[:, :nbits], self.thresholds[:, : max(nbits - n_columns, 0)]
        return replace(self, projection=projection.copy(order="K"), thresholds=thresholds.copy(order="K"))


class AGHHasher(BaseHasher):
    """Signs of the smoothest functions on a graph of samples that share anchors.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits. If there are fewer eigenvectors (always fewer than anchors), a random
        orthonormal map expands them.
    n_layers : int, default=2
        1: every bit has its own eigenvector. 2: every eigenvector gives two bits (the last one gives
        one if `nbits` is odd), so that fewer and smoother ones are used. The first bits of all
        eigenvectors come before the second ones.
    n_anchors : int, default=300
        Number m of anchors, at most one per five samples.
    n_neighbors : int, default=2
        Number s of nearest anchors that a sample is connected to.
    gamma : float, default=None
        Coefficient of the kernel exp(-gamma d^2), 1 / t in the paper. None uses 1 over the square of
        the mean distance to the s-th nearest anchor.
    max_iter : int, default=10
        Maximum number of iterations of k-means.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant. Only :meth:`score` uses it.
    store_database : bool, default=True
        Whether to store the codes and targets of the training samples for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the start of k-means and the expanding map.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples.
    anchors_ : ndarray of shape (m, n_features)
        Anchors, relative to the mean.
    gamma_ : float
        The gamma that was used.
    projection_ : ndarray of shape (m, ceil(nbits / n_layers))
        Map W from anchor weights to activations.
    eigenvalues_ : ndarray of shape (r,)
        Eigenvalues of the anchor graph in descending order, in (0, 1]. r < ceil(nbits / n_layers) if
        the eigenvectors were expanded.
    thresholds_ : ndarray of shape (2, nbits // 2) or (2, 0)
        b- and b+ of the second bits.
    n_iter_ : int
        Number of iterations of k-means.
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
    Liu, Wang, Kumar, Chang: Hashing with graphs. ICML 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import AGHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = AGHHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> round(hasher.score(X[1000:], y[1000:]), 1)
    0.8
    """

    _parameter_constraints = BaseHasher._parameter_constraints | {
        "n_layers": [Interval(Integral, 1, 2, closed="both")],
        "n_anchors": [Interval(Integral, 2, None, closed="left")],
        "n_neighbors": [Interval(Integral, 2, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    mean_ = from_function("mean")
    anchors_ = from_function("anchors")
    gamma_ = from_function("gamma")
    projection_ = from_function("projection")
    eigenvalues_: Annotated[npt.NDArray[Any], Array("n_eigenvalues")]
    thresholds_ = from_function("thresholds")
    n_iter_: int

    def __init__(
        self,
        nbits: int = 32,
        *,
        n_layers: int = 2,
        n_anchors: int = 300,
        n_neighbors: int = 2,
        gamma: float | None = None,
        max_iter: int = 10,
        affinity: str | Callable[..., Any] = "auto",
        store_database: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.nbits = nbits
        self.n_layers = n_layers
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.max_iter = max_iter
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _learn(self, X: npt.NDArray[Any], relevance: Any, rng: np.random.RandomState) -> AnchorGraphFunction:
        # rounded distances would change the nearest anchors; k-means changes its samples in their last digits
        anchors, self.n_iter_ = self._draw_anchors(center(X, np.float64)[0], rng)
        # not X - mean_, which is rounded for samples that are far from 0
        centered, mean = center(X, np.float64)
        Z, t = _anchor_weights(centered, anchors, self.n_neighbors, None if self.gamma is None else 1 / self.gamma)
        used = Z.sum(axis=0) > 0  # the others are near no sample
        anchors, Z = anchors[used], Z[:, used]
        n_columns = -(-int(self.nbits) // int(self.n_layers))
        W, self.eigenvalues_ = _anchor_graph_map(Z, n_columns)
        projection = W if W.shape[1] == n_columns else W @ orthonormal_map(W.shape[1], n_columns, rng)
        thresholds = _second_thresholds((Z @ projection)[:, : self.nbits - n_columns], Z)
        return AnchorGraphFunction(mean, anchors, int(self.n_neighbors), 1 / t, projection, thresholds)

    def _draw_anchors(
        self, X: npt.NDArray[np.float64], rng: np.random.RandomState
    ) -> tuple[npt.NDArray[np.float64], int]:
        """Distinct centers of k-means, and the number of its iterations."""
        m = min(self.n_anchors, max(len(X) // _MIN_SAMPLES_PER_ANCHOR, 2))
        kmeans = KMeans(m, n_init=1, max_iter=self.max_iter, random_state=rng, copy_x=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct samples than clusters
            anchors: npt.NDArray[np.float64] = np.unique(kmeans.fit(X).cluster_centers_, axis=0)
        return anchors, int(kmeans.n_iter_)
