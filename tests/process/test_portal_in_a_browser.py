"""The portal in a real browser, over a real server: what it shows, hears, lights up and asks for.

Needs Chromium and its driver from the system's packages. Screenshots are kept in the folder that
the variable `SCREENSHOTS_DIR` names, else in the run's own, for people to look at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from chromium import CHROMIUM, DRIVER, ENTER, TAB, Browser, browsing
from portal_page import Asker, Portal
from promoted_memory import DEPENDENTS, SESSION, SUBJECT, make_promoted_memory
from serving import RunningServer, serving

SCREENSHOTS = "SCREENSHOTS_DIR"
WIDE = (1440, 1000)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="no chromium and chromedriver: apt-get install chromium chromium-driver",
    ),
]


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("portal")
    make_promoted_memory(folder / "data", django_db_blocker)
    with serving(folder) as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(os.environ.get(SCREENSHOTS) or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"screenshots: {folder}")
    return folder


@pytest.fixture
def portal(server: RunningServer, browser: Browser) -> Iterator[Portal]:
    """The page on a wide screen, in light; afterwards it has complained of nothing."""
    browser.be(*WIDE)
    page = Portal(browser, server.url, SESSION)
    page.open()
    yield page
    assert browser.errors() == []
    assert page.foreign_requests() == []


@pytest.fixture
def api(server: RunningServer) -> Asker:
    return Asker(server.url, SESSION)


def test_every_panel_shows_what_the_api_says(portal: Portal, api: Asker, screenshots: Path) -> None:
    stats = api.get("stats")
    tiles = portal.read("#tiles")
    assert f"{stats['concept_count']} concepts" in tiles
    assert f"{stats['edge_count']} links" in tiles
    assert f"{stats['canonical_count']} canonical" in tiles
    for status in ("None", "Candidate", "Venerable", "Canonical"):
        counted = stats["concepts_by_status"].get(status, 0)
        assert portal.read(f'#ladder [data-status="{status}"]') == str(counted)

    concepts = api.get("concepts")["concepts"]
    assert portal.graph_labels() == sorted(one["content"] for one in concepts)
    assert portal.names("#most") == [SUBJECT]
    assert portal.read("#most .number").startswith(str(len(DEPENDENTS)))
    for agent in ("ann", "bob", "cleo"):
        written = sum(one["agent_id"] == agent for one in concepts)
        assert f"{agent} {written} {written}" in portal.read(f'[data-agent="{agent}"]')

    # The newest promotion, and the evidence that decided it.
    assert "Venerable → Canonical" in portal.read("#promotions li")
    portal.browser.find("#promotions summary").click()
    why = portal.read("#promotions details")
    assert "7 dependents counted" in why
    assert "7 concepts rest on it; more than 5 are needed." in why

    portal.choose("#most", SUBJECT)
    inspected = api.post("inspect", focus=SUBJECT, depth=1)
    shown = portal.read("#inspect")
    assert f"{inspected['focus']['blast_radius']} concepts rest on it" in shown
    assert "There is no higher status" in shown
    for neighbour in DEPENDENTS:
        assert neighbour in shown
    portal.choose("#inspect", f"{DEPENDENTS[0]} [Entity]", content=DEPENDENTS[0])
    admission = api.post("inspect", focus=DEPENDENTS[0], depth=0)["admission"]
    for check in admission["checks"]:
        assert check["met"] or check["sentence"] in portal.read("#inspect")
    (screenshots / "portal-light.png").write_bytes(portal.browser.picture())


def test_recall_box_shows_what_an_agent_would_get(portal: Portal, api: Asker) -> None:
    asked = f"what depends on {SUBJECT}"
    portal.browser.find("#recall-query").fill(asked + ENTER)
    expected = api.post("recall", query=asked, max_tokens=500, top_k=8)
    portal.browser.until(lambda: portal.names("#recall"))
    assert portal.names("#recall") == [hit["content"] for hit in expected["hits"]]
    context = portal.browser.run("return document.querySelector('#recall pre').textContent")
    assert context == expected["context"]
    tokens = -(-2 * len(expected["context"].encode()) // 7)  # a token is about 3.5 bytes
    assert f"{tokens} of 500 tokens" in portal.read("#recall-cost")
    cards = portal.browser.find_all("#recall .card")
    for card, hit in zip(cards, expected["hits"], strict=True):
        assert f"{hit['score']:.2f}" in card.text
        assert "traversal" in card.text
    # Too small a budget: what is left out is told as such.
    portal.browser.find("#recall-tokens").fill("20")
    portal.browser.find("#recall-form button").click()
    portal.browser.until(lambda: "left out" in portal.read("#recall-cost"))
    assert len(portal.browser.find_all("#recall .card.out")) > 0


def test_write_appears_without_a_reload(server: RunningServer, portal: Portal) -> None:
    session = "news"
    api = Asker(server.url, session)
    api.derive("ann", "the first thing")
    portal.session = session
    portal.open()
    portal.browser.run("window.stillTheSamePage = true")
    api.derive("dora", "a wish", depends_on=["the first thing"])
    portal.browser.until(lambda: portal.graph_labels() == ["a wish", "the first thing"])
    portal.browser.until(lambda: "dora 1 1" in portal.read("#agents"))
    portal.browser.until(lambda: portal.names("#most") == ["the first thing"])
    api.post("reserve", concept="a wish", agent_id="dora", ttl_seconds=600)
    portal.browser.until(lambda: portal.names("#reservations") == ["a wish"])
    api.post("release", concept="a wish", agent_id="dora")
    portal.browser.until(lambda: portal.names("#reservations") == [])
    # The inspected concept is kept up to date as well.
    portal.choose("#most", "the first thing")
    api.derive("eve", "another wish", depends_on=["the first thing"])
    portal.browser.until(lambda: portal.lit() == ["a wish", "another wish"])
    portal.browser.until(lambda: "2 concepts rest on it" in portal.read("#inspect"))
    assert portal.browser.run("return window.stillTheSamePage") is True


def test_blast_radius_lights_what_rests_on_the_chosen_one(
    portal: Portal, screenshots: Path
) -> None:
    portal.choose("#most", SUBJECT)
    rests = set(DEPENDENTS)
    portal.browser.until(lambda: rests <= set(portal.lit()))
    portal.browser.until(lambda: portal.lit_pixels() == sorted(DEPENDENTS))
    assert "7 rest on it" in portal.read("#graph-says")
    (screenshots / "portal-lit.png").write_bytes(portal.browser.picture())
    # What nothing rests on lights nothing.
    portal.browser.run("document.querySelector('#graph').view.choose(null)")
    assert portal.lit() == []
    portal.browser.until(lambda: portal.lit_pixels() == [])


def test_graph_is_zoomed_dragged_and_searched(portal: Portal) -> None:
    scale = "return document.querySelector('#graph').view.transform.k"
    at_first = portal.browser.run(scale)
    portal.browser.find("#zoom-in").click()
    portal.browser.until(lambda: portal.browser.run(scale) > at_first * 1.3)
    portal.browser.find("#fit").click()
    portal.browser.until(lambda: abs(portal.browser.run(scale) - at_first) < 0.2 * at_first)

    place = (
        "const view = document.querySelector('#graph').view;"
        "const node = view.nodes.find((one) => one.label === arguments[0]);"
        "const at = view.positionOf(node.id), box = view.canvas.getBoundingClientRect();"
        "return [at.x + box.x, at.y + box.y]"
    )
    portal.browser.until(lambda: portal.browser.run(place, SUBJECT)[0] > 0)
    x, y = portal.browser.run(place, SUBJECT)
    portal.browser.drag((x, y), (x + 120, y + 40))
    portal.browser.until(lambda: portal.browser.run(place, SUBJECT)[0] > x + 20)
    assert portal.read("#inspect .content") == ""  # a drag is no choice

    portal.browser.find("#find").fill("refresh")
    portal.browser.until(lambda: portal.read("#found") == "token refresh")
    portal.browser.find("#find").type(ENTER)
    portal.browser.until(lambda: portal.read("#inspect .content") == "token refresh")


def test_everything_is_reached_by_keyboard(portal: Portal) -> None:
    browser = portal.browser
    browser.run("document.activeElement.blur()")
    browser.find("body").type(TAB)
    assert browser.focused.attribute("class") == "skip"
    seen = []
    for _ in range(40):
        browser.focused.type(TAB)
        seen.append(browser.run("return document.activeElement.id"))
        if seen[-1] == "recall-query":
            break
    wanted = ["session", "find", "zoom-in", "zoom-out", "fit", "graph", "recall-query"]
    assert [name for name in seen if name in wanted] == wanted

    browser.run("document.querySelector('#graph').focus()")
    browser.focused.type("n")
    browser.until(lambda: SUBJECT in portal.read("#graph-says"))
    browser.focused.type(ENTER)
    browser.until(lambda: portal.read("#inspect .content") == SUBJECT)
    browser.until(lambda: set(DEPENDENTS) <= set(portal.lit()))
    browser.focused.type("\ue00c")  # Escape
    browser.until(lambda: portal.lit() == [])
    scale = "return document.querySelector('#graph').view.transform.k"
    before = browser.run(scale)
    browser.focused.type("+")
    browser.until(lambda: browser.run(scale) > before)


@pytest.mark.parametrize("width", [320, 390, 768])
def test_page_fits_a_narrow_screen(portal: Portal, screenshots: Path, width: int) -> None:
    portal.browser.be(width, 844, is_phone=True)
    portal.choose("#most", SUBJECT)
    portal.browser.run("scrollTo(0, 0)")
    assert portal.browser.run("return document.documentElement.scrollWidth") <= width
    for panel in portal.browser.find_all("main > section"):
        assert 0 < panel.width <= width
    (screenshots / f"portal-{width}.png").write_bytes(portal.browser.picture())


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_no_serious_fault_of_accessibility(
    portal: Portal, screenshots: Path, is_dark: bool
) -> None:
    portal.browser.be(*WIDE, is_dark=is_dark)
    portal.choose("#most", SUBJECT)
    portal.browser.find("#promotions summary").click()
    portal.browser.find("#recall-query").fill(f"what depends on {SUBJECT}{ENTER}")
    portal.browser.until(lambda: portal.names("#recall"))
    portal.browser.until(lambda: portal.lit_pixels() == sorted(DEPENDENTS))
    assert portal.accessibility_faults() == []
    if is_dark:
        portal.browser.run("scrollTo(0, 0)")
        (screenshots / "portal-dark.png").write_bytes(portal.browser.picture())


def test_page_finds_its_way_back_after_a_restart(
    tmp_path: Path, browser: Browser, django_db_blocker: DjangoDbBlocker
) -> None:
    make_promoted_memory(tmp_path / "data", django_db_blocker)
    with serving(tmp_path) as first:
        port = first.url.rpartition(":")[2]
        page = Portal(browser, first.url, SESSION)
        page.open()
        browser.run("window.stillTheSamePage = true")
        stopped = first.stop()
        assert stopped.code == 0
        assert stopped.says_all_committed
        browser.until(lambda: "away" in page.read("#pulse"))
    with serving(tmp_path, LAMBO_PORT=port) as second:
        Asker(second.url, SESSION).post(
            "derive", concepts=[{"content": "written while it was away", "concept_type": "entity"}]
        )
        browser.until(lambda: "written while it was away" in page.graph_labels())
        assert browser.run("return window.stillTheSamePage") is True
    browser.go("about:blank")  # the page goes on asking for a server that is away,
    browser.errors()  # and that is an error in the browser's eyes
