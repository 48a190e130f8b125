"""Targets of every kind, at every place that takes them: equal labels give equal results, missing ones are refused."""

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib import pyplot
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import skhash.dask
from skhash import GreedyHashHasher, ITQHasher, KSHHasher, SDHHasher, TALRHasher, TBHHasher
from skhash.affinity import (
    ClassAffinity,
    DistanceAffinity,
    NeighborAffinity,
    PrecomputedAffinity,
    Relevance,
    SharedLabelsAffinity,
)
from skhash.callbacks import RetrievalMonitor
from skhash.comparison import evaluate_hasher
from skhash.datasets import split
from skhash.displays import CodeMapDisplay, PrecisionRecallDisplay, RetrievedImagesDisplay
from skhash.metrics import RetrievalScorer, average_precision, histogram_from_distances, ndcg, relevance_histogram
from skhash.neighbors import HammingNeighbors, choose_code

rng = np.random.default_rng(0)
N = 48
X, CLASSES, LABELS = rng.normal(size=(N, 8)), np.arange(N) % 3, (rng.random((N, 5)) < 0.5).astype(int)
LABELS[:, :2] = np.eye(2)[np.arange(N) % 2]  # so that each sample has a relevant one
TEXT = np.array(["cat", "dog", "Löwe"])[CLASSES]
BITS, DISTANCES = (X > 0).astype(np.uint8), rng.random((N, N))
FITTED = ITQHasher(8, random_state=0).fit(X)
FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")


def in_libraries(library, make):
    """What `make` returns, by name; nothing where the library is missing."""
    try:
        return make(__import__(library))
    except ImportError:
        return {}


def repeated(y):
    """Sparse matrices of labels in which each label is there twice."""
    rows, columns = (np.repeat(indices, 2) for indices in np.nonzero(y))
    ones, starts = np.ones(len(rows), int), np.append(0, np.cumsum(2 * y.sum(axis=1)))
    csr = sparse.csr_array((ones, columns, starts), shape=y.shape)
    order, ends = np.argsort(columns, kind="stable"), np.append(0, np.cumsum(2 * y.sum(axis=0)))
    return {
        "csr": csr,
        "coo": sparse.coo_array((ones, (rows, columns)), shape=y.shape),
        "csc": sparse.csc_array((ones, rows[order], ends), shape=y.shape),
        "bsr": sparse.bsr_array((ones[:, None, None], columns, starts), shape=y.shape),
        "bool": csr.astype(bool),
    }


explicit_zeros = sparse.csr_array(np.ones_like(LABELS))
explicit_zeros.data = LABELS.ravel().copy()
MATRICES = {
    "bool": LABELS.astype(bool),
    "float32": LABELS.astype(np.float32),
    "objects": LABELS.astype(object),
    "lists": LABELS.astype(bool).tolist(),
    "tensor": torch.tensor(LABELS).bool(),
    "list of tensors": list(torch.tensor(LABELS)),
    "series of lists": pd.Series(LABELS.tolist()),
    "bool and int": pd.DataFrame({i: LABELS[:, i].astype(bool if i % 2 else int) for i in range(5)}),
    **{name: pd.DataFrame(LABELS).astype(name) for name in ("Int64", "boolean", "Float32", "object", "category")},
    **{f"{name}_array": getattr(sparse, f"{name}_array")(LABELS) for name in FORMATS},
    **{f"{name}_matrix": getattr(sparse, f"{name}_matrix")(LABELS.astype(bool)) for name in ("csr", "dok")},
    "explicit zeros": explicit_zeros,
    **{f"repeated in {name}": y for name, y in repeated(LABELS).items()},
    **in_libraries(
        "pyarrow",
        lambda arrow: {
            "int64[pyarrow]": pd.DataFrame(LABELS).astype("int64[pyarrow]"),
            "bool[pyarrow]": pd.DataFrame(LABELS).astype("bool[pyarrow]"),
            "table": arrow.table({str(i): LABELS[:, i] for i in range(5)}),
        },
    ),
    **in_libraries(
        "polars", lambda polars: {"polars": polars.DataFrame({str(i): LABELS[:, i].astype(bool) for i in range(5)})}
    ),
}
NUMBERS = {
    **{name: CLASSES.astype(name) for name in ("int8", "uint64", "float32")},
    "column": CLASSES[:, None],
    "objects": CLASSES.astype(object),
    "tensors": list(torch.tensor(CLASSES)),
    **{name: pd.Series(CLASSES).astype(name) for name in ("Int8", "category")},
    "frame": pd.DataFrame(CLASSES).astype("UInt8"),
    **{f"sparse column, {name}": getattr(sparse, f"{name}_array")(CLASSES[:, None]) for name in FORMATS},
    **in_libraries("polars", lambda polars: {"polars": polars.Series(CLASSES)}),
}
TEXTS = {
    "U": TEXT,
    "longer U": TEXT.astype("U40"),
    "S": np.char.encode(TEXT, "utf-8"),
    "StringDType": TEXT.astype(np.dtypes.StringDType()),
    "objects": TEXT.astype(object),
    "list": TEXT.tolist(),
    "bytes": [text.encode() for text in TEXT.tolist()],
    "column": TEXT[:, None],
    **{name: pd.Series(TEXT).astype(name) for name in ("str", "string[python]", "category")},
    "frame": pd.DataFrame({"y": TEXT}, dtype="string"),
    "Categorical": pd.Categorical(TEXT),
    **in_libraries(
        "pyarrow",
        lambda arrow: {
            "string[pyarrow]": pd.Series(TEXT).astype("string[pyarrow]"),
            "ArrowDtype": pd.Series(TEXT).astype(pd.ArrowDtype(arrow.string())),
            "dictionary": arrow.array(TEXT.tolist()).dictionary_encode(),
        },
    ),
    **in_libraries(
        "polars",
        lambda polars: {
            "polars": polars.Series(TEXT.tolist()),
            "polars Categorical": polars.Series(TEXT.tolist(), dtype=polars.Categorical),
        },
    ),
}


