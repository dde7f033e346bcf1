"""What this process serves with: the one host, its folder, its operator, its use and its end.

Set once by the composition root and the command that serves, read by every surface: they meet here
because neither may import the other. Holds no settings and no sessions.

Invariant: there is no host before the server has started and none while it stops; asking for it
then is answered like any other refusal.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from memory.engine.errors import SessionClosed

if TYPE_CHECKING:
    from memory.data_folder import HeldFolder
    from memory.service.host import CloseReport, SessionHost

RETRY_SECONDS = 1.0

_host: SessionHost | None = None
_operator_secret: str | None = None
_held: HeldFolder | None = None


def set_host(host: SessionHost | None) -> None:
    """Put the host in place, or take it away."""
    global _host
    _host = host


def get_host() -> SessionHost:
    """The host; raises `SessionClosed` while there is none."""
    if _host is None:
        raise SessionClosed("the server is starting or stopping", retry_after_seconds=RETRY_SECONDS)
    return _host


def find_host() -> SessionHost | None:
    """The host, or None while there is none."""
    return _host


def set_operator_secret(secret: str | None) -> None:
    """Say what opens the human acts; None closes them."""
    global _operator_secret
    _operator_secret = secret


def is_operator_secret(given: str) -> bool:
    """Whether `given` opens the human acts; compared in constant time."""
    expected = _operator_secret
    return expected is not None and hmac.compare_digest(
        given.encode("utf-8", "surrogatepass"), expected.encode()
    )


def set_held_folder(held: HeldFolder | None) -> None:
    """Hand the lock of the data folder to the server that is about to start."""
    global _held
    _held = held


def get_held_folder() -> HeldFolder:
    """The folder this process has locked. Without the lock nothing may open a session."""
    if _held is None:
        raise RuntimeError("the data folder is not locked: start the server with `lambo serve`")
    return _held


class Activity:
    """Whether anybody uses the server: what is open now, and when the last request ended."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._open = 0
        self._last = monotonic()

    def begin(self) -> None:
        self._open += 1

    def end(self) -> None:
        self._open -= 1
        self._last = self._monotonic()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last request ended; 0 while one is open."""
        return 0.0 if self._open else self._monotonic() - self._last


activity = Activity()
"""Of this process. Signs of life that only look (`/healthz`) do not count."""


# -- the end -----------------------------------------------------------------------------------

_closed: CloseReport | None = None


def set_close_report(report: CloseReport) -> None:
    """Keep how the host ended, for the last line of the log."""
    global _closed
    _closed = report


def find_close_report() -> CloseReport | None:
    """How the host ended; None when it never got that far."""
    return _closed


_failure: BaseException | None = None


def set_failure(error: BaseException) -> None:
    """Keep why the server could not start or stop in order."""
    global _failure
    _failure = error


def find_failure() -> BaseException | None:
    """Why the server could not start or stop in order, if so."""
    return _failure
