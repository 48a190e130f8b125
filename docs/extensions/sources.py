"""Pages of the source code with an anchor for each line, and links from the API to them.

``sphinx.ext.viewcode`` has pages for documented objects only; formulas are shown beside private
functions, too.
"""

import importlib
import inspect
from pathlib import Path

import skhash

HOUSE = Path(skhash.__file__).parent


def page_of(path, line):
    """Name of the page of a file, with the anchor of a line."""
    return f"source/{path.relative_to(HOUSE.parent).with_suffix('')}.html#L-{line}"


def linkcode_resolve(domain, info):
    """Link an object of the API, whose page lies two folders deep, to its source."""
    if domain != "py" or not info["module"].startswith("skhash"):
        return None
    found = importlib.import_module(info["module"])
    for name in info["fullname"].split("."):
        found = getattr(found, name, None)
    found = inspect.unwrap(found.fget if isinstance(found, property) else found)
    try:
        path, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
    except (TypeError, OSError):  # data
        return None
    return f"../../{page_of(Path(path), line)}" if HOUSE in Path(path).parents else None


def collect_pages(app):
    """Yield a page for each file of skhash."""
    for path in sorted(HOUSE.rglob("*.py")):
        name = path.relative_to(HOUSE.parent)
        code = app.builder.highlighter.highlight_block(
            path.read_text(encoding="utf-8"), "python", linenos="inline", lineanchors="L"
        )
        body = f"<h1>{name}</h1>\n{code}"
        yield page_of(path, 0).partition(".html")[0], {"title": str(name), "body": body, "parents": []}, "page.html"


def setup(app):
    """Write the pages when the others are written."""
    app.connect("html-collect-pages", collect_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
