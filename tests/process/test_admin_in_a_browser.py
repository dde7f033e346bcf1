"""A reviewer's day in a real browser: find a promotion, read why, confirm, retract, restore, look.

Needs Chromium and its driver from the system's packages. Screenshots are kept in the folder that
the variable `SCREENSHOTS_DIR` names, else in the run's own, for people to look at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from admin_pages import PASSWORD, make_people
from promoted_memory import DEPENDENTS, SESSION, SUBJECT, make_promoted_memory
from serving import rows, serving

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
WAIT_SECONDS = 30.0
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

    def __init__(self, driver: Chrome, url: str, screenshots: Path) -> None:
        self.driver = driver
        self._url = url
        self._screenshots = screenshots
        self._wait = WebDriverWait(driver, WAIT_SECONDS)
        self._taken = 0

    def go(self, path: str) -> None:
        self.driver.get(self._url + path)

    def find(self, css: str) -> WebElement:
        return self._wait.until(lambda driver: driver.find_element(By.CSS_SELECTOR, css))

    def follow(self, text: str) -> None:
        """Click a link or a button by its words, and wait for the page it leads to."""
        before = self.driver.find_element(By.TAG_NAME, "html")
        words = f"contains(normalize-space(.), {text!r})"
        control = self._wait.until(
            lambda driver: driver.find_element(
                By.XPATH,
                f"//main//a[{words}] | //main//button[{words}] | //main//input[@value={text!r}]",
            )
        )
        control.click()
        self._wait.until(lambda _driver: _is_gone(before))

    def fill(self, name: str, text: str) -> WebElement:
        field = self.find(f'main [name="{name}"]')
        field.clear()
        field.send_keys(text)
        return field

    @property
    def text(self) -> str:
        return self.find("main").text

    def keep(self, name: str) -> None:
        """A screenshot of the whole page, numbered in the order of the day."""
        self._taken += 1
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        self.driver.set_window_size(1280, max(int(height) + 20, 720))
        self.driver.save_screenshot(str(self._screenshots / f"{self._taken:02}-{name}.png"))


def _is_gone(element: WebElement) -> bool:
    try:
        element.is_enabled()
    except StaleElementReferenceException:
        return True
    return False


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """A headless Chromium that talks to nobody but the page."""
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={profile}",
        "--window-size=1280,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


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
    with serving(tmp_path) as server, browser(tmp_path / "profile") as driver:
        make_people(server.data_dir, "olga:operator")
        olga = Reviewer(driver, server.url, screenshots)

        olga.go("/admin/")
        olga.find("#id_username").send_keys("olga")
        olga.find("#id_password").send_keys(PASSWORD, Keys.ENTER)
        olga.find("#user-tools")
        olga.keep("start")

        # Promotions to Canonical, of one session.
        olga.follow("Audit events")
        olga.fill("session", SESSION).send_keys(Keys.ENTER)
        olga.follow("Promotions")
        olga.follow("Canonical")
        (row,) = driver.find_elements(By.CSS_SELECTOR, "#result_list tbody tr")
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
        picture = olga.find("svg.lambo-picture")
        assert picture.size["width"] > 400
        drawn = {text.text for text in picture.find_elements(By.CSS_SELECTOR, "a text")}
        assert drawn == set(DEPENDENTS)
        concept_url = driver.current_url
        olga.keep("concept")

        olga.follow("Confirm…")
        olga.fill("reason", "I designed it")
        olga.keep("confirm")
        olga.follow("Confirm it")
        assert "Confirm" in olga.find("table.lambo-table").text
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
        assert "Where it stands" in olga.text
        olga.keep("restored")

        # The same by keyboard and in the dark: the trail of what was done.
        driver.execute_script("localStorage.setItem('theme', 'dark')")
        olga.follow("All rows that name it")
        table = olga.find("#result_list").text
        for words in ("I designed it", "replaced by version two", "version two was dropped"):
            assert words in table
        assert table.count("admin:olga") == 3
        olga.keep("trail-in-the-dark")
        driver.get(concept_url)
        olga.keep("concept-in-the-dark")
        driver.switch_to.active_element.send_keys(Keys.TAB)
        assert "skip-to-content" in str(driver.switch_to.active_element.get_attribute("class"))

        problems = [
            entry["message"]
            for entry in driver.get_log("browser")  # type: ignore[no-untyped-call]
            if entry["level"] == "SEVERE"
        ]
        assert [line for line in problems if "favicon" not in line] == []
        acts = rows(
            server.data_dir,
            "SELECT kind, reason FROM lambo_audit_event WHERE actor = 'admin:olga' ORDER BY id",
        )
    assert acts == [
        ("confirm", "I designed it"),
        ("retract", "replaced by version two"),
        ("restore", "version two was dropped"),
    ]
