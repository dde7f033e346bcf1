"""Made-up sessions of a given size, the same for every run, and the way to put one in a store.

The shape is that of a session agents have worked in: each interaction writes two concepts, concepts
rest on earlier ones with a preference for a few pillars, and the words follow a skewed vocabulary,
so that common words have long postings. Run as a module it fills a data folder's database: the job
comes as JSON on standard input, and the folder by `LAMBO_DATA_DIR`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from memory.embed.registry import build_embedder
from memory.engine.embedding import Embedder, EmbeddingFailure, vector_bytes
from memory.engine.mutations import Group, Mutation, PutConcept, PutEdge, PutInteraction, PutVector
from memory.engine.rules import EDGES
from memory.engine.text import canonical_key
from memory.engine.times import SECOND
from memory.engine.types import Concept, ConceptType, Edge, EdgeType, Interaction, Snapshot

BORN: Final = 1_767_225_600 * SECOND
PER_INTERACTION: Final = 2
EDGES_PER_CONCEPT: Final = 5
EMBED_SECONDS: Final = 600.0
GROUP_ROWS: Final = 50_000
VOCABULARY: Final = 20_000
COMMON_WORDS: Final = 400
AGENTS: Final = ("planner", "builder", "reviewer")
TYPES: Final = (
    ConceptType.ENTITY,
    ConceptType.LOGIC,
    ConceptType.CONSTRAINT,
    ConceptType.RESOURCE,
)
LINKS: Final = (
    EdgeType.DEPENDENCY,
    EdgeType.DEPENDENCY,
    EdgeType.CO_OCCURRENCE,
    EdgeType.CAUSAL,
)


def word(random: Random) -> str:
    """A made-up word; one in two comes from a small common vocabulary."""
    rank = random.randrange(COMMON_WORDS if random.random() < 0.5 else VOCABULARY)
    return f"w{rank:x}q"


def content(random: Random, number: int) -> str:
    """A statement of eight words that no other number has."""
    return " ".join([*(word(random) for _ in range(7)), f"n{number:x}x"])


@dataclass(slots=True)
class _Ids:
    random: Random

    def next_id(self) -> str:
        digits = f"{self.random.getrandbits(128):032x}"
        return "-".join(
            (digits[:8], digits[8:12], "4" + digits[13:16], "a" + digits[17:20], digits[20:])
        )


def make_mutations(concepts: int, *, seed: int = 7) -> Iterator[Mutation]:
    """The log of a session of `concepts` concepts and five times as many edges, in order."""
    random = Random(seed)
    ids = _Ids(random)
    known: list[str] = []
    previous: str | None = None
    for start in range(0, concepts, PER_INTERACTION):
        agent, now = AGENTS[start % len(AGENTS)], BORN + start * SECOND
        interaction = ids.next_id()
        yield PutInteraction(Interaction(interaction, agent, "made up", previous, now))
        edges: dict[tuple[str, str, EdgeType], None] = {}
        if previous is not None:
            edges[interaction, previous, EdgeType.TEMPORAL] = None
        previous = interaction
        here = []
        for number in range(start, min(start + PER_INTERACTION, concepts)):
            text = content(random, number)
            concept = ids.next_id()
            kind = TYPES[number % len(TYPES)]
            yield PutConcept(
                Concept(concept, text, canonical_key(text, {}), kind, interaction, agent, now)
            )
            edges[interaction, concept, EdgeType.DERIVES] = None
            here.append(concept)
        wanted = EDGES_PER_CONCEPT * len(here)
        while known and len(edges) < min(wanted, len(known)):
            # Squaring prefers the oldest: those become the pillars that much rests on.
            other = known[int(len(known) * random.random() ** 2)]
            edges[random.choice(here), other, random.choice(LINKS)] = None
        known += here
        for source, target, edge_type in edges:
            yield PutEdge(_edge(ids.next_id(), source, target, edge_type, now, agent))


def _edge(
    edge_id: str, source: str, target: str, edge_type: EdgeType, now: int, agent: str
) -> Edge:
    weight = EDGES[edge_type].first_weight
    return Edge(edge_id, source, target, edge_type, weight, 1, now, now, agent, agent)


def make_snapshot(session_id: str, concepts: int) -> Snapshot:
    """The same session as a snapshot."""
    interactions, found, edges = [], [], []
    for mutation in make_mutations(concepts):
        match mutation:
            case PutInteraction(interaction):
                interactions.append(interaction)
            case PutConcept(concept):
                found.append(concept)
            case PutEdge(edge):
                edges.append(edge)
    return Snapshot(
        session_id,
        BORN,
        None,
        interactions=tuple(interactions),
        concepts=tuple(sorted(found)),
        edges=tuple(sorted(edges)),
    )


def with_vectors(mutations: list[Mutation], embedder: Embedder) -> list[Mutation]:
    """The same mutations and, behind them, the vectors of their concepts."""
    concepts = [one.concept for one in mutations if isinstance(one, PutConcept)]
    vectors = embedder.embed([one.content for one in concepts], deadline_seconds=EMBED_SECONDS)
    found = list(mutations)
    for concept, vector in zip(concepts, vectors, strict=True):
        assert not isinstance(vector, EmbeddingFailure), vector.sentence
        found.append(PutVector(concept.id, embedder.contract.key, vector_bytes(vector)))
    return found


def fill(session_id: str, concepts: int, kind: str) -> dict[str, Any]:
    """Put a session into the database of `LAMBO_DATA_DIR`, through the store's own door.

    `kind` is the embedder the session belongs to, every concept with its vector; `none` for words.
    """
    import django
    from django.core.management import call_command

    django.setup(set_prefix=False)
    from memory.engine.ports import Lease, SessionBatch
    from memory.store.django_store import DjangoStore

    for alias in ("default", "memory"):
        call_command("migrate", database=alias, interactive=False, verbosity=0)
    store = DjangoStore()
    embedder = build_embedder(kind)
    lease = store.acquire_lease(
        session_id,
        node_id="benchmark",
        endpoint="",
        ttl_seconds=60,
        create=True,
        match_strategy="canonical" if embedder is None else "hybrid",
        contract=None if embedder is None else embedder.contract,
        created_at=BORN,
    )
    assert isinstance(lease, Lease)
    rows = 0
    for position, mutations in enumerate(_slices(make_mutations(concepts))):
        whole = mutations if embedder is None else with_vectors(mutations, embedder)
        group = Group(session_id, position + 1, tuple(whole), BORN)
        batch = SessionBatch(session_id, lease.token, position, (group,))
        assert not store.commit([batch], node_id="benchmark", ttl_seconds=60)
        rows += len(whole)
    store.release_lease(session_id, node_id="benchmark", token=lease.token)
    store.close()
    return {"rows": rows}


def _slices(mutations: Iterator[Mutation]) -> Iterator[list[Mutation]]:
    held: list[Mutation] = []
    for mutation in mutations:
        held.append(mutation)
        if len(held) == GROUP_ROWS:
            yield held
            held = []
    if held:
        yield held


def main() -> None:
    job = json.load(sys.stdin)
    print(json.dumps(fill(job["session_id"], job["concepts"], job["embedder"])))


if __name__ == "__main__":
    main()
