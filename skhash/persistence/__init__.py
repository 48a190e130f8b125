"""Save a fitted hasher or an index in one file, and load it without running code from the file.

The file is a safetensors file. Arrays are its tensors. Everything else is JSON, in its
metadata under the key "skhash":

    {"format": 2, "version": "0.1.0", "class": "ITQHasher", "nbits": 32, "bit_order": "big",
     "params": {name: value}, "fitted": {name: value}, "sha256": checksum}

The class of a hasher that is not part of skhash has a dotted name, "package.module.Mine".
A Pipeline has the JSON of its hasher, and "scaler" (a StandardScaler) or "features" (PretrainedFeatures) with "params"
and "fitted" of the first step, and "names" of the two steps. "notes" hold what the command line
remembers beside it, see :func:`save_with_notes`. An index has the "fingerprint" of its hasher, see
:mod:`skhash.persistence.fingerprint`, and "least_id", a number above the identifiers of all removed items.

What JSON lacks is an object with a key that begins with "$":

    {"$array": tensor, "order": "C" or "F"}    "F": the array is the transpose of the tensor; for strings and rare
                                               dtypes the tensor has bytes, and "dtype" and "shape" are there, too
    {"$text": tensor, "shape": [...]}          an array of dtype object that holds text: its bytes in UTF-8. The tensor
                                               named "<tensor>.ends" tells where each part ends
    {"$objects": [...], "shape": [...]}        another array of dtype object
    {"$sparse": class, "shape": [...], "parts": [data, indices, indptr]}
    {"$scalar": value, "dtype": dtype}         {"$tuple": [...]}         {"$dict": [[key, value], ...]}
    {"$affinity": class, "fields": {...}}
    {"$given": class, "name": parameter}       a module or affinity that must be passed to `load`
    {"$default": class}                        a function or generator for training alone: the parameter's default
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skhash._files import check_writable
from skhash._validation import qualified_name
from skhash.exceptions import InvalidFileError
from skhash.persistence._checking import errors_name, require, short
from skhash.persistence._hashers import (
    HEADER,
    check_hasher,
    decode_hasher,
    encode_hasher,
    is_hasher,
    is_hasher_class,
    is_own,
    is_pipeline,
    name_of_class,
    warn_of_resets,
)
from skhash.persistence.format import ValueDecoder, ValueEncoder, read_file, write_file
from skhash.persistence.indexes import (
    FINGERPRINT,
    INDEX_HEADER,
    MAPPED,
    check_index,
    decode_index,
    encode_index,
    is_index,
    mapped_arrays,
    saved_model,
)
from skhash.registry import FIRST_STEPS, FUNCTIONS, INDEXES, SAVED

__all__ = ["load", "save"]

#: key of the JSON of a file under which `save_with_notes` keeps its notes
NOTES = "notes"


def save(hasher: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Save a fitted hasher or an index: its parameters and all fitted attributes, with a checksum.

    The write is atomic. Callbacks are left out, and so is `checkpoint`, a folder of this machine.
    Functions that serve only training (`optimizer`, `lr_schedule`, `augment`) and a
    `random_state` that is an instance are saved by name only. A backbone module or
    an affinity of your own is code: pass it to :func:`load` again. The trained weights of a
    module are in the file.

    A Pipeline of a StandardScaler and a hasher is saved, too, and one of PretrainedFeatures. Its network is
    not in the file: one with a name is loaded by this name again, and a module must be passed to
    :func:`load` as `backbone`. Its weights must be those of the fit. For other pipelines use skops or joblib.

    A hasher class of your own is saved by its name and without its code, if its `function_` is of a kind that
    ``skhash.registry.FUNCTIONS`` names, and the class annotates what else `fit` sets, such as
    ``mean_: Annotated[NDArray, Array("n_features")]`` with :class:`skhash.functions.Array`. Otherwise use skops or
    joblib.

    An index is saved with its codes, its identifiers, and its hasher or such a Pipeline, without the codes of the
    training samples that `score` ranks. An item takes ceil(nbits / 8) bytes, 8 for its identifier unless it is its
    number, and 8 for factors. A hasher by itself takes as many for each training sample, and those of its target,
    unless it has ``store_database=False``. Its weights do not grow with the number of samples. The original
    vectors of an index are not saved, because they are kept by reference, and neither is another pipeline: pass
    both to :func:`load` again. ``numpy.save(file, index.vectors_)`` stores the vectors. The `fingerprint_` of the
    hasher is saved, so that :func:`load` refuses another hasher.

    Parameters
    ----------
    hasher : BaseHasher, QueryAdapter, Pipeline or HammingNeighbors
        A fitted hasher, adapter or index of skhash, or such a Pipeline.
    path : path-like
        The file, usually ``*.safetensors``. An existing file is replaced.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the hasher is not fitted.
    TypeError
        If it is no hasher or index, its function is of another kind, or an attribute is neither data nor one of the
        above.
    ValueError
        If :func:`load` would refuse the file: a fitted attribute is unknown, missing, not finite
        or of another shape.
    OSError
        If the file cannot be written. The old one is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash.persistence import load, save
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = ITQHasher(nbits=16, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(hasher, Path(folder) / "digits.safetensors")
    ...     again = load(Path(folder) / "digits.safetensors")
    >>> bool((again.encode(X) == hasher.encode(X)).all())
    True
    """
    save_with_notes(hasher, path, {})


