"""Pictures of a folder, a table or a file, for the command line: a pretrained network turns them into features."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from skhash._encoding import array_source
from skhash._estimators import find_hasher, first_step
from skhash.cli._samples import Samples, open_samples
from skhash.datasets import load_images
from skhash.datasets.images import is_picture
from skhash.datasets.loading import is_dataset


def are_pictures(path: str) -> bool:
    """Whether this is a folder, a table of pictures or a picture."""
    if is_dataset(path):
        return False
    return os.path.isdir(path) or Path(path).suffix.lower() == ".csv" or is_picture(path)


def learn_from(path: str, options: argparse.Namespace) -> tuple[Any, Samples]:
    """Fitted PretrainedFeatures and the features of pictures; None and the samples of another file."""
    if not are_pictures(path):
        return None, open_samples(path, options.column, options.labels)
    from skhash.engine import load_network
    from skhash.features import PretrainedFeatures

    size = load_network(options.backbone, weights=None).input_size if options.size is None else options.size
    images = load_images(path, size=size, broken=options.broken)
    first = PretrainedFeatures(options.backbone, cache=options.features, verbose=True)
    return first, _samples(images, first.fit_transform(images))


def open_for(model: Any, path: str, options: argparse.Namespace, *, whole: bool = False) -> tuple[Any, Samples]:
    """A model and the samples of a file.

    Of pictures these are features, and the model is what follows the network, unless the whole model is wanted.
    """
    if not are_pictures(path):
        return model, open_samples(path, options.column)
    from skhash.features import PretrainedFeatures

    first = first_step(model)
    shape: tuple[int, ...] = getattr(first, "input_shape_", ())
    if len(shape) != 3:
        raise ValueError(f"MODEL must be one of pictures for {path}. Fit one: skhash fit PICTURES --method ...")
    images = load_images(path, size=shape[1], broken=options.broken)
    if whole or not isinstance(first, PretrainedFeatures):
        from skhash.engine import DatasetArray

        return model, _samples(images, DatasetArray(images))
    first.set_params(cache=options.features, verbose=True)
    return find_hasher(model), _samples(images, first.transform(images))


def _samples(images: Any, X: Any) -> Samples:
    mapped = X if isinstance(X, np.ndarray) else None
    return Samples(len(images), array_source(X).slices, mapped, lambda: images.targets, images.names)


@contextmanager
def as_files(options: argparse.Namespace) -> Iterator[list[str]]:
    """Context manager of the data sets of a comparison, with files of features in place of pictures."""
    with TemporaryDirectory() as folder:
        yield [_as_file(path, options, folder) if are_pictures(path) else path for path in options.datasets]


def _as_file(path: str, options: argparse.Namespace, folder: str) -> str:
    _, samples = learn_from(path, options)
    y = samples.targets()
    file = Path(folder, f"{Path(path).resolve().stem}.npz")
    np.savez(file, X=samples.array(), **({} if y is None else {"y": y}))
    return str(file)
