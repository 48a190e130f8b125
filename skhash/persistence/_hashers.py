"""The part of a file that is a hasher: its class, parameters and fitted attributes."""

import warnings
from collections.abc import Iterable
from typing import Annotated, Any, get_type_hints

import numpy as np
from scipy import sparse

from skhash._validation import OPTIONAL, Array, as_count, is_count, is_cpu, qualified_name
from skhash.codes.bits import MAX_NBITS
from skhash.codes.codes import Codes, check_packed
from skhash.exceptions import InvalidFileError
from skhash.functions import HashFunction
from skhash.persistence._checking import (
    MAX_FEATURES,
    OUTPUT,
    ArgumentError,
    check_names_and_output,
    check_value,
    require,
    short,
)
from skhash.persistence.format import GIVEN, ValueDecoder, ValueEncoder
from skhash.registry import FIRST_STEPS, FUNCTIONS, SAVED, import_class, installed_methods, load_method

#: keys of the JSON of a file
HEADER = frozenset({"format", "version", "class", "nbits", "bit_order", "params", "fitted", "sha256"})
#: a parameter that names a folder of the machine that wrote the file; a fit would write there
FOLDER = "checkpoint"
#: what a database consists of
DATABASE = {"codes", "y", "factors"}
AUTO = "auto"  # of `cache`: the folder of the user
#: fitted attributes of the first steps, and what they may hold
_HINTS: dict[str, dict[str, Any]] = {
    "features": {"digest_": str, "input_shape_": tuple, "n_features_out_": int},
    "scaler": {
        "n_features_in_": int,
        "n_samples_seen_": float,
        "mean_": Annotated[Any, Array("n_features")] | None,
        "var_": Annotated[Any, Array("n_features", minimum=0)] | None,
        "scale_": Annotated[Any, Array("n_features", minimum=0)] | None,
    },
}


def is_hasher_class(value: Any) -> bool:
    """Whether an object is a class of hashers."""
    return isinstance(value, type) and "skhash.base.BaseHasher" in map(qualified_name, value.__mro__)


def is_own(value: Any) -> bool:
    """Whether an object is a hasher of a class that is not part of skhash."""
    return is_hasher_class(type(value)) and "." in name_of_class(value)


def is_hasher(value: Any) -> bool:
    """Whether an object is a hasher of skhash, or one of another class with a function that a file can hold."""
    function = getattr(value, "function_", None) if is_own(value) else None
    has_known = function is None or qualified_name(type(function)) in FUNCTIONS.values()
    return has_known if is_own(value) else name_of_class(value) in SAVED


def name_of_class(hasher: Any) -> str:
    """Name of the class of a hasher in a file; that of another package has dots."""
    name = qualified_name(type(hasher))
    return type(hasher).__name__ if SAVED.get(type(hasher).__name__) == name else name


def find_class(name: Any, classes: Iterable[type], path: Any) -> Any:
    """Class of a name in a file: one of skhash, one of `classes`, or one that an installed package lists.

    No module is imported because a file names it: what is imported is the entry point, in the group ``skhash.methods``,
    of an installed package with the name of the package in the file, and of a class with the name of that in the file.
    """
    if not isinstance(name, str) or "." not in name:
        return import_class(SAVED[name])
    package, _, _ = name.partition(".")
    _, _, own = name.rpartition(".")
    found = [kind for kind in classes if kind.__name__ == own]
    if not found:
        entries = installed_methods().values()
        named = [entry for entry in entries if (entry.module.partition(".")[0], entry.attr) == (package, own)]
        found = list(filter(is_hasher_class, map(load_method, (entry.name for entry in named))))
    if not found:
        raise InvalidFileError(
            path,
            f"holds a hasher of the class {short(name)}, which is not part of skhash. Pass the class, as load(path, "
            f"classes=[{short(own)}]), or install the package that names it by an entry point skhash.methods.",
        )
    return next((kind for kind in found if qualified_name(kind) == name), found[0])


def is_pipeline(value: Any) -> bool:
    """Whether an object is a Pipeline of a StandardScaler or PretrainedFeatures, and a hasher."""
    if qualified_name(type(value)) != "sklearn.pipeline.Pipeline" or len(value.steps) != 2:
        return False
    return qualified_name(type(value.steps[0][1])) in FIRST_STEPS.values() and is_hasher(value.steps[1][1])


