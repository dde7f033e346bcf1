"""Questions to a session that another server writes: answered from the store, and said so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hosting import AGENT, hosting, statement
from memory.embed.fixture import FixtureEmbedder
from memory.engine.errors import LeaseHeld
from memory.engine.requests import ConceptsRequest, InspectRequest, RecallRequest
from memory.engine.rights import LOCAL
from memory.service.host import SessionHost
from memory.service.replies import Reply
from memory.testing import InMemoryStore

NOTE = (
    "read from the store, as last committed and without what its writer knows: session 's' is "
    "written by another server (http://node-1)"
)


@pytest.fixture
async def hosts() -> AsyncIterator[tuple[SessionHost, SessionHost]]:
    """The writer of a session, and another server over the same store."""
    store = InMemoryStore()
    embedder = FixtureEmbedder()
    async with (
        hosting(store, node_id="node-1", embedder=embedder) as writer,
        hosting(store, node_id="node-2", embedder=embedder) as reader,
    ):
        await derive(writer, "tokens live an hour")
        yield writer, reader


async def derive(host: SessionHost, text: str) -> Reply:
    return await host.write("s", lambda m: m.derive(statement(text), AGENT), create=True)


async def ask(host: SessionHost, query: str = "tokens") -> Reply:
    return await host.views.recall(await host.view("s"), RecallRequest(query), AGENT, LOCAL)


async def test_a_reader_answers_from_the_store_and_says_so(
    hosts: tuple[SessionHost, SessionHost],
) -> None:
    writer, reader = hosts
    written, read = await ask(writer), await ask(reader)
    assert "source" not in written.structured
    assert read.structured["source"] == "store"
    assert read.structured["warnings"] == [NOTE]
    assert read.structured["context"] == written.structured["context"]
    assert read.text == f"{NOTE}\n\n{written.text}"
    assert reader.open_session_ids == []


async def test_a_reader_finds_by_meaning_too(hosts: tuple[SessionHost, SessionHost]) -> None:
    writer, reader = hosts
    await derive(writer, "billing retries thrice")
    request = RecallRequest("the billing retrying")
    view = await reader.view("s")
    meanings, failure = await view._find_query(request)
    assert failure is None
    assert meanings is not None
    assert "billing retries thrice" in (await ask(reader, "billing")).text


async def test_a_reader_sees_each_commit_with_its_next_question(
    hosts: tuple[SessionHost, SessionHost],
) -> None:
    writer, reader = hosts
    assert "refresh" not in (await ask(reader)).text
    await derive(writer, "refresh tokens live a week")
    assert "refresh" in (await ask(reader)).text


async def test_other_questions_say_so_too_and_writes_are_refused(
    hosts: tuple[SessionHost, SessionHost],
) -> None:
    _, reader = hosts
    view = await reader.view("s")
    inspected = await view.inspect(InspectRequest("tokens live an hour"))
    assert inspected.structured["warnings"] == [NOTE]
    assert (await view.concepts(ConceptsRequest())).structured["warnings"] == [NOTE]
    assert (await view.stats()).structured["warnings"] == [NOTE]
    with pytest.raises(LeaseHeld):
        await view.receipt("k", agent_id="agent-a")  # it may be on its way there
    with pytest.raises(LeaseHeld):
        await derive(reader, "it may not")


async def test_nothing_to_say_is_said_to_come_from_the_store(
    hosts: tuple[SessionHost, SessionHost],
) -> None:
    store = InMemoryStore()
    async with hosting(store, node_id="node-1") as writer, hosting(store, node_id="b") as reader:
        await writer.create_session("s", AGENT)
        assert (await ask(reader)).text == NOTE


async def test_a_session_its_writer_gave_back_is_opened(
    hosts: tuple[SessionHost, SessionHost],
) -> None:
    writer, reader = hosts
    await ask(reader)
    await writer.close_session("s", AGENT)
    assert "source" not in (await ask(reader)).structured
    assert reader.open_session_ids == ["s"]
