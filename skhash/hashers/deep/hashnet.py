"""HashNet, deep hashing by continuation (Cao, Long, Wang, Yu, ICCV 2017).

With g = tanh(beta z) in place of the codes h = sign(z), and s_ij = 1 for relevant pairs,

    J = sum_ij w_ij [ softplus(a <g_i, g_j>) - a s_ij <g_i, g_j> ] / sum_ij w_ij      (eq. 4)

is the weighted maximum likelihood of the similarities, over the pairs of different samples
of a batch. The weights give the two kinds of pairs the same sum (eq. 2),

    w_ij = c_ij |S| / |S1| for similar pairs,   w_ij = |S| / |S0| for dissimilar ones

with c_ij = 1, or a continuous similarity (taken literally the paper's c_ij would
delete every dissimilar pair, so it multiplies the similar ones only). beta rises in
stages (algorithm 1, with the slopes beta_0 = 1 < ... < beta_m = infinity): the smooth problem becomes the
binary one, and the gap between J and the loss L of the binary codes closes. The last of the m + 1
stages is the sign itself and has no gradient; the others are trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import numpy as np
import numpy.typing as npt

from skhash._compat import Interval, StrOptions
from skhash._libraries import torch
from skhash._validation import evenly_spaced
from skhash.affinity import Relevance, SharedLabelsAffinity
from skhash.engine import Objective
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._objectives import pairwise_loss
from skhash.hashers.deep._parameters import SharedParameters

if TYPE_CHECKING:
    from skhash.engine import Encoder, Trainer

# a * nbits, which is about 10 in the authors' code at 48 bits. With two hidden layers, a smaller value and more weight
# decay also work for many classes and for few samples per class (experiments/defaults.py).
_SCALES = {"linear": 10.0, "deep": 6.4}
_N_MEASURED = 1024  # samples whose pairs measure the gap of a stage


class HashNetObjective(Objective):
    """The weighted pairwise likelihood of a batch, at the slope `betas[stage]` of each stage."""

    def __init__(
        self,
        scale: float,
        class_ratio: float | str = "batch",
        similarity: str = "binary",
        betas: Sequence[float] = (1.0,),
    ) -> None:
        self.scale = scale
        self.class_ratio, self.similarity, self.betas = class_ratio, similarity, betas
        self.beta = betas[0]

    def start_stage(self, stage: int, n_stages: int) -> None:
        """Take the slope beta of the stage."""
        self.beta = self.betas[stage]

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: Relevance, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        return self.likelihood(torch.tanh(self.beta * encoder(X)), relevance)

    def likelihood(self, g: torch.Tensor, relevance: Relevance) -> torch.Tensor:
        """Negative weighted log-likelihood of all pairs of different samples; `g` are codes in [-1, 1]."""
        index, levels = relevance.levels()
        similar = index > 0
        if isinstance(self.class_ratio, str):  # "batch": the two kinds of pairs have the same weight
            n_pairs = similar.size - len(similar)
            n_similar = np.count_nonzero(similar & ~np.eye(len(similar), dtype=bool))
            # weights have no effect if all pairs are of one kind
            ratio = (n_pairs - n_similar) / n_similar if 0 < n_similar < n_pairs else 1.0
        else:
            ratio = self.class_ratio
        weights = np.where(similar, ratio, 1.0)
        if self.similarity == "continuous":
            weights[similar] *= _continuous_similarity(relevance, levels[index])[similar]
        return pairwise_loss(g, similar, self.scale, weights)

    def gap(self, z: torch.Tensor, relevance: Relevance) -> dict[str, float]:
        """Losses of relaxed and of binary codes at this stage: J, L and J - L, from activations z."""
        z = z.double()
        relaxed = self.likelihood(torch.tanh(self.beta * z), relevance).item()
        binary = self.likelihood(torch.where(z >= 0, 1.0, -1.0).double(), relevance).item()
        losses = {"relaxed_loss": relaxed, "binary_loss": binary, "quantization_gap": relaxed - binary}
        return {"beta": self.beta} | losses


def _continuous_similarity(relevance: Relevance, levels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Jaccard index of the label sets; for other affinities the level over the highest one."""
    if not isinstance(relevance.affinity, SharedLabelsAffinity):
        return np.asarray(levels / max(levels.max(), 1e-300))
    labels = relevance.labels()
    shared = labels @ labels.T
    sizes = labels.sum(axis=1)
    return np.asarray(shared / np.maximum(sizes[:, None] + sizes - shared, 1))


