"""The part of a file that is an index: its parameters, its hasher, and the codes that are not read but mapped."""

from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from skhash._ids import MAX_ID, first_repeated, is_text
from skhash._validation import Array, as_count, qualified_name
from skhash.codes.bits import MAX_NBITS
from skhash.codes.blocks import LANES, CodeBlocks, masks_of
from skhash.codes.codes import Codes, are_other, checked_fingerprint
from skhash.persistence._checking import (
    MAX_FEATURES,
    OUTPUT,
    ArgumentError,
    check_names_and_output,
    errors_name,
    require,
    short,
)
from skhash.persistence._hashers import (
    available_device,
    check_hasher,
    decode_hasher,
    encode_hasher,
    is_hasher,
    is_pipeline,
    name_of_class,
)
from skhash.persistence.fingerprint import known_fingerprint
from skhash.persistence.format import FilePath, ValueDecoder, ValueEncoder, digest, map_tensors, read_file
from skhash.registry import FIRST_STEPS, INDEXES, import_class
from skhash.unwrap import find_function, find_hasher, makes_factors

#: keys that the JSON of an index has, too
INDEX_HEADER = frozenset({"hasher", "frozen", "mapped", "n_items", "least_id"})
#: key of the JSON of an index whose hasher has a fingerprint
FINGERPRINT = "fingerprint"
#: tensors that `load` does not read but map
MAPPED = ("blocks", "ids_", "groups_")
#: bytes of codes and identifiers of an index that `load` always compares with their checksums
MAX_CHECKED = 2**24
#: most items of a file
MAX_ITEMS = 2**48
#: for the command line, which reads vectors with the columns of the hasher and in the order of the ids: none yet
LATER = object()
_FITTED = ("n_features_in_", "feature_names_in_", "factors_", OUTPUT)
#: identifiers that are text are read and not mapped, among the fitted attributes; so are the labels of groups, whose
#: numbers are mapped
_IDS, _GROUPS = "ids_", "groups_"


def is_index(value: Any) -> bool:
    """Whether an object is an index of skhash itself."""
    return INDEXES.get(type(value).__name__) == qualified_name(type(value))


def mapped_arrays(index: Any) -> dict[str, npt.NDArray[Any]]:
    """Arrays of an index that `load` maps: codes, numbers of groups, ids unless they are text or 0, 1, 2, ..."""
    items = index._items.packed()
    ids = items.ids.values
    has_own = not is_text(ids) and not np.array_equal(ids, np.arange(len(ids)))
    groups = {} if items.groups is None else {_GROUPS: items.groups.numbers.values}
    return {"blocks": items.codes.blocks.view(np.uint64)} | ({"ids_": ids} if has_own else {}) | groups


def encode_index(index: Any, encoder: ValueEncoder) -> dict[str, Any]:
    """JSON of an index; of the mapped arrays it holds the checksums."""
    params = index.get_params(deep=False)
    inner = saved_model(index)
    hasher: dict[str, Any] | None = None
    if inner is not None:
        kind, slim = name_of_class(find_hasher(inner)), _without_database(inner)
        hasher = {"class": kind, "nbits": index._items.codes.nbits, **encode_hasher(slim, encoder, "hasher_.")}
    elif index.hasher_ is not None:
        hasher = {"$given": qualified_name(index.hasher_)}
    names = [name for name in _FITTED if getattr(index, name, None) is not None] + [_IDS] * is_text(index.ids_)
    index._check_function(find_function(index.hasher_))
    fingerprint, groups = index._fingerprint, index._items.packed().groups
    fitted = {name: getattr(index, name) for name in names} | ({} if groups is None else {_GROUPS: groups.labels})
    return ({} if fingerprint is None else {FINGERPRINT: fingerprint}) | {
        "params": {name: encoder.encode(value, name) for name, value in params.items() if name != "hasher"},
        "fitted": {name: encoder.encode(value, f"fitted.{name}") for name, value in fitted.items()},
        "hasher": hasher,
        "frozen": isinstance(index.hasher_, FrozenEstimator),
        "mapped": {name: digest(array) for name, array in mapped_arrays(index).items()},
        "n_items": index.n_samples_fit_,
        "least_id": index._items.least_id,
    }


