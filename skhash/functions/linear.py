"""Linear maps of samples, and layers of them.

    activations(x) = (x - mean) projection + intercept

The mean is subtracted before the product, and never becomes a part of the intercept: for features that are far from 0,
such as time stamps, the product of the mean would lose the digits that the activations consist of.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace
from scipy.sparse import csr_array, issparse

from skhash._validation import Array
from skhash.functions.function import ArrayFunction, check_names

#: samples that are centered at a time, so that they stay in the cache (benchmarks/encode.py). It is a multiple of 4, 6,
#: 8, 12 and 16, the block sizes of BLAS, so that the parts have the rounding of the product of all samples
N_CENTERED = 768
#: with fewer multiplications, limiting the threads of BLAS takes longer than the product (benchmarks/one_sample.py)
N_MAX_PRODUCTS = 2**20
N_MAX_INPUTS = 2**13  # OpenBLAS uses threads for inner products of more than 10,000 values

TINY = float(np.finfo(np.float32).tiny)

Layers = tuple[tuple[Any, Any], ...]


def centered_product(X: Any, mean: Any, weight: Any, bias: Any = None) -> Any:
    """``(X - mean) @ weight + bias`` for arrays of numpy or torch; few samples of numpy use no threads."""
    if not isinstance(X, np.ndarray) or X.shape[0] * weight.size <= N_MAX_PRODUCTS:
        outputs = _product(X - mean, weight)
    else:
        outputs = np.empty((X.shape[0], weight.shape[1]), np.result_type(X, mean, weight))
        starts = range(0, max(1, X.shape[0] - N_CENTERED + 1), N_CENTERED)  # the last part has no fewer samples
        for start, stop in pairwise([*starts, X.shape[0]]):
            np.matmul(X[start:stop] - mean, weight, out=outputs[start:stop])
    return outputs if bias is None else outputs + bias


def _product(X: Any, weight: Any) -> Any:
    """``X @ weight``, without threads for few samples of numpy."""
    if not isinstance(X, np.ndarray) or X.shape[0] * weight.size > N_MAX_PRODUCTS:
        return X @ weight
    if weight.flags.f_contiguous and len(weight) <= N_MAX_INPUTS:
        return np.vecdot(X[:, None], weight.T)
    return np.einsum("ij,jk->ik", X, weight)


@dataclass(frozen=True, eq=False, repr=False)
class LinearFunction(ArrayFunction):
    """One linear map of centered samples.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        What is subtracted from samples.
    projection : ndarray of shape (n_features, nbits)
        The map. A sample alone is mapped faster if the memory order is that of columns.
    intercept : ndarray of shape (nbits,), default=None
        What is added to the activations; None adds nothing.
    spread : ndarray of shape (n_features,), default=None
        Standard deviation of each feature in the training samples, from which :func:`skhash.onnx.to_onnx` draws
        samples for its check.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.functions import LinearFunction
    >>> LinearFunction(np.array([1.0, 0.0]), np.eye(2)).activations(np.array([[3.0, 4.0]]))
    array([[2., 4.]])
    """

    mean: Annotated[npt.NDArray[Any], Array("n_features")]
    projection: Annotated[npt.NDArray[Any], Array("n_features nbits")]
    intercept: Annotated[npt.NDArray[Any], Array("nbits")] | None = None
    spread: Annotated[npt.NDArray[Any], Array("n_features", minimum=0)] | None = None

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return int(self.projection.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (len(self.mean),)

    def activations(self, X: Any) -> Any:
        """Activations of samples, which may be sparse, see :meth:`~skhash.functions.HashFunction.activations`."""
        if not issparse(X):
            return centered_product(X, self.mean, self.projection, self.intercept)
        projection = self.projection.astype(np.float64, copy=False)
        # both products sum in the same order, so that a sample that equals the mean has the activation 0
        mean = csr_array(self.mean[None].astype(np.float64))
        activations = X.astype(np.float64) @ projection - mean @ projection
        activations = activations if self.intercept is None else activations + self.intercept
        return np.asarray(activations, dtype=X.dtype)

    def uses_threads(self, n_samples: int) -> bool:
        """Whether so many samples may use threads, see :meth:`~skhash.functions.HashFunction.uses_threads`."""
        return n_samples * self.projection.size > N_MAX_PRODUCTS


@dataclass(frozen=True, eq=False, repr=False)
class DenseFunction(ArrayFunction):
    """Layers of linear maps of centered samples in float32, each but the last with negative outputs set to 0.

    Parameters
    ----------
    mean : ndarray of shape (n_features,), float32
        What is subtracted from samples.
    layers : tuple of pairs of ndarrays, float32
        Weight of shape (n_inputs, n_outputs) and bias of shape (n_outputs,) of each layer. A sample alone is mapped
        faster if the memory order of weights is that of columns.
    offset : ndarray of shape (n_features,), float64, default=None
        What is subtracted from features that are far from 0, before they become float32.
    unit_norm : bool, default=False
        Whether samples are divided by their norms, after the offset and before the mean.
    spread : ndarray of shape () or (n_features,), default=None
        Standard deviation of the training samples, from which :func:`skhash.onnx.to_onnx` draws samples for its check.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.functions import DenseFunction
    >>> layer = np.eye(2, dtype=np.float32), np.zeros(2, np.float32)
    >>> function = DenseFunction(np.zeros(2, np.float32), (layer, layer))
    >>> function.activations(np.array([[-1.0, 2.0]]))
    array([[0., 2.]], dtype=float32)
    """

    mean: npt.NDArray[np.float32]
    layers: Layers
    offset: npt.NDArray[np.float64] | None = None
    unit_norm: bool = False
    spread: npt.NDArray[Any] | None = None

    @property
    def nbits(self) -> int:
        """Number of bits."""
        return int(self.layers[-1][0].shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (len(self.mean),)

    def activations(self, X: Any) -> Any:
        """Activations of samples, see :meth:`~skhash.functions.HashFunction.activations`."""
        (weight, bias), *others = self.layers
        outputs = centered_product(self.read(X), self.mean, weight, bias)
        for weight, bias in others:
            outputs = _product(outputs.clip(0), weight) + bias
        return outputs

    def read(self, X: Any) -> Any:
        """Samples in float32 minus the offset, and divided by their norms if the function does that.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples, n_features), float32
            Samples from which the mean is not yet subtracted.
        """
        return read_samples(X, self.offset, self.unit_norm)

    def uses_threads(self, n_samples: int) -> bool:
        """Whether so many samples may use threads, see :meth:`~skhash.functions.HashFunction.uses_threads`."""
        return bool(n_samples * max(weight.size for weight, _ in self.layers) > N_MAX_PRODUCTS)

    def first(self, nbits: int) -> Self:
        """Function of the first bits, see :meth:`~skhash.functions.HashFunction.first`."""
        weight, bias = self.layers[-1]
        return replace(self, layers=(*self.layers[:-1], (weight[:, :nbits].copy(order="K"), bias[:nbits].copy())))

    def converted(self, convert: Callable[[npt.NDArray[Any]], Any]) -> Self:
        """Function with arrays of another library, see :meth:`~skhash.functions.ArrayFunction.converted`."""
        arrays = {name: convert(value) for name, value in self.arrays().items() if name != "unit_norm"}
        return replace(self, **_dense_fields(arrays))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays by name, see :meth:`~skhash.functions.HashFunction.arrays`."""
        arrays = {"mean": self.mean, "unit_norm": np.asarray(self.unit_norm)}
        for name, (weight, bias) in enumerate(self.layers):
            arrays |= {f"weight.{name}": weight, f"bias.{name}": bias}
        others = {"offset": self.offset, "spread": self.spread}
        return arrays | {name: np.asarray(value) for name, value in others.items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], **given: Any) -> Self:
        """Function of the arrays of a file, see :meth:`~skhash.functions.HashFunction.from_arrays`."""
        n_layers = max(1, sum(name.startswith("weight.") for name in arrays))
        layers = [f"{kind}.{i}" for i in range(n_layers) for kind in ("weight", "bias")]
        required = {"mean", "unit_norm", *layers}
        check_names(arrays, required, required | {"offset", "spread"})
        widths = ["n_features", *(f"n_hidden_{i}" for i in range(1, n_layers)), "nbits"]
        shapes = {"mean": "n_features", "offset": "n_features", "unit_norm": ""}
        for i, (n_inputs, n_outputs) in enumerate(pairwise(widths)):
            shapes |= {f"weight.{i}": f"{n_inputs} {n_outputs}", f"bias.{i}": n_outputs}
        lengths: dict[str, int] = {}
        for name, shape in shapes.items():
            if name in arrays:
                Array(shape, "b" if name == "unit_norm" else "f").check(f"function_.{name}", arrays[name], lengths)
        if "spread" in arrays:
            shape = "n_features" if arrays["spread"].ndim else ""
            Array(shape, minimum=0).check("function_.spread", arrays["spread"], lengths)
        return cls(**_dense_fields(arrays), unit_norm=bool(arrays["unit_norm"]))


