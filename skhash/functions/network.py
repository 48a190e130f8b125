"""Functions in torch: a trained network, and functions of arrays on a device."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import gen_batches
from torch import nn

from skhash._validation import Array, is_count
from skhash.codes.bits import MAX_NBITS
from skhash.engine import Encoder
from skhash.engine.backbones import HIDDEN
from skhash.engine.data import batch_tensor
from skhash.engine.layers import Smoothing
from skhash.engine.networks import is_network, without_weights
from skhash.engine.runtime import full_precision, own_settings, seeded
from skhash.functions.function import check_names
from skhash.functions.linear import DenseFunction, as_layer, to_unit_norm

MAX_VALUES = 2**24  # of one sample
N_SAMPLES = 4096  # that are computed at once
#: values of the images that are encoded at once: the layers of a network should stay in the cache of a CPU
N_VALUES = {"cpu": 2**20, "cuda": 2**24}


class NetworkModule(nn.Module):
    """A trained network with its heads, for samples from which an offset has been subtracted."""

    mean: torch.Tensor
    scale: torch.Tensor
    feature_mean: torch.Tensor | None
    feature_scale: torch.Tensor | None

    def __init__(self, encoder: Encoder, unit_norm: bool) -> None:
        super().__init__()
        for name in ("mean", "scale", "feature_mean", "feature_scale"):  # which move to a device with the module
            self.register_buffer(name, getattr(encoder, name))
        self.backbone = encoder.backbone
        self.hash, self.norm, self.unit_norm = encoder.hash, encoder.norm, unit_norm

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Activations of samples."""
        if self.unit_norm:
            X = to_unit_norm(X.flatten(1)).reshape(X.shape)
        features = self.backbone((X - self.mean) / self.scale)
        if self.feature_mean is not None:
            features = (features - self.feature_mean) / self.feature_scale
        activations: torch.Tensor = self.norm(self.hash(features))
        return activations


