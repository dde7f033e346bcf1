"""A client that stores whatever it recalls: the memory must not grow, nor prove itself."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from hosting import hosting
from lambo_site.wiring import build_cycles
from memory.engine.config import Config
from memory.engine.errors import RepeatedObservation
from memory.engine.requests import (
    Caller,
    ConceptInput,
    DeriveRequest,
    InspectRequest,
    RecallRequest,
)
from memory.engine.types import ConceptType
from memory.service.host import SessionHost
from memory.testing import InMemoryStore

WRITER, PARROT = Caller("ann"), Caller("parrot")
ROUNDS = 100
EVIDENCE = ("status", "distinct", "coverage", "support_count", "live_blast_radius")


async def derive(host: SessionHost, caller: Caller, concepts: list[ConceptInput]) -> None:
    request = DeriveRequest(tuple(concepts))
    await host.write("s", lambda memory: memory.derive(request, caller), create=True)


async def evidence(host: SessionHost) -> dict[str, tuple[Any, ...]]:
    """Per concept, what promotions go by."""
    view = await host.view("s")
    found = {}
    for row in view.graph.concept_rows():
        node_id = view.graph.id_at(row)
        admission = (await view.inspect(InspectRequest(node_id))).structured["admission"]
        found[node_id] = tuple(admission[name] for name in EVIDENCE)
    return found


@pytest.mark.parametrize("kind", ConceptType)
async def test_what_is_recalled_and_written_back_a_hundred_times_adds_nothing(
    kind: ConceptType,
) -> None:
    async with hosting(InMemoryStore(), cycles=build_cycles(Config()), ticks=False) as host:
        first = [
            ConceptInput("tokens live for one hour", kind),
            ConceptInput("tokens are signed with the team key", kind),
            ConceptInput("sessions end with their tokens", kind),
        ]
        await derive(host, WRITER, first)
        graph = (await host.view("s")).graph
        count, before = graph.concept_count, await evidence(host)
        for _ in range(ROUNDS):
            view = await host.view("s")
            hits = (await view.recall(RecallRequest("tokens"), agent_id="parrot")).structured[
                "hits"
            ]
            assert hits
            echoes = [
                ConceptInput(hit["content"], ConceptType(hit["concept_type"])) for hit in hits
            ]
            for echo in echoes:
                # An observation is one event: saying it again is refused, and told how to cite it.
                with suppress(RepeatedObservation):
                    await derive(host, PARROT, [echo])
        assert (await host.view("s")).graph.concept_count == count
        assert await evidence(host) == before
