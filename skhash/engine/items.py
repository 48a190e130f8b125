"""Items of a torch Dataset: the sample and the target in each, with one clear error for what is neither."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Float type that holds the values of another type: float32 if that is enough, else float64.

    Parameters
    ----------
    dtype : numpy.dtype
        Type of numbers.

    Returns
    -------
    numpy.dtype
        float32 for small types, float64 for float64 and for integers of 32 or 64 bits.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine.items import float_dtype
    >>> [float_dtype(np.dtype(name)) for name in ("uint8", "float32", "int64")]
    [dtype('float32'), dtype('float32'), dtype('float64')]
    """
    return np.result_type(dtype, np.float32) if dtype.itemsize <= 8 else np.dtype(np.float64)


def sample_of(item: Any) -> npt.NDArray[Any]:
    """Sample in an item of a Dataset.

    Parameters
    ----------
    item : object
        A sample, or a tuple or list of sample and target.

    Returns
    -------
    ndarray
        The sample; bytes stay uint8, all other numbers become float32, or float64 if they need it.

    Raises
    ------
    TypeError
        If the item is a dict, or its sample an image of PIL or no numbers.

    Examples
    --------
    >>> from skhash.engine.items import sample_of
    >>> sample_of(([0.0, 1.0], 7))
    array([0., 1.])
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
    """Samples of a batch as one array.

    Parameters
    ----------
    samples : list of ndarray
        The samples.
    shape : tuple of int
        Shape of the first sample of the Dataset.

    Returns
    -------
    ndarray of shape (n_samples, ...)
        The batch.

    Raises
    ------
    ValueError
        If a sample has another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine.items import stack_samples
    >>> stack_samples([np.zeros(2), np.ones(2)], (2,)).shape
    (2, 2)
    """
    for sample in samples:
        if sample.shape != shape:
            raise ValueError(
                f"A Dataset given as X must return samples of one shape. Got {sample.shape} and {shape} instead. "
                "Resize or crop images in the transform of the Dataset."
            )
    return np.stack(samples) if samples else np.zeros((0, *shape), np.float32)