def score(hasher):
    return lambda y: hasher.fit(X, y).score(X, y)


def monitored(y):
    monitor = RetrievalMonitor(X, y)
    TALRHasher(4, n_epochs=1, random_state=0).set_callbacks(monitor).fit(X, y)
    return monitor.log_[0]["score"]


def searched(y):
    search = GridSearchCV(ITQHasher(random_state=0), {"nbits": [8]}, cv=KFold(2), error_score="raise")
    return search.fit(X, y).best_score_


def in_shards(query_y, database_y):
    array = pytest.importorskip("dask.array")
    blocks = array.from_array(BITS, chunks=(16, 8)), array.from_array(database_y, chunks=(16, -1)[: database_y.ndim])
    return average_precision(skhash.dask.relevance_histogram(BITS, blocks[0], query_y, blocks[1]).compute())


def chosen(y):
    hasher, options = SDHHasher(random_state=0), {"nbits": 8, "k": 5, "target_recall": 0.01, "random_state": 0}
    return choose_code(hasher, X, y=y, n_queries=20, **options).recall


def curve(y):
    display = PrecisionRecallDisplay.from_estimator(ITQHasher(8, random_state=0).fit(X, y), X, y)
    pyplot.close(display.figure_)
    return np.sum(display.precision)


def images(y, query_y):
    display = RetrievedImagesDisplay.from_estimator(FITTED, X[:2], query_y[:2], X, y, n_neighbors=4, image_shape=(2, 4))
    pyplot.close(display.figure_)
    return display.relevant.tolist()


#: places that take targets of all samples, and return a number
PLACES = {
    "score": score(ITQHasher(8, random_state=0)),
    "labels": score(SDHHasher(8, random_state=0)),
    "pairs": score(KSHHasher(4, n_anchors=20, random_state=0)),
    "deep": score(TALRHasher(4, n_epochs=1, early_stopping=True, random_state=0)),
    "partial_fit": lambda y: GreedyHashHasher(4, random_state=0).partial_fit(X, y).partial_fit(X, y).score(X, y),
    "monitor": monitored,
    "fold": lambda y: RetrievalScorer(database="fold")(FITTED, X, y),
    "database": lambda y: RetrievalScorer("ndcg", database=(X, y))(FITTED, X, y),
    "relevance_histogram": lambda y: ndcg(relevance_histogram(BITS, BITS, y)),
    "histogram_from_distances": lambda y: ndcg(histogram_from_distances(DISTANCES, y)),
    "search": searched,
    "split": lambda y: evaluate_hasher(ITQHasher(8, random_state=0), split(X, y))["ndcg"],
    "choose_code": chosen,
    "curve": curve,
}


