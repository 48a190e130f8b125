"""Codes from which vectors are reconstructed: binary additive quantization, by alternating minimization.

Let x be a centered and scaled item. Its code b of -1 and 1 reconstructs it as r(b), and stays near W x:

    r(b) = D^T b + o,   b = argmin |x - r(b)|^2 + p s |W x - b|^2

The pull p decides how near. With a large one, near items have codes of a small Hamming distance, as with ITQ. With 0,
the reconstruction is as good as it can be. s is the mean squared norm of the rows of D. The code starts from the
signs of W x, and one bit after another is set to its best value, given all others. D and o are the ridge regression of
vectors on their codes. These steps alternate. W maps vectors to their codes best, among the maps

    W = R F,   F = diag(variances)^e P

where P are the first principal directions, and the rows or columns of R are orthogonal, all of one norm. R is found by
alternating with the signs of W x. e = 0, and as many directions as bits, is ITQ. e = -1/8 lets directions of small
variance count a little more. A query q is nearest to the items with the largest

    <q, r(b)> - |x|^2 / 2

The first term is an inner product with the bits. The second one is not: the last bits of a code tell a squared norm. So
both terms together are one inner product of a real query and the bits. This norm is the mean of |r(b)|^2 and |x|^2. The
first of its bits are steps: how many of them are 1 tells the quarter of the range that it is in, so that near items
share them. The others are its further binary digits.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import svd

from skhash._threads import run_in_slices
from skhash.hashers.shallow.linear import orthonormal_map

N_ROUNDS = 3  # for each pull
N_PART = 10_000  # largest number of samples of a step; the next steps have others
N_ROTATIONS = 15
EQUALIZED = -0.125  # e
N_SWEEPS = 10
N_STEPS = 3
RIDGE = 0.01
TAIL = 0.001  # share of the norms below the range of the digits, and share above it

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Reconstruction:
    """Parameters of codes that reconstruct vectors; float32, with a row or value per bit.

    `start` (nbits, width) is W, whose signs the codes start from, `decoder` (nbits, width) is D, `field_bias` is -D o,
    `gram` is D D^T and `pull` is p s. `digits` are the parts of the squared norm, 0 for other bits, and `middle` is
    added to them.
    """

    start: FloatArray
    decoder: FloatArray
    field_bias: FloatArray
    gram: FloatArray
    digits: FloatArray
    middle: float
    pull: float

    def activations(self, X: FloatArray) -> FloatArray:
        """Activations (n_samples, nbits), whose signs are the codes, of centered and scaled vectors.

        For a bit, half of the squared error that its value saves. For a digit, the part of the norm that the digits
        before it leave.
        """
        n_content = int(np.count_nonzero(self.digits == 0))
        bits, fields = self._descend(X, n_content)
        values = np.empty((len(X), len(self.digits)), np.float32)
        magnitudes = np.abs(fields + bits * np.diag(self.gram)[:n_content])
        # the signs are those of the bits, although the descent may end early
        values[:, :n_content] = bits * np.maximum(magnitudes, np.finfo(np.float32).tiny)
        if n_content < len(self.digits):
            rest = (self._norms(X, bits) - self.middle).astype(np.float32)
            self._tell(rest, values[:, n_content:], self.digits[n_content:])
        return values

    def _tell(self, rest: FloatArray, values: FloatArray, digits: FloatArray) -> None:
        """Set the activations of the bits that tell a norm, less the middle of its range."""
        n_steps = min(N_STEPS, len(digits))
        values[:, :n_steps] = rest[:, None] - digits[0] * np.arange(1 - n_steps, n_steps, 2).astype(np.float32)
        rest = rest - digits[0] * _signs(values[:, :n_steps]).sum(axis=1)
        for i in range(n_steps, len(digits)):
            values[:, i] = rest
            rest = rest - np.where(rest >= 0, digits[i], -digits[i])

    def _descend(self, X: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Best values of the first n bits, and their fields."""
        from skhash.hashers.deep._reconstruction_kernels import descend_bits

        gram, start = np.ascontiguousarray(self.gram[:n, :n]), X @ self.start[:n].T
        bits = _signs(start)
        fields: FloatArray = X @ self.decoder[:n].T + np.float32(self.pull) * start + self.field_bias[:n] - bits @ gram
        run_in_slices(lambda part: descend_bits(gram, fields[part], bits[part], N_SWEEPS), len(bits), min_size=64)
        return bits, fields

    def _norms(self, X: FloatArray, bits: FloatArray) -> FloatArray:
        """Means of the squared norms of vectors and of their reconstructions, the latter minus that of o."""
        n = bits.shape[1]
        squared: FloatArray = (bits * (bits @ self.gram[:n, :n] - 2 * self.field_bias[:n])).sum(axis=1)
        squared += np.square(X).sum(axis=1)
        return squared * np.float32(0.5)


