"""CSQ, central similarity quantization (Yuan, Wang, Zhang, Tay, Jie, Liu, Feng, CVPR 2020).

Each class has a fixed code, its hash center; c is 0 or 1 for each of its K bits. With h = sigmoid(u) of
the activations u, each sample approaches the center of its class, and each h approaches 0 or 1:

    L = L_C + lambda L_Q
    L_C = - mean_ik [ c_ik log h_ik + (1 - c_ik) log(1 - h_ik) ]
    L_Q = mean_ik log cosh( |2 h_ik - 1| - 1 )

A sample of several labels approaches the bits that most of the centers of its labels have. A tie has c = 1/2: the
paper flips a coin for it, and the loss is linear in c, so this is its mean. A sample without labels has no L_C.

The centers are K/2 bits apart: they are rows of a Hadamard matrix, if K is a power of two and there are at most K
classes. With up to 2 K classes some are the opposites of others. Otherwise each bit of a center is a coin flip.
The paper takes the rows as they are, so that the first bit of all centers is the same. Here each row has a random sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import hadamard

from skhash._libraries import torch
from skhash._validation import Array
from skhash.affinity import Relevance
from skhash.engine import Objective
from skhash.hashers.deep._objectives import batch_labels
from skhash.hashers.deep._shared import LabelsMixin, QuantizedDeepHasher

if TYPE_CHECKING:
    from skhash.engine import Encoder

_N_TRIES = 100  # draws of a center that differs from all others


class CSQObjective(Objective):
    """Cross-entropy of bits and the centers of the labels, and a penalty of bits between 0 and 1."""

    def __init__(self, quantization_weight: float, classes: npt.NDArray[Any], centers: npt.NDArray[np.int8]) -> None:
        self.quantization_weight, self.classes, self.centers = quantization_weight, classes, centers

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: Relevance, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        u = encoder(X)
        labels = batch_labels(relevance, self.classes, u)
        return self.central_loss(u, labels) + self.quantization_weight * self.penalty(u)

    def central_loss(self, u: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Cross-entropy L_C; `labels` is the 0/1 matrix of labels."""
        centers = torch.from_numpy(self.centers).to(labels)
        bits = (1 + torch.sign(labels @ centers)) / 2
        weights = labels.amax(1, keepdim=True).expand_as(u)
        return torch.nn.functional.binary_cross_entropy_with_logits(u, bits, weights)

    def penalty(self, u: torch.Tensor) -> torch.Tensor:
        """Penalty L_Q."""
        excess = torch.tanh(u / 2).abs() - 1  # 2 sigmoid(u) - 1 = tanh(u / 2)
        return torch.log(torch.cosh(excess)).mean()


def _draw_centers(n_centers: int, nbits: int, rng: np.random.RandomState) -> npt.NDArray[np.int8]:
    """Hash centers of -1 and 1, of shape (n_centers, nbits)."""
    if nbits & (nbits - 1) == 0 and n_centers <= 2 * nbits:
        rows = rng.permutation(hadamard(nbits)) * rng.choice([-1, 1], (nbits, 1))
        return np.concatenate([rows, -rows])[:n_centers].astype(np.int8)
    centers, drawn = [], set()
    for _ in range(n_centers):
        for _ in range(_N_TRIES):
            center = rng.choice(np.array([-1, 1], np.int8), nbits)
            if center.tobytes() not in drawn:
                break
        drawn.add(center.tobytes())
        centers.append(center)
    return np.stack(centers)


class CSQHasher(LabelsMixin, QuantizedDeepHasher):
    """Central similarity quantization: each class has a center, and samples approach it bit by bit.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code. With a power of two the centers are exactly orthogonal.
    quantization_weight : float, default=None
        Weight lambda of the penalty of bits between 0 and 1; see Notes for None.
    affinity : "auto", ClassAffinity or SharedLabelsAffinity, default="auto"
        What the labels in y are: classes, or a 0/1 matrix of labels. "auto" looks at y.
        Other affinities give no labels to learn from.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it; "auto"
        crops and flips images.
    {shared parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or (n_labels, n_labels)
        The classes; for a matrix of labels the identity matrix, one label per row.
    class_codes_ : ndarray of shape (n_classes, nbits), dtype int8
        The center of each class, -1 and 1.
    {shared attributes}

    Notes
    -----
    {defaults}

    The weights of the penalty and the weight decay of a linear hasher were chosen on held-out
    training samples of the digits and USPS, by the AP_T at 32 bits with one seed. The other values
    are those of :class:`GreedyHashHasher`.

    References
    ----------
    Yuan, Wang, Zhang, Tay, Jie, Liu, Feng: Central Similarity Quantization for Efficient Image and
    Video Retrieval. CVPR 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import CSQHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = CSQHasher(nbits=16, n_epochs=20, random_state=0)
    >>> hasher = hasher.fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.1f}")
    0.8
    """

    class_codes_: Annotated[npt.NDArray[np.int8], Array("n_classes nbits", "i", minimum=-1)]
    _recipes = {"linear": (2500, 256, 0.02, 0.5, 0.1), "deep": (1500, 256, 0.003, 0.1, 0.1)}

    def _initialize(self, encoder: Encoder, X: Any, rng: np.random.RandomState) -> None:
        self.class_codes_ = _draw_centers(len(self.classes_), self.nbits, rng)

    def _objective(self) -> Objective:
        return CSQObjective(self.settings_["quantization_weight"], self.classes_, self.class_codes_)
