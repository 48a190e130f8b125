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
variance count a little more.

Codes without a pull are searched longer in the end: some bits change, the others follow, and the better code is kept.
D and o are learned from the shorter search, because with the longer one they find no more.

With more than about one bit per direction, another start is better: the principal directions of large variance get
several bits each, and the value of a direction is a sum of as many numbers w, each with a sign. The next bit goes to
the direction whose error v e(k) falls most. v is its variance, and e(k) the error of a normal value of variance 1 with
the best sums of k bits. A random rotation mixes the directions of equally many bits. From there the same steps
alternate, and the bits of a direction are set together. (Bits by variance as in SAQ: Li et al., arXiv 2509.12086.)

Prefixes of a code reconstruct x, too: each length l has D_l and o_l of its own, and the bits minimize the sum over the
lengths of w_l (|x - r_l(b)|^2 + p s_l |W x - b|^2), in which only the first l bits count. The bits between two lengths
start from a map of their own, of all directions, so that the bits of each prefix see all of x.

A query q is nearest to the items with the largest

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

from skhash._validation import evenly_spaced
from skhash.functions.reconstruction import MAX_GROUP_SIZE, N_STEPS, Reconstruction, signs_of
from skhash.hashers.shallow.linear import orthonormal_map

N_ROUNDS = 3  # for each pull; twice as many with prefixes
N_SAMPLES_PER_BIT = 10  # or more, of a step with several bits per direction
N_PART = 10_000  # largest number of samples of a step; the next steps have others
N_ROTATIONS = 15
EQUALIZED = -0.125  # e
RIDGE = 0.01
OF_PREFIX = 1 / 3  # weight of the error of a prefix; that of the whole code has 1
#: w of a normal value of variance 1 that is a sum of 1 to 4 of them, each with a sign, and the errors of 0 to 4 bits
SUMS = ((0.798,), (0.529, 0.982), (0.451, 0.748, 0.988), (0.296, 0.557, 0.709, 1.129))
ERRORS = (1.0, 0.363, 0.117, 0.035, 0.0099)
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
    for values in itertools.islice(_parts(X @ directions.T), N_ROTATIONS):
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
    X: FloatArray,
    start: FloatArray,
    directions: FloatArray,
    n_digits: int,
    has_offset: bool,
    pulls: Sequence[float],
    prefixes: Sequence[int] = (),
) -> Iterator[tuple[Reconstruction, list[FloatArray]]]:
    """Codes that reconstruct vectors, for one pull after another, from W = R F (nbits, width) and F.

    The last `n_digits` bits tell a norm. With each model there are the decoders of the prefixes.
    """
    n_content, parts = len(start) - n_digits, _parts(X)
    lengths = (*prefixes, n_content)
    model: Any = None
    start, groups = np.vstack([start[:n_content], np.zeros((n_digits, X.shape[1]), np.float32)]), np.arange(len(start))
    for pull in pulls:
        for _ in range(2 * N_ROUNDS if prefixes else N_ROUNDS):
            part = next(parts)
            if model is None:
                bits = signs_of(part @ start[:n_content].T)
            else:
                bits, _ = model.descend(part, n_content)
                values = part @ directions.T
                for first, last in itertools.pairwise((0, *lengths)):
                    start[first:last] = _rotation(values, bits[:, first:last]) @ directions
            model, decoders = _regression(part, bits, start, groups, has_offset, pull, lengths)
        yield model if n_digits == 0 else _with_digits(model, part, n_content), decoders[:-1]