def scaled_directions(X: FloatArray, principal: FloatArray, power: float) -> FloatArray:
    """F (n_directions, width) of centered vectors: principal directions times powers of their variances."""
    variances = np.square(X @ principal.T).mean(axis=0)
    scales = np.maximum(variances, 1e-6 * variances.max() + np.finfo(np.float32).tiny) ** power
    return np.asarray(scales[:, None] * principal, np.float32)


def learn_map(X: FloatArray, directions: FloatArray, nbits: int, rng: np.random.RandomState) -> FloatArray:
    """W (nbits, width), whose values are near their signs, as in ITQ."""
    rotation: FloatArray = orthonormal_map(len(directions), nbits, rng).T.astype(np.float32)
    parts = _parts(X)
    for _ in range(N_ROTATIONS):
        values: FloatArray = next(parts) @ directions.T
        rotation = _rotation(values, _signs(values @ rotation.T))
    weights: FloatArray = rotation @ directions
    return weights


def _parts(X: FloatArray) -> Iterator[FloatArray]:
    """Parts of at most `N_PART` samples, in turn, without end."""
    n_parts = -(-len(X) // N_PART)
    return (X[i::n_parts] for i in itertools.cycle(range(n_parts)))


def _rotation(values: FloatArray, bits: FloatArray) -> FloatArray:
    """R (n_bits, n_directions), which maps values of the directions to bits best."""
    left, singular, right = svd((bits.T @ values).astype(np.float64), full_matrices=False)
    rotation: FloatArray = left @ right
    squared = np.square(values @ rotation.T.astype(np.float32)).sum(dtype=np.float64)
    return np.asarray(rotation * (singular.sum() / max(squared, 1e-12)), np.float32)


def _signs(values: FloatArray) -> FloatArray:
    """Signs of activations, as in codes."""
    return np.where(values >= 0, np.float32(1), np.float32(-1))


def learn_reconstructions(
    X: FloatArray, start: FloatArray, directions: FloatArray, n_digits: int, has_offset: bool, pulls: Sequence[float]
) -> Iterator[Reconstruction]:
    """Codes that reconstruct vectors, for one pull after another, from W = R F (nbits, width) and F.

    The last `n_digits` bits tell a norm.
    """
    n_content, parts = len(start) - n_digits, _parts(X)
    model: Any = None
    start = np.vstack([start[:n_content], np.zeros((n_digits, X.shape[1]), np.float32)])
    for pull in pulls:
        for _ in range(N_ROUNDS):
            part = next(parts)
            if model is None:
                bits = _signs(part @ start[:n_content].T)
            else:
                bits, _ = model._descend(part, n_content)
                start[:n_content] = _rotation(part @ directions.T, bits) @ directions
            model = _regression(part, bits, start, has_offset, pull)
        yield model if n_digits == 0 else _with_digits(model, part, n_content)


def _regression(X: FloatArray, bits: FloatArray, start: FloatArray, has_offset: bool, pull: float) -> Reconstruction:
    """Ridge regression of vectors on their codes."""
    n_samples, n_content = bits.shape
    codes: Any = np.hstack([bits, np.ones((n_samples, 1), np.float32)]) if has_offset else bits
    products = (codes.T @ codes).astype(np.float64)
    products[np.arange(n_content), np.arange(n_content)] += RIDGE * n_samples
    solution = np.linalg.solve(products, (codes.T @ X).astype(np.float64))
    offset = solution[-1] if has_offset else np.zeros(X.shape[1])
    decoder = np.zeros((len(start), X.shape[1]))
    decoder[:n_content] = solution[:n_content]
    bias, gram = (values.astype(np.float32) for values in (-decoder @ offset, decoder @ decoder.T))
    pull *= float(np.square(decoder).sum()) / n_content
    none = np.zeros(len(start), np.float32)
    return Reconstruction(start.copy(), decoder.astype(np.float32), bias, gram, none, 0.0, pull)


def _with_digits(model: Reconstruction, X: FloatArray, n_content: int) -> Reconstruction:
    """The same codes, with bits behind the first `n_content` that tell a norm."""
    bits, _ = model._descend(X, n_content)
    low, high = np.quantile(model._norms(X, bits), [TAIL, 1 - TAIL]).tolist()
    n_digits = len(model.start) - n_content
    n_steps = min(N_STEPS, n_digits)
    parts = np.r_[np.ones(n_steps), 0.5 ** np.arange(1, n_digits - n_steps + 1)]
    digits = np.zeros(len(model.start), np.float32)
    digits[n_content:] = max(high - low, 1e-6) / (2 * n_steps + 2) * parts
    return replace(model, digits=digits, middle=(low + high) / 2)
