r"""NSH, learning to hash naturally sorts (Yu, Shen, Wang, Zhang, Torr, IJCAI 2022).

Two random views x~ and x^ of each of the n samples of a batch give activations, codes and
latents,

    h = tanh f(x),   b = sign(h) with db/dh = 1,   z = g(x) / |g(x)|.

Codes of two views have the similarities S_ij = <b~_i, b^_j> / 2b + 1/2 (eq. 3), which is 1 - d(b~_i, b^_j) / b for the
Hamming distance d. The code of query i sorts the n codes of the other view softly, by the distances

    d_ij = d(b~_i, b^_j)   with query_view="items", as in the paper (eq. 4, row i of S),
    d_ij = d(b^_i, b~_j)   with query_view="anchor", the default (row i of the transpose of S).

Row k of the soft permutation and the mean latent that it selects are (eqs. 1, 4 and 5)

    P_i[k, j] = softmax_j( -|d_i(k) - d_ij| / tau_s ),   e_i[k] = P_i[k] Z~ / |P_i[k] Z~|,

where d_i(k) is the k-th SMALLEST distance: row 1 holds the most similar item (eq. 1 names no direction). The first
m rows are positives of the anchor z^_i, the others its negatives. With kappa = exp(cos / tau_c) (eqs. 6 and 7),

    SortedNCE = -1/(mn) sum_i sum_{k<=m} log[ kappa(e_i[k], z^_i) / (kappa(e_i[k], z^_i) + sum_{l>m} kappa(e_i[l], z^_i)) ]
    L_R       = 1/(2n) sum_i ( |b~_i - h~_i| + |b^_i - h^_i| ),   b held constant
    loss      = SortedNCE + quantization_weight * L_R.

The own view of a sample, at d_ii, is a negative where the codes do not find it. With own_view="first", beyond the
paper, d_ii counts as min_j d_ij - 1 in the sort, and the codes learn to find it first:

    loss = SortedNCE + quantization_weight * L_R + own_view_weight * L_O,   L_O = -1/n sum_i log softmax_j( -d_ij / tau_s )[i].

The views are then weak at first. With strength s, a view is

    x + min(2s, 1) (a - x),   a the nearest to x of 1 + round(31 min(2 - 2s, 1)) draws of augment(x),

from a fifth of the nearest of 32 draws at s = 0.1 to augment(x) itself at s = 1. The strength begins at 0.1. It rises
by 0.005 after a batch in which at least nine own views in ten are among the first m, and falls by 0.005 otherwise.

Rows of P_i at equal distances are equal, and there are at most b + 1 distances: each
different row is computed once, with the number of ranks that it fills. A tie that crosses
rank m shares its gradient evenly, as the mean over the orders of the tied items.
"""  # noqa: E501

from __future__ import annotations

import math
import warnings
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, cast

import numpy as np
import numpy.typing as npt

from skhash._compat import Interval, StrOptions
from skhash._libraries import torch
from skhash.engine import Objective
from skhash.engine.augment import augmented, two_views
from skhash.engine.data import unit_of
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._objectives import nt_xent, sign, view_maker
from skhash.hashers.deep._parameters import Augmentation, SharedParameters

if TYPE_CHECKING:
    from skhash.engine import Encoder, Trainer

_VARIANTS = ("full", "hard_sort", "no_quantization", "decoding", "single_bottleneck", "no_softsort", "multi_label")
_MAX_WEIGHTS = 2**23  # entries of the soft permutations in memory at a time: 32 MiB
_MIN_SHARE = 0.3  # of own views that the codes find; below it `fit` warns


