"""TREC runs and qrels: what is written, and that other tools read it and compute an AP inside our tie range."""

import copy
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from skhash import ITQHasher
from skhash.affinity import Relevance
from skhash.cli import main
from skhash.datasets import load_dataset
from skhash.metrics import Ranking
from skhash.metrics.evaluation import evaluate_queries
from skhash.neighbors import HammingNeighbors
from skhash.persistence import save
from skhash.trec import write_qrels, write_run


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    """Files of a run with all items and of its qrels, and the AP of each query with its worst and best order."""
    folder = tmp_path_factory.mktemp("trec")
    data = load_dataset("digits", random_state=0)
    hasher = ITQHasher(8, random_state=0).fit(data.X_train)
    index = HammingNeighbors(hasher, n_neighbors=10).fit(data.X_database)
    found = index.kneighbors(data.X_query, len(data.X_database))
    write_run(folder / "run", *found)
    write_qrels(folder / "qrels", data.y_query, data.y_database)
    codes = hasher.codes(data.X_query), hasher.codes(data.X_database)
    ranking = Ranking(*codes, Relevance.between(data.y_query, data.y_database, data.affinity))
    values = evaluate_queries(ranking, ["ap", "ap_worst", "ap_best"])[1]
    return folder, values


def read(path):
    """Fields by query."""
    queries = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = line.split()
        queries.setdefault(fields[0], []).append(fields)
    return queries


def test_average_precision_by_hand_is_inside_the_tie_range(ranked):
    folder, values = ranked
    run, qrels = read(folder / "run"), read(folder / "qrels")
    for query, worst, best in zip(run, values["ap_worst"], values["ap_best"], strict=True):
        relevant = {fields[2] for fields in qrels[query]}
        ranks = [rank for rank, fields in enumerate(run[query], 1) if fields[2] in relevant]
        assert [int(fields[3]) for fields in run[query]] == list(range(1, len(run[query]) + 1))
        ap = np.mean([(i + 1) / rank for i, rank in enumerate(ranks)])
        assert worst - 1e-12 <= ap <= best + 1e-12


def test_pytrec_eval_is_inside_the_tie_range(ranked):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    folder, values = ranked
    with open(folder / "run") as run, open(folder / "qrels") as qrels:
        evaluator = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(qrels), {"map"})
        found = evaluator.evaluate(pytrec_eval.parse_run(run))
    ap = np.array([found[str(i)]["map"] for i in range(len(values["ap"]))])
    assert ((values["ap_worst"] - 1e-6 <= ap) & (ap <= values["ap_best"] + 1e-6)).all()
    assert ap.mean() == pytest.approx(values["ap"].mean(), abs=0.01)


def test_ir_measures_is_inside_the_tie_range(ranked):
    ir_measures = pytest.importorskip("ir_measures")
    folder, values = ranked
    run = ir_measures.read_trec_run(str(folder / "run"))
    qrels = ir_measures.read_trec_qrels(str(folder / "qrels"))
    found = {value.query_id: value.value for value in ir_measures.iter_calc([ir_measures.AP], qrels, run)}
    ap = np.array([found[str(i)] for i in range(len(values["ap"]))])
    assert ((values["ap_worst"] - 1e-6 <= ap) & (ap <= values["ap_best"] + 1e-6)).all()


@pytest.mark.slow  # ranx compiles for a minute
@pytest.mark.filterwarnings("ignore:unsafe cast from uint64 to int64")  # in ranx
def test_ranx_is_inside_the_tie_range(ranked):
    ranx = pytest.importorskip("ranx")
    folder, values = ranked
    qrels = ranx.Qrels.from_file(str(folder / "qrels"), kind="trec")
    run = ranx.Run.from_file(str(folder / "run"), kind="trec")
    ranx.evaluate(qrels, run, "map")
    ap = np.array([run.scores["map"][str(i)] for i in range(len(values["ap"]))])
    assert ((values["ap_worst"] - 1e-6 <= ap) & (ap <= values["ap_best"] + 1e-6)).all()


