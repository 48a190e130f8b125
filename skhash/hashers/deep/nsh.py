r"""NSH, learning to hash naturally sorts (Yu, Shen, Wang, Zhang, Torr, IJCAI 2022).

Two random views x~ and x^ of each of the n rows of a batch give activations, codes and
latents,

    h = tanh f(x),   b = sign(h) with db/dh = 1,   z = g(x) / |g(x)|.

Code b^_i sorts the codes b~_j by their similarity <b~_j, b^_i> / 2b + 1/2, that is by the
Hamming distance d_ij = (b - <b~_j, b^_i>) / 2. Sorted softly, row k of the permutation and
what it gathers are

    P_i[k, j] = softmax_j( -|d_i(k) - d_ij| / tau_s ),   e_i[k] = P_i[k] Z~ / |P_i[k] Z~|,

where d_i(k) is the k-th SMALLEST distance: row 1 holds the most similar item. The first
m rows are positives of z^_i, the others its negatives. With kappa = exp(cos / tau_c),

    SortedNCE = -1/(mn) sum_i sum_{k<=m} log[ kappa(e_i[k], z^_i) / (kappa(e_i[k], z^_i) + sum_{l>m} kappa(e_i[l], z^_i)) ]
    L_R       = 1/(2n) sum_i ( |b~_i - h~_i| + |b^_i - h^_i| ),   b held constant
    loss      = SortedNCE + quantization_weight * L_R.

Rows of P_i at equal distances are equal, and there are at most b + 1 distances: each
different row is formed once, with the number of ranks that it fills. A tie that crosses
rank m shares its gradient evenly, as the mean over the orders of the tied items.
"""  # noqa: E501

import math
from functools import partial
from numbers import Integral, Real

import torch
from torch import nn
from torch.nn.functional import mse_loss, normalize, softplus
from torch.utils.checkpoint import checkpoint

from skhash._compat import Interval, StrOptions
from skhash.engine import Objective
from skhash.engine.augment import two_views
from skhash.engine.backbones import HIDDEN
from skhash.hashers.deep._base import DeepHasher
from skhash.hashers.deep._binarize import sign
from skhash.hashers.deep._contrast import nt_xent, view_maker

VARIANTS = ("full", "hard_sort", "no_quantization", "decoding", "single_bottleneck", "no_softsort", "multi_label")
MAX_WEIGHTS = 2**23  # entries of the soft permutations that are formed at a time: 32 MiB


def tied_levels(distances, max_distance):
    """Group the distances of each row by their nearest whole number, nearest items first.

    Parameters
    ----------
    distances : tensor of shape (n, n_items)
        Distances from 0 to `max_distance`, whole in value.
    max_distance : int
        The largest one possible.

    Returns
    -------
    levels : tensor of shape (n, n_levels)
        The different distances of each row in ascending order, 0 where it has no more;
        differentiable, each the mean of its tie.
    counts : tensor of shape (n, n_levels)
        Items at each of them.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep.nsh import tied_levels
    >>> levels, counts = tied_levels(torch.tensor([[2.0, 0.0, 2.0, 3.0]]), max_distance=8)
    >>> levels.tolist(), counts.tolist()
    ([[0.0, 2.0, 3.0]], [[1.0, 2.0, 1.0]])
    """
    whole = distances.detach().round().long()
    taken = torch.zeros(len(whole), max_distance + 1, dtype=torch.long, device=whole.device).scatter_(1, whole, 1)
    slots = (taken.cumsum(1) - 1).gather(1, whole)
    empty = distances.new_zeros(len(distances), int(slots.max()) + 1)
    counts = empty.scatter_add(1, slots, torch.ones_like(distances))
    return empty.scatter_add(1, slots, distances) / counts.clamp_min(1), counts