def saved_model(index: Any) -> Any:
    """Hasher or Pipeline of an index that is saved in the same file, or None."""
    model = index.hasher_.estimator if isinstance(index.hasher_, FrozenEstimator) else index.hasher_
    return model if is_hasher(model) or is_pipeline(model) else None


def _without_database(model: Any) -> Any:
    """The same model without the codes that `score` ranks, of which an index has its own; `fit` keeps none either."""
    if hasattr(model, "steps"):
        slim = copy(model)
        slim.steps = [*model.steps[:-1], (model.steps[-1][0], _without_database(model.steps[-1][1]))]
        return slim
    if getattr(model, "database_", None) is None:
        return model
    slim = copy(model)
    slim.store_database, slim.database_ = False, None
    return slim


def decode_index(header: dict[str, Any], decoder: ValueDecoder, device: Any) -> Any:
    """Checked index from the JSON of a file; `given` of the decoder holds the arguments of `load`."""
    kind = import_class(INDEXES[header["class"]])
    params, fitted = decoder.decode(header["params"]), decoder.decode(header["fitted"])
    if unknown := set(params) - set(kind._get_param_names()) | ({"hasher"} & set(params)):
        raise ValueError(f"{sorted(unknown)[0]!r} is not a parameter of {kind.__name__}.")
    if unknown := set(fitted) - {*_FITTED, _IDS, _GROUPS}:
        raise ValueError(f"{sorted(unknown)[0]!r} is not an attribute of a fitted {kind.__name__}.")
    require(type(header["frozen"]) is bool, "frozen", "a bool", header["frozen"])
    if params.get("device") is not None:
        params["device"] = available_device(params["device"], None)
    fingerprint = checked_fingerprint(header.get(FINGERPRINT))
    hasher = _fitted_hasher(header, decoder, device, fingerprint)
    if hasher is not None and header["frozen"] and not isinstance(hasher, FrozenEstimator):
        hasher = FrozenEstimator(hasher)
    index = kind(None if hasher is None else clone(hasher), **params)
    index._check_parameters()
    index.__dict__.update({name: value for name, value in fitted.items() if name not in ("factors_", _IDS, _GROUPS)})
    index.hasher_ = hasher
    arrays = _map_arrays(index, header, decoder, fitted)
    check_index(index)
    is_checked = decoder.given["check_codes"]
    decoder.used.add("check_codes")
    if is_checked or (is_checked is None and sum(array.nbytes for array in arrays.values()) <= MAX_CHECKED):
        _check_content(index, header["mapped"], arrays)
    if index.rerank is not None:
        _take_vectors(index, decoder)
    return index


def codes_of_index(path: FilePath) -> Codes:
    """Codes of a saved index with identifiers and fingerprint, without its hasher and vectors."""
    header, tensors = read_file(path, MAPPED)
    with errors_name(path, "is not the file of an index with codes"):
        arrays = map_tensors(path, header, header["mapped"])
        codes = _codes_of(header, arrays)
        if header["mapped"] != {name: digest(array) for name, array in arrays.items()}:
            raise ValueError("the checksum of its codes is not that of their content. Save the index again.")
        read = {name: value for name, value in header["fitted"].items() if name in (_IDS, _GROUPS)}
        fitted = ValueDecoder(path, tensors).decode(read)
        ids = _ids_of(fitted, arrays, codes.n_items)
        require(ids.shape == (codes.n_items,), _IDS, f"of shape ({codes.n_items},)", ids.shape)
        groups = _groups_of(fitted, arrays, codes.n_items)
        if groups is not None:
            _check_numbers(*groups)
        fingerprint = checked_fingerprint(header.get(FINGERPRINT))
    labels = None if groups is None else groups[0][groups[1]]
    return Codes(np.ascontiguousarray(codes.rows()), codes.nbits, ids, None, fingerprint, labels)


