"""Replies and failures as tool results.

Owns the only place where an answer or an error becomes MCP content. Refuses to decide what went
wrong: it shows the code an error carries, and hides all of an exception that carries none.

Invariant: every result has a text block first, is encodable as UTF-8, and names no address in a
warning. A failed call is a result with `isError`, never a protocol error: the model is to read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from mcp_types import CallToolResult, TextContent

from mcp_bridge.tools import ToolReply
from memory.engine.errors import LamboError

INTERNAL_ERROR: Final = "internal_error"

_URL_WORD: Final = re.compile(r"\S*://\S*")
_LINE_BREAKS: Final = re.compile(r"\s*[\n\r\u2028\u2029]\s*")


def success(reply: ToolReply) -> CallToolResult:
    """The reply as text and data; warnings in a block of their own and inside the data."""
    warnings = [redact(warning) for warning in reply.warnings]
    content = [TextContent(text=reply.text)]
    if warnings:
        lines = "\n".join(f"- {warning}" for warning in warnings)
        content.append(TextContent(text=f"warnings:\n{lines}"))
    return CallToolResult(
        content=[*content], structured_content={**reply.structured, "warnings": warnings}
    )


def failure(tool: str, error: LamboError) -> CallToolResult:
    """A refusal the caller may read in full: message and code as text, all fields as data."""
    hint = ""
    if error.retry_after_seconds is not None:
        hint = f" Retry after {error.retry_after_seconds:g} s."
    return _failed(f"{tool}: {error.message} [{error.code}]{hint}", error.as_wire())


def contained(tool: str) -> CallToolResult:
    """What a caller learns of a fault of ours: that it happened, and that nothing is hidden."""
    message = (
        "internal error (the detail was logged server-side); "
        "there was no effect beyond what was already written"
    )
    wire = {"code": INTERNAL_ERROR, "message": message}
    return _failed(f"{tool}: {message} [{INTERNAL_ERROR}]", wire)


def redact(warning: str) -> str:
    """A warning as one line, every word with an address in it replaced."""
    return _encodable(_URL_WORD.sub("<redacted-url>", _LINE_BREAKS.sub(" ⏎ ", warning)))


def _failed(text: str, wire: Mapping[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=_encodable(text))],
        structured_content={"error": _encodable_json(wire)},
        is_error=True,
    )


def _encodable(text: str) -> str:
    # A message may quote the caller's input, and JSON can smuggle in half a surrogate pair, which
    # no encoder takes: shown as an escape it is legible and harmless.
    return text.encode("utf-8", "backslashreplace").decode()


def _encodable_json(value: Any) -> Any:
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, Mapping):
        return {_encodable(str(key)): _encodable_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable_json(item) for item in value]
    return value
