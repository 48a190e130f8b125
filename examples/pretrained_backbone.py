"""A pretrained network as the backbone of a hasher.

    pip install kornia torchvision
    python examples/pretrained_backbone.py                 # downloads the weights of ResNet-18
    python examples/pretrained_backbone.py --weights none  # the same steps from random weights

The backbone can be any module that maps a batch of images to an array (n, width), with timm for
example ``timm.create_model("resnet18", pretrained=True, num_classes=0)``. The hasher copies it and
trains it with a fraction of the learning rate of the hash layer (0 freezes it). After training its
weights are in ``hasher.weights_``. The images here are random, bright on one of four sides. Replace
them by your own images: uint8 of shape (n, 3, height, width), a memmap, or a torch Dataset of
(image, target).
"""

import argparse

import numpy as np
import torch
import torchvision
from skhash import TALRHasher
from torch import nn


class Backbone(nn.Module):
    """ResNet-18 without its classifier: maps the images of the hasher to features."""

    def __init__(self, weights):
        super().__init__()
        self.network = torchvision.models.resnet18(
            weights=None if weights == "none" else "DEFAULT"
        )
        self.network.fc = nn.Identity()

    def forward(self, X):
        """Features of shape (n, 512)."""
        return self.network(X)


def draw_images(n, rng):
    """Random images that are bright on the side of their class, and the classes."""
    y = rng.integers(0, 4, n)
    X = rng.integers(0, 100, (n, 3, 32, 32), dtype=np.uint8)
    halves = [
        np.s_[:, :, :16, :],
        np.s_[:, :, 16:, :],
        np.s_[:, :, :, :16],
        np.s_[:, :, :, 16:],
    ]
    for side, half in enumerate(halves):
        bright = X[y == side]
        bright[half] += 120
        X[y == side] = bright
    return X, y


def main():
    """Train and score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", default="default", choices=["default", "none"])
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X, y = draw_images(200, rng)
    X_query, y_query = draw_images(40, rng)
    torch.manual_seed(0)
    hasher = TALRHasher(
        32,
        backbone=Backbone(options.weights),
        backbone_lr_scale=0.1,
        mixed_precision=torch.cuda.is_available(),
        n_epochs=5,
        batch_size=50,
        random_state=0,
    )
    hasher.fit(X, y)
    print(
        f"AP_T of 40 queries against 200 images: {hasher.score(X_query, y_query):.3f}"
    )


if __name__ == "__main__":
    main()
