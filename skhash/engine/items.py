"""Items of a torch Dataset: the sample in each, or an error that says what to change."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 if it holds all values of a dtype, else float64."""
    return np.result_type(dtype, np.float32) if dtype.itemsize <= 8 else np.dtype(np.float64)


def sample_of(item: Any) -> npt.NDArray[Any]:
    """Sample in an item of a Dataset: bytes stay uint8, other numbers become floats.

    Dicts, images of PIL and values that are not numbers raise TypeError.
    """
    if isinstance(item, Mapping):
        keys = [repr(key) for key in item]
        pair = ", ".join(f"item[{key}]" for key in keys[:2]) or "sample, target"
        raise TypeError(
            "A Dataset given as X must return samples or pairs (sample, target). Got a dict with the keys "
            f"{', '.join(keys)} instead. Return a tuple from its __getitem__, such as ({pair})."
        )
    sample = item[0] if isinstance(item, tuple | list) else item
    if any(base.__module__.partition(".")[0] == "PIL" for base in type(sample).__mro__):
        raise TypeError(
            "A Dataset given as X must return tensors or arrays. Got an image of PIL instead. Give the Dataset "
            "transform=torchvision.transforms.PILToTensor(), or return numpy.atleast_3d(image).transpose(2, 0, 1)."
        )
    try:
        values = np.asarray(sample)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"A Dataset given as X must return tensors or arrays of the CPU. {error}") from error
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"A Dataset given as X must return numbers. Got a sample of type {type(sample).__name__} instead."
        )
    return values if values.dtype == np.uint8 else values.astype(float_dtype(values.dtype), copy=False)


def stack_samples(samples: list[npt.NDArray[Any]], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Samples as one array of shape (n_samples, *shape); ValueError if a sample has another shape."""
    for sample in samples:
        if sample.shape != shape:
            raise ValueError(
                f"A Dataset given as X must return samples of one shape. Got {sample.shape} and {shape} instead. "
                "Resize or crop images in the transform of the Dataset."
            )
    return np.stack(samples) if samples else np.zeros((0, *shape), np.float32)