def kinds_at(place, kinds):
    """All kinds where nothing is fitted, else every third one, at each place from another first one on."""
    is_quick = place in ("fold", "database", "relevance_histogram", "histogram_from_distances")
    return kinds if is_quick else dict(list(kinds.items())[list(PLACES).index(place) % 3 :: 3])


@pytest.mark.parametrize("place", PLACES)
def test_label_matrices_of_every_kind_give_the_same_result(place):
    call = PLACES[place]
    expected = call(LABELS)
    kinds = dict(kinds_at(place, MATRICES))
    if place == "search":  # scikit-learn adds repeated entries up, as it makes a CSR matrix of them
        kinds.pop("repeated in coo", None)
    assert {name: call(y) for name, y in kinds.items()} == pytest.approx(dict.fromkeys(kinds, expected))


@pytest.mark.parametrize("kinds", [NUMBERS, TEXTS], ids=["numbers", "text"])
@pytest.mark.parametrize("place", PLACES)
def test_classes_of_every_kind_give_the_same_result(place, kinds):
    call = PLACES[place]
    expected, kinds = call(next(iter(kinds.values()))), kinds_at(place, kinds)
    assert {name: call(y) for name, y in kinds.items()} == pytest.approx(dict.fromkeys(kinds, expected))


@pytest.mark.parametrize("name", ["Int64", "boolean", "object", "bool and int", "lists"])
def test_label_matrices_survive_cross_validation(name):
    hasher = ITQHasher(8, random_state=0)
    expected, found = (cross_val_score(hasher, X, y, cv=KFold(2)) for y in (LABELS, MATRICES[name]))
    assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("kinds", "plain"), [(MATRICES, LABELS), (NUMBERS, CLASSES), (TEXTS, TEXT)], ids=["matrices", "numbers", "text"]
)
def test_images_of_every_kind_of_targets_are_relevant_alike(kinds, plain):
    expected = images(plain, plain)
    assert {name: images(y, plain) for name, y in kinds.items()} == dict.fromkeys(kinds, expected)


@pytest.mark.parametrize("kinds", [NUMBERS, TEXTS], ids=["numbers", "text"])
def test_classes_of_every_kind_compare_with_each_other(kinds):
    expected = CLASSES[:, None] == CLASSES
    for fitted_y in kinds.values():
        hasher = ITQHasher(8, random_state=0).fit(X, fitted_y)
        stream = GreedyHashHasher(4, random_state=0).partial_fit(X, fitted_y)
        for y in kinds.values():
            assert_array_equal(ClassAffinity()(fitted_y, y), expected)
            assert hasher.score(X, y) == hasher.score(X, fitted_y)
        stream.partial_fit(X, y)


@pytest.mark.parametrize("y", [*MATRICES.values()], ids=MATRICES)
def test_queries_of_every_kind_rank_shards(y):
    assert in_shards(y, LABELS) == in_shards(LABELS, LABELS)


@pytest.mark.parametrize(
    ("y", "plain"),
    [
        *[(MATRICES[name], LABELS) for name in ("Int64", "boolean", "bool and int")],
        *[(TEXTS[name], TEXT) for name in ("str", "string[python]", "category", "frame")],
    ],
)
def test_shards_of_every_kind_are_ranked(y, plain):
    frames = pytest.importorskip("dask.dataframe")
    database = pytest.importorskip("dask.array").from_array(X, chunks=(24, 8)), frames.from_pandas(y, npartitions=2)
    assert RetrievalScorer(database=database)(FITTED, X, y) == RetrievalScorer(database=(X, plain))(FITTED, X, plain)


def test_text_is_no_number():
    for y in (CLASSES.astype(str), CLASSES.astype(bytes), pd.Series(CLASSES).astype(str)):
        with pytest.raises(ValueError, match="Got numbers and text"):
            relevance_histogram(BITS, BITS, CLASSES, y)


def test_bytes_that_are_no_text_are_classes_too():
    names = np.array([b"caf\xe9", b"caf\xe8", b"cafe"])
    assert_array_equal(ClassAffinity()(names, names), np.eye(3))


def test_a_sparse_column_holds_classes():
    y = sparse.csr_array(CLASSES[:, None])
    assert Relevance.of(y).affinity == ClassAffinity()
    assert_array_equal(ITQHasher(4).fit(X, y).database_.y, CLASSES[:, None])


# --- repeated entries


