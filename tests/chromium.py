"""A headless Chromium, driven over the WebDriver protocol by the driver that its package brings.

Owns the few calls of the protocol that the tests need. A client library would bring an event loop
of its own into the process that runs the tests.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx

from command_line import spare_port

T = TypeVar("T")

CHROMIUM: Final = shutil.which("chromium")
DRIVER: Final = shutil.which("chromedriver")
WAIT_SECONDS: Final = 30.0
ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
"""How the protocol marks the id of an element."""
ENTER: Final = "\ue007"
TAB: Final = "\ue004"

_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)


class Refused(Exception):
    """The driver did not do what was asked; says why in the protocol's words."""


class Element:
    """Something on a page."""

    def __init__(self, browser: Browser, element_id: str) -> None:
        self._browser = browser
        self._path = f"/element/{element_id}"

    def click(self) -> None:
        self._browser.ask("POST", f"{self._path}/click", {})

    def fill(self, text: str) -> None:
        self._browser.ask("POST", f"{self._path}/clear", {})
        self.type(text)

    def type(self, text: str) -> None:
        self._browser.ask("POST", f"{self._path}/value", {"text": text})

    @property
    def text(self) -> str:
        return str(self._browser.ask("GET", f"{self._path}/text"))

    @property
    def width(self) -> float:
        return float(self._browser.ask("GET", f"{self._path}/rect")["width"])

    def attribute(self, name: str) -> str:
        return str(self._browser.ask("GET", f"{self._path}/attribute/{name}"))

    @property
    def is_gone(self) -> bool:
        """Whether its page was left."""
        try:
            self._browser.ask("GET", f"{self._path}/enabled")
        except Refused as refusal:
            return "stale element" in str(refusal) or "no such element" in str(refusal)
        return False


class Browser:
    """One window."""

    def __init__(self, http: httpx.Client, session: str) -> None:
        self._http = http
        self._session = session

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, f"/session/{self._session}{path}", json=body)
        value = answer.json()["value"]
        if answer.status_code != 200:
            raise Refused(f"{value['error']}: {value['message']}")
        return value

    def go(self, url: str) -> None:
        self.ask("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return str(self.ask("GET", "/url"))

    def find(self, css: str) -> Element:
        """The first element that matches, as soon as there is one."""
        return self.until(lambda: self._find("css selector", css))

    def find_by_path(self, xpath: str) -> Element:
        return self.until(lambda: self._find("xpath", xpath))

    def find_all(self, css: str) -> list[Element]:
        found = self.ask("POST", "/elements", {"using": "css selector", "value": css})
        return [Element(self, one[ELEMENT]) for one in found]

    def _find(self, using: str, value: str) -> Element | None:
        try:
            found = self.ask("POST", "/element", {"using": using, "value": value})
        except Refused as refusal:
            if "no such element" in str(refusal):
                return None
            raise
        return Element(self, found[ELEMENT])

    @property
    def focused(self) -> Element:
        return Element(self, self.ask("GET", "/element/active")[ELEMENT])

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns; if that is a promise, what it comes to."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def be(self, width: int, height: int, *, is_dark: bool = False, is_phone: bool = False) -> None:
        """Show pages as a screen of this size and kind does."""
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._command("Emulation.setEmulatedMedia", features=[scheme])

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse at one point of the window, move it to another, let go."""
        moves = [
            {"type": "pointerMove", "duration": 100, "x": round(x), "y": round(y)}
            for x, y in (start, end)
        ]
        press, release = ({"type": f"pointer{act}", "button": 0} for act in ("Down", "Up"))
        mouse = {
            "type": "pointer",
            "id": "mouse",
            "parameters": {"pointerType": "mouse"},
            "actions": [moves[0], press, moves[1], release],
        }
        self.ask("POST", "/actions", {"actions": [mouse]})

    def picture(self) -> bytes:
        """A PNG of what is in the window."""
        return base64.b64decode(self._command("Page.captureScreenshot", format="png")["data"])

    def _command(self, name: str, **params: Any) -> Any:
        """A command of the browser's own protocol."""
        return self.ask("POST", "/goog/cdp/execute", {"cmd": name, "params": params})

    def errors(self) -> list[str]:
        """What the pages complained of since this was asked last."""
        entries = self.ask("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def photograph(self, path: Path) -> None:
        """The whole page."""
        height = int(self.run("return document.documentElement.scrollHeight"))
        rect = {"width": 1280, "height": max(height + 150, 720)}
        self.ask("POST", "/window/rect", rect)
        path.write_bytes(base64.b64decode(self.ask("GET", "/screenshot")))

    @staticmethod
    def until(look: Callable[[], T | None]) -> T:
        """Wait until something is there; fails at a deadline."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := look()):
            assert time.monotonic() < deadline, "it did not appear"
            time.sleep(0.02)
        return found


@contextmanager
def browsing(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile, that talks to nobody but the page."""
    assert CHROMIUM is not None
    assert DRIVER is not None
    port = spare_port()
    process = subprocess.Popen(
        [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    options = {"binary": CHROMIUM, "args": [*_ARGUMENTS, f"--user-data-dir={profile}"]}
    wanted = {
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "goog:loggingPrefs": {"browser": "ALL"},
    }
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as http:
            Browser.until(lambda: _is_ready(http))
            made = http.post("/session", json={"capabilities": {"alwaysMatch": wanted}})
            assert made.status_code == 200, made.text
            browser = Browser(http, made.json()["value"]["sessionId"])
            try:
                yield browser
            finally:
                browser.ask("DELETE", "")
    finally:
        process.terminate()
        process.wait()


def _is_ready(http: httpx.Client) -> bool:
    try:
        return bool(http.get("/status").json()["value"]["ready"])
    except httpx.TransportError:
        return False
