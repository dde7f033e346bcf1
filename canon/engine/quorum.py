"""Whose evidence counts under the policy Quorum: that of agents a team has let in.

Under Swarm different interactions count, so one patient agent can lift what it wrote itself. Under
Quorum a piece of evidence has two authors, the agent that first wrote the edge and the one that
first wrote the dependent. It counts if both are other agents than the concept's author, and were
let in when they wrote. An agent is let in since its oldest token was made, as long as it has one
that opens something, and counts once that is longer ago than `TOKEN_AGE_SECONDS`: making a token is
cheap, waiting a day under an admin's eye is not. What was written under a name before it had a
token was written by anybody, and never counts. Changing tokens voids nothing that was earned.

An agent of which no token is known counts for nothing, so in local mode, where names are only
believed, Quorum promotes nothing. The agent that is credited is the writer of the edge, since an
edge can be drawn to anybody's concept.

Candidate asks for one such agent, Venerable and Canonical for two. So three identities that collude
pass, two do not; and where only one agent holds a concept up, it may not be one whose own concepts
the author holds up in turn: two identities citing each other lift nothing of their own. The side of
the author counts from the moment it is written, and as long as it stands. With two agents or more
behind a concept nothing is asked, since in a team that works together everybody cites everybody.

Invariant: no agent's evidence for its own concepts is ever counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from canon.engine.evidence import DEPENDENCY, HIERARCHICAL, Pieces
from memory.engine.columns import Array
from memory.engine.graph import Graph
from memory.engine.times import SECOND, Micros

TOKEN_AGE_SECONDS: Final = 24 * 3_600
"""An agent's evidence counts once its oldest token is older than this."""
EDGES_PER_STEP: Final = 100_000
"""Edges read at once of a whole session; a few milliseconds."""
_NEVER: Final = 2**62
"""Later than any write."""


class AgentCodes:
    """Names as small integers, for columns."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def of(self, names: Sequence[str]) -> Array:
        """The code of each name, (n,) int64."""
        for name in set(names).difference(self._codes):
            self._codes[name] = len(self.names)
            self.names.append(name)
        return np.fromiter(map(self._codes.__getitem__, names), dtype=np.int64, count=len(names))


def counts_from(agent: str, token_created_at: Mapping[str, Micros], now: Micros) -> Micros:
    """From which write time on an agent's evidence counts; later than any if none does."""
    created_at = token_created_at.get(agent)
    if created_at is None or now - created_at <= TOKEN_AGE_SECONDS * SECOND:
        return _NEVER
    return created_at


def count_by_quorum(
    graph: Graph,
    pieces: Pieces,
    rows: Sequence[int],
    *,
    token_created_at: Mapping[str, Micros],
    now: Micros,
    codes: AgentCodes,
) -> tuple[Array, Array]:
    """Which pieces count, (p,) bool, and the code of the agent each is credited to, (p,) int64.

    `rows` are those the pieces were gathered for.
    """
    agents = graph.concepts.origin_agents
    author = codes.of([agents[row] for row in rows])[pieces.owner]
    writer = codes.of([graph.edges.created_by[edge] for edge in pieces.edge.tolist()])
    origin = codes.of([agents[row] for row in pieces.dependent.tolist()])
    # An array even if it is empty: it is indexed with codes.
    since = np.array(
        [counts_from(name, token_created_at, now) for name in codes.names], dtype=np.int64
    )
    mask = (
        (writer != author)
        & (origin != author)
        & (pieces.written >= since[writer])
        & (pieces.origin_written >= since[origin])
    )
    return mask, writer


class Backing:
    """Which agents hold up whose concepts, as read once for one evaluation or one explanation."""

    def __init__(self) -> None:
        self._pairs: set[tuple[str, str]] = set()  # (author of what is held up, backer)
        self._known: set[str] = set()
        self._is_whole = False

    def is_backed_by(self, author: str, backer: str) -> bool:
        """Whether `backer` is the first writer of a dependence edge to a concept of `author`.

        The author has been read: by `look_at`, or with all others by `read_steps`.
        """
        assert self._is_whole or author in self._known
        return (author, backer) in self._pairs

    def look_at(self, graph: Graph, authors: Collection[str]) -> None:
        """Read who holds up the concepts of these authors, one pass for all that are new."""
        wanted = set() if self._is_whole else {*authors} - self._known
        if not wanted:
            return
        agents = graph.concepts.origin_agents
        is_theirs = np.fromiter(map(wanted.__contains__, agents), dtype=np.bool_, count=len(agents))
        self._read(graph, slice(0, graph.edges.used), is_theirs)
        self._known |= wanted

    def read_steps(self, graph: Graph) -> Iterator[None]:
        """Read all authors, some edges at a time; yields between them."""
        for start in range(0, graph.edges.used, EDGES_PER_STEP):
            everybody = np.ones(graph.concepts.used, dtype=np.bool_)
            self._read(graph, slice(start, start + EDGES_PER_STEP), everybody)
            yield
        self._is_whole = True

    def _read(self, graph: Graph, span: slice, is_theirs: Array) -> None:
        edges, stop = graph.edges, min(span.stop, graph.edges.used)
        kinds = edges["type"][span.start : stop]
        is_structural = (kinds == DEPENDENCY) | (kinds == HIERARCHICAL)
        rows = np.flatnonzero(is_structural & edges.live[span.start : stop]) + span.start
        is_cited = edges["type"][rows] == DEPENDENCY
        held_up = np.where(is_cited, edges["target"][rows], edges["source"][rows])
        kept = is_theirs[held_up]
        authors = map(graph.concepts.origin_agents.__getitem__, held_up[kept].tolist())
        writers = map(edges.created_by.__getitem__, rows[kept].tolist())
        self._pairs.update(zip(authors, writers, strict=True))