def check_index(index: Any) -> None:
    """Raise ValueError unless the fitted attributes of an index agree; the values of the codes are not read."""
    nbits = index._items.codes.nbits
    n_features = as_count(index.n_features_in_, "n_features_in_", largest=MAX_FEATURES)
    inner = saved_model(index)
    if inner is not None:
        check_hasher(find_hasher(inner))
    expected: dict[str, Any]
    if index.hasher_ is None:
        expected = {"nbits": index.nbits or nbits, "n_features_in_": nbits if index.nbits is None else -(-nbits // 8)}
    else:
        expected = {
            "nbits": getattr(find_hasher(index.hasher_), "_n_features_out", nbits),
            "n_features_in_": getattr(index.hasher_, "n_features_in_", n_features),
        }
    if (nbits, n_features) != tuple(expected.values()):
        raise ValueError(f"`nbits` and `n_features_in_` must be {expected}. Got {nbits} and {n_features} instead.")
    check_names_and_output(index)
    n_items, ids = index.n_samples_fit_, index.ids_
    is_right = ids.dtype == np.int64 or (is_text(ids) and all(type(i) is str for i in ids.flat))
    if not is_right or ids.shape != (n_items,):
        raise ValueError(f"`ids_` must be {n_items} ints or texts. Got {ids.dtype} of shape {ids.shape} instead.")
    if is_text(ids) and first_repeated(ids) is not None:
        raise ValueError("`ids_` must differ from each other. Got repeated ones.")
    if makes_factors(index.hasher_):
        Array(f"{n_items} 2", minimum=0).check("factors_", index.factors_, {})
    elif index.factors_ is not None:
        raise ValueError("`factors_` must be missing unless the hasher has factors.")


def _fitted_hasher(header: dict[str, Any], decoder: ValueDecoder, device: Any, fingerprint: str | None) -> Any:
    """Hasher in the file, or the one that was passed to `load`."""
    saved, given = header["hasher"], decoder.given["hasher"]
    if isinstance(saved, dict) and "class" in saved:
        steps = saved.keys() & FIRST_STEPS.keys()
        if len(steps) > 1 or saved.keys() - steps != {"class", "nbits", "params", "fitted"}:
            raise ValueError(f"`hasher` must have the keys of a hasher. Got {short(sorted(saved))} instead.")
        return decode_hasher(saved, decoder, device)
    if device is not None:
        raise ArgumentError(f"`device` must be None: there is no hasher in {decoder.path}. Got {device!r} instead.")
    if saved is None:
        return None
    if not isinstance(saved, dict) or saved.keys() != {"$given"} or not isinstance(saved["$given"], str):
        raise ValueError(f"`hasher` must be a hasher, or None. Got {short(repr(saved))} instead.")
    decoder.used.add("hasher")
    nbits = getattr(find_hasher(given), "_n_features_out", None) if given is not None else None
    if nbits != header["nbits"]:
        raise ArgumentError(
            f"`hasher` must be given, as load(path, hasher=...): the one of the index in {decoder.path}, a fitted "
            f"{short(saved['$given'])} of {short(header['nbits'])} bits, was not saved. Got "
            f"{None if given is None else f'a {qualified_name(given)} of {nbits} bits'} instead."
        )
    if are_other(found := known_fingerprint(find_function(given)), fingerprint):
        raise ArgumentError(
            f"`hasher` must be the one that made the codes of the index in {decoder.path}, with the fingerprint "
            f"{fingerprint}. Got one with {found} instead. Load that hasher, or fit the index again with this one."
        )
    return given


def _take_vectors(index: Any, decoder: ValueDecoder) -> None:
    """Give an index the original vectors that were passed to `load`."""
    decoder.used.add("vectors")
    vectors = decoder.given["vectors"]
    if vectors is LATER:
        return
    remedy = (
        "Pass those of its items in their order, with what `add` and `remove` have changed: "
        "numpy.save(file, index.vectors_) stores them beside the index."
    )
    if vectors is None:
        raise ArgumentError(
            f"`vectors` must be given, as load(path, vectors=...): the index in {decoder.path} has "
            f"rerank={index.rerank!r}, and original vectors are not saved. Got None. {remedy}"
        )
    try:
        index._take_vectors(vectors)
    except ValueError as error:
        raise ArgumentError(f"{error} {remedy}") from error


def _map_arrays(
    index: Any, header: dict[str, Any], decoder: ValueDecoder, fitted: dict[str, Any]
) -> dict[str, npt.NDArray[Any]]:
    """Set the items of an index, whose codes and identifiers are mapped, and return the mapped arrays."""
    digests = header["mapped"]
    if not isinstance(digests, dict) or not {"blocks"} <= digests.keys() <= set(MAPPED):
        raise ValueError(f"`mapped` must name the codes. Got {short(repr(digests))} instead.")
    arrays = map_tensors(decoder.path, header, digests)
    codes = _codes_of(header, arrays)
    ids = _ids_of(fitted, arrays, codes.n_items)
    least_id = as_count(header["least_id"], "least_id", least=0, largest=MAX_ID + 1)
    factors, fingerprint = fitted.get("factors_"), checked_fingerprint(header.get(FINGERPRINT))
    index._take_items(codes, ids, factors, fingerprint, least_id, _groups_of(fitted, arrays, codes.n_items))
    return arrays


def _codes_of(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> CodeBlocks:
    """Codes of the items of a file, whose values are not read."""
    nbits, blocks = as_count(header["nbits"], "nbits", largest=MAX_NBITS), arrays["blocks"]
    n_items = as_count(header["n_items"], "n_items", largest=MAX_ITEMS)
    shape = -(-n_items // LANES), -(-nbits // 8), LANES // 8
    if blocks.dtype != np.uint64 or blocks.shape != shape:
        raise ValueError(
            f"`blocks` must be uint64 of shape {shape} for {n_items} codes of {nbits} bits. Got {blocks.dtype} of "
            f"shape {blocks.shape} instead."
        )
    return CodeBlocks(blocks.view(np.uint8), masks_of(n_items), nbits, n_items, n_items)


def _ids_of(fitted: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], n: int) -> npt.NDArray[Any]:
    """Identifiers of the n items of a file: text that is read, numbers that are mapped, or 0, 1, 2, ..."""
    if _IDS not in fitted:
        return arrays.get(_IDS, np.arange(n))
    ids: npt.NDArray[Any] = fitted[_IDS]
    require(_IDS not in arrays and isinstance(ids, np.ndarray) and is_text(ids), _IDS, "an array of text", ids)
    return ids


def _groups_of(
    fitted: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], n: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]] | None:
    """Labels of groups, and the number of the group of each of the n items of a file, which is mapped; or None."""
    if _GROUPS not in fitted and _GROUPS not in arrays:
        return None
    labels, numbers = fitted.get(_GROUPS), arrays.get(_GROUPS, np.empty(0))
    are_labels = isinstance(labels, np.ndarray) and labels.ndim == 1 and 0 < len(labels) <= n
    if isinstance(labels, np.ndarray) and are_labels:
        are_labels = labels.dtype == np.int64 or (is_text(labels) and all(type(label) is str for label in labels))
        are_labels = are_labels and bool((labels[1:] > labels[:-1]).all())
    require(are_labels, _GROUPS, "labels in ascending order", labels)
    require(numbers.dtype == np.int32 and numbers.shape == (n,), _GROUPS, f"int32 of shape ({n},)", numbers)
    return labels, numbers  # type: ignore[return-value]


def _check_numbers(labels: npt.NDArray[Any], numbers: npt.NDArray[np.int32]) -> None:
    """Raise ValueError unless each group has items, and each item one of the groups."""
    are_right = numbers.min() >= 0 and numbers.max() < len(labels)
    are_right = are_right and np.bincount(numbers, minlength=len(labels)).all()
    require(bool(are_right), _GROUPS, f"all numbers from 0 to {len(labels) - 1}", numbers)


def _check_content(index: Any, digests: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Raise ValueError unless the mapped arrays have their checksums; this reads all of them."""
    if digests != {name: digest(array) for name, array in arrays.items()}:
        raise ValueError("the checksum of its codes is not that of their content. Save the index again.")
    n_whole, n_rest = divmod(index._items.codes.nbits, 8)
    if n_rest and (index._items.codes.blocks[:, n_whole] & (0xFF >> n_rest)).any():
        raise ValueError("`blocks` must have zeros after the last bit of a code.")
    if "ids_" in arrays and len(np.unique(index.ids_)) < len(index.ids_):
        raise ValueError("`ids_` must differ from each other. Got repeated ones.")
    if "groups_" in arrays:
        _check_numbers(index._items.groups.labels, arrays["groups_"])
