"""Real data sets, and the named protocols that papers split them by.

Two figures compare only if queries, training rows, database, cut-off and
relevance rule are the same. A `Protocol` holds all of these, `split` applies one
to any arrays, and `load_dataset` does both for a data set; the ``DESCR`` of the
result is the sentence to print beside every figure.
"""

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch, check_array, check_random_state

from skhash._targets import take_targets
from skhash.affinity import (
    ClassAffinity,
    DistanceAffinity,
    SharedLabelsAffinity,
    fit_affinity,
    resolve_affinity,
)

# --- which rows: each rule maps (class of every row, how many, rng) to row numbers in random order


def _randomly(classes, size, rng):
    return rng.permutation(len(classes))[:size]


def _first(classes, size, rng):
    return np.arange(size)


def _evenly(classes, size, rng):
    """Equally many rows of each class; what a small class lacks comes from the others."""
    order, turn, _ = _turns(classes, rng)
    return order[np.argsort(turn, kind="stable")[:size]]


def _evenly_up_to_half(classes, size, rng):
    """As `_evenly`, but a class keeps half of its rows as long as others have some to give."""
    order, turn, class_size = _turns(classes, rng)
    late = turn >= class_size // 2
    return order[np.lexsort((turn, late))[:size]]


def _proportionally(classes, size, rng):
    """The same share of each class, rounded; a class of a single row is left alone."""
    order, turn, class_size = _turns(classes, rng)
    return order[np.argsort((turn + 0.5) / class_size, kind="stable")[:size]]


def _turns(classes, rng):
    """Shuffled rows, the turn of each inside its class (0 for the first one), and the size of its class."""
    order = rng.permutation(len(classes))
    shuffled = classes[order]
    by_class = np.argsort(shuffled, kind="stable")
    sizes = np.bincount(classes)
    turn = np.empty(len(order), dtype=np.int64)
    turn[by_class] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order, turn, sizes[shuffled]


# --- the protocols


@dataclass(frozen=True)
class Protocol:
    """Everything that must be equal before two figures may be compared.

    The database is all rows but the queries, and the training rows lie in it.
    Derive your own with ``dataclasses.replace(PROTOCOLS["5k"], name="1k", n_train=1000)``.

    Parameters
    ----------
    name, description : str
        Name, and the sizes in words.
    n_query : int or float
        Number of queries; a float is a share of the rows.
    n_train : int, default=None
        Number of training rows; None takes the whole database.
    draw_query, draw_train : callable
        ``draw(classes, size, rng)`` gives `size` row numbers; default at random.
    n_rows : int, default=None
        Rows used of larger data, drawn at random; 999 more are still all used,
        and on fewer rows every size shrinks in proportion.
    affinity : "auto" or callable, default="auto"
        Relevance rule. If it needs no labels, the rows of X are the targets.
    relevance : str
        The relevance rule in words; None says what the affinity compares.
    cutoff : int, default=None
        Recommended ``k`` of the metrics; None ranks the whole database.
    unit_length : bool, default=False
        Centre X on the training mean, then scale its rows to unit length.

    Examples
    --------
    >>> from skhash.datasets import PROTOCOLS
    >>> PROTOCOLS["struct"].sizes(9298)
    (9298, 2000, 2000)
    """

    name: str
    description: str
    n_query: int | float
    n_train: int | None = None
    draw_query: Callable = _randomly
    draw_train: Callable = _randomly
    n_rows: int | None = None
    affinity: object = "auto"
    relevance: str | None = None
    cutoff: int | None = None
    unit_length: bool = False

    def __str__(self):
        return self.name

    @property
    def requires_y(self):
        """Whether labels are needed."""
        return getattr(self.affinity, "requires_y", True)

    def sizes(self, n):
        """Compute how many rows are used, are queries, and are for training.

        Parameters
        ----------
        n : int
            Rows of the data.

        Returns
        -------
        n_rows : int
            Rows used.
        n_query : int
            Queries among them.
        n_train : int
            Training rows among the others.

        Raises
        ------
        ValueError
            If the data are too small for the protocol.

        Examples
        --------
        >>> from skhash.datasets import PROTOCOLS
        >>> PROTOCOLS["labelme"].sizes(11_000)  # half of the rows that it was made for
        (11000, 1000, 2500)
        """
        n_rows = n if self.n_rows is None or n < self.n_rows + 1000 else self.n_rows
        shrink = 1 if self.n_rows is None else min(1, n / self.n_rows)
        n_query = round(self.n_query * n_rows) if isinstance(self.n_query, float) else int(self.n_query * shrink)
        n_train = n_rows - n_query if self.n_train is None else int(self.n_train * shrink)
        if n_query < 1 or n_train < 2 or n_query + n_train > n_rows:
            raise ValueError(
                f"X has {n:,} rows; protocol {self.name!r} wants {n_query:,} queries and {n_train:,} other rows to "
                "train on (never fewer than 1 and 2)."
            )
        return n_rows, n_query, n_train


