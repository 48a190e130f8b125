"""Code that the pages show has lines of at most 88 columns, so that no block scrolls sideways on a desk.

docs/check.py looks at the built pages: outputs of the gallery, and functions beside formulas.
"""

import ast
import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLUMNS = 88
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.rst"))]
PAGES += [
    page for folder in ("api", "guide", "methods", "results") for page in sorted((ROOT / "docs" / folder).glob("*.rst"))
]
#: modules with pages; the few private modules that also have some are for docs/check.py
MODULES = sorted(path for path in ROOT.glob("skhash/**/*.py") if "/_" not in path.relative_to(ROOT).as_posix())
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
#: fences of Markdown; blocks of reStructuredText, which are indented; examples with their results
BLOCKS = (
    r"^```.*\n((?:.*\n)*?)```",
    r"^\.\. code-block::.*\n((?:(?: +.*)?\n)+)",
    r"^((?:>>> .*\n(?:\.\.\..*\n)*(?:(?!>>> ).+\n)*)+)",
)


def long_lines(text):
    return [line for line in text.splitlines() if len(line) > COLUMNS]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_blocks_of_pages(path):
    text = path.read_text(encoding="utf-8")
    assert [
        line for block in BLOCKS for found in re.findall(block, text, re.MULTILINE) for line in long_lines(found)
    ] == []


def test_blocks_are_found():
    text = "```bash\none\n```\n\n.. code-block:: bash\n\n   two\n\nprose\n\n>>> three\n... four\nfive\n"
    assert [re.findall(block, text, re.MULTILINE) for block in BLOCKS] == [
        ["one\n"],
        ["\n   two\n\n"],
        [">>> three\n... four\nfive\n"],
    ]


def test_examples_of_docstrings():
    parser, found = doctest.DocTestParser(), []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for example in parser.get_examples(ast.get_docstring(node) or ""):
                    lines = [f">>> {line}" for line in example.source.splitlines()] + example.want.splitlines()
                    found += [(path.name, line) for line in lines if len(line) > COLUMNS]
    assert found == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_code_of_the_gallery(path):
    code = re.sub(r'\A""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [line for line in long_lines(code) if not line.startswith("#")] == []  # prose, which the page wraps


def test_code_of_the_package_is_wrapped_and_stays_the_same():
    comment = "because the page is narrower than the file, and a reader should not have to scroll sideways"
    parameters = "self, H, encoder, targets, indices, learning_rate, weight_decay, objective"
    code = f"def loss({parameters}):\n    # {comment}\n    return H"
    formulas = pytest.importorskip("formulas", reason="needs the docs extra, with which CI runs this test")
    wrapped = formulas.wrap_code(code)
    assert long_lines(code)
    assert not long_lines(wrapped)
    assert ast.dump(ast.parse(wrapped)) == ast.dump(ast.parse(code))
    assert " ".join(re.findall(r"# (.*)", wrapped)) == comment
