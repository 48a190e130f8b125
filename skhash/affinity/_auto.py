"""Choice of the affinity that suits the targets, until all callers hold a Relevance."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from skhash.affinity.relevance import Relevance, _read


def resolve_affinity(affinity: str | Callable[[Any, Any], Any], y: Any) -> Callable[[Any, Any], Any]:
    """Affinity for the targets: the given one, or for "auto" the one that suits them."""
    return (
        _read(y, y, affinity, ("y", "y"))[2] if isinstance(affinity, str | type) or not callable(affinity) else affinity
    )


def fit_affinity(affinity: Callable[[Any, Any], Any], y: Any) -> Callable[[Any, Any], Any]:
    """Affinity that has learned from the training targets, if it has a `fit` method."""
    return affinity.fit(y) if hasattr(affinity, "fit") else affinity


def label_matrix(affinity: Callable[[Any, Any], Any], y: Any) -> npt.NDArray[np.float64]:
    """Labels behind an affinity as a 0/1 matrix, for methods that regress on labels."""
    return Relevance.between(y, y, affinity).labels()
