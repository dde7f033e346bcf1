"""Erasing a concept's text for good, live or gone already.

A purge is one group of the log: the concept goes as by a retraction but without its removed state;
prompts that hold its text, and all of interactions that wrote it, are blanked; synonyms and goals
that hold it go; and `PurgeText` blanks what lies beside the graph. Other concepts keep their
contents, also where these hold the same words: it is counted and told.

Invariant: neither the plan's result nor its audit row holds the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memory.engine.audit_chain import NO_ROWS, BlankedRows
from memory.engine.disappearance import plan_removal, read_removed
from memory.engine.draft import Plan, excerpt
from memory.engine.errors import ConceptNotFound, InvalidArgument, TextPurged
from memory.engine.goals import goal_texts
from memory.engine.graph import Graph
from memory.engine.mutations import (
    DeleteSynonym,
    Mutation,
    PurgeText,
    PutAudit,
    PutInteraction,
    SetRootGoal,
)
from memory.engine.ports import IdSource
from memory.engine.requests import PurgeRequest
from memory.engine.retract import find_concept
from memory.engine.times import Micros
from memory.engine.traces import holds, needles_of, places
from memory.engine.types import (
    AuditEntry,
    AuditKind,
    EdgeType,
    Interaction,
    Json,
    NodeId,
)

STILL_IN_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be purged: a content, the concepts that bore it, and the one asked for.

    `writers` are interactions that wrote removed ones; of a live one the graph knows them.
    """

    concept_id: NodeId
    content: str
    concept_ids: tuple[NodeId, ...]
    writers: frozenset[NodeId] = frozenset()

    @property
    def mutation(self) -> PurgeText:
        return PurgeText(self.concept_ids, self.content)


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """What was blanked, or would be, in rows by table; `content` only where nothing was done.

    `still_in` are live concepts whose contents hold the same words.
    """

    concept_id: NodeId
    content: str | None
    blanked: Mapping[str, int]
    still_in: tuple[NodeId, ...]
    still_in_count: int
    warnings: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        what = self.concept_id
        if self.content is not None:
            what = f"'{excerpt(self.content)}' ({self.concept_id})"
        rows = ", ".join(f"{table} {count}" for table, count in self.blanked.items())
        verb = "purged" if self.content is None else "would purge"
        lines = [f"{verb} {what}: {rows}"]
        if self.still_in_count:
            lines.append(f"{self.still_in_count} other concept(s) hold the same words:")
            lines += [f"  - {name}" for name in self.still_in]
        if self.content is not None:
            lines.append("confirm with its id to purge it; nothing was done")
        return "\n".join(lines)

    def as_wire(self) -> dict[str, Any]:
        return {
            "summary": self.text.partition("\n")[0],
            "node_id": self.concept_id,
            "content": self.content,
            "purged": self.content is None,
            "blanked": dict(self.blanked),
            "still_in": list(self.still_in),
            "still_in_count": self.still_in_count,
            "pending": False,
            "warnings": list(self.warnings),
        }


def find_target(graph: Graph, name: str, removals: Sequence[AuditEntry]) -> Target:
    """What a name means: a live concept first, else the newest removal of `removals`.

    `removals` are those that the name means; what the target's content means beside them is asked
    of the store again. Raises `ConceptNotFound`, or `TextPurged` where nothing is left to purge.
    """
    try:
        row = find_concept(graph, name)
    except ConceptNotFound:
        if not removals:
            raise
    else:
        concept_id = graph.id_at(row)
        return Target(concept_id, graph.content_at(row), (concept_id,))
    newest = removals[0]
    assert newest.node_id is not None
    kept = [removal for removal in removals if removal.removed is not None]
    if not kept:
        raise TextPurged(f"concept {newest.node_id} was purged: nothing of it is kept")
    concept = read_removed(kept[0].removed).concept
    return Target(concept.id, concept.content, (concept.id,))


def with_earlier(target: Target, removals: Sequence[AuditEntry]) -> Target:
    """The target with every removed concept of the very same content, and who wrote those."""
    concept_ids, writers = {*target.concept_ids}, {*target.writers}
    for removal in removals:
        if removal.removed is None:
            continue
        removed = read_removed(removal.removed)
        if removed.concept.content == target.content:
            concept_ids.add(removed.concept.id)
            writers.update(
                edge.source for edge in removed.edges if edge.edge_type is EdgeType.DERIVES
            )
    return Target(target.concept_id, target.content, tuple(sorted(concept_ids)), frozenset(writers))