def soft_permutation(levels, distances, tau=1.0):
    """Compute the different rows of the soft permutations that sort the items of each row.

    Parameters
    ----------
    levels : tensor of shape (n, n_levels)
        Distances in ascending order, see :func:`tied_levels`.
    distances : tensor of shape (n, n_items)
        Distances of the items.
    tau : float, default=1.0
        Temperature, in units of distance; towards 0 each row is the mean over one tie.

    Returns
    -------
    tensor of shape (n, n_levels, n_items)
        Weights, of sum 1 over the items.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep.nsh import soft_permutation
    >>> distances, levels = torch.tensor([[2.0, 0.0, 2.0]]), torch.tensor([[0.0, 2.0]])
    >>> soft_permutation(levels, distances, tau=0.1)[0].round(decimals=2)
    tensor([[0.0000, 1.0000, 0.0000],
            [0.5000, 0.0000, 0.5000]])
    >>> soft_permutation(levels, distances, tau=2.0)[0].round(decimals=2)
    tensor([[0.2100, 0.5800, 0.2100],
            [0.4200, 0.1600, 0.4200]])
    """
    return torch.softmax(-(levels[:, :, None] - distances[:, None, :]).abs() / tau, dim=-1)


def sorted_nce(cosines, counts, n_positives, tau=0.2, *, all_in_denominator=False):
    """SortedNCE of rows in sorted order, equal ones given once.

    Parameters
    ----------
    cosines : tensor of shape (n, n_levels)
        Cosine of each sorted row with the anchor.
    counts : tensor of shape (n, n_levels)
        Ranks that it fills, at least `n_positives` + 1 in all.
    n_positives : int
        Number m of leading ranks that are positives.
    tau : float, default=0.2
        Temperature tau_c.
    all_in_denominator : bool, default=False
        Keep all positives in each denominator (multi-label NCE).

    Returns
    -------
    tensor without axes
        The mean over positives and anchors.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep.nsh import sorted_nce
    >>> counts = torch.tensor([[1.0, 3.0]])  # one positive, and three ranks behind it
    >>> [round(sorted_nce(torch.tensor([cosines]), counts, 1).item(), 3) for cosines in ([1.0, 0.0], [0.0, 1.0])]
    [0.02, 6.101]
    """
    positives = torch.minimum((n_positives - counts.cumsum(1) + counts).clamp_min(0), counts)
    others = counts if all_in_denominator else counts - positives
    logits = cosines / tau
    denominators = torch.logsumexp(logits + others.log(), dim=1, keepdim=True) - logits
    losses = denominators if all_in_denominator else softplus(denominators)
    return (positives * losses).sum() / (n_positives * len(cosines))


def quantization_loss(h):
    """L_R: mean distance of activations (n, nbits) from their signs, which are held constant."""
    return torch.linalg.vector_norm(sign(h).detach() - h, dim=1).mean()


def _gathered(levels, distances, items, tau):
    """Unit rows e_i of shape (n, n_levels, n_latent)."""
    # mixed items may cancel, above all codes: the floor bounds the gradient
    return normalize(soft_permutation(levels, distances, tau) @ items, dim=-1, eps=1e-3)


def _cosines(levels, distances, items, anchors, tau):
    return (_gathered(levels, distances, items, tau) @ anchors[:, :, None])[:, :, 0]


