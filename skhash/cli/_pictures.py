"""Pictures of a folder, a table or a file, for the command line: a pretrained network turns them into features."""

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from skhash._encoding import array_source
from skhash._estimators import find_hasher, first_step
from skhash.affinity._targets import as_targets
from skhash.cli._samples import Samples, errors_of, open_samples
from skhash.comparison import Result
from skhash.datasets import load_images
from skhash.datasets.images import is_picture
from skhash.datasets.loading import is_dataset
from skhash.datasets.protocols import check_protocol
from skhash.datasets.splitting import draw
from skhash.persistence import load

THUMBNAIL = 64  # pixels, in the pages of pictures


def are_pictures(path: str) -> bool:
    """Whether this is a folder, a table of pictures or a picture."""
    if is_dataset(path):
        return False
    return os.path.isdir(path) or Path(path).suffix.lower() == ".csv" or is_picture(path)


def load_pictures(path: str, options: argparse.Namespace, **more: Any) -> Any:
    """Pictures of a folder, a file or a table; a command without --label-separator reads no labels of a table."""
    if hasattr(options, "label_separator"):
        more |= {"label_separator": options.label_separator}
    if Path(path).suffix.lower() == ".csv" and not os.path.isdir(path):
        more |= {name: getattr(options, name, None) for name in ("encoding", "separator")}
        columns = (getattr(options, "labels", None) or "").split(",")
        more |= {"labels": (columns[0] or None) if len(columns) == 1 else columns}
        more |= {} if "label_separator" in more else {"labels": []}
    return load_images(path, **more)


def learn_from(path: str, options: argparse.Namespace, *, labeled: bool) -> tuple[Any, Samples]:
    """Fitted PretrainedFeatures and the features of pictures; None and the samples of another file.

    `labeled` says whether the labels of pictures are needed: all of them, then.
    """
    if not are_pictures(path):
        return None, open_samples(path, options.column, options.labels)
    from skhash.engine import load_network
    from skhash.features import PretrainedFeatures

    size = load_network(options.backbone, weights=None).input_size if options.size is None else options.size
    images = _labeled(load_pictures(path, options, size=size, broken=options.broken), path, labeled)
    first = PretrainedFeatures(options.backbone, cache=options.features, verbose=True)
    return first, _samples(images, first.fit_transform(images))


def _labeled(images: Any, path: str, labeled: bool) -> Any:
    """Pictures with all their labels, or without any."""
    try:
        with errors_of(path):
            images.complete_targets()
    except ValueError:
        if labeled:
            raise
        images.targets = None
    return images


def open_for(
    model: Any, path: str, options: argparse.Namespace, *, names: list[str] | None = None
) -> tuple[Any, Samples]:
    """A model and the samples of a file.

    Of pictures these are features, and the model is what follows the network. `names` chooses some of them.
    """
    if not are_pictures(path):
        return model, open_samples(path, options.column)
    from skhash.features import PretrainedFeatures

    first = first_step(model)
    shape: tuple[int, ...] = getattr(first, "input_shape_", ())
    if len(shape) != 3:
        raise ValueError(f"MODEL must be one of pictures for {path}. Fit one: skhash fit PICTURES --method ...")
    if names is None:
        images = load_pictures(path, options, size=shape[1], broken=options.broken)
    else:
        images = _named(load_pictures(path, options, size=shape[1]), names, path, options)
    if not isinstance(first, PretrainedFeatures):
        from skhash.engine import DatasetArray

        return model, _samples(images, DatasetArray(images))
    first.set_params(cache=options.features, verbose=True)
    return find_hasher(model), _samples(images, first.transform(images))


def _named(images: Any, names: list[str], path: str, options: argparse.Namespace) -> Any:
    """The pictures with these names, in their order."""
    places = {name: i for i, name in enumerate(images.names)}
    if missing := [name for name in names if name not in places]:
        raise ValueError(
            f"--vectors must have all pictures of {options.data or options.model}. {path} has no {missing[0]}, and "
            f"lacks {len(missing):,} in all."
        )
    return images.part([places[name] for name in names])


def _samples(images: Any, X: Any) -> Samples:
    mapped = X if isinstance(X, np.ndarray) else None
    slices, keys = array_source(X).slices, images.content_keys
    return Samples(len(images), slices, mapped, lambda: images.targets, images.names, keys)


@contextmanager
def as_files(options: argparse.Namespace) -> Iterator[list[str]]:
    """Context manager of the data sets of a comparison, with files of features in place of pictures."""
    stems = [Path(path).resolve().stem for path in options.datasets if are_pictures(path)]
    if len(set(stems)) < len(stems):
        raise ValueError(f"DATASET must be folders of different names. Got {', '.join(stems)}.")
    with TemporaryDirectory() as folder:
        yield [_as_file(path, options, folder) if are_pictures(path) else path for path in options.datasets]


def _as_file(path: str, options: argparse.Namespace, folder: str) -> str:
    is_neighbors = options.task == "neighbors" or (options.protocol or "").startswith("neighbors")
    _, samples = learn_from(path, options, labeled=not is_neighbors)
    y = samples.targets()
    file = Path(folder, f"{Path(path).resolve().stem}.npz")
    np.savez(file, X=samples.array(), **({} if y is None else {"y": y}))
    return str(file)


def write_pages(options: argparse.Namespace, files: list[str], results: Sequence[Result]) -> list[Path]:
    """Write a page for each data set of pictures, in which the kept models of the first split search all pictures."""
    pages = []
    for path, file in zip(options.datasets, files, strict=True):
        name = Path(file).stem
        kept = [result for result in results if result.dataset == name and result.seed == 0 and result.model]
        if path == file or not kept:
            continue
        from skhash.displays import write_image_browser

        X = np.load(file)["X"]
        models = {f"{result.method}, {result.nbits} bits": result for result in kept}
        codes = {
            key: (load(Path(options.out, str(result.model))).encode(X), result.nbits) for key, result in models.items()
        }
        trained = _trained_on(file, kept[0].protocol)
        pages.append(Path(options.out, f"pictures_{name}.html"))
        images = load_pictures(path, options, size=THUMBNAIL, broken=options.broken)
        title = f"{name}: pictures by Hamming distance"
        write_image_browser(pages[-1], images, codes, trained=dict.fromkeys(codes, trained), title=title)
    return pages


def _trained_on(file: str, protocol: str) -> Any:
    """Whether each sample of a file is a training sample of the first split."""
    arrays = np.load(file)
    n = len(arrays["X"])
    drawn = draw(n, as_targets(arrays["y"]) if "y" in arrays else None, check_protocol(protocol), 0)
    return np.isin(np.arange(n), drawn.train)
