"""How a log line is written: for people, or one JSON object for programs.

A record's `extra` carries a stable `action` word; both forms show it, so that one filters on words
and not on prose. Owns also what is logged that nobody logs: with JSON, exceptions that nobody
caught and warnings of Python become lines like all others.

Invariant: a JSON line is one line and one object, whatever the record holds; and no line of either
form shows the secret of a token.
"""

from __future__ import annotations

import json
import logging
import logging.config
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

from lambo_site.setting_readers import LogFormat
from memory.engine.tokens import hide_secrets

_NOT_SHOWN: Final = frozenset({"message", "asctime", "taskName", "request"})
"""Beside a record's own attributes; a request of Django's would show its whole address."""
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | _NOT_SHOWN

logger = logging.getLogger("lambo.uncaught")


class TextLines(logging.Formatter):
    """`time level logger: message`, in UTC."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a traceback under it."""
        return hide_secrets(super().format(record))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """RFC 3339 with milliseconds."""
        return _written_at(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, with its action word in brackets."""
        line = super().formatMessage(record)
        action = getattr(record, "action", None)
        return line if action is None else f"{line} [{action}]"


class JsonLines(logging.Formatter):
    """One object per line: time, level, logger, message, whatever `extra` brought, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; what JSON has no word for is shown as text."""
        line: dict[str, Any] = {
            "time": _written_at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        try:
            text = json.dumps(line, ensure_ascii=False, allow_nan=False, default=str)
        except (TypeError, ValueError):  # keys that are no text, numbers that are none, circles
            shown = {name: str(value) for name, value in line.items()}
            text = json.dumps(shown, ensure_ascii=False)
        return hide_secrets(text)


def _message(record: logging.LogRecord) -> str:
    """The message; of one whose arguments do not fit it, both as they are."""
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return f"{record.msg} {record.args!r}"


def _written_at(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds") + "Z"


# -- setting up ------------------------------------------------------------------------------------


def configure(config: Mapping[str, Any]) -> None:
    """What Django calls with the setting LOGGING, in every process that it is set up in."""
    logging.config.dictConfig(dict(config))
    if config["handlers"]["stderr"]["formatter"] == LogFormat.JSON:
        log_what_nobody_logs()


def log_what_nobody_logs() -> None:
    """Turn uncaught exceptions and warnings into log lines, instead of text on stderr."""
    logging.captureWarnings(True)
    sys.excepthook = _on_uncaught
    threading.excepthook = _on_uncaught_in_thread
    sys.unraisablehook = _on_unraisable


def _on_uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    logger.critical("an exception nobody caught", exc_info=(kind, error, traceback))


def _on_uncaught_in_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_type is SystemExit:
        return
    name = given.thread.name if given.thread is not None else "?"
    error = given.exc_value if given.exc_value is not None else given.exc_type()
    logger.critical(
        "an exception ended the thread %s",
        name,
        exc_info=(given.exc_type, error, given.exc_traceback),
    )


def _on_unraisable(given: sys.UnraisableHookArgs) -> None:
    error = given.exc_value if given.exc_value is not None else given.exc_type()
    logger.error(
        "%s: %r",
        given.err_msg or "an exception could not be raised",
        given.object,
        exc_info=(given.exc_type, error, given.exc_traceback),
    )
