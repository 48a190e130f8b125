"""Save a fitted hasher in one file, which runs no code when it is read.

The file is a safetensors file. Arrays are its tensors; everything else is JSON, in its
metadata under the key "skhash":

    {"format": 1, "version": "0.1.0", "class": "ITQHasher", "nbits": 32, "bit_order": "big",
     "params": {name: value}, "fitted": {name: value}}

What JSON lacks is an object with a key that begins with "$":

    {"$array": tensor, "order": "C" or "F"}    "F": the array is the transpose of the tensor
    {"$npy": tensor}                           the bytes of an .npy file, for strings and rare dtypes
    {"$objects": tensor, "shape": [...]}       JSON in UTF-8, for arrays of dtype object
    {"$sparse": class, "shape": [...], "parts": [data, indices, indptr]}
    {"$scalar": value, "dtype": dtype}         {"$tuple": [...]}         {"$dict": [[key, value], ...]}
    {"$affinity": class, "fields": {...}}      {"$random_state": state of a RandomState}
    {"$given": class, "name": parameter}       a module or affinity that `load` is to be given
    {"$default": class}                        a function for training alone: the parameter's default
"""

import io
import json
import os
import warnings

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skhash import __version__, hashers
from skhash import affinity as affinities
from skhash._files import atomic_write, qualified_name

FORMAT = 1
HEADER = {"format", "version", "class", "nbits", "bit_order", "params", "fitted"}
AFFINITIES = {"ClassAffinity", "SharedLabelsAffinity", "DistanceAffinity", "PrecomputedAffinity"}
GIVEN = ("affinity", "backbone")
#: parameters that were renamed since a file may have been written
RENAMED = {"n_labelled": "n_labeled", "max_rows": "max_samples"}
SPARSE = {"csr_matrix": sparse.csr_matrix, "csr_array": sparse.csr_array}


