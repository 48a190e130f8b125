"""Bad arguments of all public functions: a ValueError or TypeError of this library that names what is wrong."""

import numpy as np
import pytest
from _helpers import assert_refused, table_of
from scipy import sparse

from skhash import LSHHasher, affinity, codes, datasets, metrics
from skhash.callbacks import RetrievalMonitor
from skhash.comparison import compare, expand_methods, make_hasher
from skhash.engine import DatasetArray, resolve_device
from skhash.persistence import save

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


class Same:
    """An affinity without levels."""

    def __call__(self, a, b):
        return "same"


def first_histogram(*arguments, **options):
    return next(metrics.iter_histograms(*arguments, **options))


#: function, and the bad arguments: positional ones, and a dict of named ones at the end
CASES = {
    codes.binarize: [(None,), ("01",), (ragged,), ({"a": 1},), ([["a"]],), ([[1j]],)],
    codes.signs: [(None,), ("01",), (ragged,), ([["a"]],)],
    codes.pack: [
        *[(value,) for value in (None, "01", 3, [0, 1], [[[0]]], [[2]], [[-1, 1]], [[0.5]], [[nan]], ragged, [["a"]])],
        ([[]],),
        ({"a": 1},),
        ([[None]],),
    ],
    codes.unpack: [
        *[(packed, nbits) for nbits in (0, -1, 2.0, True, "3", None, 9, 100, [3], nan)],
        (bits, 3),
        (packed.astype(float), 3),
        (packed[0], 3),
        (None, 3),
        ("a", 3),
        (np.array([[255]], np.uint8), 3),
    ],
    codes.as_packed: [(bits, True), (bits, 0), (None,), (bits + 1,), (packed + 31, 3), (packed, 20)],
    codes.hamming_distances: [
        (bits, bits[:, :2]),
        (bits, None),
        (None, bits),
        (bits, packed),
        (packed, packed),
        (packed, packed, {"nbits": True}),
        (packed, packed, {"nbits": 9}),
        *[
            (bits, bits, {"bit_weights": w})
            for w in ([1, 2], [1, 2, -1], [0, 0, 0], [1, nan, 1], [1, 2, inf], "a", 3, ragged)
        ],
        (bits, bits, {"bit_weights": [1, "a", 2]}),
    ],
    codes.bit_balance: [([[2]],), (bits[:0],), (packed, {"nbits": 9}), (packed, {"nbits": False}), (None,)],
    codes.bit_correlation: [([[2]],), (bits[:0],), (None,), ("bits",)],
    codes.quantize_weights: [([1], 2), ([-1, 1], 2), ([nan, 1], 2), (None, 2), (["a", "b"], 2)],
    metrics.relevance_histogram: [
        (bits, bits, y[:3], y),
        (bits, bits, y, y[:3]),
        (bits, bits[:, :2], y, y),
        (bits, bits + 1, y, y),
        (bits, bits, None, None),
        (bits, bits, [None, 1, 0, 1], y),
        (bits, bits, [0, "a", 0, 1], y),
        (bits, bits, [0.5, nan, 0, 1], y),
        (bits, bits, ["a", "b", "a", "b"], y),
        (bits, bits, y, y, {"affinity": "labels"}),
        (bits, bits, y, y, {"affinity": affinity.ClassAffinity}),
        (bits, bits, y, y, {"affinity": 3}),
        (bits, bits, y, y, {"affinity": Same()}),
        (bits, bits, y, y, {"affinity": lambda a, b: -np.ones((len(a), len(b)))}),
        (bits, bits, y, y, {"affinity": lambda a, b: np.full((len(a), len(b)), nan)}),
        (bits, bits, y, y, {"bit_weights": [1, 2]}),
        (bits, bits, y, y, {"nbits": 100}),
        (packed, packed, y, y),
        (bits, bits[:3], y, y[:3], {"exclude_self": True}),
        (None, bits, y, y),
    ],
    first_histogram: [
        *[
            (bits, bits, y, y, {"query_activations": a})
            for a in (bits[:3], np.ones((4, 4096)), bits * nan, "a", ragged)
        ],
        *[(bits, bits, y, y, {"query_activations": bits * 1.0, "candidates": c}) for c in (0, True, 2.0, "a")],
    ],
    metrics.histogram_from_distances: [
        (None, y, y),
        ([[1, 2, 3, 4]], [0], y[:3]),
        ([[1, 2, 3, nan]], [0], y),
        ([1, 2, 3, 4], [0], y),
        ([["a", "b", "c", "d"]], [0], y),
        ([[1, 2, 3, 4]], [0, 1], y),
    ],
    metrics.RelevanceHistogram: [
        *[(counts, [0, 1]) for counts in (None, "a", 3, [[[1, 2]]], np.ones((1, 2)), np.ones((1, 3, 3)))],
        *[
            (np.ones((1, 3, 2)), levels)
            for levels in (None, "ab", [1, 0], [1, 2], [0, 0], [0, 1, 2], ["a", "b"], ragged)
        ],
    ],
    metrics.average_precision: [
        *[(H, k) for k in (0, -1, 2.5, True, "3", [3], nan)],
        (H, {"normalizer": "all"}),
        (H, {"normalizer": None}),
        (H, {"normalizer": ["min"]}),
        (H, {"ties": "first"}),
        (H, {"ties": None}),
        (H, {"empty": "drop"}),
        (H, {"empty": 0}),
        (bits,),
        (None,),
        (soft, 1, {"normalizer": "retrieved"}),
    ],
    metrics.ndcg: [(H, 0), (H, True), (H, {"discount": "ln"}), (H, {"ties": 1}), (None,), (H.counts,)],
    metrics.precision: [
        (H,),
        (H, 0),
        (H, 1, {"radius": 1}),
        (H, {"radius": "a"}),
        (H, {"radius": nan}),
        (H, {"radius": True}),
        (3, 3),
    ],
    metrics.recall: [(H,), (H, 1.0), (H, {"radius": None}), (None, 3)],
    metrics.fast_ap: [(None,), (H, {"empty": "no"})],
    metrics.r_precision: [(None,), (H, {"ties": "no"})],
    metrics.reciprocal_rank: [(None,), (H, {"ties": "no"})],
    metrics.roc_auc: [(None,), (H, {"ties": "no"})],
    metrics.precision_recall_curve: [
        (None,),
        (H, {"radii": ["a"]}),
        (H, {"radii": [nan]}),
        (H, {"radii": [[1]]}),
    ],
    metrics.Metric.parse: [
        ("map",),
        ("ap_at_0",),
        (None,),
        (3,),
        (["ap"],),
        ("precision",),
        ("ap_min",),
        ("ap", 0),
        ("ap", True),
        ("ap", "3"),
    ],
    metrics.RetrievalScorer: [
        ("map",),
        ([],),
        (None,),
        (3,),
        (["ap", 3],),
        ("ap", "train"),
        ("ap", (X,)),
        ("ap", [X, labels]),
        ("ap", None),
        ("ap", {"affinity": "labels"}),
        ("ap", {"affinity": affinity.ClassAffinity}),
        ("ap", {"k": 0}),
        ("ap", {"k": True}),
        ("roc_auc", {"k": 3}),
        ("ap", {"empty": "no"}),
        ("ap", {"weighted": "no"}),
    ],
    metrics.ap_scorer: [
        (fitted, X, labels[:3]),
        (fitted, X),
        (fitted, X[:, :2], labels),
        (fitted, None, labels),
        (3, X, labels),
        (LSHHasher(), X, labels),
        (fitted, X, [None] * 20),
    ],
    affinity.DistanceAffinity: [
        ((5, 10), (1, 2)),
        ((5,), (1, 2)),
        ((), ()),
        ((0,), (1,)),
        ((101,), (1,)),
        ((5,), (0,)),
        (("a",), (1,)),
        (None,),
        (5, 1),
        ((nan,), (1,)),
        ((5,), (inf,)),
        ((5,), (1,), {"max_samples": 1}),
        ((5,), (1,), {"max_samples": True}),
        ((5,), (1,), {"thresholds": [nan]}),
        ((5,), (1,), {"thresholds": [1, 2]}),
        ((5,), (1,), {"thresholds": "a"}),
    ],
    two.fit: [([1, 2, 3],), ([[nan], [1.0]],), ([["a"], ["b"]],), (X[:1],), (None,), (sparse.eye_array(3),), (ragged,)],
    two: [(X, X)],
    affinity.PrecomputedAffinity: [
        ([[1, 0]],),
        ([1, 0],),
        ([[-1]],),
        ([[nan]],),
        (None,),
        ([["a"]],),
        (ragged,),
        (sparse.csr_array([[1, 2]]),),
    ],
    affinity.PrecomputedAffinity(np.eye(3)): [
        ([3], [0]),
        ([-1], [0]),
        ([0.0], [0]),
        (["a"], [0]),
        ([[0, 1]], [0]),
        (None, [0]),
    ],
    affinity.ClassAffinity(): [
        ([0, None], [0]),
        ([0, "a"], [0]),
        ([nan], [0]),
        ([[0, 1]], [0]),
        (["a"], [0]),
        (None, [0]),
        (ragged, [0]),
    ],
    affinity.SharedLabelsAffinity(): [
        ([0, 1], [[0, 1]]),
        ([[0, 2]], [[0, 1]]),
        ([[0, 1]], [[0, 1, 1]]),
        ([["a"]], [["a"]]),
        (None, [[1]]),
        (ragged, ragged),
        ([[nan, 1]], [[0, 1]]),
    ],
    affinity.Relevance.of: [
        (y, "labels"),
        (y, None),
        (y, 3),
        (y, affinity.ClassAffinity),
        *[(targets,) for targets in (None, 3, X, [nan, 1.5], [None, "a"], ragged, np.eye(3))],
        ([[0, 1]], affinity.ClassAffinity()),
        ([None, "a"], affinity.ClassAffinity()),
        ([[0, 2]], affinity.SharedLabelsAffinity()),
        ([0.5], affinity.PrecomputedAffinity(np.eye(2))),
        (y, two),
    ],
    affinity.Relevance.between: [
        (y, y, "labels"),
        (None, y),
        (y, None),
        (y, ["a", "b"]),
        ([[0, 1]], [[0, 1, 1]]),
        (X, X[:, :2], affinity.NeighborAffinity(2)),
        (y, y, affinity.DistanceAffinity),
    ],
    affinity.Relevance.of(X, two).labels: [({},)],
    affinity.Relevance.of(y).labels: [([0],)],
    affinity.Relevance.of(y, Same()).levels: [(None,)],
    affinity.Relevance.of(y, lambda a, b: [1]).levels: [(None,)],
    affinity.Relevance.of([1, 2], lambda a, b: [["a"]]).levels: [(None,)],
    datasets.load_dataset: [
        ("mnits",),
        (3,),
        (None,),
        ("digits", {"protocol": "6k"}),
        ("digits", {"protocol": 3}),
        ("digits", {"random_state": "a"}),
    ],
    datasets.split: [
        (X, labels[:3], {"protocol": "holdout"}),
        (X, labels, {"protocol": "nothing"}),
        (X, labels, {"protocol": "5k"}),
        (None, labels, {"protocol": "holdout"}),
        (X[:, 0], labels, {"protocol": "holdout"}),
        (X * nan, labels, {"protocol": "holdout"}),
        (X, labels, {"protocol": "holdout", "scale": 0}),
        (X, None, {"protocol": "holdout"}),
        (X, [None] * 20, {"protocol": "holdout"}),
        (X[:1], [1], {"protocol": "holdout"}),
        (sparse.csr_array(X), labels, {"protocol": "holdout"}),
    ],
    expand_methods: [(["tarl"],), (None,), (3,), ([3],), ([None],)],
    make_hasher: [
        ("tarl", 8, 0, "auto"),
        ("itq", 8, 0, "auto", {"learning_rate": 1}),
    ],
    compare: [
        ("mnits",),
        ("digits", {"methods": ["tarl"]}),
        ("digits", {"methods": []}),
        ("digits", {"nbits": [0]}),
        ("digits", {"nbits": [True]}),
        ("digits", {"nbits": [100_000]}),
        ("digits", {"nbits": []}),
        ("digits", {"nbits": 8}),
        ("digits", {"nbits": ["8"]}),
        ("digits", {"n_seeds": 0}),
        ("digits", {"n_seeds": True}),
        ("digits", {"protocol": "nothing"}),
        ("digits", {"tune": -1}),
        ("digits", {"tune": True}),
        ("digits", {"tune": 2, "tune_metric": "map"}),
        ("digits", {"n_jobs": 0}),
        (3,),
        (None,),
    ],
    RetrievalMonitor: [
        (X, labels, {"scoring": "map"}),
        (X, labels, {"patience": 0}),
        (X, labels, {"patience": True}),
        (X, labels, {"scoring": None}),
    ],
    resolve_device: [("cuda:99",), ("gpu",), (3,), (None,)],
    DatasetArray: [(3,), (None,), ([{"a": 1}],), (["a"],)],
    save: [
        (LSHHasher(), "a.safetensors"),
        (3, "a.safetensors"),
        (None, "a.safetensors"),
        (LSHHasher, "a.safetensors"),
    ],
}


TABLE = table_of(CASES)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize(("function", "arguments"), TABLE)
def test_bad_arguments_are_named(function, arguments):
    assert_refused(function, arguments)


def test_there_are_many():
    assert len(TABLE) > 250
