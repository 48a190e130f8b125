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

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, cast

from skhash._compat import Interval, StrOptions
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._parameters import (
    SharedParameters,
)

if TYPE_CHECKING:
    from skhash.engine import Objective, Trainer
    from skhash.hashers.deep._nsh import NSHObjective

_VARIANTS = ("full", "hard_sort", "no_quantization", "decoding", "single_bottleneck", "no_softsort", "multi_label")


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

    def _objective(self) -> "Objective":
        from skhash.hashers.deep._nsh import NSHObjective
        from skhash.hashers.deep._objectives import view_maker

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
        from skhash.hashers.deep._nsh import warn_if_not_found

        warn_if_not_found(self.history_, stacklevel)

    def _n_stages(self) -> int:
        return 10  # own views are counted at the end of each stage, so that an early stop has counts, too

    def _measure_stage(self, trainer: "Trainer") -> dict[str, Any]:
        return cast("NSHObjective", trainer.objective).own_views.shares()

    def _augmentation(self) -> None:
        return None  # the objective draws two views
