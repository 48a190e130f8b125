"""Rows of any kind, read by their numbers: arrays, memmaps, torch datasets of (image, target)."""

import numpy as np
import torch


class DatasetArray:
    """Show a torch Dataset of (row, target) pairs as an array that is read by row numbers.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        With a length; an item is a row or a pair of row and target, the row a tensor,
        an array or an image, the pair a tuple or a list.

    Attributes
    ----------
    shape : tuple of int
        Number of rows, and the shape of one.

    Raises
    ------
    ValueError
        If the dataset has no length: rows are read by their numbers.

    Examples
    --------
    >>> from skhash.engine import DatasetArray
    >>> rows = DatasetArray([([0.0, 1.0], 7), ([2.0, 3.0], 8)])
    >>> rows.shape, rows[1:], rows.targets()
    ((2, 2), array([[2., 3.]], dtype=float32), array([7, 8]))
    """

    def __init__(self, dataset):
        if not hasattr(dataset, "__len__"):
            raise ValueError(
                f"X is a {type(dataset).__name__}, which has no length; a Dataset of numbered rows is wanted."
            )
        self.dataset = dataset
        self.shape = (len(dataset), *(self._row(0).shape if len(dataset) else ()))
        self.ndim = len(self.shape)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        numbers = range(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        return np.stack([self._row(int(number)) for number in numbers])

    def _row(self, number):
        item = self.dataset[number]
        row = np.asarray(item[0] if isinstance(item, tuple | list) else item)
        return row if row.dtype == np.uint8 else row.astype(np.float32, copy=False)

    def targets(self):
        """Collect the targets of all rows: the dataset's own `targets`, or those of its pairs one by one.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Targets.

        Raises
        ------
        ValueError
            If there are none.
        """
        if hasattr(self.dataset, "targets"):
            return np.asarray(self.dataset.targets)
        if len(self) and not (isinstance(self.dataset[0], tuple | list) and len(self.dataset[0]) > 1):
            raise ValueError(
                f"y=None, and X is a {type(self.dataset).__name__} of rows alone; targets, or pairs (row, target), "
                "are wanted."
            )
        return np.stack([np.asarray(self.dataset[number][1]) for number in range(len(self))])


class ArraySubset:
    """Some rows of an array or of DatasetArray, read from there when they are asked for.

    Parameters
    ----------
    X : array or DatasetArray of shape (n_samples, ...)
        Where the rows are.
    numbers : ndarray of int
        Which ones.

    Attributes
    ----------
    shape : tuple of int
        Number of chosen rows, and the shape of one.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.engine import ArraySubset
    >>> rows = ArraySubset(np.arange(8.0).reshape(4, 2), np.array([0, 3]))
    >>> rows.shape, rows[1:]
    ((2, 2), array([[6., 7.]]))
    """

    def __init__(self, X, numbers):
        self.X, self.numbers = X, numbers
        self.shape = (len(numbers), *X.shape[1:])
        self.ndim = len(self.shape)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        return self.X[self.numbers[rows]]


def evenly_spaced(n_rows, most):
    """Choose row numbers, evenly spaced from the first to the last.

    Parameters
    ----------
    n_rows : int
        Number of rows, 1 or more.
    most : int
        How many are chosen; all, if there are no more.

    Returns
    -------
    int64 array
        The numbers, ascending.

    Examples
    --------
    >>> from skhash.engine import evenly_spaced
    >>> evenly_spaced(10, 3), evenly_spaced(2, 3)
    (array([0, 4, 9]), array([0, 1]))
    """
    return np.unique(np.linspace(0, n_rows - 1, most).astype(np.int64))


def batch_tensor(X, rows, device):
    """Read some rows as a float32 tensor; bytes of images become values in [0, 1].

    Parameters
    ----------
    X : array or DatasetArray of shape (n_samples, ...)
        Rows.
    rows : slice or ndarray of int
        Which ones.
    device : torch.device
        Where the tensor goes.

    Returns
    -------
    tensor of shape (n_rows, ...), float32
        The rows.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.engine import batch_tensor
    >>> images = np.full((5, 1, 2, 2), 255, dtype=np.uint8)
    >>> batch_tensor(images, slice(0, 3), torch.device("cpu")).shape
    torch.Size([3, 1, 2, 2])
    >>> batch_tensor(images, slice(0, 1), torch.device("cpu")).max()
    tensor(1.)
    """
    part = X[rows]
    if part.dtype == np.uint8 and part.ndim > 2:
        return torch.tensor(part, device=device).float() / 255
    return torch.tensor(part, dtype=torch.float32, device=device)
