"""Bad arguments of public functions: a ValueError or TypeError of this library names what is wrong.

A walk over the public callables gives each argument of a good call, one after the other, the values that no parameter
of its name takes. What is wrong only together with other arguments follows in a table.
"""

import inspect
import re

import numpy as np
import pytest
from _helpers import assert_refused, table_of
from _public import annotations_of, public_callables
from scipy import sparse

from skhash import LSHHasher, affinity, codes, metrics, neighbors
from skhash._validation import resolve_device
from skhash.callbacks import RetrievalMonitor
from skhash.codes.bits import quantize_weights
from skhash.comparison import make_hasher
from skhash.engine.data import DatasetArray

bits = np.array([[0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 0, 0]])
packed, y = np.packbits(bits, axis=1), [0, 1, 0, 1]
X = np.random.default_rng(0).normal(size=(20, 5))
labels = np.arange(20) % 2
# every worker imports this file: the counts are written out, since a call would compile the kernel in each of them
H = metrics.RelevanceHistogram(np.array([[[0, 2], [0, 0], [1, 0], [1, 0]]] * 4), [0, 1])
soft = metrics.RelevanceHistogram(np.array([[[0.5, 0.5], [1.0, 0.0]]]), [0, 1])
fitted = LSHHasher(4, random_state=0).fit(X, labels)
nan, inf = np.nan, np.inf
ragged = [[0, 1], [1]]
two = affinity.DistanceAffinity((50,), (1,))
index = neighbors.HammingNeighbors().fit(bits)


class Same:
    """An affinity without levels."""

    def __call__(self, a, b):
        return "same"


# --- the walk

NO_COUNT = [0, -1, 2.5, True, "3", [3], nan, None]
NO_NAME = ["no such name", 3, ["ap"], None]
NO_BITS = [
    *[None, "01", 3, [0, 1], [[[0]]], [[2]], [[-1, 1]], [[0.5]], [[nan]], [[]]],
    *[ragged, [["a"]], {"a": 1}, [[None]], bits + 1, np.array([[255]], np.uint8)],
]
NO_WEIGHTS = [[1, 2], [1, 2, -1], [0, 0, 0], [1, nan, 1], [1, 2, inf], "a", 3, ragged, [1, "a", 2]]
NO_LEVELS = [
    *["labels", 3, None],
    *[Same(), lambda a, b: -np.ones((len(a), len(b))), lambda a, b: np.full((len(a), len(b)), nan), lambda a, b: [1]],
]
NO_CLASSES = ["a", y[:3], [None, 1, 0, 1], [0, "a", 0, 1], [nan, 1, 0, 1], ["a", "b", "a", "b"], ragged * 2, {"a": 1}]

