"""A store with its audit trail, its chain key and a file of anchors, for hosts that seal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine_database import EngineDatabase, engine_database
from hosting import OPERATOR, act, statement
from memory.anchors import AnchorFile
from memory.engine.audit_verification import AuditTrail
from memory.engine.ports import GraphStore
from memory.engine.requests import Caller, PurgeRequest, RetractRequest, SynonymRequest
from memory.service.audit_check import AuditReport, check_trail
from memory.service.audit_keeper import AuditKeeper
from memory.service.host import SessionHost
from memory.store.audit_trail import DjangoAuditTrail
from memory.system import SystemClock
from memory.testing import InMemoryStore

KEY = b"the chain key of these tests, 32+"


@dataclass(frozen=True, slots=True)
class SealedStore:
    """What a host that seals is made of, and what a check of it takes."""

    store: GraphStore
    trail: AuditTrail
    anchors: AnchorFile
    database: EngineDatabase | None = None

    def keeper(self, key: bytes = KEY) -> AuditKeeper:
        return AuditKeeper.sealing(key, anchors=self.anchors, trail=self.trail, clock=SystemClock())

    def check(self, *, session_id: str | None = None, key: bytes = KEY) -> AuditReport:
        return check_trail(self.trail, key, self.anchors.read(), session_id=session_id)


def sealed_in_memory(folder: Path) -> SealedStore:
    store = InMemoryStore()
    return SealedStore(store, store, AnchorFile(folder / "anchors.jsonl"))


@contextmanager
def sealed_on(engine: str, folder: Path) -> Iterator[SealedStore]:
    """On a database engine. Needs unblocked database access."""
    with engine_database(folder, engine) as database:
        yield SealedStore(
            database.store(),
            DjangoAuditTrail(database.reader),
            AnchorFile(folder / "anchors.jsonl"),
            database,
        )


async def derive(host: SessionHost, *texts: str, session: str = "s") -> list[str]:
    """New concepts; their ids."""
    request, caller = statement(*texts), Caller("agent-a")
    reply = await host.write(session, lambda memory: memory.derive(request, caller), create=True)
    created: list[str] = reply.structured["created"]
    return created


async def retract(host: SessionHost, concept: str, *, session: str = "s") -> None:
    request = RetractRequest(concept, reason="no longer so")
    await host.write(session, lambda memory: memory.retract(request, OPERATOR), create=False)


async def rule(host: SessionHost, name: str, meant: str, *, session: str = "s") -> None:
    """Declare a synonym: an audit row with texts."""
    request = SynonymRequest(name, meant)
    await host.write(session, lambda memory: memory.declare_synonym(request, OPERATOR), create=True)


async def purge(host: SessionHost, concept: str, *, session: str = "s") -> dict[str, Any]:
    request = PurgeRequest(concept, confirm=concept)
    reply = await host.disappearances.purge(session, request, OPERATOR)
    return dict(reply.structured)


async def write_trail(host: SessionHost, count: int = 4, *, session: str = "s") -> list[str]:
    """So many retractions, each an audit row with a reason and a removed state; the concepts."""
    ids = await derive(host, *(f"statement {n}" for n in range(count)), session=session)
    request = act("an act", "statement 0")
    await host.write(
        session, lambda memory: memory.record_action(request, Caller("agent-b")), create=False
    )
    for concept in ids:
        await retract(host, concept, session=session)
    return ids
