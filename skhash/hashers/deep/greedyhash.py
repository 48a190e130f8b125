"""Greedy Hash (Su, Zhang, Han, Tian, NeurIPS 2018).

A linear classifier on the codes b = sign(u) is learned together with the activations u,

    min  L(W b + c, y) + alpha | |u| - 1 |_3^3      (eq. 7)

where L is the cross-entropy of the classes, or the binary cross-entropy of each of several
labels. The sign is taken greedily: forward it is the sign, and backward the gradient passes
unchanged, dL/du = dL/db (eq. 8). The penalty keeps u near b, which justifies this; it
is here the mean over the entries of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from skhash._libraries import torch
from skhash.affinity import Relevance, SharedLabelsAffinity
from skhash.engine import Objective
from skhash.hashers.deep._objectives import QuantizedObjective, batch_labels, sign
from skhash.hashers.deep._shared import LabelsMixin, QuantizedDeepHasher


class GreedyHashObjective(QuantizedObjective):
    """Cross-entropy of a linear classifier on the codes, and a penalty of the activations."""

    def __init__(self, quantization_weight: float, nbits: int, classes: npt.NDArray[Any]) -> None:
        super().__init__(quantization_weight)
        self.classes = classes
        self.trained["classifier"] = torch.nn.Linear(nbits, len(classes))

    def data_loss(self, u: torch.Tensor, relevance: Relevance) -> torch.Tensor:
        """Mean cross-entropy of the classifier on sign(u)."""
        logits = self.trained["classifier"](sign(u))
        labels = batch_labels(relevance, self.classes, logits)
        if isinstance(relevance.affinity, SharedLabelsAffinity):
            return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        return torch.nn.functional.cross_entropy(logits, labels)

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Cube of the absolute value."""
        return excess.abs() ** 3


class GreedyHashHasher(LabelsMixin, QuantizedDeepHasher):
    """Greedy Hash: classification of the codes, gradients straight through the sign.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    quantization_weight : float, default=None
        Weight alpha of the mean cubed distance of activations from their signs; see Notes
        for None.
    affinity : "auto", ClassAffinity or SharedLabelsAffinity, default="auto"
        What the labels in y are: classes, or a 0/1 matrix of labels. "auto" looks at y.
        Other affinities give no labels to learn from.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it; "auto"
        crops and flips images.
    {shared parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or (n_labels, n_labels)
        The classes; for a matrix of labels the identity matrix, one label per row.
    {shared attributes}

    Notes
    -----
    {defaults}

    The values were chosen on training samples of MNIST.

    References
    ----------
    Su, Zhang, Han, Tian: Greedy Hash: Towards Fast Optimization for Accurate Hash Coding in
    CNN. NeurIPS 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import GreedyHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = GreedyHashHasher(nbits=16, n_epochs=20, random_state=0)
    >>> hasher = hasher.fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.1f}")
    0.8
    """

    _recipes = {"linear": (2500, 256, 0.02, 5.0, 0.1), "deep": (1500, 256, 0.003, 0.1, 0.1)}

    def _objective(self) -> Objective:
        weight = self.settings_["quantization_weight"]
        return GreedyHashObjective(weight, self.nbits, self.classes_)