def _dense_fields(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a DenseFunction from its named arrays."""
    names = sorted(int(name[7:]) for name in arrays if name[:7] == "weight." and name[7:].isdecimal())
    fields: dict[str, Any] = {name: arrays.get(name) for name in ("mean", "offset", "spread")}
    fields["layers"] = tuple((arrays[f"weight.{name}"], arrays[f"bias.{name}"]) for name in names)
    return fields


def as_layer(weight: npt.NDArray[Any], bias: npt.NDArray[Any]) -> tuple[Any, Any]:
    """Layer of a DenseFunction, whose weight (n_inputs, n_outputs) is in the order of columns."""
    return np.ascontiguousarray(weight, np.float32).T, np.asarray(bias, np.float32)


def read_samples(X: Any, offset: Any, unit_norm: bool) -> Any:
    """Samples in float32 minus an offset, and divided by their norms if asked for."""
    X = X if offset is None else X - offset
    # the order in memory changes rounding
    X = np.asarray(X, np.float32, order="C") if isinstance(X, np.ndarray) else X.float()
    return to_unit_norm(X) if unit_norm else X


def to_unit_norm(X: Any) -> Any:
    """Samples divided by their norms, in their library; a sample of zeros stays."""
    xp = library_of(X)
    X = X / xp.max(xp.abs(X), axis=1, keepdims=True).clip(TINY)  # squares stay finite
    return X / xp.linalg.vector_norm(X, axis=1, keepdims=True).clip(1e-12)


def library_of(X: Any) -> Any:
    """The library of an array by the names of the array API; numpy has them itself, without a function around each."""
    return np if isinstance(X, np.ndarray) else array_namespace(X)
