"""Pages of tables in Markdown: they are up to date and whole, and what is missing is named with its values."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: what no hasher implements, by paper
MISSING = {
    "TALR": {"MACHash", "FastHash"},
    "HASHNET": {"CNNH", "DNNH"},
    "NSH": {
        *("DGH", "DeepBit", "SGH", "BGAN", "BinGAN", "HashGAN"),
        *("DVB", "DistillHash", "MLS3RDUH", "DATE", "MBE", "CIMON"),
    },
    "STRUCTHASH": {"SPLH", "STHs", "MDSH"},
}


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["results/tables.md", "results/missing.md", "methods/README.md"])
def test_pages_of_tables_are_up_to_date(tables, page):
    if page == "methods/README.md":
        pytest.importorskip("sphinx", reason="the documentation needs the docs extra, with which CI runs this test")
    written = (DOCS / page).read_text(encoding="utf-8")
    assert tables.PAGES[page]() == written, "run `python docs/tables.py` after a change of results or methods"


def test_every_table_of_the_pages_is_there(tables):
    text = tables.write_tables()
    pages = [page for page in DOCS.rglob("*.rst") if not {"_build", "auto_examples", "generated"} & {*page.parts}]
    n_directives = sum(page.read_text(encoding="utf-8").count("\n.. results-table::") for page in pages)
    assert text.count("\n| --- ") >= n_directives > 30
    for page in pages:
        if "\n.. results-table::" in page.read_text(encoding="utf-8"):
            name = page.relative_to(ROOT).as_posix()
            assert f"\n## [{name}](../../{name})\n" in text
    for link in re.findall(r"\]\((.*?)\)", text):
        assert (DOCS / "results" / link).exists(), link


def test_the_methods_that_are_missing_are_those_of_the_papers(tables):
    for paper, missing in MISSING.items():
        text = "\n".join(tables.missing_from(tables.PAPERS[paper][1]))
        assert {*re.findall(r"^\| (\w+) \| 0", text, re.MULTILINE)} == missing


def test_missing_methods_have_the_printed_values(tables):
    text = tables.write_missing()
    for line in (
        "| FastHash | 0.678 | 0.729 | 0.742 | 0.757 |",  # TALR, table 1
        "| MACHash | 0.683 | 0.683 | 0.683 | 0.687 |",  # TALR, table 3
        "| CNNH | 0.2812 | 0.4498 | 0.5245 | 0.5538 |",  # HashNet, table 1
        "| CIMON | 0.451 | 0.472 | 0.494 |",  # NSH, table 1
        "| SGH | 0.604 | 0.615 | 0.637 |",  # NSH, table 2
        "| MDSH | 0.100 | 0.100 | 0.119 | 0.018 |",  # StructHash, tables 1 and 2
    ):
        assert f"\n{line}\n" in text