def save(hasher, path):
    """Save a fitted hasher: its parameters and all that was fitted.

    The file appears whole or not at all. Callbacks are left out. Of functions that serve
    training alone (`optimizer`, `lr_schedule`, `augment`) the names are kept. A backbone
    module or an affinity of your own is code, which :func:`load` is to be given again; the
    trained weights of a module are in the file.

    For hasher classes of your own, and for pipelines, use skops or joblib.

    Parameters
    ----------
    hasher : BaseHasher
        A fitted hasher of skhash.
    path : path-like
        The file, ``*.safetensors`` by custom; one that is there is replaced.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the hasher is not fitted.
    TypeError
        If it is none of skhash, or holds what is neither data nor one of the above.

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
        wanted = f"one of {', '.join(hashers.__all__)} is wanted; for other classes and pipelines use skops or joblib."
        raise TypeError(f"hasher is a {qualified_name(hasher)}; {wanted}")
    check_is_fitted(hasher)
    encoder, params = _Encoder(), hasher.get_params(deep=False)
    header = {"format": FORMAT, "version": __version__, "class": kind, "nbits": hasher._nbits, "bit_order": "big"}
    header["params"] = {
        name: {"$default": qualified_name(value)}
        if callable(value) and name not in GIVEN
        else encoder.encode(value, name)
        for name, value in params.items()
    }
    header["fitted"] = {
        name: encoder.encode(value, name)
        for name, value in hasher.__getstate__().items()
        if name not in params and not _is_scikit_learns(name)
    }
    with atomic_write(path) as file:  # safetensors' save_file would make a file that its owner alone may read
        file.write(to_bytes(encoder.tensors, {"skhash": json.dumps(header)}))


def load(path, *, backbone=None, affinity=None, device=None):
    """Load a hasher that :func:`save` wrote; no code in the file is run.

    Parameters
    ----------
    path : path-like
        The file.
    backbone : torch.nn.Module, default=None
        The module that the hasher was given; it receives the trained weights of the
        file when rows are hashed, and starts a refit with its own.
    affinity : callable, default=None
        The affinity that the hasher was given, if it is none of :mod:`skhash.affinity`;
        as it was fitted, ``hasher.affinity_``, if it learns.
    device : str or torch.device, default=None
        Where a deep hasher computes; others take none. None takes the device that it was saved
        with, or "auto" if that is not there.

    Returns
    -------
    BaseHasher
        The fitted hasher. Functions that served training are back at the parameter's
        default, with a warning.

    Raises
    ------
    ValueError
        If the file is none that this version can read, a module or an affinity is missing,
        superfluous or of another shape, or a device is superfluous or not there.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash.persistence import load, save
    >>> X, y = load_digits(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(ITQHasher(nbits=16, random_state=0).fit(X), Path(folder) / "digits.safetensors")
    ...     load(Path(folder) / "digits.safetensors")
    ITQHasher(nbits=16, random_state=0)
    """
    header, tensors = _read(path)
    decoder = _Decoder(path, tensors, {"backbone": backbone, "affinity": affinity})
    params, defaults = {}, {}
    try:
        for name, value in _renamed(header["params"]).items():
            if isinstance(value, dict) and "$default" in value:
                defaults[name] = value["$default"]
            else:
                params[name] = decoder.decode(value)
        if "device" in params:
            params["device"] = _device(params["device"], device)
        elif device is not None:
            raise ValueError(f"{path} wants no device, and {device!r} came; device=None is wanted.")
        hasher = getattr(hashers, header["class"])(**params)
        vars(hasher).update(decoder.decode(header["fitted"]))
    except (AttributeError, KeyError, TypeError) as error:
        by = f"written by skhash {header['version']}"
        raise ValueError(f"{path}, {by}, is damaged or does not suit skhash {__version__}: {error!r}") from error
    for name, value in decoder.given.items():
        if value is not None and name not in decoder.used:
            raise ValueError(f"{path} wants no {name}, and {qualified_name(value)} came; {name}=None is wanted.")
    if backbone is not None:
        try:
            hasher._module()
        except RuntimeError as error:
            raise ValueError(f"backbone does not take the weights of {path}: {error}") from error
    for name, value in defaults.items():
        now = f"{name} is {getattr(hasher, name)!r} now, the default"
        warnings.warn(f"{path} was saved with {name}={value}, which is code: {now}.", UserWarning, stacklevel=2)
    return hasher


class _Encoder:
    """Turn values into JSON, and the arrays inside them into `tensors`."""

    def __init__(self):
        self.tensors = {}
        self._arrays = {}  # by their id, with the array itself, lest the id is given to another

    def encode(self, value, where):
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]
        if kind is tuple:
            return {"$tuple": self.encode(list(value), where)}
        if kind is dict:
            if all(type(key) is str and key[:1] != "$" for key in value):
                return {key: self.encode(item, f"{where}.{key}") for key, item in value.items()}
            return {"$dict": [self.encode(list(pair), f"{where}.{i}") for i, pair in enumerate(value.items())]}
        if kind in (np.ndarray, np.memmap):
            if id(value) not in self._arrays:
                self._arrays[id(value)] = (self._encode_array(value, where), value)
            return self._arrays[id(value)][0]
        if isinstance(value, os.PathLike) or qualified_name(value) == "torch.device":
            return str(value)
        if isinstance(value, np.generic) and isinstance(value.item(), bool | int | float | str):
            return {"$scalar": value.item(), "dtype": value.dtype.str}
        if kind in SPARSE.values():
            parts = [self.encode(getattr(value, part), f"{where}.{part}") for part in ("data", "indices", "indptr")]
            return {"$sparse": kind.__name__, "shape": list(value.shape), "parts": parts}
        if kind is np.random.RandomState and value.get_state(legacy=False)["bit_generator"] == "MT19937":
            return {"$random_state": self.encode(value.get_state(legacy=False), where)}
        if kind.__name__ in AFFINITIES and kind is getattr(affinities, kind.__name__):
            fields = {name: field for name, field in vars(value).items() if name[0] != "_"}
            return {"$affinity": kind.__name__, "fields": self.encode(fields, where)}
        if callable(value) and (name := where.split(".")[-1].rstrip("_")) in GIVEN:
            return {"$given": qualified_name(value), "name": name}
        raise TypeError(f"{where} is a {qualified_name(value)}, which a file without code cannot hold.")

    def _encode_array(self, array, where):
        while where in self.tensors:
            where += "'"
        dtype = array.dtype
        if dtype.kind == "O":
            text = json.dumps(self.encode(array.ravel().tolist(), where))
            mark, tensor = {"$objects": where, "shape": list(array.shape)}, np.frombuffer(text.encode(), np.uint8)
        elif dtype.kind in "biuf" and dtype.isnative and dtype.itemsize <= 8:
            # columns stay columns: a product rounds by the order of its factors
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            mark = {"$array": where, "order": order}
            tensor = np.asarray(array.T if order == "F" else array, order="C")
        elif (dtype.kind in "biufcUSMm" or dtype.names) and not dtype.hasobject:
            file = io.BytesIO()
            np.lib.format.write_array(file, array, allow_pickle=False)
            mark, tensor = {"$npy": where}, np.frombuffer(file.getvalue(), np.uint8)
        else:
            raise TypeError(f"{where} is an array of dtype {dtype}, which a file without code cannot hold.")
        self.tensors[where] = tensor
        return mark


class _Decoder:
    """Turn JSON back into values, with the arrays of `tensors`."""

    def __init__(self, path, tensors, given):
        self.path, self.tensors, self.given, self.used = path, tensors, given, set()
        self._affinities = {}  # what was one object before is one again

    def decode(self, value):
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
                return self._affinities.setdefault(
                    json.dumps(value), getattr(affinities, kind)(**self.decode(_renamed(fields)))
                )
            case {"$random_state": state}:
                generator = np.random.RandomState()
                generator.set_state(self.decode(state))
                return generator
            case {"$given": kind, "name": name}:
                if not callable(self.given[name]):
                    raise ValueError(
                        f"{self.path} was saved with {name}={kind}, which is code: hand it in, load(path, {name}=...)."
                    )
                self.used.add(name)
                return self.given[name]
            case dict() if not any(key[:1] == "$" for key in value):
                return {key: self.decode(item) for key, item in value.items()}
            case dict():
                raise KeyError(*value)
        return value


def _read(path):
    """The JSON and the tensors of a file, if it is of this format."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("skhash", "null"))
            _check_header(path, header)
            # copies: what is fitted does not change with the file
            return header, {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); a file that skhash.persistence.save wrote is wanted."
        ) from error


