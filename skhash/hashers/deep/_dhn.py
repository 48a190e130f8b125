"""The objective of DHN: the likelihood of pairs, and a prior. See the equations in dhn.py."""

import math

import torch
from torch.nn.functional import softplus

from skhash.hashers.deep._objectives import PairwiseObjective


class DHNObjective(PairwiseObjective):
    """Mean pairwise cross-entropy of a batch, and the prior of its activations, weighted by lambda."""

    def activate(self, f: torch.Tensor) -> torch.Tensor:
        """Outputs of the encoder, squashed into (-1, 1)."""
        return torch.tanh(f)

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Log cosh, without overflow."""
        return excess + softplus(-2 * excess) - math.log(2)
