"""Load a hasher from a file."""

import os
import warnings
from typing import Any

from skhash import __version__, hashers
from skhash._files import qualified_name, with_current_names
from skhash.base import BaseHasher
from skhash.persistence._checking import check_activations, check_hasher
from skhash.persistence._decoding import Decoder
from skhash.persistence._format import FOLDER, OUTPUT
from skhash.persistence._reading import ArgumentError, errors_name, read, short

_Path = str | os.PathLike[str]


def load(path: _Path, *, backbone: Any = None, affinity: Any = None, device: Any = None) -> BaseHasher:
    """Load a hasher that :func:`save` wrote. No code in the file is run.

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

    Returns
    -------
    BaseHasher
        The fitted hasher. Functions that served training are reset to the default of
        their parameter, and `checkpoint` to None, so that a fit writes nowhere; both with a
        warning.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    InvalidFileError
        If the file is damaged, of another program, or not one that this version can read,
        whatever is wrong with it. The message begins with the path.
    ValueError
        If a module or an affinity is missing, not needed or of another shape, or a device
        is not needed or not available.

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
    decoder = Decoder(path, tensors, {"backbone": backbone, "affinity": affinity})
    versions = f"(written by skhash {short(header['version'])}) is damaged or does not suit skhash {__version__}"
    with errors_name(path, versions):
        hasher = _build(header, decoder, device)
        check_hasher(hasher)
        check_activations(hasher)
    for name, value in decoder.given.items():
        if value is not None and name not in decoder.used:
            raise ValueError(
                f"`{name}` must be None: the hasher in {path} needs none. Got {qualified_name(value)} instead."
            )
    if backbone is not None:
        try:
            hasher._module()
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"`backbone` does not fit the weights in {path}: {error}") from error
    for name, value in _defaults(header).items():
        warnings.warn(
            f"{path} was saved with {name}={short(value)}, which is code and was not saved. "
            f"{name} is now {getattr(hasher, name)!r}, its default.",
            UserWarning,
            stacklevel=2,
        )
    if header["params"].get(FOLDER) is not None:
        warnings.warn(
            f"{path} has {FOLDER}={short(repr(header['params'][FOLDER]))}, a folder that fit would write to. "
            f"{FOLDER} is now None. Set it with set_params if you want that.",
            UserWarning,
            stacklevel=2,
        )
    return hasher


def _build(header: dict[str, Any], decoder: Decoder, device: Any) -> BaseHasher:
    """Hasher of a header, with its fitted attributes."""
    kind: type[BaseHasher] = getattr(hashers, header["class"])
    saved, defaults = with_current_names(header["params"]), _defaults(header)
    if unknown := saved.keys() - set(kind._get_param_names()):
        raise ValueError(f"{sorted(unknown)[0]!r} is not a parameter of {kind.__name__}.")
    params = {name: decoder.decode(value) for name, value in saved.items() if name not in defaults | {FOLDER: ""}}
    if "device" in params:
        params["device"] = _resolve_device(params["device"], device)
    elif device is not None:
        raise ArgumentError(
            f"`device` must be None: the hasher in {decoder.path} has no device. Got {device!r} instead."
        )
    hasher = kind(**params)
    hasher._validate_params()
    fitted = decoder.decode(header["fitted"])
    if unknown := {name for name in fitted if not kind._is_fitted_name(name) and name != OUTPUT}:
        raise ValueError(f"{sorted(unknown)[0]!r} is not an attribute of a fitted {kind.__name__}.")
    if type(header["nbits"]) is not int or fitted.get("_nbits") != header["nbits"]:
        raise ValueError(f"`_nbits` must be {header['nbits']!r}. Got {fitted.get('_nbits')!r} instead.")
    hasher.__dict__.update(fitted)
    return hasher


def _defaults(header: dict[str, Any]) -> dict[str, str]:
    """Parameters that are reset to their default, and the functions they had."""
    params = with_current_names(header["params"])
    return {
        name: value["$default"] for name, value in params.items() if isinstance(value, dict) and "$default" in value
    }


def _resolve_device(saved: Any, given: Any) -> Any:
    """The given device, which must be available, or the saved one if it is available."""
    from skhash.engine.runtime import resolve_device

    try:
        resolve_device(saved if given is None else given)
    except ValueError as error:
        if given is not None:
            raise ArgumentError(str(error)) from error
        return "auto"
    return saved if given is None else given
