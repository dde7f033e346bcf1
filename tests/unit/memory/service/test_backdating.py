"""The time a caller tells is kept; it dates evidence only if the caller may say so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from engine_counts import ENGINES
from engine_database import EngineDatabase, engine_database
from hosting import AGENT, hosting, statement
from memory.admission import Origin, carry_out
from memory.engine.requests import Caller
from memory.engine.rights import LOCAL, Rights, Scope
from memory.service.writes import Writes
from memory.testing import InMemoryStore
from memory.verbs import VERBS

LONG_AGO = 1_000_000
IMPORTER = Caller("importer", may_backdate=True)


@pytest.mark.parametrize("caller", [AGENT, IMPORTER], ids=["agent", "importer"])
async def test_edges_are_dated_by_what_is_told_only_with_the_right(caller: Caller) -> None:
    dated = replace(statement("old fact"), event_time=LONG_AGO)
    async with hosting(InMemoryStore()) as host:
        await host.write("s", lambda memory: memory.derive(dated, caller), create=True)
        graph = (await host.memory("s", create=False)).graph
        (interaction,) = graph.interactions()
        assert interaction.event_time == LONG_AGO
        assert interaction.is_backdated is caller.may_backdate
        edge_times = {edge.event_time for edge in graph.all_edges()}
        assert edge_times == ({LONG_AGO} if caller.may_backdate else {None})


async def test_undated_write_of_an_importer_is_dated_by_its_writing() -> None:
    async with hosting(InMemoryStore()) as host:
        await host.write("s", lambda memory: memory.derive(statement("x"), IMPORTER), create=True)
        (interaction,) = (await host.memory("s", create=False)).graph.interactions()
        assert not interaction.is_backdated


@pytest.fixture(params=ENGINES)
def database(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[EngineDatabase]:
    with django_db_blocker.unblock(), engine_database(tmp_path, request.param) as made:
        yield made


async def test_right_to_backdate_outlives_the_server(database: EngineDatabase) -> None:
    dated = replace(statement("old fact"), event_time=LONG_AGO)
    async with hosting(database.store()) as host:
        for caller in (AGENT, IMPORTER):
            derive = partial(Writes.derive, request=dated, caller=caller)
            await host.write(caller.agent_id, derive, create=True)
    async with hosting(database.store()) as host:
        for caller in (AGENT, IMPORTER):
            graph = (await host.memory(caller.agent_id, create=False)).graph
            assert [told.is_backdated for told in graph.interactions()] == [caller.may_backdate]


@pytest.mark.parametrize(
    ("rights", "counts"),
    [(LOCAL, False), (Rights(frozenset({Scope.READ, Scope.WRITE, Scope.BACKDATE})), True)],
)
async def test_scope_of_the_caller_decides_on_every_surface(rights: Rights, counts: bool) -> None:
    payload = {
        "concepts": [{"content": "old fact", "concept_type": "entity"}],
        "event_time": "2001-01-01T00:00:00Z",
    }
    async with hosting(InMemoryStore()) as host:
        await carry_out(VERBS["derive"], host, "s", payload, Origin("agent-a", rights=rights))
        (interaction,) = (await host.memory("s", create=False)).graph.interactions()
        assert interaction.is_backdated is counts
