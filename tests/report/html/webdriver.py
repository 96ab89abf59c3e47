"""A browser for tests: just enough of the WebDriver protocol to open a page, run script in it and read its log."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--force-prefers-reduced-motion"]


def available() -> bool:
    """Whether there are a Chromium and its driver."""
    return shutil.which("chromedriver") is not None and _browser() is not None


def _browser() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


class Page:
    """One window; `run` is synchronous and gives back what the script returns."""

    def __init__(self, base: str) -> None:
        self._base = base

    def _call(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{self._base}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path: Path, *, width: int, dark: bool, fragment: str = "") -> None:
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
        self._devtools("Emulation.setEmulatedMedia", {"features": media})
        self._devtools("Emulation.setDeviceMetricsOverride", size)
        self._call("url", {"url": "about:blank"})
        self._call("url", {"url": path.as_uri() + fragment})

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._call("goog/cdp/execute", {"cmd": command, "params": parameters})

    def run(self, script: str) -> Any:
        return self._call("execute/sync", {"script": script, "args": []})

    def eventually(self, script: str, wanted: Any, *, seconds: float = 30) -> Any:
        """What the script returns as soon as that is what is wanted: "load" runs after a page counts as ready."""
        end = time.monotonic() + seconds
        while (got := self.run(script)) != wanted and time.monotonic() < end:
            time.sleep(0.05)
        return got

    def roles(self) -> Counter[str]:
        """How many things of each role the browser tells a screen reader of."""
        self._devtools("Accessibility.enable", {})
        self.run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        nodes = self._devtools("Accessibility.getFullAXTree", {})["nodes"]
        return Counter(node["role"]["value"] for node in nodes if not node["ignored"])

    def complaints(self) -> list[Any]:
        """What axe-core finds, where $BNFOLD_AXE says where axe.min.js is; what a page must have anyway, everywhere."""
        found: list[Any] = self.run(
            "return [...document.querySelectorAll('svg[role=img]')]"
            ".filter(e => !e.getAttribute('aria-label') && !e.querySelector('title'))"
            ".map(e => e.outerHTML.slice(0, 80))"
        )
        ids: list[Any] = self.run(
            "const ids = [...document.querySelectorAll('[id]')].map(e => e.id);"
            "return ids.filter((id, place) => ids.indexOf(id) !== place)"
        )
        if "BNFOLD_AXE" not in os.environ:
            return found + ids
        self.run(Path(os.environ["BNFOLD_AXE"]).read_text(encoding="utf-8"))
        self.run("window.found = null; axe.run(document).then(result => { window.found = result.violations })")
        self.eventually("return window.found !== null", True)
        violations = self.run("return window.found.map(v => [v.id, v.impact])")
        return found + ids + [violation for violation in violations if violation[1] in ("serious", "critical")]

    def log(self) -> list[str]:
        """Console messages and page errors since the last call."""
        return [entry["message"] for entry in self._call("se/log", {"type": "browser"})]


@contextmanager
def browser() -> Iterator[Page]:
    """A fresh browser, gone afterwards."""
    driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert driver.stdout is not None
        port = next(
            line.rsplit(" ", 1)[1].strip(".\n") for line in driver.stdout if "started successfully on port" in line
        )
        options = {"binary": _browser(), "args": ARGUMENTS}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        server = Page(f"http://127.0.0.1:{port}")
        session = server._call("session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        page = Page(f"http://127.0.0.1:{port}/session/{session}")
        try:
            yield page
        finally:
            request = urllib.request.Request(page._base, method="DELETE")
            urllib.request.urlopen(request, timeout=60).close()
    finally:
        driver.terminate()
        driver.wait()
        if driver.stdout is not None:
            driver.stdout.close()
