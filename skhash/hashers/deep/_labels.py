"""LabelsMixin: hashers that learn the labels of samples, and not only which samples are similar."""

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch

from skhash._validation.schema import Array
from skhash.affinity import SharedLabelsAffinity, label_matrix


def batch_labels(affinity: Any, targets: Any, classes: npt.NDArray[Any], activations: torch.Tensor) -> torch.Tensor:
    """0/1 matrix of the labels of a batch, with the dtype and device of its activations.

    The affinity of a sample to one target per class gives its labels.
    """
    return torch.from_numpy(np.asarray(affinity(targets, classes))).to(activations)


class LabelsMixin:
    """Mixin of deep hashers with one class of the objective per label; it goes before the base class.

    `classes_` is known when `_objective` is called, and ``affinity_(targets, classes_)`` are the labels of a batch
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

    def _fit_affinity(self, targets: Any) -> None:
        super()._fit_affinity(targets)  # type: ignore[misc]
        self.classes_ = self._classes_in(targets)

    def _check_next_targets(self, targets: Any) -> None:
        new = np.setdiff1d(self._classes_in(targets), self.classes_)
        if len(new):
            raise ValueError(
                "`y` must hold classes of the first call of partial_fit only. "
                f"Got the new classes {new}. The first call must have samples of all classes."
            )

    def _classes_in(self, targets: Any) -> npt.NDArray[Any]:
        labels = label_matrix(self.affinity_, targets[:1])  # raises for an affinity without labels
        if isinstance(self.affinity_, SharedLabelsAffinity):
            return np.eye(labels.shape[1], dtype=np.int64)
        return np.unique(targets.toarray() if hasattr(targets, "toarray") else targets)
