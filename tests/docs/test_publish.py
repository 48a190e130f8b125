"""The pages of several versions, and the list of them."""

import importlib.util
import json
from pathlib import Path

PATH = Path(__file__).parents[2] / "docs" / "publish.py"


def publish(tmp_path, *refs):
    spec = importlib.util.spec_from_file_location("publish", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = tmp_path / "pages"
    pages.mkdir()
    for ref in refs:
        html = tmp_path / ref
        html.mkdir()
        (html / "index.html").write_text(ref)
        module.main(str(html), str(pages), ref)
    return pages


def test_each_version_has_a_folder_and_the_newest_is_stable(tmp_path):
    pages = publish(tmp_path, "main", "v0.9.0", "v0.10.0", "v0.9.1")
    assert {path.parent.name: path.read_text() for path in pages.glob("*/index.html")} == {
        "dev": "main",
        "0.9": "v0.9.1",
        "0.10": "v0.10.0",
        "stable": "v0.10.0",
    }
    versions = json.loads((pages / "versions.json").read_text())
    assert [version["version"] for version in versions] == ["0.10", "0.9", "dev"]
    assert [version.get("preferred") for version in versions] == [True, None, None]
    assert "url=stable/" in (pages / "index.html").read_text()


def test_without_a_release_the_first_page_is_that_of_main(tmp_path):
    assert "url=dev/" in (publish(tmp_path, "main") / "index.html").read_text()
