"""A reviewer's day in a real browser: find a promotion, read why, confirm, retract, restore, look.

Needs Chromium and its driver from the system's packages. Screenshots are kept in the folder that
the variable `SCREENSHOTS_DIR` names, else in the run's own, for people to look at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from admin_pages import PASSWORD, make_people
from chromium import CHROMIUM, DRIVER, ENTER, TAB, Browser, Element, browsing
from promoted_memory import DEPENDENTS, SESSION, SUBJECT, make_promoted_memory
from serving import rows, serving

SCREENSHOTS = "SCREENSHOTS_DIR"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="no chromium and chromedriver: apt-get install chromium chromium-driver",
    ),
]


class Reviewer:
    """Somebody at a browser, who goes by what is written on the pages."""

    def __init__(self, browser: Browser, screenshots: Path) -> None:
        self.browser = browser
        self._screenshots = screenshots
        self._taken = 0

    def follow(self, text: str) -> None:
        """Click a link or a button by its words, and wait for the page it leads to."""
        words = f"contains(normalize-space(.), {text!r})"
        control = self.browser.find_by_path(
            f"//main//a[{words}] | //main//button[{words}] | //main//input[@value={text!r}]"
        )
        control.click()
        self.browser.until(lambda: control.is_gone)

    def fill(self, name: str, text: str) -> Element:
        field = self.browser.find(f'main [name="{name}"]')
        field.fill(text)
        return field

    def send(self, field: Element) -> None:
        """Send the form of a field by keyboard, and wait for the page it leads to."""
        field.type(ENTER)
        self.browser.until(lambda: field.is_gone)

    @property
    def text(self) -> str:
        return self.browser.find("main").text

    def keep(self, name: str) -> None:
        """A screenshot, numbered in the order of the day."""
        self._taken += 1
        self.browser.photograph(self._screenshots / f"{self._taken:02}-{name}.png")


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    folder = Path(os.environ.get(SCREENSHOTS) or tmp_path / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"screenshots: {folder}")
    return folder


def test_reviewer_reads_why_and_acts(
    tmp_path: Path, screenshots: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    make_promoted_memory(tmp_path / "data", django_db_blocker)
    with serving(tmp_path) as server, browsing(tmp_path / "profile") as browser:
        make_people(server.data_dir, "olga:operator")
        olga = Reviewer(browser, screenshots)

        browser.go(f"{server.url}/admin/")
        browser.find("#id_username").fill("olga")
        browser.find("#id_password").fill(PASSWORD)
        olga.send(browser.find("#id_password"))
        browser.find("#user-tools")
        olga.keep("start")

        # Promotions to Canonical, of one session.
        olga.follow("Audit events")
        olga.send(olga.fill("session", SESSION))
        olga.follow("Promotions")
        olga.follow("Canonical")
        (row,) = browser.find_all("#result_list tbody tr")
        assert "Venerable → Canonical" in row.text
        olga.keep("promotions")

        # Why it rose.
        olga.follow(row.text.split()[0])
        for sentence in (
            "It was never demoted.",
            "What rests on it comes from 7 other interactions; 3 are needed.",
            "Its support spans 0.857 of the session; 0.3 is needed.",
            "7 concepts rest on it; more than 5 are needed.",
            "The session has 0 canonical concepts; 1000 are allowed.",
        ):
            assert sentence in olga.text
        for dependent in DEPENDENTS:
            assert dependent in olga.text
        olga.keep("promotion")

        # The concept: its ladder, what surrounds it.
        olga.follow(SUBJECT)
        assert "Where it stands" in olga.text
        assert browser.find('[aria-current="step"]').text == "Canonical"
        assert browser.find("svg.lambo-picture").width > 400
        assert {text.text for text in browser.find_all("svg a text")} == set(DEPENDENTS)
        concept_url = browser.url
        olga.keep("concept")

        olga.follow("Confirm…")
        olga.fill("reason", "I designed it")
        olga.keep("confirm")
        olga.follow("Confirm it")
        assert "Confirm" in browser.find("table.lambo-table").text
        olga.keep("confirmed")

        olga.follow("Retract…")
        assert "What the server says would happen" in olga.text
        olga.fill("reason", "replaced by version two")
        olga.keep("retract")
        olga.follow("Retract it")
        assert "A concept that is gone" in olga.text
        olga.keep("gone")

        olga.follow("Restore it…")
        olga.fill("reason", "version two was dropped")
        olga.follow("Restore it")
        assert "it was Canonical" in olga.text
        olga.keep("restored")

        # In the dark: the trail of what was done, and the concept.
        browser.run("localStorage.setItem('theme', 'dark')")
        olga.follow("All rows that name it")
        table = browser.find("#result_list").text
        for words in ("I designed it", "replaced by version two", "version two was dropped"):
            assert words in table
        assert table.count("admin:olga") == 3
        olga.keep("trail-in-the-dark")
        browser.go(concept_url)
        olga.keep("concept-in-the-dark")

        # By keyboard: the first stop leads past the navigation.
        browser.focused.type(TAB)
        assert "skip-to-content" in browser.focused.attribute("class")
        assert [line for line in browser.errors() if "favicon" not in line] == []
        acts = rows(
            server.data_dir,
            "SELECT kind, reason FROM lambo_audit_event WHERE actor = 'admin:olga' ORDER BY id",
        )
    assert acts == [
        ("confirm", "I designed it"),
        ("retract", "replaced by version two"),
        ("restore", "version two was dropped"),
    ]