#: values that no parameter of a name takes, by patterns of "callable.parameter", the first that fits;
#: None is left out where the annotation has it
BAD = {
    r"unpack\.packed": [bits, packed.astype(float), packed[0], None, "a", np.array([[255]], np.uint8)],
    r"(binarize|signs)\.\w+": [None, "01", ragged, {"a": 1}, [["a"]], [[1j]]],
    r"bit_(balance|correlation)\.codes": [*NO_BITS, bits[:0]],
    r"\.\w*codes(_a|_b)?": NO_BITS,
    r"\.bit_weights": NO_WEIGHTS,
    r"compare\.nbits": [*[[number] for number in (0, True, "8", 100_000)], [], 8, None],
    r"make_hasher\.(nbits|seed|affinity)": [],  # `fit` checks them
    r"\.nbits": [*NO_COUNT, 2.0, 9, 100],
    r"\.tune": [-1, True, 2.5, "3", nan],
    r"\.(k|candidates|max_samples|patience|n_\w+)": NO_COUNT,
    r"\.query_activations": [bits[:3], np.ones((4, 4096)), bits * nan, "a", ragged],
    r"Relevance\.between\.(query|database)_y": [targets for targets in NO_CLASSES if targets != y[:3]],
    r"\.query_y": [None, *NO_CLASSES],
    r"\.database_y": NO_CLASSES,
    r"(RetrievalScorer|Relevance\.of|Relevance\.between)\.affinity": ["labels", 3, None, affinity.ClassAffinity],
    r"relevance_histogram\.affinity": [*NO_LEVELS, affinity.ClassAffinity],
    r"\.affinity": NO_LEVELS,
    r"RelevanceHistogram\.counts": [None, "a", 3, [[[1, 2]]], np.ones((1, 2)), np.ones((1, 3, 3))],
    r"RelevanceHistogram\.levels": [None, "ab", [1, 0], [1, 2], [0, 0], [0, 1, 2], ["a", "b"], ragged],
    r"histogram_from_distances.*\.levels": [None, "ab", [1, 0, 1, 0], [[nan] * 4] * 4, [[-1] * 4] * 4, ragged],
    r"\.distances": [None, [[1, 2, 3, nan]], [1, 2, 3, 4], [["a", "b", "c", "d"]]],
    r"\.H": [None, 3, bits, H.counts],
    r"\.radii": [["a"], [nan], [[1]]],
    r"\.radius": ["a", nan, True],
    r"DistanceAffinity\.percentiles": [(5, 10), (), (0,), (101,), ("a",), None, 5, (nan,)],
    r"DistanceAffinity\.levels": [(1, 2), (), (0,), None, 5, (inf,)],
    r"DistanceAffinity\.thresholds": [[nan], [1, 2], "a"],
    r"DistanceAffinity\.fit\.y": [
        *[[1, 2, 3], [[nan], [1.0]], [["a"], ["b"]], X[:1], None, sparse.eye_array(3), ragged]
    ],
    r"\.matrix": [[[1, 0]], [1, 0], [[-1]], [[nan]], None, [["a"]], ragged, sparse.csr_array([[1, 2]])],
    r"PrecomputedAffinity\.__call__\.\w+": [[3], [-1], [0.0], ["a"], [[0, 1]], None],
    r"ClassAffinity\.__call__\.\w+": [[0, None], [0, "a"], [nan], [[0, 1]], None, ragged],
    r"SharedLabelsAffinity\.__call__\.\w+": [[0, 1], [[0, 2]], [[0, 1, 1]], [["a"]], None, ragged, [[nan, 1]]],
    r"Relevance\.of\.y": [None, X, [nan, 1.5], [None, "a"], 3, ragged, np.eye(3)],
    r"split\.X": [None, X[:, 0], X * nan, X[:1], sparse.csr_array(X)],
    r"split\.y": [labels[:3], None, [None] * 20],
    r"split\.scale": [0],
    r"split\.protocol": ["5k", *NO_NAME],
    r"RetrievalScorer\.__call__\.estimator": [3, LSHHasher()],
    r"RetrievalScorer\.__call__\.X": [X[:, :2], None],
    r"RetrievalScorer\.__call__\.y": [labels[:3], None, [None] * 20],
    r"RetrievalScorer\.metric|\.scoring": ["map", [], None, 3, ["ap", 3]],
    r"RetrievalScorer\.database": ["train", (X,), [X, labels], None],
    r"RetrievalScorer\.weighted": ["no"],
    r"\.random_state": ["a"],
    r"load_dataset\.name|compare\.dataset": ["mnits", 3, None],
    r"compare\.methods": [["tarl"], [], None, 3, [3]],
    r"expand_methods\.names": [["tarl"], None, 3, [3], [None]],
    r"make_hasher\.method": ["tarl"],
    r"\.device": ["cuda:99", "gpu", 3, None],
    r"DatasetArray\.dataset": [3, None, [{"a": 1}], ["a"]],
    r"save\.hasher": [LSHHasher(), 3, None, LSHHasher],
    r"\.(metric|ties|empty|discount|gain|normalizer|query|rerank|protocol|method|tune_metric|mode|backend)": NO_NAME,
    r"Metric\.parse\.name": ["map", "ap_at_0", None, 3, ["ap"]],
}

#: records of what the library has checked, and what passes its arguments on to what is walked over
NOT_WALKED = (
    r"(Metric|Ranking|RelevanceHistogram|evaluate_ranking)\."
    r"|Relevance\.affinity|Codes\.(rows|nbits)"
)

two_codes = {"query_codes": bits, "database_codes": bits, "query_y": y, "database_y": y, "affinity": "auto"}
two_codes |= {"bit_weights": [1, 2, 3]}
two_packed = two_codes | {"query_codes": packed, "database_codes": packed, "nbits": 3}
pairs = {"query_codes": bits, "database_codes": bits, "relevance": affinity.Relevance.of(y)}
shared, labelled = affinity.SharedLabelsAffinity(), {"estimator": fitted, "X": X, "y": labels}
small = {"dataset": "digits", "methods": ["lsh"], "nbits": [8], "n_seeds": 1, "n_jobs": 1, "protocol": "holdout"}