def save_with_notes(hasher: Any, path: str | os.PathLike[str], notes: Mapping[str, Any]) -> None:
    """Save as :func:`save` does, with arrays and values that :func:`load` leaves out and `read_notes` returns."""
    estimator: Any = hasher
    inner = estimator.steps[-1][1] if is_pipeline(estimator) else estimator
    if not is_index(estimator) and not is_hasher(inner):
        if is_own(inner):
            raise TypeError(
                f"`hasher` must have a `function_` that a file can hold, one of {', '.join(FUNCTIONS)}, to be saved in "
                f"{path}. Got a {qualified_name(inner.function_)} instead; use skops or joblib."
            )
        remedy = "use skops or joblib for other classes, and for other pipelines"
        remedy = "save its `estimator`" if isinstance(estimator, FrozenEstimator) else remedy
        raise TypeError(
            f"`hasher` must be a hasher that derives from skhash.base.BaseHasher, a Pipeline of one step and such a "
            f"hasher, or one of {', '.join(INDEXES)} to be saved in {path}. Got a {qualified_name(estimator)} instead; "
            f"{remedy}."
        )
    check_is_fitted(estimator)
    check_writable(path)
    encode = encode_index if is_index(estimator) else encode_hasher
    encoder = ValueEncoder(path)
    header = {
        "class": type(inner).__name__ if is_index(estimator) else name_of_class(inner),
        "nbits": estimator._items.codes.nbits if is_index(estimator) else inner._n_features_out,
        "bit_order": "big",
        **encode(estimator, encoder),
    }
    if notes:
        header[NOTES] = encoder.encode(dict(notes), NOTES)
    try:  # what `load` would refuse
        (check_index if is_index(estimator) else check_hasher)(inner)
        write_file(path, header, encoder.tensors, mapped_arrays(estimator) if is_index(estimator) else None)
    except ValueError as error:
        raise ValueError(f"`hasher` cannot be saved in {path}: {error}") from error


