"""What several deep hashers share: a penalty of activations, labels that are learned, and prefixes that are trained."""

from abc import abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import numpy as np
import numpy.typing as npt

from skhash._compat import Interval
from skhash._validation import Array
from skhash.affinity import Relevance, SharedLabelsAffinity
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._parameters import (
    SharedParameters,
)

if TYPE_CHECKING:
    from skhash.engine import Objective


class QuantizedDeepHasher(DeepHasher):
    """A supervised hasher with the parameter `quantization_weight`.

    A subclass implements `_objective`, which returns a
    :class:`~skhash.hashers.deep.QuantizedObjective`. If it has an `__init__`, this lists `quantization_weight` as well.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    quantization_weight : float, default=None
        Weight of the penalty; None uses the value of the recipe.
    affinity : "auto" or callable, default="auto"
        Which samples are similar.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    {defaults}

    Examples
    --------
    >>> from skhash import DHNHasher, DPSHHasher, DTSHHasher
    >>> from skhash.hashers.deep import QuantizedDeepHasher
    >>> all(
    ...     issubclass(cls, QuantizedDeepHasher)
    ...     for cls in (DHNHasher, DPSHHasher, DTSHHasher)
    ... )
    True
    """

    _supervised = True
    _settings: tuple[str, ...] = ("n_steps", "batch_size", "learning_rate", "weight_decay", "quantization_weight")
    _recipes: dict[str, tuple[Any, ...]] = {"linear": (2500, 256, 0.02, 0.5, 0.1), "deep": (1500, 256, 0.003, 0.1, 0.1)}
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "quantization_weight": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        nbits: int = 32,
        *,
        quantization_weight: float | None = None,
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.quantization_weight = quantization_weight

    @abstractmethod
    def _objective(self) -> "Objective":
        """Objective to minimize, a QuantizedObjective with the weight in `settings_`."""


class LabelsMixin:
    """Mixin of deep hashers with one class of the objective per label; it goes before the base class.

    `classes_` is known when `_objective` is called, and ``relevance.labels(classes_)`` are the labels of a batch
    as a 0/1 matrix.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or (n_labels, n_labels)
        The classes; for a matrix of labels the identity matrix, one label per row.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash import GreedyHashHasher
    >>> y = np.array(["cat", "dog", "cat", "dog"])
    >>> hasher = GreedyHashHasher(8, n_epochs=1, random_state=0).fit(np.eye(4), y)
    >>> hasher.affinity_(y, hasher.classes_).tolist()
    [[1, 0], [0, 1], [1, 0], [0, 1]]
    """

    affinity_: Any
    classes_: Annotated[npt.NDArray[Any], Array("n_classes ...", "biufUSO")]

    def _note_relevance(self, relevance: Any) -> None:
        self.classes_ = self._classes_in(relevance)

    def _check_next_relevance(self, relevance: Relevance) -> None:
        new = np.setdiff1d(self._classes_in(relevance), self.classes_)
        if len(new):
            raise ValueError(
                "`y` must hold classes of the first call of partial_fit only. "
                f"Got the new classes {new}. The first call must have samples of all classes."
            )

    @staticmethod
    def _classes_in(relevance: Relevance) -> npt.NDArray[Any]:
        labels = relevance.take([0]).labels()  # raises for an affinity without labels
        if isinstance(relevance.affinity, SharedLabelsAffinity):
            return np.eye(labels.shape[1], dtype=np.int64)
        return np.unique(relevance.targets)


class PrefixesMixin:
    """Mixin of deep hashers with the parameter `prefixes`, numbers of first bits that are trained to be good codes."""

    prefixes: Sequence[int]
    _fixed: dict[str, Any]

    def _resolve_defaults(self, X: Any) -> None:
        super()._resolve_defaults(X)  # type: ignore[misc]
        self._fixed["prefixes"] = self.prefixes

    def _cut(self, nbits: int) -> None:
        super()._cut(nbits)  # type: ignore[misc]
        self.prefixes = tuple(n for n in self.prefixes if n < nbits)
        self._fixed = self._fixed | {"prefixes": self.prefixes}
