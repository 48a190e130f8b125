"""``skhash evaluate``: metrics of a run, and their range over the orders of its ties."""

import gzip

import numpy as np
import pytest

from skhash.cli import main
from skhash.metrics import evaluate_histograms
from skhash.trec import histogram_of_run


@pytest.fixture
def files(tmp_path):
    """Files of a run with ties and of its qrels, where a query lacks items and another one relevant items."""
    rng = np.random.default_rng(0)
    lines = [f"{q} Q0 d{i} 0 {rng.integers(0, 4) if q else -i} engine\n" for q in range(5) for i in range(20)]
    (tmp_path / "run").write_text("".join(lines))
    qrels = [f"{q} 0 d{i} {rng.integers(0, 3) * (q != 1)}\n" for q in range(6) for i in range(0, 30, 3)]
    (tmp_path / "qrels.gz").write_bytes(gzip.compress("".join(qrels).encode()))
    return [str(tmp_path / name) for name in ("run", "qrels.gz")]


def table_of(output):
    """Numbers by name of the metric, and the lines below the table."""
    table, _, remarks = output.partition("\n\n")
    head, *lines = [line.split() for line in table.splitlines()]
    assert head == ["metric", "mean", "worst", "best"]
    return {name: [float(value) for value in values] for name, *values in lines}, remarks.splitlines()


@pytest.mark.filterwarnings("ignore:1 of 5 queries have no relevant item")  # the query of the fixture
@pytest.mark.parametrize("empty", ["zero", "skip"])
def test_values_are_those_of_python(empty, files, capsys):
    assert main(["evaluate", *files, "--metrics", "ap,ndcg_at_10", "precision@5", "--empty", empty]) == 0
    found, remarks = table_of(capsys.readouterr().out)
    H = histogram_of_run(*files, empty=empty)
    for name in ("ap", "ndcg_at_10", "precision_at_5"):
        expected = evaluate_histograms([H], [name, f"{name}_worst", f"{name}_best"], empty=empty)
        assert found[name] == pytest.approx(list(expected.values()), abs=5e-5)
        assert found[name][1] < found[name][0] < found[name][2] or name == "precision_at_5"
    n, kept = ("6", "count 0") if empty == "zero" else ("5", "are left out")
    assert remarks == [
        f"With items of equal score: 4 of {n} queries; of different levels: 3.",
        f"Without items in the run: 1 of 6 queries, which {kept}.",
    ]


@pytest.mark.filterwarnings("default:1 of 5 queries have no relevant item")
def test_the_default_is_that_of_trec_eval(files, capsys):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    with open(files[0]) as run, gzip.open(files[1], "rt") as qrels:
        run, qrels = pytrec_eval.parse_run(run), pytrec_eval.parse_qrel(qrels)
    found = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg_cut_10"}).evaluate(run)
    means = [np.mean([values[name] for values in found.values()]) for name in ("map", "ndcg_cut_10")]
    main(["evaluate", *files, "--empty", "skip"])
    output = capsys.readouterr()
    assert "1 of 5 queries have no relevant item" in output.err
    values, _ = table_of(output.out)
    for mean, (_, worst, best) in zip(means, values.values(), strict=True):  # of the four queries that have a value
        assert worst - 1e-4 <= mean * 5 / 4 <= best + 1e-4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "ap_best"], "--metrics must be names without _best and _worst, which are columns. Got ap_best."),
        (["--metrics", "map"], "`metric` must be one of ap, ndcg"),
        (["--metrics", "roc_auc"], "`H` must rank all items for roc_auc"),
        (["--empty", "nan"], "argument --empty: invalid choice: 'nan'"),
    ],
)
def test_other_arguments_are_refused(arguments, message, files, capsys):
    try:
        status = main(["evaluate", *files, *arguments])
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert f"skhash: error: {message}" in capsys.readouterr().err


def test_a_file_that_is_no_run_is_named(files, capsys):
    assert main(["evaluate", files[1], files[1]]) == 1
    error = capsys.readouterr().err
    assert error.startswith(
        f"skhash: error: {files[1]} must have the columns query Q0 item rank score name in each line"
    )
    assert main(["evaluate", "nowhere", files[1]]) == 2