def read_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Notes in a file of a hasher or an index, which nothing has checked; empty if there are none."""
    header, tensors = read_file(path, MAPPED)
    with errors_name(path, "has notes that cannot be read"):
        notes = ValueDecoder(path, tensors).decode(header.get(NOTES, {}))
        require(isinstance(notes, dict), NOTES, "a dict", notes)
    return notes  # type: ignore[no-any-return]


def load(
    path: str | os.PathLike[str],
    *,
    backbone: Any = None,
    affinity: Any = None,
    device: Any = None,
    hasher: Any = None,
    vectors: Any = None,
    check_codes: bool | None = None,
    classes: Iterable[type] = (),
) -> Any:
    """Load a hasher or an index that :func:`save` wrote. No code in the file is run.

    The class of a hasher that is not part of skhash is taken from `classes`, or from an installed package of the name
    in the file that lists the class as an entry point in the group ``skhash.methods``. Nothing else is imported.

    The codes and identifiers of an index are not read but mapped: the system reads from the file
    what a search needs, and several processes share it. The file stays open until the index is
    gone, or has changed by ``add`` or ``remove``, which make copies. :func:`save` can replace the
    file in the meantime; do not write into it by other means.

    Parameters
    ----------
    path : path-like
        The file.
    backbone : torch.nn.Module, default=None
        The backbone module that the hasher was given, which receives the trained weights of
        the file when samples are hashed (a refit starts with its own); or the network of PretrainedFeatures,
        with the weights that it had in the fit.
    affinity : callable, default=None
        The affinity that the hasher was given, if it is not from :mod:`skhash.affinity`;
        if the affinity learns, the fitted one, ``hasher.affinity_``.
    device : str or torch.device, default=None
        Where a deep hasher computes; not for other hashers. None takes the saved device,
        or "auto" if that is not available. The device of the search of an index is the saved one, or "auto".
    hasher : estimator, default=None
        The fitted search, or other Pipeline, that an index was fitted with and that is not saved. One with another
        `fingerprint_` is refused.
    vectors : array of shape (n_samples, n_features), default=None
        The original vectors that an index with `rerank` reads, in the order of its items: those of
        fit, or ``index.vectors_`` after ``add`` or ``remove``. They are kept by reference. The first search that reads
        them encodes 32 of them, and refuses vectors of other items. A frame whose index holds the ids is put in their
        order.
    check_codes : bool, default=None
        Whether to compare the codes and identifiers of an index with their checksums. This reads
        them all. None does it up to 16 MiB.
    classes : iterable of type, default=()
        Hasher classes of your own that the file may hold. They are found by their names.

    Returns
    -------
    BaseHasher, QueryAdapter, Pipeline or HammingNeighbors
        The fitted hasher, adapter, Pipeline or index. Functions and generators
        that served training are reset to the default of their parameter, and `checkpoint` to None,
        so that a fit writes nowhere; all with a warning.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    InvalidFileError
        If the file is damaged, of another program, or not one that this version can read,
        whatever is wrong with it. The message begins with the path.
    ValueError
        If a module, an affinity, a hasher or vectors are missing, not needed or of another
        shape, the hasher is another one than that of the index, or a device is not needed or not available.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash.persistence import load, save
    >>> X, y = load_digits(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "digits.safetensors"
    ...     save(ITQHasher(nbits=16, random_state=0).fit(X), file)
    ...     load(file)
    ITQHasher(nbits=16, random_state=0)
    """
    header, tensors = read_file(path, MAPPED)
    loads_index = _check_header(path, header)
    given = {"backbone": backbone, "affinity": affinity, "hasher": hasher, "vectors": vectors}
    given["check_codes"] = check_codes
    decoder = ValueDecoder(path, tensors, given | {"classes": _checked_classes(classes)})
    with errors_name(path, f"(written by skhash {short(header.get('version'))}) is damaged or does not suit this one"):
        loaded = decode_index(header, decoder, device) if loads_index else decode_hasher(header, decoder, device)
    for name, value in given.items():
        if value is not None and name not in decoder.used:
            raise ValueError(
                f"`{name}` must be None: the {'index' if loads_index else 'hasher'} in {path} needs none. "
                f"Got {qualified_name(value)} instead."
            )
    inner, saved = (saved_model(loaded), header["hasher"]) if loads_index else (loaded, header)
    first = inner.steps[0][1] if hasattr(inner, "steps") else inner
    inner = inner.steps[-1][1] if hasattr(inner, "steps") else inner
    if backbone is not None:
        try:
            if getattr(first, "network", None) is backbone:
                _ = first._module
            elif hasattr(inner.function_, "check"):
                inner.function_.check()
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"`backbone` does not fit the weights in {path}: {error}") from error
    if inner is not None and "hasher" not in decoder.used:
        warn_of_resets(path, saved, inner)
    return loaded


def _checked_classes(classes: Iterable[type]) -> list[type]:
    """List of classes; TypeError unless all of them are classes of hashers."""
    classes = list(classes) if isinstance(classes, Iterable) else [classes]
    for kind in classes:
        if not is_hasher_class(kind):
            raise TypeError(
                f"`classes` must hold classes that derive from skhash.base.BaseHasher. Got {kind!r} instead."
            )
    return classes


def _check_header(path: str | os.PathLike[str], header: dict[str, Any]) -> bool:
    """Whether a file holds an index and not a hasher; InvalidFileError if it holds neither."""
    kind = header.get("class")
    is_own_class = isinstance(kind, str) and "." in kind
    if kind not in (*SAVED, *INDEXES) and not is_own_class:
        raise InvalidFileError(
            path, f"must hold one of {', '.join((*SAVED, *INDEXES))}. Got {short(repr(kind))} instead."
        )
    required = HEADER | (INDEX_HEADER if kind in INDEXES else set())
    optional = {NOTES} | ({FINGERPRINT} if kind in INDEXES else set())
    steps = header.keys() & FIRST_STEPS.keys()
    if header.keys() - steps - optional != required or len(steps) > (kind not in INDEXES):
        raise InvalidFileError(path, f"must have the keys {sorted(required)}. Got {short(sorted(header))} instead.")
    if header["bit_order"] != "big":
        raise InvalidFileError(path, f"must have the bit order 'big'. Got {short(repr(header['bit_order']))} instead.")
    return kind in INDEXES
