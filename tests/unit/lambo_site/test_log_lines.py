"""Both forms of a log line carry the action word, and a JSON line stays one line."""

from __future__ import annotations

import json
import logging
import sys

from lambo_site.log_lines import JsonLines, TextLines


def record(**extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "memory", "levelname": "INFO", "msg": "closed %s", "args": ("demo",), "created": 0}
    )
    vars(made).update(extra)
    return made


def test_text_line_shows_time_message_and_action() -> None:
    line = TextLines().format(record(action="session_closed"))
    assert line == "1970-01-01T00:00:00.000Z INFO memory: closed demo [session_closed]"
    assert TextLines().format(record()).endswith(": closed demo")


def test_json_line_is_one_object_with_what_extra_brought() -> None:
    line = JsonLines().format(record(action="session_closed", lag_ms=3, where={1}))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.000Z",
        "level": "info",
        "logger": "memory",
        "message": "closed demo",
        "action": "session_closed",
        "lag_ms": 3,
        "where": "{1}",
    }


def test_json_line_keeps_the_traceback_in_one_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = JsonLines().format(record(exc_info=sys.exc_info()))
    assert "\n" not in line
    assert "ValueError: two\nlines" in json.loads(line)["traceback"]
