"""AGH, anchor graph hashing (Liu, Wang, Kumar, Chang, ICML 2011).

Rows are tied to their s nearest of m anchors u_j, centres of k-means, by the weights

    z_j(x) = exp(-|x - u_j|^2 / t) / sum over the s nearest,  0 for the others.

Z of shape (n, m) holds those of the training rows. Rows that share anchors are similar:

    A = Z Lambda^-1 Z^T,  Lambda = diag(Z^T 1),

whose rows sum to 1, so that the graph Laplacian is L = I - A. Its smoothest
eigenvectors come from a small eigenproblem,

    M = Lambda^-1/2 Z^T Z Lambda^-1/2 = V Sigma V^T,
    Y = Z W,  W = sqrt(n) Lambda^-1/2 V Sigma^-1/2,

without the constant one, of eigenvalue 1; and z(x)^T W extends them to new rows. With one
layer the bits are the signs of nbits eigenvectors.

With two layers every eigenvector y yields a second bit, which splits both sides of the
first one: sign(y - b+) where y >= 0, and sign(b- - y) elsewhere. The thresholds make

    f = (y - b+ where y >= 0, b- - y elsewhere)

smoothest, that is minimise f^T L f, and balanced, 1^T f = 0. Of the latter there is one
line: with n+ and n- rows on the two sides, y+ and y- the means of y there, f0 the f of
b+ = y+ and b- = y-, and u = (1 / n+ where y >= 0, -1 / n- elsewhere), it is

    b+ = y+ + beta / n+,  b- = y- + beta / n-,  f = f0 - beta u,

and f^T L f is least at beta = u^T L f0 / u^T L u.
"""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from skhash._compat import Interval
from skhash.base import BaseHasher
from skhash.hashers.shallow._linear import feature_means, orthonormal_map

ROWS_PER_ANCHOR = 5  # fewer leave the graph in many parts, and the eigenvectors only tell those apart
RESOLVED = 1e-8  # smaller eigenvalues, of at most 1, are of rounding, and so are their eigenvectors


def anchor_weights(X, anchors, s, t=None):
    """Weigh the s nearest anchors of every row by a Gaussian kernel.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    anchors : ndarray of shape (m, n_features)
        Anchors.
    s : int
        How many of them a row is tied to; all where there are fewer.
    t : float, default=None
        Bandwidth of the kernel, positive; None takes the square of the mean distance to
        the s-th nearest anchor.

    Returns
    -------
    Z : csr_array of shape (n_samples, m)
        Weights; each row has s entries with sum 1.
    t : float
        The bandwidth.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.shallow.agh import anchor_weights
    >>> Z, t = anchor_weights(np.array([[1.0]]), np.array([[7.0], [0.0], [2.0]]), 2)
    >>> Z.toarray(), t
    (array([[0. , 0.5, 0.5]]), 1.0)
    """
    n, m, s = len(X), len(anchors), min(s, len(anchors))
    distances, indices = NearestNeighbors(n_neighbors=s).fit(anchors).kneighbors(X)
    t = t or float(distances[:, -1].mean(dtype=np.float64)) ** 2 or 1.0  # the last for equal rows, on their only anchor
    # the nearest one has weight 1 before they are made to sum to 1: those of far rows do not vanish all
    weights = np.exp((distances[:, :1] ** 2.0 - distances**2.0) / t)
    weights /= weights.sum(axis=1, keepdims=True)
    return csr_array((weights.ravel(), indices.ravel(), np.arange(0, n * s + 1, s)), shape=(n, m)), t


def anchor_graph_map(Z, n_columns):
    """Map anchor weights to the smoothest eigenvectors of the anchor graph.

    Parameters
    ----------
    Z : csr_array of shape (n_samples, m)
        Anchor weights; every anchor is used.
    n_columns : int
        Number of eigenvectors.

    Returns
    -------
    W : ndarray of shape (m, r), float64
        The columns of ``Z @ W`` are eigenvectors of Z Lambda^-1 Z^T of squared length
        n_samples, orthogonal to one another and to the constant one; r is `n_columns`, or less
        where there are fewer.
    eigenvalues : ndarray of shape (r,), float64
        Theirs, decreasing, in (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from skhash.hashers.shallow.agh import anchor_graph_map
    >>> Z = csr_array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.0, 1.0]])
    >>> W, eigenvalues = anchor_graph_map(Z, 5)
    >>> np.abs(Z @ W).round(3).ravel(), eigenvalues
    (array([1.414, 0.   , 0.   , 1.414]), array([0.5]))
    """
    n = Z.shape[0]
    root = np.sqrt(Z.sum(axis=0))
    # less its eigenvector of the constant one: in a graph of several parts others have eigenvalue 1, too
    M = (Z.T @ Z).toarray() / np.outer(root, root) - np.outer(root, root) / n
    eigenvalues, V = eigh(M)
    chosen = np.flatnonzero(eigenvalues > RESOLVED)[::-1][:n_columns]
    return np.sqrt(n / eigenvalues[chosen]) * V[:, chosen] / root[:, None], eigenvalues[chosen]


