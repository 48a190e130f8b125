"""The objective of TBH, with the networks that only training needs. See the equations in tbh.py."""

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import batch_norm, linear, softplus

from skhash.engine import Encoder, Objective
from skhash.engine.backbones import HIDDEN
from skhash.hashers.deep._objectives import bernoulli_sign


def _similarity_graph(codes: torch.Tensor) -> torch.Tensor:
    """Graph A of codes of -1 and 1: one minus the share of bits in which two samples differ."""
    return (1 + codes @ codes.T / codes.shape[1]) / 2


def _graph_convolution(graph: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    """D^-1/2 A D^-1/2 Z for a graph A (n, n) and rows Z (n, n_latent)."""
    scale = torch.rsqrt(graph.sum(1, keepdim=True))
    return scale * (graph @ (scale * Z))


def _adversarial_loss(critic: nn.Linear, encoded: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    """Sum of the losses of a bottleneck and of its critic; each holds the other constant."""
    passing = softplus(-linear(encoded, critic.weight.detach(), critic.bias.detach())).mean()
    return passing + softplus(-critic(prior)).mean() + softplus(critic(encoded.detach())).mean()


class TBHObjective(Objective):
    """Reconstruction through twin bottlenecks, and the adversarial losses of both."""

    def __init__(
        self, nbits: int, width: int, n_inputs: int, n_latent: int = 512, adversarial_weight: float = 0.1
    ) -> None:
        super().__init__()
        self.adversarial_weight = adversarial_weight
        self.latent = nn.Linear(width, n_latent)
        self.mix = nn.Linear(n_latent, n_latent, bias=False)
        self.decoder = nn.Sequential(nn.Linear(n_latent, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_inputs))
        self.bit_critic, self.latent_critic = nn.Linear(nbits, 1), nn.Linear(n_latent, 1)

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        features = encoder.features(X)
        codes = bernoulli_sign(encoder.head(features))
        latents = torch.sigmoid(self.latent(features))
        mixed = _graph_convolution(_similarity_graph(codes), self.mix(latents))
        mixed = torch.sigmoid(batch_norm(mixed, None, None, training=True))
        errors = self.decoder(mixed) - ((X - encoder.mean) / encoder.scale).flatten(1)
        reconstruction = torch.square(errors).sum(1).mean() / (2 * codes.shape[1])
        fair, uniform = torch.rand_like(codes).round() * 2 - 1, torch.rand_like(mixed)
        adversarial = _adversarial_loss(self.bit_critic, codes, fair)
        adversarial = adversarial + _adversarial_loss(self.latent_critic, mixed, uniform)
        return reconstruction + self.adversarial_weight * adversarial
