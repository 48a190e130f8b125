"""Load a hasher from a file."""

import io
import json
import os
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash import __version__, hashers
from skhash._files import qualified_name, with_current_names
from skhash.base import BaseHasher
from skhash.persistence._format import AFFINITIES, FORMAT, HEADER, SPARSE

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
        their parameter, with a warning.

    Raises
    ------
    ValueError
        If this version cannot read the file, a module or an affinity is missing, not
        needed or of another shape, or a device is not needed or not available.

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
    header, tensors = _read(path)
    decoder = _Decoder(path, tensors, {"backbone": backbone, "affinity": affinity})
    try:
        hasher = _build(header, decoder, device)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}, written by skhash {header['version']}, is damaged "
            f"or does not suit skhash {__version__}: {error!r}"
        ) from error
    for name, value in decoder.given.items():
        if value is not None and name not in decoder.used:
            raise ValueError(
                f"`{name}` must be None: the hasher in {path} needs none. Got {qualified_name(value)} instead."
            )
    if backbone is not None:
        try:
            hasher._module()
        except RuntimeError as error:
            raise ValueError(f"`backbone` does not fit the weights in {path}: {error}") from error
    for name, value in _defaults(header).items():
        warnings.warn(
            f"{path} was saved with {name}={value}, which is code and was not saved. "
            f"{name} is now {getattr(hasher, name)!r}, its default.",
            UserWarning,
            stacklevel=2,
        )
    return hasher


def _build(header: dict[str, Any], decoder: "_Decoder", device: Any) -> BaseHasher:
    """Hasher of a header, with its fitted attributes."""
    defaults = _defaults(header)
    params = {
        name: decoder.decode(value)
        for name, value in with_current_names(header["params"]).items()
        if name not in defaults
    }
    if "device" in params:
        params["device"] = _resolve_device(params["device"], device)
    elif device is not None:
        raise ValueError(f"`device` must be None: the hasher in {decoder.path} has no device. Got {device!r} instead.")
    hasher: BaseHasher = getattr(hashers, header["class"])(**params)
    hasher.__dict__.update(decoder.decode(header["fitted"]))
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
    except ValueError:
        if given is not None:
            raise
        return "auto"
    return saved if given is None else given


def _read(path: _Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """JSON and tensors of a file, if it has this format."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("skhash", "null"))
            _check_header(path, header)
            # copies, so that fitted arrays do not change with the file
            return header, {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read as a file of skhash.persistence.save: {error}") from error


def _check_header(path: _Path, header: Any) -> None:
    if not isinstance(header, dict) or "format" not in header:
        raise ValueError(f"{path} must be a file of skhash.persistence.save. Got another safetensors file instead.")
    if header["format"] != FORMAT:
        raise ValueError(
            f"{path} must have format {FORMAT} for skhash {__version__}. "
            f"Got format {header['format']}, written by skhash {header.get('version')}, instead."
        )
    if missing := HEADER - header.keys():
        raise ValueError(f"{path} lacks {sorted(missing)}, which every file of skhash.persistence.save has.")
    if header["class"] not in hashers.__all__:
        raise ValueError(f"{path} must hold one of {', '.join(hashers.__all__)}. Got {header['class']!r} instead.")
    if header["bit_order"] != "big":
        raise ValueError(f"{path} must have the bit order 'big'. Got {header['bit_order']!r} instead.")


class _Decoder:
    """Turns JSON back into values, with the arrays of `tensors`."""

    def __init__(self, path: _Path, tensors: dict[str, npt.NDArray[Any]], given: dict[str, Any]) -> None:
        self.path, self.tensors, self.given = path, tensors, given
        self.used: set[str] = set()
        self._affinities: dict[str, Any] = {}  # equal affinities were one object, and are one again

    def decode(self, value: Any) -> Any:
        match value:
            case list():
                return [self.decode(item) for item in value]
            case {"$array": name, "order": order}:
                return self.tensors[name].T if order == "F" else self.tensors[name]
            case {"$npy": name}:
                return np.lib.format.read_array(io.BytesIO(self.tensors[name].tobytes()), allow_pickle=False)
            case {"$objects": name, "shape": shape}:
                values = self.decode(json.loads(self.tensors[name].tobytes()))
                return np.fromiter(values, dtype=object, count=len(values)).reshape(shape)
            case {"$sparse": kind, "shape": shape, "parts": parts}:
                matrix = SPARSE[kind](tuple(self.decode(parts)), shape=tuple(shape))
                matrix.check_format(full_check=True)  # indices outside the matrix would read outside its memory
                return matrix
            case {"$scalar": item, "dtype": dtype}:
                return np.array(item, dtype=dtype)[()]
            case {"$tuple": items}:
                return tuple(self.decode(items))
            case {"$dict": pairs}:
                return dict(self.decode(pairs))
            case {"$affinity": kind, "fields": fields} if kind in AFFINITIES:
                affinity = AFFINITIES[kind](**self.decode(with_current_names(fields)))
                return self._affinities.setdefault(json.dumps(value), affinity)
            case {"$random_state": state}:
                generator = np.random.RandomState()
                generator.set_state(self.decode(state))
                return generator
            case {"$given": kind, "name": name}:
                return self._take_given(kind, name)
            case dict() if not any(key[:1] == "$" for key in value):
                return {key: self.decode(item) for key, item in value.items()}
            case dict():
                raise KeyError(*value)
        return value

    def _take_given(self, kind: str, name: str) -> Any:
        """Module or affinity that was passed to `load`."""
        if not callable(self.given[name]):
            raise ValueError(
                f"`{name}` must be given, as load(path, {name}=...): the one in {self.path}, a {kind}, is code and "
                f"was not saved. Got {self.given[name]!r} instead."
            )
        self.used.add(name)
        return self.given[name]