@pytest.mark.parametrize("y", repeated(LABELS).values(), ids=repeated(LABELS))
def test_a_repeated_label_counts_once(y):
    affinity = SharedLabelsAffinity()
    before = y.nnz, y.data.copy()
    assert_array_equal(affinity(y, y), LABELS @ LABELS.T)
    assert_array_equal(affinity.possible_levels(y, y), np.arange(LABELS.sum(axis=1).max() + 1))
    assert_array_equal(Relevance.of(y, affinity).labels(), LABELS)
    for place in ("score", "labels", "deep", "relevance_histogram"):
        PLACES[place](y)
    assert y.nnz == before[0]  # the caller's matrix is not changed
    assert_array_equal(y.data, before[1])


def test_precomputed_levels_that_are_built_by_pieces_add_up():
    levels = rng.integers(0, 3, (N, N))
    rows, columns = (np.repeat(indices, 2) for indices in np.nonzero(levels))
    halves, starts = levels[rows, columns] / 2, np.append(0, np.cumsum(2 * (levels > 0).sum(axis=1)))
    csr, i = sparse.csr_array((halves, columns, starts), shape=(N, N)), np.arange(N)
    bsr = sparse.bsr_array((halves[:, None, None], columns, starts), shape=(N, N))
    csc = sparse.csc_array((halves, columns, starts), shape=(N, N)).T.tocsr().T
    frame = pd.DataFrame(levels).astype("Int64")
    for matrix in (csr, csr[:, ::-1][:, ::-1], csc.T, bsr, csr.tocoo(), sparse.lil_array(levels), frame):
        affinity = PrecomputedAffinity(matrix)
        assert_array_equal(affinity(i, pd.Series(i, dtype="Int64")), levels)
        assert_array_equal(affinity.possible_levels(i, i), [0, 1, 2])
        H = relevance_histogram(BITS, BITS, i, affinity=affinity)
        assert ndcg(H) == ndcg(relevance_histogram(BITS, BITS, i, affinity=PrecomputedAffinity(levels)))
    assert_array_equal(csr.data, halves)


# --- vectors, and functions of the user


def test_vectors_of_every_kind_are_compared():
    fitted = DistanceAffinity((20, 5), (1, 2)).fit(X)
    frame = pd.DataFrame(X)
    for y in (X.tolist(), X.astype(object), torch.tensor(X), frame.astype("Float64"), pd.Series(list(X))):
        assert_array_equal(DistanceAffinity((20, 5), (1, 2)).fit(y)(X, y), fitted(X, X))
        assert_array_equal(NeighborAffinity(3)(y, y), NeighborAffinity(3)(X, X))


def test_a_function_gets_what_it_may_know_as_missing():
    def same(a, b):
        return (a[:, None] == b) | (np.isnan(a)[:, None] & np.isnan(b))

    y = np.where(CLASSES == 1, np.nan, CLASSES)
    assert KSHHasher(4, affinity=same, random_state=0).fit(X, pd.Series(y)).score(X, y) > 0


