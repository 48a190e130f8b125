"""The objective of Greedy Hash: a classifier on the codes. See the equations in greedyhash.py."""

from typing import Any

import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from skhash.affinity import Relevance, SharedLabelsAffinity
from skhash.hashers.deep._objectives import QuantizedObjective, batch_labels, sign


class GreedyHashObjective(QuantizedObjective):
    """Cross-entropy of a linear classifier on the codes, and a penalty of the activations."""

    def __init__(self, quantization_weight: float, nbits: int, classes: npt.NDArray[Any]) -> None:
        super().__init__(quantization_weight)
        self.classes = classes
        self.classifier = nn.Linear(nbits, len(classes))

    def data_loss(self, u: torch.Tensor, relevance: Relevance) -> torch.Tensor:
        """Mean cross-entropy of the classifier on sign(u)."""
        logits = self.classifier(sign(u))
        labels = batch_labels(relevance, self.classes, logits)
        if isinstance(relevance.affinity, SharedLabelsAffinity):
            return binary_cross_entropy_with_logits(logits, labels)
        return cross_entropy(logits, labels)

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Cube of the absolute value."""
        return excess.abs() ** 3
