"""docs/look.py finds the faults of a page in a browser, and names the element."""

import shutil
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium, which the docs workflow has")
PAGE = """<!doctype html><html><head><style>
html {{ color: black; background: white }} p {{ font-size: 16px }}
@media (prefers-color-scheme: dark) {{ html {{ color: #222; background: black }} }}
</style></head><body><main><article>{}</article></main></body></html>"""


@pytest.fixture
def faults_of(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from look import look

    def find(*bodies):
        for i, body in enumerate(bodies):
            (tmp_path / f"{i}.html").write_text(PAGE.format(body), encoding="utf-8")
        return list(look(tmp_path, tmp_path / "pictures", []))

    return find


def test_faults_are_found(faults_of):
    faults = faults_of(
        "<p>Short.</p>",
        '<p style="width: 1000px">Wide.</p>',
        f"<pre style='overflow-x: auto'>{'x' * 400}</pre>",
        f"<p style='overflow: hidden'><b style='display: inline-block'>{'y' * 400}</b></p>",
        '<p><img src="nowhere.png"></p>',
        f'<p style="width: 100px">{"z" * 30}</p>',
        '<p style="color: #999">Pale.</p>',
        '<p>A <small style="font-size: 8px">tiny</small> one.</p>',
    )
    light = [fault.replace(" pixels, light", "") for fault in faults if "light" in fault]
    picture = next(fault for fault in light if "picture" in fault).partition("no picture: ")[2]
    assert picture.endswith("/nowhere.png")
    assert light == [
        "1.html at 390: the page scrolls sideways",
        '1.html at 390: sticks out: p "Wide."',
        f'2.html at 1280: scrolls: pre "{"x" * 50}"',
        *(f'3.html at {width}: cut: b "{"y" * 50}"' for width in (1280, 390)),
        *(f"4.html at {width}: no picture: {picture}" for width in (1280, 390)),
        *(f'5.html at {width}: overflows: p "{"z" * 30}"' for width in (1280, 390)),
        *(f'6.html at {width}: contrast 2.8: p "Pale."' for width in (1280, 390)),
        *(f'7.html at {width}: letters of 8.0 pixels: small "tiny"' for width in (1280, 390)),
    ]


def test_a_dark_page_is_another_page(faults_of):
    assert faults_of("<p>Short.</p>") == [
        f'0.html at {width} pixels, dark: contrast 1.3: p "Short."' for width in (1280, 390)
    ]
