"""Turn values into the JSON and the tensors of a file."""

import io
import json
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash._files import qualified_name
from skhash.persistence._format import AFFINITIES, GIVEN, SPARSE
from skhash.persistence._reading import parse


class Encoder:
    """Turns values into JSON, and collects their arrays in `tensors`.

    `where` is the path of a value, such as ``params.name.0``, for messages and names of tensors.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        # by id; the array itself is stored, too, so that its id is not reused meanwhile
        self._arrays: dict[int, tuple[Any, Any]] = {}
        self._in_objects = False

    def encode(self, value: Any, where: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind in (list, tuple, dict):
            return self._encode_container(value, where)
        if kind in (np.ndarray, np.memmap):
            if id(value) not in self._arrays:
                self._arrays[id(value)] = (self._encode_array(value, where), value)
            return self._arrays[id(value)][0]
        if isinstance(value, os.PathLike) or qualified_name(value) == "torch.device":
            return str(value)
        if isinstance(value, np.generic) and isinstance(value.item(), bool | int | float | str):
            return {"$scalar": value.item(), "dtype": value.dtype.str}
        return self._encode_object(value, where)

    def _encode_container(self, value: Any, where: str) -> Any:
        if isinstance(value, list):
            return [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"$tuple": self.encode(list(value), where)}
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {key: self.encode(item, f"{where}.{key}") for key, item in value.items()}
        return {"$dict": [self.encode(list(pair), f"{where}.{i}") for i, pair in enumerate(value.items())]}

    def _encode_object(self, value: Any, where: str) -> Any:
        kind = type(value)
        if SPARSE.get(kind.__name__) is kind:
            parts = [self.encode(getattr(value, part), f"{where}.{part}") for part in ("data", "indices", "indptr")]
            return {"$sparse": kind.__name__, "shape": list(value.shape), "parts": parts}
        if kind is np.random.RandomState and value.get_state(legacy=False)["bit_generator"] == "MT19937":
            return {"$random_state": self.encode(value.get_state(legacy=False), where)}
        if AFFINITIES.get(kind.__name__) is kind:
            fields = {name: field for name, field in vars(value).items() if name[0] != "_"}
            return {"$affinity": kind.__name__, "fields": self.encode(fields, where)}
        if callable(value) and (name := where.split(".")[-1].rstrip("_")) in GIVEN:
            return {"$given": qualified_name(value), "name": name}
        raise TypeError(f"{where} is a {qualified_name(value)}, which cannot be saved without code in {self.path}.")

    def _encode_array(self, array: npt.NDArray[Any], where: str) -> Any:
        while where in self.tensors:
            where += "'"
        dtype = array.dtype
        if dtype.kind == "O":
            if self._in_objects:
                raise TypeError(f"{where} is an array of objects in another one, which cannot be saved in {self.path}.")
            self._in_objects = True
            text = json.dumps(self.encode(array.ravel().tolist(), where))
            self._in_objects = False
            parse(text)  # what `load` would refuse
            mark = {"$objects": where, "shape": list(array.shape)}
            tensor: npt.NDArray[Any] = np.frombuffer(text.encode(), np.uint8)
        elif dtype.kind in "biuf" and dtype.isnative and dtype.itemsize <= 8:
            # column order stays, since the rounding of products depends on it
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            mark = {"$array": where, "order": order}
            tensor = np.asarray(array.T if order == "F" else array, order="C")
        elif (dtype.kind in "biufcUSMm" or dtype.names) and not dtype.hasobject:
            file = io.BytesIO()
            np.lib.format.write_array(file, array, allow_pickle=False)
            mark, tensor = {"$npy": where}, np.frombuffer(file.getvalue(), np.uint8)
        else:
            raise TypeError(f"{where} is an array of dtype {dtype}, which cannot be saved without code in {self.path}.")
        self.tensors[where] = tensor
        return mark