def encode_hasher(hasher: Any, encoder: ValueEncoder, prefix: str = "") -> dict[str, Any]:
    """Parameters and fitted attributes of a hasher or a Pipeline; the names of its tensors begin with a prefix."""
    if is_pipeline(hasher):
        return _encode_pipeline(hasher, encoder, prefix)
    params = {
        name: _encode_param(name, value, encoder, prefix) for name, value in hasher.get_params(deep=False).items()
    }
    fitted = _fitted_attributes(hasher)
    if fitted.get("database_") is not None:
        codes = hasher.database_.codes
        fitted["database_"] = {"codes": codes.rows, "factors": codes.factors, "y": hasher.database_.y}
    if OUTPUT in vars(hasher):
        fitted[OUTPUT] = vars(hasher)[OUTPUT]
    return {"params": params, "fitted": {name: encoder.encode(value, prefix + name) for name, value in fitted.items()}}


def _fitted_names(kind: type, names: Iterable[str]) -> list[str]:
    """Names that `fit` of a class sets: public ones with an underscore at their end, and those in `_fitted_private`."""
    private = getattr(kind, "_fitted_private", ())
    return [name for name in names if name in private or (name[-1:] == "_" and name[0] != "_")]


def _fitted_attributes(hasher: Any) -> dict[str, Any]:
    """Attributes that `fit` sets."""
    return {name: getattr(hasher, name) for name in _fitted_names(type(hasher), vars(hasher))}


def _encode_param(name: str, value: Any, encoder: ValueEncoder, prefix: str) -> Any:
    """JSON of a parameter; of what serves training alone it is the name."""
    if isinstance(value, np.random.RandomState) or (callable(value) and name not in GIVEN):
        return {"$default": qualified_name(value)}
    return encoder.encode(None if name == FOLDER else value, prefix + name)


def _encode_pipeline(pipeline: Any, encoder: ValueEncoder, prefix: str) -> dict[str, Any]:
    """JSON of a Pipeline: that of the hasher, with the first step and the names of both steps."""
    (name, first), (hasher_name, hasher) = pipeline.steps
    key = next(key for key, kind in FIRST_STEPS.items() if kind == qualified_name(type(first)))
    _check_first(key, first, hasher)
    fitted = {name: vars(first)[name] for name in (*_HINTS[key], "feature_names_in_", OUTPUT) if name in vars(first)}
    params = first.get_params(deep=False)
    if params.get("cache", AUTO) != AUTO:  # a folder of the machine that wrote the file
        params["cache"] = None
    saved = {
        "names": [name, hasher_name],
        # the network is the backbone of a Pipeline
        "params": {
            name: encoder.encode(value, f"{prefix}{key}.{'backbone' if name == 'network' else name}")
            for name, value in params.items()
        },
        "fitted": {name: encoder.encode(value, f"{prefix}{key}.{name}") for name, value in fitted.items()},
    }
    return encode_hasher(hasher, encoder, prefix) | {key: saved}


def decode_hasher(header: dict[str, Any], decoder: ValueDecoder, device: Any) -> Any:
    """Checked hasher from the JSON of a file, or a Pipeline that ends in one."""
    hasher = _build(header, decoder, device)
    check_hasher(hasher)
    _check_activations(hasher)
    key = next((key for key in FIRST_STEPS if key in header), None)
    if key is None:
        return hasher
    from sklearn.pipeline import Pipeline

    saved = decoder.decode(header[key])
    first = import_class(FIRST_STEPS[key])(**saved["params"])
    first._validate_params()
    require(getattr(first, "cache", None) in (None, AUTO), "cache", "None or 'auto', no folder", first)
    if unknown := set(saved["fitted"]) - {*_HINTS[key], "feature_names_in_", OUTPUT}:
        raise ValueError(f"{sorted(unknown)[0]!r} is not an attribute of a fitted {type(first).__name__}.")
    vars(first).update(saved["fitted"])
    _check_first(key, first, hasher)
    pipeline = Pipeline(list(zip(saved["names"], (first, hasher), strict=True)))
    pipeline._validate_steps()
    return pipeline


