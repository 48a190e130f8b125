"""What scikit-learn's validation does not say: each error names the argument or the file, and the remedy."""

import functools
import math
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skhash.registry import METHODS

if TYPE_CHECKING:
    import torch


def with_nearest(names: Iterable[str], known: Iterable[str]) -> str:
    """Text that quotes wrong names, each with the most similar right one if there is one."""
    from difflib import get_close_matches

    right = {name.lower(): name for name in known}
    parts = []
    for name in names:
        near = get_close_matches(name.lower(), right, n=1, cutoff=0.55)
        parts.append(f"{name!r} (did you mean {right[near[0]]!r}?)" if near else repr(name))
    return ", ".join(parts)


VectorMetric = Literal["euclidean", "cosine", "inner"]
VECTOR_METRICS: tuple[VectorMetric, ...] = get_args(VectorMetric)


def qualified_name(value: Any) -> str:
    """Name of a class or function, or of the class of an object, with its module."""
    kind = value if hasattr(value, "__qualname__") and hasattr(value, "__module__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def check_option(name: str, value: object, allowed: Sequence[str | None]) -> None:
    """Raise ValueError unless the option `name` has one of the allowed values."""
    if value not in allowed:
        got = with_nearest([value], filter(None, allowed)) if isinstance(value, str) else repr(value)
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, allowed))}. Got {got} instead.")


def evenly_spaced(n_samples: int, n_max: int) -> npt.NDArray[np.int64]:
    """Indices that are evenly spaced from the first sample to the last.

    Parameters
    ----------
    n_samples : int
        Number of samples; >= 1.
    n_max : int
        Largest number of indices.

    Returns
    -------
    ndarray of int64
        Indices in ascending order.

    Examples
    --------
    >>> from skhash._validation import evenly_spaced
    >>> evenly_spaced(10, 3), evenly_spaced(2, 3)
    (array([0, 4, 9]), array([0, 1]))
    """
    return np.unique(np.linspace(0, int(n_samples) - 1, int(n_max)).astype(np.int64))


_WORDS = {"c": "complex numbers", "U": "text", "S": "bytes", "O": "other objects", "M": "dates", "m": "durations"}


def numeric(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array of real numbers, without a copy of an array; ValueError for anything else."""
    array = as_array(values, name)
    if array.dtype.kind not in "biuf":
        given = type(values).__name__ if array.ndim == 0 and array.dtype == np.dtype(object) else None
        found = given or _WORDS.get(array.dtype.kind, f"values of dtype {array.dtype}")
        raise ValueError(f"`{name}` must be an array of numbers. Got {found} instead.")
    return array


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array of any dtype, without a copy of an array; an error names the argument."""
    check_not_masked(values, name)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must have the same number of values in each row. Got lists of several lengths."
        ) from error
    except (RuntimeError, TypeError) as error:  # the error of torch says what to do
        raise TypeError(
            f"`{name}` must be an array. Got a {type(values).__name__}, which numpy cannot read: {error}"
        ) from error


