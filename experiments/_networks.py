"""Small networks with random weights, as users bring them: convolutions, a residual network, dense layers."""

import torch
from torch import nn


class Residual(nn.Module):
    """Two convolutions whose outputs are added to their input."""

    def __init__(self, width):
        super().__init__()
        layers = []
        for _ in range(2):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, X):
        return torch.relu(X + self.layers(X))


def halving(n_inputs, width):
    """A convolution that halves an image, with batch norm."""
    return nn.Conv2d(n_inputs, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()


def strided(n_channels):
    """Two strided convolutions with batch norm, and a dense layer."""
    return *halving(n_channels, 16), *halving(16, 32), nn.Flatten(), nn.LazyLinear(128), nn.ReLU()


def pooled(n_channels):
    """Two convolutions with pooling and without batch norm, and a dense layer."""
    first = nn.Conv2d(n_channels, 8, 5), nn.ReLU(), nn.MaxPool2d(2)
    return *first, nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(128), nn.ReLU()


def residual(n_channels):
    """Strided convolutions with a residual block behind each, and the mean over the positions."""
    blocks = *halving(n_channels, 16), Residual(16), *halving(16, 32), Residual(32)
    return *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()


def dense(n_features):
    """Two dense layers without batch norm or dropout."""
    return nn.Linear(n_features, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU()


def make_network(layers, shape, seed):
    """Network of these layers for samples of a shape, whose weights a seed decides."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(*layers(shape[0])).eval()
        network(torch.zeros(2, *shape))
    return network.train()
