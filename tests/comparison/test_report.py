"""Files of a comparison: written, read back, and written again from what is stored."""

import json
import shutil
import sys
from dataclasses import replace

import pytest

from skhash.cli import main
from skhash.comparison import compare, markdown_table, read_results, write_report
from skhash.exceptions import InvalidFileError


def rewritten(folder):
    """The page that is written again from a folder."""
    return write_report(folder, read_results(folder)) / "report.html"


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    """Pictures take most of the time of a page; test_page.py tests them."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_a_report_can_be_read_back(results, tmp_path):
    bare = [dict(result) for result in results]
    for result in bare:
        del result["description"]
    folder = write_report(tmp_path / "new" / "report", bare, "A sentence.")
    assert json.loads((folder / "results.json").read_text()) == [
        dict(result) | {"description": "A sentence."} for result in results
    ]
    text = (folder / "results.md").read_text(encoding="utf-8")
    assert markdown_table(results) in text
    assert "# digits, protocol holdout\n\nA sentence." in text
    assert "A sentence." in (folder / "report.html").read_text(encoding="utf-8")


def test_a_report_describes_the_split(results, tmp_path):
    text = (write_report(tmp_path, results) / "results.md").read_text(encoding="utf-8")
    assert "# digits, protocol holdout\n\ndigits, protocol 'holdout': 359 queries" in text


def test_a_report_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`results` must hold at least one result"):
        write_report(tmp_path / "new", [])
    assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a tuned comparison."""
    folder = tmp_path_factory.mktemp("comparison")
    options = {"methods": ["itq-cca", "lsh"], "nbits": [8], "n_seeds": 1, "tune": 2}
    compare(**options, folder=folder, command="skhash compare --tune 2")
    return folder


def test_the_page_is_written_again_from_stored_results(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "copy")
    write_report(tmp_path / "copy", read_results(folder))
    before = (tmp_path / "copy" / "report.html").read_text(encoding="utf-8")
    (tmp_path / "copy" / "report.html").unlink()
    monkeypatch.setattr(sys.modules[compare.__module__], "load_dataset", None)
    assert rewritten(tmp_path / "copy").read_text(encoding="utf-8") == before
    assert "<code>skhash compare --tune 2</code>" in before


def test_entries_of_results_json_find_their_provenance(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    results = json.loads((folder / "results.json").read_text())
    page = (write_report(tmp_path / "copy", results) / "report.html").read_text(encoding="utf-8")
    assert "2 candidates including the default were compared by AP_T" in page


def test_the_page_is_that_of_a_fresh_comparison(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    compare(methods=["lsh"], nbits=[8, 16], n_seeds=1, folder=tmp_path / "copy", fresh=True)
    page = rewritten(tmp_path / "copy").read_text(encoding="utf-8")
    assert "itq-cca" not in page.partition("How to read this</h2>")[0].partition("<main>")[2]


def test_results_with_other_metrics_keep_what_is_stored(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    options = {"methods": ["itq-cca", "lsh"], "nbits": [8], "n_seeds": 1, "tune": 2}
    compare(**options, metrics=["ndcg"], folder=tmp_path / "copy")
    (result, _) = read_results(tmp_path / "copy")
    assert list(result.metrics) == ["ndcg"]
    assert result.curves is not None
    assert "ndcg" in result.per_query


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no results of a comparison"):
        rewritten(tmp_path)


def test_a_page_of_results_of_other_methods(folder, results, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    mine = [replace(result, method="mine") for result in results]
    written = write_report(tmp_path / "copy", [*read_results(folder), *mine])
    before = (written / "report.html").read_bytes()
    assert b"mine" in before
    assert rewritten(written).read_bytes() == before
    options = {"methods": ["lsh"], "nbits": [8], "n_seeds": 1, "folder": written}
    with pytest.raises(ValueError, match=r"results of comparisons only\. Got mine, which would be lost"):
        compare(**options, fresh=True)
    compare(**options)
    assert "mine" in {result.method for result in read_results(written)}


@pytest.mark.parametrize("content", ["[", '[1, "mine"]', '[{"method": "lsh"}]'])
def test_a_damaged_list_of_results_is_named_and_replaced(content, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "results.json").write_text(content)
    with pytest.raises(InvalidFileError, match=r"results.json is damaged: .*Delete it, or run the comparison again"):
        read_results(tmp_path / "copy")
    compare(methods=["lsh"], nbits=[8], n_seeds=1, folder=tmp_path / "copy")
    assert json.loads((tmp_path / "copy" / "results.json").read_text())[0]["method"] == "lsh"


def test_a_damaged_result_is_one_line_on_the_command_line(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "copy")
    path = next((tmp_path / "copy" / "rows").glob("*.json"))
    path.write_bytes(path.read_bytes()[:100])
    assert main(["report", str(tmp_path / "copy")]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"skhash: error: {path} is damaged: ")
    assert "Delete it, or run the comparison again" in error
    assert error.count("\n") == 1
