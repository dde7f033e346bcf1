"""Records for tests of stores, and a log that commits them group by group."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from memory.engine.embedding import EmbeddingContract
from memory.engine.mutations import Group, Mutation, PutConcept, PutEdge, PutInteraction, Receipt
from memory.engine.ports import BeingDeleted, GraphStore, Lease, LeaseRefused, SessionBatch
from memory.engine.times import Micros
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    Concept,
    ConceptType,
    Edge,
    EdgeType,
    Interaction,
    NodeId,
    Snapshot,
    Status,
    Transition,
)
from memory.testing import SequentialIds

START: Micros = 1_700_000_000_000_000
NODE = "node-a"


def acquire(
    store: GraphStore,
    session_id: str = "s",
    *,
    node_id: str = NODE,
    ttl_seconds: float = 45.0,
    create: bool = True,
    contract: EmbeddingContract | None = None,
) -> Lease | LeaseRefused | BeingDeleted | None:
    return store.acquire_lease(
        session_id,
        node_id=node_id,
        endpoint=f"http://{node_id}",
        ttl_seconds=ttl_seconds,
        create=create,
        match_strategy="hybrid",
        created_at=START,
        contract=contract,
    )


def counted(steps: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Take all steps of a deletion; the rows removed, by table."""
    counts: Counter[str] = Counter()
    for removed in steps:
        counts.update(removed)
    return counts


_deletions = itertools.count(1)


def deletion_entry(actor: str = "human") -> AuditEntry:
    """What is kept of the deletion of a session; each one new."""
    number = f"dddddddd-0000-7000-8000-{next(_deletions):012x}"
    return AuditEntry(number, AuditKind.SESSION_DELETE, None, None, None, START, actor)


class SessionLog:
    """The writer of one session: makes records, numbers groups, commits them under its lease."""

    def __init__(
        self,
        store: GraphStore,
        session_id: str = "s",
        *,
        node_id: str = NODE,
        seed: int = 1,
        contract: EmbeddingContract | None = None,
    ) -> None:
        lease = acquire(store, session_id, node_id=node_id, contract=contract)
        assert isinstance(lease, Lease)
        self.store = store
        self.session_id = session_id
        self.node_id = node_id
        self.token = lease.token
        self.position = lease.position
        self.ids = SequentialIds(seed)
        self.now = START
        self.last_interaction: NodeId | None = None

    # -- records, chained and joined as a real write would -------------------------------------

    def interaction(self, text: str | None = "text") -> Interaction:
        self.now += 1
        interaction = Interaction(
            self.ids.next_id(), "agent-a", text, self.last_interaction, self.now
        )
        self.last_interaction = interaction.id
        return interaction

    def call(self, text: str | None = "text") -> tuple[Interaction, list[Mutation]]:
        """A new interaction with its Temporal edge."""
        previous = self.last_interaction
        interaction = self.interaction(text)
        mutations: list[Mutation] = [PutInteraction(interaction)]
        if previous is not None:
            mutations.append(PutEdge(self.edge(interaction.id, previous, EdgeType.TEMPORAL)))
        return interaction, mutations

    def concept(self, origin: Interaction, content: str, **columns: object) -> Concept:
        fields: dict[str, object] = {
            "canonical_key": content,
            "concept_type": ConceptType.ENTITY,
            "origin_interaction": origin.id,
            "origin_agent": origin.agent_id,
            "created_at": origin.created_at,
            **columns,
        }
        return Concept(id=self.ids.next_id(), content=content, **fields)  # type: ignore[arg-type]

    def edge(self, source: NodeId, target: NodeId, edge_type: EdgeType, **columns: object) -> Edge:
        fields: dict[str, object] = {
            "weight": 0.5,
            "reinforcements": 1,
            "created_at": self.now,
            "last_reinforced": self.now,
            "created_by": "agent-a",
            "reinforced_by": "agent-a",
            **columns,
        }
        return Edge(self.ids.next_id(), source, target, edge_type, **fields)  # type: ignore[arg-type]

    def derived(
        self, origin: Interaction, content: str, **columns: object
    ) -> tuple[Concept, list[Mutation]]:
        """A new concept with its Derives edge."""
        concept = self.concept(origin, content, **columns)
        derives = self.edge(origin.id, concept.id, EdgeType.DERIVES, weight=0.9)
        return concept, [PutConcept(concept), PutEdge(derives)]

    def write(self, *contents: str) -> list[Concept]:
        """Commit one derive of some concepts."""
        interaction, mutations = self.call("; ".join(contents))
        concepts = []
        for content in contents:
            concept, puts = self.derived(interaction, content)
            concepts.append(concept)
            mutations += puts
        assert not self.commit(mutations)
        return concepts

    def transition(
        self,
        concept: Concept,
        before: Status,
        after: Status,
        *,
        blast_radius: int | None = None,
        last_demotion_time: Micros | None = None,
    ) -> Transition:
        return Transition(
            self.ids.next_ordered_id(self.now),
            concept.id,
            before,
            after,
            blast_radius,
            last_demotion_time,
            self.now,
            "evaluator",
        )

    def receipt(self, key: str, *, created_at: Micros | None = None) -> Receipt:
        """A receipt for the next group."""
        return Receipt(
            "agent-a",
            key,
            "derive",
            f"digest of {key}",
            {"concepts": [1, "zwei", None]},
            self.position + 1,
            self.now if created_at is None else created_at,
        )

    # -- committing ----------------------------------------------------------------------------

    def batch(
        self, *groups: Sequence[Mutation], receipt: Receipt | None = None, token: int | None = None
    ) -> SessionBatch:
        """A batch for the next positions; the receipt goes with the last group."""
        numbered = tuple(
            Group(
                self.session_id,
                self.position + offset,
                tuple(mutations),
                self.now,
                receipt=receipt if offset == len(groups) else None,
            )
            for offset, mutations in enumerate(groups, start=1)
        )
        return SessionBatch(
            self.session_id, self.token if token is None else token, self.position, numbered
        )

    def commit(self, *groups: Sequence[Mutation], receipt: Receipt | None = None) -> frozenset[str]:
        """Commit groups of mutations; moves on only if the store took them."""
        batch = self.batch(*groups, receipt=receipt)
        taken_out = self.store.commit([batch], node_id=self.node_id, ttl_seconds=45.0)
        if not taken_out:
            self.position = batch.last_position
        return taken_out

    def load(self) -> Snapshot:
        """The session as stored; nothing may have been set aside."""
        loaded = self.store.load_session(self.session_id)
        assert loaded is not None
        assert loaded.set_aside == ()
        assert loaded.position == self.position
        return in_order(loaded.snapshot)


def in_order(snapshot: Snapshot) -> Snapshot:
    """A stored snapshot in the order of `take_snapshot`; a store may give any."""
    return snapshot._replace(
        concepts=tuple(sorted(snapshot.concepts)), edges=tuple(sorted(snapshot.edges))
    )
