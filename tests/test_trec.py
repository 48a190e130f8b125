"""TREC runs and qrels: what is written, and that other tools read it and compute an AP inside our tie range."""

import numpy as np
import pytest

from skhash import ITQHasher
from skhash.cli import main
from skhash.datasets import load_dataset
from skhash.metrics import Ranking, evaluate_queries
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
    codes = hasher.encode(data.X_query), hasher.encode(data.X_database)
    ranking = Ranking(*codes, 8, data.y_query, data.y_database, data.affinity)
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