def learn_sums(
    X: FloatArray, principal: FloatArray, nbits: int, n_digits: int, has_offset: bool, rng: np.random.RandomState
) -> Reconstruction:
    """Codes that reconstruct vectors, from bits by the variance of the principal directions (n_directions, width)."""
    n_content = nbits - n_digits
    X = X[evenly_spaced(len(X), max(N_PART, N_SAMPLES_PER_BIT * nbits))]
    sizes = bits_by_variance(np.square(X @ principal.T).mean(axis=0), n_content)
    decoder, groups = np.zeros((nbits, X.shape[1]), np.float32), np.arange(nbits)
    place = 0
    for size in range(MAX_GROUP_SIZE, 0, -1):  # those of much variance come first
        chosen = np.flatnonzero(sizes == size)
        n = len(chosen) * size
        directions = orthonormal_map(len(chosen), len(chosen), rng).astype(np.float32) @ principal[chosen]
        scales = np.sqrt(np.square(X @ directions.T).mean(axis=0))
        weights = np.outer(scales, SUMS[size - 1]).astype(np.float32)
        decoder[place : place + n] = (weights[:, :, None] * directions[:, None]).reshape(n, X.shape[1])
        groups[place : place + n] = place + np.repeat(np.arange(len(chosen)), size)
        place += n
    start, none, origin = np.zeros_like(decoder), np.zeros(nbits, np.float32), np.zeros(X.shape[1], np.float32)
    model = Reconstruction(start, decoder, origin, none, decoder @ decoder.T, none, 0.0, none, groups)
    bits = None
    for _ in range(N_ROUNDS):
        bits, _ = model.descend(X, n_content, bits)
        model, _ = _regression(X, bits, start, groups, has_offset, 0.0, (n_content,))
    return model if n_digits == 0 else _with_digits(model, X, n_content)


def bits_by_variance(variances: npt.NDArray[np.floating], nbits: int) -> npt.NDArray[np.int64]:
    """Number of bits of each direction, at most `MAX_GROUP_SIZE`."""
    drops = variances[:, None] * -np.diff(ERRORS)  # they fall along a row
    order = np.argsort(-drops, axis=None, kind="stable")[:nbits]
    return np.bincount(order // drops.shape[1], minlength=len(variances))


def _regression(
    X: FloatArray,
    bits: FloatArray,
    start: FloatArray,
    groups: npt.NDArray[np.int64],
    has_offset: bool,
    pull: float,
    lengths: Sequence[int],
) -> tuple[Reconstruction, list[FloatArray]]:
    """Ridge regressions of vectors on the first bits of their codes, one per length, and the decoders."""
    n_samples, n_content = bits.shape
    codes: Any = np.hstack([bits, np.ones((n_samples, 1), np.float32)]) if has_offset else bits
    products = (codes.T @ codes).astype(np.float64)
    products[np.arange(n_content), np.arange(n_content)] += RIDGE * n_samples
    targets = (codes.T @ X).astype(np.float64)
    bias, gram, pulls = np.zeros(len(start)), np.zeros((len(start), len(start))), np.zeros(len(start))
    decoders, origin = [], np.zeros(X.shape[1])
    for length in lengths:
        kept = np.r_[:length, n_content : codes.shape[1]]
        solution = np.linalg.solve(products[np.ix_(kept, kept)], targets[kept])
        origin = solution[-1] if has_offset else origin
        decoder = np.zeros((len(start), X.shape[1]))
        decoder[:length] = solution[:length]
        weight = 1.0 if length == n_content else OF_PREFIX
        bias, gram = bias - weight * (decoder @ origin), gram + weight * (decoder @ decoder.T)
        pulls[:length] += weight * pull * float(np.square(decoder).sum()) / length
        decoders.append(decoder)
    summed = None if len(decoders) == 1 else (OF_PREFIX * sum(decoders[:-1]) + decoder).astype(np.float32)
    model = Reconstruction(
        start=start.copy(),
        decoder=decoder.astype(np.float32),
        origin=origin.astype(np.float32),
        field_bias=bias.astype(np.float32),
        gram=gram.astype(np.float32),
        digits=np.zeros(len(start), np.float32),
        middle=0.0,
        pull=pulls.astype(np.float32),
        groups=groups,
        summed_decoder=summed,
    )
    return model, [decoder[:length].astype(np.float32) for decoder, length in zip(decoders, lengths, strict=True)]


def _with_digits(model: Reconstruction, X: FloatArray, n_content: int) -> Reconstruction:
    """The same codes, with bits behind the first `n_content` that tell a norm."""
    bits, _ = model.search(X, n_content)
    low, high = np.quantile(model.norms(X, bits), [TAIL, 1 - TAIL]).tolist()
    n_digits = len(model.start) - n_content
    n_steps = min(N_STEPS, n_digits)
    parts = np.r_[np.ones(n_steps), 0.5 ** np.arange(1, n_digits - n_steps + 1)]
    digits = np.zeros(len(model.start), np.float32)
    digits[n_content:] = max(high - low, 1e-6) / (2 * n_steps + 2) * parts
    return replace(model, digits=digits, middle=(low + high) / 2)
