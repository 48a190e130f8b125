r"""Codes from which vectors are reconstructed: binary additive quantization, by alternating minimization.

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
alternate, and the bits of a direction, a group, are set together. (Bits by variance as in SAQ: Li et al., arXiv
2509.12086.)

Prefixes of a code reconstruct x, too: each length l has D_l and o_l of its own, and the bits minimize the sum over the
lengths of w_l (|x - r_l(b)|^2 + p s_l |W x - b|^2), in which only the first l bits count. The bits between two lengths
start from a map of their own, of all directions, so that the bits of each prefix see all of x. Each prefix has a map of
queries of its own.

A query q is nearest to the items with the largest

    <q, r(b)> - |x|^2 / 2

The first term is an inner product with the bits. The second one is not: the last bits of a code tell a squared norm. So
both terms together are one inner product of a real query and the bits. This norm is the mean of |r(b)|^2 and |x|^2. The
first of its bits are steps: how many of them are 1 tells the quarter of the range that it is in, so that near items
share them. The others are its further binary digits.

Factors of items, from which real queries estimate the distance of the vectors (RaBitQ; Gao, Long, SIGMOD 2024):
let x be a centered item, s(x) the signs of its code, and <f(q), s> the score of a centered query q. The estimate

    <q, x> ~ <f(q), s(x)> |P x|^2 / <f(x), s(x)>

is exact for q = x, up to the part of x outside of the span of f. P projects on this span. The factors are

    norm(x) = |x|,   along(x) = <f(x), s(x)> |x|^2 / |P x|^2

so that <q, x> ~ score * norm^2 / along. With as many bits as features P x = x, and this is the estimator of RaBitQ.

Codes that reconstruct x as r(b) = D^T b (here o = 0 and there are no digits) have

    <q, x> ~ slope(x) <q, r(b)>,   slope(x) = w |P x|^2 / <x, r(b)> + 1 - w

The first slope is exact for q = x, up to P, and 1 is the best guess for any q, given the code alone. `along` is
what makes norm^2 / along this slope, in the units of the scores. Training changes the queries, and not the slopes.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Annotated, Any, Self, cast

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace
from scipy.linalg import svd

from skhash._threads import run_in_slices
from skhash._validation import Array, evenly_spaced
from skhash.functions import ArrayFunction, DenseFunction
from skhash.functions.linear import N_MAX_PRODUCTS, TINY, centered_product, library_of, read_samples
from skhash.hashers.shallow.linear import orthonormal_map

N_SWEEPS = 10
N_TRIES = 10  # of codes without a pull
BITS_PER_CHANGE = 16  # by a try
N_STEPS = 3
MAX_GROUP_SIZE = 4
EXACT = 0.75  # w of the slopes

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


# --- the search for bits


@dataclass(frozen=True)
class Reconstruction:
    """Parameters of codes that reconstruct vectors; float32, with a row or value per bit.

    `start` (nbits, width) is W, whose signs the codes start from, `decoder` (nbits, width) is D and `origin` (width,)
    is o. `field_bias` is -D o, `gram` is D D^T and `pull` is p s. `digits` are the parts of the squared norm, 0 for
    other bits, and `middle` is added to them. `groups` (nbits,) is int64 and counts from 0: neighboring bits with the
    same number are a group. With prefixes `field_bias`, `gram`, `pull` and `summed_decoder` (nbits, width) are the
    sums of -D o, D D^T, p s and D over all lengths.
    """

    start: FloatArray
    decoder: FloatArray
    origin: FloatArray
    field_bias: FloatArray
    gram: FloatArray
    digits: FloatArray
    middle: float
    pull: FloatArray
    groups: npt.NDArray[np.int64]
    summed_decoder: FloatArray | None = None

    def activations(self, X: FloatArray) -> FloatArray:
        """Activations (n_samples, nbits), whose signs are the codes, of centered and scaled vectors."""
        return self.activations_of(X, *self.search(X, self.n_content))  # type: ignore[no-any-return]

    def activations_of(self, X: Any, bits: Any, fields: Any) -> Any:
        """Activations of vectors with the values and fields of their bits, in the library of these arrays.

        For a bit, half of the squared error that its value saves. For a digit, the part of the norm that the digits
        before it leave.
        """
        n_content = bits.shape[1]
        # the signs are those of the bits, although the descent may end early
        values = bits * (abs(fields + bits * self.gram.diagonal()[:n_content]) + TINY)
        if n_content == len(self.digits):
            return values
        rests = self._tell(self.norms(X, bits) - self.middle, self.digits[n_content:])
        return library_of(values).concat([values, rests], axis=1)

    def _tell(self, rest: Any, digits: Any) -> Any:
        """Activations of the bits that tell a norm, less the middle of its range."""
        xp, n_steps = library_of(rest), min(N_STEPS, len(digits))
        steps = rest[:, None] - digits[0] * xp.arange(1 - n_steps, n_steps, 2, dtype=rest.dtype)
        rest, parts = rest - digits[0] * signs_of(steps).sum(axis=1), [steps]
        for digit in digits[n_steps:]:
            parts.append(rest[:, None])
            rest = rest - xp.where(rest >= 0, digit, -digit)
        return xp.concat(parts, axis=1)

    @property
    def n_content(self) -> int:
        """Number of bits that are no digits."""
        return int(np.count_nonzero(self.digits == 0))

    @property
    def n_tries(self) -> int:
        """Number of further searches, each after a change of some bits."""
        return 0 if self.pull.any() else N_TRIES

    def search(self, X: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Values of the first n bits of codes, and their fields; without a pull, after more tries."""
        return self.descend(X, n, n_tries=self.n_tries)

    def goals(self, X: Any, n: int) -> tuple[Any, Any]:
        """Outputs of W for vectors, and fields of the first n bits while all are 0, in the library of the vectors."""
        start, decoder = X @ self.start[:n].T, self.decoder if self.summed_decoder is None else self.summed_decoder
        return start, X @ decoder[:n].T + self.pull[:n] * start + self.field_bias[:n]

    def descend(
        self, X: FloatArray, n: int, bits: FloatArray | None = None, n_tries: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Best values of the first n bits, and their fields; `bits` are values to begin with."""
        from skhash.vectors._search_kernels import (
            choose_settings,
            descend_bits,
            descend_groups,
            perturb_bits,
        )

        gram, (start, fields) = np.ascontiguousarray(self.gram[:n, :n]), self.goals(X, n)
        groups = self.groups[:n]
        if (groups[1:] != groups[:-1]).all():
            bits, kernel = signs_of(start) if bits is None else bits, partial(descend_bits, gram)
        else:
            first = self.first_bits(n)
            kernel = partial(descend_groups, gram, first)
            if bits is None:
                bits = values = np.empty_like(fields)
                choose = partial(choose_settings, gram, first)
                run_in_slices(lambda part: choose(fields[part], values[part]), len(values), min_size=64)
        fields -= bits @ gram

        def improve(part: slice) -> None:
            kernel(fields[part], bits[part], N_SWEEPS)
            if n_tries:  # else it is not even compiled
                perturb_bits(gram, fields[part], bits[part], N_SWEEPS, changed_bits(n, n_tries))

        run_in_slices(improve, len(bits), min_size=64)
        return bits, fields

    def first_bits(self, n: int) -> npt.NDArray[np.int64]:
        """First bit of each group of the first n bits, and n; ValueError for a group of too many bits."""
        first = np.flatnonzero(np.diff(self.groups[:n], prepend=-1, append=-1))
        if (largest := int(np.diff(first).max(initial=1))) > MAX_GROUP_SIZE:
            raise ValueError(
                f"`groups` must have at most {MAX_GROUP_SIZE} bits with the same number. Got {largest} instead."
            )
        return first

    def norms(self, X: Any, bits: Any) -> Any:
        """Means of the squared norms of vectors and of their reconstructions, the latter minus that of o."""
        n = bits.shape[1]
        if self.summed_decoder is None:
            squared = (bits * (bits @ self.gram[:n, :n] - 2 * self.field_bias[:n])).sum(axis=1)
        else:
            inside = bits @ self.decoder[:n]
            squared = (inside * (inside + 2 * self.origin)).sum(axis=1)
        squared += (X**2).sum(axis=1)
        return squared * 0.5


def signs_of(values: Any) -> Any:
    """Signs of activations, as in codes, in float32."""
    if isinstance(values, np.ndarray):
        signs = (values >= 0).astype(np.float32)  # several times as fast as `where`
        signs *= 2
        signs -= 1
        return signs
    return library_of(values).where(values >= 0, 1.0, -1.0)


@cache
def changed_bits(n: int, n_tries: int) -> npt.NDArray[np.int64]:
    """Bits of n that each try of a search changes, the same for all items: a code does not depend on other items."""
    state, changed = 1, np.empty((n_tries, 1 + n // BITS_PER_CHANGE), np.int64)
    for i in range(changed.size):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        changed.flat[i] = (state >> 33) % n
    return changed


# --- learning


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


# --- factors, in numpy for functions and in torch for training


def seen_directions(weight: Any) -> Any:
    """Orthonormal basis of the span of the rows of a map, shape (n_features, rank); None if it is the whole space."""
    xp: Any = array_namespace(weight)
    _, values, directions = xp.linalg.svd(weight, full_matrices=False)
    rank = int((values > 1e-6 * values[0]).sum())
    return None if rank == weight.shape[1] else directions[:rank].T


def activation_scale(gram: Any) -> Any:
    """About the mean square of the activations; the decoder is divided by it for queries."""
    return gram.diagonal().mean().clip(1e-12)


def factors_of_signs(features: Any, codes: Any, directions: Any, scale: Any, queries: Any) -> Any:
    """Factors of shape (n, 2) of centered and scaled items with real queries, and codes of -1 and 1 (n, nbits)."""
    xp: Any = array_namespace(features)
    squared, inside = _squares(features, directions)
    # at least the 2-norm: codes that are the signs of the queries give the 1-norm, which is not smaller
    along = xp.maximum((queries * codes).sum(1), xp.linalg.vector_norm(queries, axis=1))
    return _factors(xp, squared, inside, along * squared / inside.clip(1e-30), scale)


def factors_of_reconstructions(features: Any, codes: Any, directions: Any, scale: Any, decoder: Any, unit: Any) -> Any:
    """Factors of shape (n, 2) of centered and scaled items, whose codes of -1 and 1 (n, nbits) reconstruct them."""
    xp: Any = array_namespace(features)
    squared, inside = _squares(features, directions)
    along = xp.maximum((features * (codes @ decoder)).sum(1), inside / 2)
    slopes = EXACT * inside / along.clip(1e-30) + (1 - EXACT)
    return _factors(xp, squared, inside, squared / (slopes * unit), scale)


def _squares(features: Any, directions: Any) -> tuple[Any, Any]:
    """Squared norms of items, and of their part in the span of the bits."""
    squared = (features**2).sum(1)
    return squared, squared if directions is None else ((features @ directions) ** 2).sum(1)


def _factors(xp: Any, squared: Any, inside: Any, products: Any, scale: Any) -> Any:
    products = xp.where(inside > 1e-10 * squared, products, xp.zeros_like(products))
    return xp.stack([squared**0.5 * scale, products], axis=1)


# --- functions


_QUERIES = "weight.queries", "bias.queries"


class _Queries:
    """Mixin of functions with a map of their own for real queries, from which distances are estimated."""

    mean: Any
    offset: Any
    unit_norm: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (len(self.mean),)

    def read(self, X: Any) -> Any:
        """Samples in float32 minus the offset, see :meth:`~skhash.functions.DenseFunction.read`."""
        return read_samples(X, self.offset, self.unit_norm)

    def features(self, X: Any) -> Any:
        """Centered and scaled samples."""
        return (self.read(X) - self.mean) / np.float32(self._scale)  # type: ignore[attr-defined]

    def estimates(self, X: npt.NDArray[Any], metric: str) -> tuple[FloatArray, npt.NDArray[np.float64]]:
        """Real queries for items with factors, and what each query adds to its estimated distances.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Checked samples.
        metric : "cosine", "inner" or "euclidean"
            The distance is the squared Euclidean one for "euclidean", half of it for "cosine", and minus the inner
            product for "inner". The vectors of an inner product are not centered, so its queries are not either.

        Returns
        -------
        queries : ndarray of shape (n_samples, nbits), float32
            Real queries.
        constants : ndarray of shape (n_samples,), float64
            What is added to the distances.
        """
        queries: FloatArray = self.queries(X)  # type: ignore[attr-defined]
        features, squared = self.features(X).astype(np.float64), float(self._scale) ** 2  # type: ignore[attr-defined]
        if metric != "inner":
            constants = (features**2).sum(axis=1) * squared
            return queries, constants / 2 if metric == "cosine" else constants
        center = self.mean if self.offset is None or self.unit_norm else self.mean + self.offset.astype(np.float32)
        queries = queries + center @ self._query_layer[0]  # type: ignore[attr-defined]
        shift = (center / np.float32(self._scale)).astype(np.float64)  # type: ignore[attr-defined]
        return queries, -(features @ shift + shift @ shift) * squared


@dataclass(frozen=True, eq=False, repr=False)
class QueryFunction(_Queries, DenseFunction):
    """A linear map with another one for real queries, and factors of items.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.vectors.codes import QueryFunction
    >>> layer = np.eye(2, dtype=np.float32), np.zeros(2, np.float32)
    >>> function = QueryFunction(
    ...     np.zeros(2, np.float32), (layer,), spread=np.float32(1), query_layer=layer
    ... )
    >>> function.factors(np.array([[3.0, 4.0]]))
    array([[5., 7.]], dtype=float32)
    """

    query_layer: tuple[Any, Any] = ()  # type: ignore[assignment]  # weight (n_features, nbits) and bias (nbits,)

    @property
    def _scale(self) -> Any:
        return self.spread

    @property
    def _query_layer(self) -> Any:
        return self.query_layer

    def queries(self, X: Any) -> Any:
        """Real queries of samples, see :meth:`~skhash.functions.HashFunction.queries`."""
        return centered_product(self.read(X), self.mean, *self.query_layer)

    def first(self, nbits: int) -> Self:
        """Function of the first bits, see :meth:`~skhash.functions.HashFunction.first`."""
        weight, bias = self.query_layer
        return replace(super().first(nbits), query_layer=(weight[:, :nbits].copy(order="K"), bias[:nbits].copy()))

    def converted(self, convert: Callable[[npt.NDArray[Any]], Any]) -> Self:
        """Function with arrays of another library, see :meth:`~skhash.functions.ArrayFunction.converted`."""
        return replace(super().converted(convert), query_layer=tuple(map(convert, self.query_layer)))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays by name, see :meth:`~skhash.functions.HashFunction.arrays`."""
        return super().arrays() | dict(zip(_QUERIES, self.query_layer, strict=True))

    def factors(self, X: npt.NDArray[Any]) -> FloatArray:
        """Factors of items, see :meth:`skhash.EmbeddingHasher.encode_factors`.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Checked samples.

        Returns
        -------
        ndarray of shape (n_samples, 2), float32
            The factors.
        """
        codes, directions = signs_of(self.activations(X)), seen_directions(self._query_layer[0].T)
        return factors_of_signs(  # type: ignore[no-any-return]
            self.features(X), codes, directions, self._scale, self.queries(X)
        )

    def errors(self, X: npt.NDArray[Any]) -> FloatArray:
        """Relative errors of the signs of activations a, with the best factor: ``1 - |a|_1^2 / (n |a|_2^2)``.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Checked samples.

        Returns
        -------
        ndarray of shape (n_samples, 1), float32
            The errors, in [0, 1); 0 where all n activations are 0.
        """
        values = self.activations(X)
        squared, along = np.square(values).mean(axis=1, keepdims=True), np.abs(values).mean(axis=1, keepdims=True) ** 2
        seen: FloatArray = np.divide(along, squared, out=np.ones_like(along), where=squared > 0)
        return 1 - seen

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], **given: Any) -> Self:
        """Function of the arrays of a file, see :meth:`~skhash.functions.HashFunction.from_arrays`."""
        if missing := sorted(set(_QUERIES) - arrays.keys()):
            raise ValueError(f"`function_.{missing[0]}` is missing: it must have a map of queries.")
        function = super().from_arrays({name: value for name, value in arrays.items() if name not in _QUERIES})
        if len(function.layers) > 1 or function.spread is None or function.spread.ndim or function.spread == 0:
            raise ValueError("`function_` must have one layer, and one spread > 0.")
        lengths = {"n_features": len(function.mean), "nbits": function.nbits}
        for name, axes in zip(_QUERIES, ("n_features nbits", "nbits"), strict=True):
            Array(axes).check(f"function_.{name}", arrays[name], lengths)
        return replace(function, query_layer=(arrays[_QUERIES[0]], arrays[_QUERIES[1]]))


