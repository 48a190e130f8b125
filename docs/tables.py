"""Write the pages of tables in Markdown, ``python docs/tables.py``: run it again when stored results change.

``docs/results/tables.md`` has the tables of the directives ``results-table``, and ``docs/methods/README.md`` that of
``methods-table``, for readers on GitHub, which does not build the pages. ``docs/results/missing.md`` has the methods of
the papers' tables that skhash does not have.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path += [str(DOCS / "extensions"), str(ROOT / "examples" / "reproductions")]

import _papers  # noqa: E402
from _orders import NAMES  # noqa: E402
from results import Cell, as_markdown, make_described_table  # noqa: E402

from skhash.registry import METHODS  # noqa: E402

HEADING = r"^(?P<title>\S.*)\n(?P<line>[=-])(?P=line){2,}$"
DIRECTIVE = r"^\.\. results-table:: (?P<path>\S+)\n(?P<options>(?: +:.*\n?)+)"
INCLUDE = r"^ *\.\. include:: (?P<included>\S+\.(?:md|txt))$"
PART = re.compile(f"{HEADING}|{DIRECTIVE}|{INCLUDE}", re.MULTILINE)
OPTION = re.compile(r"^ +:([\w-]+): *(.*)$", re.MULTILINE)

TABLES = """# Tables of the results

GitHub does not show the tables of the pages in `docs`, which are made when the pages are built. Here they are, by page
and section. The pages say how the results were measured, and what they mean. `python docs/tables.py` writes this file.
"""
MISSING = """# Methods of the papers that are missing

skhash implements TALR, HashNet, NSH and StructHash, and many of the methods that their papers compare with. Here are
the methods in the tables of the papers that skhash does not have, with the printed values. We have not measured them.
Most of the data and features of the papers are not ours, so do not compare these values with those of our pages.
`python docs/tables.py` writes this file.
"""
METHODS_TABLE = """# Methods

GitHub does not show the table of methods, which is made when the pages are built. Here it is. The name of a method
leads to its page, and its file holds the equations that the built page shows beside the code. `python docs/tables.py`
writes this file.
"""
PAPERS = {
    "TALR": ("TALR: He, Cakir, Bargal and Sclaroff, CVPR 2018", _papers.TALR),
    "HASHNET": ("HashNet: Cao, Long, Wang and Yu, ICCV 2017", _papers.HASHNET),
    "NSH": ("NSH: Yu, Shen, Wang, Zhang and Torr, IJCAI 2022", _papers.NSH),
    "STRUCTHASH": ("StructHash: Lin, Shen and Wu, ECCV 2014", _papers.STRUCTHASH),
}
#: data sets and metrics of the tables of StructHash, all with 64 bits
DATA = {"usps": "USPS", "mnist": "MNIST", "cifar_gist": "CIFAR10", "isolet": "ISOLET", "stl10": "STL10"}
METRICS = {"ndcg_at_100_delayed_log2": "NDCG@100", "precision_at_100": "P@100", "ap": "mAP", "area_under_pr": "PR"}
CAPITALS = {"splh": "SPLH", "sths": "STHs", "mdsh": "MDSH"}


def tables_of(page: Path) -> Iterator[tuple[str, str]]:
    """Each table of a page with the heading of its section, in Markdown; a file of tables is a link."""
    section = ""
    for part in PART.finditer(page.read_text(encoding="utf-8")):
        if part["title"]:
            section = part["title"] if part["line"] == "-" else ""
        elif part["path"]:
            options = dict(OPTION.findall(part["options"]))
            table, bold = make_described_table(part["path"], options)
            bold = f"**Bold**{bold}" if bold else ""
            below = f"{bold}Results: `{part['path']}`. Command: `{options['command']}`."
            yield section, f"{as_markdown(table)}\n\n{below}"
        else:
            path = (page.parent / part["included"]).resolve()
            name = path.relative_to(ROOT).as_posix()
            if path.suffix == ".txt":
                yield from ((section, table) for _, table in tables_of(path))
            elif path.is_relative_to(ROOT / "experiments"):
                yield section, f"Tables: [{name}](../../{name})"


def write_tables() -> str:
    """Markdown of all tables of the pages."""
    first = [DOCS / "results.rst", *sorted((DOCS / "results").glob("*.rst"))]
    others = [page for folder in (".", "methods", "guide") for page in sorted((DOCS / folder).glob("*.rst"))]
    parts = [TABLES.strip()]
    for page in dict.fromkeys([*first, *others]):
        name, last = page.relative_to(ROOT).as_posix(), ""
        tables = list(tables_of(page))
        if tables:
            parts.append(f"## [{name}](../../{name})")
        for section, table in tables:
            if section != last:
                parts.append(f"### {section}")
            parts.append(table)
            last = section
    return "\n\n".join(parts) + "\n"


def is_ours(name: str) -> bool:
    """Whether skhash has a method, by its name in a table of a paper."""
    name = name.rstrip("*")
    words = {name.lower(), NAMES.get(name, ""), re.split(r"[-+,]", name.lower())[0]}
    return not words.isdisjoint(METHODS)


def missing_from(tables: dict[str, dict[str, dict[Any, float]]]) -> Iterator[str]:
    """Tables of a paper in Markdown, with the methods that skhash does not have."""
    for title, methods in tables.items():
        lines = {name: values for name, values in methods.items() if not is_ours(name)}
        if not lines or "full" in methods:  # the variants of an ablation are ours
            continue
        columns = next(iter(methods.values()))
        printed = [value for values in methods.values() for value in values.values()]
        digits = 3 if all(value == round(value, 3) for value in printed) else 4  # as many as the paper prints
        heads = [METRICS.get(column, f"{column} bits") for column in columns]
        table = [[Cell("method"), *map(Cell, heads)]]
        for name, values in lines.items():
            cells = [Cell(f"{values[column]:.{digits}f}") for column in columns]
            table.append([Cell(CAPITALS.get(name, name)), *cells])
        head = f"Tables 1 and 2, {DATA[title]}, 64 bits" if title in DATA else title[0].upper() + title[1:]
        yield f"### {head}\n\n{as_markdown(table)}"


def write_missing() -> str:
    """Markdown of the methods that skhash does not have, by paper and table."""
    parts = [MISSING.strip()]
    for title, tables in PAPERS.values():
        parts += [f"## {title}", *missing_from(tables)]
    return "\n\n".join(parts) + "\n"


def write_methods() -> str:
    """Markdown of the table of methods, with links to their pages and files."""
    from methods_table import HEAD, lines_of_methods, pages_of_methods  # needs Sphinx

    table = [[Cell(HEAD[0]), Cell("file"), *map(Cell, HEAD[1:])]]
    for page, method, (_, *cells) in zip(pages_of_methods(), METHODS.values(), lines_of_methods(), strict=True):
        path = Path(*method.module.split(".")).with_suffix(".py")
        links = f"[{method.name}]({page}.rst)", f"[{path.name}](../../{path.as_posix()})"
        table.append([*map(Cell, links), *map(Cell, cells)])
    return f"{METHODS_TABLE}\n{as_markdown(table)}\n"


PAGES = {"results/tables.md": write_tables, "results/missing.md": write_missing, "methods/README.md": write_methods}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
        print(f"written: docs/{page}")
