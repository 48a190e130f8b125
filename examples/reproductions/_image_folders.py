"""Images of a user's folder as vectors, and miniatures of the folders."""

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Subset

CONCEPTS = ["animal", "beach", "clouds", "dancing", "flowers"]
_MEAN, _SCALE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet


class AlexNet(nn.Module):
    """AlexNet up to fc7, with the names of the weights in torchvision.

    Parameters
    ----------
    path : str or Path
        File of a state dict, as torchvision distributes it. Layers after fc7 are
        ignored.
    """

    def __init__(self, path):
        super().__init__()
        sizes = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1)]
        sizes += [(384, 256, 3, 1, 1), (256, 256, 3, 1, 1)]
        layers = []
        for i, size in enumerate(sizes):
            layers += [nn.Conv2d(*size), nn.ReLU()]
            if i in (0, 1, 4):
                layers.append(nn.MaxPool2d(3, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        first, second = nn.Linear(256 * 36, 4096), nn.Linear(4096, 4096)
        self.classifier = nn.Sequential(
            nn.Dropout(), first, nn.ReLU(), nn.Dropout(), second, nn.ReLU()
        )
        weights = torch.load(path, map_location="cpu", weights_only=True)
        own = self.state_dict()
        self.load_state_dict({name: weights[name] for name in own})
        self.eval()

    @torch.no_grad()
    def forward(self, images):
        """Features (n, 4096) of uint8 images of shape (n, 3, height, width)."""
        mean, scale = (torch.tensor(v).view(3, 1, 1) for v in (_MEAN, _SCALE))
        X = (images / 255 - mean) / scale
        return self.classifier(self.avgpool(self.features(X)).flatten(1))


def pixels(images):
    """Pixels of a batch of images as vectors."""
    return images.flatten(1) / 255


def as_vectors(data, network, batch_size=100):
    """Replace the images of a split by the outputs of a network.

    Parameters
    ----------
    data : Bunch
        Split whose samples are Datasets of images.
    network : callable
        Maps a batch of uint8 images, shape (n, 3, height, width), to (n, width).
    batch_size : int, default=100
        Images per batch.
    """
    for part in ("X_train", "X_query", "X_database"):
        images = data[part]
        batches = []
        for start in range(0, len(images), batch_size):
            stop = min(start + batch_size, len(images))
            batch = np.stack([images[i] for i in range(start, stop)])
            batches.append(network(torch.from_numpy(batch)).numpy())
        data[part] = np.concatenate(batches)
    return data


def shorten(data, n_query=20, n_others=100):
    """Leave few queries, and few database samples besides the training samples.

    Parameters
    ----------
    data : Bunch
        Split whose samples are Datasets of images, read when they are indexed.
    n_query : int, default=20
        Maximum number of queries, evenly spaced.
    n_others : int, default=100
        Maximum number of other database samples.
    """
    n, n_train = len(data.X_query), len(data.train_index)
    others = np.setdiff1d(np.arange(len(data.X_database)), data.train_index)[:n_others]
    chosen = {
        "query": np.unique(np.linspace(0, n - 1, n_query).astype(int)),
        "database": np.concatenate([data.train_index, others]),
    }
    for part, indices in chosen.items():
        data[f"X_{part}"] = Subset(data[f"X_{part}"], indices)
        data[f"y_{part}"] = data[f"y_{part}"][indices]
    data.train_index = np.arange(n_train)
    return data


def make_nus_wide(folder, n_images=80, seed=0):
    """Write a miniature in the layout of NUS-WIDE, whose concepts change the color."""
    rng, folder = np.random.default_rng(seed), Path(folder)
    labels = _make_labels(n_images, rng)
    names = [f"actor/{i:04}_{i}.png" for i in range(n_images)]
    for part in ("ConceptsList", "ImageList", "Groundtruth/AllLabels", "Flickr/actor"):
        (folder / part).mkdir(parents=True)
    (folder / "ConceptsList/Concepts81.txt").write_text("\n".join(CONCEPTS))
    lines = "\n".join(name.replace("/", "\\") for name in names)
    (folder / "ImageList/Imagelist.txt").write_text(lines)
    for concept, column in zip(CONCEPTS, labels.T, strict=True):
        path = folder / f"Groundtruth/AllLabels/Labels_{concept}.txt"
        path.write_text("\n".join(str(int(bit)) for bit in column))
    for name, row in zip(names, labels, strict=True):
        _write_image(folder / "Flickr" / name, _color_of(row), rng)


def make_ms_coco(folder, n_train=50, n_val=30, seed=0):
    """Write a miniature in the layout of MS-COCO, whose categories change the color."""
    rng, folder = np.random.default_rng(seed), Path(folder)
    (folder / "annotations").mkdir(parents=True)
    categories = [{"id": i, "name": name} for i, name in enumerate(CONCEPTS)]
    for part, n_images in (("train2014", n_train), ("val2014", n_val)):
        (folder / part).mkdir()
        labels = _make_labels(n_images, rng)
        names = [f"COCO_{part}_{i:012}.png" for i in range(n_images)]
        content = {
            "images": [{"id": i, "file_name": name} for i, name in enumerate(names)],
            "annotations": [
                {"image_id": int(i), "category_id": int(category)}
                for i, category in np.argwhere(labels)
            ],
            "categories": categories,
        }
        path = folder / f"annotations/instances_{part}.json"
        path.write_text(json.dumps(content))
        for name, row in zip(names, labels, strict=True):
            _write_image(folder / part / name, _color_of(row), rng)


def make_imagenet100(folder, n_classes=4, n_train=12, n_val=4, seed=0):
    """Write a miniature in the layout of ImageNet100, one color per class."""
    rng, folder = np.random.default_rng(seed), Path(folder)
    for number in range(n_classes):
        label, color = f"n{number:08}", rng.integers(40, 220, 3)
        for part, n_images in (("train", n_train), ("val", n_val)):
            (folder / part / label).mkdir(parents=True)
            for i in range(n_images):
                _write_image(folder / part / label / f"{label}_{i}.png", color, rng)


def _make_labels(n_images, rng):
    return rng.random((n_images, len(CONCEPTS))) < 0.4


def _color_of(labels):
    return 40 + 200 * labels[:3] - 30 * labels[3] + 15 * labels[4]


def _write_image(path, color, rng):
    noise = rng.integers(-25, 26, (24, 20, 3))
    Image.fromarray((noise + color).clip(0, 255).astype(np.uint8)).save(path)