@dataclass(frozen=True, eq=False, repr=False)
class ReconstructionFunction(_Queries, ArrayFunction):
    """Codes that reconstruct vectors, found by a search, and a linear map for real queries.

    Parameters
    ----------
    mean : ndarray of shape (n_features,), float32
        What is subtracted from samples.
    scale : float
        What centered samples are divided by.
    query_weight, query_bias : ndarray of shape (n_features, nbits) and (nbits,), float32
        The map of centered samples, not scaled ones, to real queries. There may be fewer bits than the search finds.
    start, decoder, origin, field_bias, gram, digits, middle, pull, groups, summed_decoder : ndarray, float or None
        See `Reconstruction`.
    prefixes : ndarray of shape (n_prefixes,), int64, default=None
        Lengths of the prefixes that have queries of their own, ascending.
    prefix_weight, prefix_bias : ndarray of shape (n_features, sum of prefixes) and (sum of prefixes,), default=None
        Their maps of queries, one after another.
    offset : ndarray of shape (n_features,), float64, default=None
        What is subtracted from features that are far from 0, before they become float32.
    unit_norm : bool, default=False
        Whether samples are divided by their norms, after the offset and before the mean.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import EmbeddingHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> EmbeddingHasher(64, n_epochs=2, random_state=0).fit(X).function_
    ReconstructionFunction(nbits=64, shape=(64,))
    """

    mean: Annotated[FloatArray, Array("n_features")]
    scale: Annotated[float, Array("", minimum=0)]
    query_weight: Annotated[FloatArray, Array("n_features nbits")]
    query_bias: Annotated[FloatArray, Array("nbits")]
    start: Annotated[FloatArray, Array("n_found n_features")]
    decoder: Annotated[FloatArray, Array("n_found n_features")]
    origin: Annotated[FloatArray, Array("n_features")]
    field_bias: Annotated[FloatArray, Array("n_found")]
    gram: Annotated[FloatArray, Array("n_found n_found")]
    digits: Annotated[FloatArray, Array("n_found")]
    middle: Annotated[float, Array("")]
    pull: Annotated[FloatArray, Array("n_found")]
    groups: Annotated[npt.NDArray[np.int64], Array("n_found", "i", minimum=0)]
    summed_decoder: Annotated[FloatArray, Array("n_found n_features")] | None = None
    prefixes: Annotated[npt.NDArray[np.int64], Array("n_prefixes", "i", minimum=1)] | None = None
    prefix_weight: Annotated[FloatArray, Array("n_features n_prefix_bits")] | None = None
    prefix_bias: Annotated[FloatArray, Array("n_prefix_bits")] | None = None
    offset: Annotated[npt.NDArray[np.float64], Array("n_features")] | None = None
    unit_norm: Annotated[bool, Array("", "b")] = False

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return len(self.query_bias)

    @property
    def _scale(self) -> float:
        return self.scale

    @property
    def _query_layer(self) -> Any:
        return self.query_weight, self.query_bias

    @property
    def model(self) -> Reconstruction:
        """Parameters of the search."""
        return Reconstruction(**{field.name: getattr(self, field.name) for field in fields(Reconstruction)})

    def activations(self, X: npt.NDArray[Any]) -> FloatArray:
        """Activations of samples, see :meth:`~skhash.functions.HashFunction.activations`."""
        return self.model.activations(self.features(X))[:, : self.nbits]

    def queries(self, X: Any) -> Any:
        """Real queries of samples, see :meth:`~skhash.functions.HashFunction.queries`."""
        return centered_product(self.read(X), self.mean, self.query_weight, self.query_bias)

    def errors(self, X: npt.NDArray[Any]) -> FloatArray:
        """Relative errors of reconstruction ``|x - r(b)|^2 / |x|^2`` of samples, of all bits that the search finds.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Checked samples.

        Returns
        -------
        ndarray of shape (n_samples, 1), float32
            The errors; 0 for a sample that is the mean.
        """
        features, n_content = self.features(X), self.model.n_content
        bits, _ = self.model.search(features, n_content)
        squared = np.square(features).sum(axis=1, keepdims=True)
        errors = np.square(features - bits @ self.decoder[:n_content] - self.origin).sum(axis=1, keepdims=True)
        relative: FloatArray = np.divide(errors, squared, out=np.zeros_like(errors), where=squared > 0)
        return relative

    def first(self, nbits: int) -> Self:
        """Function of the first bits, with the queries of the shortest prefix that has them all."""
        shorter = super().first(nbits)
        if self.prefixes is None:
            return shorter
        weight, bias = cast("FloatArray", self.prefix_weight), cast("FloatArray", self.prefix_bias)
        ends, n_kept = np.cumsum([0, *self.prefixes]), int(np.searchsorted(self.prefixes, nbits))
        changes: dict[str, Any] = {"prefixes": None, "prefix_weight": None, "prefix_bias": None}
        if n_kept:
            kept = slice(ends[n_kept])
            changes = {"prefixes": self.prefixes[:n_kept].copy(), "prefix_bias": bias[kept].copy()}
            changes["prefix_weight"] = weight[:, kept].copy(order="K")
        if n_kept < len(self.prefixes):
            own = slice(ends[n_kept], ends[n_kept] + nbits)
            changes |= {"query_weight": weight[:, own].copy(order="K"), "query_bias": bias[own].copy()}
        return replace(shorter, **changes)

    def uses_threads(self, n_samples: int) -> bool:
        """Whether so many samples may use threads, see :meth:`~skhash.functions.HashFunction.uses_threads`."""
        return n_samples * self.start.size > N_MAX_PRODUCTS

    def factors(self, X: npt.NDArray[Any]) -> FloatArray:
        """Factors of items, see `QueryFunction.factors`; ValueError if the codes have digits of a norm."""
        if self.digits.any() or self.field_bias.any():
            raise ValueError("`factors` must be True when the hasher is fitted, for codes that suit them. Got False.")
        decoder, features = self.decoder[: self.nbits], self.features(X)
        codes, unit = signs_of(self.activations(X)), activation_scale(self.gram)
        factors: FloatArray = factors_of_reconstructions(
            features, codes, seen_directions(decoder), self.scale, decoder, unit
        )
        return factors

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], **given: Any) -> Self:
        """Function of the arrays of a file, see :meth:`~skhash.functions.HashFunction.from_arrays`."""
        function = super().from_arrays(arrays, **given)
        for name, value in arrays.items():
            if value.dtype.kind == "f" and value.ndim and name != "offset" and value.dtype != np.float32:
                raise ValueError(f"`function_.{name}` must be of float32. Got {value.dtype} instead.")
        if function.nbits > len(function.digits) or function.scale == 0:
            raise ValueError(
                f"`function_` must have a scale > 0, and at most {len(function.digits)} bits, which the search finds. "
                f"Got {function.scale} and {function.nbits} instead."
            )
        function.model.first_bits(len(function.digits))
        function._check_prefixes()
        return function

    def _check_prefixes(self) -> None:
        """Raise ValueError unless the prefixes ascend, and each has a map of queries."""
        if self.prefixes is None and self.prefix_weight is None and self.prefix_bias is None:
            return
        if self.prefixes is None or self.prefix_weight is None or self.prefix_bias is None:
            raise ValueError("`function_` must have all or none of prefixes, prefix_weight and prefix_bias.")
        n_values = len(self.prefix_bias)
        if (np.diff(self.prefixes, append=self.nbits) <= 0).any() or self.prefixes.sum() != n_values:
            raise ValueError(
                f"`function_.prefixes` must ascend to less than {self.nbits} bits, and have {n_values} bits together. "
                f"Got {self.prefixes.tolist()} instead."
            )
