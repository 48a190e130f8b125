"""The methods that can be compared, and what each of them may be tuned by."""

from dataclasses import dataclass

from skhash import hashers
from skhash.affinity import label_matrix

#: method name -> hasher class and the parameters that set it apart
METHODS: dict = {
    "talr": ("TALRHasher", {}),
    "talr-mlp": ("TALRHasher", {"backbone": "mlp"}),
    "talr-ndcg": ("TALRHasher", {"objective": "ndcg"}),
    "talr-ndcg-mlp": ("TALRHasher", {"objective": "ndcg", "backbone": "mlp"}),
    "fastap": ("TALRHasher", {"objective": "fastap"}),
    "fastap-mlp": ("TALRHasher", {"objective": "fastap", "backbone": "mlp"}),
    "hashnet": ("HashNetHasher", {}),
    "hashnet-mlp": ("HashNetHasher", {"backbone": "mlp"}),
    "mihash": ("MIHashHasher", {}),
    "mihash-mlp": ("MIHashHasher", {"backbone": "mlp"}),
    "dpsh": ("DPSHHasher", {}),
    "dpsh-mlp": ("DPSHHasher", {"backbone": "mlp"}),
    "dhn": ("DHNHasher", {}),
    "dhn-mlp": ("DHNHasher", {"backbone": "mlp"}),
    "greedyhash": ("GreedyHashHasher", {}),
    "greedyhash-mlp": ("GreedyHashHasher", {"backbone": "mlp"}),
    "dtsh": ("DTSHHasher", {}),
    "dtsh-mlp": ("DTSHHasher", {"backbone": "mlp"}),
    "nsh": ("NSHHasher", {}),
    "cibhash": ("CIBHashHasher", {}),
    "tbh": ("TBHHasher", {}),
    "structhash": ("StructHashHasher", {}),
    "cghash": ("CGHashHasher", {}),
    "itq-cca": ("ITQCCAHasher", {}),
    "ksh": ("KSHHasher", {}),
    "sdh": ("SDHHasher", {}),
    "bre": ("BREHasher", {}),
    "agh": ("AGHHasher", {}),
    "itq": ("ITQHasher", {}),
    "pca": ("PCAHasher", {}),
    "spectral": ("SpectralHasher", {}),
    "spherical": ("SphericalHasher", {}),
    "lsh": ("LSHHasher", {}),
}
#: names that stand for several methods, and which: a question to the hasher
GROUPS: dict = {
    "all": lambda hasher: True,
    "deep": lambda hasher: getattr(hasher, "backbone", None) is not None,
    "shallow": lambda hasher: getattr(hasher, "backbone", None) is None,
    "supervised": lambda hasher: hasher.__sklearn_tags__().target_tags.required,
    "unsupervised": lambda hasher: not hasher.__sklearn_tags__().target_tags.required,
}
#: hashers that learn from labels themselves and not from which rows are relevant
NEED_LABELS = {"GreedyHashHasher", "ITQCCAHasher", "SDHHasher"}


@dataclass(frozen=True)
class Times:
    """Candidates on a logarithmic scale around what a method takes by default.

    Parameters
    ----------
    spread : float
        They lie between the default divided and multiplied by it; > 1.
    centre : float, default=None
        The default, where a fitted hasher does not tell it.

    Examples
    --------
    >>> from skhash.comparison.methods import Times
    >>> Times(10, centre=0.3)  # from 0.03 to 3
    Times(spread=10, centre=0.3)
    """

    spread: float
    centre: float | None = None


