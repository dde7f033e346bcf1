"""What a checkup finds: one line for each thing looked at, how bad it is, and what to do.

Owns the record of a finding, the order of a checkup, its two forms of output and its exit code.
Looks at nothing itself. A check that breaks is a finding too: whoever asks what is wrong must get
an answer.

Invariant: the exit code is 1 exactly when a problem is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from memory.engine.errors import LamboError

SOUND, TROUBLED = 0, 1


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"  # works, and somebody should know
    PROBLEM = "problem"  # does not work, or will not for long


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `advice` says what to do, and is empty where all is well."""

    check: str
    level: Level
    message: str
    advice: str = ""

    @property
    def text(self) -> str:
        line = f"{self.level:<8} {self.check:<14} {self.message}"
        return f"{line}\n{'':<24}{self.advice}" if self.advice else line

    def as_wire(self) -> dict[str, str]:
        return {
            "check": self.check,
            "level": str(self.level),
            "message": self.message,
            "advice": self.advice,
        }


def ok(check: str, message: str) -> Finding:
    return Finding(check, Level.OK, message)


def warning(check: str, message: str, advice: str) -> Finding:
    return Finding(check, Level.WARNING, message, advice)


def problem(check: str, message: str, advice: str) -> Finding:
    return Finding(check, Level.PROBLEM, message, advice)


Check = Callable[[], Iterable[Finding]]

LOOK_AT_LOG: Final = "read the message; if it tells you nothing, report it with this line"


def run_checks(checks: Sequence[tuple[str, Check]]) -> list[Finding]:
    """Every check in order, each under its name."""
    return [finding for name, check in checks for finding in _run(name, check)]


def _run(name: str, check: Check) -> Iterator[Finding]:
    try:
        yield from check()
    except LamboError as error:
        yield problem(name, error.message, "see the message")
    except Exception as error:  # noqa: BLE001 - a broken check is told, and the others go on
        yield problem(
            name, f"this could not be checked: {type(error).__name__}: {error}", LOOK_AT_LOG
        )


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of one checkup."""

    findings: Sequence[Finding]

    def count(self, level: Level) -> int:
        return sum(finding.level is level for finding in self.findings)

    @property
    def exit_code(self) -> int:
        return TROUBLED if self.count(Level.PROBLEM) else SOUND

    @property
    def summary(self) -> str:
        problems, warnings = self.count(Level.PROBLEM), self.count(Level.WARNING)
        return f"{len(self.findings)} checks: {problems} problem(s), {warnings} warning(s)"

    @property
    def text(self) -> str:
        return "\n".join([*(finding.text for finding in self.findings), self.summary])

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.summary,
            "ok": self.exit_code == SOUND,
            "problems": self.count(Level.PROBLEM),
            "warnings": self.count(Level.WARNING),
            "findings": [finding.as_wire() for finding in self.findings],
        }
