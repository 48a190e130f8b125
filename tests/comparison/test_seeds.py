"""Methods that lack seeds, and methods that the last comparison was not asked for, in every format."""

import csv
import io
import sys

import pytest

from skhash.cli import main
from skhash.comparison import (
    compare,
    csv_table,
    find_differences,
    find_leaders,
    latex_table,
    markdown_table,
    read_results,
    write_report,
)
from skhash.comparison.tables import NOT_ASKED, ranked_methods

DIGITS = {"nbits": [16], "n_seeds": 2}


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    """Pictures take most of the time of a page; tests/displays looks at them."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def stop_after(n):
    """A function that interrupts a comparison after n results, as Ctrl-C does."""
    finished = []

    def report(progress):
        finished.append(progress)
        if len(finished) == n:
            raise KeyboardInterrupt

    return report


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a stopped run: lsh has both seeds, and itq, which is better, has one."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(KeyboardInterrupt):
        compare(methods=["lsh", "itq", "pca"], **DIGITS, folder=folder, report=stop_after(4))
    return folder


@pytest.fixture(scope="module")
def continued(tmp_path_factory):
    """The folder of a stopped run of itq, and of a second one that was asked for other methods."""
    folder = tmp_path_factory.mktemp("continued")
    with pytest.raises(KeyboardInterrupt):
        compare(methods=["itq"], **DIGITS, folder=folder, report=stop_after(1))
    compare(methods=["lsh", "pca"], **DIGITS, folder=folder)
    return folder


@pytest.fixture
def made(hand_made):
    """Two methods with both seeds, the first one better, and a third one above them with one seed."""
    return hand_made({"a": [0.5, 0.5], "b": [0.25, 0.25], "c": [0.75]})


def lines_of(results):
    lines = csv.DictReader(io.StringIO(csv_table(results)))
    return {line["method"]: line for line in lines if line["metric"] == "ap"}


def test_a_method_that_lacks_seeds_is_marked_and_never_the_best(made, tmp_path):
    assert find_leaders(made) == ["a"]
    assert ranked_methods(made, "ap") == ["a", "b", "c"]
    first, _, third = markdown_table(made).splitlines()[2:]
    assert first.startswith("| a                | 16   | 0.500 ± 0.000 *")
    assert third.startswith("| c (1 of 2 seeds) | 16   | 0.750 ")
    assert "*" not in third
    a, _, c = [line for line in latex_table(made).splitlines() if " & 16 & " in line]
    assert a.startswith(r"a & 16 & \textbf{0.500 $\pm$ 0.000}")
    assert c.startswith("c (1 of 2 seeds) & 16 & 0.750 & ")
    found = {method: (line["is_leader"], line["lacks_seeds"]) for method, line in lines_of(made).items()}
    assert found == {"a": ("True", "False"), "b": ("False", "False"), "c": ("False", "True")}
    page = (write_report(tmp_path, made) / "report.html").read_text(encoding="utf-8")
    ap = page.partition("<tbody>")[2].partition("</tbody>")[0]
    places = [ap.index(f'<th scope="row">{name}</th>') for name in "abc"]
    assert places == sorted(places)
    assert '<td class="best">0.500 ± 0.000' in ap
    assert "<td>0.750<small>0.750 to 0.750</small><small>1 of 2 seeds</small></td>" in ap
    assert "c (1 of 2 seeds)</th>" in page  # in the table of all metrics


def test_fewer_seeds_than_asked_for_are_too_few_for_every_method(hand_made):
    made = hand_made({"a": [0.5, 0.5], "b": [0.25, 0.25]}, asked_seeds=3)
    assert find_leaders(made) == []
    assert find_leaders([dict(result) for result in made]) == []
    table = markdown_table(made)
    assert table.count("(2 of 3 seeds)") == 2
    assert "*" not in table
    assert "textbf" not in latex_table(made)
    assert "Means over 3 seeds" in latex_table(made)


def test_each_number_of_bits_counts_its_own_seeds(hand_made):
    made = [*hand_made({"a": [0.5, 0.5], "b": [0.25, 0.25]}), *hand_made({"a": [0.5], "b": [0.25]}, nbits=8)]
    assert "seeds" not in markdown_table(made)


def test_a_stopped_run_names_no_best_method(stopped, capsys):
    results = read_results(stopped)
    assert {result.asked_seeds for result in results} == {2}
    lsh, itq, pca = markdown_table(results).splitlines()[2:]
    assert lsh.startswith("| lsh                | 16   | 0.")
    assert itq.startswith("| itq (1 of 2 seeds) | 16   | 0.")
    assert pca.startswith("| pca (1 of 2 seeds) | 16   | 0.")
    assert "*" not in lsh + itq + pca
    assert ranked_methods(results, "ap")[0] == "lsh"
    assert find_differences(results) == find_differences(results, baseline="itq") == []
    assert main(["report", str(stopped), "--format", "csv,latex"]) == 0
    tex, table, page = (
        (stopped / name).read_text(encoding="utf-8") for name in ("results.tex", "results.csv", "report.html")
    )
    assert "itq (1 of 2 seeds) & 16 & " in tex
    assert "textbf" not in tex
    assert r"\caption{digits, protocol 'holdout': 359 queries against" in tex
    assert "Means over 2 seeds, " in tex
    assert "True,,,,,,,False,True" not in table  # the best of one method
    assert page.count("<small>1 of 2 seeds</small>") == 2 * len(("AP_T", "NDCG_T"))
    assert 'class="best"' not in page
    assert "2 random splits" in page


def test_methods_that_were_not_asked_for_are_listed_apart(continued, tmp_path):
    results = read_results(continued)
    assert {(result.method, result.seed, result.is_asked, result.asked_seeds) for result in results} == {
        ("itq", 0, False, 2),
        *((method, seed, True, 2) for method in ("lsh", "pca") for seed in (0, 1)),
    }
    assert {result.method for result in results if result.curves and result.per_query} == {"itq", "lsh", "pca"}
    ranked, heading, apart = markdown_table(results).split("\n\n")
    assert heading == f"{NOT_ASKED}:"
    assert "itq" not in ranked
    assert "*" in ranked
    assert "| itq (1 of 2 seeds) | 16 " in apart
    assert "*" not in apart
    assert set(find_leaders(results)) <= {"lsh", "pca"}
    assert [(each.method, each.baseline) for each in find_differences(results)] == [("pca", "lsh")]

    ranked, apart = latex_table(results).split("\n\n")
    assert "itq" not in ranked
    assert r"\textbf" in ranked
    assert r"\dagger" in ranked
    assert f"{NOT_ASKED}." in apart
    assert "itq (1 of 2 seeds) & 16 & " in apart
    assert r"\textbf" not in apart
    itq = lines_of(results)["itq"]
    assert (itq["is_asked"], itq["lacks_seeds"], itq["is_leader"], itq["p_value"]) == ("False", "True", "False", "")

    folder = write_report(tmp_path, results)
    page, markdown = ((folder / name).read_text(encoding="utf-8") for name in ("report.html", "results.md"))
    before, _, after = page.partition(f"<h3>{NOT_ASKED}</h3>")
    assert "2 methods, 16 bits, 2 random splits" in before
    assert "itq" not in before
    assert "itq (1 of 2 seeds)" in after
    assert f"\n\n{NOT_ASKED}:\n\n" in markdown


def test_the_baseline_must_be_asked_for(continued):
    results = read_results(continued)
    for refuse in (find_differences, csv_table, latex_table):
        with pytest.raises(ValueError, match=r"`baseline` must be one of lsh, pca\. Got 'itq' instead"):
            refuse(results, baseline="itq")


def test_the_command_prints_them_apart_until_they_are_asked_for(tmp_path, capsys):
    options = ["--bits", "8", "--seeds", "1", "--out", str(tmp_path)]
    assert main(["compare", "digits", "--methods", "itq", *options]) == 0
    assert NOT_ASKED not in capsys.readouterr().out
    assert main(["compare", "digits", "--methods", "lsh", *options]) == 0
    ranked, _, apart = capsys.readouterr().out.partition(NOT_ASKED)
    assert "| lsh " in ranked
    assert "| itq " in apart
    assert main(["compare", "digits", "--methods", "itq,lsh", *options]) == 0
    assert NOT_ASKED not in capsys.readouterr().out
    assert all(result.is_asked for result in read_results(tmp_path))


def test_other_data_sets_stay_as_they_were(own_file, tmp_path):
    compare(methods=["lsh"], nbits=[8], n_seeds=2, folder=tmp_path)
    compare(own_file, methods=["pca"], nbits=[8], n_seeds=1, folder=tmp_path)
    assert [(each.method, each.is_asked, each.asked_seeds) for each in read_results(tmp_path)] == [
        ("lsh", True, 2),
        ("lsh", True, 2),
        ("pca", True, 1),
    ]


def test_results_of_methods_that_were_not_asked_for_are_a_table_alone(continued):
    alone = [result for result in read_results(continued) if result.method == "itq"]
    assert NOT_ASKED not in markdown_table(alone)
    assert "itq (1 of 2 seeds)" in markdown_table(alone)
