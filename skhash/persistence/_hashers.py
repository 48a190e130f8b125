"""The part of a file that is a hasher: its class, parameters and fitted attributes."""

import warnings
from typing import Annotated, Any

from skhash import hashers
from skhash._files import qualified_name, with_current_names
from skhash._validation.schema import Array
from skhash.base import BaseHasher
from skhash.persistence._checking import check_activations, check_hasher, check_names_and_output, check_value
from skhash.persistence._decoding import Decoder
from skhash.persistence._encoding import Encoder
from skhash.persistence._format import FOLDER, GIVEN, OUTPUT, SCALER
from skhash.persistence._reading import ArgumentError, short

#: fitted attributes of a scaler, and what they may hold
_SCALER_HINTS: dict[str, Any] = {
    "n_features_in_": int,
    "n_samples_seen_": float,
    "mean_": Annotated[Any, Array("n_features")] | None,
    "var_": Annotated[Any, Array("n_features", minimum=0)] | None,
    "scale_": Annotated[Any, Array("n_features", minimum=0)] | None,
}


def is_hasher(value: Any) -> bool:
    """Whether an object is a hasher of skhash itself."""
    name = type(value).__name__
    return name in hashers.__all__ and type(value) is getattr(hashers, name)


def is_scaled(value: Any) -> bool:
    """Whether an object is a Pipeline of a StandardScaler and a hasher."""
    if qualified_name(type(value)) != "sklearn.pipeline.Pipeline" or len(value.steps) != 2:
        return False
    from sklearn.preprocessing import StandardScaler

    return type(value.steps[0][1]) is StandardScaler and is_hasher(value.steps[1][1])


def encode_hasher(hasher: BaseHasher, encoder: Encoder, prefix: str = "") -> dict[str, Any]:
    """Parameters and fitted attributes of a hasher; the names of its tensors begin with a prefix."""
    params = {
        name: {"$default": qualified_name(value)}
        if callable(value) and name not in GIVEN
        else encoder.encode(None if name == FOLDER else value, prefix + name)
        for name, value in hasher.get_params(deep=False).items()
    }
    fitted = hasher._fitted_attributes()
    if OUTPUT in vars(hasher):
        fitted[OUTPUT] = vars(hasher)[OUTPUT]
    return {"params": params, "fitted": {name: encoder.encode(value, prefix + name) for name, value in fitted.items()}}


def encode_scaled(pipeline: Any, encoder: Encoder) -> dict[str, Any]:
    """JSON of a Pipeline of a scaler and a hasher: that of the hasher, with the scaler and the names of both steps."""
    (name, scaler), (hasher_name, hasher) = pipeline.steps
    check_scaler(scaler, hasher)
    fitted = {
        name: vars(scaler)[name] for name in (*_SCALER_HINTS, "feature_names_in_", OUTPUT) if name in vars(scaler)
    }
    saved = {
        "names": [name, hasher_name],
        "params": {name: encoder.encode(value, f"{SCALER}.{name}") for name, value in scaler.get_params().items()},
        "fitted": {name: encoder.encode(value, f"{SCALER}.{name}") for name, value in fitted.items()},
    }
    return encode_hasher(hasher, encoder) | {SCALER: saved}


def decode_hasher(header: dict[str, Any], decoder: Decoder, device: Any) -> Any:
    """Checked hasher from the JSON of a file, or a Pipeline of a scaler and a hasher."""
    hasher = _build(header, decoder, device)
    check_hasher(hasher)
    check_activations(hasher)
    if SCALER not in header:
        return hasher
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    saved = decoder.decode(header[SCALER])
    scaler = StandardScaler(**saved["params"])
    scaler._validate_params()
    if unknown := set(saved["fitted"]) - {*_SCALER_HINTS, "feature_names_in_", OUTPUT}:
        raise ValueError(f"{sorted(unknown)[0]!r} is not an attribute of a fitted StandardScaler.")
    vars(scaler).update(saved["fitted"])
    check_scaler(scaler, hasher)
    pipeline = Pipeline(list(zip(saved["names"], (scaler, hasher), strict=True)))
    pipeline._validate_steps()
    return pipeline


def check_scaler(scaler: Any, hasher: BaseHasher) -> None:
    """Raise ValueError unless a fitted scaler has the number of features of the hasher, and finite numbers."""
    lengths = {"n_features": getattr(hasher, "n_features_in_", 0)}  # 0 for images, which no scaler takes
    for name, hint in _SCALER_HINTS.items():
        check_value(name, getattr(scaler, name, None), hint, lengths)
    if scaler.n_features_in_ != lengths["n_features"]:
        raise ValueError(
            f"`n_features_in_` must be that of the hasher, {lengths['n_features']}. Got {scaler.n_features_in_}."
        )
    if scaler.with_mean and scaler.mean_ is None:
        raise ValueError("`mean_` must be an array with `with_mean`. Got None instead.")
    if scaler.with_std and (scaler.scale_ is None or not scaler.scale_.all()):
        raise ValueError("`scale_` must be an array without 0 with `with_std`.")
    check_names_and_output(scaler)


def warn_of_resets(path: Any, header: dict[str, Any], hasher: BaseHasher) -> None:
    """Warn of the parameters that differ from those of the saved hasher."""
    for name, value in _defaults(header).items():
        warnings.warn(
            f"{path} was saved with {name}={short(value)}, which is code and was not saved. "
            f"{name} is now {getattr(hasher, name)!r}, its default.",
            UserWarning,
            stacklevel=3,
        )
    if header["params"].get(FOLDER) is not None:
        warnings.warn(
            f"{path} has {FOLDER}={short(repr(header['params'][FOLDER]))}, a folder that fit would write to. "
            f"{FOLDER} is now None. Set it with set_params if you want that.",
            UserWarning,
            stacklevel=3,
        )


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
    """Parameters that are reset to their default, and the names of the functions that they had."""
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
