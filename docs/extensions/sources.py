"""Pages of the source code with one anchor per line, and links from the API to these pages.

``sphinx.ext.viewcode`` has pages only for documented objects, but the method pages also show
private functions.
"""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import skhash

PACKAGE = Path(skhash.__file__).parent


def page_of(path: Path, line: int) -> str:
    """Name of the page of a file, with the anchor of a line."""
    return f"source/{path.relative_to(PACKAGE.parent).with_suffix('')}.html#L-{line}"


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Link from the page of an API object, which is two folders deep, to its source."""
    if domain != "py" or not info["module"].startswith("skhash"):
        return None
    found: Any = importlib.import_module(info["module"])
    for name in info["fullname"].split("."):
        found = getattr(found, name, None)
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(found)
    try:
        path, line = Path(inspect.getsourcefile(found) or ""), inspect.getsourcelines(found)[1]
    except (TypeError, OSError):  # data
        return None
    return f"../../{page_of(path, line)}" if PACKAGE in path.parents else None


def collect_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield one page per file of skhash."""
    highlighter: Any = app.builder.highlighter  # type: ignore[attr-defined]
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE.parent)
        code = highlighter.highlight_block(
            path.read_text(encoding="utf-8"), "python", linenos="inline", lineanchors="L"
        )
        body = f"<h1>{name}</h1>\n{code}"
        yield page_of(path, 0).partition(".html")[0], {"title": str(name), "body": body, "parents": []}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the source pages together with the others."""
    app.connect("html-collect-pages", collect_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
