"""The text of an answer: one block of lines per hit.

Owns the wording of every line a recall or an inspection shows. Decides nothing about what is shown.

Invariant: recalled text is data. A line break inside stored text is shown as a mark, so that a
block has exactly the lines this module gave it and no content can forge one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory.engine.graph import Graph
from memory.engine.showing import in_passing, one_line
from memory.engine.times import Micros, format_rfc3339_seconds
from memory.engine.types import ConceptType, NodeId, Reservation, Status

QUOTED_CHARACTERS: Final = 80
"""Of another concept's content in a line under a hit."""
SHORT_ID_CHARACTERS: Final = 8
STANDS_FOR_SHOWN: Final = 3

_AGENT_PREFIX: Final = "agent-"


def display_name(agent_id: str) -> str:
    """An agent's name in a sentence: `agent-a` is called A."""
    name = agent_id.removeprefix(_AGENT_PREFIX) or agent_id
    return name[:1].upper() + name[1:]


# -- the lines under a hit's label -----------------------------------------------------------------


def load_bearing_line(blast_radius: int) -> str:
    """The warning on what others rest on; said of every Canonical hit, also with 0."""
    return f"⚑ Load-bearing pillar — {blast_radius} nodes depend on this. Modify with caution."


def conflict_line(writer: str, seconds_ago: int) -> str:
    return f"Agent {display_name(one_line(writer))} wrote to it {seconds_ago} seconds ago"


def high_risk_line(reason: str) -> str:
    return f"High-risk modification: {one_line(reason)}"


def drift_line(hops: int, goal_id: str) -> str:
    return f"Drifted {hops} hops from root goal {goal_id}"


def stale_line(seconds: int) -> str:
    return f"Session inactive {seconds} seconds"


def reservation_line(reservation: Reservation) -> str:
    until = format_rfc3339_seconds(reservation.expires_at)
    return f"Reserved by {one_line(reservation.agent_id)} until {until}"


def contradicted_line(graph: Graph, by: int) -> str:
    return f"⚠ Contradicted by {_named(graph, by)}"


def contradicts_line(graph: Graph, target: int) -> str:
    return f"⚠ Contradicts {_named(graph, target)}"


def more_contradicts_line(count: int) -> str:
    return f"⚠ Contradicts {count} more"


def rests_on_contradicted_line(graph: Graph, cited: int) -> str:
    return f"⚠ Rests on {_named(graph, cited)}, which is contradicted"


def more_contradicted_line(count: int) -> str:
    return f"⚠ Rests on {count} more that are contradicted"


def possibly_superseded_line(graph: Graph, newer: int) -> str:
    """A guess of the server's, and no act of anybody's."""
    return f"⚠ Possibly superseded by {_named(graph, newer)}, not declared"


def superseded_line(since: Micros) -> str:
    return f"⤓ Superseded at {format_rfc3339_seconds(since)}"


def _named(graph: Graph, row: int) -> str:
    """Another concept in a line: the start of its content, and of its id."""
    # Cut before and after: a mark is longer than the line break it stands for.
    content = one_line(graph.content_at(row)[: QUOTED_CHARACTERS + 1])
    if len(content) > QUOTED_CHARACTERS:
        content = content[: QUOTED_CHARACTERS - 1] + "…"
    return f'"{content}" (id {graph.id_at(row)[:SHORT_ID_CHARACTERS]})'


# -- labels ----------------------------------------------------------------------------------------


def hit_label(
    content: str,
    *,
    concept_type: ConceptType,
    score: float,
    blast_radius: int | None,
    author: str | None = None,
    stands_for: Sequence[NodeId] = (),
    also_in: Sequence[tuple[str, NodeId]] = (),
    session: str | None = None,
) -> str:
    """The first line of a hit's block. `blast_radius` is given for Canonical hits, and only those.

    `author` is an agent id, or None to leave it out. `stands_for` are the ids of concepts that say
    the same and are not shown, `also_in` the sessions and ids of copies in other sessions.
    `session` is where the hit comes from, if that is not the session asked.
    """
    traits = [str(concept_type)]
    figures = [f"score {score:.2f}"]
    if blast_radius is not None:
        traits.append("canonical")
        figures.append(f"blast radius {blast_radius}")
    if stands_for:
        named = " ".join(node_id[:SHORT_ID_CHARACTERS] for node_id in stands_for[:STANDS_FOR_SHOWN])
        others = len(stands_for) - STANDS_FOR_SHOWN
        figures.append(f"also {named}" + (f" +{others} more" if others > 0 else ""))
    if also_in:
        named = " ".join(
            f"{node_id[:SHORT_ID_CHARACTERS]} in {one_line(name)}"
            for name, node_id in also_in[:STANDS_FOR_SHOWN]
        )
        others = len(also_in) - STANDS_FOR_SHOWN
        figures.append(f"also {named}" + (f" +{others} more" if others > 0 else ""))
    if author is not None:
        traits.append(f"by {one_line(author)}")
    origin = "" if session is None else f" from {one_line(session)}"
    return f"{one_line(content)} [{', '.join(traits)}] ({', '.join(figures)}){origin}"


def node_label(graph: Graph, row: int) -> str:
    """A concept in an inspection: content (cut if long), type, and status once it has one."""
    status = graph.status_at(row)
    standing = "" if status is Status.NONE else f", {status.lower()}"
    return f"{in_passing(graph.content_at(row))} [{graph.type_at(row)}{standing}]"


def interaction_label(interaction_id: str) -> str:
    return f"<interaction {interaction_id}>"
