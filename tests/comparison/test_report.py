"""What is written of a comparison: who leads, tables, and the page."""

import base64
import json
import re
import shutil
from html.parser import HTMLParser
from importlib.metadata import version

import numpy as np
import pytest

from skhash import __version__
from skhash.cli import main
from skhash.comparison import compare, find_lead, markdown_table, pictures, write_report
from skhash.comparison.leaders import NAMES, Lead, column_sentence
from skhash.comparison.store import Store
from skhash.datasets import Protocol

ROWS = {"talr": [0.9, 0.8, 0.85], "itq": [0.6, 0.55, 0.5], "lsh": [0.3, 0.2, 0.1]}


def hand_made(figures, **more):
    """Rows of one column: method to its figures, one a seed; None is a failed fit."""
    rows = []
    for method, values in figures.items():
        for seed, value in enumerate(values):
            row = {"dataset": "d", "protocol": "p", "method": method, "nbits": 16, "seed": seed}
            names = ("ap", "ap_worst", "ap_best", "ndcg", "precision_at_100", "precision_radius_2", "fit_seconds")
            row |= dict.fromkeys((*names, "codes_per_second"), value) | {"not_applicable": None}
            rows.append(row | {"error": "ValueError: <no> & no" if value is None else None} | more)
    return rows


# --- who leads


def test_the_lead_is_the_mean_of_paired_differences():
    # differences 0.3, 0.25, 0.35: mean 0.3, s = 0.05, s / sqrt(3) = 0.028868
    lead, left_out = find_lead(hand_made(ROWS))
    assert (lead.leader, lead.runner_up, left_out) == ("talr", "itq", [])
    assert lead.value == pytest.approx(0.85)
    assert lead.lead == pytest.approx(0.3)
    assert lead.standard_error == pytest.approx(0.05 / np.sqrt(3))
    assert lead.is_clear
    assert column_sentence(16, hand_made(ROWS)) == "16 bits: {}.".format(
        "; ".join(
            f"talr leads {column} with 0.850, 0.300 ahead of itq (more than twice the standard error, 0.029)"
            for column in ("AP_T", "NDCG_T", "P@100", "P@radius 2")
        )
    )


def test_pairing_takes_out_what_the_splits_share():
    # the splits differ by 0.3, the methods by 0.01, 0.02, 0.03: mean 0.02, s / sqrt(3) = 0.01 / sqrt(3)
    lead, _ = find_lead(hand_made({"a": [0.2, 0.5, 0.8], "b": [0.19, 0.48, 0.77]}))
    assert (lead.lead, lead.standard_error) == (pytest.approx(0.02), pytest.approx(0.01 / np.sqrt(3)))
    assert lead.is_clear


def test_a_lead_by_chance_and_a_rival_that_wins_are_said():
    # differences -0.1, 0.4: mean 0.15, s = 0.35355, s / sqrt(2) = 0.25
    text = column_sentence(8, hand_made({"talr": [0.5, 0.3], "ksh": [0.4, 0.7]}))
    assert (
        "8 bits: ksh leads AP_T with 0.550, 0.150 ahead of talr (not more than twice the standard error, 0.250)" in text
    )


def test_small_columns():
    assert "a leads AP_T with 0.500, without a rival" in column_sentence(8, hand_made({"a": [0.5]}))
    assert "one seed" in column_sentence(8, hand_made({"a": [0.5], "b": [0.25]}))
    assert "(more than twice the standard error, < 0.001)" in column_sentence(
        8, hand_made({"a": [0.5, 0.5], "b": [0, 0]})
    )
    assert "level with b" in column_sentence(8, hand_made({"a": [0.5, 0.25], "b": [0.25, 0.5]}))
    assert column_sentence(8, hand_made({"a": [None]})) == "8 bits: no method has figures."
    assert not Lead("ap", "a", 0.5, "b", 0.25).is_clear


@pytest.mark.parametrize(("errors", "is_clear"), [(1.5, False), (2.5, True)])
def test_a_clear_lead_is_of_two_standard_errors(errors, is_clear):
    assert Lead("ap", "a", 0.5, "b", errors * 0.1, 0.1).is_clear is is_clear


def test_who_has_not_finished_every_seed_does_not_compete():
    rows = hand_made({"good": [0.9, 0.9, None], "itq": [0.6, 0.5, 0.5], "lsh": [0.1, 0.2, 0.3]})
    lead, left_out = find_lead(rows)
    assert (lead.leader, left_out) == ("itq", ["good"])
    assert column_sentence(16, rows).endswith("Left out, as not all of their seeds are there: good.")


