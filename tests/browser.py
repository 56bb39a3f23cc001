"""A headless Chromium for tests of pages, driven by its own chromedriver (W3C WebDriver, the few commands that are used)."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of element references, by the standard
KEYS = {
    "down": "\ue015", "up": "\ue013", "left": "\ue012", "right": "\ue014", "enter": "\ue007", "escape": "\ue00c",
    "tab": "\ue004", "end": "\ue010", "home": "\ue011", "pagedown": "\ue00f",
}  # fmt: skip


def programs() -> tuple[str, str]:
    """chromium and chromedriver; the calling test is skipped, naming them, where they are missing."""
    browser = next(
        (p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None
    )
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs chromium and chromedriver (Debian packages chromium, chromium-driver)")
    assert browser is not None and driver is not None
    return browser, driver


class Browser:
    """One window. `errors` has every message of the console above info that was seen."""

    def __init__(self, width: int = 1500, height: int = 950) -> None:
        browser, driver = programs()
        self.folder = tempfile.mkdtemp(prefix="browser-")
        self.process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        port = ""
        for line in self.process.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                port = found.group(1)
                break
        self.root = f"http://127.0.0.1:{port}/session"
        self.errors: list[str] = []
        options = {
            "binary": browser,
            "args": [*FLAGS, f"--user-data-dir={self.folder}", f"--window-size={width},{height}"],
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._post(self.root, {"capabilities": {"alwaysMatch": wanted}})
        self.root += "/" + made["sessionId"]

    def close(self) -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(self.root, method="DELETE"), timeout=20)
        except OSError:
            pass
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _post(self, url: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def open(self, page: Path) -> None:
        self._post(self.root + "/url", {"url": page.absolute().as_uri()})

    def js(self, script: str, *args: Any) -> Any:
        """What the body of a function returns."""
        return self._post(self.root + "/execute/sync", {"script": script, "args": list(args)})

    def size(self, width: int, height: int) -> None:
        self._post(self.root + "/window/rect", {"width": width, "height": height})

    def find(self, selector: str) -> str:
        found: str = self._post(self.root + "/element", {"using": "css selector", "value": selector})[ELEMENT]
        return found

    def count(self, selector: str) -> int:
        return int(self.js("return document.querySelectorAll(arguments[0]).length", selector))

    def text(self, selector: str) -> str:
        return str(self.js("return document.querySelector(arguments[0]).textContent", selector))

    def click(self, selector: str) -> None:
        self._post(f"{self.root}/element/{self.find(selector)}/click", {})

    def point(self, selector: str, x: int = 0, y: int = 0) -> None:
        """Moves the mouse to an element's middle, shifted."""
        origin = {ELEMENT: self.find(selector)}
        move = {"type": "pointerMove", "duration": 0, "x": x, "y": y, "origin": origin}
        self._post(
            self.root + "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]}
        )

    def press(self, *keys: str) -> None:
        """Presses keys, one after another, wherever the focus is."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._post(
            self.root + "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}
        )

    def fill(self, selector: str, value: str) -> None:
        """Sets a field as its user would: value, then the events of input."""
        self.js(
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true}))",
            selector, value,
        )  # fmt: skip

    def console(self) -> list[str]:
        """Messages of the console since the last call."""
        return [entry["message"] for entry in self._post(self.root + "/se/log", {"type": "browser"})]

    def picture(self, selector: str) -> bytes:
        """An element as PNG."""
        found = self.find(selector)
        self.js("document.querySelector('header').style.position = 'static'")  # it would lie above
        self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'start'})", selector)
        with urllib.request.urlopen(f"{self.root}/element/{found}/screenshot", timeout=60) as answer:
            return base64.b64decode(json.load(answer)["value"])
