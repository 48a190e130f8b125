"""Rows and columns that have names on both sides: at every door the columns agree, and rows are put in order."""

import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skhash import EmbeddingHasher, ITQHasher
from skhash._names import check_columns, find_names, in_order_of, names_of
from skhash.affinity import SharedLabelsAffinity
from skhash.codes import Codes
from skhash.metrics import RetrievalScorer, histogram_from_distances, relevance_histogram
from skhash.neighbors import HammingNeighbors, order_shortlist
from skhash.persistence import load, save
from skhash.trec import write_qrels
from skhash.vectors import QueryAdapter, choose_code

RNG = np.random.default_rng(0)
SKUS = [f"sku {i}" for i in range(80)]
X = pd.DataFrame(RNG.normal(size=(80, 5)) * np.arange(1, 6), SKUS, ["u", "v", "w", "x", "y"])
LABELS = pd.DataFrame((X.to_numpy()[:, :3] > 0.3).astype(int), SKUS, ["river", "road", "roof"])
LABELS.loc[LABELS.sum(axis=1) == 0, "river"] = 1
SWAPPED = ["v", "u", "w", "x", "y"]
HASHER = ITQHasher(5, random_state=0).fit(X)
LEARNED = ITQHasher(5, random_state=0).fit(X.to_numpy(), LABELS)
CODES = LEARNED.transform(X.to_numpy())


def reranked():
    return HammingNeighbors(ITQHasher(5, random_state=0), rerank="euclidean")


def nearest(index):
    return index.kneighbors(X[:9], 3)[1]


# --- the two functions


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_names_of_frames(kind):
    frame = {"pandas": lambda f: f, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}[kind](
        X.reset_index(drop=True)
    )
    assert names_of(frame).columns == list(X.columns)
    assert names_of(frame).rows is None  # counted


@pytest.mark.parametrize(
    "index",
    [range(3), [0, 1, 2], ["a", "b", "a"], pd.date_range("2026", periods=3), [0.5, 1.5, 2.5], [None, "a", "b"]],
    ids=str,
)
def test_an_index_that_names_nothing(index):
    assert names_of(pd.Series([1, 2, 3], index=index)).rows is None


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, object, str])
def test_rows_are_put_in_order_whatever_the_type_of_the_ids(dtype):
    ids = np.array([7, 100, 3, 12], dtype)
    frame = pd.DataFrame({"value": [12, 3, 100, 7]}, index=np.array([12, 3, 100, 7], dtype))
    known = names_of(pd.Series(0, index=ids)).rows
    assert in_order_of(known, frame, "`frame`", "X")["value"].tolist() == [7, 100, 3, 12]


def test_rows_are_put_in_order_by_numbers_written_as_text():
    ids = np.array(["7", "3"], object)
    assert in_order_of(ids, np.array([3.0, 7.0]), "v", "X", rows=np.array([3, 7])).tolist() == [7.0, 3.0]


def test_long_text_takes_no_matrix_of_the_longest():
    ids = np.array([*map(str, range(3000)), "x" * 10**6], object)  # 12 GB as one type of numpy
    assert find_names(ids[::-1], ids).tolist() == list(range(3001))[::-1]


def test_accents_in_two_characters_are_the_same_name():
    one, two = (unicodedata.normalize(form, "Bärlauch") for form in ("NFC", "NFD"))
    assert one != two
    assert find_names(np.array([two], object), np.array(["x", one], object)).tolist() == [1]
    assert find_names(np.array([two], object), np.array([one, two], object)).tolist() == [1]
    check_columns([one, "b"], [two, "b"], "`X`", "X")
    index = HammingNeighbors().fit([[0, 1], [1, 1]], ids=[one, "x"])
    assert index.kneighbors([[0, 0]], 1, among=[two])[1].tolist() == [[one]]
    assert index.remove([two]).ids_.tolist() == ["x"]
    assert SharedLabelsAffinity()(
        pd.DataFrame([[1, 0]], columns=[one, "b"]), pd.DataFrame([[1, 1]], columns=[two, "b"])
    )
    H = relevance_histogram([[0, 0]], [[0, 0], [0, 1]], [one], [two, "x"])
    assert H.counts[0].tolist() == [[0, 1], [1, 0], [0, 0]]


