"""Save a fitted hasher or an index."""

import json
import os
from typing import TYPE_CHECKING

from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skhash import __version__, hashers
from skhash._estimators import find_hasher
from skhash._files import atomic_write, qualified_name
from skhash.base import BaseHasher
from skhash.persistence._checking import check_hasher
from skhash.persistence._encoding import Encoder
from skhash.persistence._format import CHECKSUM, FORMAT, INDEXES, TEXT, checksum
from skhash.persistence._hashers import encode_hasher, encode_scaled, is_hasher, is_scaled
from skhash.persistence._reading import parse

if TYPE_CHECKING:  # slow to import
    from sklearn.pipeline import Pipeline

    from skhash.neighbors import HammingNeighbors


def save(hasher: "BaseHasher | Pipeline | HammingNeighbors", path: str | os.PathLike[str]) -> None:
    """Save a fitted hasher or an index: its parameters and all fitted attributes, with a checksum.

    The write is atomic. Callbacks are left out, and `checkpoint`, a folder of this machine. Of
    functions that serve training alone (`optimizer`, `lr_schedule`, `augment`) only the names
    are saved. A backbone module or
    an affinity of your own is code, which must be passed to :func:`load` again; the
    trained weights of a module are in the file.

    An index is saved with its codes, its identifiers, and its hasher. Its original vectors are
    not saved, because they are kept by reference, and neither is a pipeline: pass both to
    :func:`load` again. ``numpy.save(file, index.vectors_)`` stores the vectors.

    A Pipeline of a StandardScaler and a hasher is saved, too. For other pipelines, and for hasher
    classes of your own, use skops or joblib.

    Parameters
    ----------
    hasher : BaseHasher, Pipeline or HammingNeighbors
        A fitted hasher or index of skhash, or a Pipeline of a StandardScaler and such a hasher.
    path : path-like
        The file, usually ``*.safetensors``. An existing file is replaced.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the hasher is not fitted.
    TypeError
        If its class is not part of skhash, or an attribute is neither data nor one of the above.
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
    from safetensors.numpy import save as to_bytes

    is_index = type(hasher).__name__ in INDEXES and type(hasher).__module__.startswith("skhash.neighbors.")
    if is_index:
        from skhash.persistence._indexes import check_index, encode_index, mapped_arrays
    inner = find_hasher(hasher) if is_scaled(hasher) else hasher
    if not is_index and not is_hasher(inner):
        remedy = "use skops or joblib for other classes, and for pipelines other than a StandardScaler and a hasher"
        remedy = "save its `estimator`" if isinstance(hasher, FrozenEstimator) else remedy
        raise TypeError(
            f"`hasher` must be one of {', '.join((*hashers.__all__, *INDEXES))} to be saved in {path}. Got a "
            f"{qualified_name(hasher)} instead; {remedy}."
        )
    check_is_fitted(hasher)
    encoder = Encoder(path)
    encode = encode_index if is_index else encode_hasher if inner is hasher else encode_scaled
    header = {
        "format": FORMAT,
        "version": __version__,
        "class": type(inner).__name__,
        "nbits": inner._nbits,
        "bit_order": "big",
        **encode(hasher, encoder),
    }
    text = json.dumps(header | {CHECKSUM: checksum(header, encoder.tensors)})
    try:  # what `load` would refuse
        (check_index if is_index else check_hasher)(inner)
        parse(text)
    except ValueError as error:
        raise ValueError(f"`hasher` cannot be saved in {path}: {error}") from error
    tensors = encoder.tensors | (mapped_arrays(hasher) if is_index else {})
    with atomic_write(path) as file:  # the file of safetensors' save_file could be read by its owner alone
        file.write(to_bytes(tensors, {TEXT: text}))
