"""Names of data sets, and where each comes from: a file, scikit-learn or openml.org."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skhash._validation.names import with_nearest

Arrays = dict[str, npt.NDArray[Any]]


class _OnOpenML(NamedTuple):
    """A data set on openml.org, and how it is converted: X + `shift` as `dtype`, and labels from 0."""

    title: str
    version: int
    dtype: type
    shift: int = 0
    first_label: int = 0
    n_test: int | None = None  # of the last samples, which are the test samples


_ENDINGS = (".npz", ".npy")
#: data sets with a name, and the protocol of each
DEFAULT_PROTOCOLS = {
    "digits": "holdout",
    "mnist": "5k",
    "fashion_mnist": "5k",
    "usps": "5k",
    "isolet": "struct",
    "cifar10_gist512": "5k",
    "mirflickr25k_tags1386": "mirflickr",
}
#: short names
ALIASES = {"cifar_gist": "cifar10_gist512", "cifar10": "cifar10_gist512", "mirflickr": "mirflickr25k_tags1386"}
_OPENML = {
    "mnist": _OnOpenML("mnist_784", 1, np.uint8, n_test=10_000),
    "fashion_mnist": _OnOpenML("Fashion-MNIST", 1, np.uint8, n_test=10_000),
    # pixels from -1 to 1, like the features of isolet
    "usps": _OnOpenML("USPS", 2, np.float32, shift=1, first_label=1),
    "isolet": _OnOpenML("isolet", 1, np.float32, first_label=1),
}


def check_names(names: Iterable[str | os.PathLike[str]]) -> None:
    """Raise ValueError with all names that are no data set and no file; a path of a missing file is no error here."""
    known, names = [*DEFAULT_PROTOCOLS, *ALIASES], list(names)
    for name in names:
        check_type(name)
    texts = [os.fspath(name) for name in names]
    unknown = [text for text in texts if not is_dataset(text) and find_file(text, None) is None]
    if unknown:
        raise ValueError(
            f"`name` must be one of {', '.join(known)}, or an .npz or .npy file (by path, or in SKHASH_DATA). "
            f"Got {with_nearest(unknown, known)} instead.{_loaders_of(unknown)}"
        )


def _loaders_of(names: Iterable[str]) -> str:
    """Sentence about the function that reads the images of the first of these data sets; empty if there is none."""
    asked = [name.lower().replace("_", "-") for name in names]
    loaders = [f"load_{name.replace('-', '_')}" for name in ("nus-wide", "ms-coco", "imagenet100") if name in asked]
    return f" Its images are read by skhash.datasets.{loaders[0]}." if loaders else ""


def check_type(name: object) -> None:
    """Raise TypeError unless this can be the name of a data set or the path of a file."""
    if not isinstance(name, str | os.PathLike):
        raise TypeError(f"`name` must be the name of a data set or the path of an .npz file. Got {name!r} instead.")


def sources() -> dict[str, list[str]]:
    """Names of the data sets by origin; a short name has the name of its file in parentheses."""
    aliases: dict[str, str] = {}
    for alias, name in ALIASES.items():
        aliases.setdefault(name, alias)  # the first alias of a data set
    return {
        "comes with scikit-learn": ["digits"],
        "a file in the folder that SKHASH_DATA names, or a download from openml.org": list(_OPENML),
        "a file in the folder that SKHASH_DATA names": [f"{alias} ({name}.npz)" for name, alias in aliases.items()],
    }


def is_dataset(name: str) -> bool:
    """Whether this is the name of a data set, or ends as the name of a file of arrays."""
    return name in DEFAULT_PROTOCOLS or name in ALIASES or name.endswith(_ENDINGS)


def fetch(name: str, data_home: Any) -> Arrays:
    """Arrays of a data set that comes with scikit-learn or from the web."""
    if name == "digits":
        return _fetch_digits()
    if name in _OPENML:
        return _fetch_openml(name, data_home)
    if name in DEFAULT_PROTOCOLS:
        raise FileNotFoundError(f"Data set {name!r} cannot be fetched. {_how_to_provide(name)}")
    raise FileNotFoundError(f"There is no file {name!r}, neither here nor in data_home or SKHASH_DATA.")


def find_file(name: str, data_home: Any) -> Path | None:
    """Path of the file of a data set; None if there is none."""
    is_file_name = name.endswith(_ENDINGS)
    folders = ["." if is_file_name else None, data_home, os.environ.get("SKHASH_DATA")]
    paths = (Path(folder, name if is_file_name else f"{name}.npz").expanduser() for folder in folders if folder)
    return next((path for path in paths if path.is_file()), None)


def _fetch_digits() -> Arrays:
    from sklearn.datasets import load_digits

    return dict(zip("Xy", load_digits(return_X_y=True), strict=True))


def _fetch_openml(name: str, data_home: Any) -> Arrays:
    from sklearn.datasets import fetch_openml

    source = _OPENML[name]
    try:
        X, y = fetch_openml(source.title, version=source.version, data_home=data_home, as_frame=False, return_X_y=True)
    except OSError as error:
        raise OSError(f"Data set {name!r} could not be fetched: {error}. {_how_to_provide(name)}") from error
    arrays = {"X": X.astype(source.dtype) + source.dtype(source.shift), "y": y.astype(np.uint8) - source.first_label}
    if source.n_test is not None:
        arrays["test"] = np.arange(len(X)) >= len(X) - source.n_test
    return arrays


def _how_to_provide(name: str) -> str:
    return f"Put {name}.npz (arrays X and y) into a folder and set SKHASH_DATA to that folder."