def test_the_message_names_what_is_new_and_what_is_missing():
    with pytest.raises(ValueError, match="unseen in X:\n- z\nFeature names of X, yet now missing:\n- b\n"):
        check_columns(["a", "z"], ["a", "b"], "`queries`", "X")
    check_columns([0, 1], ["a", "b"], "`queries`", "X")  # names of another kind, such as those that pandas makes


# --- columns


ADAPTER = QueryAdapter(random_state=0)
OTHER_COLUMNS = {
    "fit(queries=)": lambda f: EmbeddingHasher(8, n_epochs=1).fit(X, queries=f(X[:30])),
    "choose_code(queries=)": lambda f: choose_code(ITQHasher(), X, queries=f(X[:30]), nbits=5, k=1),
    "QueryAdapter.fit(queries=)": lambda f: ADAPTER.fit(X, HASHER.encode(X), hasher=HASHER, queries=f(X[:30])),
    "fit(vectors=)": lambda f: reranked().fit(X, vectors=f(X)),
    "fit(Codes, vectors=)": lambda f: of_codes().fit(HASHER.codes(X), vectors=f(X)),
    "add(vectors=)": lambda f: reranked().fit(X[:60]).add(X[60:], vectors=f(X[60:])),
    "order_shortlist(vectors=)": lambda f: order_shortlist(
        X[:2], [SKUS[:9]] * 2, vectors=[f(X[:9])] * 2, metric="cosine"
    ),
}


@pytest.mark.parametrize("door", OTHER_COLUMNS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[SWAPPED], "Feature names must be in the same order"),
        (lambda f: f.drop(columns="w"), "yet now missing:\n- w"),
        (lambda f: f.assign(z=1), "unseen in .*:\n- z"),
    ],
)
def test_columns_of_vectors_must_be_those_of_the_items(door, change, message):
    with pytest.raises(ValueError, match=f"(?s)The feature names of .* should match.*{message}"):
        OTHER_COLUMNS[door](change)


def test_columns_of_vectors_must_be_those_of_a_saved_index(tmp_path):
    save(reranked().fit(X), tmp_path / "index")
    with pytest.raises(ValueError, match="The feature names of `vectors` should match those of X"):
        load(tmp_path / "index", vectors=X[SWAPPED])
    load(tmp_path / "index", vectors=X.to_numpy())  # an array has no names


OTHER_LABELS = {
    "relevance_histogram": lambda f, folder: relevance_histogram(CODES[:9], CODES, f(LABELS[:9]), LABELS),
    "database of a scorer": lambda f, folder: RetrievalScorer(database=(X.to_numpy(), f(LABELS)))(
        LEARNED, X.to_numpy()[:9], LABELS[:9]
    ),
    "score": lambda f, folder: LEARNED.score(X.to_numpy(), f(LABELS)),
    "score of a prefix": lambda f, folder: LEARNED.prefix(4).score(X.to_numpy(), f(LABELS)),
    "score of a loaded hasher": lambda f, folder: saved(LEARNED, folder).score(X.to_numpy(), f(LABELS)),
    "affinity": lambda f, folder: SharedLabelsAffinity().possible_levels(f(LABELS), LABELS),
    "qrels": lambda f, folder: write_qrels(folder / "qrels", f(LABELS), LABELS),
}


def saved(hasher, folder):
    save(hasher, folder / "model")
    return load(folder / "model")


@pytest.mark.parametrize("door", OTHER_LABELS)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_columns_of_labels_must_be_those_of_the_other_side(door, kind, tmp_path):
    convert = pl.from_pandas if kind == "polars" else lambda frame: frame
    OTHER_LABELS[door](convert, tmp_path)
    for change, message in (
        (["road", "river", "roof"], "Label names must be in the same order"),
        (["river", "roof"], "- road"),
    ):
        with pytest.raises(ValueError, match=f"(?s)The label names of .*{message}"):
            OTHER_LABELS[door](lambda frame: convert(frame[change]), tmp_path)  # noqa: B023


