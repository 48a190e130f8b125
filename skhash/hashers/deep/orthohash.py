"""OrthoHash (Hoe, Ng, Zhang, Chan, Song, Xiang, NeurIPS 2021).

Each class c has a fixed code o_c of -1 and 1. These codes are nearly orthogonal. The activations u of a sample
point to the code of its class, by the cross-entropy of scaled cosines with a margin,

    L = - sum_c q_c log softmax_c( s (cos(u, o_c) - m y_c) ),   q_c = y_c / sum_k y_k

where y_c = 1 if the sample has the label c, and 0 otherwise. A sample of one class has one q_c = 1; several labels
share the weight. The loss is the mean over a batch.

There is no other term. If u has a cosine of 1 with a code, its signs are this code, so there is no penalty; and
each activation is normalized over the batch, so the bits are balanced.

In the paper the bits of o_c are independent coin flips. Here the codes are chosen one by one from random codes with
as many ones as minus ones. The next code is the one whose largest absolute cosine with the earlier codes is smallest.
The smallest sum of squared cosines breaks a tie, and then the smallest sum of cosines, which balances each bit over the
classes.
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack

import numpy as np
import numpy.typing as npt

from skhash._compat import Interval
from skhash._libraries import torch
from skhash._validation import Array
from skhash.affinity import Relevance
from skhash.engine import Objective
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._objectives import batch_labels
from skhash.hashers.deep._parameters import SharedParameters
from skhash.hashers.deep._shared import LabelsMixin

if TYPE_CHECKING:
    from skhash.engine import Encoder

_N_CANDIDATES = 5000  # random codes to choose from


class OrthoHashObjective(Objective):
    """Cross-entropy of the cosines of activations and class codes, less a margin for the labels of a sample."""

    def __init__(self, classes: npt.NDArray[Any], codes: npt.NDArray[np.int8], scale: float, margin: float) -> None:
        self.classes, self.codes, self.scale, self.margin = classes, codes, scale, margin

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: Relevance, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        u = encoder(X)
        labels = batch_labels(relevance, self.classes, u)
        logits = self.scale * (self.cosines(u) - self.margin * labels)
        return torch.nn.functional.cross_entropy(logits, labels / labels.sum(1, keepdim=True).clamp(min=1))

    def cosines(self, u: torch.Tensor) -> torch.Tensor:
        """Cosines of activations and class codes, of shape (n, n_classes)."""
        codes = torch.from_numpy(self.codes).to(u)
        cosines: torch.Tensor = torch.nn.functional.normalize(u) @ codes.T / codes.shape[1] ** 0.5
        return cosines


def _draw_codes(n_codes: int, nbits: int, rng: np.random.RandomState) -> npt.NDArray[np.int8]:
    """Nearly orthogonal codes of -1 and 1, of shape (n_codes, nbits)."""
    n_candidates = max(_N_CANDIDATES, 2 * n_codes)
    halves = np.where(np.arange(nbits) % 2, 1, -1)
    signs = rng.choice([-1, 1], (n_candidates, 1))  # for odd numbers of bits
    candidates = (signs * halves[rng.rand(n_candidates, nbits).argsort(axis=1)]).astype(np.float32)
    largest, squares, total = np.zeros((3, n_candidates))
    chosen = [0]
    while len(chosen) < n_codes:
        products = candidates @ candidates[chosen[-1]]
        largest = np.maximum(largest, np.abs(products))
        squares += products**2
        total += products
        chosen.append(int(np.lexsort((total, squares, largest))[0]))
    return candidates[chosen].astype(np.int8)


class OrthoHashHasher(LabelsMixin, DeepHasher):
    """OrthoHash: one orthogonal code per class, and one loss, a cross-entropy of cosines.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    scale : float, default=None
        Factor s of the cosines; see Notes for None.
    margin : float, default=None
        Margin m that the cosine with the code of the own class is reduced by; see Notes for None.
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
        The code of each class, -1 and 1.
    {shared attributes}

    Notes
    -----
    {defaults}

    The weight decay of a linear hasher, the scale and the margin were chosen on held-out training
    samples of the digits, USPS and Fashion-MNIST. The criterion was AP_T at 32 bits with one seed,
    after 30 epochs on 700 to 800 samples. Larger margins hardly differ; the other values are those of
    :class:`GreedyHashHasher`.

    References
    ----------
    Hoe, Ng, Zhang, Chan, Song, Xiang: One Loss for All: Deep Hashing with a Single Cosine
    Similarity based Learning Objective. NeurIPS 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import OrthoHashHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = OrthoHashHasher(nbits=16, n_epochs=20, random_state=0)
    >>> hasher = hasher.fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.1f}")
    0.8
    """

    _supervised = True
    _batch_norm = ("linear", "deep")  # balances the bits
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "scale": [Interval(Real, 0, None, closed="neither"), None],
        "margin": [Interval(Real, 0, None, closed="left"), None],
    }

    class_codes_: Annotated[npt.NDArray[np.int8], Array("n_classes nbits", "i", minimum=-1)]
    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay", "scale", "margin")
    _recipes = {"linear": (2500, 256, 0.02, 5.0, 8.0, 0.5), "deep": (1500, 256, 0.003, 0.1, 8.0, 0.5)}
    _of_module: ClassVar = {}  # the values of "deep" are better there, too (experiments/networks.py)
    _sgd_rates = {"linear": 0.1, "deep": 0.1}

    def __init__(
        self,
        nbits: int = 32,
        *,
        scale: float | None = None,
        margin: float | None = None,
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.scale = scale
        self.margin = margin

    def _initialize(self, encoder: Encoder, X: Any, rng: np.random.RandomState) -> None:
        self.class_codes_ = _draw_codes(len(self.classes_), self.nbits, rng)

    def _objective(self) -> Objective:
        scale, margin = self.settings_["scale"], self.settings_["margin"]
        return OrthoHashObjective(self.classes_, self.class_codes_, scale, margin)
