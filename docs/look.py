"""Look at the built pages in a browser: ``python look.py _build/html FOLDER [PAGE ...]``.

Needs ``chromium`` and ``bash``. Each page is opened at the width of a desk (1280 pixels) and of a phone (390),
light and dark, and its faults are printed, with the name of the element: a page that scrolls sideways, what sticks
out of its box or is cut, a picture that is missing, and text of little contrast or in tiny letters. The pages of whole
source files are left out. At 1280 pixels, no
block of code and no table may scroll. If pages are given, only they are checked, and a screenshot of each is
stored in FOLDER.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

WIDTHS = {"desk": 1280, "phone": 390}
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe"
)
SETTLE = """(() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("* {transition: none !important}");
    document.adoptedStyleSheets = [sheet];
    return new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)));
})()"""
FIND_FAULTS = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


class Browser:
    """A headless browser that is spoken to through two pipes."""

    def __init__(self, profile: str) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        command = f'exec chromium {FLAGS} --user-data-dir="$0" 3<&{commands} 4>&{answers} 2>/dev/null'
        self._process = subprocess.Popen(["bash", "-c", command, profile], pass_fds=(commands, answers))
        os.close(commands), os.close(answers)
        self._buffer, self._count, self._session, self._loaded = b"", 0, {}, False
        (tab,) = (t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = {
            "sessionId": self.ask("Target.attachToTarget", targetId=tab["targetId"], flatten=True)["sessionId"]
        }
        self.ask("Page.enable")

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._answers, 1 << 20)
            if not data:
                raise RuntimeError("chromium ended, or it is not installed.")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        self._loaded |= answer.get("method") == "Page.loadEventFired"
        return answer

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command of the DevTools protocol, and return its result."""
        self._count += 1
        command = {"id": self._count, "method": method, "params": parameters} | self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while (answer := self._read()).get("id") != self._count:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def resize(self, width: int, scheme: str) -> None:
        """Give the browser a width, and a light or dark color scheme."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.run(SETTLE)

    def open(self, url: str) -> None:
        """Open a page, and wait until it is loaded."""
        self._loaded = False
        self.ask("Page.navigate", url=url)
        while not self._loaded:
            self._read()

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression, or of its promise."""
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)["result"].get(
            "value"
        )

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        picture: str = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        return base64.b64decode(picture)

    def close(self) -> None:
        """End the browser."""
        self.ask("Browser.close")
        self._process.wait()


def look(root: Path, folder: Path, pages: list[str]) -> Iterator[str]:
    """Faults of the pages; screenshots of the given pages are stored in the folder."""
    paths = (path.relative_to(root) for path in sorted(root.rglob("*.html")))
    chosen = pages or [str(path) for path in paths if path.parts[0] not in ("_static", "source")]
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(profile)
        try:
            for page in chosen:
                browser.open(f"file://{root / page}")
                for (name, width), scheme in product(WIDTHS.items(), ("light", "dark")):
                    browser.resize(width, scheme)
                    yield from (f"{page} at {width} pixels, {scheme}: {fault}" for fault in browser.run(FIND_FAULTS))
                    if pages:
                        target = folder / f"{page.removesuffix('.html').replace('/', '-')}_{name}_{scheme}.png"
                        target.write_bytes(browser.screenshot())
        finally:
            browser.close()


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    n_faults = 0
    for line in look(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3:]):
        print(line, flush=True)
        n_faults += 1
    sys.exit(f"{n_faults} faults" if n_faults else None)