def test_empty_places_of_a_search_are_left_out(tmp_path):
    write_run(tmp_path / "run", [[1, 2, np.inf]], [[4, 0, -1]], query_ids=["q"], name="faiss")
    assert (tmp_path / "run").read_text() == "q Q0 4 1 -1.0 faiss\nq Q0 0 2 -2.0 faiss\n"


@pytest.mark.parametrize(
    ("distances", "ids", "missing", "written"),
    [
        ([[1, 2, 3]], [[-7, -1, -(2**63)]], None, ["-7", "-1", str(-(2**63))]),
        ([[1, 2, 2147483647]], [[-1, 4, -1]], None, ["-1", "4"]),
        ([[1, np.inf, -np.inf]], [[4, -1, -1]], None, ["4"]),
        ([[1, 3.4028234663852886e38, -2147483648]], [[4, -1, -1]], None, ["4"]),
        ([[1, np.inf]], [[4, 5]], None, ["4", "5"]),
        ([[1, np.inf]], [[4, -1]], [[False, False]], ["4", "-1"]),
        ([[1, np.nan, 2]], [[4, 9, -1]], [[False, True, False]], ["4", "-1"]),
        ([[1, np.nan, np.inf]], np.ma.array([[4, 9, -1]], mask=[[0, 1, 0]]), None, ["4"]),
        ([[1, 2]], np.ma.array([["a", None]], object, mask=[[0, 1]]), None, ["a"]),
        ([[1, 2]], np.array([[2**64 - 1, 2**63]], np.uint64), None, [str(2**64 - 1), str(2**63)]),
        ([[1, 2, 3]], np.array([["b", "a", "-1"]], object), None, ["b", "a", "-1"]),
        ([[1, 2]], [["b", "7"]], None, ["b", "7"]),
        ([[np.inf]], [[-1]], None, []),
        (np.empty((1, 0)), np.empty((1, 0)), None, []),
    ],
)
def test_which_places_are_empty(distances, ids, missing, written, tmp_path):
    write_run(tmp_path / "run", distances, ids, missing=missing)
    assert [fields[2] for fields in read(tmp_path / "run").get("0", [])] == written


def test_empty_places_of_faiss(tmp_path):
    faiss = pytest.importorskip("faiss")
    bits, X = np.zeros((2, 8), np.uint8), np.zeros((2, 4), np.float32)
    for index, rows in ((faiss.IndexBinaryFlat(64), bits), (faiss.IndexBinaryHNSW(64), bits)):
        index.add(rows)
        write_run(tmp_path / "run", *index.search(rows, 5))
        assert [len(lines) for lines in read(tmp_path / "run").values()] == [2, 2]
    for index in (faiss.IndexFlatL2(4), faiss.IndexFlatIP(4), faiss.IndexHNSWFlat(4, 8)):
        index.add(X)
        scores, ids = index.search(X, 5)
        write_run(tmp_path / "run", -scores if isinstance(index, faiss.IndexFlatIP) else scores, ids)
        assert [len(lines) for lines in read(tmp_path / "run").values()] == [2, 2]


@pytest.mark.parametrize(
    "names",
    [
        ["a", "ü", "名前"],
        (7, -1, 2**70),
        [np.str_("a"), np.uint64(2**64 - 1), 3],  # one file holds both
        np.array(["a", "b", "c"]),
        np.array([7, 8, 9], np.uint8),
        pd.Series(["a", "b", "c"], dtype="string"),
        pd.Index(["a", "b", "c"]),
        pa.chunked_array([["a", "b"], ["c"]]),
        range(4, 7),
    ],
    ids=lambda names: type(names).__name__,
)
def test_names_are_text_or_whole_numbers(names, tmp_path):
    expected = [str(name) for name in (names.to_pylist() if isinstance(names, pa.ChunkedArray) else names)]
    write_run(tmp_path / "run", [[0], [1], [2]], [[2], [1], [0]], item_ids=names, query_ids=names)
    write_qrels(tmp_path / "qrels", [0, 1, 2], [2, 1, 0], item_ids=names, query_ids=names)
    for lines in (read(tmp_path / "run"), read(tmp_path / "qrels")):
        assert [(query, *(fields[2] for fields in found)) for query, found in lines.items()] == list(
            zip(expected, expected[::-1], strict=True)
        )


