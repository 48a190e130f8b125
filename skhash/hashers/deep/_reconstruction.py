"""Codes from which vectors are reconstructed: binary additive quantization, by alternating minimization.

Let x be a centered and scaled item. Its code b of -1 and 1 reconstructs it as r(b)

    r(b) = D^T b + o,   b = argmin |x - r(b)|^2

The code starts from signs of a linear map, and one bit after another is set to its best value, given all others. D and
o are the ridge regression of vectors on their codes. Both steps alternate. A query q is nearest to the items with the
largest

    <q, r(b)> - |r(b)|^2 / 2

The first term is an inner product with the bits. The second one is not: the last bits of a code are the binary digits
of the squared norm. So both terms together are one inner product of a real query and the bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._threads import run_in_slices

N_ROUNDS = 4
N_SWEEPS = 10
RIDGE = 0.01
TAIL = 0.001  # share of the norms below the range of the digits, and share above it

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Reconstruction:
    """Parameters of codes that reconstruct vectors; float32, with a row or value per bit.

    `start` (nbits, width) is the map whose signs the codes start from, `decoder` (nbits, width) is D, `field_bias` is
    -D o and `gram` is D D^T. `digits` are the parts of the squared norm, 0 for other bits, and `middle` is added to
    them.
    """

    start: FloatArray
    decoder: FloatArray
    field_bias: FloatArray
    gram: FloatArray
    digits: FloatArray
    middle: float

    def activations(self, projected: FloatArray, start: FloatArray) -> FloatArray:
        """Activations (n_samples, nbits), whose signs are the codes, of ``X @ D.T`` and of initial activations.

        For a bit, half of the squared error that its value saves. For a digit, the part of the norm that the digits
        before it leave.
        """
        n_content = int(np.count_nonzero(self.digits == 0))
        bits, fields, squared = self._descend(projected, start, n_content)
        values = np.empty_like(start)
        magnitudes = np.abs(fields + bits * np.diag(self.gram)[:n_content])
        # the signs are those of the bits, although the descent may end early
        values[:, :n_content] = bits * np.maximum(magnitudes, np.finfo(np.float32).tiny)
        rest = squared - np.float32(self.middle)
        for i in range(n_content, len(self.digits)):
            values[:, i] = rest
            rest = rest - np.where(rest >= 0, self.digits[i], -self.digits[i])
        return values

    def _descend(self, projected: FloatArray, start: FloatArray, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Best bits, their fields, and the squared norms of the reconstructions minus that of o."""
        from skhash.hashers.deep._reconstruction_kernels import descend_bits

        gram, bias = np.ascontiguousarray(self.gram[:n, :n]), self.field_bias[:n]
        goals = projected[:, :n] + bias
        bits: FloatArray = np.where(start[:, :n] >= 0, np.float32(1), np.float32(-1))
        fields: FloatArray = goals - bits @ gram
        run_in_slices(lambda part: descend_bits(gram, fields[part], bits[part], N_SWEEPS), len(bits), min_size=64)
        squared: FloatArray = (bits * (goals - fields - 2 * bias)).sum(axis=1)
        return bits, fields, squared


def learn_reconstruction(X: FloatArray, start: FloatArray, n_digits: int, has_offset: bool = True) -> Reconstruction:
    """Codes that reconstruct vectors, from a map (nbits, width); the last `n_digits` bits are digits of the norm."""
    nbits, n_content = len(start), len(start) - n_digits
    start = start.copy()
    start[n_content:] = 0
    activations = X @ start.T
    bits = np.where(activations[:, :n_content] >= 0, np.float32(1), np.float32(-1))
    for _ in range(N_ROUNDS):
        model = _regression(X, bits, start, has_offset)
        bits, _, _ = model._descend(X @ model.decoder.T, activations, n_content)
    model = _regression(X, bits, start, has_offset)
    if n_digits == 0:
        return model
    _, _, squared = model._descend(X @ model.decoder.T, activations, n_content)
    low, high = np.quantile(squared, [TAIL, 1 - TAIL]).tolist()
    digits = np.zeros(nbits, np.float32)
    digits[n_content:] = max(high - low, 1e-6) * 0.5 ** np.arange(2, n_digits + 2)
    return Reconstruction(start, model.decoder, model.field_bias, model.gram, digits, (low + high) / 2)


def _regression(X: FloatArray, bits: FloatArray, start: FloatArray, has_offset: bool) -> Reconstruction:
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
    return Reconstruction(start, decoder.astype(np.float32), bias, gram, np.zeros(len(start), np.float32), 0.0)
