"""The registry of methods: one entry per method, and every list of methods is made from it.

A hasher is named by its dotted path, so that reading the registry imports nothing: neither
torch nor any other room of the package. To add a method, add its file and its entry here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Around:
    """A range of values around the default of a parameter, on a logarithmic scale.

    Parameters
    ----------
    factor : float
        The range goes from the default divided by `factor` to the default times `factor`; > 1.
    center : float, default=None
        The default value. None reads it from the fitted hasher.

    Examples
    --------
    >>> from skhash.registry import Around
    >>> Around(10, center=0.3)  # from 0.03 to 3
    Around(factor=10, center=0.3)
    """

    factor: float
    center: float | None = None


@dataclass(frozen=True)
class Method:
    """One method of learning to hash.

    Parameters
    ----------
    name : str
        Name on the command line and in tables.
    path : str
        Dotted path of the hasher class, ``"module.Class"``.
    style : int
        Place in the sequence of colors and markers of all plots. Each place is taken once.
    parameters : dict, default={}
        Parameters that select the method where its class holds more than one.
    variants : dict of str to dict, default={"": {}}
        Suffix of the command-line name to the parameters of that variant.
    search_space : dict, default={}
        Parameter to a list of values, or to :class:`Around`: what tuning draws from.
    needs_labels : bool, default=False
        Whether it learns from the labels themselves, and not from which samples are relevant.

    Examples
    --------
    >>> from skhash.registry import METHODS
    >>> METHODS["itq"].class_name, METHODS["itq"].module
    ('ITQHasher', 'skhash.hashers.shallow.itq')
    """

    name: str
    path: str
    style: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    search_space: Mapping[str, "list[Any] | Around"] = field(default_factory=dict)
    needs_labels: bool = False

    @property
    def module(self) -> str:
        """Dotted path of the module of the class."""
        return self.path.rpartition(".")[0]

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.path.rpartition(".")[2]


_MLP: dict[str, dict[str, Any]] = {"": {}, "-mlp": {"backbone": "mlp"}}
_TALR = _MLP | {"-ndcg": {"objective": "ndcg"}, "-ndcg-mlp": {"objective": "ndcg", "backbone": "mlp"}}
_DEEP = {"learning_rate": Around(5), "weight_decay": Around(10)}
_QUANTIZED = _DEEP | {"quantization_weight": Around(10)}
_KERNEL = {"n_anchors": Around(2), "gamma": Around(3)}
_HASHERS = "skhash.hashers"

#: all methods by name, in the order of lists and tables
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("talr", f"{_HASHERS}.deep.talr.TALRHasher", 0, {}, _TALR, _DEEP | {"alpha": Around(3)}),
        Method(
            "fastap",
            f"{_HASHERS}.deep.talr.TALRHasher",
            15,
            {"objective": "fastap"},
            _MLP,
            _DEEP | {"alpha": Around(3)},
        ),
        Method(
            "hashnet", f"{_HASHERS}.deep.hashnet.HashNetHasher", 2, {}, _MLP, _DEEP | {"class_ratio": ["batch", 1.0]}
        ),
        Method("mihash", f"{_HASHERS}.deep.mihash.MIHashHasher", 10, {}, _MLP, _DEEP | {"alpha": Around(3)}),
        Method("dpsh", f"{_HASHERS}.deep.dpsh.DPSHHasher", 11, {}, _MLP, _QUANTIZED),
        Method("dhn", f"{_HASHERS}.deep.dhn.DHNHasher", 13, {}, _MLP, _QUANTIZED),
        Method("greedyhash", f"{_HASHERS}.deep.greedyhash.GreedyHashHasher", 14, {}, _MLP, _QUANTIZED, True),
        Method("dtsh", f"{_HASHERS}.deep.dtsh.DTSHHasher", 12, {}, _MLP, _QUANTIZED),
        Method(
            "nsh",
            f"{_HASHERS}.deep.nsh.NSHHasher",
            5,
            search_space=_QUANTIZED | {"temperature": Around(3)},
        ),
        Method(
            "cibhash",
            f"{_HASHERS}.deep.cibhash.CIBHashHasher",
            19,
            search_space=_DEEP | {"temperature": Around(3), "kl_weight": Around(10)},
        ),
        Method("tbh", f"{_HASHERS}.deep.tbh.TBHHasher", 20, search_space=_DEEP | {"adversarial_weight": Around(10)}),
        Method(
            "structhash",
            f"{_HASHERS}.structhash.structhash.StructHashHasher",
            4,
            search_space={"C": Around(5), "gamma": Around(3), "ridge": Around(10, center=0.3)},
        ),
        Method(
            "cghash",
            f"{_HASHERS}.structhash.cghash.CGHashHasher",
            22,
            search_space={"C": Around(3), "gamma": Around(3), "ridge": Around(10, center=0.1)},
        ),
        Method(
            "itq-cca",
            f"{_HASHERS}.shallow.itq_cca.ITQCCAHasher",
            8,
            search_space={"ridge": Around(100)},
            needs_labels=True,
        ),
        Method(
            "ksh",
            f"{_HASHERS}.shallow.ksh.KSHHasher",
            6,
            search_space={"n_labeled": [1000, 2000]} | _KERNEL | {"ridge": Around(10)},
        ),
        Method(
            "sdh",
            f"{_HASHERS}.shallow.sdh.SDHHasher",
            7,
            search_space={"nu": Around(100), "lam": Around(10)} | _KERNEL | {"ridge": Around(10)},
            needs_labels=True,
        ),
        Method(
            "bre",
            f"{_HASHERS}.shallow.bre.BREHasher",
            21,
            search_space={"n_relevant": [5, 10], "n_irrelevant": [5, 10]} | _KERNEL,
        ),
        Method(
            "agh",
            f"{_HASHERS}.shallow.agh.AGHHasher",
            16,
            search_space={
                "n_layers": [1, 2],
                "n_anchors": Around(2),
                "n_neighbors": [2, 3, 5],
                "bandwidth": Around(3),
            },
        ),
        Method("itq", f"{_HASHERS}.shallow.itq.ITQHasher", 1),
        Method("pca", f"{_HASHERS}.shallow.pca.PCAHasher", 9),
        Method("spectral", f"{_HASHERS}.shallow.spectral.SpectralHasher", 17),
        Method(
            "spherical",
            f"{_HASHERS}.shallow.spherical.SphericalHasher",
            18,
            search_space={"eps_m": Around(2), "eps_s": Around(2)},
        ),
        Method("lsh", f"{_HASHERS}.shallow.lsh.LSHHasher", 3),
    )
}

#: name of a hasher class to its dotted path, in alphabetical order
HASHERS: dict[str, str] = dict(sorted((method.class_name, method.path) for method in METHODS.values()))