def second_thresholds(Y, Z):
    """Find the thresholds of the second bits.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, r)
        Eigenvectors, or other centred columns.
    Z : csr_array of shape (n_samples, m)
        Anchor weights; every anchor is used.

    Returns
    -------
    ndarray of shape (2, r), float64
        b- and b+ of every column.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from skhash.hashers.shallow.agh import second_thresholds
    >>> Y = np.array([[-3.0], [-1.0], [1.0], [3.0]])
    >>> second_thresholds(Y, csr_array(np.full((4, 2), 0.5)))
    array([[-2.],
           [ 2.]])
    """

    def form(a, b):  # a^T L b, column by column
        return (a * b).sum(axis=0) - ((Z.T @ a) * (Z.T @ b) / Z.sum(axis=0)[:, None]).sum(axis=0)

    above = Y >= 0
    sizes = np.maximum([(~above).sum(axis=0), above.sum(axis=0)], 1)
    means = np.array([np.where(above, 0, Y).sum(axis=0), np.where(above, Y, 0).sum(axis=0)]) / sizes
    u = np.where(above, 1 / sizes[1], -1 / sizes[0])
    f = np.where(above, Y - means[1], means[0] - Y)
    curvature = form(u, u)
    # without: the two sides are parts of the graph with no edge between them, and any beta will do
    curved = curvature > RESOLVED * (u * u).sum(axis=0)
    beta = np.where(curved, form(u, f) / np.where(curved, curvature, 1), 0)
    return means + beta / sizes


class AGHHasher(BaseHasher):
    """Signs of the smoothest functions on a graph of rows that share anchors.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code. Beyond the number of eigenvectors, which is below that of the
        anchors, a random orthonormal map expands them.
    n_layers : int, default=2
        1: every bit has an eigenvector of its own. 2: every eigenvector gives two bits (the
        last one gives one if `nbits` is odd), so that fewer, smoother ones are used. The first
        bits of all come before the second ones.
    n_anchors : int, default=300
        Number m of anchors; at most one for every five rows is used.
    n_neighbors : int, default=2
        Number s of nearest anchors that a row is tied to.
    bandwidth : float, default=None
        The t of the kernel; None takes the square of the mean distance to the s-th nearest
        anchor.
    n_iter : int, default=10
        Turns of k-means, a few of which do.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant; used by :meth:`score` only.
    store_database : bool, default=True
        Keep the codes and targets of the training rows for :meth:`score`.
    random_state : int, RandomState instance or None, default=None
        Draws the start of k-means and the expanding map, where one is needed.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the training rows.
    anchors_ : ndarray of shape (m, n_features)
        Anchors, relative to the mean.
    bandwidth_ : float
        The t of the kernel.
    projection_ : ndarray of shape (m, ceil(nbits / n_layers))
        W, from anchor weights to activations.
    eigenvalues_ : ndarray of shape (r,)
        Eigenvalues of the anchor graph, decreasing, in (0, 1]; r < ceil(nbits / n_layers) where
        the eigenvectors were expanded.
    thresholds_ : ndarray of shape (2, nbits // 2) or (2, 0)
        b- and b+ of the second bits.
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
    Liu, Wang, Kumar, Chang: Hashing with graphs. ICML 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import AGHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> round(AGHHasher(nbits=16, random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]), 1)
    0.8
    """

    _dtypes = [np.float64]  # nearest anchors, and so the codes, are not those of rounded distances
    _parameter_constraints = BaseHasher._parameter_constraints | {
        "n_layers": [Interval(Integral, 1, 2, closed="both")],
        "n_anchors": [Interval(Integral, 2, None, closed="left")],
        "n_neighbors": [Interval(Integral, 2, None, closed="left")],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), None],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        nbits=32,
        *,
        n_layers=2,
        n_anchors=300,
        n_neighbors=2,
        bandwidth=None,
        n_iter=10,
        affinity="auto",
        store_database=True,
        random_state=None,
    ):
        self.nbits = nbits
        self.n_layers = n_layers
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.n_iter = n_iter
        self.affinity = affinity
        self.store_database = store_database
        self.random_state = random_state

    def _fit(self, X, targets):
        rng = check_random_state(self.random_state)
        self.mean_ = feature_means(X)
        X = X - self.mean_
        anchors = self._draw_anchors(X, rng)
        Z, self.bandwidth_ = anchor_weights(X, anchors, self.n_neighbors, self.bandwidth)
        used = Z.sum(axis=0) > 0  # those near to no row are none to new rows either
        self.anchors_, Z = anchors[used], Z[:, used]
        n_columns = -(-self.nbits // self.n_layers)
        W, self.eigenvalues_ = anchor_graph_map(Z, n_columns)
        self.projection_ = W if W.shape[1] == n_columns else W @ orthonormal_map(W.shape[1], n_columns, rng)
        self.thresholds_ = second_thresholds((Z @ self.projection_)[:, : self.nbits - n_columns], Z)

    def _draw_anchors(self, X, rng):
        m = min(self.n_anchors, max(len(X) // ROWS_PER_ANCHOR, 2))
        kmeans = KMeans(m, n_init=1, max_iter=self.n_iter, random_state=rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
            return np.unique(kmeans.fit(X).cluster_centers_, axis=0)

    def _project(self, X):
        Y = anchor_weights(X - self.mean_, self.anchors_, self.n_neighbors, self.bandwidth_)[0] @ self.projection_
        halved = Y[:, : self.thresholds_.shape[1]]
        below, above = self.thresholds_
        return np.hstack([Y, np.where(halved >= 0, halved - above, below - halved)])
