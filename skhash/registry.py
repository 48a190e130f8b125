"""The registry of methods: one entry per method, and every list of methods is made from it.

A hasher is named by its dotted path, so reading the registry imports nothing of the package.
To add a method, add its file and its entry here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class LogUniform:
    """A log-uniform range of values around the default of a parameter.

    Parameters
    ----------
    factor : float
        The range goes from the default divided by `factor` to the default times `factor`; > 1.
    center : float, default=None
        The default value. None reads it from the fitted hasher.

    Examples
    --------
    >>> from skhash.registry import LogUniform
    >>> LogUniform(10, center=0.3)  # from 0.03 to 3
    LogUniform(factor=10, center=0.3)
    """

    factor: float
    center: float | None = None


#: parameter to what it may be tuned to
Space = Mapping[str, list[Any] | LogUniform]


@dataclass(frozen=True)
class Method:
    """One method of learning to hash.

    Parameters
    ----------
    name : str
        Name on the command line and in tables.
    path : str
        Dotted path of the hasher class below ``skhash``.
    style : int
        Index of its color and marker in all plots, unique for each method.
    parameters : dict, default={}
        Parameters that select the method if its class implements several.
    variants : dict of str to dict, default={"": {}}
        Suffix of the command-line name to the parameters of that variant.
    search_space : dict, default={}
        Parameter to a list of values, or to :class:`LogUniform`: what tuning draws from.
    learns_from : {"labels", "relevance", "samples"}, default="relevance"
        What ``fit`` learns from: the labels themselves, which samples an affinity calls relevant, or the
        samples alone, without labels.
    paper : str
        First authors, venue and year of the paper.
    use_for : str
        One line: what it is the right choice for.

    Examples
    --------
    >>> from skhash.registry import METHODS
    >>> METHODS["itq"].class_name, METHODS["itq"].module
    ('ITQHasher', 'skhash.hashers.shallow.itq')
    >>> METHODS["itq"].family, METHODS["itq"].learns_from, METHODS["itq"].paper
    ('shallow', 'samples', 'Gong and Lazebnik, CVPR 2011')
    """

    name: str
    path: str
    style: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    search_space: Space = field(default_factory=dict)
    learns_from: str = "relevance"
    paper: str = field(kw_only=True)
    use_for: str = field(kw_only=True)

    @property
    def module(self) -> str:
        """Dotted path of the module of the class."""
        return f"skhash.{self.path.rpartition('.')[0]}"

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.path.rpartition(".")[2]

    @property
    def family(self) -> str:
        """Name of its family: "deep", "shallow", "structhash" or "vectors"."""
        return self.path.removeprefix("hashers.").partition(".")[0]

    @property
    def needs_labels(self) -> bool:
        """Whether it learns from the labels themselves, and not from which samples are relevant."""
        return self.learns_from == "labels"


@dataclass(frozen=True)
class Variant:
    """A method with the parameters of one of its command-line names.

    Parameters
    ----------
    method : Method
        The method.
    parameters : dict, default={}
        All parameters that differ from the defaults of the class.

    Examples
    --------
    >>> from skhash.registry import VARIANTS
    >>> VARIANTS["talr-ndcg-mlp"].parameters
    {'objective': 'ndcg', 'backbone': 'mlp'}
    """

    method: Method
    parameters: Mapping[str, Any] = field(default_factory=dict)


_MLP: dict[str, dict[str, Any]] = {"": {}, "-mlp": {"backbone": "mlp"}}
#: suffix of the variants with a network of convolutions, which learn from images and take minutes; in no group
CONV = "-conv"
#: suffix of the variants with the settings that their papers print; in no group
PAPER = "-paper"
_CONV: dict[str, dict[str, Any]] = {CONV: {"backbone": "conv"}}
_TALR = _MLP | {"-ndcg": {"objective": "ndcg"}, "-ndcg-mlp": {"objective": "ndcg", "backbone": "mlp"}} | _CONV
_DEEP = {"learning_rate": LogUniform(5), "weight_decay": LogUniform(10)}
_QUANTIZED = _DEEP | {"quantization_weight": LogUniform(10)}
_KERNEL = {"n_anchors": LogUniform(2), "gamma": LogUniform(3)}

#: all methods by name, in the order of lists and tables
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "talr",
            "hashers.deep.talr.TALRHasher",
            style=0,
            variants=_TALR
            | {
                PAPER: {
                    "backbone": "mlp",
                    "relaxation": "paper",
                    "optimizer": "sgd",
                    "weight_decay": 0.0,
                    "batch_size": 256,
                    "input_dropout": 0.0,
                    "hidden_dropout": 0.0,
                    "smoothing": 0.0,
                }
            },
            search_space=_DEEP | {"alpha": LogUniform(3)},
            paper="He et al., CVPR 2018",
            use_for="first choice with labels, or with any other affinity",
        ),
        Method(
            "fastap",
            "hashers.deep.talr.TALRHasher",
            style=15,
            parameters={"objective": "fast_ap"},
            variants=_MLP,
            search_space=_DEEP | {"alpha": LogUniform(3)},
            paper="Cakir et al., CVPR 2019",
            use_for="baseline of talr, with another formula of AP",
        ),
        Method(
            "hashnet",
            "hashers.deep.hashnet.HashNetHasher",
            style=2,
            variants=_MLP
            | _CONV
            | {
                PAPER: {
                    "backbone": "mlp",
                    "n_stages": 10,
                    "last_beta": 100.0,
                    "optimizer": "sgd",
                    "weight_decay": 5e-4,
                    "batch_size": 256,
                    "input_dropout": 0.0,
                    "hidden_dropout": 0.0,
                }
            },
            search_space={**_DEEP, "class_ratio": ["batch", 1.0]},
            paper="Cao et al., ICCV 2017",
            use_for="baseline that learns from pairs, with balanced weights",
        ),
        Method(
            "mihash",
            "hashers.deep.mihash.MIHashHasher",
            style=10,
            variants=_MLP,
            search_space=_DEEP | {"alpha": LogUniform(3)},
            paper="Cakir et al., ICCV 2017",
            use_for="like talr, if the end of a ranking matters as much as its top",
        ),
        Method(
            "dpsh",
            "hashers.deep.dpsh.DPSHHasher",
            style=11,
            variants=_MLP,
            search_space=_QUANTIZED,
            paper="Li et al., IJCAI 2016",
            use_for="baseline that learns from pairs, all with the same weight",
        ),
        Method(
            "dhn",
            "hashers.deep.dhn.DHNHasher",
            style=13,
            variants=_MLP,
            search_space=_QUANTIZED,
            paper="Zhu et al., AAAI 2016",
            use_for="baseline that learns from pairs, with another penalty than dpsh",
        ),
        Method(
            "greedyhash",
            "hashers.deep.greedyhash.GreedyHashHasher",
            style=14,
            variants=_MLP,
            search_space=_QUANTIZED,
            learns_from="labels",
            paper="Su et al., NeurIPS 2018",
            use_for="class labels with many classes",
        ),
        Method(
            "orthohash",
            "hashers.deep.orthohash.OrthoHashHasher",
            style=23,
            variants=_MLP,
            search_space=_DEEP | {"scale": LogUniform(2), "margin": LogUniform(2)},
            learns_from="labels",
            paper="Hoe et al., NeurIPS 2021",
            use_for="class labels, if the codes of classes should be far apart",
        ),
        Method(
            "csq",
            "hashers.deep.csq.CSQHasher",
            style=25,
            variants=_MLP,
            search_space=_QUANTIZED,
            learns_from="labels",
            paper="Yuan et al., CVPR 2020",
            use_for="as orthohash, with a cross-entropy of bits",
        ),
        Method(
            "dtsh",
            "hashers.deep.dtsh.DTSHHasher",
            style=12,
            variants=_MLP,
            search_space=_QUANTIZED,
            paper="Wang et al., ACCV 2016",
            use_for="only the order of similarities is known",
        ),
        Method(
            "nsh",
            "hashers.deep.nsh.NSHHasher",
            style=5,
            variants={
                "": {},
                PAPER: {
                    "query_view": "items",
                    "own_view": "sorted",
                    "sort_temperature": "paper",
                    "temperature": 0.1,
                    "n_positives": 2,
                    "quantization_weight": 50**-0.5,
                    "n_latent": 1024,
                    "optimizer": "adam",
                    "learning_rate": 1e-5,
                    "weight_decay": 0.0,
                    "batch_size": 50,
                    "n_epochs": 200,
                },
            },
            search_space=_QUANTIZED | {"temperature": LogUniform(3)},
            learns_from="samples",
            paper="Yu et al., IJCAI 2022",
            use_for="images without labels, with a suitable augmentation",
        ),
        Method(
            "cibhash",
            "hashers.deep.cibhash.CIBHashHasher",
            style=19,
            search_space=_DEEP | {"temperature": LogUniform(3), "kl_weight": LogUniform(10)},
            learns_from="samples",
            paper="Qiu et al., IJCAI 2021",
            use_for="no labels, and time to train: more accurate than itq on vectors",
        ),
        Method(
            "tbh",
            "hashers.deep.tbh.TBHHasher",
            style=20,
            search_space=_DEEP | {"adversarial_weight": LogUniform(10)},
            learns_from="samples",
            paper="Shen et al., CVPR 2020",
            use_for="no labels, and no suitable augmentation",
        ),
        Method(
            "greedyhash-unsupervised",
            "hashers.deep.greedyhash_unsupervised.UnsupervisedGreedyHashHasher",
            style=26,
            variants=_MLP,
            search_space=_QUANTIZED,
            learns_from="samples",
            paper="Su et al., NeurIPS 2018",
            use_for="no labels: codes with the cosines of the samples",
        ),
        Method(
            "bihalf",
            "hashers.deep.bihalf.BiHalfHasher",
            style=27,
            variants=_MLP,
            search_space=_QUANTIZED,
            learns_from="samples",
            paper="Li and van Gemert, AAAI 2021",
            use_for="no labels: as greedyhash-unsupervised, with balanced bits",
        ),
        Method(
            "embedding",
            "vectors.embedding.EmbeddingHasher",
            style=24,
            search_space={"learning_rate": LogUniform(5), "temperature": LogUniform(2)},
            learns_from="samples",
            paper="Neyshabur et al., NIPS 2013",
            use_for="no labels: the nearest neighbors of vectors, found by real queries",
        ),
        Method(
            "structhash",
            "hashers.structhash.structhash.StructHashHasher",
            style=4,
            variants={"": {}, PAPER: {"hash_function": "linear", "ridge": 0.0, "n_starts": 1}},
            search_space={"C": LogUniform(5), "gamma": LogUniform(3), "ridge": LogUniform(10, center=0.3)},
            paper="Lin et al., ECCV 2014",
            use_for="bits with weights that are proven near the optimum; few samples",
        ),
        Method(
            "cghash",
            "hashers.structhash.cghash.CGHashHasher",
            style=22,
            search_space={"C": LogUniform(3), "gamma": LogUniform(3), "ridge": LogUniform(10, center=0.1)},
            paper="Li et al., ICML 2013",
            use_for="weighted bits learned from triplets; few samples",
        ),
        Method(
            "itq-cca",
            "hashers.shallow.itq_cca.ITQCCAHasher",
            style=8,
            search_space={"ridge": LogUniform(100)},
            learns_from="labels",
            paper="Gong and Lazebnik, CVPR 2011",
            use_for="labels, if the training may take a second",
        ),
        Method(
            "ksh",
            "hashers.shallow.ksh.KSHHasher",
            style=6,
            search_space={"max_samples": [1000, 2000], **_KERNEL, "ridge": LogUniform(10)},
            paper="Liu et al., CVPR 2012",
            use_for="any affinity, and samples that no line separates",
        ),
        Method(
            "sdh",
            "hashers.shallow.sdh.SDHHasher",
            style=7,
            search_space={
                "code_weight": LogUniform(100),
                "label_penalty": LogUniform(10),
                **_KERNEL,
                "ridge": LogUniform(10),
            },
            learns_from="labels",
            paper="Shen et al., CVPR 2015",
            use_for="class labels, if the training may take seconds",
        ),
        Method(
            "bre",
            "hashers.shallow.bre.BREHasher",
            style=21,
            search_space={"n_relevant": [5, 10], "n_irrelevant": [5, 10], **_KERNEL},
            paper="Kulis and Darrell, NIPS 2009",
            use_for="baseline of ksh",
        ),
        Method(
            "agh",
            "hashers.shallow.agh.AGHHasher",
            style=16,
            search_space={
                "n_layers": [1, 2],
                "n_anchors": LogUniform(2),
                "n_neighbors": [2, 3, 5],
                "gamma": LogUniform(3),
            },
            learns_from="samples",
            paper="Liu et al., ICML 2011",
            use_for="no labels, and data in clusters",
        ),
        Method(
            "itq",
            "hashers.shallow.itq.ITQHasher",
            style=1,
            learns_from="samples",
            paper="Gong and Lazebnik, CVPR 2011",
            use_for="first choice without labels",
        ),
        Method(
            "pca",
            "hashers.shallow.pca.PCAHasher",
            style=9,
            learns_from="samples",
            paper="Wang et al., CVPR 2010",
            use_for="baseline of itq, without its rotation",
        ),
        Method(
            "spectral",
            "hashers.shallow.spectral.SpectralHasher",
            style=17,
            learns_from="samples",
            paper="Weiss et al., NIPS 2008",
            use_for="baseline without labels",
        ),
        Method(
            "spherical",
            "hashers.shallow.spherical.SphericalHasher",
            style=18,
            search_space={"tol_mean": LogUniform(2), "tol_std": LogUniform(2)},
            learns_from="samples",
            paper="Heo et al., CVPR 2012",
            use_for="no labels, and data in closed regions",
        ),
        Method(
            "lsh",
            "hashers.shallow.lsh.LSHHasher",
            style=3,
            learns_from="samples",
            paper="Charikar, STOC 2002",
            use_for="baseline of every comparison: random projections",
        ),
    )
}

#: methods and their variants by command-line name, in the order of lists and tables
VARIANTS: dict[str, Variant] = {
    name + suffix: Variant(method, {**method.parameters, **parameters})
    for name, method in METHODS.items()
    for suffix, parameters in method.variants.items()
}


def _baseline(
    name: str, class_name: str, place: int, use_for: str, paper: str = "", space: Space | None = None
) -> Method:
    style = len(METHODS) + place  # distinct from those of methods, and in the colors of a picture
    path, space = f"baseline.{class_name}", space or {}
    return Method(name, path, style, search_space=space, learns_from="samples", paper=paper, use_for=use_for)


_AXES = "first features or principal components"
_CHOSEN_AXES: Space = {"axes": ["features", "components"]}
_CHOSEN_BITS: Space = {"bits": [1, 2, 3, 4]}
#: what is deployed without learning to hash, by name; held-out items choose in the search space of each
BASELINES: dict[str, Variant] = {
    method.name: Variant(method, parameters)
    for method, parameters in (
        (_baseline("sign", "SignMap", 12, "whether each feature is positive"), {"center": False}),
        (_baseline("centered-sign", "SignMap", 2, f"whether {_AXES} are above their mean", space=_CHOSEN_AXES), {}),
        (
            _baseline("rotated-sign", "SignMap", 13, "signs behind a random rotation", space=_CHOSEN_AXES),
            {"rotate": True},
        ),
        (_baseline("float32", "Truncation", 3, f"{_AXES}, 4 bytes each", space=_CHOSEN_AXES), {"dtype": "float32"}),
        (_baseline("float16", "Truncation", 4, f"{_AXES}, 2 bytes each", space=_CHOSEN_AXES), {"dtype": "float16"}),
        (_baseline("int8", "Truncation", 5, f"{_AXES}, 1 byte each", space=_CHOSEN_AXES), {"dtype": "uint8"}),
        (
            _baseline(
                "rabitq",
                "FaissCodes",
                1,
                "FAISS's RaBitQ: rotated numbers of 1 to 4 bits, and 8 or 20 bytes of factors",
                "Gao and Long, SIGMOD 2024",
                _CHOSEN_BITS,
            ),
            {"code": "RaBitQ"},
        ),
        (
            _baseline(
                "eden",
                "FaissCodes",
                8,
                "FAISS's EDEN: rotated numbers of 1 to 4 bits, and 8 bytes of factors",
                "Vargaftik et al., ICML 2022",
                _CHOSEN_BITS,
            ),
            {"code": "EDEN"},
        ),
        (
            _baseline(
                "turboquant",
                "FaissCodes",
                9,
                "FAISS's TurboQuant: rotated numbers of 1 to 4 bits",
                "Zandieh et al., arXiv 2025",
                _CHOSEN_BITS,
            ),
            {"code": "SQtqmse"},
        ),
        (
            _baseline(
                "ash",
                "ASH",
                10,
                "numbers of 1 to 4 bits behind learned orthonormal axes, and 5 bytes of factors",
                "arXiv 2606.07870",
                _CHOSEN_BITS,
            ),
            {},
        ),
        (_baseline("pq", "FaissPQ", 7, "FAISS's product quantization, 8 bits per part", "Jegou et al., PAMI 2011"), {}),
        (_baseline("opq", "FaissPQ", 0, "pq behind a learned rotation", "Ge et al., CVPR 2013"), {"rotate": True}),
        (
            _baseline(
                "rq",
                "FaissAdditive",
                11,
                "FAISS's residual quantization, 8 bits per codebook",
                "Chen et al., Sensors 2010",
            ),
            {},
        ),
        (
            _baseline(
                "lsq",
                "FaissAdditive",
                14,
                "FAISS's local search quantization, 8 bits per codebook",
                "Martinez et al., ECCV 2018",
            ),
            {"quantizer": "LocalSearchQuantizer"},
        ),
        (_baseline("faiss-lsh", "FaissLSH", 6, "FAISS's LSH: a random rotation and medians"), {}),
    )
}

#: methods that only a comparison of neighbors has, since Hamming distances do not see what they store
FOR_NEIGHBORS: dict[str, Variant] = {
    "embedding-real": Variant(METHODS["embedding"], {"hamming": False}),
    "embedding-factors": Variant(METHODS["embedding"], {"factors": True}),
} | BASELINES

#: names that stand for several methods, and what these have in common
GROUPS: dict[str, str] = {
    "all": "every method",
    "deep": "a network below the hash layer",
    "shallow": "no network below the hash layer",
    "supervised": "fit needs y",
    "unsupervised": "fit needs no y",
    "baselines": "what is deployed, for --task neighbors",
}

#: task to the methods that are compared by default: for neighbors those that people choose between
COMPARED: dict[str, tuple[str, ...]] = {
    "relevance": ("talr", "itq", "lsh"),
    "neighbors": ("embedding", "itq", "pq", "opq", "rabitq"),
}

#: name of a hasher class to its dotted path, in alphabetical order
HASHERS: dict[str, str] = dict(
    sorted((method.class_name, f"{method.module}.{method.class_name}") for method in METHODS.values())
)

#: classes of hashers that a file may hold
SAVED: dict[str, str] = HASHERS | {"QueryAdapter": "skhash.vectors.adapter.QueryAdapter"}

#: kinds of functions that a file may hold
FUNCTIONS: dict[str, str] = {
    "LinearFunction": "skhash.functions.linear.LinearFunction",
    "DenseFunction": "skhash.functions.linear.DenseFunction",
    "NetworkFunction": "skhash.functions.network.NetworkFunction",
    "QueryFunction": "skhash.vectors.codes.QueryFunction",
    "ReconstructionFunction": "skhash.vectors.codes.ReconstructionFunction",
    "KernelFunction": "skhash.functions.kernel.KernelFunction",
    "SpectralFunction": "skhash.hashers.shallow.spectral.SpectralFunction",
    "SphericalFunction": "skhash.hashers.shallow.spherical.SphericalFunction",
    "AnchorGraphFunction": "skhash.hashers.shallow.agh.AnchorGraphFunction",
    "AdapterFunction": "skhash.vectors.adapter.AdapterFunction",
    "StumpFunction": "skhash.hashers.structhash._columns.StumpFunction",
}
#: other classes whose objects a file may hold: indexes, affinities, and the first step of a Pipeline
INDEXES: dict[str, str] = {
    name: f"skhash.neighbors.hamming_neighbors.{name}" for name in ("HammingNeighbors", "HammingNeighborsTransformer")
}
AFFINITIES: dict[str, str] = {
    f"{name}Affinity": f"skhash.affinity.{name}Affinity"
    for name in ("Class", "SharedLabels", "Distance", "Neighbor", "Precomputed")
}
FIRST_STEPS: dict[str, str] = {
    "scaler": "sklearn.preprocessing._data.StandardScaler",
    "features": "skhash.features.PretrainedFeatures",
}


#: group of the entry points by which other packages name their methods: a name, and the class as ``module:Class``
ENTRY_POINTS = "skhash.methods"


def import_class(path: str) -> Any:
    """Class with a dotted path of the registry, whose module is imported."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def installed_methods() -> dict[str, Any]:
    """Entry points of the methods of other packages by name. None of them is loaded."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def load_method(name: str) -> Any:
    """Class that ``module:Class`` or the entry point of another package names; ValueError if it cannot be imported."""
    from importlib.metadata import EntryPoint

    entry = EntryPoint(name, name, ENTRY_POINTS) if ":" in name else installed_methods()[name]
    if not entry.pattern.match(entry.value):
        raise ValueError(f"A method of your own must be written module:Class. Got {entry.value!r} instead.")
    try:
        kind = entry.load()
    except (ImportError, AttributeError) as error:
        reason = f"{entry.value!r} cannot be imported: {error}"
        raise ValueError(f"A method of your own must be a class in an importable module. {reason}.") from error
    if not isinstance(kind, type):
        raise ValueError(f"A method of your own must be a class. Got {entry.value!r}, a {type(kind).__name__}.")
    return kind