_HOLDOUT = Protocol(
    "holdout", "20 % of each class are queries; training on the whole database", 0.2, draw_query=_proportionally
)
_5K = Protocol(
    "5k", "1,000 queries and 5,000 training rows, equally many of each class", 1000, 5000, _evenly_up_to_half, _evenly
)
_STRUCT = Protocol("struct", "2,000 random queries and 2,000 random training rows", 2000, 2000, cutoff=100)
_LABELME = Protocol(
    "labelme",
    "22,000 rows, centred and of unit length: 2,000 random queries, 5,000 random training rows",
    2000,
    5000,
    n_rows=22_000,
    affinity=DistanceAffinity(percentiles=(5, 1, 0.2, 0.1), levels=(1, 2, 5, 10)),
    relevance="levels 1, 2, 5, 10 at the distances of the nearest 5, 1, 0.2, 0.1 % of the training pairs",
    unit_length=True,
)
_MIRFLICKR = Protocol(
    "mirflickr",
    "the first 2,000 rows are the queries; 5,000 random training rows",
    2000,
    5000,
    draw_query=_first,
    affinity=SharedLabelsAffinity(),
)
PROTOCOLS = {protocol.name: protocol for protocol in (_HOLDOUT, _5K, _STRUCT, _LABELME, _MIRFLICKR)}


def split(X, y=None, protocol="holdout", random_state=0, *, scale=1.0, name="data"):
    """Split arrays into queries, database and training rows by a protocol.

    Parameters
    ----------
    X : array-like of shape (n, ...)
        Feature rows.
    y : array-like of shape (n,) or (n, n_labels), default=None
        Class labels or a 0/1 matrix of labels; not used by "labelme".
    protocol : str or Protocol, default="holdout"
        A name in `PROTOCOLS`, or a protocol of your own.
    random_state : int, RandomState instance or None, default=0
        Decides the split: three random splits are the seeds 0, 1, 2.
    scale : float or array-like of shape (n_features,), default=1.0
        What the stored X is multiplied by; applied to the rows that are used.
    name : str, default="data"
        Name of the data, for ``DESCR``.

    Returns
    -------
    Bunch
        ``X_query``, ``X_database`` and ``X_train`` (float32), ``y_query``,
        ``y_database`` and ``y_train``; ``affinity`` (fitted on the training
        rows); ``train_index``, the positions of the training rows inside the
        database; ``name``, ``protocol`` (a `Protocol`) and ``DESCR``, one
        sentence to print beside the results. The database is in random order.
        Where all of it is for training, ``X_train`` is ``X_database``; under
        "labelme" each ``y_...`` is the ``X_...`` itself.

    Raises
    ------
    ValueError
        If the protocol is unknown, or the data do not suit it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.datasets import split
    >>> data = split(*load_digits(return_X_y=True), "holdout", random_state=1)
    >>> data.X_query.shape, data.X_database.shape
    ((359, 64), (1438, 64))
    """
    protocol = _check_protocol(protocol)
    X, scale = _check_data(X, y, scale, protocol)
    query, database, train = _draw(protocol, X, y, check_random_state(random_state))

    X_query, X_database = _real_values(X, query, scale), _real_values(X, database, scale)
    if protocol.unit_length:
        mean = X_database[train].mean(axis=0, dtype=np.float64)
        _centre_to_unit_length(X_query, mean)
        _centre_to_unit_length(X_database, mean)
    X_train = X_database if len(train) == len(database) else X_database[train]

    if protocol.requires_y:
        y_query, y_database, y_train = (take_targets(y, rows) for rows in (query, database, database[train]))
    else:
        y_query, y_database, y_train = X_query, X_database, X_train
    affinity = fit_affinity(resolve_affinity(protocol.affinity, y), y_train)
    affinity(y_query[:1], y_train[:1])  # targets that do not suit the affinity fail here, not after the training

    sizes = f"{len(query):,} queries against {len(database):,} database rows, {len(train):,} of them for training"
    known = {ClassAffinity: "same class", SharedLabelsAffinity: "number of shared labels"}
    rules = f"relevance = {protocol.relevance or known.get(type(affinity), repr(affinity))}"
    if protocol.cutoff:
        rules += f"; the paper cuts rankings at {protocol.cutoff}"
    features = {"X_train": X_train, "X_query": X_query, "X_database": X_database}
    targets = {"y_train": y_train, "y_query": y_query, "y_database": y_database}
    about = {"name": name, "protocol": protocol, "DESCR": f"{name}, protocol {protocol.name!r}: {sizes}; {rules}."}
    return Bunch(**features, **targets, affinity=affinity, train_index=train, **about)


