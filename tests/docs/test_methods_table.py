"""The table of methods in the documentation."""

from pathlib import Path

import pytest

from skhash.registry import METHODS

pytest.importorskip("sphinx", reason="the documentation needs the docs extra, with which CI runs this test")
from methods_table import HEAD, lines_of_methods, pages_of_methods

PAGES = Path(__file__).parents[2] / "docs/methods"


def test_one_line_per_method():
    lines = lines_of_methods()
    assert len(lines) == len(METHODS)
    assert all(len(line) == len(HEAD) and all(line) for line in lines)
    assert lines[0] == [
        ":doc:`talr </methods/talr>`",
        "deep",
        "He et al., CVPR 2018",
        "labels or an affinity",
        "first choice with labels, or with any other affinity",
    ]


def test_each_method_has_a_page_in_the_navigation():
    assert sorted(pages_of_methods()) == sorted(path.stem for path in PAGES.glob("*.rst") if path.stem != "index")