def _check_header(path, header):
    if not isinstance(header, dict) or "format" not in header:
        raise ValueError(f"{path} is another safetensors file; one that skhash.persistence.save wrote is wanted.")
    if header["format"] != FORMAT:
        by = f"written by skhash {header.get('version')}"
        raise ValueError(f"{path} is of format {header['format']}, {by}; skhash {__version__} reads format {FORMAT}.")
    if missing := HEADER - header.keys():
        raise ValueError(f"{path} lacks {sorted(missing)}, which a file of skhash.persistence.save has.")
    if header["class"] not in hashers.__all__:
        raise ValueError(f"{path} holds a {header['class']!r}; one of {', '.join(hashers.__all__)} is wanted.")
    if header["bit_order"] != "big":
        raise ValueError(f"{path} has bit_order={header['bit_order']!r}; 'big' is wanted.")


def _renamed(params):
    """Parameters under their names of today."""
    return {RENAMED.get(name, name): value for name, value in params.items()}


def _device(saved, given):
    """The device to use: the given one, which must be there, or the saved one, if it is."""
    from skhash.engine.runtime import resolve_device

    try:
        resolve_device(saved if given is None else given)
    except ValueError:
        if given is not None:
            raise
        return "auto"
    return saved if given is None else given


def _is_scikit_learns(name):
    """Whether an attribute is scikit-learn's own and of this process: callbacks, version, routing."""
    return "callback" in name or name in ("_sklearn_version", "_metadata_request")
