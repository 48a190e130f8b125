r"""Hash functions, each learned as a column of the master problem.

A new bit h should maximise sum_ij A_ij |h(x_i) - h(x_j)|; with s = 2h - 1 it minimises
s' A s. A family proposes bits of the training rows with what computes them:

* linear: the smallest eigenvectors of (Z' A Z, Z' Z + ridge) start L-BFGS on the smooth
  tanh(Zv + c)' A tanh(Zv + c), whose signs are kept;
* kernel: the same on Gaussian kernel values against anchor rows (Kulis, Grauman 2009);
* stump: every feature and threshold is tried, so that the best is the best of all;
* trees, or any classifier: bits that minimise s' A s are found first, by coordinate descent
  from the smallest eigenvectors of A, and then fitted (as in the authors' later FastHash).
"""

import numpy as np
from scipy.linalg import eigh, svd
from scipy.optimize import minimize
from scipy.sparse.linalg import eigsh
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.validation import has_fit_parameter

from skhash._threads import run_in_slices
from skhash.codes import binarize, signs
from skhash.hashers.shallow._kernel import draw_indices, kernel_width

#: L-BFGS steps: a few fit the training pairs, many their noise
LBFGS_STEPS = 30
MORE_STARTS = 5  # when no bit improves, before the search is given up


class LinearFunctions:
    """Signs of linear maps of the centred features.

    Parameters
    ----------
    X : float64 array of shape (n_rows, n_features)
        Training rows.
    ridge : float
        Penalty on directions of little variance, in mean variances.
    n_starts : int
        Starts of a search.
    """

    best_first = False

    def __init__(self, X, ridge, n_starts):
        self.mean = X.mean(axis=0)
        _, values, vectors = svd(X - self.mean, full_matrices=False)
        # directions without variance would be rounding errors, made into bits
        rank = max(1, np.count_nonzero(values > values[0] * max(X.shape) * np.finfo(np.float64).eps))
        values, vectors = values[:rank], vectors[:rank]
        variances = values**2 / len(X)
        penalty = max(ridge * variances.sum() / X.shape[1], 1e-12 * variances[0], 1e-300)
        # in these coordinates the penalised variance of every direction is 1
        self._basis = vectors.T / np.sqrt(variances + penalty)
        self._Z = (X - self.mean) @ self._basis
        self.n_starts = n_starts

    def propose(self, A, rng, more=1):
        """Search bits for a pair matrix.

        Parameters
        ----------
        A : sparse array of shape (n_rows, n_rows)
            Pair weights.
        rng : numpy.random.RandomState
            Source of the starts beyond the spectral ones.
        more : int, default=1
            Times as many starts.

        Yields
        ------
        bits : uint8 array of shape (n_rows,)
            Of the training rows.
        parameters : dict of arrays
            One function's.
        """
        A = symmetric(A)
        spectral = self._Z.T @ (A @ self._Z)
        n_spectral = min(self.n_starts, len(spectral))
        starts = list(eigh((spectral + spectral.T) / 2, subset_by_index=[0, n_spectral - 1])[1].T)
        starts += list(rng.standard_normal((self.n_starts * more - n_spectral, len(spectral))))
        for start in starts:
            spread = (self._Z @ start).std()
            if not spread > 0:
                continue
            start = np.append(start / spread, 0.0)
            options = {"maxiter": LBFGS_STEPS}
            end = minimize(self._relaxed, start, (A,), method="L-BFGS-B", jac=True, options=options).x
            for v in (start, end):
                yield binarize(self._Z @ v[:-1] + v[-1]), {"direction": self._basis @ v[:-1], "intercept": v[-1]}

    def _relaxed(self, v, A):
        """tanh(Zv + c)' A tanh(Zv + c), and its gradient."""
        s = np.tanh(self._Z @ v[:-1] + v[-1])
        As = A @ s
        slope = 2 * As * (1 - s * s)
        return s @ As, np.append(self._Z.T @ slope, slope.sum())

    def collect(self, parameters):
        """Gather the functions learned so far, a list of `parameters`, as arrays."""
        directions = np.stack([p["direction"] for p in parameters], axis=1)
        return {
            "mean": self.mean,
            "directions": directions,
            "intercepts": np.array([p["intercept"] for p in parameters]),
        }

    @staticmethod
    def first(functions, n):
        """Take the first n of collected functions."""
        return functions | {"directions": functions["directions"][:, :n], "intercepts": functions["intercepts"][:n]}

    @staticmethod
    def activations(functions, X):
        """Activations of shape (n, n_bits) of collected functions."""
        return (X - functions["mean"]) @ functions["directions"] + functions["intercepts"]


