"""The portal in a browser, as a person sees it: panels by their headings, the graph by its canvas.

Owns what tests ask of the page. What they compare it with comes from the API.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from chromium import Browser

AXE: Final = Path(__file__).parent / "data" / "axe-core-4.10.3.min.js"
SERIOUS: Final = ("serious", "critical")

_LIT_PIXELS: Final = """
const canvas = document.querySelector("#graph"), view = canvas.view;
const wanted = getComputedStyle(document.documentElement).getPropertyValue("--lit").trim();
const red = [1, 3, 5].map((at) => parseInt(wanted.slice(at, at + 2), 16));
return view.nodes.filter((node) => {
  const { x, y } = view.positionOf(node.id);
  const [r, g, b] = view.context.getImageData(x * view.ratio, y * view.ratio, 1, 1).data;
  return r === red[0] && g === red[1] && b === red[2];
}).map((node) => node.label).sort();
"""


class Portal:
    """The page, opened at a session."""

    def __init__(self, browser: Browser, url: str, session: str) -> None:
        self.browser = browser
        self.url = url
        self.session = session

    def open(self) -> None:
        """Load the page, and wait until its panels say something."""
        self.browser.go(f"{self.url}/?session={self.session}")
        self.until_live()

    def until_live(self) -> None:
        self.browser.until(lambda: self.read("#pulse").startswith("live"))
        for panel in ("tiles", "most", "ladder", "promotions", "agents", "near", "findings"):
            self.browser.until(lambda panel=panel: self.read(f"#{panel}"))  # type: ignore[misc]
        self.browser.until(lambda: self.browser.find_all("#health figure"))

    def read(self, css: str) -> str:
        """The text of an element, on one line; empty while it is not there."""
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return " ".join(str(self.browser.run(script, css)).split())

    def names(self, css: str) -> list[str]:
        """The concepts that a list names, in order."""
        script = (
            "return [...document.querySelectorAll(arguments[0] + ' .concept .name')]"
            ".map((one) => one.textContent)"
        )
        found: list[str] = self.browser.run(script, css)
        return found

    def choose(self, css: str, name: str, *, content: str | None = None) -> None:
        """Click a concept in a list, and wait until what it says is inspected."""
        script = (
            "return [...document.querySelectorAll(arguments[0] + ' .concept')]"
            ".find((one) => one.querySelector('.name').textContent === arguments[1]).click()"
        )
        self.browser.run(script, css, name)
        self.browser.until(lambda: self.read("#inspect .content") == (content or name))

    def graph_labels(self) -> list[str]:
        found: list[str] = self.browser.run(
            "return document.querySelector('#graph').view.nodes.map((node) => node.label)"
        )
        return sorted(found)

    def lit(self) -> list[str]:
        """What the graph says that it lights up."""
        found: list[str] = self.browser.run(
            "const view = document.querySelector('#graph').view;"
            "return view.lit.map((id) => view.nodes[view.indexById.get(id)].label)"
        )
        return sorted(found)

    def lit_pixels(self) -> list[str]:
        """The nodes that have the colour of what rests on the chosen one, as they are drawn."""
        found: list[str] = self.browser.run(_LIT_PIXELS)
        return found

    def foreign_requests(self) -> list[str]:
        """Addresses that the page has loaded from anywhere but its server."""
        found: list[str] = self.browser.run(
            "return performance.getEntriesByType('resource').map((one) => one.name)"
            ".filter((name) => !name.startsWith(location.origin + '/'))"
        )
        return found

    def accessibility_faults(self) -> list[str]:
        """What axe finds that is serious or worse."""
        self.browser.run(AXE.read_text(encoding="utf-8"))
        found = self.browser.run("return axe.run(document, { resultTypes: ['violations'] })")
        return [
            json.dumps([fault["id"], fault["help"], [node["html"] for node in fault["nodes"]]])
            for fault in found["violations"]
            if fault["impact"] in SERIOUS
        ]


class Asker:
    """Somebody who asks the API, to compare the page with."""

    def __init__(self, url: str, session: str) -> None:
        self._address = f"{url}/api/v1/sessions/{session}"

    def get(self, verb: str) -> Any:
        return self._done("GET", verb, None)

    def post(self, verb: str, **arguments: Any) -> Any:
        return self._done("POST", verb, {"agent_id": "reader", **arguments})

    def _done(self, method: str, verb: str, body: Any) -> Any:
        answer = httpx.request(method, f"{self._address}/{verb}", json=body, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def derive(self, agent: str, content: str, *, depends_on: Sequence[str] = ()) -> None:
        """Write one concept."""
        given = {"content": content, "concept_type": "entity", "depends_on": list(depends_on)}
        self.post("derive", agent_id=agent, concepts=[given])