def check_not_masked(values: Any, name: str) -> None:
    """Raise ValueError for an array with masked values, since numpy would use the values below the mask."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"`{name}` must have no missing values. Got {np.count_nonzero(np.ma.getmaskarray(values))} masked ones "
            f"instead. Fill them, as {name}.filled(0) does, or leave their samples out."
        )


def sum_of_squares(values: Any) -> float | None:
    """Sum of squares, which is not finite if a value is not; None unless the values are contiguous floats."""
    if not isinstance(values, np.ndarray) or values.dtype not in (np.float32, np.float64):
        return None
    if not values.flags.forc:
        return None
    flat = values.ravel(order="K")
    with np.errstate(all="ignore"):
        return float(np.dot(flat, flat))


def is_count(value: object, largest: float = math.inf, least: int = 1) -> bool:
    """Whether a value is an integer from `least` to `largest`; True and False are not."""
    # a tuple, since to make a union takes longer than the check, which is part of a search among few items
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(least <= value <= largest)


def as_count(value: Any, name: str, what: str = "", *, least: int = 1, largest: float = math.inf, got: str = "") -> int:
    """The Python int of a parameter, since sums of numpy's small integers overflow; ValueError if it is no such count.

    `what` says in the error what the parameter must be, if that is more than its range, and `got` what follows its
    value.
    """
    if not is_count(value, largest, least):
        what = what or (f"an int >= {least}" if largest == math.inf else f"an int from {least} to {largest}")
        raise ValueError(f"`{name}` must be {what}. Got {value!r}{got} instead.")
    return int(value)


def check_resume(resume: bool, checkpoint: Any) -> None:
    """Raise ValueError if a fit is to resume without a checkpoint."""
    if resume and checkpoint is None:
        raise ValueError("`checkpoint` must be a folder to fit with resume=True. Got None instead.")


def check_prefixes(prefixes: Any, most: int, bits: str) -> None:
    """Raise ValueError unless numbers of first bits ascend below `most`, the number of `bits` of a code."""
    are_ints = all(is_count(n) for n in prefixes)
    if not are_ints or (np.diff([0, *prefixes, most]) <= 0).any():
        raise ValueError(f"`prefixes` must be ascending numbers of bits below {most}, {bits}. Got {prefixes} instead.")


def as_count_or_none(value: Any, name: str, **options: Any) -> int | None:
    """None, or the Python int of a parameter; see :func:`as_count`."""
    what = f"None or {options.pop('what', 'an int >= 1')}"
    return None if value is None else as_count(value, name, what, **options)


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

    Arrays, lists, data frames and whatever else numpy converts pass, for scikit-learn to validate them.
    """
    if sparse.issparse(X):
        if not takes_sparse:
            raise TypeError(_sparse_message(X, hasher))
        return
    if hasattr(X, "iloc") and hasattr(X, "sparse") and not takes_sparse:  # all columns are sparse
        name = type(hasher).__name__
        raise TypeError(f"`X` must be dense for {name}. Got a frame of sparse columns. Pass X.sparse.to_dense().")
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
    if type(X) is np.ndarray and X.ndim > 1:  # the other questions take a tenth of a search among few items
        return
    is_list, has_numpy, has_reshape = isinstance(X, Sequence), hasattr(X, "to_numpy"), hasattr(X, "reshape")
    if not is_list and not hasattr(X, "shape") and hasattr(X, "__array__"):  # a column of a pyarrow table
        X = np.asarray(X)
    shape = (len(X),) if is_list else getattr(X, "shape", None)
    if shape is None or len(shape) > 1:
        if hasattr(X, "iloc") and shape and shape[0]:
            _check_not_of_arrays(X, name)
        return
    first: Any = next(iter(X), None) if len(shape) else X
    if isinstance(first, bytes):  # codes as a store returns them
        remedy = f'Pass numpy.frombuffer(b"".join({name}), numpy.uint8).reshape(len({name}), -1).'
        raise ValueError(f"`{name}` must be an array of numbers. Got bytes instead. {remedy}")
    if isinstance(first, str | os.PathLike):
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


def _check_not_of_arrays(frame: Any, name: str) -> None:
    """Raise ValueError for a frame of pandas with a column of arrays or lists."""
    for place, kind in enumerate(frame.dtypes):
        cell = frame.iloc[0, place] if kind.kind == "O" else None
        if hasattr(cell, "__len__") and not isinstance(cell, str | bytes):
            column = f"{name}[{frame.columns[place]!r}]"
            raise ValueError(
                f"`{name}` must have a number in each cell. Got a {type(cell).__name__} in {column}. Pass "
                f"numpy.stack({column}) if it holds all features."
            )


def describe_keys(mapping: Mapping[Any, Any]) -> str:
    """Text with the first keys of a dict."""
    keys = ", ".join(repr(key) for key in list(mapping)[:5])
    return f"a dict with the keys {keys}" if keys else "an empty dict"