def test_a_file_name_that_is_not_utf_8_is_written_as_it_is(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    write_run(tmp_path / "run", [[1]], [[0]], item_ids=[name], query_ids=[name])
    write_qrels(tmp_path / "qrels", [0], [0], item_ids=[name], query_ids=[name])
    for file in ("run", "qrels"):
        fields = (tmp_path / file).read_bytes().split()
        assert fields[0] == fields[2] == b"caf\xe9.png"


NO_NAMES = {
    "tensor": (torch.tensor([1, 2]), r"Got a Tensor instead\. Pass numbers"),
    "tensors": (list(torch.tensor([1, 2])), r"Got a Tensor instead\. Pass numbers"),
    "bytes": ([b"ten", b"six"], r"Got b'ten' instead\. Decode them"),
    "one bytes": (b"ab", r"Got b'ab' instead\. Decode them"),
    "None": (["a", None], r"Got None instead\. Give each one"),
    "NaN": ([1, float("nan")], r"Got NaN instead\. Give each one"),
    "NaN of pandas": (pd.Series(["a", None]), r"Got (NaN|None) instead\. Give each one"),
    "float": ([1.0, 2.0], r"Got 1\.0 instead\. Pass whole numbers"),
    "bool": ([True, False], r"Got True instead"),
    "one text": ("ab", r"Got 'ab' instead\. Pass a list"),
    "set": ({"a", "b"}, r"must be a list of ints or text\. Got a set instead"),
    "dict": ({"a": 1, "b": 2}, r"must be a list of ints or text\. Got a dict instead"),
    "iterator": (iter("ab"), r"Got a str_ascii_iterator instead"),
    "matrix": ([["a"], ["b"]], r"must be a list of ints or text"),
    "repeated": (["a", "a"], r"must differ from each other, since trec_eval refuses others\. Got 'a' more than once"),
    "repeated as text": ([1, "1"], r"must differ from each other, .* Got '1' more than once"),
    "space": (["a b", "c"], r"must have no empty text and no spaces\. Got 'a b'"),
    "zero": (["a\0b", "a\0c"], r"must have no empty text and no spaces\. Got 'a\\x00b'"),
}


@pytest.mark.parametrize(("names", "message"), NO_NAMES.values(), ids=NO_NAMES)
@pytest.mark.parametrize("parameter", ["query_ids", "item_ids"])
def test_other_names_are_refused(parameter, names, message, tmp_path):
    calls = (
        lambda names: write_run(tmp_path / "run", [[0], [1]], [[0], [1]], **{parameter: names}),
        lambda names: write_qrels(tmp_path / "qrels", [0, 1], [0, 1], **{parameter: names}),
    )
    for call in calls:
        with pytest.raises(ValueError, match=rf"`{parameter}` .*{message}"):
            call(copy.copy(names))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ids", "options", "message"),
    [
        ([[7, 7]], {}, r"`ids` must have an item once for a query, .* Got 7 more than once for query 0"),
        ([["a", "a"]], {}, r"`ids` must have an item once for a query, .* Got 'a' more than once"),
        ([["a b", "c"]], {}, r"`ids` must have no empty text and no spaces\. Got 'a b'"),
        ([["a", "b"]], {"item_ids": ["a", "b"]}, r"`item_ids` must be None if `ids` are text"),
        ([[0, -1]], {"item_ids": ["a", "b"]}, r"`item_ids` must name all items\. Got 2 names, and item -1\."),
        ([[0, None]], {}, r"`ids` must be ints or text\. Got None instead"),
        ([[0, True]], {}, r"`ids` must be ints or text\. Got True instead"),
        ([[0, 1]], {"missing": [True, False]}, r"`missing` must be None or a mask of bools of the shape of `ids`"),
        ([[0, 1]], {"missing": [[0, 1]]}, r"`missing` must be None or a mask of bools .* Got int64 of shape \(1, 2\)"),
    ],
)
def test_wrong_items_are_refused(ids, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_run(tmp_path / "run", [[0, 1]], ids, **options)
    with pytest.raises(ValueError, match=r"`distances` must be numbers\. Got NaN"):
        write_run(tmp_path / "run", np.ma.array([[0.0, 1.0]], mask=[[0, 1]]), [[0, 1]])
    assert list(tmp_path.iterdir()) == []


def test_other_tools_read_text_and_negative_identifiers(tmp_path):
    pytrec_eval, ir_measures = pytest.importorskip("pytrec_eval"), pytest.importorskip("ir_measures")
    rng = np.random.default_rng(0)
    bits, y = rng.integers(0, 2, (60, 16), dtype=np.uint8), rng.integers(0, 3, 60)
    values = []
    for ids in (np.arange(60), np.arange(60) - 30, [f"dökument-{i:02}" for i in range(60)]):
        index = HammingNeighbors().fit(bits, ids=ids)
        write_run(tmp_path / "run", *index.kneighbors(bits[:5], 20), query_ids=["a", "b", "c", "d", "e"])
        write_qrels(tmp_path / "qrels", y[:5], y, query_ids=["a", "b", "c", "d", "e"], item_ids=ids)
        with open(tmp_path / "run", encoding="utf-8") as run, open(tmp_path / "qrels", encoding="utf-8") as qrels:
            evaluator = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(qrels), {"P_20"})
            found = evaluator.evaluate(pytrec_eval.parse_run(run))
        values.append([found[query]["P_20"] for query in "abcde"])
        run, qrels = (
            ir_measures.read_trec_run(str(tmp_path / "run")),
            ir_measures.read_trec_qrels(str(tmp_path / "qrels")),
        )
        by_query = {value.query_id: value.value for value in ir_measures.iter_calc([ir_measures.P @ 20], qrels, run)}
        values.append([by_query[query] for query in "abcde"])
    expected = [np.mean(y[HammingNeighbors().fit(bits).kneighbors(bits[i : i + 1], 20)[1]] == y[i]) for i in range(5)]
    np.testing.assert_allclose(values, [expected] * 6)