def test_a_function_gets_lists_of_labels():
    tags = [["cat", "sea"], ["cat"], ["dog", "sea", "sky"]] * (N // 3)

    def shared(a, b):
        return np.array([[len(set(x) & set(y)) for y in b] for x in a])

    assert ITQHasher(4, affinity=shared).fit(X, tags).score(X, tags) > 0


# --- missing values


def with_gap(y, gap=None):
    """Objects of which the fifth is missing."""
    objects = np.asarray(y).astype(object)
    objects[4] = gap
    return objects


def as_dates(unit):
    dates = np.datetime64("2024-01-01", unit) + CLASSES.astype("m8[D]")
    dates[4] = np.datetime64("NaT")
    return dates


is_gap = np.arange(N) == 4
holes = np.where(is_gap[:, None], np.nan, LABELS)
MISSING = {
    "NaN": np.where(is_gap, np.nan, CLASSES),
    "None": with_gap(CLASSES),
    "None in text": with_gap(TEXT).tolist(),
    "NaN in text": with_gap(TEXT, np.nan).tolist(),
    "NA": pd.Series(with_gap(CLASSES)).astype("Int64"),
    "NA of an array": pd.array(with_gap(CLASSES), dtype="Int64"),
    "category": pd.Series(with_gap(TEXT), dtype="category"),
    "str": pd.Series(with_gap(TEXT), dtype="str"),
    "StringDType": with_gap(TEXT).astype(np.dtypes.StringDType(na_object=None)),
    "NaT": as_dates("D"),
    "NaT of pandas": pd.Series(as_dates("s")),
    "NaT with a time zone": pd.Series(as_dates("s")).dt.tz_localize("UTC"),
    "NaT of durations": as_dates("s") - np.datetime64("2024-01-01", "s"),
    "masked": np.ma.array(CLASSES, mask=is_gap),
    "masked text": np.ma.array(TEXT, mask=is_gap),
    "masked labels": np.ma.array(LABELS, mask=holes != holes),
    "labels": holes,
    "labels of objects": np.where(is_gap[:, None], None, LABELS),
    "boolean": pd.DataFrame(holes).astype("boolean"),
    **{name: getattr(sparse, f"{name}_array")(holes) for name in ("csr", "coo", "lil", "dok")},
    **in_libraries("pyarrow", lambda arrow: {"null of arrow": arrow.array(with_gap(TEXT).tolist())}),
    **in_libraries(
        "polars",
        lambda polars: {
            "null": polars.Series(with_gap(CLASSES).tolist()),
            "null in text": polars.Series(with_gap(TEXT).tolist()),
            "null in bool": polars.DataFrame({"a": with_gap(CLASSES > 0).tolist(), "b": CLASSES > 1}),
        },
    ),
}


def plain(y):
    """Labels without gaps, of the kind of `y`."""
    return LABELS if np.ndim(y) == 2 else CLASSES


REFUSING = {
    **{name: place for name, place in PLACES.items() if name not in ("search", "curve")},
    "later score": lambda y: ITQHasher(4).fit(X, plain(y)).score(X, y),
    "ClassAffinity": lambda y: ClassAffinity()(y, y) if np.ndim(y) == 1 else SharedLabelsAffinity()(y, y),
    "given affinity": lambda y: TBHHasher(
        4, n_epochs=1, affinity=ClassAffinity() if np.ndim(y) == 1 else SharedLabelsAffinity()
    ).fit(X, y),
    "dask": lambda y: in_shards(y, plain(y)),
    "images": lambda y: images(y, plain(y)),
    "map": lambda y: CodeMapDisplay.from_codes(BITS, y),
}


@pytest.mark.parametrize("place", REFUSING)
def test_missing_targets_are_refused_everywhere(place):
    for y in MISSING.values():
        with pytest.raises(ValueError, match="missing values"):
            REFUSING[place](y)


def test_masked_shards_are_refused():
    with pytest.raises(ValueError, match="missing values"):
        in_shards(CLASSES, MISSING["masked"])


def test_masked_targets_of_a_dataset_are_refused():
    class Samples(torch.utils.data.Dataset):
        targets = MISSING["masked"]

        def __len__(self):
            return N

        def __getitem__(self, index):
            return X[index]

    with pytest.raises(ValueError, match="missing values"):
        TALRHasher(4, n_epochs=1).fit(Samples())


@pytest.mark.parametrize(
    "call",
    [
        lambda samples: ITQHasher(4).fit(samples),
        lambda samples: TALRHasher(4, n_epochs=1).fit(samples, np.arange(len(samples)) % 3),
        lambda samples: TALRHasher(4).partial_fit(samples, np.arange(len(samples)) % 3),
        lambda samples: FITTED.transform(samples),
        lambda samples: FITTED.encode(samples, batch_size=100),
        lambda samples: FITTED.encode(iter([samples])),
        lambda samples: RetrievalScorer(database=(samples, np.arange(len(samples)) % 3))(FITTED, X, CLASSES),
        lambda samples: DistanceAffinity().fit(samples),
        lambda samples: split(samples, np.arange(len(samples)) % 3),
        lambda samples: choose_code(ITQHasher(), samples, nbits=8, target_recall=0.01, n_queries=20),
        lambda samples: HammingNeighbors().fit(samples > 0),
        lambda samples: HammingNeighbors(hasher=FITTED, rerank="euclidean").fit(samples),
    ],
)
def test_masked_samples_are_refused_and_a_mask_of_nothing_is_not(call):
    samples = np.ma.array(rng.normal(size=(5000, 8)), mask=np.zeros((5000, 8), dtype=bool))
    call(samples)
    samples[4900, 2] = np.ma.masked  # beyond the first slice
    with pytest.raises(ValueError, match="missing values"):
        call(samples)
