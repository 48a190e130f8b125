"""The point of least norm in a polyhedron, by nonnegative least squares."""

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

TOLERANCE = 1e-8  # largest violation of a constraint, relative to the distance of the farthest one


def least_norm_point(G: npt.NDArray[np.float64], h: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """Point x of least norm with G x >= h, or None if no such point is found.

    The multipliers u >= 0 minimize the norm of (G'u, h'u - 1), whose residual is a multiple of (x, -1): least distance
    programming (Lawson, Hanson, Solving Least Squares Problems, 1974, section 23.4).
    """
    norms = np.maximum(np.linalg.norm(G, axis=1), np.finfo(np.float64).tiny)
    G, h = G / norms[:, None], h / norms
    distance = h.max(initial=0.0)  # of the farthest constraint, which becomes the unit of length
    if distance <= 0:
        return np.zeros(G.shape[1])
    h = h / distance
    target = np.append(np.zeros(G.shape[1]), 1.0)
    try:
        multipliers = nnls(np.vstack([G.T, h]), target)[0]
    except RuntimeError:  # too many iterations
        return None
    residual = target - np.append(multipliers @ G, multipliers @ h)
    if residual[-1] < TOLERANCE:  # it is 1 / (1 + |x|^2), or 0 if no point exists
        return None
    x: npt.NDArray[np.float64] = -residual[:-1] / residual[-1]
    return x * distance if (G @ x >= h - TOLERANCE).all() else None