def _check_protocol(protocol):
    if isinstance(protocol, Protocol):
        return protocol
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise ValueError(f"protocol={protocol!r} is unknown; one of {', '.join(PROTOCOLS)} or a Protocol is wanted.")
    return PROTOCOLS[protocol]


def _check_data(X, y, scale, protocol):
    X = check_array(X, allow_nd=True, input_name="X")
    if y is None and protocol.requires_y:
        raise ValueError(f"y is None; protocol {protocol.name!r} wants labels (protocol='labelme' works without).")
    if y is not None and np.shape(y)[:1] != (len(X),):
        raise ValueError(f"y has shape {np.shape(y)}; one row for each of the {len(X):,} rows of X is wanted.")
    scale = np.asarray(scale, dtype=np.float32)
    if scale.shape not in ((), X.shape[1:]):
        raise ValueError(f"scale has shape {scale.shape}; one number, or an array of shape {X.shape[1:]}, is wanted.")
    return X, scale


def _draw(protocol, X, y, rng):
    """Row numbers of the queries and of the database, and positions in the database of the training rows."""
    n_rows, n_query, n_train = protocol.sizes(len(X))
    classes = _class_numbers(y, len(X))
    query = protocol.draw_query(classes, n_query, rng)
    database = rng.permutation(np.setdiff1d(np.arange(len(X)), query))[: n_rows - n_query]
    draw_train = _first if n_train == len(database) else protocol.draw_train
    return query, database, draw_train(classes[database], n_train, rng)


def _class_numbers(y, n):
    """Class of each row, 0, 1, ...; the same one for all rows where `y` does not hold one label a row."""
    if np.shape(y) not in ((n,), (n, 1)):
        return np.zeros(n, dtype=np.int64)
    return np.unique(np.ravel(y), return_inverse=True)[1]


def _real_values(X, rows, scale):
    values = X[rows].astype(np.float32, copy=False)
    values *= scale
    return values


def _centre_to_unit_length(values, mean):
    values -= mean
    length = np.linalg.norm(values, axis=1, keepdims=True)
    values /= np.where(length > 0, length, 1)


# --- the data sets


def load_dataset(name="digits", *, protocol=None, random_state=0, data_home=None):
    """Load a data set, split by a protocol.

    A file ``<name>.npz`` is looked for in `data_home`, then in the folder that
    the environment variable ``SKHASH_DATA`` names. Without one, digits comes with
    scikit-learn, and mnist and usps are fetched from openml.org.

    Parameters
    ----------
    name : str or path, default="digits"
        "digits", "mnist", "usps", "cifar10_gist512" (also "cifar_gist",
        "cifar10"), "mirflickr25k_tags1386" (also "mirflickr"); or an .npz file of
        your own, by path or by its name in one of the two folders. It holds X,
        and optionally y and ``scale`` (real value = X * scale).
    protocol : str or Protocol, default=None
        A name in `PROTOCOLS`. None takes the usual one: "5k" for mnist, usps and
        cifar10_gist512, "mirflickr" for MIRFlickr, "holdout" for digits and your
        own files, "labelme" for your own files without y.
    random_state : int, RandomState instance or None, default=0
        Decides the split: three random splits are the seeds 0, 1, 2.
    data_home : path, default=None
        Folder of .npz files; what is fetched is kept there, too.

    Returns
    -------
    Bunch
        What `split` returns: X and y of queries, database and training rows,
        ``affinity``, ``train_index``, ``name``, ``protocol``, ``DESCR``.

    Raises
    ------
    ValueError
        If a name is unknown, or the file or the data do not suit the protocol.
    FileNotFoundError
        If the file is needed and not there.

    Examples
    --------
    >>> from skhash.datasets import load_dataset
    >>> data = load_dataset("digits")
    >>> data.X_train.shape, data.affinity
    ((1438, 64), ClassAffinity())
    >>> print(data.DESCR)  # doctest: +NORMALIZE_WHITESPACE
    digits, protocol 'holdout': 359 queries against 1,438 database rows, 1,438 of them for training;
    relevance = same class.
    """
    if not isinstance(name, str | os.PathLike):
        raise TypeError(f"name={name!r}: the name of a data set or the path of an .npz file is wanted.")
    if protocol is not None:
        _check_protocol(protocol)  # before any reading or fetching
    name = _ALIASES.get(os.fspath(name), os.fspath(name))
    arrays = _read(name, data_home)
    if protocol is None:
        protocol = _USUAL_PROTOCOLS.get(name, "holdout" if "y" in arrays else "labelme")
    return split(**arrays, protocol=protocol, random_state=random_state, name=Path(name).name.removesuffix(".npz"))


