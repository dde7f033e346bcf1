"""Taking out, bringing back and erasing through the host, over any store, restarts included."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from engine_counts import ENGINES
from engine_database import engine_database
from hosting import OPERATOR, contents, hosting, statement, until
from memory.embed.fixture import FixtureEmbedder
from memory.engine.config import Durability
from memory.engine.errors import (
    ConceptNotFound,
    InvalidArgument,
    KeyTaken,
    LamboError,
    NotRemoved,
    OutcomeUnknown,
    SessionNotFound,
    TextPurged,
    UnresolvedReference,
)
from memory.engine.mutations import Call
from memory.engine.ports import GraphStore
from memory.engine.requests import (
    Caller,
    ConceptInput,
    DeriveRequest,
    InspectRequest,
    PurgeRequest,
    RecallRequest,
    RestoreRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.traces import BLANK
from memory.engine.types import ConceptType
from memory.service.events import Event
from memory.service.host import SessionHost
from memory.testing import FaultKind, FaultyStore, InMemoryStore, ScriptedEmbedder

WORD = "xylophonist"
TEXT = f"the {WORD} keeps the keys"
KEYED = Caller("agent-a", key="first")


@pytest.fixture(params=["in memory", *ENGINES])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[GraphStore]:
    if request.param == "in memory":
        yield InMemoryStore()
        return
    with django_db_blocker.unblock(), engine_database(tmp_path, request.param) as database:
        yield database.store()


async def derive(host: SessionHost, *texts: str, caller: Caller = KEYED, session: str = "s") -> str:
    request: DeriveRequest = statement(*texts)
    reply = await host.write(session, lambda m: m.derive(request, caller), create=True)
    created: list[str] = reply.structured["created"]
    return created[0] if created else ""


async def cite(host: SessionHost, text: str, pillar: str) -> None:
    request = DeriveRequest((ConceptInput(text, ConceptType.LOGIC, depends_on=(pillar,)),))
    await host.write("s", lambda m: m.derive(request, Caller("agent-b")), create=True)


async def retract(
    host: SessionHost, concept: str, reason: str | None = None, *, key: str | None = None
) -> dict[str, Any]:
    request, caller = RetractRequest(concept, reason=reason), Caller("olga", key, is_operator=True)
    reply = await host.write("s", lambda m: m.retract(request, caller), create=False)
    return reply.structured


async def purge(host: SessionHost, concept: str, confirm: str | None = None) -> dict[str, Any]:
    request = PurgeRequest(concept, confirm)
    return (await host.disappearances.purge("s", request, OPERATOR)).structured


async def restore(host: SessionHost, name: str) -> dict[str, Any]:
    return (await host.disappearances.restore("s", RestoreRequest(name), OPERATOR)).structured


async def gone(host: SessionHost) -> list[dict[str, Any]]:
    page = await host.disappearances.list_page("s", after="", limit=100)
    rows: list[dict[str, Any]] = page.structured["disappearances"]
    return rows


async def everything_shown(host: SessionHost) -> str:
    """All that a caller can get out of the session about the word, by text and by meaning."""
    view = await host.view("s")
    told = [
        await view.recall(RecallRequest(query, top_k=100, max_tokens=10_000))
        for query in (WORD, f"what depends on {TEXT}", "who keeps keys", "guard")
    ]
    told += [await view.saints(), await view.stats()]
    for focus in (TEXT, WORD, "guard"):
        with suppress(ConceptNotFound):
            told.append(await view.inspect(InspectRequest(focus, 3)))
    return "".join(f"{reply.text}{reply.structured}" for reply in told)


async def fill(host: SessionHost) -> str:
    """A concept with the word that everything else knows of; its id."""
    concept_id = await derive(host, TEXT, "guard")
    await cite(host, "guard", TEXT)
    request = SynonymRequest("the musician", TEXT)
    await host.write("s", lambda m: m.declare_synonym(request, OPERATOR), create=False)
    goal = RootGoalRequest((TEXT, "keep order"))
    await host.write("s", lambda m: m.set_root_goal(goal, OPERATOR), create=False)
    assert WORD in await everything_shown(host)
    return concept_id


@pytest.mark.parametrize("act", ["retract", "purge", "retract then purge"])
async def test_what_is_gone_is_shown_nowhere_at_once_and_after_a_restart(
    store: GraphStore, act: str
) -> None:
    async with hosting(store, embedder=FixtureEmbedder()) as host:
        concept_id = await fill(host)
        if act != "purge":
            await retract(host, TEXT, key="taken")
        if act != "retract":
            await purge(host, concept_id, concept_id)
        assert WORD not in await everything_shown(host)
        await host.close_session("s", OPERATOR)
        assert WORD not in await everything_shown(host)
    async with hosting(store, embedder=FixtureEmbedder()) as host:
        assert WORD not in await everything_shown(host)
        graph = (await host.view("s")).graph
        nodes = {graph.id_at(row) for row in graph.concept_rows()}
        nodes |= {interaction.id for interaction in graph.interactions()}
        for edge in graph.all_edges():
            assert {edge.source, edge.target} <= nodes
        assert graph.vectors is not None
        assert len(graph.vectors) == graph.concept_count
        prompts = [interaction.prompt_text for interaction in graph.interactions()]
        assert (WORD in str(prompts)) == (act == "retract")
        if act != "retract":
            assert graph.root_goal == ["keep order"]
            assert graph.synonyms == {}
            view = await host.view("s")
            for key, agent in (("first", "agent-a"), ("taken", "olga")):
                told = await view.receipt(key, agent_id=agent)
                assert WORD not in f"{told.text}{told.structured}"
            assert WORD not in str(await gone(host))


async def test_a_call_repeated_after_a_purge_is_done_once_and_answered_without_the_text(
    store: GraphStore,
) -> None:
    async with hosting(store) as host:
        concept_id = await derive(host, TEXT)
        before = await retract(host, TEXT, key="again")
        assert before["content"] == TEXT
        await purge(host, concept_id, concept_id)
        replayed = await retract(host, TEXT, key="again")
        assert (replayed["content"], replayed["target"]) == (BLANK, concept_id)
        assert await derive(host, TEXT) == concept_id  # the receipt; nothing is written again
        assert contents((await host.view("s")).graph) == set()


async def test_retract_and_restore_over_a_restart(store: GraphStore) -> None:
    async with hosting(store, embedder=FixtureEmbedder()) as host:
        concept_id = await fill(host)
        edges = (await host.view("s")).graph.edge_count
        lost = await retract(host, TEXT, reason="out of date")
        (row,) = await gone(host)
        assert row["node_id"] == concept_id == lost["target"]
        assert (row["kind"], row["actor"], row["reason"]) == ("retract", "olga", "out of date")
        assert (row["state"], row["content"], row["earlier_status"]) == (
            "restorable",
            TEXT,
            "Venerable",
        )
    async with hosting(store, embedder=FixtureEmbedder()) as host:
        back = await restore(host, row["audit_id"])
        assert (back["node_id"], back["earlier_status"], back["lost_edges"]) == (
            concept_id,
            "Venerable",
            [],
        )
        graph = (await host.view("s")).graph
        assert graph.edge_count == edges
        await until(lambda: graph.missing_vector_count == 0)
        assert WORD in await everything_shown(host)
        (row,) = await gone(host)
        assert row["state"] == "back"
        with pytest.raises(NotRemoved):
            await restore(host, concept_id)
    async with hosting(store, embedder=FixtureEmbedder()) as host:
        graph = (await host.view("s")).graph
        found = graph.row_of(concept_id)
        assert found is not None
        assert str(graph.status_at(found)) == "None"
        assert graph.is_shielded(found)


async def test_what_cannot_come_back_is_refused_and_changes_nothing(store: GraphStore) -> None:
    async with hosting(store) as host:
        concept_id = await derive(host, TEXT, "other")
        await retract(host, TEXT)
        await derive(host, f"  {TEXT} ", caller=Caller("agent-a"))
        before = (await host.view("s")).graph.epoch
        with pytest.raises(KeyTaken) as caught:
            await restore(host, concept_id)
        assert caught.value.fields["content"] == TEXT
        with pytest.raises(ConceptNotFound):
            await restore(host, "00000000-0000-4000-8000-00000000dead")
        await purge(host, concept_id, concept_id)
        with pytest.raises(TextPurged):
            await restore(host, concept_id)
        assert [row["state"] for row in await gone(host)] == ["purged"]
        assert (await host.view("s")).graph.epoch >= before


@pytest.mark.parametrize("odd", ["", " ", "*", "%", "null", "\n", "_"])
async def test_odd_names_take_nothing_out(store: GraphStore, odd: str) -> None:
    async with hosting(store) as host:
        await derive(host, TEXT, "other")
        await retract(host, "other")
        before = contents((await host.view("s")).graph), await gone(host)
        for attempt in (retract, restore, purge):
            with pytest.raises((InvalidArgument, ConceptNotFound)):
                await attempt(host, odd)
        for name in ("", "*", "%", "nobody"):
            with pytest.raises((InvalidArgument, SessionNotFound)):
                await host.disappearances.purge(name, PurgeRequest(TEXT, None), OPERATOR)
        with pytest.raises(InvalidArgument):
            await purge(host, TEXT, "00000000-0000-4000-8000-000000000000")
        assert (contents((await host.view("s")).graph), await gone(host)) == before


async def test_the_list_is_paged_by_audit_id_and_refuses_odd_pages(store: GraphStore) -> None:
    async with hosting(store) as host:
        await derive(host, *(f"concept {number}" for number in range(5)))
        for number in range(5):
            await retract(host, f"concept {number}")
        seen: list[str] = []
        after: str | None = ""
        while after is not None:
            page = (await host.disappearances.list_page("s", after=after, limit=2)).structured
            assert len(page["disappearances"]) <= 2
            seen += [row["content"] for row in page["disappearances"]]
            after = page["next"]
        assert seen == [f"concept {number}" for number in reversed(range(5))]
        for after, limit in (("*", 1), ("", 0), ("", 101)):
            with pytest.raises(InvalidArgument):
                await host.disappearances.list_page("s", after=after, limit=limit)
        unknown = await host.disappearances.list_page("unknown", after="", limit=1)
        assert unknown.structured["disappearances"] == []
        assert unknown.text == "nothing was taken out"


async def test_a_purge_in_mode_behind_reaches_what_was_not_committed_yet(
    store: GraphStore,
) -> None:
    async with hosting(store, durability="behind", flush_interval_seconds=60.0) as host:
        concept_id = await derive(host, TEXT, "guard")
        await retract(host, TEXT)
        told = await purge(host, TEXT, concept_id)
        assert told["pending"] is False
        assert [row["state"] for row in await gone(host)] == ["purged"]


async def test_a_purge_in_mode_behind_is_pending_until_the_store_has_it() -> None:
    """The files were scrubbed while the purge itself still waited, and it was called done."""
    store = InMemoryStore()
    faulty = FaultyStore(store)
    async with hosting(
        faulty,
        durability=Durability.BEHIND,
        outcome_unknown_after_seconds=0.1,
        away_after_seconds=0.1,
    ) as host:
        concept_id = await derive(host, TEXT)
        memory = await host.memory("s", create=False)
        await until(lambda: memory.is_idle)
        fault = faulty.fail_next("commit", FaultKind.HANG)
        told = await purge(host, TEXT, concept_id)
        assert told["pending"] is True
        # It was put on a reader of the file, which there was none of.
        assert told["warnings"] == ["the purge is not committed yet: the text is erased when it is"]
        scrubs = faulty.calls["scrub"]
        fault.release.set()
        await until(lambda: faulty.calls["scrub"] > scrubs)
        loaded = store.load_session("s")
        assert loaded is not None
        assert loaded.snapshot.concepts == ()


async def test_a_listener_reads_nothing_more_of_the_text() -> None:
    async with hosting(InMemoryStore()) as host:
        concept_id = await derive(host, TEXT, "guard")
        feed = host.events.listen("s")
        await derive(host, "another", caller=Caller("agent-a"))
        await anext(feed)
        lost = await retract(host, TEXT)
        assert lost["content"] == TEXT
        await purge(host, concept_id, concept_id)
        await derive(host, "last", caller=Caller("agent-a"))
        told = [await anext(feed) for _ in range(5)]
        assert [one.kind for one in told if isinstance(one, Event)] == [
            *("write", "disappearance", "write", "disappearance", "write"),
        ]
        assert TEXT not in repr(told)
        assert concept_id in repr(told)


async def test_a_reason_forges_no_line_of_the_list() -> None:
    async with hosting(InMemoryStore()) as host:
        await derive(host, TEXT)
        await retract(host, TEXT, "old\nanother row  [restorable]")
        page = await host.disappearances.list_page("s", after="", limit=9)
        (line,) = page.text.splitlines()
        assert "old ⏎ another row" in line
        assert page.structured["disappearances"][0]["reason"] == "old\nanother row  [restorable]"


async def test_a_restoration_beside_a_purge_does_not_bring_the_text_back() -> None:
    """It had read the removed state from the store before the purge got there, and put the erased
    text into the graph again behind the purge."""
    store = InMemoryStore()
    faulty = FaultyStore(store)
    async with hosting(faulty) as host:
        concept_id = await derive(host, TEXT)
        await retract(host, TEXT)
        fault = faulty.fail_next("commit", FaultKind.HANG)
        purging = asyncio.create_task(purge(host, TEXT, concept_id))
        await until(fault.entered.is_set)
        with pytest.raises(TextPurged):
            await restore(host, concept_id)
        fault.release.set()
        assert (await purging)["purged"] is True
        assert contents((await host.memory("s", create=False)).graph) == set()
    loaded = store.load_session("s")
    assert loaded is not None
    assert loaded.snapshot.concepts == ()


async def test_a_listener_that_reads_on_after_a_purge_waits_for_what_comes() -> None:
    """It asked for the next event while everything told before was forgotten, and its stream ended
    on an error."""
    async with hosting(InMemoryStore()) as host:
        concept_id = await derive(host, TEXT)
        feed = host.events.listen("s")
        await derive(host, "another", caller=Caller("agent-a"))
        await anext(feed)
        await purge(host, TEXT, concept_id)
        for _ in ("the purge", "the disappearance"):
            await anext(feed)
        waiting = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)
        await derive(host, "last", caller=Caller("agent-a"))
        after = await waiting
        assert isinstance(after, Event)
        assert isinstance(after.data, dict)
        assert after.data["verb"] == "derive"


async def test_a_refusal_of_an_accepted_write_does_not_quote_the_text_any_more() -> None:
    async with hosting(InMemoryStore()) as host:
        concept_id = await derive(host, TEXT)
        memory = await host.memory("s", create=False)

        async def refused() -> None:
            raise UnresolvedReference(f"no concept of this session: {TEXT!r}", field="depends_on")

        for key in ("late", "later"):
            memory.accepted.accept(Call("derive", "agent-b", key, "digest", "{}"), refused)
        await until(lambda: memory.is_idle)
        told = await memory.receipt("late", agent_id="agent-b")
        assert WORD in told.text
        await purge(host, concept_id, concept_id)
        told = await memory.receipt("late", agent_id="agent-b")
        assert told.structured["error"] == {"code": "unresolved_reference", "message": BLANK}


async def test_a_store_that_cannot_scrub_yet_is_asked_again_and_the_reply_says_so() -> None:
    faulty = FaultyStore(InMemoryStore())
    async with hosting(faulty) as host:
        concept_id = await derive(host, TEXT)
        await until(lambda: faulty.calls["scrub"] == 1)  # at the start
        faulty.fail_next("scrub", FaultKind.TRANSIENT_BEFORE)
        request = PurgeRequest(TEXT, concept_id)
        caller = Caller("olga", key="p", is_operator=True)
        reply = await host.disappearances.purge("s", request, caller)
        assert reply.structured["pending"] is True
        assert "erased when it is done" in reply.text
        await until(lambda: faulty.calls["scrub"] >= 3)
        again = await host.disappearances.purge("s", request, caller)
        assert again.replayed
        assert again.structured["pending"] is False


@pytest.mark.parametrize("is_caller_gone", [False, True])
async def test_a_purge_that_nobody_heard_the_end_of_is_finished_all_the_same(
    is_caller_gone: bool,
) -> None:
    """The store took the purge after the answer was given up, and its files were never scrubbed:
    the text stood in the write-ahead log until the next start."""
    faulty = FaultyStore(InMemoryStore())
    async with hosting(faulty, outcome_unknown_after_seconds=0.1, away_after_seconds=0.1) as host:
        concept_id = await derive(host, TEXT)
        await until(lambda: faulty.calls["scrub"] == 1)  # at the start
        fault = faulty.fail_next("commit", FaultKind.HANG)
        asking = asyncio.create_task(purge(host, TEXT, concept_id))
        await until(fault.entered.is_set)
        if is_caller_gone:
            asking.cancel()
        with pytest.raises(asyncio.CancelledError if is_caller_gone else OutcomeUnknown):
            await asking
        assert faulty.calls["scrub"] == 1
        fault.release.set()
        memory = await host.memory("s", create=False)
        await until(lambda: memory.is_idle and faulty.calls["scrub"] == 2)
        assert contents(memory.graph) == set()


async def test_a_refused_purge_is_whole_or_not_at_all() -> None:
    faulty = FaultyStore(InMemoryStore())
    async with hosting(faulty) as host:
        concept_id = await derive(host, TEXT)
        faulty.rejects = lambda group: any(
            type(item).__name__ == "PurgeText" for item in group.mutations
        )
        with pytest.raises(LamboError) as caught:
            await purge(host, TEXT, concept_id)
        assert caught.value.code == "rejected_by_store"
        memory = await host.memory("s", create=False)
        await until(lambda: contents(memory.graph) == {TEXT})
        faulty.rejects = lambda group: False
        assert (await purge(host, TEXT, concept_id))["purged"] is True
        assert faulty.count_dead_letters("s") == 1


@pytest.mark.parametrize("act", ["retract", "restore"])
async def test_an_act_between_the_looking_up_of_a_purge_and_its_step_is_seen(act: str) -> None:
    """What the concept was when it was looked up was taken for what it is: a concept retracted in
    between left the prompts of those who had written it."""
    faulty = FaultyStore(InMemoryStore())
    async with hosting(faulty) as host:
        concept_id = await derive(host, TEXT)
        synonym = SynonymRequest("where the ring is", TEXT)
        await host.write("s", lambda m: m.declare_synonym(synonym, OPERATOR), create=False)
        await derive(host, "where the ring is", caller=Caller("agent-b"))
        if act == "restore":
            await retract(host, TEXT)
        fault = faulty.fail_next("find_blanked", FaultKind.HANG)
        purging = asyncio.create_task(purge(host, concept_id, concept_id))
        await until(fault.entered.is_set)
        if act == "retract":
            await retract(host, TEXT)
        else:
            await restore(host, concept_id)
        looked = faulty.calls["find_blanked"]
        fault.release.set()
        assert (await purging)["purged"] is True
        assert faulty.calls["find_blanked"] == looked + 1
        graph = (await host.memory("s", create=False)).graph
        assert contents(graph) == set()
        assert [interaction.prompt_text for interaction in graph.interactions()] == [None] * 2
        assert {row["content"] for row in await gone(host)} == {None}


async def test_a_write_that_waits_does_not_bring_a_purged_text_back() -> None:
    """An accepted write that was still waiting wrote the erased text anew behind the purge."""
    embedder = ScriptedEmbedder(FixtureEmbedder())
    async with hosting(InMemoryStore(), embedder=embedder) as host:
        concept_id = await derive(host, TEXT)
        memory = await host.memory("s", create=False)
        embedder.hold()
        for key, text in (("held", f"mind: {TEXT.upper()}"), ("clean", "another thing")):
            request = statement(text)
            await memory.derive(request, Caller("agent-b", key), wait=False)
        await until(embedder.entered.is_set)
        await purge(host, concept_id, concept_id)
        embedder.release()
        await until(lambda: memory.is_idle)
        assert contents(memory.graph) == {"another thing"}
        told = await memory.receipt("held", agent_id="agent-b")
        assert told.structured["error"]["code"] == "text_purged"
        assert WORD not in f"{told.text}{told.structured}".lower()


async def test_a_purge_of_what_lived_is_listed(store: GraphStore) -> None:
    """Only removals that had kept the text were listed; who had erased a live one was not."""
    async with hosting(store) as host:
        concept_id = await derive(host, TEXT, "other")
        await retract(host, "other")
        await purge(host, TEXT, concept_id)
        live, other = await gone(host)
        assert (live["node_id"], live["kind"], live["state"]) == (concept_id, "purge", "purged")
        assert (live["content"], live["actor"]) == (None, OPERATOR.agent_id)
        assert (other["kind"], other["state"]) == ("retract", "restorable")
        await purge(host, other["node_id"], other["node_id"])
        assert [row["kind"] for row in await gone(host)] == ["purge", "retract"]
        with pytest.raises(TextPurged):
            await restore(host, other["node_id"])


async def test_another_spelling_in_a_waiting_goal_or_answer_goes_with_the_text(
    store: GraphStore,
) -> None:
    """The goal, the synonym and a receipt in lower case kept a text that was said to be erased."""
    async with hosting(store) as host:
        concept_id = await derive(host, "Quokka Vault Passphrase", "other")
        goal = RootGoalRequest(("guard the quokka vault passphrase", "keep order"))
        await host.write("s", lambda m: m.set_root_goal(goal, OPERATOR), create=False)
        synonym = SynonymRequest("QUOKKA vault  passphrase", "other")
        await host.write("s", lambda m: m.declare_synonym(synonym, OPERATOR), create=False)
        await purge(host, "quokka-vault passphrases", concept_id)
        graph = (await host.memory("s", create=False)).graph
        assert (graph.root_goal, graph.synonyms) == (["keep order"], {})
    loaded = await asyncio.to_thread(store.load_session, "s")
    assert loaded is not None
    assert "quokka" not in str(loaded.snapshot).lower()
