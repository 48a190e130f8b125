"""Load a data set from a file or from the web, and split it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skhash.datasets._npz import read_npy, read_npz
from skhash.datasets._sources import ALIASES, DEFAULT_PROTOCOLS, Arrays, check_names, check_type, fetch, find_file
from skhash.datasets._splitting import check_arrays, split_arrays
from skhash.datasets.protocols import Protocol, check_protocol
from skhash.exceptions import InvalidFileError

if TYPE_CHECKING:
    from sklearn.utils import Bunch


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
        ``affinity``, ``train_index``, ``name``, ``protocol``, ``DESCR``.

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

    check_type(name)
    check_random_state(random_state)  # an error of the seed must not name the file
    if protocol is not None:
        check_protocol(protocol)  # before any reading or fetching
    name = ALIASES.get(os.fspath(name), os.fspath(name))
    path = find_file(name, data_home)
    if path is None:
        check_names([name])
    arrays = fetch(name, data_home) if path is None else _read(path)
    try:
        X, scale = check_arrays(arrays["X"], arrays.get("y"), arrays.get("scale", 1.0))
    except (ValueError, TypeError) as error:
        raise InvalidFileError(path or name, f"cannot be used: {error}") from error
    if protocol is None:
        protocol = DEFAULT_PROTOCOLS.get(name, "holdout" if "y" in arrays else "labelme")
    try:
        label = Path(name).name.removesuffix(".npz").removesuffix(".npy")
        return split_arrays(
            X, arrays.get("y"), scale, check_protocol(protocol), random_state, label, arrays.get("test")
        )
    except (ValueError, TypeError) as error:
        reason = f"does not suit protocol {str(protocol)!r}: {error}"
        raise (InvalidFileError(path, reason) if path else ValueError(f"Data set {name!r} {reason}")) from error


def _read(path: Path) -> Arrays:
    return read_npy(path) if path.suffix == ".npy" else read_npz(path)