class KernelFunctions(LinearFunctions):
    """Signs of linear maps of Gaussian kernel values against anchors.

    Parameters
    ----------
    X, ridge, n_starts
        As for :class:`LinearFunctions`.
    n_anchors : int
        Training rows drawn as anchors.
    gamma : float or None
        Of exp(-gamma d^2); None takes 2 over the mean squared distance to the anchors.
    rng : numpy.random.RandomState
        Draws the anchors.
    """

    def __init__(self, X, ridge, n_starts, n_anchors, gamma, rng):
        self.anchors = X[draw_indices(len(X), n_anchors, rng)]
        self.gamma = kernel_width(X, self.anchors) if gamma is None else float(gamma)
        super().__init__(rbf_kernel(X, self.anchors, self.gamma), ridge, n_starts)

    def collect(self, parameters):
        """Gather the functions learned so far, a list of `parameters`, as arrays."""
        return super().collect(parameters) | {"anchors": self.anchors, "gamma": self.gamma}

    @staticmethod
    def activations(functions, X):
        """Activations of shape (n, n_bits) of collected functions."""
        return LinearFunctions.activations(functions, rbf_kernel(X, functions["anchors"], functions["gamma"]))


class StumpFunctions:
    """Thresholds of single features, the best of all of them.

    Parameters
    ----------
    X : float64 array of shape (n_rows, n_features)
        Training rows.
    """

    best_first = True

    def __init__(self, X):
        self._X = X
        self._ranks = np.stack([np.unique(x, return_inverse=True)[1] for x in X.T]).astype(np.int32)

    def propose(self, A, rng, more=1):
        """Give all stumps, the best one first, see :meth:`LinearFunctions.propose`."""
        from skhash.hashers.structhash._kernels import stump_gains

        pairs = A.tocoo()
        rows, columns = pairs.coords
        gains = np.empty((len(self._ranks), len(self._X)))
        run_in_slices(
            lambda part: stump_gains(rows, columns, pairs.data, self._ranks[part], gains[part]), len(self._ranks)
        )
        above = np.arange(len(self._X)) < self._ranks.max(axis=1)[:, None]  # whether a value lies above the rank
        features, ranks = np.nonzero(above)
        for i in np.argsort(-gains[above], kind="stable"):
            feature, rank = features[i], ranks[i]
            values = np.unique(self._X[:, feature])
            # between two values; of neighbouring floats the mean can be the lower one
            threshold = max(values[rank] / 2 + values[rank + 1] / 2, np.nextafter(values[rank], np.inf))
            yield binarize(self._X[:, feature] - threshold), {"feature": feature, "threshold": threshold}

    def collect(self, parameters):
        """Gather the functions learned so far, a list of `parameters`, as arrays."""
        return {f"{name}s": np.array([p[name] for p in parameters]) for name in ("feature", "threshold")}

    @staticmethod
    def first(functions, n):
        """Take the first n of collected functions."""
        return {name: values[:n] for name, values in functions.items()}

    @staticmethod
    def activations(functions, X):
        """Activations of shape (n, n_bits) of collected functions."""
        return X[:, functions["features"]] - functions["thresholds"]


class ClassifierFunctions:
    """Decision functions of a classifier, one fitted to each bit.

    Parameters
    ----------
    X : float64 array of shape (n_rows, n_features)
        Training rows.
    classifier : scikit-learn classifier
        With a ``decision_function``; cloned for each bit.
    n_starts : int
        Bits that are tried.
    n_values : int, default=None
        The classifier is fitted to rows with at most that many values of each feature.
    """

    best_first = False

    def __init__(self, X, classifier, n_starts, n_values=None):
        self._X, self.classifier, self.n_starts = X, classifier, n_starts
        self._X_fitted = X if n_values is None else nearest_quantiles(X, n_values)
        self._weighted = has_fit_parameter(classifier, "sample_weight")

    def propose(self, A, rng, more=1):
        """Fit wanted bits, see :meth:`LinearFunctions.propose`."""
        A = symmetric(A)
        n_vectors = min(self.n_starts * more, len(self._X) - 1)
        for start in eigsh(A, n_vectors, which="SA", v0=rng.standard_normal(len(self._X)))[1].T:
            bits = descend(A, binarize(start))
            if bits.min() == bits.max():
                continue
            pull = np.abs(A @ signs(bits))
            options = {"sample_weight": pull / pull.mean()} if self._weighted and pull.any() else {}
            classifier = clone(self.classifier)
            for name in sorted(classifier.get_params()):
                if name == "random_state" or name.endswith("__random_state"):
                    classifier.set_params(**{name: rng.randint(np.iinfo(np.int32).max)})
            classifier.fit(self._X_fitted, bits, **options)
            yield binarize(classifier.decision_function(self._X)), {"classifier": classifier}

    def collect(self, parameters):
        """Gather the classifiers learned so far."""
        return {"classifiers": [p["classifier"] for p in parameters]}

    @staticmethod
    def first(functions, n):
        """Take the first n of collected functions."""
        return {"classifiers": functions["classifiers"][:n]}

    @staticmethod
    def activations(functions, X):
        """Activations of shape (n, n_bits) of collected functions."""
        return np.stack([classifier.decision_function(X) for classifier in functions["classifiers"]], axis=1)