def _read(name, data_home):
    """Arrays of a data set: X, and y and scale where it has them."""
    path = _find_file(name, data_home)
    if path is not None:
        return _read_npz(path)
    if name in _FETCHERS:
        return _FETCHERS[name](data_home)
    if name in _USUAL_PROTOCOLS:
        raise FileNotFoundError(f"name={name!r} cannot be fetched. {_how_to_provide(name)}")
    if name.endswith(".npz"):
        raise FileNotFoundError(f"name={name!r}: no such file, neither here nor in data_home or SKHASH_DATA.")
    known = ", ".join([*_USUAL_PROTOCOLS, *_ALIASES])
    raise ValueError(f"name={name!r} is unknown; {known}, or an .npz file (by path, or in SKHASH_DATA) is wanted.")


def _find_file(name, data_home):
    is_file_name = name.endswith(".npz")
    folders = ["." if is_file_name else None, data_home, os.environ.get("SKHASH_DATA")]
    paths = (Path(folder, name if is_file_name else f"{name}.npz").expanduser() for folder in folders if folder)
    return next((path for path in paths if path.is_file()), None)


def _read_npz(path):
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in ("X", "y", "scale") if key in file}
            found = ", ".join(file)
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is no .npz archive of plain arrays; write it by numpy.savez(path, X=X, y=y), an array of objects "
            "as y.astype(str)."
        ) from error
    if "X" not in arrays:
        raise ValueError(f"{path} holds {found or 'nothing'}; an array named X is wanted.")
    return arrays


def _fetch_digits(data_home):
    from sklearn.datasets import load_digits

    return dict(zip("Xy", load_digits(return_X_y=True), strict=True))


def _fetch_mnist(data_home):
    X, y = _fetch_openml("mnist", "mnist_784", 1, data_home)
    return {"X": X.astype(np.uint8), "y": y.astype(np.uint8)}


def _fetch_usps(data_home):
    X, y = _fetch_openml("usps", "USPS", 2, data_home)
    # openml.org has pixels from -1 to 1 and labels from 1 to 10; here both begin at 0
    return {"X": X.astype(np.float32) + 1, "y": y.astype(np.uint8) - 1}


def _fetch_openml(name, title, version, data_home):
    from sklearn.datasets import fetch_openml

    try:
        return fetch_openml(title, version=version, data_home=data_home, as_frame=False, return_X_y=True)
    except OSError as error:
        raise OSError(f"name={name!r} could not be fetched: {error}. {_how_to_provide(name)}") from error


def _how_to_provide(name):
    return f"Put {name}.npz (arrays X and y) into a folder and set SKHASH_DATA to that folder."


_USUAL_PROTOCOLS = {
    "digits": "holdout",
    "mnist": "5k",
    "usps": "5k",
    "cifar10_gist512": "5k",
    "mirflickr25k_tags1386": "mirflickr",
}
_ALIASES = {"cifar_gist": "cifar10_gist512", "cifar10": "cifar10_gist512", "mirflickr": "mirflickr25k_tags1386"}
_FETCHERS = {"digits": _fetch_digits, "mnist": _fetch_mnist, "usps": _fetch_usps}