#: good calls of public callables, the object of a method first; BAD takes the place of one argument after the other
GOOD = {
    "binarize": {"activations": X},
    "signs": {"bits": bits},
    "pack": {"codes": bits},
    "unpack": {"packed": packed, "nbits": 3},
    "label_matrix": {"affinity": affinity.ClassAffinity(), "y": y},
    "Codes.of": {"codes": packed, "nbits": 3},
    "Codes.first": {"self": codes.Codes.of(bits), "nbits": 2},
    "hamming_distances": {"codes_a": bits, "codes_b": bits, "bit_weights": [1, 2, 3]},
    "hamming_distances of packed": {"codes_a": packed, "codes_b": packed, "nbits": 3},
    "bit_balance": {"codes": bits},
    "bit_balance of packed": {"codes": packed, "nbits": 3},
    "bit_correlation": {"codes": bits},
    "bit_correlation of packed": {"codes": packed, "nbits": 3},
    "quantize_weights": {"bit_weights": [1, 2, 3], "nbits": 3},
    "relevance_histogram": two_codes,
    "relevance_histogram of packed": two_packed,
    "relevance_histogram of tensors": two_codes | {"bit_weights": None, "device": "cpu"},
    "histogram_from_distances": {"distances": [[1, 2, 3, 4]] * 4, "query_y": y, "database_y": y, "affinity": "auto"},
    "histogram_from_distances of levels": {"distances": [[1, 2, 3, 4]] * 4, "levels": [[0, 1, 2, 0.5]] * 4},
    "RelevanceHistogram": {"counts": np.ones((1, 3, 2)), "levels": [0, 1]},
    "average_precision": {"H": H, "k": 2, "normalizer": "min", "ties": "average", "empty": "skip"},
    "ndcg": {"H": H, "k": 2, "discount": "log2", "gain": "linear", "ties": "average", "empty": "skip"},
    "precision": {"H": H, "k": 2, "ties": "average", "empty": "skip"},
    "precision of a radius": {"H": H, "radius": 1.0},
    "recall": {"H": H, "k": 2, "ties": "average", "empty": "skip"},
    "recall of a radius": {"H": H, "radius": 1.0},
    "neighbor_recall": {"H": H, "k": 2, "candidates": 3, "ties": "average", "empty": "skip"},
    "fast_ap": {"H": H, "empty": "skip"},
    "r_precision": {"H": H, "ties": "average", "empty": "skip"},
    "reciprocal_rank": {"H": H, "ties": "average", "empty": "skip"},
    "roc_auc": {"H": H, "ties": "average", "empty": "skip"},
    "precision_recall_curve": {"H": H, "radii": [0, 1], "empty": "skip"},
    "Metric.parse": {"name": "ap", "k": 3},
    "evaluate_histograms": {"histograms": [H], "metrics": ["ap"], "empty": "skip"},
    "RetrievalScorer": {
        "metric": "ap",
        "database": "fit",
        "affinity": "auto",
        "k": 3,
        "empty": "skip",
        "weighted": True,
        "query": "real",
        "candidates": 3,
    },
    "DistanceAffinity": {"percentiles": (5,), "levels": (1,), "max_samples": 5, "thresholds": [1]},
    "DistanceAffinity.fit": {"self": two, "y": X},
    "NeighborAffinity": {"n_neighbors": 3, "metric": "euclidean"},
    "PrecomputedAffinity": {"matrix": np.eye(3)},
    "PrecomputedAffinity.__call__": {"self": affinity.PrecomputedAffinity(np.eye(3)), "y_a": [0], "y_b": [0]},
    "ClassAffinity.__call__": {"self": affinity.ClassAffinity(), "y_a": [0], "y_b": [0]},
    "SharedLabelsAffinity.__call__": {"self": shared, "y_a": [[0, 1]], "y_b": [[0, 1]]},
    "Relevance.of": {"y": y, "affinity": "auto"},
    "Relevance.between": {"query_y": y, "database_y": y, "affinity": "auto"},
    "load_dataset": {"name": "digits", "protocol": "holdout", "random_state": 0},
    "split": {"X": X, "y": labels, "protocol": "holdout", "scale": 1.0, "random_state": 0},
    "expand_methods": {"names": ["lsh"]},
    "make_hasher": {"method": "lsh", "nbits": 8, "seed": 0, "affinity": "auto"},
    "compare": small | {"tune": 2, "tune_metric": "ap"},
    "RetrievalMonitor": {"X": X, "y": labels, "scoring": "ap", "patience": 1},
    "resolve_device": {"device": "cpu"},
    "DatasetArray": {"dataset": [(np.zeros(3), 0)]},
    "save": {"hasher": fitted, "path": "a.safetensors"},
    "HammingNeighbors.kneighbors": {"self": index, "X": bits, "n_neighbors": 2},
    "HammingNeighbors.radius_neighbors": {"self": index, "X": bits, "radius": 1},
    "HammingNeighbors.radius_pairs": {"self": index, "radius": 1},
}
GOOD |= {"RetrievalScorer.__call__": labelled | {"self": metrics.RetrievalScorer("ap")}}


#: and some that rooms share, whose arguments come from users as they are
SHARED = (quantize_weights, resolve_device, DatasetArray, RetrievalMonitor)
PUBLIC = public_callables() | {callable_.__name__: callable_ for callable_ in SHARED}
for cls in (
    affinity.ClassAffinity,
    affinity.SharedLabelsAffinity,
    affinity.PrecomputedAffinity,
    metrics.RetrievalScorer,
):
    PUBLIC[f"{cls.__name__}.__call__"] = cls.__call__


