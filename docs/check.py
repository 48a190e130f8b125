"""Check the built pages: ``python check.py _build/html``.

Every link and picture inside the site leads somewhere, anchors included; nothing is loaded from
elsewhere; every hasher has its pages.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from skhash.registry import HASHERS

#: tags that make a browser load something, and the attribute that says what
LOADED = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loaded = {""}, [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        """Collect."""
        attributes = dict(attrs)
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in LOADED and attributes.get(LOADED[tag]) and attributes.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(attributes[LOADED[tag]])
        self.loaded += [choice.split()[0] for choice in (attributes.get("srcset") or "").split(",") if choice.strip()]


def find_faults(root):
    """Yield a line for each fault of a built site.

    Parameters
    ----------
    root : Path
        Its folder.

    Yields
    ------
    str
        Page and fault.
    """
    page_at = cache(Page)
    for path in sorted(set(root.rglob("*.html")) - set(root.glob("_static/*"))):
        name, page = path.relative_to(root), page_at(path)
        for target in page.loaded:
            if urlsplit(target).netloc:
                yield f"{name} loads {target} from elsewhere"
        for target in [*page.links, *page.loaded]:
            url = urlsplit(target)
            if url.scheme or url.netloc or (name.name == "search.html" and not url.path):
                continue
            there = (path.parent / unquote(url.path)).resolve() if url.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file():
                yield f"{name} points to {target}, which is not there"
            elif there.suffix == ".html" and unquote(url.fragment) not in page_at(there).anchors:
                yield f"{name} points to {target}, and there is no such anchor"
    for hasher, path in HASHERS.items():
        module = path.split(".")[-2]
        for wanted in (f"methods/{module}.html", f"api/generated/skhash.{hasher}.html"):
            if not (root / wanted).is_file():
                yield f"{hasher} has no page {wanted}"


if __name__ == "__main__":
    faults = list(find_faults(Path(sys.argv[1]).resolve()))
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(f"{len(faults)} faults" if faults else None)