def test_levels_are_those_of_the_affinity(tmp_path):
    write_qrels(tmp_path / "qrels", [[1, 1, 0], [0, 0, 1]], [[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]])
    assert (tmp_path / "qrels").read_text() == "0 0 0 2\n0 0 1 1\n0 0 2 1\n1 0 1 1\n"
    with pytest.raises(ValueError, match=r"`affinity` must have levels that are whole numbers, as qrels have. Got 0.5"):
        write_qrels(tmp_path / "qrels", [1], [2], lambda a, b: np.full((1, 1), 0.5))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([0.0], [0]), {}, r"must have the same shape \(n_queries, k\)"),
        (([[0.0]], [[0.0]]), {}, "`ids` must be ints"),
        (([[np.nan]], [[0]]), {}, "`distances` must be numbers. Got NaN."),
        (([[0.0]], [[0]]), {"query_ids": ["a b"]}, "`query_ids` must have no empty text and no spaces. Got 'a b'"),
        (([[0.0]], [[0]]), {"query_ids": []}, "`query_ids` must have 1 identifiers. Got 0 instead."),
        (([[0.0]], [[1]]), {"item_ids": ["a"]}, "`item_ids` must name all items. Got 1 names, and item 1."),
        (([[0.0]], [[0]]), {"name": ""}, "`name` must have no empty text"),
    ],
)
def test_wrong_arguments_are_named(arguments, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_run(tmp_path / "run", *arguments, **options)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_writes_a_run(tmp_path, capsys):
    X = np.random.default_rng(0).standard_normal((20, 4))
    np.save(tmp_path / "items.npy", X)
    np.save(tmp_path / "queries.npy", X[:3])
    save(ITQHasher(4, random_state=0).fit(X), tmp_path / "model.safetensors")
    paths = [str(tmp_path / name) for name in ("model.safetensors", "items.npy", "queries.npy", "found.run")]
    assert main(["search", *paths[:3], "--k", "2", "--out", paths[3]]) == 0
    assert [[fields[3] for fields in lines] for lines in read(tmp_path / "found.run").values()] == [["1", "2"]] * 3
