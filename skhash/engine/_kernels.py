"""Compiled kernels of training steps, imported at first use. They release the GIL."""

import numba as nb
import numpy as np

from skhash._compiler import kernel

# SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)
STEP, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@nb.njit(nogil=True, error_model="numpy")
def _draw(state, words):
    """Fill uint64 `words` with the outputs of SplitMix64 that follow a state."""
    for w in range(len(words)):
        z = state + np.uint64(w) * STEP
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        words[w] = z ^ (z >> np.uint64(31))


@kernel
def center_and_drop(X, indices, mean, factor, n_dropped, seed, outputs):
    """Center the samples at `indices`, drop values with probability n_dropped / 256, and multiply the others."""
    n_features = X.shape[1]
    words = np.empty((n_features + 7) // 8, np.uint64)
    draws, dropped = words.view(np.uint8), np.float32(0)
    for i in range(len(indices)):
        _draw(seed + np.uint64(i * len(words)) * STEP, words)
        row, output = X[indices[i]], outputs[i]
        for j in range(n_features):
            output[j] = (np.float32(row[j]) - mean[j]) * (factor if draws[j] >= n_dropped else dropped)


@kernel
def step_adamw(parameter, gradient, mean, square, rate, decay, beta1, beta2, eps, n_steps):
    """Make a step of AdamW on flat float32 arrays; `n_steps` includes this step."""
    of_parameter, of_mean, of_square = np.float32(1 - rate * decay), np.float32(1 - beta1), np.float32(1 - beta2)
    size, root = np.float32(rate / (1 - beta1**n_steps)), np.float32((1 - beta2**n_steps) ** -0.5)
    floor = np.float32(eps)
    for i in range(len(parameter)):
        g = gradient[i]
        mean[i] += of_mean * (g - mean[i])
        square[i] += of_square * (g * g - square[i])
        parameter[i] = of_parameter * parameter[i] - size * mean[i] / (np.sqrt(square[i]) * root + floor)
