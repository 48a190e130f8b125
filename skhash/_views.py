"""Views of arrays for compiled kernels."""

from typing import Any

import numpy as np
import numpy.typing as npt


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """View of an array that cannot be written; a copy only if the array is not C-contiguous.

    Numba compiles a kernel for each memory layout, and again for arrays that cannot be written, such as codes that are
    read from a file by memmap. With this view one compiled kernel serves all of them.
    """
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view