def walk():
    """Each parameter of the good calls, with the values that it does not take."""
    for name, arguments in GOOD.items():
        callable_ = name.partition(" of ")[0]
        function = PUBLIC[callable_]
        for parameter in sorted(arguments.keys() - {"self"}):  # each process of xdist needs the same order
            full = f"{callable_}.{parameter}"
            pattern = next((p for p in BAD if re.fullmatch(rf".+{p}" if p.startswith(r"\.") else p, full)), None)
            may_be_none = "None" in annotations_of(function)[parameter]
            values = [value for value in BAD.get(pattern, []) if not (value is None and may_be_none)]
            yield name, parameter, values


WALK = [pytest.param(*row, id="-".join(row[:2])) for row in walk() if row[2]]

#: what a message says of a parameter that it does not call by its name
ALSO = {
    **dict.fromkeys(("query_y", "database_y", "y_a", "y_b"), "`y`"),
    "y": "`query_y`",
    "nbits": "bits|bit_weights",
    "name": "`metric`",
    "tune_metric": "`metric`",
    "dataset": "`name`|Dataset",
    "random_state": "seed",
    "hasher": "not fitted",
}


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize(("name", "parameter", "values"), WALK)
def test_public_callables_name_a_bad_argument(name, parameter, values):
    function = PUBLIC[name.partition(" of ")[0]]
    for value in values:
        named = GOOD[name] | {parameter: value}
        given = [named.pop("self")] if "self" in named else []
        message = assert_refused(lambda **named: first_of(function(*given, **named)), (named,))  # noqa: B023
        assert re.search(rf"\b{parameter}\b|{ALSO.get(parameter, parameter)}", message), message


def first_of(result):
    """The first item of a generator, or the result itself."""
    return next(result) if inspect.isgenerator(result) else result


def test_every_parameter_of_such_a_name_is_in_the_walk():
    walked = {row.values[0].partition(" of ")[0] + "." + row.values[1] for row in WALK}
    rooms = re.compile("skhash.(codes|metrics|affinity)")
    parameters = {
        f"{name}.{parameter}"
        for name, function in PUBLIC.items()
        if rooms.match(function.__module__)
        for parameter in annotations_of(function)
    }
    general = [f".+{pattern}" for pattern in BAD if pattern.startswith(r"\.")]
    fitting = {name for name in parameters - walked if any(re.fullmatch(pattern, name) for pattern in general)}
    assert {name for name in fitting if not re.match(NOT_WALKED, name)} == set()


# --- arguments that do not go together

two_pairs = (bits, bits, y, y)

#: function, and the bad arguments: positional ones, and a dict of named ones at the end
CASES = {
    codes.hamming_distances: [(bits, bits[:, :2]), (bits, packed), (packed, packed), (bits, None)],
    metrics.relevance_histogram: [
        *[(bits, bits[:, :2], y, y), (bits, bits, None, None), (packed, packed, y, y), (*two_pairs, {"nbits": 100})],
        (bits, bits[:3], y, y[:3], {"exclude_self": True}),
    ],
    metrics.average_precision: [(soft, 1, {"normalizer": "retrieved"})],
    metrics.precision: [(H,), (H, 1, {"radius": 1})],
    metrics.recall: [(H,), (H, 1, {"radius": 1})],
    metrics.Metric.parse: [("precision",), ("ap_min",)],
    metrics.RetrievalScorer: [([],), ("roc_auc", {"k": 3})],
    affinity.DistanceAffinity: [((5, 10), (1, 2)), ((), ())],
    two: [(X, X)],
    affinity.Relevance.of: [
        *[([[0, 1]], affinity.ClassAffinity()), ([[0, 2]], affinity.SharedLabelsAffinity()), (y, two)],
        ([0.5], affinity.PrecomputedAffinity(np.eye(2))),
    ],
    affinity.Relevance.between: [
        *[([[0, 1]], [[0, 1, 1]]), (X, X[:, :2], affinity.NeighborAffinity(2)), (y, y, affinity.DistanceAffinity)],
    ],
    affinity.Relevance.of(X, two).labels: [({},)],
    affinity.Relevance.of(y).labels: [([0],)],
    affinity.Relevance.of(y, Same()).levels: [(None,)],
    affinity.Relevance.of(y, lambda a, b: [1]).levels: [(None,)],
    affinity.Relevance.of([1, 2], lambda a, b: [["a"]]).levels: [(None,)],
    make_hasher: [("itq", 8, 0, "auto", {"learning_rate": 1})],
}


@pytest.mark.parametrize(("function", "arguments"), table_of(CASES))
def test_arguments_that_do_not_go_together_are_named(function, arguments):
    assert_refused(function, arguments)