def _other_kind(X: Any, takes_datasets: bool) -> tuple[str, str] | None:
    """What X is, in words, and what to do about it; None if X may be an array."""
    names = class_names(X)
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
        if "torch.Tensor" not in class_names(tensor):
            continue
        if tensor.requires_grad or tensor.device.type != "cpu":
            given = f"{what} on {tensor.device} with requires_grad={tensor.requires_grad}"
            return given, f"Pass {code}.detach().cpu()."
        if str(tensor.dtype).startswith(("torch.bfloat16", "torch.float8")):  # numpy has no such types
            return f"{what} of type {tensor.dtype}", f"Pass {code}.float()."
        if str(tensor.layout) != "torch.strided":
            return f"{what} of layout {tensor.layout}", f"Pass {code}.to_dense()."
    if "PIL.Image.Image" in names or "PIL.Image.Image" in class_names(first):
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


def resolve_device(device: "str | torch.device") -> "torch.device":
    """Available torch device for the parameter `device`.

    Parameters
    ----------
    device : str or torch.device
        "auto" is a CUDA device if there is one, else the CPU. Otherwise "cpu", "cuda", "cuda:1"
        and so on. Other kinds lack the float64 that counts need.

    Returns
    -------
    torch.device
        The device.

    Raises
    ------
    ValueError
        If the device is unknown or not available.

    Examples
    --------
    >>> from skhash._validation import resolve_device
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        if resolved.type not in ("cpu", "cuda"):
            raise NotImplementedError
        torch.empty(0, device=resolved)
    except (TypeError, RuntimeError, AssertionError, NotImplementedError) as error:
        available = ["auto", "cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise ValueError(f"`device` must be available, one of {available}. Got {str(device)!r} instead.") from error
    return resolved


def is_cpu(device: Any) -> bool:
    """Whether a value of the parameter `device` is the CPU. torch is imported only if there may be a GPU."""
    if device == "auto" and "torch" not in sys.modules and not _may_have_gpu():
        return True
    return str(device) == "cpu" or resolve_device(device).type == "cpu"


@functools.cache
def _may_have_gpu() -> bool:
    """Whether this machine has the driver of a GPU."""
    paths = "/dev/nvidiactl", "/dev/dxg", "/dev/kfd"  # of Linux, of Linux inside Windows, and of AMD
    return sys.platform == "win32" or any(map(os.path.exists, paths))


def on_host(X: Any) -> Any:
    """X itself, or a copy in the memory of the host if X is a tensor of a CUDA device."""
    return X.detach().cpu() if getattr(getattr(X, "device", None), "type", None) == "cuda" else X


def is_dataset(X: Any) -> bool:
    """Whether samples are a torch Dataset; torch need not be imported."""
    return _DATASET in class_names(X)


def is_module(value: Any) -> bool:
    """Whether a value is a module of torch, which need not be imported."""
    return "torch.nn.modules.module.Module" in class_names(value)


#: numbers of channels of usual images: gray, RGB, RGBA
CHANNELS = (1, 3, 4)


def check_channels(shape: tuple[int, ...], backbone: Any, is_dataset: bool) -> None:
    """Raise ValueError for training images with the channels last, or warn if a module of the user may take them."""
    if len(shape) != 3 or shape[2] not in CHANNELS or min(shape[:2]) <= 4:
        return
    if not is_module(backbone):
        raise ValueError(
            f"`X` must hold images of shape (channels, height, width). Got samples of shape {shape}, which are "
            f"{shape[0]} channels. {_channels_first(is_dataset)}"
        )
    warnings.warn(
        f"X has images of shape {shape}, and axis 1 is taken for {shape[0]} channels. {_channels_first(is_dataset)}",
        UserWarning,
        stacklevel=2,
    )


def check_same_shape(shape: tuple[int, ...], fitted: tuple[int, ...], is_dataset: bool) -> None:
    """Raise ValueError unless samples have the shape of the training samples."""
    if shape != fitted:
        hint = f" {_channels_first(is_dataset)}" if (*shape[2:], *shape[:2]) == fitted else ""
        raise ValueError(f"`X` must have samples of shape {fitted}, as in fit. Got {shape} instead.{hint}")


def _channels_first(is_dataset: bool) -> str:
    move = "return image.transpose(2, 0, 1) from the Dataset" if is_dataset else "pass X.transpose(0, 3, 1, 2)"
    return f"If the channels are last, {move}."


def _is_table(names: set[str]) -> bool:
    """Whether a class is the Dataset of Hugging Face, whose items are dicts."""
    return any(name.startswith("datasets.") for name in names)


def class_names(value: Any) -> set[str]:
    """Dotted names of the class of a value and of its bases, which need no import of torch or PIL."""
    return {f"{base.__module__}.{base.__qualname__}" for base in type(value).__mro__}


def _sparse_message(X: Any, hasher: Any) -> str:
    name, nbits = type(hasher).__name__, hasher.nbits
    line = _SVD.format(width=max(1, min(100, X.shape[-1] - 1)), name=name, nbits=nbits)
    return (
        f"`X` must be dense for {name}. Got a sparse {type(X).__name__} of shape {X.shape} instead. LSHHasher takes "
        f"sparse samples. For {name} reduce them with TruncatedSVD:\n{line}"
    )


#: largest value, and smallest range of the training samples: float32 holds both, and float64 their fourth powers
MAX_VALUE, MIN_RANGE = 1e30, 1e-30
#: between these, sums of squares fit into float32
MAX_FLOAT32, MIN_FLOAT32 = 1e15, 1e-15
#: features whose mean is this many scales from 0 are shifted before they are multiplied or rounded
FAR = 1024.0


def check_values(X: Any, *, fit: bool = False) -> Any:
    """Samples with values up to 1e30; for `fit` with a range of at least 1e-30, and in float64 if squares need it."""
    remedy = "Multiply all samples by one number, such as 1 / numpy.abs(X_train).max()."
    values = getattr(X, "data", X) if hasattr(X, "tocsr") else X
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.size == 0:
        return X
    if not fit and are_within(values):
        return X
    lowest, highest = values.min(axis=0), values.max(axis=0)
    largest = max(float(highest.max()), -float(lowest.min()))
    if largest > MAX_VALUE:
        extreme = largest if highest.max() == largest else -largest
        raise ValueError(
            f"`X` must have values between {-MAX_VALUE:g} and {MAX_VALUE:g}. Got {extreme:g} instead. {remedy}"
        )
    if not fit:
        return X
    extent = float((highest - lowest).max()) if values is X else largest
    if 0 < extent < MIN_RANGE:
        raise ValueError(
            f"`X` must have a feature whose values differ by {MIN_RANGE:g} or more. Got differences of at most "
            f"{extent:g} instead. {remedy}"
        )
    if values.dtype == np.float32 and (largest > MAX_FLOAT32 or 0 < extent < MIN_FLOAT32):
        return X.astype(np.float64)
    return X


def are_within(values: Any) -> bool:
    """Whether values are contiguous floats, finite and in range, from one fast pass."""
    total = sum_of_squares(values)
    return total is not None and total <= MAX_VALUE**2


def check_activations(activations: npt.NDArray[Any], hasher: Any) -> npt.NDArray[Any]:
    """Activations of shape (n_samples, nbits), if all are finite; ValueError otherwise."""
    total = sum_of_squares(activations)
    if total is not None and np.isfinite(total):
        return activations
    finite = np.isfinite(activations).all(axis=1)
    if not finite.all():
        lower = " with a lower `learning_rate`" if hasattr(hasher, "learning_rate") else ""
        raise ValueError(
            f"`X` must have finite activations. Got NaN or infinity for {(~finite).sum()} of {len(finite)} samples "
            f"instead. Look for extreme values in X, or fit again{lower}."
        )
    return activations


def far_offset(mean: npt.NDArray[Any], scale: float) -> npt.NDArray[np.float64] | None:
    """What to subtract from features that are far from 0 so that float32 keeps their digits; None if no feature is.

    It has shape (n_features,), with the means of the far features and 0 for the others. Whole numbers minus the offset
    are exact.
    """
    is_far = np.abs(mean) > FAR * scale
    return np.where(is_far, mean, 0.0).astype(np.float32).astype(np.float64) if is_far.any() else None


def is_plain(X: Any, hasher: Any) -> bool:
    """Whether scikit-learn's validation would return X, a contiguous array of finite floats, without a warning."""
    fitted = vars(hasher)
    n_features = fitted.get("n_features_in_")
    return (
        type(X) is np.ndarray
        and X.shape[1:] == (n_features,) == fitted.get("input_shape_", (n_features,))
        and X.shape[0] > 0
        and X.dtype in hasher._dtypes
        and "feature_names_in_" not in fitted
        and are_within(X)
    )


