"""What several papers share: signs, the pairwise likelihood, a penalty of activations, a contrast of views, labels.

With activations u of shape (n, b) and theta_ij = scale <u_i, u_j>, the negative log-likelihood of the similarities
s_ij, when p(s_ij = 1) = sigma(theta_ij), is the mean over the pairs of different samples (HashNet, DPSH, DHN)

    likelihood = sum_ij w_ij ( softplus(theta_ij) - s_ij theta_ij ) / sum_ij w_ij

Methods that pull activations to the two values of a bit (DPSH, DHN, DTSH, Greedy Hash) minimize

    loss = data_loss(u, relevance) + weight * mean_ik penalty(|u_ik| - 1)

where |u_ik| - 1 is, up to its sign, the distance of u_ik from sign(u_ik). Both terms are means, so that one weight
suits every batch size and number of bits.

Methods with codes of -1 and 1 in their loss pass the gradient straight through the sign. Methods that rank a batch
(TALR, MIHash) count its soft Hamming distances,

    d = (b - <phi, phi'>) / 2,   phi = tanh(alpha f(x)),

and their loss is a function of the counts (:mod:`skhash.metrics.soft_histogram`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skhash._libraries import torch
from skhash._validation import as_count_or_none
from skhash.affinity import Relevance
from skhash.engine import Objective
from skhash.engine.augment import corrupt, moco_v2
from skhash.hashers.deep._parameters import Augmentation
from skhash.metrics import RelevanceHistogram

if TYPE_CHECKING:
    from skhash.engine import Encoder


def sign(h: torch.Tensor) -> torch.Tensor:
    """Sign of each activation, 1 for 0, with the gradient of the identity (straight through).

    Parameters
    ----------
    h : tensor
        Activations.

    Returns
    -------
    tensor
        Values -1 and 1, in the shape of `h`.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep import sign
    >>> h = torch.tensor([-0.5, 0.0], requires_grad=True)
    >>> code = sign(h)
    >>> code.tolist(), torch.autograd.grad(code.sum(), h)[0].tolist()
    ([-1.0, 1.0], [1.0, 1.0])
    """
    bits = (h >= 0).to(h.dtype).mul_(2).sub_(1)  # several times as fast as `where`
    return h + (bits - h).detach()


def bernoulli_sign(logits: torch.Tensor) -> torch.Tensor:
    """Random bits, 1 with probability p = sigmoid(logit) and else -1, with the gradient of their mean 2 p - 1.

    Parameters
    ----------
    logits : tensor
        Logits of the bits.

    Returns
    -------
    tensor
        Values -1 and 1, in the shape of `logits`: sign(p - u), with u uniform in [0, 1) from torch's
        global generator.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep import bernoulli_sign
    >>> logits = torch.tensor([-200.0, 0.0, 200.0], requires_grad=True)
    >>> code = bernoulli_sign(logits)
    >>> code[0].item(), code[2].item()
    (-1.0, 1.0)
    >>> torch.autograd.grad(code.sum(), logits)[0].tolist()  # 2 p (1 - p)
    [0.0, 0.5, 0.0]
    """
    p = torch.sigmoid(logits)
    return sign(2 * (p - torch.rand_like(p)))


MAX_LEVELS = 256  # the soft histogram has one plane per level
_BINARY = np.array([0, 1])


def pairwise_loss(
    u: torch.Tensor,
    similar: npt.NDArray[np.bool_],
    scale: float = 0.5,
    weights: npt.NDArray[np.float64] | None = None,
) -> torch.Tensor:
    """Negative log-likelihood of the similarities, averaged over the pairs of different samples.

    Parameters
    ----------
    u : tensor of shape (n, nbits)
        Activations.
    similar : bool ndarray of shape (n, n)
        Which pairs are similar; the diagonal is ignored.
    scale : float, default=0.5
        Factor of the inner products.
    weights : ndarray of shape (n, n), default=None
        Weights of the pairs, None for equal ones; the diagonal is ignored.

    Returns
    -------
    tensor of shape ()
        The loss, >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.hashers.deep import pairwise_loss
    >>> u = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]])
    >>> y = np.array([0, 0, 1])
    >>> [round(pairwise_loss(s * u, y[:, None] == y).item(), 4) for s in (1, 3)]
    [0.3133, 0.0001]
    """
    weights = np.ones(similar.shape) if weights is None else weights
    pairs = torch.from_numpy(weights * ~np.eye(len(similar), dtype=bool)).to(u.device, u.dtype)
    products = scale * (u @ u.T)
    losses = torch.nn.functional.softplus(products) - torch.where(torch.from_numpy(similar).to(u.device), products, 0.0)
    return (pairs * losses).sum() / pairs.sum()


class QuantizedObjective(Objective):
    """A data loss, which a subclass defines, plus a penalty that pulls activations to -1 and 1.

    Parameters
    ----------
    quantization_weight : float
        Weight of the penalty.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.hashers.deep import QuantizedObjective
    >>> class Spread(QuantizedObjective):
    ...     def data_loss(self, u, relevance):
    ...         return -u.var()
    >>> Spread(0.5)(torch.nn.Identity(), torch.tensor([[0.5, -2.0]]), None, np.array([0]))
    tensor(-2.8125)
    """

    def __init__(self, quantization_weight: float) -> None:
        self.quantization_weight = quantization_weight

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: Relevance, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        u = self.activate(encoder(X))
        return self.data_loss(u, relevance) + self.quantization_weight * self.penalty(u.abs() - 1).mean()

    def activate(self, f: torch.Tensor) -> torch.Tensor:
        """Activations of the encoder's outputs; by default the outputs themselves.

        Parameters
        ----------
        f : tensor of shape (n, nbits)
            Outputs of the encoder.

        Returns
        -------
        tensor of shape (n, nbits)
            Activations u.
        """
        return f

    def data_loss(self, u: torch.Tensor, relevance: Relevance) -> torch.Tensor:
        """Loss of the activations without the penalty.

        Parameters
        ----------
        u : tensor of shape (n, nbits)
            Activations.
        relevance : Relevance
            Which samples of the batch are relevant to which.

        Returns
        -------
        tensor of shape ()
            The loss.
        """
        raise NotImplementedError

    def penalty(self, excess: torch.Tensor) -> torch.Tensor:
        """Penalty of each activation; by default its squared distance from its sign.

        Parameters
        ----------
        excess : tensor of shape (n, nbits)
            ``abs(u) - 1``: up to its sign, the distance.

        Returns
        -------
        tensor of shape (n, nbits)
            Penalties, >= 0.
        """
        return torch.square(excess)


class PairwiseObjective(QuantizedObjective):
    """The likelihood of the pairs of a batch, with slope 1/2 and equal weights, plus a penalty (DPSH, DHN)."""

    def data_loss(self, u: torch.Tensor, relevance: Relevance) -> torch.Tensor:
        """Mean over the pairs of softplus(theta) - s theta, see :class:`QuantizedObjective`."""
        index, _ = relevance.levels()
        return pairwise_loss(u, index > 0, scale=0.5)


class HistogramObjective(Objective):
    """A loss of the soft histogram of a batch, in which each sample ranks the others.

    Parameters
    ----------
    alpha : float, default=1.0
        Slope of the tanh that replaces the sign.
    n_bins : int, default=None
        Bins of the histogram, None for one per bit.
    graded : bool, default=False
        Whether the histogram has all levels of the affinity; otherwise it has two, irrelevant and relevant.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.affinity import Relevance
    >>> from skhash.hashers.deep import HistogramObjective
    >>> class MeanDistance(HistogramObjective):
    ...     def loss(self, H):  # of the relevant samples
    ...         counts = H.counts[..., 1]
    ...         return (counts * torch.arange(counts.shape[1])).sum() / counts.sum()
    >>> # two similar samples, one bit apart
    >>> u = torch.tensor([[9.0, 9.0], [9.0, -9.0], [-9.0, -9.0]])
    >>> objective, relevance = MeanDistance(), Relevance.of([0, 0, 1])
    >>> loss = objective(torch.nn.Identity(), u, relevance, np.arange(3))
    >>> round(loss.item(), 3)
    1.0
    """

    def __init__(self, alpha: float = 1.0, n_bins: int | None = None, graded: bool = False) -> None:
        self.alpha, self.graded = alpha, graded
        self.n_bins = as_count_or_none(n_bins, "n_bins")

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: Relevance, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        phi = torch.tanh(self.alpha * encoder(X))
        if phi.isnan().any():
            return phi.sum()  # NaN, so that the training loop raises an error
        return self.ranking_loss(phi, *self._levels(relevance))

    def ranking_loss(self, phi: torch.Tensor, level_index: npt.NDArray[Any], levels: npt.NDArray[Any]) -> torch.Tensor:
        """Loss of the activations of a batch: by default, :meth:`loss` of the histogram of their soft distances.

        Parameters
        ----------
        phi : tensor of shape (n, nbits)
            Activations in [-1, 1], whose soft Hamming distances are ``(nbits - <phi, phi'>) / 2``.
        level_index : ndarray of shape (n, n)
            Index of the level of each pair.
        levels : ndarray of shape (n_levels,)
            Levels, ascending from 0.

        Returns
        -------
        tensor of shape ()
            The loss.
        """
        from skhash.metrics.soft_histogram import soft_histogram  # imports torch

        nbits = phi.shape[1]
        distances = nbits / 2 - (phi / 2) @ phi.T
        index = torch.from_numpy(level_index.astype(np.int64)).to(distances.device)
        return self.loss(soft_histogram(distances, index, levels, max_distance=nbits, n_bins=self.n_bins))

    def _levels(self, relevance: Relevance) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Index of the level of each pair, of shape (n, n), and the levels."""
        index, levels = relevance.levels()
        index = np.require(index, requirements=["C", "W"])  # the kernels are compiled for such arrays
        if not self.graded:
            return index if len(levels) <= 2 else np.minimum(index, 1), _BINARY
        if len(levels) > MAX_LEVELS:
            raise ValueError(
                f"`affinity` must give at most {MAX_LEVELS} levels in a batch. Got {len(levels)} levels instead. "
                "Round them, for example by numpy.digitize."
            )
        return index, levels

    def loss(self, H: RelevanceHistogram) -> torch.Tensor:
        """Loss of the soft counts of a batch.

        Parameters
        ----------
        H : RelevanceHistogram
            Soft counts of each sample against the others.

        Returns
        -------
        tensor of shape ()
            The loss.
        """
        raise NotImplementedError


def view_maker(augment: str | Augmentation, shape: tuple[int, ...]) -> Augmentation:
    """Function that draws a random version of a batch, from the parameter `augment`."""
    if callable(augment):
        return augment
    return corrupt if len(shape) == 1 else moco_v2(shape)


def nt_xent(first: torch.Tensor, second: torch.Tensor, temperature: float) -> torch.Tensor:
    """Loss of SimCLR: each view must find the other view of its sample among all other views.

    It is the mean of -log(e^s(i, i') / sum_{j != i} e^s(i, j)) over the 2 n views i with their counterparts i',
    where s is the cosine over the temperature (Chen et al., ICML 2020).

    Parameters
    ----------
    first, second : tensor of shape (n, width)
        Views; row i of each comes from sample i of the batch.
    temperature : float
        Temperature.

    Returns
    -------
    tensor of shape ()
        The loss.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep import nt_xent
    >>> views = torch.eye(2)
    >>> nt_xent(views, views, temperature=1.0)  # ln(1 + 2 / e)
    tensor(0.5514)
    """
    views = torch.nn.functional.normalize(torch.cat([first, second]), dim=1, eps=1e-3)
    logits = (views @ views.T / temperature).fill_diagonal_(-torch.inf)
    own = torch.arange(len(views), device=views.device).roll(len(first))
    return torch.nn.functional.cross_entropy(logits, own)


def batch_labels(relevance: Relevance, classes: npt.NDArray[Any], activations: torch.Tensor) -> torch.Tensor:
    """0/1 matrix of the labels of a batch, with a column for each class, in the type of the activations."""
    return torch.from_numpy(relevance.labels(classes)).to(activations)