def plan_purge(
    graph: Graph,
    request: PurgeRequest,
    target: Target,
    traces: Mapping[str, int],
    *,
    actor: str,
    now: Micros,
    ids: IdSource,
    blanked: BlankedRows = NO_ROWS,
) -> Plan[PurgeResult]:
    """Purge the target, or say what would go; linear in the interactions and concepts held.

    `traces` are the rows beside the graph that hold the text, by table, as they were counted;
    `blanked` are the audit rows among them, which the audit row names.
    Raises `InvalidArgument` for a confirmation of something else.
    """
    confirm = None if request.confirm is None else request.confirm.strip().lower()
    if confirm not in (None, target.concept_id):
        raise InvalidArgument("confirm", "confirm must be the id of the concept to purge")
    needles = needles_of(target.content)
    mutations, counts = _purge_graph(graph, target, needles)
    concepts = graph.concepts
    same = places(concepts.contents, (target.content,))  # a free row's text is empty
    still_in = sorted({concepts.ids[row] for row in same} - {*target.concept_ids})
    row = graph.row_of(target.concept_id)
    counts = {name: count for name, count in {**counts, **traces}.items() if count}
    result = PurgeResult(
        concept_id=target.concept_id,
        content=target.content if confirm is None else None,
        blanked=counts,
        still_in=tuple(still_in[:STILL_IN_SHOWN]),
        still_in_count=len(still_in),
    )
    if confirm is None:
        return Plan((), result)
    reason = None if holds(request.reason, needles) else request.reason
    detail = {"counts": counts, "blanked": [*map(list, blanked.ranges)], "seen": blanked.seen}
    if row is not None:
        removal = plan_removal(
            graph,
            row,
            kind=AuditKind.PURGE,
            actor=actor,
            reason=reason,
            now=now,
            ids=ids,
            detail=detail,
            keeps_state=False,
        )
    else:
        entry = AuditEntry(
            id=ids.next_ordered_id(now),
            kind=AuditKind.PURGE,
            node_id=target.concept_id,
            from_status=None,
            to_status=None,
            occurred_at=now,
            actor=actor,
            reason=reason,
            detail=detail,
        )
        removal = [PutAudit(entry)]
    return Plan((*mutations, *removal, target.mutation), result)


def _purge_graph(
    graph: Graph, target: Target, needles: tuple[str, ...]
) -> tuple[list[Mutation], dict[str, int]]:
    """What holds the text in the graph beside the concept; and how many rows that is, by table."""
    row = graph.row_of(target.concept_id)
    writers = set(target.writers)
    if row is not None:
        writers.update(
            edge.source
            for edge in graph.in_edges(target.concept_id)
            if edge.edge_type is EdgeType.DERIVES
        )
    prompts = [
        PutInteraction(interaction._replace(prompt_text=None))
        for interaction in _telling(graph, writers, needles)
    ]
    synonyms = [
        DeleteSynonym(source)
        for source, meant in graph.synonyms.items()
        if holds(source, needles) or holds(meant, needles)
    ]
    goal = _without(graph.root_goal, needles)
    goals = [] if goal == graph.root_goal else [SetRootGoal(goal)]
    vectors = 0 if row is None or graph.vectors is None else int(row in graph.vectors)
    counts = {
        "concept": int(row is not None),
        "embedding": vectors,
        "interaction": len(prompts),
        "synonym": len(synonyms),
        "root_goal": len(goals),
    }
    return [*prompts, *synonyms, *goals], counts


def _telling(graph: Graph, writers: set[NodeId], needles: tuple[str, ...]) -> Iterator[Interaction]:
    """The interactions whose prompts are to go, in chain order."""
    chain = graph.chain
    texts = [interaction.prompt_text or "" for interaction in chain.records]
    written = {chain.row_by_id[writer] for writer in writers if writer in chain.row_by_id}
    rows = {*places(texts, needles), *(row for row in written if texts[row])}
    return (chain.records[row] for row in sorted(rows))


def _without(root_goal: Json, needles: tuple[str, ...]) -> Json:
    """A root goal without the texts that hold a needle; one of another shape goes as a whole."""
    if not any(holds(text, needles) for text in goal_texts(root_goal)):
        return root_goal
    if not isinstance(root_goal, list):
        return None
    left = [item for item in root_goal if not (isinstance(item, str) and holds(item, needles))]
    return left or None
