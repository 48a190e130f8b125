"""GPU code without a GPU: what a training step copies between devices, on "meta" and on the fake GPU of torch.

On "meta" tensors have a shape and no values, and steps run forward and backward. On the fake GPU the operations
check their devices as those of a GPU do, but a CPU build of torch cannot run autograd there.
"""

import copy
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from skhash.codes import torch_search
from skhash.engine import Trainer

META, FAKE_GPU = "meta", "cuda:0"
SEARCH_DEVICES = [
    "cpu",
    pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]),
]
aten = torch.ops.aten
_COPIES = {aten._to_copy.default, aten.copy_.default}
_LIFTS = {aten.lift_fresh.default, aten.lift_fresh_copy.default}


def set_small_tiles(monkeypatch):
    """Let a search on a device compare few codes at a time."""
    for name in ("TILE", "COUNTED"):
        monkeypatch.setattr(torch_search, name, dict.fromkeys(("cpu", "cuda"), 2**8))
    monkeypatch.setattr(torch_search, "QUERIES", 3)
    monkeypatch.setattr(torch_search, "MIN_GROUP", 2)


@dataclass(frozen=True)
class Copy:
    """A copy between two devices."""

    shape: tuple
    source: str
    target: str


class DeviceRecorder(TorchDispatchMode):
    """Record every copy between devices, and refuse operations on non-scalar tensors of several devices.

    A scalar that Python reads is a copy, too. It is answered by 0 or False: nothing is NaN.
    The number of nonzero elements, which a GPU has to tell as well, is a quarter of all.
    """

    def __init__(self, fake_mode=None):
        super().__init__()
        self.copies, self.operations, self.fake_mode = [], Counter(), fake_mode

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.operations[function.overloadpacket.__name__] += 1
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        first = tensors[0] if tensors else None
        if first is not None and first.device.type != "cpu":
            if function is aten._local_scalar_dense.default:
                self.record((), first.device, "cpu")
                return {torch.bool: False}.get(first.dtype, 0.0 if first.is_floating_point() else 0)
            if function is aten.nonzero.default:
                self.record((), first.device, "cpu")
                return first.new_zeros((first.numel() // 4, first.ndim), dtype=torch.long)
            if function is aten.index.Tensor and any(key is not None and key.dtype == torch.bool for key in args[1]):
                args = first, [None if key is None else self.positions(key) for key in args[1]]
        if function in _COPIES:
            source = tensors[-1].device
            target = first.device if function is aten.copy_.default else kwargs.get("device") or source
            if torch.device(target) != source:
                self.record(first.shape, source, target)
                if source.type == META:
                    return torch.zeros(first.shape, dtype=kwargs.get("dtype") or first.dtype, device=target)
                if function is aten._to_copy.default and self.fake_mode is not None:
                    args = (self.fake_mode.from_tensor(first),)  # the copy of a real one takes a real GPU
        elif function not in _LIFTS:
            devices = {str(tensor.device) for tensor in tensors if tensor.ndim}
            if len(devices) > 1:
                raise AssertionError(f"{function} mixes tensors of {' and '.join(sorted(devices))}")
        return function(*args, **kwargs)

    def positions(self, key):
        """Indices in place of a mask, whose number the device tells."""
        if key.dtype != torch.bool:
            return key
        self.record((), key.device, "cpu")
        return key.new_zeros(max(key.numel() // 4, 1), dtype=torch.long)

    def record(self, shape, source, target):
        self.copies.append(Copy(tuple(shape), str(source), str(target)))

    def to_cpu(self):
        """Shapes of what a device hands back."""
        return [copy.shape for copy in self.copies if copy.target == "cpu"]

    def from_cpu(self):
        """Shapes of what a device is given."""
        return [copy.shape for copy in self.copies if copy.source == "cpu"]


def _get_item(tensor, indices):
    """``tensor[indices]`` by operations."""
    keys = indices if isinstance(indices, tuple) else (indices,)
    places = [i for i, key in enumerate(keys) if key is Ellipsis]
    for place in places:
        missing = tensor.ndim + 1 - sum(key is not None for key in keys)
        keys = keys[:place] + (slice(None),) * missing + keys[place + 1 :]
    chosen = []
    for key in keys:
        axis = len(chosen)
        if isinstance(key, int):
            tensor = tensor.select(axis, key)
            continue
        if key is None:
            tensor = tensor.unsqueeze(axis)
        elif isinstance(key, slice):
            tensor = aten.slice(tensor, axis, *key.indices(tensor.shape[axis]))
        chosen.append(key if isinstance(key, torch.Tensor) else None)
    return aten.index(tensor, chosen) if any(key is not None for key in chosen) else tensor


def _set_item(tensor, indices, values):
    """``tensor[indices] = values`` by operations, for a tuple of index tensors."""
    aten.index_put_(tensor, list(indices), values)


def _nonzero(tensor, as_tuple=False):
    indices = aten.nonzero(tensor)
    return indices.unbind(1) if as_tuple else indices


#: what Python asks a GPU for itself, by operations that ask for nothing
_BY_OPERATIONS = {
    "__getitem__": _get_item,
    "__int__": lambda tensor: int(aten._local_scalar_dense(tensor)),
    "__invert__": lambda tensor: aten.bitwise_not(tensor),
    "__setitem__": _set_item,
    "copy_": lambda tensor, source: aten.copy_(tensor, source),
    "nonzero": _nonzero,
}


@contextmanager
def fake_device(device):
    """Context in which tensors live on the device without values, and the copies between devices are recorded."""
    with ExitStack() as stack:
        mode = None if device == META else FakeTensorMode(allow_non_fake_inputs=True)
        if mode is not None:
            stack.enter_context(patch.multiple(torch.Tensor, **_BY_OPERATIONS))
            stack.enter_context(patch.object(torch, "nonzero", _nonzero))
            stack.enter_context(mode)
            overwrites = "get_overwrite_module_params_on_conversion"  # also before torch 2.13: parameters are replaced
            stack.enter_context(patch.object(torch.__future__, overwrites, lambda: True))
            stack.enter_context(torch.no_grad())
        yield stack.enter_context(DeviceRecorder(mode))


def on_device(trainer, device):
    """The trainer on a device without values, in training mode."""
    parts = trainer.encoder, trainer.objective, trainer.X, trainer.relevance, trainer.schedule
    moved = Trainer(*parts, np.random.default_rng(0), torch.device(device), trainer.augment)
    moved.encoder.train()
    moved.trained.train()
    moved.objective.start_stage(0, trainer.schedule.n_stages)
    return moved


def run_step(trainer, device, n=32):
    """Run a step of a trainer on a device without values, and return what it recorded.

    On "meta" it is the whole step; on the fake GPU the forward pass.
    """
    trainer = copy.deepcopy(trainer)
    with fake_device(device) as recorder:
        moved = on_device(trainer, device)
        recorder.copies.clear()  # those of the weights
        indices = np.arange(n)
        if device == META:
            loss = moved.train_step(indices)
        else:
            batch = moved.encoder.read(moved.X, indices)
            relevance = None if moved.relevance is None else moved.relevance.take(indices)
            loss = moved.objective(moved.encoder, batch, relevance, indices)
    assert (loss.shape, loss.device) == ((), torch.device(device))
    return recorder
