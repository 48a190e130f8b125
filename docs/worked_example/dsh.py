"""DSH, deep supervised hashing (Liu, Wang, Shan, Chen, CVPR 2016).

With d_ij = |u_i - u_j|^2 and s_ij = 1 for relevant pairs, the loss attracts similar
samples, and separates the others up to a margin m (equation 4):

    L = sum_ij [ s_ij d_ij + (1 - s_ij) max(m - d_ij, 0) ] / 2
        + alpha sum_ik | |u_ik| - 1 |

both as means: over the pairs of different samples of a batch, and over its entries.
As in the paper, m = 2b.
"""

from __future__ import annotations

from skhash._libraries import torch
from skhash.affinity import Relevance
from skhash.engine import Objective
from skhash.hashers.deep import QuantizedDeepHasher, QuantizedObjective


class DSHObjective(QuantizedObjective):
    """Contrastive loss of the pairs of a batch, and the L1 penalty of its activations.

    Parameters
    ----------
    quantization_weight : float
        Weight alpha of the penalty.
    """

    def data_loss(self, u: torch.Tensor, relevance: Relevance) -> torch.Tensor:
        """Mean loss of the pairs of different samples."""
        index, _ = relevance.levels()
        similar = torch.from_numpy(index > 0).to(u.device)
        d = torch.square(u[:, None] - u).sum(-1)
        losses = torch.where(similar, d, torch.relu(2 * u.shape[1] - d)) / 2
        different = ~torch.eye(len(u), dtype=torch.bool, device=u.device)
        return losses[different].mean()

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Absolute value of the excess."""
        return excess.abs()


class DSHHasher(QuantizedDeepHasher):
    """Deep supervised hashing: similar samples attract, others repel up to a margin.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    quantization_weight : float, default=None
        Weight alpha of the distance of activations from -1 and 1; None means 1.
    affinity : "auto" or callable, default="auto"
        Which samples are similar; "auto" takes classes or shared labels from y.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    {defaults}

    References
    ----------
    Liu, Wang, Shan, Chen: Deep Supervised Hashing for Fast Image Retrieval. CVPR 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dsh import DSHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = DSHHasher(16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.score(X[1000:], y[1000:]) > 0.75
    True
    """

    # steps, batch size, learning rate, weight decay, quantization_weight
    _recipes = {
        "linear": (2500, 256, 0.1, 0.5, 1.0),
        "deep": (1500, 256, 0.003, 0.1, 1.0),
    }

    def _objective(self) -> Objective:
        return DSHObjective(self.settings_["quantization_weight"])
