"""The HTML page of a comparison."""

import base64
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib.metadata import version

import numpy as np
import pytest

from skhash import __version__
from skhash.comparison import compare, write_report
from skhash.datasets import Protocol


class Page(HTMLParser):
    """Tags and texts of a page; all tags must be closed."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.text = [], [], {}
        self.feed(path.read_text(encoding="utf-8"))
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

    def all(self, tag, attribute):
        return [attrs.get(attribute) for name, attrs in self.tags if name == tag]

    def words(self):
        return " ".join(" ".join(texts) for texts in self.text.values())


@pytest.fixture
def without_pictures(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture(scope="module")
def pictured(results, tmp_path_factory):
    """The page of one data set, with all pictures."""
    pytest.importorskip("matplotlib")
    return Page(write_report(tmp_path_factory.mktemp("page"), results) / "report.html")


def test_the_page_refers_to_no_other_file(pictured):
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in pictured.tags}
    references = [v for _, attrs in pictured.tags for name, v in attrs.items() if name in ("src", "href", "srcset")]
    assert all(value.startswith(("data:image/svg+xml;base64,", "#")) for value in references)
    style = "".join(pictured.text["style"])
    assert "url(" not in style
    assert "@import" not in style
    assert set(pictured.all("a", "href")) == {f"#{anchor}" for anchor in pictured.all("section", "id")}
    assert "width=device-width, initial-scale=1" in pictured.all("meta", "content")


def test_pictures_are_complete_svg_files(pictured):
    name = "digits, protocol holdout"
    at = ["AP_T in its tie range", "Precision and recall by radius", "Precision among the first N"]
    assert pictured.all("img", "alt") == [
        *(f"{metric}, {name}, by number of bits" for metric in ("AP_T", "NDCG_T")),
        *(f"{title}, {name}, at {bits} bits" for bits in (8, 16) for title in at),
    ]
    for source in pictured.all("img", "src"):
        svg = base64.b64decode(source.partition(",")[2]).decode()
        assert svg.rstrip().endswith("</svg>")
        assert not re.search(r'(href|src)="(?!#)', svg)


def test_a_page_without_matplotlib_has_no_pictures_and_says_so(results, tmp_path, without_pictures):
    page = Page(write_report(tmp_path, results) / "report.html")
    assert not page.all("img", "src")
    assert "There are no pictures, since matplotlib is not installed: pip install matplotlib." in page.text["p"]


def test_the_page_has_a_section_per_data_set(own_file, tmp_path, without_pictures):
    options = {"methods": ["itq-cca", "lsh"], "nbits": [8], "n_seeds": 1, "tune": 2, "folder": tmp_path}
    results, description = compare(["digits", own_file], **options, command="skhash compare digits")
    page = Page(write_report(tmp_path, results) / "report.html")
    words, names = page.words(), ["digits, protocol holdout", "mine, protocol labelme"]
    assert page.text["h2"] == [*names, "How to read this", "How to reproduce this"]
    for sentence in description.splitlines():
        assert sentence in words
    assert "itq-cca: not applicable: it learns from labels, and relevance is given by a DistanceAffinity." in words
    assert "2 candidates including the default were compared by AP_T" in words
    assert f"skhash {__version__}, numpy {np.__version__}, scipy " in words
    assert all(f", {name} {version(name)}" in words for name in ("scikit-learn", "torch"))
    assert "skhash compare digits" in page.text["code"]
    assert {result.codes_sha256[:12] for result in results if result["ap"]} <= set(page.text["code"])
    for result in results:
        assert all(f"{name}={value!r}" in words for name, value in result.parameters.items())
    assert [name for name in page.all("div", "aria-label") if name and "mine" in name] == [
        f"{table} on {names[1]}"
        for table in ("AP_T and its tie range", "NDCG_T", "All metrics", "Parameters and codes")
    ]


@pytest.mark.parametrize("source", ["digits", "own"])
def test_the_snippet_gives_the_codes(source, tmp_path, capsys, without_pictures):
    if source == "own":
        source = str(tmp_path / "mine.npz")
        np.savez(source, X=np.random.default_rng(0).standard_normal((200, 8)), y=np.arange(200) % 2)
    results, _ = compare(source, methods=["itq"], nbits=[8], n_seeds=1)
    page = Page(write_report(tmp_path, results) / "report.html")
    snippet = next(text for text in page.text["code"] if text.startswith("import hashlib"))
    exec(compile(snippet, "snippet", "exec"), {})
    assert capsys.readouterr().out.strip() == snippet.rpartition("# ")[2]


def test_a_custom_protocol_has_no_snippet(tmp_path, without_pictures):
    results, _ = compare(protocol=Protocol("small", "a fifth are queries", 0.2), methods=["lsh"], nbits=[8], n_seeds=1)
    assert "import hashlib" not in (write_report(tmp_path, results) / "report.html").read_text(encoding="utf-8")


def test_failures_are_escaped_and_have_a_cell(hand_made, tmp_path, without_pictures):
    results = hand_made({"a": [0.5, 0.25], "b": [0.5, None], "c": [None, None]}, description="d & p")
    page = Page(write_report(tmp_path, results) / "report.html")
    assert "c (16 bits, seed 0, 1): failed: ValueError: <no> & no." in page.text["li"]
    assert "1 of 2 seeds" in page.text["small"]
    assert page.text["td"].count("failed") == 2 + 1


def test_leaders_are_bold(hand_made, tmp_path, without_pictures):
    results = hand_made({"a": [0.5, 0.25], "b": [0.25, 0.5], "<c>": [0.125, 0.0]})
    page = Page(write_report(tmp_path, results) / "report.html")
    assert page.all("td", "class").count("best") == 2 * len(("AP_T", "NDCG_T"))
    assert page.text["b"].count("0.375 ± 0.177") == 2 * len(("AP_T", "NDCG_T"))
    assert "at most two standard errors below it" in page.words()


def test_every_table_names_methods_with_fewer_seeds(hand_made, tmp_path, without_pictures):
    page = Page(write_report(tmp_path, hand_made({"a": [0.5, 0.25], "b": [0.5]})) / "report.html")
    assert page.text["small"].count("1 of 2 seeds") == len(("AP_T", "NDCG_T"))


def test_results_without_curves_have_fewer_pictures(results, tmp_path):
    pytest.importorskip("matplotlib")
    bare = [replace(result, curves=None) for result in results if result.nbits == 8]
    page = Page(write_report(tmp_path, bare) / "report.html")
    assert [alt.partition(",")[0] for alt in page.all("img", "alt")] == ["AP_T in its tie range"]


def test_the_page_explains_the_metrics_that_it_shows(hand_made, tmp_path, without_pictures):
    both = hand_made({"a": [0.5]})
    one = [replace(result, metrics={"ndcg_at_5": 0.5}) for result in both]
    pages = [Page(write_report(tmp_path, results) / "report.html").text["p"] for results in (both, one)]
    notes = [[note for note in texts if "closed form" in note or "tie range is" in note] for texts in pages]
    average = "over all orders of the items at equal distance, in closed form"
    assert notes[0][0].startswith(f"AP_T and NDCG_T are means {average}; AP is average precision, NDCG is ")
    assert notes[0][1].startswith("The tie range is the metric with the relevant items of each tie last and first")
    assert notes[1] == [f"NDCG_T@5 is the mean {average}; NDCG is normalized discounted cumulative gain."]
