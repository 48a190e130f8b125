"""Hashers as ONNX files: codes and real queries in other languages, browsers and phones, without torch or skhash.

    input     X                float32 (n, n_features), or images (n, channels, height, width); any n
    outputs   activations      float32 (n, nbits)
              bits             uint8   (n, nbits), 1 where the activation is >= 0
              codes            uint8   (n, ceil(nbits / 8)), packed as by numpy.packbits
    or        queries          float32 (n, nbits), with queries=True

The packages onnx and onnxscript write the file (``pip install onnx onnxscript``); any runtime of ONNX reads it.
"""

import copy
import io
import os
import warnings
from contextlib import redirect_stdout
from typing import Any

try:
    import torch
except ModuleNotFoundError as error:
    raise ImportError("torch must be installed for ONNX files: pip install torch") from error

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted
from torch import nn

from skhash._files import check_writable, write_atomically
from skhash._libraries import library
from skhash.engine.networks import declared_statistics
from skhash.engine.runtime import own_settings
from skhash.features import PretrainedFeatures
from skhash.functions import DenseFunction, LinearFunction
from skhash.functions.network import NetworkFunction, NetworkModule
from skhash.vectors.codes import ReconstructionFunction

__all__ = ["to_onnx"]

N_ROWS = 1000  # samples of the check
N_VALUES = 2**23  # at most, of these samples
MAX_OTHER = 0.001  # share of the bits that may differ
ROUNDING = 1000  # units of the last place of the largest activation, within which a bit is not counted


def to_onnx(
    model: Any, path: str | os.PathLike[str], *, queries: bool = False, dtype: str = "float32", X: Any = None
) -> None:
    """Write a fitted hasher as an ONNX file.

    Parameters
    ----------
    model : BaseHasher or Pipeline
        A deep hasher with any backbone that torch can export, or one of LSH, PCA, ITQ and ITQ-CCA. In a Pipeline,
        the steps before it may be StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer and PretrainedFeatures.
    path : str or Path
        The file, usually ``*.onnx``.
    queries : bool, default=False
        Whether the file computes real queries, as ``project_queries``, and not codes.
    dtype : "float32" or "float64", default="float32"
        Type of the input, and of all that is computed before a network. Features that are far from 0 for their
        scale, such as time stamps, need float64.
    X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width), default=None
        Samples for the check of the bits, as the model takes them; a thousand are enough. None draws normal values
        with the mean and the scale of the training samples, which the hasher keeps. Before PretrainedFeatures, it
        draws images of noise, which say little: give a few images.

    Raises
    ------
    TypeError
        If the hasher, or a step before it, cannot be exported.
    ValueError
        If `dtype` is unknown, `queries` is False for codes that a search finds, or more than 0.1 % of the bits of `X`
        differ from those of the hasher.
    ImportError
        If onnx or onnxscript is not installed.

    See Also
    --------
    skhash.persistence.save : The whole hasher in a file for Python.

    Notes
    -----
    The `fingerprint_` of the hasher is in the metadata of the file, under the key ``skhash.fingerprint``.
    The codes are those of ``encode`` except for bits whose activations are 0 up to rounding. Before the file is
    written, its computation runs in torch on `X`, and its bits, or the signs of its real queries, are compared with
    those of the hasher. Bytes of images must be divided by 255. The file does not check its input: NaN and infinity,
    which a hasher refuses, give activations and bits without a meaning.

    Where a search finds the codes of an EmbeddingHasher, a file has its real queries alone: :ref:`onnx_store`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash.onnx import to_onnx
    >>> X, y = load_digits(return_X_y=True)
    >>> path = Path(tempfile.mkdtemp(), "itq.onnx")
    >>> to_onnx(ITQHasher(16, random_state=0).fit(X), path)
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(path)
    >>> activations, bits, codes = session.run(None, {"X": X[:5].astype("float32")})
    >>> codes.shape
    (5, 2)
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"`dtype` must be 'float32' or 'float64'. Got {dtype!r} instead.")
    *before, hasher = _steps(model)
    check_is_fitted(hasher)
    check_writable(path)
    floats = torch.float64 if dtype == "float64" else torch.float32
    modules = [_step_module(step, floats) for step in before]
    modules.append(_hasher_module(hasher, queries, floats))
    if not queries:
        modules.append(_Bits())
    names = ["queries"] if queries else ["activations", "bits", "codes"]
    first = before[0] if before else hasher
    network = nn.Sequential(*modules).eval()
    samples = _drawn_samples(before, hasher) if X is None else X
    share = _share_of_other_bits(network, before, hasher, samples, floats, queries)
    if share > MAX_OTHER:
        raise ValueError(_message(share, dtype, is_drawn=X is None))
    example = torch.zeros((2, *_input_shape(first)), dtype=floats)
    content = _export(network, example, names, hasher.fingerprint_)
    with write_atomically(path) as file:
        file.write(content)


def _steps(model: Any) -> list[Any]:
    """Fitted steps of a Pipeline or a search, the hasher last."""
    if hasattr(model, "best_estimator_"):
        return _steps(model.best_estimator_)
    if isinstance(model, FrozenEstimator):
        return _steps(model.estimator)
    if not isinstance(model, Pipeline):
        return [model]
    return [inner for _, step in model.steps if step not in (None, "passthrough") for inner in _steps(step)]


def _export(network: nn.Module, example: torch.Tensor, names: list[str], fingerprint: str) -> bytes:
    """ONNX file of a network whose first axis may have any length, with the fingerprint of its hasher."""
    for package in ("onnx", "onnxscript"):
        library(package, package, "to_onnx")
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    with own_settings(), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # of torch, about its own parts
        program: Any = torch.onnx.export(
            network,
            (example,),
            input_names=["X"],
            output_names=names,
            dynamic_shapes=({0: torch.export.Dim("n", min=1)},),
            dynamo=True,
            verbose=False,
        )
    RemoveUnusedNodesPass()(program.model)
    model = program.model_proto
    model.metadata_props.add(key="skhash.fingerprint", value=fingerprint)
    content: bytes = model.SerializeToString()
    return content


class _Affine(nn.Module):
    """(X - shift) / scale, within bounds."""

    def __init__(self, shift: Any, scale: Any, dtype: torch.dtype, bounds: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.shift = nn.Buffer(torch.as_tensor(shift, dtype=dtype))
        self.scale = nn.Buffer(torch.as_tensor(scale, dtype=dtype))
        self.bounds = bounds

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        X = (X - self.shift) / self.scale
        return X if self.bounds is None else X.clamp(*self.bounds)


class _Cast(nn.Module):
    """Values in another type."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X.to(self.dtype)


