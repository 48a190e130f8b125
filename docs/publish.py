"""Put built pages among those of other versions: ``python publish.py HTML PAGES REF``.

REF is "main", whose pages go to ``dev``, or a tag such as "v0.1.2", whose pages go to ``0.1`` and ``stable``. The list
of versions, which the pages read, is ``versions.json``. The first page leads to ``stable``, or to ``dev`` without one.
"""

import json
import re
import shutil
import sys
from pathlib import Path

URL = "https://scikit-hash.github.io/scikit-hash"


def main(html: str, folder: str, ref: str) -> None:
    """Copy the pages, and write the list of versions and the first page."""
    pages, release = Path(folder), re.fullmatch(r"v(\d+\.\d+)\.\d+", ref)
    replace(pages / (release[1] if release else "dev"), html)
    numbers = [path.name for path in pages.iterdir() if re.fullmatch(r"\d+\.\d+", path.name)]
    numbers.sort(key=lambda name: [*map(int, name.split("."))], reverse=True)
    versions = [{"name": name, "version": name, "url": f"{URL}/{name}/"} for name in numbers]
    if numbers:  # a patch of an older version is not the stable one
        replace(pages / "stable", pages / numbers[0])
        versions[0] |= {"name": f"{numbers[0]} (stable)", "preferred": True, "url": f"{URL}/stable/"}
    if (pages / "dev").exists():
        versions.append({"name": "dev", "version": "dev", "url": f"{URL}/dev/"})
    (pages / "versions.json").write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")
    first = "stable" if numbers else "dev"
    (pages / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={first}/">\n', encoding="utf-8")
    (pages / ".nojekyll").touch()  # GitHub would leave out folders that begin with an underscore


def replace(folder: Path, source: str | Path) -> None:
    """Copy a folder to a place where pages of an earlier build may be."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
