"""HashFunction: what a hasher learns, and a base class for functions that are made of arrays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Protocol, Self, get_args, get_type_hints, runtime_checkable

import numpy as np
import numpy.typing as npt

from skhash._validation import Array


@runtime_checkable
class HashFunction(Protocol):
    """What a hasher learns: activations of samples, whose signs are the bits, and real queries.

    A function does not change, so that several threads may use it. It takes checked samples: names of features, checks
    of samples and limits of threads belong to the hasher.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHasher
    >>> from skhash.functions import HashFunction
    >>> X, y = load_digits(return_X_y=True)
    >>> function = ITQHasher(16, random_state=0).fit(X).function_
    >>> function
    LinearFunction(nbits=16, shape=(64,))
    >>> isinstance(function, HashFunction)
    True
    """

    @property
    def nbits(self) -> int:
        """Number of bits."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    def activations(self, X: Any) -> Any:
        """Activations of samples; a bit is 1 where its activation is >= 0.

        Parameters
        ----------
        X : array of shape (n_samples, ...), or another form that the hasher takes
            Checked samples.

        Returns
        -------
        array of shape (n_samples, nbits), float32 or float64
            Activations.
        """

    def queries(self, X: Any) -> Any:
        """Real queries of samples.

        Parameters
        ----------
        X : array of shape (n_samples, ...), or another form that the hasher takes
            Checked samples.

        Returns
        -------
        array of shape (n_samples, nbits), float32 or float64
            The activations, unless the method learns queries of their own.
        """
        return self.activations(X)

    def uses_threads(self, n_samples: int) -> bool:
        """Whether so many samples may use threads, which change the rounding and must be limited.

        Parameters
        ----------
        n_samples : int
            Number of samples.

        Returns
        -------
        bool
            False if they use none.
        """
        return True

    def first(self, nbits: int) -> "HashFunction":
        """Function of the first bits.

        Parameters
        ----------
        nbits : int
            Number of bits to keep, at most those of this function.

        Returns
        -------
        HashFunction
            It returns the first columns of the activations and queries of this function.
        """

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that a file holds of the function.

        Returns
        -------
        dict of str to ndarray
            Arrays by name; numbers have the shape ().

        Raises
        ------
        TypeError
            If the function cannot be stored as arrays.
        """

    def given(self) -> dict[str, Any]:
        """Values that no file holds, by name; :meth:`from_arrays` takes them beside the arrays.

        Returns
        -------
        dict of str to object
            The module of a backbone; empty for most functions.
        """
        return {}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], **given: Any) -> Self:
        """Function of the arrays of a file, which may hold anything.

        Parameters
        ----------
        arrays : dict of str to ndarray
            What `arrays` returned.
        **given : object
            What no file holds, such as the module of a backbone.

        Returns
        -------
        HashFunction
            The function.

        Raises
        ------
        ValueError
            If names, kinds, shapes or values are not those of a function. Nothing is built before they are checked.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(nbits={self.nbits}, shape={self.shape})"


@dataclass(frozen=True, eq=False, repr=False)
class ArrayFunction(HashFunction):
    """Base class of functions that are made of arrays: dataclasses whose fields have annotations by `Array`.

    A subclass implements `shape`, `nbits` and `activations`. A field whose annotation allows None is optional. Bits
    must not depend on each other: `first` keeps the first entries of each axis that is named "nbits".

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.functions import LinearFunction
    >>> function = LinearFunction(np.zeros(3), np.eye(3))
    >>> function.first(2).activations(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 2.]])
    >>> LinearFunction.from_arrays(function.arrays())
    LinearFunction(nbits=3, shape=(3,))
    """

    def first(self, nbits: int) -> Self:
        """Function of the first bits, see :meth:`~skhash.functions.HashFunction.first`."""
        cut = {}
        for name, (array, _) in _fields_of(type(self)).items():
            axes, value = array.shape.split(), getattr(self, name)
            if "nbits" in axes and value is not None:
                part = value[tuple(slice(nbits if axis == "nbits" else None) for axis in axes)]
                cut[name] = part.copy(order="K")
        return replace(self, **cut)

    def converted(self, convert: Callable[[npt.NDArray[Any]], Any]) -> Self:
        """Function whose arrays are those of another library, for samples of that library.

        Parameters
        ----------
        convert : callable
            Maps an ndarray to an array of the library, such as ``torch.from_numpy``.

        Returns
        -------
        ArrayFunction
            The same function. It cannot be stored.
        """
        return replace(self, **{name: convert(value) for name, value in self.arrays().items() if value.ndim})

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays by the names of the fields, see :meth:`~skhash.functions.HashFunction.arrays`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: np.asarray(value) for name, value in values.items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], **given: Any) -> Self:
        """Function of the arrays of a file, see :meth:`~skhash.functions.HashFunction.from_arrays`."""
        annotated = _fields_of(cls)
        required = {name for name, (_, is_optional) in annotated.items() if not is_optional}
        check_names(arrays, required, annotated.keys())
        lengths: dict[str, int] = {}
        for name, (array, _) in annotated.items():
            if name in arrays:
                array.check(f"function_.{name}", arrays[name], lengths)
        return cls(**{name: value if value.ndim else value.item() for name, value in arrays.items()})


def check_names(arrays: Mapping[str, Any], required: Any, allowed: Any) -> None:
    """Raise ValueError unless all required arrays are there, and no other ones than those allowed."""
    if missing := sorted(required - arrays.keys()):
        raise ValueError(f"`function_.{missing[0]}` is missing.")
    if unknown := sorted(arrays.keys() - allowed):
        raise ValueError(f"`function_.{unknown[0]}` is not part of the function.")


@cache
def _fields_of(cls: Any) -> dict[str, tuple[Array, bool]]:
    """Annotation of each field, and whether it may be None."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        name: (_array_of(hints[name]), type(None) in get_args(hints[name])) for name in (f.name for f in fields(cls))
    }


def _array_of(hint: Any) -> Array:
    marks = (mark for kind in (hint, *get_args(hint)) for mark in getattr(kind, "__metadata__", ()))
    return next(mark for mark in marks if isinstance(mark, Array))