class _Normalize(nn.Module):
    """Samples divided by their norms; a sample of zeros stays."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        self.order = {"l1": 1.0, "l2": 2.0, "max": float("inf")}[norm]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        norms = torch.linalg.vector_norm(X, self.order, dim=1, keepdim=True)
        return X / torch.where(norms == 0, 1.0, norms)


class _Outputs(nn.Module):
    """Activations or real queries of a function."""

    def __init__(self, function: Any, queries: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.offset = None
        if isinstance(function, NetworkFunction):
            self.compute: Any = copy.deepcopy(function.module(torch.device("cpu")))
            self.offset = None if function.offset is None else torch.tensor(function.offset)
            return
        # one map is computed in the type of the input, layers are in float32 behind an offset in float64
        kind = dtype if isinstance(function, LinearFunction) else None
        on_tensors = function.converted(lambda array: torch.tensor(array, dtype=kind))
        self.compute = on_tensors.queries if queries else on_tensors.activations

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        if isinstance(self.compute, NetworkModule):
            X = (X if self.offset is None else X - self.offset).float()
            outputs: torch.Tensor = self.compute(X)
            return outputs
        mapped: torch.Tensor = self.compute(X).float()
        return mapped


class _Bits(nn.Module):
    """Activations, bits, and packed codes."""

    def forward(self, activations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        bits = (activations >= 0).to(torch.int32)
        bytes_of = nn.functional.pad(bits, (0, -bits.shape[1] % 8)).reshape(bits.shape[0], -1, 8)
        values = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.int32)
        codes = (bytes_of * values).sum(2, dtype=torch.int32)
        return activations, bits.to(torch.uint8), codes.to(torch.uint8)


def _step_module(step: Any, dtype: torch.dtype) -> nn.Module:
    """Module of a step before the hasher."""
    if isinstance(step, StandardScaler):
        shift = 0.0 if step.mean_ is None or not step.with_mean else step.mean_
        return _Affine(shift, 1.0 if step.scale_ is None else step.scale_, dtype)
    if isinstance(step, MinMaxScaler):
        return _Affine(-step.min_ / step.scale_, 1 / step.scale_, dtype, step.feature_range if step.clip else None)
    if isinstance(step, MaxAbsScaler):
        clips = getattr(step, "clip", False)  # not a parameter of older versions
        return _Affine(0.0, step.scale_, dtype, (-1.0, 1.0) if clips else None)
    if isinstance(step, Normalizer):
        return _Normalize(step.norm)
    if isinstance(step, PretrainedFeatures):
        network = copy.deepcopy(step._module.cpu())
        if (declared := declared_statistics(network, step.input_shape_[0])) is None:
            return nn.Sequential(_Cast(torch.float32), network, _Cast(dtype))
        mean, std = (torch.tensor(values)[:, None, None] for values in declared)
        return nn.Sequential(_Cast(torch.float32), _Affine(mean, std, torch.float32), network, _Cast(dtype))
    raise TypeError(
        "`model` must have StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer or PretrainedFeatures before the "
        f"hasher. Got {type(step).__name__} instead: apply it before the ONNX file."
    )


def _hasher_module(hasher: Any, queries: bool, dtype: torch.dtype) -> nn.Module:
    """Module of the activations or real queries of a hasher."""
    function = hasher.function_
    if not isinstance(function, LinearFunction | DenseFunction | NetworkFunction | ReconstructionFunction):
        raise TypeError(
            "`model` must end in a deep hasher or in LSHHasher, PCAHasher, ITQHasher or ITQCCAHasher. "
            f"Got {type(hasher).__name__} instead: encode with skhash."
        )
    if not queries and not hasattr(hasher, "project"):
        raise ValueError(
            f"`queries` must be True for a {type(hasher).__name__}, which makes no codes. Got False instead."
        )
    if isinstance(function, ReconstructionFunction) and not queries:
        raise ValueError(
            f"`queries` must be True for this {type(hasher).__name__}, whose codes a search finds. Got False instead. "
            "Encode items with skhash, and ask with the signs of real queries."
        )
    with hasher._environment():
        return _Outputs(function, queries, dtype)


def _input_shape(step: Any) -> tuple[int, ...]:
    """Shape of a sample of a step or a hasher."""
    return getattr(step, "input_shape_", None) or (step.n_features_in_,)


def _drawn_samples(before: list[Any], hasher: Any) -> npt.NDArray[Any]:
    """Normal samples with the mean and the scale that the hasher keeps, as they are before the steps of a Pipeline."""
    rng = np.random.default_rng(0)
    if any(isinstance(step, PretrainedFeatures) for step in before):
        shape = _input_shape(before[0])
        return rng.random((_n_rows(shape), *shape))
    function: Any = hasher.function_
    mean: Any
    scale: Any
    if isinstance(function, NetworkFunction):
        mean, scale = function.weights["mean"], function.weights["scale"]
    elif (scale := getattr(function, "spread", getattr(function, "scale", None))) is not None:
        mean = function.mean.reshape(_input_shape(hasher))
    else:
        raise ValueError(
            f"`X` must be a thousand samples for a {type(hasher).__name__} that does not keep their scale. Got None "
            "instead."
        )
    shape, offset = _input_shape(hasher), getattr(function, "offset", None)
    mean = np.asarray(mean, np.float64) + (0 if offset is None else offset.reshape(mean.shape))
    samples: npt.NDArray[Any] = mean + scale * rng.standard_normal((_n_rows(shape), *shape))
    for step in reversed(before):
        if isinstance(step, StandardScaler) and step.var_ is not None:  # knows the scale of each feature
            samples = step.mean_ + np.sqrt(step.var_) * rng.standard_normal(samples.shape)
        elif hasattr(step, "inverse_transform"):
            samples = step.inverse_transform(samples)
        if isinstance(step, MinMaxScaler):
            samples = samples.clip(step.data_min_, step.data_max_)
    return samples


def _n_rows(shape: tuple[int, ...]) -> int:
    """Number of samples of a shape that are compared at once."""
    return max(1, min(N_ROWS, N_VALUES // int(np.prod(shape))))


def _share_of_other_bits(
    network: nn.Module, before: list[Any], hasher: Any, X: Any, dtype: torch.dtype, queries: bool
) -> float:
    """Share of the bits, or signs of real queries, of a network that are not those of the hasher."""
    X = X.tocsr() if issparse(X) else np.asarray(X)
    steps = [
        copy.copy(step).set_params(cache=None) if isinstance(step, PretrainedFeatures) else step for step in before
    ]
    eps = np.finfo(hasher.function_.projection.dtype if hasattr(hasher.function_, "projection") else np.float32).eps
    n_other = n_bits = 0
    with own_settings(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, about the names of features
        for part in gen_batches(max(1, X.shape[0]), _n_rows(X.shape[1:])):
            samples = inner = _as_input(X[part], dtype)
            for step in steps:
                inner = step.transform(inner)
            expected = hasher.project_queries(inner) if queries else hasher.project(inner)
            outputs = network(torch.tensor(samples, dtype=dtype))
            found = (outputs if queries else outputs[0]).numpy()
            is_sure = np.abs(expected) > ROUNDING * eps * np.abs(expected).max()
            n_other += int(np.count_nonzero(is_sure & ((found >= 0) != (expected >= 0))))
            n_bits += expected.size
    return n_other / n_bits


def _as_input(X: Any, dtype: torch.dtype) -> npt.NDArray[Any]:
    """Dense floats, with images in [0, 1], as an ONNX file takes them; steps of a Pipeline then compute in float64."""
    samples: npt.NDArray[Any] = X.toarray() if issparse(X) else X
    if samples.dtype == np.uint8 and samples.ndim > 2:
        samples = samples / 255
    stays = samples.dtype == np.float32 and dtype == torch.float32
    return np.ascontiguousarray(samples, np.float32 if stays else np.float64)


def _message(share: float, dtype: str, is_drawn: bool) -> str:
    """Error of a file that would give other bits."""
    what = "of normal samples with the mean and the scale of the training samples" if is_drawn else "of `X`"
    if dtype == "float64":
        return f"`model` must give the same bits in a file. Got {share:.1%} other bits {what}: encode with skhash."
    message = (
        "`dtype` must be 'float64' for features that are far from 0 for their scale. Got 'float32', with which "
        f"{share:.1%} of the bits {what} differ."
    )
    return f"{message} If these samples are not like yours, give a thousand of yours as `X`." if is_drawn else message
