"""Pictures of a folder, a table or a file, for the command line: a pretrained network turns them into features."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import make_pipeline

from skhash._libraries import check_installed
from skhash._slices import array_source
from skhash._threads import one_thread
from skhash.affinity.targets import as_targets
from skhash.cli._options import own_classes
from skhash.cli._samples import (
    OF_TABLES,
    TRAINED_ON,
    Samples,
    check_no_table,
    errors_of,
    open_samples,
    table_features,
)
from skhash.datasets import load_images
from skhash.datasets.images import without_broken
from skhash.datasets.kinds import kind_of
from skhash.datasets.protocols import check_protocol
from skhash.datasets.splitting import draw
from skhash.persistence import load, save, save_with_notes
from skhash.persistence.format import read_header
from skhash.unwrap import find_hasher, first_step

if TYPE_CHECKING:  # every command with pictures imports this module
    from skhash.comparison import Result

SIZE = 224  # pixels of pictures for a network that does not say its size
THUMBNAIL = 64  # pixels, in the pages of pictures


def load_pictures(path: str, options: argparse.Namespace, **more: Any) -> Any:
    """Pictures of a folder, a file or a table; a command without --label-separator reads no labels of a table."""
    is_csv = kind_of(path).format == "csv"
    check_no_table(path, options, ("columns", "ids", "drop", "decimal") if is_csv else OF_TABLES)
    if hasattr(options, "label_separator"):
        more |= {"label_separator": options.label_separator}
    if is_csv:
        more |= table_options(options)
        more |= {} if "label_separator" in more else {"labels": []}
    return load_images(path, **more)


def table_options(options: argparse.Namespace) -> dict[str, Any]:
    """Labels, encoding and separator of a table of pictures; one column has classes, several have 0 and 1."""
    columns = getattr(options, "labels", None)
    labels = columns[0] if columns and len(columns) == 1 else columns
    return {"labels": labels} | {name: getattr(options, name, None) for name in ("encoding", "separator")}


def learn_from(images: Any, network: Any, options: argparse.Namespace) -> tuple[Any, Samples]:
    """PretrainedFeatures and the features of pictures, not computed yet."""
    first = _features(network, options).fit(images)
    return first, _lazily(first, readable(images, options, first))


def open_pictures(
    path: str, options: argparse.Namespace, *, labeled: bool, needed: Sequence[tuple[str, str]] = ()
) -> tuple[Any, Any]:
    """Pictures that are not read yet, and the network of --backbone: a name or a module.

    `labeled` says whether every picture needs a label. `needed` are further modules that the command needs, and their
    packages.
    """
    from skhash.engine import load_network
    from skhash.engine.networks import is_network

    text = options.backbone
    is_own = ".py:" in text
    if not is_own and not is_network(text):
        raise ValueError(
            "--backbone must be efficientnet-lite0, timm/NAME, torchvision/NAME, or FILE.py:CLASS for a network of "
            f"your own. Got {text!r} instead."
        )
    _check_installed(None if is_own else text, needed)
    network = own_network(text) if is_own else text
    size = options.size
    if size is None:
        size = getattr(network if is_own else load_network(network, weights=None), "input_size", SIZE)
    images = load_pictures(path, options, size=size, channels=options.channels)
    return _labeled(images, path, labeled), network


def own_network(text: str) -> Any:
    """Module that a class or a function in a file of Python makes, FILE.py:CLASS; random weights are of seed 0."""
    import torch
    from torch import nn

    from skhash.engine.runtime import seeded

    path, _, name = text.rpartition(":")
    file = Path(path).expanduser()
    if not path.endswith(".py") or not name:
        raise ValueError(f"--backbone must be FILE.py:CLASS for a network of your own. Got {text!r} instead.")
    if not file.is_file():
        raise FileNotFoundError(f"--backbone must name a Python file. There is no file {path}.")
    module = f"_skhash_backbone_{file.stem}"
    spec = spec_from_file_location(module, file.resolve())
    assert spec is not None  # because the name ends with .py
    sys.modules[module] = module_from_spec(spec)  # there its source is found
    sys.path.insert(0, str(file.resolve().parent))  # as for a script, so that it imports what lies beside it
    # from its source: Python would take a compiled file of the same second and size, also after a change
    exec(compile(file.read_bytes(), file.resolve(), "exec"), vars(sys.modules[module]))
    make = vars(sys.modules[module]).get(name)
    if not callable(make):
        raise ValueError(f"--backbone must name a class of {path}. Got {name!r}, which it does not have.")
    with seeded(0, torch.device("cpu")):
        network = make()
    if not isinstance(network, nn.Module):
        raise ValueError(f"--backbone must make a torch.nn.Module. {text} makes a {type(network).__name__}.")
    return network


def load_model(options: argparse.Namespace, **given: Any) -> Any:
    """Hasher or index of MODEL, with the network of --backbone."""
    if options.backbone is not None:
        given["backbone"] = own_network(options.backbone)
    try:
        return load(options.model, **given)
    except ValueError as error:
        if "`backbone`" not in str(error):
            raise
        text = str(error).replace("load(path, backbone=...)", "FILE.py:CLASS").replace("`backbone`", "--backbone")
        raise ValueError(text) from error


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
    model: Any, path: str, options: argparse.Namespace, *, names: list[str] | None = None, lenient: bool = False
) -> tuple[Any, Samples]:
    """A model and the samples of a file.

    Samples of pictures are features, and the model is what follows the network. `names` selects pictures. `lenient` is
    for tables, see `open_samples`.
    """
    if kind_of(path).holds != "pictures":
        return model, open_samples(path, options, feature_names(model), lenient=lenient)
    from skhash.features import PretrainedFeatures

    first = first_step(model)
    shape: tuple[int, ...] = getattr(first, "input_shape_", ())
    if len(shape) != 3:
        raise ValueError(f"MODEL must be a model of pictures for {path}. Fit one: skhash fit PICTURES --method ...")
    has_features = isinstance(first, PretrainedFeatures)
    _check_installed(first.network if has_features else first.backbone)
    images = load_pictures(path, options, size=shape[1], channels=shape[0])
    if names is not None:
        images = _named(images, names, path, options)
    if not has_features:
        return model, unread_samples(readable(images, options))
    first.set_params(**_features(first.network, options).get_params(deep=False))
    if names is None:
        images = readable(images, options, first)
    return find_hasher(model), _lazily(first, images)


def _features(network: Any, options: argparse.Namespace) -> Any:
    """PretrainedFeatures of a network, with the folder of --features or the default one."""
    from skhash.features import PretrainedFeatures

    folder = {} if options.features is None else {"cache": options.features}
    return PretrainedFeatures(network, verbose=not options.quiet, **folder)


def readable(images: Any, options: argparse.Namespace, first: Any = None) -> Any:
    """Pictures without broken ones, unless these are an error. Those whose features are known are not read again."""
    if options.broken == "raise":
        images.check_files()
        return images
    return without_broken(images, None if first is None else first._unknown(images))


def _check_installed(network: Any, needed: Sequence[tuple[str, str]] = ()) -> None:
    """Raise ImportError with one command for all packages of pictures and a network that are missing."""
    from skhash.engine.networks import is_network, packages_of

    is_named = is_network(network)
    packages = [("PIL", "pillow"), *(packages_of(network) if is_named else ()), *needed]
    check_installed(packages, "pictures" + (f" with the network {network}" if is_named else ""))


def feature_names(model: Any) -> list[str] | None:
    """Names of the columns that a model was fitted to, or None."""
    names = getattr(first_step(model), "feature_names_in_", None)
    return None if names is None else list(names)


def _named(images: Any, names: list[str], path: str, options: argparse.Namespace) -> Any:
    """The pictures with these names, in their order."""
    places = {name: i for i, name in enumerate(images.names)}
    if missing := [name for name in names if name not in places]:
        raise ValueError(
            f"--vectors must have all pictures of {options.data or options.model}. {path} has no {missing[0]}, and "
            f"lacks {len(missing):,} in all."
        )
    return images.part([places[name] for name in names])


def unread_samples(images: Any) -> Samples:
    """Pictures themselves, for a hasher that has a network."""
    from skhash.engine.data import DatasetArray

    slices = array_source(DatasetArray(images)).slices
    keys, label_names = images.content_keys, images.label_names
    return Samples(len(images), slices, images, lambda: images.targets, images.names, label_names, keys)


def _lazily(first: Any, images: Any) -> Samples:
    """Features of pictures, computed when they are needed; of one picture in one thread, since more would wait."""

    @cache
    def features() -> Any:
        with one_thread() if len(images) == 1 else nullcontext():
            return first.transform(images)

    return Samples(
        len(images),
        lambda size: array_source(features()).slices(size),
        targets=lambda: images.targets,
        names=images.names,
        label_names=images.label_names,
        keys=images.content_keys,
    )


class PictureSource(NamedTuple):
    """A data set of a comparison, and the .npz file that holds the samples of pictures and tables."""

    path: str
    file: str
    network: Any = None  # PretrainedFeatures of pictures
    keys: Callable[[], npt.NDArray[np.uint64]] | None = None  # as of Samples

    @property
    def name(self) -> str:
        """Name in the results."""
        return Path(self.file).stem


@contextmanager
def as_files(options: argparse.Namespace) -> Iterator[list[PictureSource]]:
    """Context manager of the data sets of a comparison, with files of features in place of pictures."""
    kinds = [kind_of(path) for path in options.datasets]
    converted = [
        path for path, kind in zip(options.datasets, kinds, strict=True) if kind.holds == "pictures" or kind.is_table
    ]
    stems = [Path(path).resolve().stem for path in converted]
    if len(set(stems)) < len(stems):
        raise ValueError(f"DATASET must be folders and files of different names. Got {', '.join(stems)}.")
    if options.scale and any(kind.holds == "pictures" for kind in kinds):
        raise ValueError("--scale must not be used with pictures, whose features already have one scale.")
    if not any(kind.is_table for kind in kinds):
        check_no_table(", ".join(options.datasets), options)
    with TemporaryDirectory() as folder:
        yield [
            _as_file(path, options, folder) if path in converted else PictureSource(path, path)
            for path in options.datasets
        ]


def _as_file(path: str, options: argparse.Namespace, folder: str) -> PictureSource:
    network = None
    if kind_of(path).holds == "pictures":
        network, samples = _learned_from(path, options)
    else:
        samples = open_samples(path, options)
    y = samples.targets()
    file = Path(folder, f"{Path(path).resolve().stem}.npz")
    np.savez(file, X=samples.array(), **({} if y is None else {"y": y}))
    return PictureSource(path, str(file), network, samples.keys)


def complete_models(options: argparse.Namespace, sources: Sequence[PictureSource], results: "Sequence[Result]") -> None:
    """Give kept models what those of ``skhash fit`` have, so that other commands read the same files with them.

    Models of tables know the names of their columns. Models of pictures begin with the network, and know their training
    pictures.
    """
    for source in sources:
        names = (source.name, f"{source.name}, scaled")
        kept = [result for result in results if result.model and result.dataset in names]
        if not kept or source.path == source.file:
            continue
        if source.network is not None:
            _add_network(source, kept, options)
        elif features := table_features(source.path, options):
            _add_names(features, kept, options)


def _add_network(source: PictureSource, kept: "Sequence[Result]", options: argparse.Namespace) -> None:
    """Put the network in front of models of pictures, and note the training pictures."""
    assert source.keys is not None
    keys = source.keys()
    for result in kept:
        file, protocol = Path(options.out, str(result.model)), check_protocol(result.protocol)
        if "features" in read_header(file) or protocol.unit_length or protocol.normalize:  # no network scales features
            continue
        trained = keys[_trained_on(source, result)]
        model = load(file, classes=own_classes(options.methods))
        save_with_notes(make_pipeline(source.network, model), file, {TRAINED_ON: np.sort(trained)})


def _add_names(features: list[str], kept: "Sequence[Result]", options: argparse.Namespace) -> None:
    """Let models of a table know the names of its columns."""
    for result in kept:
        file = Path(options.out, str(result.model))
        model = load(file, classes=own_classes(options.methods))
        if feature_names(model) != features:
            first_step(model).feature_names_in_ = np.array(features, dtype=object)
            save(model, file)


def _learned_from(path: str, options: argparse.Namespace) -> tuple[Any, Samples]:
    """PretrainedFeatures and the features of pictures for a comparison."""
    is_neighbors = options.task == "neighbors" or (options.protocol or "").startswith("neighbors")
    needed = [("jinja2", "jinja2")] if options.out else []
    images, network = open_pictures(path, options, labeled=not is_neighbors, needed=needed)
    return learn_from(images, network, options)


def write_pages(
    options: argparse.Namespace, sources: Sequence[PictureSource], results: "Sequence[Result]"
) -> list[Path]:
    """Write a page for each data set of pictures, in which the kept models of the first split search all pictures."""
    pages = []
    for source in sources:
        kept = [result for result in results if result.dataset == source.name and result.seed == 0 and result.model]
        if source.network is None or not kept:
            continue
        from skhash.displays import write_image_browser

        X = np.load(source.file)["X"]
        network = source.network.network
        given: dict[str, Any] = {} if isinstance(network, str) else {"backbone": network}
        given["classes"] = own_classes(options.methods)
        codes, trained = {}, {}
        for result in kept:
            name = f"{result.method}, {result.nbits} bits"
            hasher = find_hasher(load(Path(options.out, str(result.model)), **given))
            codes[name], trained[name] = hasher.codes(X), _trained_on(source, result)
        pages.append(Path(options.out, f"pictures_{source.name}.html"))
        images = load_pictures(source.path, options, size=THUMBNAIL, broken=options.broken)
        title = f"{source.name}: pictures by Hamming distance"
        write_image_browser(pages[-1], images, codes, trained=trained, title=title)
    return pages


def _trained_on(source: PictureSource, result: "Result") -> Any:
    """Whether each sample of a data set is one that the hasher of a result has learned from."""
    arrays = np.load(source.file)
    n = len(arrays["X"])
    drawn = draw(n, as_targets(arrays["y"]) if "y" in arrays else None, check_protocol(result.protocol), result.seed)
    return np.isin(np.arange(n), drawn.train)