def _tied_levels(distances: torch.Tensor, max_distance: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Different whole distances of each row, ascending, and the number of items at each, both padded by 0."""
    whole = distances.detach().round().long()
    taken = torch.zeros(len(whole), max_distance + 1, dtype=torch.long, device=whole.device).scatter_(1, whole, 1)
    slots = (taken.cumsum(1) - 1).gather(1, whole)
    empty = distances.new_zeros(len(distances), int(slots.max()) + 1)
    counts = empty.scatter_add(1, slots, torch.ones_like(distances))
    return empty.scatter_add(1, slots, distances) / counts.clamp_min(1), counts


def _soft_permutation(levels: torch.Tensor, distances: torch.Tensor, tau: float = 1.0) -> torch.Tensor:
    """Different rows of the soft permutations, of shape (n, n_levels, n_items); each sums to 1 over the items."""
    return torch.softmax(-(levels[:, :, None] - distances[:, None, :]).abs() / tau, dim=-1)


def _sorted_nce(
    cosines: torch.Tensor,
    counts: torch.Tensor,
    n_positives: int,
    tau: float = 0.2,
    *,
    all_in_denominator: bool = False,
) -> torch.Tensor:
    """SortedNCE, the mean over positives and anchors, of the cosines (n, n_levels) of sorted rows and their anchors."""
    positives = torch.minimum((n_positives - counts.cumsum(1) + counts).clamp_min(0), counts)
    others = counts if all_in_denominator else counts - positives
    logits = cosines / tau
    denominators = torch.logsumexp(logits + others.log(), dim=1, keepdim=True) - logits
    losses = denominators if all_in_denominator else torch.nn.functional.softplus(denominators)
    loss: torch.Tensor = (positives * losses).sum() / (n_positives * len(cosines))
    return loss


def _quantization_loss(h: torch.Tensor) -> torch.Tensor:
    """L_R: mean distance of activations (n, nbits) from their signs, which are held constant."""
    distances: torch.Tensor = torch.linalg.vector_norm(sign(h).detach() - h, dim=1)
    return distances.mean()


def _sorted_items(levels: torch.Tensor, distances: torch.Tensor, items: torch.Tensor, tau: float) -> torch.Tensor:
    """Unit rows e_i, of shape (n, n_levels, n_latent)."""
    # sums of items, and above all of codes, may be near 0: `eps` limits the gradient
    return torch.nn.functional.normalize(_soft_permutation(levels, distances, tau) @ items, dim=-1, eps=1e-3)


def _cosines(
    levels: torch.Tensor, distances: torch.Tensor, items: torch.Tensor, anchors: torch.Tensor, tau: float
) -> torch.Tensor:
    """Cosines of softly sorted items with their anchors, of shape (n, n_levels)."""
    return (_sorted_items(levels, distances, items, tau) @ anchors[:, :, None])[:, :, 0]


def _soft_cosines(
    levels: torch.Tensor, distances: torch.Tensor, items: torch.Tensor, anchors: torch.Tensor, tau: float
) -> torch.Tensor:
    """`_cosines` in blocks of anchors that are computed again for the gradient, which limits the memory."""
    from torch.utils.checkpoint import checkpoint

    size = max(1, _MAX_WEIGHTS // (levels.shape[1] * distances.shape[1]))
    if size >= len(levels):
        return _cosines(levels, distances, items, anchors, tau)
    parts = zip(levels.split(size), distances.split(size), anchors.split(size), strict=True)
    computed_again = partial(checkpoint, _cosines, use_reentrant=False, preserve_rng_state=False)
    return torch.cat([computed_again(part[0], part[1], items, part[2], tau) for part in parts])


class NSHObjective(Objective):
    """SortedNCE of two views of a batch, and the distance of activations from their signs."""

    def __init__(
        self,
        augment: Augmentation,
        width: int,
        n_inputs: int,
        n_latent: int = 128,
        n_positives: int = 2,
        temperature: float = 0.2,
        sort_temperature: float = 1.0,
        quantization_weight: float = 0.1,
        variant: str = "full",
        own_view: str = "sorted",
        own_view_weight: float = 0.2,
        query_view: str = "anchor",
    ) -> None:
        from skhash.engine.backbones import HIDDEN  # imports torch

        self.n_positives, self.temperature, self.sort_temperature = n_positives, temperature, sort_temperature
        self.quantization_weight = 0.0 if variant == "no_quantization" else quantization_weight
        self.variant, self.query_view = variant, query_view
        # "no_softsort" sorts nothing
        self.own_views = OwnViews(augment, own_view == "first" and variant != "no_softsort", own_view_weight)
        self.trained["own_views"] = self.own_views.state
        nn = torch.nn
        if variant not in ("single_bottleneck", "no_softsort"):  # these contrast codes
            self.trained["latent"] = nn.Linear(width, n_latent)
        if variant == "decoding":
            self.trained["decoder"] = nn.Sequential(nn.Linear(n_latent, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_inputs))

    def start_stage(self, stage: int, n_stages: int) -> None:
        """Reset the counts of own views; called before each epoch."""
        self.own_views.start_epoch()

    def forward(
        self, encoder: Encoder, X: torch.Tensor, relevance: None, indices: npt.NDArray[np.int64]
    ) -> torch.Tensor:
        """Loss of one batch, see :class:`skhash.engine.Objective`."""
        features = encoder.features(torch.cat(self.own_views.draw(X)))
        h = torch.tanh(encoder.head(features))
        if h.isnan().any():
            return h.sum()  # NaN, so that the training loop raises an error
        codes = sign(h)
        latents = self.trained["latent"](features) if "latent" in self.trained else codes
        items, anchors = torch.nn.functional.normalize(latents, dim=1).chunk(2)
        (first, second), nbits, tau = codes.chunk(2), codes.shape[1], self.sort_temperature
        if self.variant == "no_softsort":
            similarities = first @ second.T / (2 * nbits) + 0.5
            loss = nt_xent(similarities @ first, similarities @ second, self.temperature)
        else:
            queries, keys = (first, second) if self.query_view == "items" else (second, first)
            distances = (nbits - queries @ keys.T) / 2
            n_positives = min(self.n_positives, len(X) - 1)  # at least one negative
            distances, own_loss = self.own_views.sort(distances, n_positives, tau)
            if self.variant == "decoding":
                nearest = _sorted_items(distances.amin(1, keepdim=True), distances, items, tau)[:, 0]
                samples = ((X - encoder.mean) / encoder.scale).flatten(1)
                contrast = torch.nn.functional.mse_loss(self.trained["decoder"](nearest), samples)
            elif self.variant == "hard_sort":
                cosines = (anchors @ items.T).gather(1, distances.argsort(dim=1, stable=True))
                contrast = _sorted_nce(cosines, torch.ones_like(cosines), n_positives, self.temperature)
            else:
                # own views that are always first raise the distances by one
                levels, counts = _tied_levels(distances, nbits + self.own_views.first)
                cosines = _soft_cosines(levels, distances, items, anchors, tau)
                in_all = self.variant == "multi_label"
                contrast = _sorted_nce(cosines, counts, n_positives, self.temperature, all_in_denominator=in_all)
            loss = own_loss + contrast
        return loss + self.quantization_weight * _quantization_loss(h) if self.quantization_weight else loss


# The strength of an augmentation rises by _STEP after a batch in which the codes find _SHARE of the own views, and
# falls by _STEP otherwise. Chosen on held-out training samples of MNIST.
_SHARE, _STEP, _LEAST_STRENGTH = 0.9, 0.005, 0.1


# A weak augmentation takes the nearest of _MAX_DRAWS random versions of a sample. On held-out training samples of MNIST
# 32 are better than 8, on those of Fashion-MNIST as good. Since an augmentation may change a whole batch in the same
# way, it is called eight times with _N_COPIES copies of each sample.
_MAX_DRAWS, _N_COPIES = 32, 4


def _nearest_draw(augment: Augmentation, n_draws: int, batch: torch.Tensor) -> torch.Tensor:
    """The nearest of `n_draws` random versions of each sample; the first one if its shape differs from the batch."""
    nearest = batch[:0]
    for n_done in range(0, n_draws, _N_COPIES):
        copies = batch.repeat(min(_N_COPIES, n_draws - n_done), *[1] * (batch.ndim - 1))
        draws = augmented(augment, copies)
        if draws.shape != copies.shape:
            return draws[: len(batch)]
        draws = torch.cat([nearest, draws]).view(-1, *batch.shape)
        changes = draws - batch
        distances = (changes / unit_of(changes)).flatten(2).square().sum(2)
        nearest = draws[distances.argmin(0), torch.arange(len(batch), device=batch.device)]
    return nearest


def _weaken(augment: Augmentation, strength: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """Random version of a batch, weaker than `augment` at a strength below 1 unless its shape differs.

    Up to a strength of 1/2, the nearest of 32 random versions of each sample is mixed with the sample. Above it,
    nothing is mixed, and the number of random versions falls to one.
    """
    share = min(1.0, 2 * strength.item())
    n_draws = 1 + round((_MAX_DRAWS - 1) * min(1.0, 2 - 2 * strength.item()))
    views = _nearest_draw(augment, n_draws, batch)
    return torch.lerp(batch, views, share) if share < 1 and views.shape == batch.shape else views


def _own_view_first(distances: torch.Tensor) -> torch.Tensor:
    """Distances in which the own view is one bit nearer than all others, raised by one so that none is negative."""
    nearest = distances.min(1).values
    return distances + 1 + torch.diag(nearest - 1 - distances.diagonal()).detach()


def _count_found(distances: torch.Tensor, n_positives: int) -> torch.Tensor:
    """Number of anchors with fewer than `n_positives` views nearer than the own view."""
    nearer = distances.detach().round()
    return ((nearer < nearer.diagonal()[:, None]).sum(1) < n_positives).sum()


class OwnViews:
    """The two views of each batch, and the rank of the own view among the sorted views.

    With `first`, the own view is always the first, the strength of `augment` follows the share of own views that the
    codes find, and `weight` is the weight of the loss of own views. Otherwise the codes sort it as all others. The
    strength is a buffer of the module `state`.
    """

    def __init__(self, augment: Augmentation, first: bool, weight: float) -> None:
        self.augment, self.first, self.weight = augment, first, weight
        self.state: Any = torch.nn.Module()
        self.state.register_buffer("strength", torch.tensor(_LEAST_STRENGTH if first else 1.0))
        self.n_found, self.n_anchors = torch.tensor(0), 0

    def start_epoch(self) -> None:
        """Reset the counts of own views."""
        self.n_found, self.n_anchors = torch.tensor(0), 0

    def draw(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two views of a batch."""
        return two_views(partial(_weaken, self.augment, self.state.strength) if self.first else self.augment, batch)

    def sort(self, distances: torch.Tensor, n_positives: int, tau: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Distances by which the views are sorted, and the loss of own views; see :func:`_own_view_first`."""
        n_found = _count_found(distances, n_positives)
        self.n_found, self.n_anchors = n_found + self.n_found.to(n_found.device), self.n_anchors + len(distances)
        if not self.first:
            return distances, distances.new_zeros(())
        step = torch.where(n_found / len(distances) >= _SHARE, _STEP, -_STEP)
        self.state.strength = (self.state.strength + step).clamp(_LEAST_STRENGTH, 1.0)
        # the likelihood that the first row of the soft permutation selects the own view
        own_loss = torch.nn.functional.cross_entropy(
            -distances / tau, torch.arange(len(distances), device=distances.device)
        )
        return _own_view_first(distances), self.weight * own_loss

    def shares(self) -> dict[str, float]:
        """Share of own views found in this epoch, and the strength of `augment`."""
        shares = {"own_views_found": self.n_found.item() / self.n_anchors} if self.n_anchors else {}
        return shares | ({"augment_strength": round(self.state.strength.item(), 3)} if self.first else {})


class NSHHasher(DeepHasher):
    """Learning to hash naturally sorts: unsupervised codes that sort contrasted latents.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    n_latent : int, default=128
        Number d_z of latents, which are used in training only.
    n_positives : int, default=2
        Number m of samples nearest to an anchor, its other view among them, that count as
        its positives; at most the batch size minus one.
    temperature : float, default=0.2
        Temperature tau_c of the contrast.
    sort_temperature : float or "paper", default=1.0
        Temperature tau_s of the soft sort, in units of Hamming distance. "paper" is nbits ** 2: the paper divides
        similarities between 0 and 1 by nbits.
    quantization_weight : float, default=0.1
        Weight of the distance of the activations from their signs.
    variant : str, default="full"
        "full", or one of the paper's ablations: "hard_sort" sorts the latents by argsort
        (the codes then learn from L_R alone),
        "no_quantization" omits L_R, "decoding" reconstructs each sample from the first
        item sorted for it instead of contrasting, "single_bottleneck" sorts the codes themselves
        instead of latents, "no_softsort" contrasts sums of codes weighted by similarity,
        "multi_label" leaves all positives in each denominator.
    own_view : "sorted", "first" or None, default=None
        Which rank the other view of an anchor has, its own view. "sorted" is the paper's reading:
        the codes sort it as all other views, and it is a negative where they do not find it.
        "first" always makes it the first positive, teaches the codes to find it first, and
        begins with a weak augmentation; see Notes. None is "first" if `augment` is a callable, which
        may be strong, and "sorted" for "auto".
    query_view : "anchor" or "items", default="anchor"
        Which view of a sample has the code that sorts. "items", as in the paper: the view whose latents are
        sorted, so that the codes of the anchors' view are its neighbors. "anchor": the view of the latent that the
        sorted ones are contrasted with, so that its code sorts codes and latents of the same view. Neither is
        better everywhere: "items" is far better on images of MNIST, "anchor" a little on images of Fashion-MNIST.
    own_view_weight : float, default=0.2
        With "first": weight of the loss that teaches the codes to find the own view first.
    augment : "auto" or callable, default="auto"
        Maps each training batch (a float32 tensor) to a random version of it; it is called twice,
        with `own_view` "first" more often. "auto" is, for vectors, a little noise and a tenth
        of the features from other samples, for images the augmentation of MoCo v2 (needs kornia);
        see Notes.
    affinity : "auto" or callable, default="auto"
        Which samples are relevant, for :meth:`score` only. See :mod:`skhash.affinity`.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    The positives of an anchor are the samples that its code finds nearest. Training needs the
    anchor's other view, its own view, among them. `history_` has "own_views_found", their share,
    at the end of each tenth of the epochs, and `fit` warns if few of them are found. Then
    weaken `augment`, or use ``own_view="first"``. A view is then at first a mixture of the sample
    with the nearest of 32 random versions of it. So `augment` is called up to sixteen times per
    batch, on four copies of each sample. Its "augment_strength" in `history_` rises as long as the
    codes find nine own views in ten. Up to 0.5 the mixture has less of the sample. From there to 1,
    where `augment` has its full strength, there are fewer random versions. Views of another shape
    are used as they are.

    The augmentation of MoCo v2 suits a backbone that was trained on photographs; train a new
    backbone with small changes.

    Targets are used by :meth:`score`, and by ``early_stopping`` to choose an epoch.

    {defaults}

    The learning rates of SGD were chosen on training samples of USPS and MNIST.

    A step of n samples costs O(n^2 L n_latent) beyond the encoder, where L <= min(nbits + 1, n)
    is the number of different distances of an anchor. At 32 bits on one thread
    a step of 50 samples takes 6 ms with "mlp", of which the encoder takes 3; of 200 samples 25 and
    11; of 800 samples 388 and 38. Memory is bounded by 2**23 weights of the soft permutations.

    References
    ----------
    Yu, Shen, Wang, Zhang, Torr: Learning to Hash Naturally Sorts. IJCAI 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import NSHHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = NSHHasher(nbits=16, n_epochs=5, random_state=0).fit(X[:1000])
    >>> hasher.transform(X[1000:]).shape
    (797, 16)
    """

    _batch_norm = ("linear", "deep")  # balances the bits
    _n_epochs_range = (10, 300)
    _objective_params = ("n_latent", "variant")
    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay")
    _recipes = {"linear": (5000, 50, 1e-3, 1e-4), "deep": (5000, 50, 1e-3, 1e-4)}
    _sgd_rates = {"linear": 0.1, "deep": 0.03}
    _of_module: ClassVar = {}
    _network_scale = 0.03  # at 0.3 nearly all codes become equal
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "n_latent": [Interval(Integral, 1, None, closed="left")],
        "n_positives": [Interval(Integral, 1, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "sort_temperature": [Interval(Real, 0, None, closed="neither"), StrOptions({"paper"})],
        "quantization_weight": [Interval(Real, 0, None, closed="left")],
        "variant": [StrOptions(set(_VARIANTS))],
        "own_view": [StrOptions({"sorted", "first"}), None],
        "query_view": [StrOptions({"anchor", "items"})],
        "own_view_weight": [Interval(Real, 0, None, closed="left")],
        "augment": [StrOptions({"auto"}), callable],
    }

    _shared_defaults: ClassVar = {"augment": "auto", "backbone": "mlp", "input_dropout": 0.0}
    _hidden_dropout = 0.0

    def __init__(
        self,
        nbits: int = 32,
        *,
        n_latent: int = 128,
        n_positives: int = 2,
        temperature: float = 0.2,
        sort_temperature: Literal["paper"] | float = 1.0,
        quantization_weight: float = 0.1,
        variant: str = "full",
        own_view: Literal["sorted", "first"] | None = None,
        query_view: Literal["anchor", "items"] = "anchor",
        own_view_weight: float = 0.2,
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(nbits, **shared)
        self.n_latent = n_latent
        self.n_positives = n_positives
        self.temperature = temperature
        self.sort_temperature = sort_temperature
        self.quantization_weight = quantization_weight
        self.variant = variant
        self.own_view = own_view
        self.query_view = query_view
        self.own_view_weight = own_view_weight

    def _resolve_defaults(self, X: Any) -> None:
        super()._resolve_defaults(X)
        self.settings_ |= self._with_given_values({"own_view": "first" if callable(self.augment) else "sorted"})

    def _objective(self) -> Objective:
        shape = self.input_shape_
        return NSHObjective(
            view_maker(self.augment, shape),
            self._feature_width(),
            math.prod(shape),
            self.n_latent,
            self.n_positives,
            self.temperature,
            self.nbits**2 if self.sort_temperature == "paper" else self.sort_temperature,
            self.quantization_weight,
            self.variant,
            self.settings_["own_view"],
            self.own_view_weight,
            self.query_view,
        )

    def _warn_of_training(self, stacklevel: int) -> None:
        entries = [entry for entry in self.history_ if "own_views_found" in entry]
        if not entries:
            return
        share, strength = entries[-1]["own_views_found"], entries[-1].get("augment_strength", 1.0)
        stays_weak = (
            len(entries) > 1
            and all(  # the augmentation has its lowest strength, and this does not help
                entry["own_views_found"] < _SHARE and entry.get("augment_strength", 1.0) <= _LEAST_STRENGTH + _STEP
                for entry in entries[-2:]
            )
        )
        if share < _MIN_SHARE or stays_weak:
            message = (
                "The codes find the other view of a sample among the first `n_positives` views of its batch for only "
                f"{100 * share:.0f} % of the samples at the end of the training, with `augment` at "
                f"{100 * strength:.0f} % of its strength, so that they have learned little from it. "
                "Weaken `augment`, raise `n_epochs`, or use own_view='first'."
            )
            warnings.warn(message, UserWarning, stacklevel=stacklevel)

    def _n_stages(self) -> int:
        return 10  # own views are counted at the end of each stage, so that an early stop has counts, too

    def _measure_stage(self, trainer: Trainer) -> dict[str, Any]:
        return cast(NSHObjective, trainer.objective).own_views.shares()

    def _augmentation(self) -> None:
        return None  # the objective draws two views
