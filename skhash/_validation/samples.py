"""Kinds of X that hashers take; the error for the others says what to pass instead."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from skhash._validation.numeric import check_not_masked

_ARRAYS = ("__array__", "__array_interface__", "__dataframe__", "__arrow_c_stream__", "__dlpack__")
_DATASET = "torch.utils.data.dataset.Dataset"
_SVD = (
    "from sklearn.decomposition import TruncatedSVD; from sklearn.pipeline import make_pipeline; "
    "hasher = make_pipeline(TruncatedSVD({width}), {name}(nbits={nbits}))"
)
_READ = "X = numpy.stack([numpy.ravel(dataset[i][0]) for i in range(len(dataset))])"
_STACK = "X = numpy.stack([numpy.atleast_3d(image).transpose(2, 0, 1) for image in images])"


def check_kind(X: Any, hasher: Any, *, takes_sparse: bool = False, takes_datasets: bool = False) -> None:
    """Raise TypeError or ValueError for samples of a kind that a hasher does not take, with a line that helps.

    Arrays, lists, data frames and whatever else numpy converts go on to scikit-learn's validation.
    """
    if sparse.issparse(X):
        if not takes_sparse:
            raise TypeError(_sparse_message(X, hasher))
        return
    found = None if isinstance(X, np.ndarray) else _other_kind(X, takes_datasets)
    if found is not None:
        kind = "an array, or a torch Dataset," if takes_datasets else "an array of shape (n_samples, n_features)"
        given, remedy = found
        raise TypeError(f"`X` must be {kind} for {type(hasher).__name__}. Got {given} instead. {remedy}".strip())
    check_not_masked(X, "X")
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind in ("c", "m", "M"):  # the message of scikit-learn, which itself takes dates for numbers
        what = "Complex data" if kind == "c" else "Dates"
        raise ValueError(f"{what} not supported: `X` must hold real numbers for {type(hasher).__name__}.")
    check_not_1d(X)
    n_axes = getattr(X, "ndim", 2)
    if n_axes > 2 and not takes_datasets:
        raise ValueError(  # the message of scikit-learn, and what to do
            f"Found array with dim {n_axes}, while dim <= 2 is required by {type(hasher).__name__}. Pass "
            "X.reshape(len(X), -1), or use a deep hasher for images, such as TALRHasher."
        )
    if isinstance(X, list | tuple):
        lengths = sorted({len(sample) for sample in X if hasattr(sample, "__len__")})
        if len(lengths) > 1:
            raise ValueError(
                f"`X` must have samples of one length. Got samples of {lengths[0]} and of {lengths[-1]} values instead."
            )


def check_not_1d(X: Any, name: str = "X") -> None:
    """Raise ValueError for a vector in place of samples, with the message of scikit-learn but without the values."""
    is_list, has_numpy, has_reshape = isinstance(X, Sequence), hasattr(X, "to_numpy"), hasattr(X, "reshape")
    if not is_list and not hasattr(X, "shape") and hasattr(X, "__array__"):  # a column of a pyarrow table
        X = np.asarray(X)
    shape = (len(X),) if is_list else getattr(X, "shape", None)
    if shape is None or len(shape) > 1:
        return
    first: Any = next(iter(X), None) if len(shape) else X
    if isinstance(first, str | bytes | os.PathLike):
        remedy = "Read the files first, or turn text into features."
        raise ValueError(f"`{name}` must be an array of numbers. Got text or paths instead. {remedy}")
    has_rows = len(first.shape) > 0 if hasattr(first, "shape") else hasattr(first, "__len__")
    if not has_rows:
        array = name if has_reshape else f"numpy.array({name})"
        found = f"1D array of {shape[0]} values" if len(shape) else "scalar"
        raise ValueError(
            f"Expected 2D array, got {found} instead. Reshape your data: {array}.reshape(1, -1) makes it a single "
            "sample."
        )
    if not is_list:
        array = f"{name}.to_numpy()" if has_numpy else name
        raise ValueError(f"Expected 2D array, got 1D array of arrays instead. Pass numpy.stack({array}).")


def describe_keys(mapping: Mapping[Any, Any]) -> str:
    """Text with the first keys of a dict."""
    keys = ", ".join(repr(key) for key in list(mapping)[:5])
    return f"a dict with the keys {keys}" if keys else "an empty dict"


def _other_kind(X: Any, takes_datasets: bool) -> tuple[str, str] | None:
    """What X is, in words, and what to do about it; None if X may be an array."""
    names = _class_names(X)
    if hasattr(X, "__dask_graph__"):
        remedy = (
            "encode it with skhash.dask.encode(hasher, X), which stays lazy; fit a sample, such as X[:100000].compute()"
        )
        return "a dask collection", f"Computing it would gather all of it: {remedy}."
    first: Any = X[0] if isinstance(X, list | tuple) and X else None
    if "torch.utils.data.dataloader.DataLoader" in names:
        if takes_datasets:
            return "a DataLoader", "Pass its Dataset, loader.dataset: the hasher draws batches of `batch_size` itself."
        return "a DataLoader", f"Read its Dataset first: dataset = loader.dataset; {_READ}"
    if _DATASET in names:
        deep = "or use a deep hasher, such as TALRHasher, which reads it batch by batch"
        return None if takes_datasets else ("a torch Dataset", f"Read it first, {_READ}, {deep}.")
    for tensor, what, code in ((X, "a tensor", "X"), (first, "a list of tensors", "torch.stack(X)")):
        if "torch.Tensor" not in _class_names(tensor):
            continue
        if tensor.requires_grad or tensor.device.type != "cpu":
            given = f"{what} on {tensor.device} with requires_grad={tensor.requires_grad}"
            return given, f"Pass {code}.detach().cpu()."
        if str(tensor.dtype).startswith(("torch.bfloat16", "torch.float8")):  # numpy has no such types
            return f"{what} of type {tensor.dtype}", f"Pass {code}.float()."
        if str(tensor.layout) != "torch.strided":
            return f"{what} of layout {tensor.layout}", f"Pass {code}.to_dense()."
    if "PIL.Image.Image" in names or "PIL.Image.Image" in _class_names(first):
        flat = "" if takes_datasets else ".reshape(len(images), -1)"
        return "images of PIL", f"Convert them first: {_STACK}{flat}"
    if isinstance(X, Mapping):
        return describe_keys(X), f"Pass one of its values, such as X[{next(iter(X))!r}]." if X else ""
    if isinstance(first, Mapping):
        return f"a list whose items are {describe_keys(first)}", "Pass a list of one value of each."
    if X is None or isinstance(X, str | bytes | Iterator | set | frozenset | bool | int | float | complex):
        remedy = "Collect its samples first: numpy.array(list(X))." if isinstance(X, Iterator | set | frozenset) else ""
        short = isinstance(X, str | bool | None) and len(str(X)) <= 50
        return repr(X) if short else f"a value of type {type(X).__name__}", remedy
    may_be_array = isinstance(X, list | tuple) or any(hasattr(X, name) for name in _ARRAYS)
    if may_be_array or (hasattr(X, "__len__") and hasattr(X, "__getitem__") and not _is_table(names)):
        return None
    return f"a value of type {type(X).__name__}", "Convert it to an array first."


def is_dataset(X: Any) -> bool:
    """Whether samples are a torch Dataset; torch need not be imported."""
    return _DATASET in _class_names(X)


def _is_table(names: set[str]) -> bool:
    """Whether a class is the Dataset of Hugging Face, whose items are dicts."""
    return any(name.startswith("datasets.") for name in names)


def _class_names(value: Any) -> set[str]:
    """Dotted names of the class of a value and of its bases, which need no import of torch or PIL."""
    return {f"{base.__module__}.{base.__qualname__}" for base in type(value).__mro__}


def _sparse_message(X: Any, hasher: Any) -> str:
    name, nbits = type(hasher).__name__, hasher.nbits
    line = _SVD.format(width=max(1, min(100, X.shape[-1] - 1)), name=name, nbits=nbits)
    return (
        f"`X` must be dense for {name}. Got a sparse {type(X).__name__} of shape {X.shape} instead. LSHHasher takes "
        f"sparse samples. For {name} reduce them with TruncatedSVD:\n{line}"
    )
