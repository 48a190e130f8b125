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
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import svd

from skhash.functions.reconstruction import N_STEPS, Reconstruction, signs_of
from skhash.hashers.shallow.linear import orthonormal_map

N_ROUNDS = 3  # for each pull
N_PART = 10_000  # largest number of samples of a step; the next steps have others
N_ROTATIONS = 15
EQUALIZED = -0.125  # e
RIDGE = 0.01
TAIL = 0.001  # share of the norms below the range of the digits, and share above it

FloatArray = npt.NDArray[np.float32]


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
        rotation = _rotation(values, signs_of(values @ rotation.T))
    weights: FloatArray = rotation @ directions
    return weights


def _parts(X: FloatArray) -> Iterator[FloatArray]:
    """Parts of at most `N_PART` samples, in turn, forever."""
    n_parts = -(-len(X) // N_PART)
    return (X[i::n_parts] for i in itertools.cycle(range(n_parts)))


def _rotation(values: FloatArray, bits: FloatArray) -> FloatArray:
    """R (n_bits, n_directions), which maps values of the directions to bits best."""
    left, singular, right = svd((bits.T @ values).astype(np.float64), full_matrices=False)
    rotation: FloatArray = left @ right
    squared = np.square(values @ rotation.T.astype(np.float32)).sum(dtype=np.float64)
    return np.asarray(rotation * (singular.sum() / max(squared, 1e-12)), np.float32)


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
                bits = signs_of(part @ start[:n_content].T)
            else:
                bits, _ = model.descend(part, n_content)
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
    bits, _ = model.descend(X, n_content)
    low, high = np.quantile(model.norms(X, bits), [TAIL, 1 - TAIL]).tolist()
    n_digits = len(model.start) - n_content
    n_steps = min(N_STEPS, n_digits)
    parts = np.r_[np.ones(n_steps), 0.5 ** np.arange(1, n_digits - n_steps + 1)]
    digits = np.zeros(len(model.start), np.float32)
    digits[n_content:] = max(high - low, 1e-6) / (2 * n_steps + 2) * parts
    return replace(model, digits=digits, middle=(low + high) / 2)
