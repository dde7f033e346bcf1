"""Says at the end of a run how many tests passed on each engine; with `--every-engine`, insists.

A test belongs to an engine by a parameter of a fixture. A run that means to cover every engine and
covered one with no test at all (no wheel for this platform, a fixture renamed) must not look green.
"""

from __future__ import annotations

from collections import Counter

import pytest

ENGINES = ("sqlite", "postgres")
"""What tests that depend on the store are run over, as parameters of a fixture."""
DOUBLE = "in memory"

_passed: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-engine",
        action="store_true",
        help="fail unless at least one test passed on each database engine",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        parameters = () if call is None else [v for v in call.params.values() if isinstance(v, str)]
        for engine in (DOUBLE, *ENGINES):
            if engine in parameters:
                item.user_properties.append(("engine", engine))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _passed.update(str(value) for name, value in report.user_properties if name == "engine")


def pytest_sessionfinish(session: pytest.Session) -> None:
    missing = [engine for engine in ENGINES if not _passed[engine]]
    if missing and session.config.getoption("--every-engine") and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _passed and not terminalreporter.config.getoption("--every-engine"):
        return
    counts = ", ".join(f"{engine} {_passed[engine]}" for engine in (DOUBLE, *ENGINES))
    terminalreporter.write_line(f"passed on each engine: {counts}")
