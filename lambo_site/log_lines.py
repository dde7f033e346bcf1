"""How a log line is written: for people, or one JSON object for programs.

A record's `extra` carries a stable `action` word; both forms show it, so that one filters on words
and not on prose.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """`time level logger: message`, in UTC."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

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
        line = {
            "time": _written_at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _written_at(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds") + "Z"
