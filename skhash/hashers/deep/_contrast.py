"""What hashers share that contrast two random views of each row with those of the others."""

import torch
from torch.nn.functional import cross_entropy, normalize

from skhash.engine.augment import corrupt, moco_v2


def view_maker(augment, shape):
    """Resolve the parameter `augment` of a hasher that draws views.

    Parameters
    ----------
    augment : "auto" or callable
        "auto" takes noise and features of other rows for vectors, the augmentation of
        MoCo v2 for images.
    shape : tuple of int
        Shape of one row.

    Returns
    -------
    callable
        Maps a batch to a random version of it.

    Raises
    ------
    ValueError
        For "auto" and rows that are neither vectors nor images.
    ImportError
        For "auto" and images without kornia.
    """
    if callable(augment):
        return augment
    return corrupt if len(shape) == 1 else moco_v2(shape)


def nt_xent(first, second, temperature):
    """Compute SimCLR's loss: each row is to find its other view among all other rows of both views.

    With s the cosine over the temperature, the mean of -log(e^s(i, i') / sum_{j != i} e^s(i, j)) over the
    2 n rows i with their other views i' (Chen et al., ICML 2020).

    Parameters
    ----------
    first, second : tensor of shape (n, width)
        Views; row i of each comes from row i of the batch.
    temperature : float
        Temperature.

    Returns
    -------
    tensor without axes
        The loss.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep._contrast import nt_xent
    >>> rows = torch.eye(2)
    >>> nt_xent(rows, rows, temperature=1.0)  # ln(1 + 2 / e)
    tensor(0.5514)
    """
    rows = normalize(torch.cat([first, second]), dim=1, eps=1e-3)
    logits = (rows @ rows.T / temperature).fill_diagonal_(-torch.inf)
    return cross_entropy(logits, torch.arange(len(rows), device=rows.device).roll(len(first)))