class HashNetHasher(DeepHasher):
    r"""Deep hashing by continuation: pairwise likelihood of codes that become binary in stages.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    scale : float, default=None
        Slope a of the likelihood; None uses 10 / nbits, or 6.4 / nbits with a backbone.
    n_stages : int, default=10
        Number of stages that are trained, each with a finite slope: m in the paper, where the sign
        is one more stage. 1 trains with `beta` = 1 (the paper's HashNet-sgn). The stages share the
        epochs. With fewer epochs than stages, stages are left out, but not the last one: see Notes.
    max_beta : float, default=None
        Slope beta of the last stage but one; beta rises from 1 with the square of the stage.
        See Notes for None.
    last_beta : float, default=None
        Slope beta of the last stage, at least `max_beta`. A large slope makes the activations
        almost binary, which closes the gap and leaves the ranking as it is. A steady rise to
        the same slope would stop learning early. See Notes for None.
    class_ratio : "batch" or float, default="batch"
        Weight of a similar pair over that of a dissimilar one. "batch" gives the two kinds the
        same weight in each batch. A float is a fixed ratio \|S0\| / \|S1\| of the data; 1 weights
        all pairs equally (HashNet-W).
    similarity : "binary" or "continuous", default="binary"
        "continuous" multiplies the weight of a similar pair by the Jaccard index of its
        label sets, or by its level over the highest one (HashNet+C).
    affinity : "auto" or callable, default="auto"
        Which samples are similar; "auto" takes classes or shared labels from y. See
        :mod:`skhash.affinity`.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it; "auto"
        crops and flips images.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    The last epoch of a stage adds to `history_`, from at most 1,024 training samples, "beta",
    "relaxed_loss" (J), "binary_loss" (L of the codes) and "quantization_gap" (J - L), which may be negative.

    With fewer epochs than stages, each epoch trains one of evenly spaced stages: of ten stages, three epochs train
    the fourth, the seventh and the last. "beta" in `history_` says which slopes were trained.

    {defaults}

    The values were chosen on training samples of nine sets (``python experiments/defaults.py``).

    References
    ----------
    Cao, Long, Wang, Yu: HashNet: Deep Learning to Hash by Continuation. ICCV 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import HashNetHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = HashNetHasher(nbits=16, n_epochs=20, random_state=0)
    >>> hasher = hasher.fit(X[:1000], y[:1000])
    >>> print(f"{hasher.score(X[1000:], y[1000:]):.1f}")
    0.8

    A large slope of the last stage closes the gap between activations and codes:

    >>> hasher = hasher.set_params(last_beta=50).fit(X[:1000], y[:1000])
    >>> gap, loss = (
    ...     hasher.history_[-1][name] for name in ("quantization_gap", "binary_loss")
    ... )
    >>> abs(gap) < 0.1 * loss
    True
    """

    _supervised = True
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "scale": [Interval(Real, 0, None, closed="neither"), None],
        "n_stages": [Interval(Integral, 1, None, closed="left")],
        "max_beta": [Interval(Real, 1, None, closed="left"), None],
        "last_beta": [Interval(Real, 1, None, closed="left"), None],
        "class_ratio": [StrOptions({"batch"}), Interval(Real, 0, None, closed="neither")],
        "similarity": [StrOptions({"binary", "continuous"})],
    }

    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay", "max_beta", "last_beta")
    _recipes = {
        # if a linear map cannot fit the pairs, a larger last beta ranks worse, although the loss L falls
        "linear": (2500, 256, 0.02, 0.5, 5.0, 5.0),
        "deep": (1500, 256, 0.003, 3.0, 5.0, 100.0),
    }
    _sgd_rates = {"linear": 1.0, "deep": 0.1}

    def __init__(
        self,
        nbits: int = 32,
        *,
        scale: float | None = None,
        n_stages: int = 10,
        max_beta: float | None = None,
        last_beta: float | None = None,
        class_ratio: Literal["batch"] | float = "batch",
        similarity: Literal["binary", "continuous"] = "binary",
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.scale = scale
        self.n_stages = n_stages
        self.max_beta = max_beta
        self.last_beta = last_beta
        self.class_ratio = class_ratio
        self.similarity = similarity

    def _objective(self) -> Objective:
        scale = _SCALES[self._kind()] / self.nbits if self.scale is None else self.scale
        rising = np.linspace(0, 1, max(self.n_stages - 1, 1)) ** 2
        betas = (1 + (self.settings_["max_beta"] - 1) * rising).tolist()
        if self.n_stages > 1:
            betas.append(max(float(self.settings_["last_beta"]), betas[-1]))
        return HashNetObjective(scale, self.class_ratio, self.similarity, betas)

    def _n_stages(self) -> int:
        return self.n_stages

    def _measure_stage(self, trainer: Trainer) -> dict[str, Any]:
        from skhash.hashers.deep._initial_maps import compute_activations

        chosen = evenly_spaced(len(trainer.X), _N_MEASURED)
        activations = torch.from_numpy(compute_activations(trainer.encoder, trainer.X[chosen])).to(trainer.device)
        objective = cast(HashNetObjective, trainer.objective)
        return objective.gap(activations, trainer.relevance.take(chosen))