_STEP = {"learning_rate": Times(5), "weight_decay": Times(10)}
#: hasher class -> parameter -> a list of candidates, or `Times`; a class that is not here has nothing to tune
SPACES: dict = {
    "TALRHasher": _STEP | {"alpha": Times(3)},
    "HashNetHasher": _STEP | {"class_ratio": ["batch", 1.0]},
    "MIHashHasher": _STEP | {"alpha": Times(3)},
    "DPSHHasher": _STEP | {"quantization_weight": Times(10)},
    "DHNHasher": _STEP | {"quantization_weight": Times(10)},
    "GreedyHashHasher": _STEP | {"quantization_weight": Times(10)},
    "DTSHHasher": _STEP | {"quantization_weight": Times(10)},
    "NSHHasher": _STEP | {"temperature": Times(3), "quantization_weight": Times(10)},
    "CIBHashHasher": _STEP | {"temperature": Times(3), "kl_weight": Times(10)},
    "TBHHasher": _STEP | {"adversarial_weight": Times(10)},
    "StructHashHasher": {"C": Times(5), "gamma": Times(3), "ridge": Times(10, centre=0.3)},
    "CGHashHasher": {"C": Times(3), "gamma": Times(3), "ridge": Times(10, centre=0.1)},
    "ITQCCAHasher": {"ridge": Times(100)},
    "KSHHasher": {"n_labelled": [1000, 2000], "n_anchors": Times(2), "gamma": Times(3), "ridge": Times(10)},
    "SDHHasher": {"nu": Times(100), "lam": Times(10), "n_anchors": Times(2), "gamma": Times(3), "ridge": Times(10)},
    "BREHasher": {"n_relevant": [5, 10], "n_irrelevant": [5, 10], "n_anchors": Times(2), "gamma": Times(3)},
    "AGHHasher": {"n_layers": [1, 2], "n_anchors": Times(2), "n_neighbors": [2, 3, 5], "bandwidth": Times(3)},
    "SphericalHasher": {"eps_m": Times(2), "eps_s": Times(2)},
}


def expand_methods(names):
    """Replace groups by their methods, each method once.

    Parameters
    ----------
    names : sequence of str
        Keys of `METHODS` and of `GROUPS`.

    Returns
    -------
    list of str
        Keys of `METHODS`.

    Raises
    ------
    ValueError
        If a name is neither.

    Examples
    --------
    >>> from skhash.comparison.methods import METHODS, expand_methods
    >>> expand_methods(["lsh", "all"])[:2], len(expand_methods(["all"])) == len(METHODS)
    (['lsh', 'talr'], True)
    """
    found: list = []
    for name in names:
        if name in METHODS:
            found.append(name)
        elif name in GROUPS:
            found += [method for method in METHODS if name == "all" or GROUPS[name](make_hasher(method, 8, 0, "auto"))]
        else:
            known = f"{', '.join(METHODS)}, and the groups {', '.join(GROUPS)}"
            raise ValueError(f"method {name!r} is unknown; known ones are {known}.")
    return list(dict.fromkeys(found))


def make_hasher(method, nbits, seed, affinity, **parameters):
    """Build the hasher of a method name.

    Parameters
    ----------
    method : str
        A key of `METHODS`.
    nbits : int
        Code length.
    seed : int
        Its `random_state`.
    affinity : "auto" or callable
        Its affinity.
    **parameters
        Further parameters of the hasher.

    Returns
    -------
    BaseHasher
        Not fitted.

    Examples
    --------
    >>> from skhash.comparison import make_hasher
    >>> make_hasher("itq", 16, 0, "auto")
    ITQHasher(nbits=16, random_state=0, store_database=False)
    """
    name, own = METHODS[method]
    hasher = getattr(hashers, name)(nbits, affinity=affinity, **({"store_database": False} | own | parameters))
    return hasher.set_params(random_state=seed) if hasattr(hasher, "random_state") else hasher


def why_not(method, data):
    """Say why a method cannot learn from a data set.

    Parameters
    ----------
    method : str
        A key of `METHODS`.
    data : Bunch
        As :func:`skhash.datasets.load_dataset` returns it.

    Returns
    -------
    str or None
        The reason; None if it can.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.comparison.methods import why_not
    >>> from skhash.datasets import split
    >>> data = split(load_digits().data, protocol="labelme")
    >>> why_not("sdh", data)
    'it learns from labels, and relevance is given by a DistanceAffinity'
    >>> why_not("ksh", data) is None
    True
    """
    if METHODS[method][0] in NEED_LABELS:
        try:
            label_matrix(data.affinity, data.y_train[:1])
        except ValueError:
            return f"it learns from labels, and relevance is given by a {type(data.affinity).__name__}"
    return None