# --- tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a finished run on two data sets."""
    folder = tmp_path_factory.mktemp("comparison")
    rng = np.random.default_rng(0)
    np.savez(folder / "mine.npz", X=rng.standard_normal((600, 8)))
    arguments = ["digits", str(folder / "mine.npz"), "--methods", "itq-cca,itq,lsh", "--bits", "8,16", "--seeds", "2"]
    assert main(["compare", *arguments, "--tune", "2", "--out", str(folder / "out")]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def rows():
    return compare(methods=["itq", "lsh"], nbits=[8, 16], n_seeds=2)[0]


def test_table_has_one_line_a_method_and_length(rows):
    lines = markdown_table(rows).splitlines()
    assert len(lines) == 2 + 4
    assert len({line.count("|") for line in lines}) == 1
    assert "±" in lines[2]


def test_several_data_sets_have_a_table_each(rows):
    others = [row | {"dataset": "other"} for row in rows]
    text = markdown_table(rows + others)
    assert (
        text
        == f"digits, protocol holdout\n\n{markdown_table(rows)}\n\nother, protocol holdout\n\n{markdown_table(others)}"
    )


def test_report_can_be_read_back(rows, tmp_path):
    bare = [{name: value for name, value in row.items() if name not in ("curves", "description")} for row in rows]
    folder = write_report(tmp_path / "new" / "report", bare, "A sentence.")
    assert json.loads((folder / "results.json").read_text()) == bare
    text = (folder / "results.md").read_text(encoding="utf-8")
    assert markdown_table(rows) in text
    assert "# digits, protocol holdout\n\nA sentence." in text
    assert "A sentence." in (folder / "report.html").read_text(encoding="utf-8")
    assert "# digits, protocol holdout\n\ndigits, protocol 'holdout': 359 queries" in (
        write_report(tmp_path, rows) / "results.md"
    ).read_text(encoding="utf-8")


# --- the page


class Page(HTMLParser):
    """Tags, texts, and whether all that was opened is closed."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.text = [], [], {}
        source = path.read_text(encoding="utf-8")
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.setdefault(self.open[-1] if self.open else "", []).append(data.strip())

    def all(self, tag, attribute=None):
        return [attrs if attribute is None else attrs.get(attribute) for name, attrs in self.tags if name == tag]

    def words(self):
        return " ".join(" ".join(texts) for texts in self.text.values())


def test_the_page_stands_alone(folder):
    page = Page(folder / "report.html")
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    references = [value for _, attrs in page.tags for name, value in attrs.items() if name in ("src", "href", "srcset")]
    assert all(value.startswith(("data:image/svg+xml;base64,", "#")) for value in references)
    assert "url(" not in (style := "".join(page.text["style"]))
    assert "@import" not in style
    assert set(page.all("a", "href")) == {f"#{anchor}" for anchor in page.all("section", "id")}
    assert "width=device-width, initial-scale=1" in page.all("meta", "content")


def test_the_page_says_all(folder):
    page, words = Page(folder / "report.html"), Page(folder / "report.html").words()
    assert page.text["h2"] == [
        "digits, protocol holdout",
        "mine, protocol labelme",
        "How to read this",
        "How it was made",
    ]
    for sentence in ("digits, protocol 'holdout': 359 queries against", "levels 1, 2, 5, 10 at the distances"):
        assert sentence in words
    for sentence in (folder / "results.md").read_text(encoding="utf-8").split("\n- ")[1:3]:
        assert sentence.split("\n")[0] in page.text["li"]
    assert (
        "itq-cca: not applicable: it learns from labels, and relevance is given by a DistanceAffinity."
        in page.text["li"]
    )
    assert "2 candidates, the defaults among them, were compared by AP_T" in words
    assert "nothing to tune: itq, lsh" in words
    assert f"skhash {__version__}, numpy {np.__version__}, scipy " in words
    assert all(f", {name} {version(name)}" in words for name in ("scikit-learn", "torch"))
    assert any(text.startswith("skhash compare digits") and "--tune 2" in text for text in page.text["code"])
    results = json.loads((folder / "results.json").read_text())
    assert {row["codes_sha256"][:12] for row in results if row["ap"]} <= set(page.text["code"])
    for row in results:
        for name, value in row["parameters"].items():
            assert f"{name}={value!r}" in words
    tables = page.all("div", "aria-label")
    assert [name for name in tables if name and "mine" in name] == [
        "AP_T and its tie range on mine, protocol labelme",
        "NDCG_T on mine, protocol labelme",
        "All figures on mine, protocol labelme",
        "Parameters and codes on mine, protocol labelme",
    ]


def test_pictures_are_whole_svg_files(folder):
    pytest.importorskip("matplotlib")
    page = Page(folder / "report.html")
    images = page.all("img")
    # of each data set: two figures by code length; at each of two lengths tie ranges and two curves
    assert [image["alt"] for image in images][:5] == [
        "AP_T, digits, protocol holdout, by code length",
        "NDCG_T, digits, protocol holdout, by code length",
        "AP_T in its tie range, digits, protocol holdout, at 8 bits",
        "Precision and recall by radius, digits, protocol holdout, at 8 bits",
        "Precision among the first N, digits, protocol holdout, at 8 bits",
    ]
    assert len(images) == 2 * (2 + 2 * 3)
    for image in images:
        svg = base64.b64decode(image["src"].partition(",")[2]).decode()
        assert svg.rstrip().endswith("</svg>")
        assert not re.search(r'(href|src)="(?!#)', svg)


def assert_snippet_gives_the_codes(page, capsys):
    snippet = next(text for text in Page(page).text["code"] if text.startswith("import hashlib"))
    exec(compile(snippet, "snippet", "exec"), {})
    assert capsys.readouterr().out.strip() == snippet.rpartition("# ")[2]


def test_snippet_of_the_page_gives_the_codes_of_an_own_file(tmp_path, capsys):
    name, rng = str(tmp_path / "mine.npz"), np.random.default_rng(0)
    np.savez(name, X=rng.standard_normal((200, 8)), y=np.arange(200) % 2)
    assert main(["compare", name, "--methods", "itq", "--bits", "8", "--seeds", "1", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert_snippet_gives_the_codes(tmp_path / "report.html", capsys)


def test_snippet_of_the_page_gives_the_codes(folder, capsys):
    assert_snippet_gives_the_codes(folder / "report.html", capsys)


def test_a_protocol_of_ones_own_has_no_snippet(tmp_path):
    own = Protocol("small", "a fifth are queries", 0.2)
    rows, _ = compare(protocol=own, methods=["lsh"], nbits=[8], n_seeds=1)
    assert "import hashlib" not in (write_report(tmp_path, rows) / "report.html").read_text(encoding="utf-8")


def test_a_report_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"rows=\[\]; at least one row"):
        write_report(tmp_path / "new", [])
    assert not (tmp_path / "new").exists()


def test_without_matplotlib_there_are_no_pictures_and_the_page_says_so(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    page = Page(write_report(tmp_path, rows) / "report.html")
    assert not page.all("img")
    assert 'There are no pictures, as matplotlib is not installed: pip install "skhash[report]".' in page.text["p"]


def test_failures_are_escaped_and_have_their_cell(tmp_path):
    rows = hand_made({"a": [0.5, 0.25], "b": [0.5, None], "c": [None, None]}, description="d & p")
    page = Page(write_report(tmp_path, rows) / "report.html")
    assert "c (16 bits, seed 0, 1): failed: ValueError: <no> & no." in page.text["li"]
    assert "1 of 2 seeds" in page.text["small"]
    assert page.text["td"].count("failed") == 2 + 1


def test_a_method_with_fewer_seeds_than_the_others_says_so_in_every_table(tmp_path):
    page = Page(write_report(tmp_path, hand_made({"a": [0.5, 0.25], "b": [0.5]}, description="")) / "report.html")
    assert page.text["small"].count("1 of 2 seeds") == len(NAMES)


def test_the_page_is_built_again_from_the_rows(folder, tmp_path, capsys, monkeypatch):
    shutil.copytree(folder, tmp_path / "copy")
    before = (tmp_path / "copy" / "report.html").read_text(encoding="utf-8")
    for name in ("report.html", "results.json", "results.md"):
        (tmp_path / "copy" / name).unlink()
    monkeypatch.setattr("skhash.comparison.run.load", None)
    assert main(["report", str(tmp_path / "copy")]) == 0
    assert "report.html" in capsys.readouterr().out
    assert (tmp_path / "copy" / "report.html").read_text(encoding="utf-8") == before


def test_rows_of_other_settings_are_not_mixed(tmp_path):
    options = {"nbits": [8], "folder": tmp_path}
    compare(methods=["itq-cca", "lsh"], n_seeds=2, **options)
    compare(methods=["itq-cca"], n_seeds=1, tune=2, **options)
    assert len(Store(tmp_path).records()) == 5
    assert main(["report", str(tmp_path)]) == 0
    page = Page(tmp_path / "report.html")
    assert "4 rows of earlier runs with other settings are in the folder and left out." in page.text["p"]
    assert "itq-cca leads AP_T" in page.words()
    assert "without a rival" in page.words()