def warn_of_resets(path: Any, header: dict[str, Any], hasher: Any) -> None:
    """Warn of the parameters that differ from those of the saved hasher."""
    lost = {name: f"{short(value)}, which is not saved" for name, value in _defaults(header).items()}
    if header["params"].get(FOLDER) is not None:
        lost[FOLDER] = f"{short(repr(header['params'][FOLDER]))}, a folder that fit would write to"
    for name, value in lost.items():
        warnings.warn(
            f"{path} was saved with {name}={value}. {name} is now {getattr(hasher, name)!r}, its default.",
            UserWarning,
            stacklevel=3,
        )


def check_hasher(hasher: Any) -> None:
    """Raise ValueError unless the fitted attributes are those of the class, and agree with each other."""
    all_hints, stored = get_type_hints(type(hasher), include_extras=True), _fitted_attributes(hasher)
    hints = {name: all_hints[name] for name in _fitted_names(type(hasher), all_hints)}
    optional = {name for name, hint in hints.items() if OPTIONAL in getattr(hint, "__metadata__", ())}
    if missing := [name for name in hints if name not in stored and name not in optional]:
        raise ValueError(f"`{missing[0]}` is missing.")
    if unknown := sorted(stored.keys() - hints.keys()):
        raise ValueError(
            f"`{unknown[0]}` is not an attribute of a fitted {type(hasher).__name__}, whose class does not annotate it."
        )
    nbits = as_count(hasher._n_features_out, "nbits", largest=MAX_NBITS)
    lengths = {"nbits": nbits, "n_bytes": -(-nbits // 8)}
    if "n_features_in_" in stored:
        lengths["n_features"] = as_count(hasher.n_features_in_, "n_features_in_", largest=MAX_FEATURES)
    for name, value in stored.items():
        if name not in ("function_", "database_"):
            check_value(name, value, hints[name], lengths)
    _check_function(hasher)
    if is_hasher_class(type(hasher)):
        hasher._check_stored(lengths)
        _check_database(hasher, lengths)
    check_names_and_output(hasher)


def _check_function(hasher: Any) -> None:
    """Raise ValueError unless `function_` takes the samples of the hasher."""
    function, shape = hasher.function_, getattr(hasher, "input_shape_", (getattr(hasher, "n_features_in_", 0),))
    require(isinstance(function, HashFunction), "function_", "a hash function", function)
    if qualified_name(type(function)) in FUNCTIONS.values():
        type(function).from_arrays(function.arrays(), **function.given())  # `save` refuses what `load` would refuse
    require(function.shape == shape, "function_", f"a function of samples of shape {shape}", function)


def _check_database(hasher: Any, lengths: dict[str, int]) -> None:
    affinity, codes, targets, factors = hasher.affinity_, None, None, None
    if hasher.database_ is not None:
        of_samples, targets = hasher.database_.codes, hasher.database_.y
        codes, factors = of_samples.rows, of_samples.factors
        Array("n_database n_bytes", "u").check("database_.codes", codes, lengths)
    if factors is not None:
        Array("n_database 2").check("database_.factors", factors, lengths)
    if targets is not None:
        is_array = (type(targets) is np.ndarray and targets.ndim > 0) or sparse.issparse(targets)
        is_paired = is_array and codes is not None and targets.shape[0] == len(codes)
        require(is_paired, "database_.y", "one target per code", targets)
    if codes is not None:
        check_packed(codes, lengths["nbits"], "database_.codes")
    require(affinity is None or callable(affinity), "affinity_", "callable or None", affinity)


def _check_activations(hasher: Any) -> None:
    """Raise ValueError unless a sample of zeros has finite activations; images and backbone modules are not checked."""
    if not is_hasher_class(type(hasher)):  # it makes real queries alone, and checks them
        hasher.project_queries(np.zeros((1, hasher.n_features_in_)))
        return
    is_vector = len(getattr(hasher, "input_shape_", (0,))) == 1
    if is_vector and "n_features_in_" in vars(hasher) and isinstance(getattr(hasher, "backbone", None), str | None):
        with np.errstate(all="ignore"), hasher._environment():
            activations = hasher.function_.activations(np.zeros((1, hasher.n_features_in_), hasher._dtypes[0]))
        nbits = hasher._n_features_out
        Array("1 nbits").check("project", activations[:, :nbits], {"nbits": nbits})


def _check_first(key: str, first: Any, hasher: Any) -> None:
    """Raise ValueError unless the first step of a Pipeline suits the hasher."""
    if key == "scaler":
        _check_scaler(first, hasher)
        return
    shape, digest = first.input_shape_, first.digest_
    is_shape = type(shape) is tuple and len(shape) == 3 and all(is_count(n, MAX_FEATURES) for n in shape)
    require(is_shape, "input_shape_", "a tuple of three ints", shape)
    require(type(digest) is str and len(digest) == 64, "digest_", "a SHA-256", digest)
    width, expected = first.n_features_out_, hasher.n_features_in_
    require(type(width) is int and width == expected, "n_features_out_", f"{expected}, as the hasher takes", width)
    check_names_and_output(first)


def _check_scaler(scaler: Any, hasher: Any) -> None:
    """Raise ValueError unless a fitted scaler has the number of features of the hasher, and finite numbers."""
    n_features = getattr(hasher, "n_features_in_", 0)  # 0 for images, which no scaler takes
    for name, hint in _HINTS["scaler"].items():
        check_value(name, getattr(scaler, name, None), hint, {"n_features": n_features})
    if scaler.n_features_in_ != n_features:
        raise ValueError(f"`n_features_in_` must be that of the hasher, {n_features}. Got {scaler.n_features_in_}.")
    if scaler.with_mean and scaler.mean_ is None:
        raise ValueError("`mean_` must be an array with `with_mean`. Got None instead.")
    if scaler.with_std and (scaler.scale_ is None or not scaler.scale_.all()):
        raise ValueError("`scale_` must be an array without 0 with `with_std`.")
    check_names_and_output(scaler)


def _build(header: dict[str, Any], decoder: ValueDecoder, device: Any) -> Any:
    """Hasher of a header, with its fitted attributes."""
    kind = find_class(header["class"], decoder.given["classes"], decoder.path)
    saved, skipped = header["params"], {FOLDER, *_defaults(header)}
    if unknown := saved.keys() - set(kind._get_param_names()):
        raise ValueError(f"{sorted(unknown)[0]!r} is not a parameter of {kind.__name__}.")
    params = {name: decoder.decode(value) for name, value in saved.items() if name not in skipped}
    if "device" in params:
        params["device"] = available_device(params["device"], device)
    elif device is not None:
        raise ArgumentError(
            f"`device` must be None: the hasher in {decoder.path} has no device. Got {device!r} instead."
        )
    hasher = kind(**params)
    hasher._validate_params()
    fitted = decoder.decode(header["fitted"])
    if unknown := {name for name in fitted if not _fitted_names(kind, [name]) and name != OUTPUT}:
        raise ValueError(f"{sorted(unknown)[0]!r} is not an attribute of a fitted {kind.__name__}.")
    vars(hasher).update(fitted)
    if (database := fitted.get("database_")) is not None:
        require(type(database) is dict and database.keys() == DATABASE, "database_", f"a dict of {DATABASE}", database)
    _check_function(hasher)
    if database is not None:
        codes = Codes(database["codes"], hasher._n_features_out, factors=database["factors"])
        hasher._set_database(codes, database["y"])
    given = header["nbits"]
    require(type(given) is int and given == hasher._n_features_out, "nbits", str(hasher._n_features_out), given)
    return hasher


def _defaults(header: dict[str, Any]) -> dict[str, str]:
    """Parameters that are reset to their default, and the names of what they had."""
    params = header["params"].items()
    return {name: value["$default"] for name, value in params if isinstance(value, dict) and "$default" in value}


def available_device(saved: Any, given: Any) -> Any:
    """The given device, which must be available, or the saved one if it is available."""
    try:
        is_cpu(saved if given is None else given)  # without torch, if there is no GPU
    except ValueError as error:
        if given is not None:
            raise ArgumentError(str(error)) from error
        return "auto"
    return saved if given is None else given
