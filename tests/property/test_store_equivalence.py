"""Gathering a log into few statements stores what writing it mutation by mutation stores.

The in-memory store applies mutations one by one; the durable one gathers them into stages. Random
logs, cut into groups and batches at random, must leave both with equal sessions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoDbBlocker

from engine_counts import ENGINES
from engine_database import EngineDatabase, engine_database
from memory.engine.embedding import EmbeddingContract
from memory.engine.mutations import (
    ApplyTransition,
    DeleteConcept,
    DeleteEdge,
    DeleteReservation,
    DeleteSynonym,
    Mutation,
    PurgeText,
    PutAccess,
    PutAudit,
    PutConcept,
    PutCycleState,
    PutEdge,
    PutInteraction,
    PutReservation,
    PutSynonym,
    PutVector,
    SetRootGoal,
    SwitchContract,
)
from memory.engine.ports import LoadedSession, Removal, StoreRejected
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    Reservation,
    Status,
    Transition,
)
from memory.store.django_store import DjangoStore
from memory.testing import InMemoryStore
from session_log import START, SessionLog, in_order

_sessions = itertools.count(1)
CONTRACT = EmbeddingContract("fixture", None, 2)
ANOTHER = EmbeddingContract("another", "model", 3)


@pytest.fixture(scope="module", params=ENGINES)
def database(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[EngineDatabase]:
    folder: Path = tmp_path_factory.mktemp("equivalence")
    with django_db_blocker.unblock(), engine_database(folder, request.param) as made:
        yield made


@pytest.fixture(scope="module")
def durable(database: EngineDatabase) -> DjangoStore:
    return database.store()


small = st.integers(0, 3)
"""Few names, so that mutations meet each other: the same concept, key, edge, event again."""


@st.composite
def mutations(draw: st.DrawFn, session: int) -> Mutation:
    """One mutation over a handful of ids that belong to one session."""

    def node(kind: int, number: int) -> str:
        return f"{session:08x}-{kind:04x}-4000-8000-{number:012x}"

    one, two, three = draw(small), draw(small), draw(small)
    at = START + draw(st.integers(0, 9))
    match draw(st.integers(0, 13)):
        case 0:
            previous = None if one == 0 else node(1, draw(st.sampled_from([one - 1] * 9 + [9])))
            return PutInteraction(Interaction(node(1, one), f"a{two}", None, previous, START + one))
        case 1 | 2:
            is_observation = draw(st.booleans())
            return PutConcept(
                Concept(
                    id=node(2, one),
                    content=f"content {one}",
                    canonical_key=f"key {two}",
                    concept_type=(
                        ConceptType.OBSERVATION if is_observation else ConceptType.ENTITY
                    ),
                    origin_interaction=node(1, three),
                    origin_agent="a",
                    created_at=at,
                    gc_survived=three,
                    status=draw(st.sampled_from(Status)),
                )
            )
        case 3 | 4:
            kind = draw(st.sampled_from([EdgeType.DERIVES, EdgeType.CAUSAL, EdgeType.TEMPORAL]))
            sorts = {EdgeType.DERIVES: (1, 2), EdgeType.CAUSAL: (2, 2), EdgeType.TEMPORAL: (1, 1)}
            source_sort, target_sort = sorts[kind]
            return PutEdge(
                Edge(
                    id=node(3, draw(st.integers(0, 20))),
                    source=node(source_sort, one),
                    target=node(target_sort, two),
                    edge_type=kind,
                    weight=float(three),
                    reinforcements=three,
                    created_at=at,
                    last_reinforced=at,
                    created_by=f"a{one}",
                    reinforced_by=f"a{two}",
                )
            )
        case 5:
            return DeleteConcept(node(2, one))
        case 6:
            if draw(st.booleans()):
                return DeleteReservation(node(2, one))
            return DeleteEdge(node(3, draw(st.integers(0, 20))))
        case 7:
            return ApplyTransition(
                Transition(
                    id=node(4, draw(st.integers(0, 6))),
                    node_id=node(2, one),
                    from_status=Status.NONE,
                    to_status=draw(st.sampled_from(Status)),
                    blast_radius=two,
                    last_demotion_time=draw(st.none() | st.just(at)),
                    occurred_at=at,
                    actor="evaluator",
                )
            )
        case 8:
            if draw(st.booleans()):
                return SetRootGoal(two)
            spelling = f"s{one}"
            return PutSynonym(spelling, f"t{two}") if three else DeleteSynonym(spelling)
        case 9:
            contract = draw(st.sampled_from([CONTRACT, ANOTHER]))
            if not three:
                return SwitchContract(contract)
            return PutVector(node(2, one), contract.key, bytes([two] * 4 * contract.dim))
        case 10:
            concept = {"content": f"content {one}", "id": node(2, one)}
            return PutAudit(
                AuditEntry(
                    id=node(5, draw(st.integers(0, 6))),
                    # Steps of a status are not put this way.
                    kind=draw(st.sampled_from(sorted(set(AuditKind) - {AuditKind.TRANSITION}))),
                    node_id=node(2, one),
                    from_status=draw(st.none() | st.sampled_from(Status)),
                    to_status=None,
                    occurred_at=at,
                    actor="human",
                    reason=draw(st.none() | st.just(f"about content {two}")),
                    detail={"gc_survived": three},
                    texts=draw(st.none() | st.just([f"content {two}", "other"])),
                    removed=draw(st.none() | st.just({"concept": concept, "names": {}})),
                )
            )
        case 11:
            return PurgeText((node(2, one),), f"content {two}")
        case 12:
            if draw(st.booleans()):
                return PutAccess(node(2, one), three, at)
            return PutCycleState({"counted": two}, draw(st.none() | st.just(at)), None)
        case _:
            return PutReservation(Reservation(node(2, one), f"a{two}", at))


def commit(log: SessionLog, batch: list[list[Mutation]]) -> bool:
    try:
        assert not log.commit(*batch)
    except StoreRejected:
        return False
    return True


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_log_in_any_batches_leaves_equal_sessions(
    durable: DjangoStore, data: st.DataObject
) -> None:
    number = next(_sessions)
    name = f"session {number}"
    reference = SessionLog(InMemoryStore(), name, contract=CONTRACT)
    tested = SessionLog(durable, name, contract=CONTRACT)
    batches = data.draw(
        st.lists(
            st.lists(st.lists(mutations(number), max_size=6), min_size=1, max_size=4),
            min_size=1,
            max_size=4,
        )
    )

    for batch in batches:
        is_expected = commit(reference, batch)
        # A batch that is refused whole is tried group by group, as the committer does.
        for part in [batch] if is_expected else [[group] for group in batch]:
            assert commit(tested, part) == (
                is_expected if part is batch else commit(reference, part)
            )
        assert loaded(tested) == loaded(reference)
        assert removals(tested) == removals(reference)
        for place in range(4):
            purge = PurgeText((), f"content {place}")
            assert tested.store.find_traces(name, purge) == reference.store.find_traces(name, purge)
        if data.draw(st.booleans()):
            assert put_aside(tested) == put_aside(reference)
            assert loaded(tested) == loaded(reference)


def removals(log: SessionLog) -> list[Removal]:
    return list(log.store.list_removals(log.session_id, before=None, limit=100))


def put_aside(log: SessionLog) -> int:
    """Put away what cannot be used: the session is as it was loaded, with nothing to tell."""
    before = loaded(log)
    count = log.store.put_aside(before, node_id=log.node_id, token=log.token, at=START)
    after = loaded(log)
    assert after.snapshot == before.snapshot
    assert after.set_aside == ()
    return count


def loaded(log: SessionLog) -> LoadedSession:
    session = log.store.load_session(log.session_id)
    assert session is not None
    # Which of two records or sentences comes first is nobody's business.
    return LoadedSession(
        in_order(session.snapshot),
        session.position,
        session.receipt_digests,
        tuple(sorted(session.set_aside, key=lambda item: item.sentence)),
        session.contracts,
    )
