"""Load a hasher or an index from a file."""

import os
from typing import Any

from skhash import __version__
from skhash._estimators import find_hasher
from skhash._files import qualified_name
from skhash.persistence._decoding import Decoder
from skhash.persistence._format import INDEXES
from skhash.persistence._hashers import decode_hasher, warn_of_resets
from skhash.persistence._reading import errors_name, read, short

_Path = str | os.PathLike[str]


def load(
    path: _Path,
    *,
    backbone: Any = None,
    affinity: Any = None,
    device: Any = None,
    hasher: Any = None,
    vectors: Any = None,
    check_codes: bool | None = None,
) -> Any:
    """Load a hasher or an index that :func:`save` wrote. No code in the file is run.

    The codes and identifiers of an index are not read but mapped: the system reads from the file
    what a search needs, and several processes share it. The file stays open until the index is
    gone, or has changed by ``add`` or ``remove``, which make copies. :func:`save` can replace the
    file in the meantime; do not write into it by other means.

    Parameters
    ----------
    path : path-like
        The file.
    backbone : torch.nn.Module, default=None
        The backbone module that the hasher was given. It receives the trained weights of
        the file when samples are hashed; a refit starts with its own.
    affinity : callable, default=None
        The affinity that the hasher was given, if it is not from :mod:`skhash.affinity`;
        if the affinity learns, the fitted one, ``hasher.affinity_``.
    device : str or torch.device, default=None
        Where a deep hasher computes; not for other hashers. None takes the saved device,
        or "auto" if that is not available.
    hasher : estimator, default=None
        The fitted Pipeline or search that an index was fitted with: neither is saved.
    vectors : array of shape (n_samples, n_features), default=None
        The original vectors that an index with `rerank` reads, in the order of its items: those of
        fit, or ``index.vectors_`` after ``add`` or ``remove``. They are kept by reference.
    check_codes : bool, default=None
        Whether to compare the codes and identifiers of an index with their checksums. This reads
        them all. None does it up to 16 MiB.

    Returns
    -------
    BaseHasher, Pipeline or HammingNeighbors
        The fitted hasher, Pipeline of a scaler and a hasher, or index. Functions that served
        training are reset to the default of their parameter, and `checkpoint` to None, so that a
        fit writes nowhere; both with a warning.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    InvalidFileError
        If the file is damaged, of another program, or not one that this version can read,
        whatever is wrong with it. The message begins with the path.
    ValueError
        If a module, an affinity, a hasher or vectors are missing, not needed or of another
        shape, or a device is not needed or not available.

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
    header, tensors = read(path)
    is_index = header["class"] in INDEXES
    given = {
        "backbone": backbone,
        "affinity": affinity,
        "hasher": hasher,
        "vectors": vectors,
        "check_codes": check_codes,
    }
    decoder = Decoder(path, tensors, given)
    versions = f"(written by skhash {short(header['version'])}) is damaged or does not suit skhash {__version__}"
    with errors_name(path, versions):
        if is_index:
            from skhash.persistence._indexes import decode_index, inner_hasher

            loaded: Any = decode_index(header, decoder, device)
        else:
            loaded = decode_hasher(header, decoder, device)
    for name, value in given.items():
        if value is not None and name not in decoder.used:
            raise ValueError(
                f"`{name}` must be None: the {'index' if is_index else 'hasher'} in {path} needs none. "
                f"Got {qualified_name(value)} instead."
            )
    inner, saved = (inner_hasher(loaded), header["hasher"]) if is_index else (find_hasher(loaded), header)
    if backbone is not None:
        try:
            inner._module()
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"`backbone` does not fit the weights in {path}: {error}") from error
    if inner is not None and "hasher" not in decoder.used:
        warn_of_resets(path, saved, inner)
    return loaded
