"""How soon the portal can be used, and how soon a write is seen: a real browser over a real server.

The load is told by the page itself: from the navigation to the first frame with nodes, and to the
last panel that is filled. A write is timed from its sending to the frame that draws it. The drawing
is timed by the page's own frames, without a graphics card: on a desk it is quicker.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.processes import ROOT, Server, fill, lambo_server
from benchmarks.report import Budget, Report, Row

sys.path.insert(0, str(ROOT / "tests"))  # the driver of the browser is the tests' own

from chromium import CHROMIUM, DRIVER, Browser, browsing

SESSION: Final = "large"
CONCEPTS: Final = 4_000
PANELS: Final = ("overview", "graph", "near", "promotions", "health")
LOADS: Final = 7
WRITES: Final = 40
ANSWERS: Final = 10
LOAD_BUDGET_MS: Final = 1_500.0
LATENCY_BUDGET_MS: Final = 300.0

_IS_USABLE: Final = """
const panels = ["tiles", "most", "ladder", "agents", "findings"];
const filled = panels.every((id) => document.getElementById(id).innerText);
const view = document.querySelector("#graph").view;
return filled && view.nodes.length && !Number.isNaN(view.nodes[0].x);
"""
_WATCH: Final = """
window.seenAt = {};
const view = document.querySelector("#graph").view;
const draw = view.draw.bind(view);
view.draw = () => { draw(); requestAnimationFrame(() => {
  for (const { label } of view.nodes) {
    if (label.startsWith("seen on the screen")) window.seenAt[label] ??= Date.now();
  }
}); };
"""
_MARKS: Final = """
const at = (name) => performance.getEntriesByName(name)[0]?.startTime ?? NaN;
return [at("portal-drawn"), at("portal-filled")];
"""
_FRAMES: Final = """
const view = document.querySelector("#graph").view;
return new Promise((done) => {
  const taken = [];
  let last = null;
  const step = (now) => {
    if (last !== null) taken.push(now - last);
    last = now;
    if (taken.length === 60) return done(taken);
    view.selection.call(view.zoom.translateBy, 2, 1);
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
});
"""


def run(*, quick: bool) -> Report:
    """Measure answers, loads, frames and the way of a write to the screen."""
    concepts, loads, writes = (200, 1, 3) if quick else (CONCEPTS, LOADS, WRITES)
    budgets: list[Budget] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "data", SESSION, concepts)
        with lambo_server(folder / "data") as server:
            base = f"http://127.0.0.1:{server.port}"
            rows = [_row(f"answer: {panel}", _answers(base, panel)) for panel in PANELS]
            notes = [f"Worst lateness of the loop during these answers: {_worst_lag(server)} ms."]
            if CHROMIUM is None or DRIVER is None:
                notes.append("No chromium and chromedriver: nothing was measured in a browser.")
            else:
                seen, budgets, settled = _in_a_browser(folder / "profile", base, loads, writes)
                rows += seen
                notes.append(f"The layout settled {settled:.1f} s after the last load was usable.")
            bare = _answers(base, None)
    return Report(
        benchmark="portal",
        question=f"How soon can a portal of {concepts} concepts be used, and a write be seen?",
        baselines=[_row("answer: a sign of life, the least there is", bare)],
        rows=rows,
        budgets=[] if quick else budgets,
        notes=notes,
    )


def _in_a_browser(
    profile: Path, base: str, loads: int, writes: int
) -> tuple[list[Row], list[Budget], float]:
    with browsing(profile) as browser:
        browser.be(1440, 1000)
        loaded = [_load(browser, base) for _ in range(loads)]
        settled = _settle(browser)
        frames = sorted(browser.run(_FRAMES))
        latencies = sorted(_latencies(browser, base, writes))
    drawn, filled = (sorted(column) for column in zip(*loaded, strict=True))
    usable = sorted(map(max, loaded))
    rows = [
        _row("load, first nodes drawn", drawn),
        _row("load, every panel filled", filled),
        _row("load, both", usable),
        _row("one frame while moving", frames),
        _row("write to frame", latencies),
    ]
    budgets = [
        Budget("load in ms, median", median(usable), LOAD_BUDGET_MS),
        Budget("write to frame in ms, p95", _at(latencies, 0.95), LATENCY_BUDGET_MS),
    ]
    return rows, budgets, settled


def _answers(base: str, panel: str | None) -> list[float]:
    """Milliseconds of some answers, sorted; of `/healthz` without a panel."""
    address = f"{base}/healthz" if panel is None else f"{base}/portal/sessions/{SESSION}/{panel}"
    taken = []
    with httpx.Client(trust_env=False) as http:
        for _ in range(ANSWERS):
            began = time.perf_counter()
            http.get(address).raise_for_status()
            taken.append(1_000 * (time.perf_counter() - began))
    return sorted(taken)


def _load(browser: Browser, base: str) -> tuple[float, float]:
    """Milliseconds from a navigation to the first nodes, and to the last panel."""
    browser.go("about:blank")
    browser.go(f"{base}/?session={SESSION}")
    browser.until(lambda: browser.run(_IS_USABLE))
    marks = browser.until(lambda: _complete(browser.run(_MARKS)))
    return float(marks[0]), float(marks[1])


def _complete(marks: list[Any]) -> list[Any] | None:
    return None if None in marks else marks


def _settle(browser: Browser) -> float:
    began = time.perf_counter()
    browser.until(
        lambda: browser.run("return document.querySelector('#graph').view.isSettled === true")
    )
    return time.perf_counter() - began


def _latencies(browser: Browser, base: str, writes: int) -> list[float]:
    browser.run(_WATCH)
    found = []
    with httpx.Client(trust_env=False) as http:
        for number in range(writes):
            label = f"seen on the screen {number}"
            given = {"content": label, "concept_type": "entity"}
            began = time.time()
            http.post(
                f"{base}/api/v1/sessions/{SESSION}/derive",
                json={"agent_id": "writer", "concepts": [given]},
            ).raise_for_status()
            seen = browser.until(
                lambda label=label: browser.run("return window.seenAt[arguments[0]]", label)  # type: ignore[misc]
            )
            found.append(seen - 1_000 * began)
            time.sleep(0.3)  # people's writes, one at a time
    return found


def _worst_lag(server: Server) -> float:
    return float(server.get("/healthz")["loop_lag"]["max_ms"])


def _row(what: str, values: list[float]) -> Row:
    return {
        "what": what,
        "count": len(values),
        "median ms": round(median(values), 1),
        "p95 ms": round(_at(values, 0.95), 1),
        "max ms": round(values[-1], 1),
    }


def _at(values: list[float], share: float) -> float:
    """The value below which that share of sorted values lies."""
    return values[min(len(values) - 1, int(share * len(values)))]
