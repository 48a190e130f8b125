"""Load a data set from a file or from the web, and split it."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skhash._validation import with_nearest
from skhash.datasets.npz_files import read_npy, read_npz
from skhash.datasets.protocols import Protocol, check_protocol
from skhash.datasets.splitting import check_arrays, split_arrays
from skhash.exceptions import InvalidFileError

if TYPE_CHECKING:
    from sklearn.utils import Bunch


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
#: shapes of the images whose pixels are the features
_IMAGES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "fashion_mnist": (1, 28, 28), "usps": (1, 16, 16)}
_OPENML = {
    "mnist": _OnOpenML("mnist_784", 1, np.uint8, n_test=10_000),
    "fashion_mnist": _OnOpenML("Fashion-MNIST", 1, np.uint8, n_test=10_000),
    # pixels from -1 to 1, like the features of isolet
    "usps": _OnOpenML("USPS", 2, np.float32, shift=1, first_label=1),
    "isolet": _OnOpenML("isolet", 1, np.float32, first_label=1),
}


def load_dataset(
    name: str | os.PathLike[str] = "digits",
    *,
    protocol: str | Protocol | None = None,
    random_state: int | np.random.RandomState | None = 0,
    data_home: str | os.PathLike[str] | None = None,
) -> "Bunch":
    """Load a data set, split by a protocol.

    A file ``<name>.npz`` is searched in `data_home`, then in the folder that the environment
    variable ``SKHASH_DATA`` names. If there is none, digits comes with scikit-learn, and mnist,
    fashion_mnist, usps and isolet are fetched from openml.org.

    Parameters
    ----------
    name : str or path, default="digits"
        "digits", "mnist", "fashion_mnist", "usps", "isolet", "cifar10_gist512" (also "cifar_gist",
        "cifar10"), "mirflickr25k_tags1386" (also "mirflickr"); or an .npz file of
        your own, by path or by its name in one of the two folders. It holds X, and optionally
        y, ``scale`` (real value = X * scale) and ``test`` (True for the test samples). Other
        arrays are ignored, with a warning. An .npy file holds X alone.
    protocol : str or Protocol, default=None
        A name in `PROTOCOLS`. None takes the default of the data set: "5k" for mnist,
        fashion_mnist, usps and cifar10_gist512, "struct" for isolet, "mirflickr" for
        MIRFlickr, "holdout" for digits and your own files, "labelme" for your own files without y.
    random_state : int, RandomState instance or None, default=0
        Decides the split. The three random splits of the comparisons are the seeds 0, 1, 2.
    data_home : path, default=None
        Folder of .npz files. Fetched data are stored there, too.

    Returns
    -------
    Bunch
        The result of `split`: X and y of queries, database and training samples,
        ``affinity``, ``train_index``, ``name``, ``protocol``, ``DESCR``. If the features are the pixels of images
        (digits, mnist, fashion_mnist, usps), also ``image_shape``, their channels, height and width.

    Raises
    ------
    InvalidFileError
        If the file is damaged or encrypted, holds Python objects, has no X, or its arrays are not
        finite or do not fit each other.
    ValueError
        If a name is unknown, or the data do not suit the protocol.
    FileNotFoundError
        If a file that cannot be fetched is missing.

    Examples
    --------
    >>> from skhash.datasets import load_dataset
    >>> data = load_dataset("digits")
    >>> data.X_train.shape, data.affinity
    ((1438, 64), ClassAffinity())
    >>> print(data.DESCR)  # doctest: +NORMALIZE_WHITESPACE
    digits, protocol 'holdout': 359 queries against 1,438 database samples,
    1,438 of them for training; relevance = same class.
    """
    from sklearn.utils import check_random_state

    text = _check_type(name)
    check_random_state(random_state)  # an error of the seed must not name the file
    if protocol is not None:
        check_protocol(protocol)  # before any reading or fetching
    name = ALIASES.get(text, text)
    path = find_file(name, data_home)
    if path is None:
        check_names([name])
        arrays = fetch(name, data_home)
    else:
        arrays = read_npy(path) if path.suffix == ".npy" else read_npz(path)
    try:
        X, scale = check_arrays(arrays["X"], arrays.get("y"), arrays.get("scale", 1.0))
    except (ValueError, TypeError) as error:
        raise InvalidFileError(path or name, f"cannot be used: {error}") from error
    if protocol is None:
        protocol = DEFAULT_PROTOCOLS.get(name, "holdout" if "y" in arrays else "labelme")
    try:
        label = Path(name).name.removesuffix(".npz").removesuffix(".npy")
        data = split_arrays(
            X, arrays.get("y"), scale, check_protocol(protocol), random_state, label, arrays.get("test")
        )
    except (ValueError, TypeError) as error:
        reason = f"does not suit protocol {str(protocol)!r}: {error}"
        raise (InvalidFileError(path, reason) if path else ValueError(f"Data set {name!r} {reason}")) from error
    if name in _IMAGES:
        data.image_shape = _IMAGES[name]
    return data


def check_names(names: Iterable[str | os.PathLike[str]]) -> None:
    """Raise ValueError with all names that are no data set and no file; a path of a missing file is no error here."""
    texts = [_check_type(name) for name in names]
    known = [*DEFAULT_PROTOCOLS, *ALIASES]
    if unknown := [text for text in texts if not (text in known or text.endswith(_ENDINGS) or find_file(text, None))]:
        asked = {text.lower().replace("-", "_") for text in unknown}
        loaders = [f"load_{folder}" for folder in ("nus_wide", "ms_coco", "imagenet100") if folder in asked]
        hint = f" Its images are read by skhash.datasets.{loaders[0]}." if loaders else ""
        raise ValueError(
            f"`name` must be one of {', '.join(known)}, or an .npz or .npy file (by path, or in SKHASH_DATA). "
            f"Got {with_nearest(unknown, known)} instead.{hint}"
        )


def _check_type(name: str | os.PathLike[str]) -> str:
    """Name as text; TypeError unless it can be the name of a data set or the path of a file."""
    if not isinstance(name, str | os.PathLike):
        raise TypeError(f"`name` must be the name of a data set or the path of an .npz file. Got {name!r} instead.")
    return os.fspath(name)


def find_file(name: str, data_home: Any) -> Path | None:
    """Path of the file of a data set; None if there is none."""
    is_file_name = name.endswith(_ENDINGS)
    folders = ["." if is_file_name else None, data_home, os.environ.get("SKHASH_DATA")]
    paths = (Path(folder, name if is_file_name else f"{name}.npz").expanduser() for folder in folders if folder)
    return next((path for path in paths if path.is_file()), None)


def fetch(name: str, data_home: Any) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a data set that comes with scikit-learn or from the web."""
    from sklearn.datasets import fetch_openml, load_digits

    if name == "digits":
        return dict(zip("Xy", load_digits(return_X_y=True), strict=True))
    if name not in DEFAULT_PROTOCOLS:
        raise FileNotFoundError(f"There is no file {name!r}, neither here nor in data_home or SKHASH_DATA.")
    remedy = f"Put {name}.npz (arrays X and y) into a folder and set SKHASH_DATA to that folder."
    if name not in _OPENML:
        raise FileNotFoundError(f"Data set {name!r} cannot be fetched. {remedy}")
    source = _OPENML[name]
    try:
        X, y = fetch_openml(source.title, version=source.version, data_home=data_home, as_frame=False, return_X_y=True)
    except OSError as error:
        raise OSError(f"Data set {name!r} could not be fetched: {error}. {remedy}") from error
    arrays = {"X": X.astype(source.dtype) + source.dtype(source.shift), "y": y.astype(np.uint8) - source.first_label}
    if source.n_test is not None:
        arrays["test"] = np.arange(len(X)) >= len(X) - source.n_test
    return arrays


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