def nearest_quantiles(X, n_values):
    """Round each feature to the nearest of a few of its values.

    Parameters
    ----------
    X : float64 array of shape (n_rows, n_features)
        Rows.
    n_values : int
        Of features with more values that many stay, spread evenly over the ranks.

    Returns
    -------
    float64 array of shape (n_rows, n_features)
        The rounded rows. Those between two thresholds halfway between values stay there.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.hashers.structhash._functions import nearest_quantiles
    >>> nearest_quantiles(np.array([[1.0], [2.0], [4.0], [9.0], [10.0]]), 3).ravel()
    array([ 1.,  1.,  4., 10., 10.])
    """
    ranks = np.linspace(0, len(X) - 1, n_values).round().astype(int)
    rounded = np.empty_like(X)
    for column, out in zip(X.T, rounded.T, strict=True):
        kept = np.unique(column)
        if len(kept) > n_values:
            kept = np.unique(np.sort(column)[ranks])
        out[:] = kept[np.searchsorted((kept[1:] + kept[:-1]) / 2, column)]
    return rounded


def symmetric(A):
    """(A + A') / 2, which has the same s' A s."""
    return (A + A.T).tocsr() / 2


def descend(A, bits):
    """Flip single bits as long as s' A s, s = 2 bits - 1, becomes smaller.

    Parameters
    ----------
    A : csr_array of shape (n_rows, n_rows)
        Symmetric.
    bits : uint8 array of shape (n_rows,)
        Where to start.

    Returns
    -------
    uint8 array of shape (n_rows,)
        Bits that no single flip improves.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from skhash.hashers.structhash._functions import descend
    >>> A = csr_array([[0.0, 1.0, -1.0], [1.0, 0.0, 1.0], [-1.0, 1.0, 0.0]])
    >>> descend(A, np.array([1, 1, 1], dtype=np.uint8))
    array([1, 0, 1], dtype=uint8)
    """
    s = signs(bits)
    diagonal = A.diagonal()
    pull = A @ s - diagonal * s
    tolerance = 1e-12 * np.abs(A.data).max(initial=0)
    while True:
        gains = s * pull
        i = np.argmax(gains)
        if gains[i] <= tolerance:
            return binarize(s)
        s[i] = -s[i]
        row = slice(A.indptr[i], A.indptr[i + 1])
        pull[A.indices[row]] += 2 * s[i] * A.data[row]
        pull[i] -= 2 * s[i] * diagonal[i]


def best_new_bit(functions, A, known, rng, enough=0.0):
    """Search the bit that separates the most weight, among bits that are not there yet.

    Parameters
    ----------
    functions : LinearFunctions or another family
        What proposes bits.
    A : csr_array of shape (n_rows, n_rows)
        Pair weights.
    known : float64 array of shape (n_rows, n_bits)
        The bits that are there, -1 or 1.
    rng : numpy.random.RandomState
        Source of further starts.
    enough : float, default=0.0
        More starts are tried if the gain is not above this.

    Returns
    -------
    gain : float
        sum_ij A_ij |h(x_i) - h(x_j)|; -inf where no bit is new.
    bits : uint8 array of shape (n_rows,) or None
        Of the training rows.
    parameters : dict or None
        What computes them.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from skhash._threads import run_in_slices
    from skhash.codes import signs
    >>> from skhash.hashers.structhash._functions import StumpFunctions, best_new_bit
    >>> halves = np.array([0, 0, 1, 1])
    >>> A = csr_array((halves[:, None] != halves).astype(float))  # 8 pairs to tell apart
    >>> stumps, rng = StumpFunctions(np.arange(4.0)[:, None]), np.random.RandomState(0)
    >>> best_new_bit(stumps, A, np.zeros((4, 0)), rng)[:2]
    (8.0, array([0, 0, 1, 1], dtype=uint8))
    >>> best_new_bit(stumps, A, signs(halves[:, None]), rng)[:2]  # that one is known
    (4.0, array([0, 1, 1, 1], dtype=uint8))
    """
    best = (-np.inf, None, None)
    total = A.sum()
    for more in (1,) if functions.best_first else (1, MORE_STARTS):
        for bits, parameters in functions.propose(A, rng, more):
            s = signs(bits)
            is_known = (np.abs(s @ known) == len(s)).any() or abs(s.sum()) == len(s)
            gain = float(total - s @ (A @ s)) / 2
            if not is_known and gain > best[0]:
                best = (gain, bits, parameters)
                if functions.best_first:
                    break
        if best[0] > enough:
            break
    return best
