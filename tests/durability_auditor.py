"""Judges what clients were told by what the store holds, and knows nothing of how it came there.

It reads the raw rows and the clients' ledger, and shares no code with the service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hosting import contents
from memory.engine.types import Snapshot
from memory.service.memory import Memory
from simulated_servers import POISON, SESSIONS, Server, World


def find_faults(world: World) -> list[str]:
    """What is wrong, in sentences; empty when every promise was kept."""
    return [
        *world.seen,
        *(f"an unexplained error: {error!r}" for error in world.bugs),
        *(fault for session in SESSIONS for fault in _faults_of_session(world, session)),
        *find_lies(world),
        *_unsettled(world),
    ]


def _faults_of_session(world: World, session: str) -> Iterator[str]:
    loaded = world.store.load_session(session)
    held = Counter[str]()
    written = Counter[str]()
    if loaded is not None:
        held.update(concept.content for concept in loaded.snapshot.concepts)
        written.update(interaction.id for interaction in loaded.snapshot.interactions)
        yield from (f"{session}: set aside: {one.sentence}" for one in loaded.set_aside)
        yield from _faults_of_log(loaded.snapshot)
        if aside := world.store.count_set_aside(session):
            yield f"{session}: {aside} rows were of no use, and were put aside"
    receipts = {} if loaded is None else loaded.receipt_digests
    for write in world.writes:
        if write.session != session:
            continue
        count = held[write.text]
        named = f"{session}: {write.key} ({', '.join(write.told)})"
        if count > 1:
            yield f"{named} is there {count} times"
        if write.is_acknowledged and not count:
            yield f"{named} was acknowledged and is gone"
        if write.is_acknowledged and (write.agent, write.key) not in receipts:
            yield f"{named} was acknowledged and has no receipt"
        if len(write.interactions) > 1:
            yield f"{named} was answered with {len(write.interactions)} different ids"
        if write.interactions and not all(written[name] for name in write.interactions):
            yield f"{named} was answered with an id that is not there"
        if "refused" in write.told and POISON not in write.text:
            yield f"{named} was refused, and nothing is wrong with it"


def _faults_of_log(snapshot: Snapshot) -> Iterator[str]:
    """Interactions are one chain: each but the first goes on from another, and none from two."""
    known = {interaction.id for interaction in snapshot.interactions}
    before = Counter(interaction.previous_id for interaction in snapshot.interactions)
    if snapshot.interactions and before[None] != 1:
        yield f"{snapshot.session_id}: the log begins {before[None]} times"
    for parent, count in before.items():
        if parent is not None and parent not in known:
            yield f"{snapshot.session_id}: an interaction goes on from one that is not there"
        if parent is not None and count > 1:
            yield f"{snapshot.session_id}: {count} interactions go on from one"
    ends = {end for edge in snapshot.edges for end in (edge.source, edge.target)}
    nodes = known | {concept.id for concept in snapshot.concepts}
    if ends - nodes:
        yield f"{snapshot.session_id}: {len(ends - nodes)} ends of edges are not there"


def find_lies(world: World) -> Iterator[str]:
    """What is wrong at this moment, whatever comes after."""
    yield from _differences(world)
    for session in SESSIONS:
        loaded = world.store.load_session(session)
        kept = set() if loaded is None else {one.content for one in loaded.snapshot.concepts}
        for write in world.writes:
            is_denied = write.told and {*write.told} <= {"nothing stored", "refused"}
            if (
                is_denied
                and not write.under_way
                and write.session == session
                and write.text in kept
            ):
                yield f"{session}: {write.key} was told that nothing is stored, and it is"


def _differences(world: World) -> Iterator[str]:
    """A server that holds a session, and waits for nothing, has in RAM what the store holds."""
    for server, name, memory in _held(world):
        if memory.unsettled_count or not memory.takes_writes():
            continue
        loaded = world.store.load_session(name)
        held = contents(memory.graph)
        kept = set() if loaded is None else {one.content for one in loaded.snapshot.concepts}
        if held != kept:
            yield f"{server.name}: RAM and store of {name} differ by {sorted(held ^ kept)}"


def _unsettled(world: World) -> Iterator[str]:
    for server, name, memory in _held(world):
        if memory.unsettled_count:
            yield f"{server.name}: {memory.unsettled_count} writes of {name} never settled"


def _held(world: World) -> Iterator[tuple[Server, str, Memory]]:
    """The sessions in RAM whose lease is their server's by the store's word."""
    for server in world.servers.values():
        if server.is_dead or server.host is None:
            continue
        for name, memory in server.host._memories().items():
            if (
                not memory.is_fenced
                and world.store.read_positions([name])[name].node_id == server.name
            ):
                yield server, name, memory
