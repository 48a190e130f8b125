"""Views of arrays for compiled kernels."""

from typing import Any

import numpy as np
import numpy.typing as npt


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Read-only view of an array; a copy only if the array is not C-contiguous.

    numba compiles a kernel for each memory layout, and again for read-only arrays such as memmaps. With this view one
    compiled kernel serves all of them.
    """
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view