_DISTANCES = (
    "from skhash.affinity import DistanceAffinity; hasher = {name}(nbits={nbits}, affinity=DistanceAffinity()).fit(X)"
)


def missing_targets(hasher: Any) -> ValueError:
    """ValueError for a supervised hasher that is fitted without y; its message ends in a line of code to copy."""
    name = type(hasher).__name__
    message = f"This {name} estimator requires y to be passed, but the target y is None. "
    if not isinstance(hasher.affinity, str):
        return ValueError(f"{message}Pass the targets that {hasher.affinity!r} compares.")
    message += "Pass class labels or a 0/1 matrix of labels as y. "
    learn_labels = {method.class_name for method in METHODS.values() if method.needs_labels}
    if learn_labels.intersection(base.__name__ for base in type(hasher).__mro__):
        return ValueError(f"{message}Without labels use a hasher that learns from X alone, such as ITQHasher.")
    line = _DISTANCES.format(name=name, nbits=hasher.nbits)
    return ValueError(f"{message}Without labels learn from the distances between samples:\n{line}")


#: mark of an attribute that not every fit sets, as in ``Annotated[int, OPTIONAL]``
OPTIONAL = "optional"


@dataclass(frozen=True)
class Array:
    """Annotation of the shape and the values of an array that `fit` sets; floats must be finite.

    Parameters
    ----------
    shape : str
        Lengths of the axes. A name is the same length in all arrays of a hasher or of a function: "nbits",
        "n_features", or one of your own. "..." stands for any further axes.
    kinds : str, default="f"
        Kinds of dtype, as in ``numpy.dtype.kind``.
    minimum : float, default=None
        Smallest value.
    below : str, default=None
        Name of a length, if all values are indices below it.

    Examples
    --------
    >>> from typing import Annotated
    >>> import numpy as np
    >>> from skhash.functions import Array
    >>> class Fitted:
    ...     thresholds_: Annotated[np.ndarray, Array("nbits")]
    >>> Array("nbits").check("thresholds_", np.zeros(3), {"nbits": 4})
    Traceback (most recent call last):
    ValueError: `thresholds_` must have shape (nbits) with {'nbits': 4}. Got (3,) instead.
    """

    shape: str
    kinds: str = "f"
    minimum: float | None = None
    below: str | None = None

    def check(self, name: str, value: Any, lengths: dict[str, int]) -> None:
        """Raise ValueError if a value is not such an array; new lengths are added to `lengths`.

        Parameters
        ----------
        name : str
            Name of the array, for the message.
        value : object
            The value.
        lengths : dict of str to int
            Known lengths by their names.
        """
        if type(value) is not np.ndarray or value.dtype.kind not in self.kinds:
            kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
            raise ValueError(f"`{name}` must be an array of dtype kind {' or '.join(self.kinds)}. Got {kind} instead.")
        names = self.shape.split()
        is_open = names[-1:] == ["..."]
        names = names[:-1] if is_open else names
        if not (value.ndim >= len(names) if is_open else value.ndim == len(names)) or any(
            length != (int(axis) if axis.isdecimal() else lengths.setdefault(axis, length))
            for axis, length in zip(names, value.shape, strict=False)
        ):
            known = {axis: lengths[axis] for axis in names if axis in lengths}
            raise ValueError(f"`{name}` must have shape ({self.shape}) with {known}. Got {value.shape} instead.")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"`{name}` must be finite. Got NaN or infinity.")
        smallest = 0 if self.below else self.minimum
        if smallest is not None and value.size and value.min() < smallest:
            raise ValueError(f"`{name}` must be at least {smallest}. Got {value.min()} instead.")
        if self.below and value.size and value.max() >= lengths[self.below]:
            raise ValueError(f"`{name}` must be below {lengths[self.below]}. Got {value.max()} instead.")
