"""Erasing a concept's text for good, live or gone already.

A purge is one group of the log: the concept goes as by a retraction but without its removed state;
prompts that hold its text, and all of interactions that wrote it, are blanked; synonyms and goals
that hold it go; and `PurgeText` blanks what lies beside the graph. Other concepts keep their
contents, also where these hold the same words: it is counted and told. What counts as the text is
said in `memory.engine.traces`.

Invariant: neither the plan's result nor its audit row holds the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memory.engine.audit_chain import NO_ROWS, BlankedRows
from memory.engine.disappearance import plan_removal, removed_writers
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
from memory.engine.traces import Needles, holds, is_same, needles_of, places, removed_content
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


@dataclass(frozen=True, slots=True)
class GraphTexts:
    """The texts of a graph at one instant, to be searched off the event loop."""

    interactions: Sequence[Interaction]
    contents: Sequence[str]
    ids: Sequence[NodeId]
    synonyms: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GraphTraces:
    """Where a text stands in `texts`: chain rows, concepts, spellings."""

    texts: GraphTexts
    prompts: frozenset[int]
    concept_ids: tuple[NodeId, ...]
    synonyms: frozenset[str]


def texts_of(graph: Graph) -> GraphTexts:
    """The texts of a graph as it is now; copies references alone."""
    concepts = graph.concepts
    return GraphTexts(
        graph.interactions(), [*concepts.contents], [*concepts.ids], dict(graph.synonyms)
    )


def search_graph(texts: GraphTexts, content: str) -> GraphTraces:
    """Find a text in the texts of a graph; linear in them."""
    needles = needles_of(content)
    same = places(texts.contents, needles_of(content, is_cut=False))  # a free row's text is empty
    prompts = places([each.prompt_text or "" for each in texts.interactions], needles)
    return GraphTraces(
        texts,
        frozenset(prompts),
        tuple(sorted(texts.ids[row] for row in same)),
        frozenset(
            source
            for source, meant in texts.synonyms.items()
            if holds(source, needles) or holds(meant, needles)
        ),
    )


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
    for removal in removals:
        content = removed_content(removal)
        if content is not None and removal.node_id is not None:
            return Target(removal.node_id, content, (removal.node_id,))
    raise TextPurged(f"concept {removals[0].node_id} was purged: nothing of it is kept")


def with_earlier(target: Target, removals: Sequence[AuditEntry]) -> Target:
    """The target with every removed concept of the same text, and who wrote those."""
    needles = needles_of(target.content)
    concept_ids, writers = {*target.concept_ids}, {*target.writers}
    for removal in removals:
        content = removed_content(removal)
        if content is None or removal.node_id is None or not is_same(content, needles):
            continue
        concept_ids.add(removal.node_id)
        if removal.removed is not None:
            writers.update(removed_writers(removal.removed))
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
    searched: GraphTraces | None = None,
) -> Plan[PurgeResult]:
    """Purge the target, or say what would go.

    `searched` is what this very graph held a while ago; without it all of it is searched here.
    `traces` are the rows beside the graph that hold the text, by table, as they were counted;
    `blanked` are the audit rows among them, which the audit row names.
    Raises `InvalidArgument` for a confirmation of something else.
    """
    confirm = None if request.confirm is None else request.confirm.strip().lower()
    if confirm not in (None, target.concept_id):
        raise InvalidArgument("confirm", "confirm must be the id of the concept to purge")
    needles = needles_of(target.content)
    searched = searched or search_graph(texts_of(graph), target.content)
    mutations, counts = _purge_graph(graph, target, needles, searched)
    still_in = [
        concept_id
        for concept_id in searched.concept_ids
        if concept_id not in target.concept_ids and graph.row_of(concept_id) is not None
    ]
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
    graph: Graph, target: Target, needles: Needles, searched: GraphTraces
) -> tuple[list[Mutation], dict[str, int]]:
    """What holds the text in the graph beside the concept; and how many rows that is, by table."""
    row = graph.row_of(target.concept_id)
    writers = set(target.writers)
    if row is not None:
        arriving = graph.concepts.arriving[row]
        chain_rows = graph.edges.ends_of(arriving, EdgeType.DERIVES, "source")
        writers.update(graph.chain.records[at].id for at in chain_rows)
    prompts = [
        PutInteraction(interaction._replace(prompt_text=None))
        for interaction in _telling(graph, writers, needles, searched)
    ]
    known = searched.texts.synonyms
    synonyms = [
        DeleteSynonym(source)
        for source, meant in graph.synonyms.items()
        if (
            source in searched.synonyms
            if known.get(source) == meant
            else holds(source, needles) or holds(meant, needles)
        )
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


def _telling(
    graph: Graph, writers: set[NodeId], needles: Needles, searched: GraphTraces
) -> Iterator[Interaction]:
    """The interactions whose prompts are to go, in chain order."""
    chain, known = graph.chain, len(searched.texts.interactions)
    written = {chain.row_by_id[writer] for writer in writers if writer in chain.row_by_id}
    newer = [interaction.prompt_text or "" for interaction in chain.records[known:]]
    rows = {*written, *searched.prompts, *(known + place for place in places(newer, needles))}
    return (chain.records[row] for row in sorted(rows) if chain.records[row].prompt_text)


def _without(root_goal: Json, needles: Needles) -> Json:
    """A root goal without the texts that hold a needle; one of another shape goes as a whole."""
    if not any(holds(text, needles) for text in goal_texts(root_goal)):
        return root_goal
    if not isinstance(root_goal, list):
        return None
    left = [item for item in root_goal if not (isinstance(item, str) and holds(item, needles))]
    return left or None
