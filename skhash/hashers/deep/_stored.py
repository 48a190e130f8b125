"""The fitted attributes of deep hashers, and their checks when they come from a file."""

import math
from typing import Annotated, Any

import numpy.typing as npt

from skhash._validation import OPTIONAL, Array, as_count, is_count, is_module
from skhash.codes import MAX_NBITS

MAX_VALUES = 2**24  # of one sample


class StoredMixin:
    """Mixin with the fitted attributes that all deep hashers have."""

    _batch_norm: bool
    _new_encoder: Any
    _environment: Any
    _nbits: int
    settings_: dict[str, Any]
    function_: Annotated[Any, OPTIONAL]
    weights_: dict[str, npt.NDArray[Any]]
    history_: list[dict[str, Any]]
    n_epochs_: int
    input_shape_: tuple[int, ...]
    _architecture: dict[str, Any]
    _fixed: dict[str, Any]
    _stream: Annotated[dict[str, Any], OPTIONAL]

    def _check_stored(self, lengths: dict[str, int]) -> None:
        shape = self.input_shape_
        if not shape or not all(is_count(n) for n in shape) or math.prod(shape) > MAX_VALUES:
            raise ValueError(f"`input_shape_` must have 1 to {MAX_VALUES:,} values. Got {shape} instead.")
        if len(shape) == 1 and lengths.get("n_features") != shape[0]:
            raise ValueError(f"`input_shape_` must be ({lengths.get('n_features')},). Got {shape} instead.")
        self._check_weights()

    def _check_weights(self) -> None:
        """Raise ValueError for an architecture or weights of another hasher."""
        import torch

        from skhash.engine import is_network, seeded, without_weights
        from skhash.engine.backbones import HIDDEN
        from skhash.engine.layers import N_MAX_DIRECTIONS

        architecture = self._architecture
        backbone, n_directions, has_offset = (architecture.get(n) for n in ("backbone", "n_directions", "has_offset"))
        # a prefix may need all bits
        nbits = as_count(architecture.get("nbits"), "_architecture.nbits", least=self._nbits, largest=MAX_NBITS)
        expected = {"shape": self.input_shape_, "nbits": nbits, "batch_norm": self._batch_norm}
        chosen = {"backbone": backbone, "n_directions": n_directions, "has_offset": has_offset is True}
        lengths = (*architecture["shape"], architecture["nbits"])
        if architecture != expected | chosen or not all(type(length) is int for length in lengths):
            raise ValueError(f"`_architecture` must have {expected}. Got {architecture} instead.")
        as_count(n_directions, "n_directions", least=0, largest=N_MAX_DIRECTIONS)
        if is_module(backbone):  # given by the caller; loading the weights compares them
            return
        if backbone not in (None, "mlp", "conv") and not is_network(backbone):
            raise ValueError(f"`backbone` must be None, a name or a module. Got {backbone!r} instead.")
        shape = self.input_shape_
        if backbone not in (None, "mlp"):  # weights depend on the channels only, so that a small image saves memory
            most = 8 if backbone == "conv" else 64
            shape = (*shape[:1], *(min(length, most) for length in shape[1:]))
        first = {None: nbits * math.prod(shape), "mlp": HIDDEN * math.prod(shape)}.get(backbone, shape[0])
        if first > sum(weight.size for weight in self.weights_.values()):  # checked before an encoder takes memory
            raise ValueError(f"`weights_` must suit samples of shape {self.input_shape_}.")
        with self._environment(), seeded(0, torch.device("cpu")):  # restores the global generators
            weights = self._new_encoder(
                **(architecture | {"shape": shape, "backbone": without_weights(backbone)})
            ).state_dict()
        if weights.keys() != self.weights_.keys():
            raise ValueError(f"`weights_` must have {sorted(weights)}. Got {sorted(self.weights_)} instead.")
        for name, tensor in weights.items():
            Array(" ".join(map(str, tensor.shape)), "fi").check(f"weights_.{name}", weight := self.weights_[name], {})
            if weight.dtype != tensor.numpy().dtype:
                raise ValueError(f"`weights_.{name}` must be of {tensor.numpy().dtype}. Got {weight.dtype} instead.")
