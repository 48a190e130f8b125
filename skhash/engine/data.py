"""Samples of any kind, read by index: arrays, memmaps, torch datasets of (sample, target) pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash._libraries import torch

if TYPE_CHECKING:
    from torch.utils.data import Dataset


class DatasetArray:
    """A torch Dataset that is indexed like an array.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        A map-style dataset. An item is a sample, or a tuple or list of sample and target;
        a sample is a tensor or an array.

    Attributes
    ----------
    shape : tuple of int
        Number of samples, and the shape of one sample.

    Raises
    ------
    ValueError
        If the dataset has no length.
    TypeError
        If its first item is a dict, or an image of PIL.

    Examples
    --------
    >>> from skhash.engine.data import DatasetArray
    >>> X = DatasetArray([([0.0, 1.0], 7), ([2.0, 3.0], 8)])
    >>> X.shape, X[1:], X.targets()
    ((2, 2), array([[2., 3.]]), array([7, 8]))
    """

    def __init__(self, dataset: Dataset[Any]) -> None:
        if not hasattr(dataset, "__len__"):
            raise ValueError(
                f"A Dataset given as X must have a length. Got {type(dataset).__name__} without one. Use a map-style "
                "Dataset, or copy its samples into an array."
            )
        self.dataset: Any = dataset
        self.shape: tuple[int, ...] = getattr(self.dataset, "shape", ())  # of files, the first of which may be broken
        if len(self.shape) < 2:
            self.shape = (len(self.dataset), *(self._sample(0).shape if len(self.dataset) else ()))
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, indices: slice | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        chosen = range(*indices.indices(len(self))) if isinstance(indices, slice) else indices
        return _stack_samples([self._sample(int(index)) for index in chosen], self.shape[1:])

    def _sample(self, index: int) -> npt.NDArray[Any]:
        return _sample_of(self.dataset[index])

    def check(self) -> None:
        """Let the dataset raise an error for samples that cannot be read, by its method ``check_files`` if it has one.

        Raises
        ------
        InvalidFileError
            If a file cannot be read.
        """
        if hasattr(self.dataset, "check_files"):
            self.dataset.check_files()

    def targets(self) -> Any:
        """Targets of all samples: the attribute `targets` of the dataset, or those of its pairs.

        Returns
        -------
        array-like of shape (n_samples, ...)
            Targets; an array if they are those of pairs.

        Raises
        ------
        ValueError
            If the dataset has no targets.
        """
        if getattr(self.dataset, "targets", None) is not None:
            complete = getattr(self.dataset, "complete_targets", None)  # of pictures, whose error has their names
            return self.dataset.targets if complete is None else complete()
        if not len(self):
            return np.empty(0)  # callers that need samples raise an error
        if not (isinstance(self.dataset[0], tuple | list) and len(self.dataset[0]) > 1):
            raise ValueError(
                f"`y` must be given for a Dataset without targets. Got y=None and a {type(self.dataset).__name__} of "
                "samples. Pass y, or return (sample, target) pairs."
            )
        return np.stack([np.asarray(self.dataset[index][1]) for index in range(len(self))])


class ArraySubset:
    """Some samples of an array or of a DatasetArray, read when they are indexed.

    Parameters
    ----------
    X : array or DatasetArray of shape (n_samples, ...)
        The samples.
    indices : ndarray of int
        Indices of the subset.

    Attributes
    ----------
    shape : tuple of int
        Number of samples in the subset, and the shape of one sample.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine.data import ArraySubset
    >>> subset = ArraySubset(np.arange(8.0).reshape(4, 2), np.array([0, 3]))
    >>> subset.shape, subset[1:]
    ((2, 2), array([[6., 7.]]))
    """

    def __init__(self, X: Any, indices: npt.NDArray[np.int64]) -> None:
        self.X, self.indices = X, indices
        self.shape: tuple[int, ...] = (len(indices), *X.shape[1:])
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, indices: slice | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return self.X[self.indices[indices]]  # type: ignore[no-any-return]


class StackedArrays:
    """Samples of two arrays or DatasetArrays, one after the other, read when they are indexed.

    Parameters
    ----------
    first, second : array or DatasetArray of shape (n, ...)
        Samples of one shape.

    Attributes
    ----------
    shape : tuple of int
        Number of all samples, and the shape of one sample.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine.data import StackedArrays
    >>> stacked = StackedArrays(np.zeros((3, 1)), np.ones((2, 1)))
    >>> stacked.shape, stacked[np.array([4, 0])].ravel()
    ((5, 1), array([1., 0.]))
    """

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        self.shape: tuple[int, ...] = (len(first) + len(second), *first.shape[1:])
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, indices: slice | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        chosen = np.arange(len(self))[indices]
        is_first = chosen < len(self.first)
        first, second = self.first[chosen[is_first]], self.second[chosen[~is_first] - len(self.first)]
        samples = np.empty((len(chosen), *self.shape[1:]), np.result_type(first, second))
        samples[is_first], samples[~is_first] = first, second
        return samples


def unit_of(values: torch.Tensor) -> torch.Tensor:
    """Power of two near the largest value: dividing by it does not round, and squares then stay within float32."""
    return torch.exp2(torch.floor(torch.log2(values.abs().max().clamp_min(1e-37))))


def batch_tensor(
    X: Any,
    indices: slice | npt.NDArray[np.int64],
    device: torch.device,
    offset: npt.NDArray[np.float64] | None = None,
) -> torch.Tensor:
    """Some samples as a float32 tensor. Bytes of images become values in [0, 1].

    Parameters
    ----------
    X : array or DatasetArray of shape (n_samples, ...)
        The samples.
    indices : slice or ndarray of int
        Indices of the batch.
    device : torch.device
        Device of the tensor.
    offset : float64 ndarray, default=None
        What is subtracted in float64, before the values are rounded to float32. Its shape broadcasts
        to that of a sample.

    Returns
    -------
    tensor of shape (n_batch, ...), float32
        The batch.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.engine.data import batch_tensor
    >>> images = np.full((5, 1, 2, 2), 255, dtype=np.uint8)
    >>> batch_tensor(images, slice(0, 3), torch.device("cpu")).shape
    torch.Size([3, 1, 2, 2])
    >>> batch_tensor(images, slice(0, 1), torch.device("cpu")).max()
    tensor(1.)
    """
    batch = np.ascontiguousarray(X[indices])  # torch reads no arrays with negative strides
    is_image = batch.dtype == np.uint8 and batch.ndim > 2
    if offset is not None:
        batch = (batch / 255 if is_image else batch) - offset
    elif is_image:
        return torch.tensor(batch, device=device).float() / 255
    return torch.tensor(batch, dtype=torch.float32, device=device)


def _sample_of(item: Any) -> npt.NDArray[Any]:
    """Sample in an item of a Dataset: bytes stay uint8, other numbers become floats."""
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
    if values.dtype == np.uint8:
        return values
    # float32 if it holds all values
    dtype = np.result_type(values.dtype, np.float32) if values.dtype.itemsize <= 8 else np.dtype(np.float64)
    return values.astype(dtype, copy=False)


def _stack_samples(samples: list[npt.NDArray[Any]], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Samples as one array of shape (n_samples, *shape); ValueError if a sample has another shape."""
    for sample in samples:
        if sample.shape != shape:
            raise ValueError(
                f"A Dataset given as X must return samples of one shape. Got {sample.shape} and {shape} instead. "
                "Resize or crop images in the transform of the Dataset."
            )
    return np.stack(samples) if samples else np.zeros((0, *shape), np.float32)
