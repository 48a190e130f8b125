"""Check the built pages: ``python check.py _build/html``.

Every link and image inside the site exists, anchors included. Nothing is loaded from another
site. Every hasher has its pages. No line of code, of an output or of a help text is longer than 88
characters, so that no block scrolls sideways on a screen of 1280 pixels; ``look.py`` measures this
in a browser. The pages of whole source files are left out.
"""

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from skhash.registry import HASHERS

#: tags that make a browser load something, and the attribute with its address
LOADED = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}


COLUMNS = 88


class Page(HTMLParser):
    """The anchors of a page, its links, what it loads, and the text of its literal blocks."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.literal = ""
        self._depth = 0  # of pre elements
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the anchors, links and loaded files of a tag."""
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in LOADED and attributes.get(LOADED[tag]) and attributes.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(attributes[LOADED[tag]])
        self._depth += tag == "pre"
        self.loaded += [choice.split()[0] for choice in (attributes.get("srcset") or "").split(",") if choice.strip()]

    def handle_endtag(self, tag: str) -> None:
        """Notice the end of a literal block."""
        if tag == "pre":
            self._depth -= 1
            self.literal += "\n"

    def handle_data(self, data: str) -> None:
        """Collect the text of literal blocks."""
        if self._depth:
            self.literal += data


def find_faults(root: Path) -> Iterator[str]:
    """Faults of a built site.

    Parameters
    ----------
    root : Path
        Folder of the site.

    Yields
    ------
    str
        Page and fault.
    """
    page_at = cache(Page)
    for path in sorted(set(root.rglob("*.html")) - set(root.glob("_static/*"))):
        name, page = path.relative_to(root), page_at(path)
        if name.parts[0] != "source":
            for line in page.literal.splitlines():
                if len(line) > COLUMNS:
                    yield f"{name} has a line of {len(line)} characters: {line[:60]}..."
        for target in page.loaded:
            if urlsplit(target).netloc:
                yield f"{name} loads {target} from elsewhere"
        for target in [*page.links, *page.loaded]:
            url = urlsplit(target)
            if url.scheme or url.netloc or (name.name == "search.html" and not url.path):
                continue
            there = Path(normpath(path.parent / unquote(url.path))) if url.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file():
                yield f"{name} points to {target}, which does not exist"
            elif there.suffix == ".html" and unquote(url.fragment) not in page_at(there).anchors:
                yield f"{name} points to {target}, which has no such anchor"
    for hasher, dotted in HASHERS.items():
        module = dotted.split(".")[-2]
        for expected in (f"methods/{module}.html", f"api/generated/skhash.{hasher}.html"):
            if not (root / expected).is_file():
                yield f"{hasher} has no page {expected}"


if __name__ == "__main__":
    faults = list(find_faults(Path(sys.argv[1]).resolve()))
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(f"{len(faults)} faults" if faults else None)