def test_labels_of_a_stream_must_be_those_of_the_first_samples():
    from skhash import TALRHasher

    hasher = TALRHasher(8, random_state=0).partial_fit(X.to_numpy(), LABELS)
    with pytest.raises(ValueError, match="The label names of `y` should match those of the first samples"):
        hasher.partial_fit(X.to_numpy(), LABELS[["roof", "road", "river"]])


def test_names_of_an_earlier_fit_are_forgotten():
    hasher = ITQHasher(4, random_state=0).fit(X.to_numpy(), LABELS)
    assert hasher.label_names_in_ == ["river", "road", "roof"]
    assert not hasattr(hasher.fit(X.to_numpy(), LABELS.to_numpy()), "label_names_in_")


def test_columns_of_dask_must_be_those_of_the_queries():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    import skhash.dask

    shards = da.from_array(CODES, chunks=(40, 5)), dd.from_pandas(LABELS.reset_index(drop=True), npartitions=2)
    with pytest.raises(ValueError, match="The label names of `query_y` should match those of `database_y`"):
        skhash.dask.relevance_histogram(CODES[:9], shards[0], LABELS[["roof", "road", "river"]][:9], shards[1])


def test_levels_are_paired_with_distances():
    distances = pd.DataFrame(RNG.random((3, 4)), list("abc"), list("wxyz"))
    levels = pd.DataFrame(np.eye(3, 4, dtype=int), list("abc"), list("wxyz"))
    right = histogram_from_distances(distances, levels=levels).counts
    np.testing.assert_array_equal(histogram_from_distances(distances, levels=levels[::-1]).counts, right)
    with pytest.raises(ValueError, match="The column names of `levels` should match those of `distances`"):
        histogram_from_distances(distances, levels=levels[list("xwyz")])


# --- rows

SHUFFLED = RNG.permutation(80)
BY_NAME = {
    "vectors by ids": lambda f, _: nearest(reranked().fit(X.reset_index(drop=True), vectors=f(X), ids=SKUS)),
    "vectors by the index of X": lambda f, _: nearest(reranked().fit(X, vectors=f(X))),
    "vectors of Codes": lambda f, _: nearest(of_codes().fit(HASHER.codes(X, ids=SKUS), vectors=f(X))),
    "added vectors": lambda f, _: nearest(
        reranked().fit(X[:40], ids=SKUS[:40]).add(X[40:], vectors=f(X[40:]), ids=SKUS[40:])
    ),
    "load": lambda f, folder: nearest(loaded(f, folder)),
    "ids": lambda f, _: nearest(HammingNeighbors(ITQHasher(5, random_state=0)).fit(X, ids=f(pd.Series(SKUS, SKUS)))),
    "ids of codes": lambda f, _: HASHER.codes(X, ids=f(pd.Series(SKUS, SKUS))).ids,
    "X of an adapter": lambda f, _: ADAPTER.fit(f(X), HASHER.codes(X, ids=SKUS), hasher=HASHER).transform(X),
    "shortlist": lambda f, _: order_shortlist(X[:1], [SKUS[:30]], vectors=[f(X[:30])], metric="euclidean")[1],
    "mask": lambda f, _: INDEX.kneighbors(X[:9], 3, among=f(pd.Series(SHUFFLED < 20, SKUS)))[1],
    "masks in a frame": lambda f, _: INDEX.kneighbors(
        X[:2], 3, among=f(pd.DataFrame([SHUFFLED < 20, SHUFFLED > 50], columns=SKUS).T).T
    )[1],
    "filters of queries": lambda f, _: INDEX.kneighbors(X[:9], 1, among=f(FILTERS))[1],
}
FILTERS = pd.Series([[sku] for sku in SKUS[:9]], SKUS[:9])
INDEX = HammingNeighbors(ITQHasher(5, random_state=0)).fit(X, ids=SKUS)


def of_codes():
    from sklearn.frozen import FrozenEstimator

    return HammingNeighbors(FrozenEstimator(HASHER), rerank="euclidean")


def loaded(change, folder):
    save(reranked().fit(X, ids=SKUS), folder / "index")
    return load(folder / "index", vectors=change(X))


