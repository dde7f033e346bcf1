"""Both forms of a log line carry the action word, and a JSON line stays one line."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from children import child_environment
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


def test_json_line_stays_json_whatever_a_record_holds() -> None:
    circle: list[object] = []
    circle.append(circle)
    for extra in ({"n": float("nan")}, {"circle": circle}, {"keys": {(1, 2): 3}}, {"s": "\ud800"}):
        line = JsonLines().format(record(**extra))
        assert "\n" not in line
        assert json.loads(line)["message"] == "closed demo"
    misfit = record()
    misfit.args = ("a", "b")
    assert json.loads(JsonLines().format(misfit))["message"] == "closed %s ('a', 'b')"


def test_no_line_shows_a_token_or_the_address_of_a_request() -> None:
    """Django hands its request along with a refusal; somebody may have put a token in either."""
    token = f"lambo_{'0' * 16}_{'s' * 43}"
    seen = record(msg="Not Found: %s", args=(f"/{token}",), request=f"GET /?token={token}")
    for line in (TextLines().format(seen), JsonLines().format(seen)):
        assert "s" * 43 not in line
        assert f"lambo_{'0' * 16}_[hidden]" in line
    assert "request" not in json.loads(JsonLines().format(seen))


WILD = """
import logging, os, sys, threading, warnings
os.environ["DJANGO_SETTINGS_MODULE"] = "lambo_site.settings"
import django
django.setup()

class Leaver:
    def __del__(self):
        raise KeyError("unraisable\\nin two lines")

def fail():
    raise ValueError("in a thread")

warnings.warn("a warning", stacklevel=1)
thread = threading.Thread(target=fail, name="worker")
thread.start()
thread.join()
leaver = Leaver()
del leaver
logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
logging.getLogger("django.request").error("Internal Server Error: %s", "/x", exc_info=True)
logging.getLogger("asyncio").error("bad %d", "arguments")
raise RuntimeError("uncaught")
"""


@pytest.mark.slow
def test_with_json_everything_python_says_is_a_line_of_the_log(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "always", "-c", WILD],
        cwd=tmp_path,
        env=child_environment({"LAMBO_LOG_FORMAT": "json", "LAMBO_DATA_DIR": str(tmp_path)}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [json.loads(line) for line in run.stderr.splitlines()]
    told = " ".join(f"{line['message']} {line.get('traceback', '')}" for line in lines)
    for words in (
        "a warning",
        "ValueError: in a thread",
        "unraisable",
        "Invalid HTTP request received.",
        "Internal Server Error: /x",
        "bad %d ('arguments',)",
        "RuntimeError: uncaught",
    ):
        assert words in told
    assert run.returncode == 1
