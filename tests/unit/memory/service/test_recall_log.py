"""One line of the log per recall: numbers, and nothing of what was asked or answered."""

from __future__ import annotations

import logging

import pytest

from hosting import AGENT, hosting, statement
from memory.engine.requests import RecallRequest
from memory.testing import InMemoryStore


async def test_a_recall_is_one_line_of_numbers(caplog: pytest.LogCaptureFixture) -> None:
    async with hosting(InMemoryStore()) as host:
        await host.write(
            "s", lambda m: m.derive(statement("tokens live an hour"), AGENT), create=True
        )
        view = await host.view("s")
        with caplog.at_level(logging.INFO, logger="lambo.recall"):
            reply = await view.recall(RecallRequest("tokens and zebras"), agent_id="ann")

    (record,) = [one for one in caplog.records if one.name == "lambo.recall"]
    fields = vars(record)
    assert fields["action"] == "recalled"
    assert (fields["session"], fields["agent_id"]) == ("s", "ann")
    assert fields["hits"] == len(reply.structured["hits"]) == 1
    assert fields["legs"] == {"keyword": 1, "recent": 1}
    assert fields["tokens"] == -(-2 * len(reply.text.encode()) // 7)
    assert fields["left_out"] == 0
    assert isinstance(fields["cold_start"], bool)
    assert fields["by_meaning"] is False
    assert 0 <= fields["answer_ms"] <= fields["took_ms"]
    assert 0 <= fields["lookup_ms"] <= fields["took_ms"]
    told = repr(fields)
    assert "zebras" not in told
    assert "an hour" not in told
