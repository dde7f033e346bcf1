"""Replies and failures as tool results."""

from __future__ import annotations

from mcp_types import CallToolResult, TextContent

from mcp_bridge import results
from mcp_bridge.tools import ToolReply
from memory.engine.errors import InvalidArgument, StoreUnavailable


def texts(result: CallToolResult) -> list[str]:
    assert all(isinstance(block, TextContent) for block in result.content)
    return [block.text for block in result.content if isinstance(block, TextContent)]


def test_reply_without_warnings_is_one_block_and_still_lists_warnings() -> None:
    result = results.success(ToolReply(text="t", structured={"summary": "t"}))
    assert texts(result) == ["t"]
    assert result.structured_content == {"summary": "t", "warnings": []}
    assert not result.is_error


def test_warnings_are_a_second_block_without_addresses_or_forged_lines() -> None:
    reply = ToolReply(
        text="t", structured={}, warnings=["at (postgres://u:p@h/d), twice ://x\n- forged", "b"]
    )
    result = results.success(reply)
    assert texts(result)[1] == (
        "warnings:\n- at <redacted-url> twice <redacted-url> ⏎ - forged\n- b"
    )
    assert result.structured_content["warnings"][1] == "b"
    assert "postgres" not in str(result)


def test_failure_shows_message_code_hint_and_fields() -> None:
    result = results.failure("lambo_x", StoreUnavailable("away", retry_after_seconds=2.0, n=1))
    assert result.is_error
    assert texts(result) == ["lambo_x: away [store_unavailable] Retry after 2 s."]
    assert result.structured_content == {
        "error": {
            "code": "store_unavailable",
            "message": "away",
            "n": 1,
            "retry_after_seconds": 2.0,
        }
    }


def test_failure_that_quotes_half_a_surrogate_can_be_encoded() -> None:
    error = InvalidArgument("f", "bad \ud800", given=["\udfff", {"\ud800": 1}])
    result = results.failure("lambo_x", error)
    assert texts(result) == ["lambo_x: bad \\ud800 [invalid_argument]"]
    result.model_dump_json()


def test_contained_fault_says_nothing_of_its_cause() -> None:
    result = results.contained("lambo_x")
    assert result.is_error
    assert texts(result)[0].startswith("lambo_x: internal error (the detail was logged")
    assert result.structured_content["error"]["code"] == "internal_error"
