"""Save a fitted hasher."""

import io
import json
import os
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from skhash import __version__, hashers
from skhash._files import atomic_write, qualified_name
from skhash.base import BaseHasher
from skhash.persistence._checking import check_hasher
from skhash.persistence._format import (
    AFFINITIES,
    CHECKSUM,
    FOLDER,
    FORMAT,
    GIVEN,
    OUTPUT,
    SPARSE,
    TEXT,
    checksum,
)
from skhash.persistence._reading import parse


def save(hasher: BaseHasher, path: str | os.PathLike[str]) -> None:
    """Save a fitted hasher: its parameters and all fitted attributes, with a checksum.

    The write is atomic. Callbacks are left out, and `checkpoint`, a folder of this machine. Of
    functions that serve training alone (`optimizer`, `lr_schedule`, `augment`) only the names
    are saved. A backbone module or
    an affinity of your own is code, which must be passed to :func:`load` again; the
    trained weights of a module are in the file.

    For hasher classes of your own, and for pipelines, use skops or joblib.

    Parameters
    ----------
    hasher : BaseHasher
        A fitted hasher of skhash.
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

    kind = type(hasher).__name__
    if kind not in hashers.__all__ or type(hasher) is not getattr(hashers, kind):
        raise TypeError(
            f"`hasher` must be one of {', '.join(hashers.__all__)} to be saved in {path}. Got a "
            f"{qualified_name(hasher)} instead; use skops or joblib for other classes and for pipelines."
        )
    check_is_fitted(hasher)
    encoder, params = _Encoder(path), hasher.get_params(deep=False)
    header = {"format": FORMAT, "version": __version__, "class": kind, "nbits": hasher._nbits, "bit_order": "big"}
    header["params"] = {
        name: {"$default": qualified_name(value)}
        if callable(value) and name not in GIVEN
        else encoder.encode(None if name == FOLDER else value, name)
        for name, value in params.items()
    }
    fitted = hasher._fitted_attributes()
    if OUTPUT in vars(hasher):
        fitted[OUTPUT] = vars(hasher)[OUTPUT]
    header["fitted"] = {name: encoder.encode(value, name) for name, value in fitted.items()}
    text = json.dumps(header | {CHECKSUM: checksum(header, encoder.tensors)})
    try:  # what `load` would refuse
        check_hasher(hasher)
        parse(text)
    except ValueError as error:
        raise ValueError(f"`hasher` cannot be saved in {path}: {error}") from error
    with atomic_write(path) as file:  # the file of safetensors' save_file could be read by its owner alone
        file.write(to_bytes(encoder.tensors, {TEXT: text}))


class _Encoder:
    """Turns values into JSON, and collects the arrays inside them in `tensors`.

    `where` is the place of a value, such as ``params.name.0``, for messages and names of tensors.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        # by id; the array itself is stored, too, so that its id is not reused meanwhile
        self._arrays: dict[int, tuple[Any, Any]] = {}
        self._in_objects = False

    def encode(self, value: Any, where: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind in (list, tuple, dict):
            return self._encode_container(value, where)
        if kind in (np.ndarray, np.memmap):
            if id(value) not in self._arrays:
                self._arrays[id(value)] = (self._encode_array(value, where), value)
            return self._arrays[id(value)][0]
        if isinstance(value, os.PathLike) or qualified_name(value) == "torch.device":
            return str(value)
        if isinstance(value, np.generic) and isinstance(value.item(), bool | int | float | str):
            return {"$scalar": value.item(), "dtype": value.dtype.str}
        return self._encode_object(value, where)

    def _encode_container(self, value: Any, where: str) -> Any:
        if isinstance(value, list):
            return [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"$tuple": self.encode(list(value), where)}
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {key: self.encode(item, f"{where}.{key}") for key, item in value.items()}
        return {"$dict": [self.encode(list(pair), f"{where}.{i}") for i, pair in enumerate(value.items())]}

    def _encode_object(self, value: Any, where: str) -> Any:
        kind = type(value)
        if SPARSE.get(kind.__name__) is kind:
            parts = [self.encode(getattr(value, part), f"{where}.{part}") for part in ("data", "indices", "indptr")]
            return {"$sparse": kind.__name__, "shape": list(value.shape), "parts": parts}
        if kind is np.random.RandomState and value.get_state(legacy=False)["bit_generator"] == "MT19937":
            return {"$random_state": self.encode(value.get_state(legacy=False), where)}
        if AFFINITIES.get(kind.__name__) is kind:
            fields = {name: field for name, field in vars(value).items() if name[0] != "_"}
            return {"$affinity": kind.__name__, "fields": self.encode(fields, where)}
        if callable(value) and (name := where.split(".")[-1].rstrip("_")) in GIVEN:
            return {"$given": qualified_name(value), "name": name}
        raise TypeError(f"{where} is a {qualified_name(value)}, which cannot be saved without code in {self.path}.")

    def _encode_array(self, array: npt.NDArray[Any], where: str) -> Any:
        while where in self.tensors:
            where += "'"
        dtype = array.dtype
        if dtype.kind == "O":
            if self._in_objects:
                raise TypeError(f"{where} is an array of objects in another one, which cannot be saved in {self.path}.")
            self._in_objects = True
            text = json.dumps(self.encode(array.ravel().tolist(), where))
            self._in_objects = False
            parse(text)  # what `load` would refuse
            mark = {"$objects": where, "shape": list(array.shape)}
            tensor: npt.NDArray[Any] = np.frombuffer(text.encode(), np.uint8)
        elif dtype.kind in "biuf" and dtype.isnative and dtype.itemsize <= 8:
            # column order stays, since the rounding of products depends on it
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            mark = {"$array": where, "order": order}
            tensor = np.asarray(array.T if order == "F" else array, order="C")
        elif (dtype.kind in "biufcUSMm" or dtype.names) and not dtype.hasobject:
            file = io.BytesIO()
            np.lib.format.write_array(file, array, allow_pickle=False)
            mark, tensor = {"$npy": where}, np.frombuffer(file.getvalue(), np.uint8)
        else:
            raise TypeError(f"{where} is an array of dtype {dtype}, which cannot be saved without code in {self.path}.")
        self.tensors[where] = tensor
        return mark