def soft_cosines(levels, distances, items, anchors, tau):
    """Cosines of softly sorted items with their anchors, some anchors at a time.

    Parameters
    ----------
    levels, distances, tau
        As in :func:`soft_permutation`.
    items, anchors : tensor of shape (n, n_latent)
        Unit rows.

    Returns
    -------
    tensor of shape (n, n_levels)
        The cosines. No more than 2**23 weights of the soft permutations are formed at a
        time, and again for the gradient.
    """
    step = max(1, MAX_WEIGHTS // (levels.shape[1] * distances.shape[1]))
    if step >= len(levels):
        return _cosines(levels, distances, items, anchors, tau)
    parts = zip(levels.split(step), distances.split(step), anchors.split(step), strict=True)
    formed_again = partial(checkpoint, _cosines, use_reentrant=False, preserve_rng_state=False)
    return torch.cat([formed_again(part[0], part[1], items, part[2], tau) for part in parts])


class NSHObjective(Objective):
    """SortedNCE of two views of a batch, and the distance of activations from their signs.

    Parameters
    ----------
    augment : callable
        Maps a batch to a random version of it.
    width : int
        Number of outputs of the encoder's backbone, which the latent layer takes.
    n_inputs : int
        Number of values of a row of X, for the decoder of variant "decoding".
    n_latent, n_positives, temperature, sort_temperature, quantization_weight, variant
        As in :class:`NSHHasher`.
    """

    def __init__(
        self,
        augment,
        width,
        n_inputs,
        n_latent=128,
        n_positives=2,
        temperature=0.2,
        sort_temperature=1.0,
        quantization_weight=0.1,
        variant="full",
    ):
        super().__init__()
        self.two_views = partial(two_views, augment)  # not a module of ours: what it holds is not trained
        self.n_positives, self.temperature, self.sort_temperature = n_positives, temperature, sort_temperature
        self.quantization_weight = 0.0 if variant == "no_quantization" else quantization_weight
        self.variant = variant
        on_codes = variant in ("single_bottleneck", "no_softsort")
        self.latent = None if on_codes else nn.Linear(width, n_latent)
        if variant == "decoding":
            self.decoder = nn.Sequential(nn.Linear(n_latent, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_inputs))

    def forward(self, encoder, X, targets, indices):
        """Compute the loss of one batch, see :class:`skhash.engine.Objective`."""
        features = encoder.features(torch.cat(self.two_views(X)))
        h = torch.tanh(encoder.head(features))
        if h.isnan().any():
            return h.sum()  # NaN, for the training loop to report; distances that are none cannot be sorted
        codes = sign(h)
        z = codes / math.sqrt(codes.shape[1]) if self.latent is None else normalize(self.latent(features), dim=1)
        loss = self._contrast(codes.chunk(2), z.chunk(2), encoder, X)
        return loss + self.quantization_weight * quantization_loss(h) if self.quantization_weight else loss

    def _contrast(self, codes, latents, encoder, X):
        """What the two views b~, b^ and z~, z^ have to agree on."""
        nbits = codes[0].shape[1]
        if self.variant == "no_softsort":
            similarities = codes[0] @ codes[1].T / (2 * nbits) + 0.5
            return nt_xent(similarities @ codes[0], similarities @ codes[1], self.temperature)
        items, anchors = latents
        distances = (nbits - codes[1] @ codes[0].T) / 2
        n_positives = min(self.n_positives, len(X) - 1)  # one negative at least
        if self.variant == "hard_sort":
            cosines = (anchors @ items.T).gather(1, distances.argsort(dim=1, stable=True))
            return sorted_nce(cosines, torch.ones_like(cosines), n_positives, self.temperature)
        levels, counts = tied_levels(distances, nbits)
        if self.variant == "decoding":
            first = _gathered(levels[:, :1], distances, items, self.sort_temperature)[:, 0]
            return mse_loss(self.decoder(first), ((X - encoder.mean) / encoder.scale).flatten(1))
        cosines = soft_cosines(levels, distances, items, anchors, self.sort_temperature)
        multi_label = self.variant == "multi_label"
        return sorted_nce(cosines, counts, n_positives, self.temperature, all_in_denominator=multi_label)


class NSHHasher(DeepHasher):
    """Learning to hash naturally sorts: unsupervised codes that sort contrasted latents.

    Parameters
    ----------
    nbits : int, default=32
        Length of a code.
    n_latent : int, default=128
        Number d_z of latents, which are used in training only.
    n_positives : int, default=2
        Number m of rows nearest to an anchor, its other view among them, that count as
        its positives; at most one less than the rows of the batch.
    temperature : float, default=0.2
        Temperature tau_c of the contrast.
    sort_temperature : float, default=1.0
        Temperature tau_s of the soft sort, in units of Hamming distance.
    quantization_weight : float, default=0.1
        Weight of the distance of the activations from their signs.
    variant : str, default="full"
        "full", or one of the paper's ablations: "hard_sort" gathers the latents by argsort
        (which leaves the codes to L_R alone),
        "no_quantization" leaves out L_R, "decoding" reconstructs each row from the first
        row sorted for it instead of contrasting, "single_bottleneck" sorts the codes themselves
        instead of latents, "no_softsort" contrasts sums of codes weighted by similarity,
        "multi_label" keeps all positives in each denominator.
    augment : "auto" or callable, default="auto"
        Maps each training batch (a float32 tensor) to a random version of it, drawn twice.
        "auto" for vectors is a little noise and a tenth of the features from other rows, for
        images the augmentation of MoCo v2 (needs kornia); see Notes.
    affinity : "auto" or callable, default="auto"
        Which rows are relevant to which, for :meth:`score` only. See :mod:`skhash.affinity`.
    {shared parameters}

    Attributes
    ----------
    {shared attributes}

    Notes
    -----
    The positives of an anchor are the rows that its code finds nearest. Its own other view
    is found only if the augmentation leaves it nearest for the FIRST codes, those of
    random layers or of the backbone that is handed in: a stronger one teaches the codes to
    tell augmentations apart. The one of MoCo v2 suits a backbone that has been trained on
    photographs; train a new one with small changes. On MNIST a small convolutional network
    comes to an AP_T of 0.7 in 2,000 steps with small distortions (turns by 5 degrees), and
    to 0.2 with strong ones (turns by 25 degrees, bends, holes).

    Targets are for :meth:`score`, and for ``early_stopping``, which chooses an epoch by them.

    Parameters left None take these values: 5,000 steps (between 10 and 300 epochs) of 50
    rows, step size 0.001, weight decay 1e-4. With ``optimizer="sgd"`` the step size is 0.1 for
    a linear hasher and 0.03 with a backbone, chosen on training rows of USPS and MNIST, and the
    weight decay, there an L2 penalty, 5e-4.

    A step of n rows costs O(n^2 L n_latent) beyond the encoder, L <= min(nbits + 1, n)
    being the number of different distances of an anchor. At 32 bits on one thread
    a step of 50 rows takes 6 ms with "mlp", of which the encoder 3; of 200 rows 25 and 11;
    of 800 rows 388 and 38. Weights of the soft permutations are formed 2**23 at a time.

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

    _batch_norm = True  # keeps the bits balanced
    _n_epochs_range = (10, 300)
    _objective_params = ("n_latent", "variant")
    _settings = ("n_steps", "batch_size", "learning_rate", "weight_decay")
    _recipes = {"linear": (5000, 50, 1e-3, 1e-4), "deep": (5000, 50, 1e-3, 1e-4)}
    _sgd_rates = {"linear": 0.1, "deep": 0.03}
    _parameter_constraints = DeepHasher._parameter_constraints | {
        "n_latent": [Interval(Integral, 1, None, closed="left")],
        "n_positives": [Interval(Integral, 1, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "sort_temperature": [Interval(Real, 0, None, closed="neither")],
        "quantization_weight": [Interval(Real, 0, None, closed="left")],
        "variant": [StrOptions(set(VARIANTS))],
        "augment": [StrOptions({"auto"}), callable],
    }

    def __init__(
        self,
        nbits=32,
        *,
        n_latent=128,
        n_positives=2,
        temperature=0.2,
        sort_temperature=1.0,
        quantization_weight=0.1,
        variant="full",
        augment="auto",
        affinity="auto",
        backbone="mlp",
        n_epochs=None,
        batch_size=None,
        learning_rate=None,
        backbone_lr_scale=1.0,
        lr_schedule="cosine",
        optimizer="adam",
        weight_decay=None,
        input_dropout=0.0,
        smoothing=None,
        hidden_dropout=0.0,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        checkpoint=None,
        store_database=True,
        device="auto",
        mixed_precision=False,
        deterministic=False,
        random_state=None,
    ):
        self.nbits = nbits
        self.n_latent = n_latent
        self.n_positives = n_positives
        self.temperature = temperature
        self.sort_temperature = sort_temperature
        self.quantization_weight = quantization_weight
        self.variant = variant
        self.augment = augment
        self.affinity = affinity
        self.backbone = backbone
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.backbone_lr_scale = backbone_lr_scale
        self.lr_schedule = lr_schedule
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.input_dropout = input_dropout
        self.smoothing = smoothing
        self.hidden_dropout = hidden_dropout
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.store_database = store_database
        self.device = device
        self.mixed_precision = mixed_precision
        self.deterministic = deterministic
        self.random_state = random_state

    def _objective(self):
        shape = self.input_shape_
        return NSHObjective(
            view_maker(self.augment, shape),
            self._feature_width(),
            math.prod(shape),
            self.n_latent,
            self.n_positives,
            self.temperature,
            self.sort_temperature,
            self.quantization_weight,
            self.variant,
        )

    def _augmentation(self):
        return None  # two views are drawn by the objective