@pytest.mark.parametrize("door", BY_NAME)
def test_rows_are_put_in_the_order_of_the_names(door, tmp_path):
    right = BY_NAME[door](lambda rows: rows, tmp_path)
    np.testing.assert_array_equal(BY_NAME[door](lambda rows: rows.sample(frac=1, random_state=1), tmp_path), right)
    for change in (lambda rows: rows.iloc[1:], lambda rows: rows.rename(index={rows.index[2]: "new"})):
        with pytest.raises(ValueError, match="must have"):
            BY_NAME[door](change, tmp_path)


def test_positions_stay_where_one_side_has_no_names():
    train = X.sample(frac=1, random_state=0).reset_index(drop=True).sample(frac=1, random_state=1)  # of a split
    right = nearest(reranked().fit(train))
    for vectors in (train.to_numpy(), train.reset_index(drop=True), train):
        np.testing.assert_array_equal(nearest(reranked().fit(train, vectors=vectors)), right)
    mask = pd.Series(np.arange(80) < 9)
    assert set(INDEX.kneighbors(X[:9], 3, among=mask)[1].ravel()) <= set(SKUS[:9])


def test_a_mask_of_an_earlier_state_is_refused():
    index = HammingNeighbors().fit(CODES).remove([0]).add(CODES[:1])
    with pytest.raises(ValueError, match=r"Got a Series whose index holds some of them, and lacks \[80\]"):
        index.kneighbors(CODES[:2], 1, among=pd.Series(np.arange(80) > 3))


@pytest.mark.parametrize(
    "convert",
    [pd.Series, pl.Series, pa.array, lambda f: pa.chunked_array([f[:1], f[1:]]), list],
    ids=["pandas", "polars", "arrow", "chunks", "list"],
)
def test_filters_of_queries_in_a_column(convert):
    index = HammingNeighbors().fit(CODES, ids=range(100, 180))
    for filters in ([[100, 105], [120]], [[100, 105], [120, 121]]):
        right = [HammingNeighbors().fit(CODES[np.array(f) - 100], ids=f).kneighbors(q[None], 1)[1][0] for f, q in zip(
            filters, CODES[:2], strict=True)]  # fmt: skip
        np.testing.assert_array_equal(index.kneighbors(CODES[:2], 1, among=convert(filters))[1], right)


@pytest.mark.parametrize("convert", [list, pd.Series, pl.Series, pa.array, lambda m: pd.Series(m, dtype="boolean")])
def test_gaps_in_a_mask(convert):
    mask = [True] * 79 + [None]
    with pytest.raises(ValueError, match=r"Got a mask with 1 missing values of 80, the first at 79. Fill them"):
        HammingNeighbors().fit(CODES).kneighbors(CODES[:1], 1, among=convert(mask))
    with pytest.raises(ValueError, match="Got none for query 1"):
        HammingNeighbors().fit(CODES).kneighbors(CODES[:2], 1, among=[[3], None])


def test_codes_of_ids_are_not_frames():
    assert names_of(Codes.of(CODES, ids=SKUS)).columns is None


# --- columns of lists, and sparse columns


def test_sparse_columns_are_read():
    sparse = X.astype(pd.SparseDtype(float, 0.0))
    dense = reranked().fit(X)
    np.testing.assert_array_equal(nearest(reranked().fit(X, vectors=sparse)), nearest(dense))
    with pytest.raises(TypeError, match=r"`X` must be dense for ITQHasher. .* Pass X.sparse.to_dense\(\)"):
        ITQHasher(4).fit(sparse)
    labels = LABELS.astype(pd.SparseDtype(int, 0))
    assert LEARNED.score(X.to_numpy(), labels) == LEARNED.score(X.to_numpy(), LABELS)


@pytest.mark.parametrize("cell", [list, np.array, tuple])
def test_a_column_of_arrays_says_what_to_pass(cell):
    frame = pd.DataFrame({"vector": [cell(row) for row in X.to_numpy().tolist()]})
    for call in (lambda: ITQHasher(4).fit(frame), lambda: reranked().fit(X.to_numpy(), vectors=frame)):
        with pytest.raises(ValueError, match=r"Got a \w+ in (X|vectors)\['vector'\]. Pass numpy.stack"):
            call()
