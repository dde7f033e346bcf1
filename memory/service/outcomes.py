"""What became of a group, in the words its caller is told.

Owns the sentence for each way a commit can end. Decides nothing: the committer's outcome is given.
"""

from __future__ import annotations

from typing import Final

from memory.engine.errors import (
    LamboError,
    LeaseLost,
    OutcomeUnknown,
    RejectedByStore,
    SessionReloaded,
    StoreFault,
    StoreRewound,
)
from memory.service.committer import Outcome

ANSWER_RETRY_SECONDS: Final = 1.0


def failure_of(outcome: Outcome, session_id: str, key: str | None) -> LamboError | None:
    """The error of a write that ended so; None for one that is committed."""
    match outcome:
        case Outcome.COMMITTED:
            return None
        case Outcome.REJECTED:
            return RejectedByStore(
                "the store refused this write; nothing of it was kept, and the call was set "
                "aside as a dead letter",
                idempotency_key=key,
            )
        case Outcome.DROPPED:
            return SessionReloaded(
                "an earlier write of this session was refused by the store; nothing of this "
                "one was stored, send it again",
                idempotency_key=key,
                retry_after_seconds=ANSWER_RETRY_SECONDS,
            )
        case Outcome.LOST:
            return lease_lost(session_id, key)
        case Outcome.REWOUND:
            return store_rewound(session_id)


def outcome_unknown(key: str | None, retry_after_seconds: float) -> OutcomeUnknown:
    """The write is in the graph, and the store has not said a word."""
    return OutcomeUnknown(
        "the write is applied but the store has not confirmed it; ask for its receipt, or "
        "send the same request again under the same key",
        idempotency_key=key,
        retry_after_seconds=retry_after_seconds,
    )


def lease_lost(session_id: str, key: str | None = None) -> LeaseLost:
    named = {} if key is None else {"idempotency_key": key}
    return LeaseLost(
        f"another server took session '{session_id}' over; nothing was stored",
        retry_after_seconds=ANSWER_RETRY_SECONDS,
        **named,
    )


def store_rewound(session_id: str) -> StoreRewound:
    return StoreRewound(
        f"the store of session '{session_id}' is older than what was acknowledged; "
        "its writes are stopped until the server is started again"
    )


def refused_in_a_row(session_id: str, count: int) -> StoreFault:
    return StoreFault(
        f"the store refused {count} writes of session '{session_id}' in a row; writes stopped "
        "until an operator looks at the dead letters and closes the session"
    )


def reload_failed(session_id: str) -> StoreFault:
    return StoreFault(
        f"session '{session_id}' could not be loaded again after a refused write; its writes are "
        "stopped, see the server's log"
    )
