"""Events that are replayed or still wait tell no text of what is gone, over any store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from engine_counts import ENGINES
from engine_database import engine_database
from hosting import AGENT, OPERATOR, hosting, statement, until
from memory.engine.config import Durability
from memory.engine.event_texts import REMOVED
from memory.engine.ports import GraphStore
from memory.engine.requests import (
    ActionRequest,
    ConceptInput,
    ConfirmRequest,
    DeriveRequest,
    RestoreRequest,
    RetractRequest,
)
from memory.engine.types import ConceptType
from memory.service.host import SessionHost
from memory.testing import FaultKind, FaultyStore, InMemoryStore

WORD = "xylophonist"
TEXT = f"the {WORD} keeps the keys"


@pytest.fixture(params=["in memory", *ENGINES])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[GraphStore]:
    if request.param == "in memory":
        yield InMemoryStore()
        return
    with django_db_blocker.unblock(), engine_database(tmp_path, request.param) as database:
        yield database.store()


async def derive(host: SessionHost, *texts: str) -> None:
    request: DeriveRequest = statement(*texts)
    await host.write("s", lambda m: m.derive(request, AGENT), create=True)


async def cite(host: SessionHost, text: str, pillar: str) -> None:
    request = DeriveRequest((ConceptInput(text, ConceptType.LOGIC, depends_on=(pillar,)),))
    await host.write("s", lambda m: m.derive(request, AGENT), create=True)


async def retract(host: SessionHost, concept: str) -> None:
    request = RetractRequest(concept, reason=None)
    await host.write("s", lambda m: m.retract(request, OPERATOR), create=False)


async def restore(host: SessionHost, concept: str) -> None:
    page = await host.disappearances.list_page("s", after="", limit=100)
    row = next(row for row in page.structured["disappearances"] if row["content"] == concept)
    await host.disappearances.restore("s", RestoreRequest(row["audit_id"]), OPERATOR)


async def replayed(host: SessionHost) -> str:
    """Everything that replaying the events tells."""
    page = await host.events.list_page("s", since=0, limit=200, kinds=())
    with host.events.listen("s", since=0) as feed:
        told = [await anext(feed) for _ in page.structured["events"]]
    return f"{page.text}{page.structured}{told}"


async def tell_much(host: SessionHost) -> None:
    """Write what quotes the text in many ways."""
    await derive(host, TEXT, "guard")
    await cite(host, f"{WORD} on duty", TEXT)
    action, confirm = ActionRequest(f"called the {WORD}", depends_on=(TEXT,)), ConfirmRequest(TEXT)
    await host.write("s", lambda m: m.record_action(action, AGENT), create=False)
    await host.write("s", lambda m: m.confirm(confirm, OPERATOR), create=False)


@pytest.mark.parametrize("durability", ["commit", "behind"])
async def test_replayed_events_tell_no_text_of_what_is_gone(
    store: GraphStore, durability: str
) -> None:
    """A reader without any right to the audit trail was told it by the stored events."""
    config: dict[str, Any] = {
        "durability": Durability(durability),
        "flush_interval_seconds": 60.0,
    }
    async with hosting(store, **config) as host:
        await tell_much(host)
    async with hosting(store, **config) as host:
        told = await replayed(host)
        for quote in (f"'called the {WORD}'", f"{WORD} on duty", f"confirmed '{TEXT}'"):
            assert quote in told
        for text in (f"called the {WORD}", f"{WORD} on duty", TEXT):
            await retract(host, text)
        assert WORD not in await replayed(host)
    async with hosting(store, **config) as host:
        assert WORD not in await replayed(host)
        await host.memory("s", create=False)
        assert WORD not in await replayed(host)
        await restore(host, TEXT)
    async with hosting(store, **config) as host:
        told = await replayed(host)
        assert TEXT in told
        assert f"called the {WORD}" not in told
        await retract(host, TEXT)
        assert WORD not in await replayed(host)


@pytest.mark.parametrize("durability", ["commit", "behind"])
async def test_what_waits_for_a_listener_tells_no_text_of_what_is_gone(durability: str) -> None:
    config: dict[str, Any] = {
        "durability": Durability(durability),
        "flush_interval_seconds": 0.01,
    }
    async with hosting(InMemoryStore(), **config) as host:
        await derive(host, "first")
        with host.events.listen("s") as slow, host.events.listen("s") as other:
            await derive(host, TEXT)
            told = [await anext(other)]
            if "first" in repr(told):
                told = [await anext(other)]
            assert TEXT in repr(told)
            await retract(host, TEXT)
            told = [await anext(slow) for _ in range(3)]
            assert WORD not in repr(told)
            assert REMOVED in repr(told)


async def test_a_removal_that_is_answered_but_not_committed_counts_for_events() -> None:
    store = FaultyStore(InMemoryStore())
    behind: dict[str, Any] = {"durability": Durability.BEHIND, "flush_interval_seconds": 0.01}
    async with hosting(store, **behind) as host:
        with host.events.listen("s", since=0) as feed:
            await derive(host, TEXT)
            await until(lambda: bool(store.list_events("s", after=0, limit=1).events))
            hang = store.fail_next("commit", FaultKind.HANG)
            await retract(host, TEXT)
            await until(hang.entered.is_set)
            page = await host.events.list_page("s", since=0, limit=9, kinds=())
            assert [one["id"] for one in page.structured["events"]] == [1]
            assert WORD not in str(page)
            told = await anext(feed)
            assert WORD not in repr(told)
            assert REMOVED in repr(told)
            hang.release.set()
