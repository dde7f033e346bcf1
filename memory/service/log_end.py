"""The end of a session's log: where the next group goes, and what it looks like.

Owns the position, the id of the newest event and the audit chain, which move together: a group gets
the next position, its events the next ids, its audit rows the next links. Applies and stores
nothing.

Invariant: what was handed out is never handed out again, unless the session is loaded anew; then
the store says where the log ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory.engine.audit_chain import AuditChain
from memory.engine.events import Notice, events_of
from memory.engine.graph import Graph
from memory.engine.mutations import Call, Group, Mutation, PutVector, Receipt
from memory.engine.times import Micros

BYTES_PER_MUTATION = 200
BYTES_PER_EVENT = 500


class LogEnd:
    """Makes the groups of one open session, in order."""

    def __init__(self, position: int, event_id: int, chain: AuditChain | None) -> None:
        self.position = position
        """Of the newest group."""
        self.event_id = event_id
        self.chain = chain
        """Links the audit rows of the log; None where none are linked."""

    def make_group(
        self,
        graph: Graph,
        mutations: tuple[Mutation, ...],
        now: Micros,
        *,
        call: Call | None,
        receipt: Receipt | None,
        notices: Sequence[Notice],
    ) -> Group:
        """The next group; `graph` is as it is before the group is applied."""

        def content_of(node_id: str) -> str | None:
            row = graph.row_of(node_id)
            return None if row is None else graph.content_at(row)

        if self.chain is not None:
            mutations = self.chain.link(mutations)
        events = events_of(
            mutations,
            after_id=self.event_id,
            content_of=content_of,
            call=call,
            receipt=receipt,
            notices=notices,
        )
        self.position += 1
        self.event_id += len(events)
        vectors = sum(len(one.vector) for one in mutations if isinstance(one, PutVector))
        said = 0 if call is None else 3 * len(call.arguments)
        return Group(
            session_id=graph.session_id,
            position=self.position,
            mutations=mutations,
            created_at=now,
            call=call,
            receipt=receipt,
            events=events,
            byte_count=BYTES_PER_MUTATION * len(mutations)
            + BYTES_PER_EVENT * len(events)
            + vectors
            + said,
        )