@dataclass(frozen=True, eq=False, repr=False)
class NetworkFunction:
    """A network with a hash layer.

    Parameters
    ----------
    shape : tuple of int
        Shape of one sample.
    weights : dict of str to ndarray
        State of the :class:`~skhash.engine.Encoder`, without an offset.
    backbone : None, str or torch.nn.Module, default=None
        The network before the hash layer. A module stays as it is; the weights are put into a copy.
    offset : ndarray, float64, default=None
        What is subtracted from samples before they become float32; its shape broadcasts to that of a sample.
    unit_norm : bool, default=False
        Whether samples are divided by their norms, after the offset.

    Notes
    -----
    The network is built when it is first used, once for each device; copies and pickles hold only the arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash import ITQHasher, TALRHasher
    >>> X = np.random.default_rng(0).random((20, 1, 8, 8))
    >>> hasher = TALRHasher(8, backbone="conv", n_epochs=1, random_state=0)
    >>> hasher.fit(X, np.arange(20) % 2).function_
    NetworkFunction(nbits=8, shape=(1, 8, 8))
    """

    shape: tuple[int, ...]
    weights: dict[str, npt.NDArray[Any]]
    backbone: Any = None
    offset: npt.NDArray[np.float64] | None = None
    unit_norm: bool = False

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return len(self.weights["hash.weight"])

    def activations(self, X: Any, device: torch.device | str = "cpu") -> npt.NDArray[np.float32]:
        """Activations of samples, computed on a device, see :meth:`~skhash.functions.HashFunction.activations`."""
        device = torch.device(device)
        module = self.module(device)
        outputs: npt.NDArray[np.float32] = in_batches(
            X, device, lambda batch: module(batch_tensor(X, batch, device, self.offset))
        )
        return outputs

    def queries(self, X: Any, device: torch.device | str = "cpu") -> npt.NDArray[np.float32]:
        """Real queries of samples, computed on a device, see :meth:`~skhash.functions.HashFunction.queries`."""
        return self.activations(X, device)

    def check(self) -> None:
        """Raise RuntimeError or ValueError unless the weights are those of the backbone."""
        self.module(torch.device("cpu"))

    def module(self, device: torch.device) -> NetworkModule:
        """The network on a device, which must not be changed.

        Parameters
        ----------
        device : torch.device
            The device.

        Returns
        -------
        torch.nn.Module
            It maps samples minus the offset, in float32, to activations.
        """
        modules: dict[str, NetworkModule] = _MODULES.setdefault(self, {})
        if str(device) not in modules:
            modules[str(device)] = self._build().to(device)
        return modules[str(device)]

    def _build(self) -> NetworkModule:
        with seeded(0, torch.device("cpu")):  # restores the global generators; the initial weights are replaced
            encoder = _new_encoder(self.shape, self.weights, without_weights(self.backbone))
        encoder.load_state_dict({name: torch.tensor(value) for name, value in self.weights.items()})
        module = NetworkModule(encoder, self.unit_norm)
        return module.eval().requires_grad_(False)

    def uses_threads(self, n_samples: int) -> bool:
        """Whether so many samples may use threads, see :meth:`~skhash.functions.HashFunction.uses_threads`."""
        return True

    def first(self, nbits: int) -> Self:
        """Function of the first bits, see :meth:`~skhash.functions.HashFunction.first`."""
        weights = {
            name: value[:nbits].copy() if name.startswith(("hash.", "norm.")) and value.ndim else value
            for name, value in self.weights.items()
        }
        return replace(self, weights=weights)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays by name, see :meth:`~skhash.functions.HashFunction.arrays`."""
        arrays = {"shape": np.asarray(self.shape, np.int64), "unit_norm": np.asarray(self.unit_norm)}
        if isinstance(self.backbone, str):
            arrays["backbone"] = np.asarray(self.backbone)
        if self.offset is not None:
            arrays["offset"] = self.offset
        return arrays | {f"weights.{name}": value for name, value in self.weights.items()}

    def given(self) -> dict[str, Any]:
        """What no file holds: the module of the backbone, if it has no name."""
        return {} if isinstance(self.backbone, str | None) else {"backbone": self.backbone}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], **given: Any) -> Self:
        """Function of the arrays of a file, see :meth:`~skhash.functions.HashFunction.from_arrays`."""
        weights = {name[8:]: value for name, value in arrays.items() if name.startswith("weights.")}
        names = {name for name in arrays if not name.startswith("weights.")}
        required = {"shape", "unit_norm"}
        check_names(dict.fromkeys(names), required, required | {"backbone", "offset"})
        shape = _checked_shape(arrays["shape"])
        backbone = _checked_backbone(arrays.get("backbone"), given)
        Array("", "b").check("function_.unit_norm", arrays["unit_norm"], {})
        _check_nbits(weights)
        _check_weights(weights, shape, backbone)
        if "offset" in arrays:
            axes = " ".join(map(str, weights["mean"].shape))
            Array(axes, "f").check("function_.offset", arrays["offset"], {})
        return cls(shape, weights, backbone, arrays.get("offset"), bool(arrays["unit_norm"]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(nbits={self.nbits}, shape={self.shape})"


#: networks of functions by their devices. A function has none itself, so that copies and pickles have no tensors
_MODULES: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def _new_encoder(shape: tuple[int, ...], weights: Mapping[str, Any], backbone: Any) -> Encoder:
    """Encoder with initial weights that has the parts of some weights."""
    options = {"batch_norm": "norm.running_mean" in weights, "pretrained": "feature_mean" in weights}
    return Encoder(shape, len(weights["hash.weight"]), backbone, **options)


def _checked_shape(shape: npt.NDArray[Any]) -> tuple[int, ...]:
    Array("n_axes", "i").check("function_.shape", shape, {})
    lengths = tuple(shape.tolist())
    if not lengths or not all(is_count(n) for n in lengths) or math.prod(lengths) > MAX_VALUES:
        raise ValueError(f"`function_.shape` must have 1 to {MAX_VALUES:,} values. Got {lengths} instead.")
    return lengths


def _checked_backbone(name: Any, given: dict[str, Any]) -> Any:
    if unknown := given.keys() - {"backbone"}:
        raise ValueError(f"`function_` must need no {sorted(unknown)[0]}.")
    if name is None:
        return given.get("backbone")
    if given or name.ndim or name.dtype.kind != "U" or not (name.item() in ("mlp", "conv") or is_network(name.item())):
        raise ValueError(f"`function_.backbone` must be a name of a network, or a given module. Got {name!r} instead.")
    return name.item()


def _check_nbits(weights: Mapping[str, npt.NDArray[Any]]) -> None:
    weight = weights.get("hash.weight")
    if weight is None or weight.ndim != 2 or not 1 <= len(weight) <= MAX_NBITS:
        raise ValueError(f"`function_.weights.hash.weight` must have 2 axes, and 1 to {MAX_NBITS} rows.")


def _check_weights(weights: Mapping[str, npt.NDArray[Any]], shape: tuple[int, ...], backbone: Any) -> None:
    """Raise ValueError for weights of another network; nothing larger than the weights themselves is built."""
    if isinstance(backbone, nn.Module):  # given by the caller; loading the weights compares them
        return
    small = shape
    if backbone not in (None, "mlp"):  # weights depend on the channels only, so that a small image saves memory
        most = 8 if backbone == "conv" else 64
        small = (*shape[:1], *(min(length, most) for length in shape[1:]))
    n_bits = len(weights["hash.weight"])
    first = {None: n_bits * math.prod(small), "mlp": HIDDEN * math.prod(small)}.get(backbone, small[0])
    if first > sum(weight.size for weight in weights.values()):  # checked before a network takes memory
        raise ValueError(f"`function_.weights` must suit samples of shape {shape}.")
    with seeded(0, torch.device("cpu")):  # restores the global generators
        expected = _new_encoder(small, weights, without_weights(backbone)).state_dict()
    if expected.keys() != weights.keys():
        raise ValueError(f"`function_.weights` must have {sorted(expected)}. Got {sorted(weights)} instead.")
    for name, tensor in expected.items():
        weight, dtype = weights[name], tensor.numpy().dtype
        Array(" ".join(map(str, tensor.shape)), "fi").check(f"function_.weights.{name}", weight, {})
        if weight.dtype != dtype:
            raise ValueError(f"`function_.weights.{name}` must be of {dtype}. Got {weight.dtype} instead.")


# --- functions of arrays on a device


class OnDevice(NamedTuple):
    """What computes activations and real queries of a function on a device, for arrays of numpy."""

    activations: Callable[[Any], npt.NDArray[Any]]
    queries: Callable[[Any], npt.NDArray[Any]]


def on_device(function: Any, device: torch.device) -> OnDevice:
    """The activations and real queries of a function, computed on a device."""
    if isinstance(function, NetworkFunction):
        return OnDevice(partial(function.activations, device=device), partial(function.queries, device=device))
    moved = _MODULES.setdefault(function, {})
    if str(device) not in moved:
        moved[str(device)] = function.converted(lambda array: torch.tensor(array, device=device))

    def compute(method: Callable[[torch.Tensor], torch.Tensor], X: Any) -> npt.NDArray[Any]:
        with own_settings(), full_precision(device), torch.no_grad():
            return method(torch.tensor(X, device=device)).cpu().numpy()

    twin = moved[str(device)]
    return OnDevice(partial(compute, twin.activations), partial(compute, twin.queries))


@torch.no_grad()
def in_batches(X: Any, device: torch.device, function: Callable[[slice], torch.Tensor]) -> Any:
    """Outputs of a function of slices of samples, as one array; the slices bound the memory."""
    n_at_once = N_SAMPLES
    if X.ndim > 2:
        n_at_once = min(n_at_once, max(1, N_VALUES[device.type] // math.prod(X.shape[1:])))
    with full_precision(device):
        parts = [function(batch) for batch in gen_batches(len(X), n_at_once)]
    return torch.cat(parts).cpu().numpy()


# --- from a trained encoder


@torch.no_grad()
def dense_function(encoder: Encoder) -> DenseFunction:
    """Function of an encoder of vectors without a network, or with "mlp", on any device; the encoder stays as it is."""
    backbone = encoder.backbone
    modules = [*(backbone if isinstance(backbone, nn.Sequential) else ()), encoder.hash, encoder.norm]
    layers: list[tuple[Any, Any]] = []  # weights of shape (n_outputs, n_inputs) in float64
    for module in modules:  # dropout has no effect
        if isinstance(module, nn.Linear):
            tensor = module.weight.cpu()
            if isinstance(backbone, Smoothing):  # which becomes a part of the only layer
                tensor = copy.deepcopy(backbone).cpu()(tensor)
            weight = tensor.double().numpy()
            layers.append((weight, 0.0 * weight[:, 0] if module.bias is None else module.bias.cpu().double().numpy()))
        elif isinstance(module, nn.BatchNorm1d):
            values = {name: value.cpu().double().numpy() for name, value in module.state_dict().items()}
            gain = values.get("weight", 1.0) / np.sqrt(values["running_var"] + module.eps)
            shift = values.get("bias", 0.0) - values["running_mean"] * gain
            weight, bias = layers.pop()
            layers.append((gain[:, None] * weight, gain * bias + shift))
    mean, scale = (tensor.cpu().numpy().copy() for tensor in (encoder.mean, encoder.scale))
    layers[0] = layers[0][0] / scale.item(), layers[0][1]
    offset = encoder.offset_on_cpu()
    return DenseFunction(mean, tuple(as_layer(*layer) for layer in layers), offset=offset, spread=scale)
