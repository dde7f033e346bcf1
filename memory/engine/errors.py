"""The one family of errors that may reach a caller.

Every failure a user can cause or meet is a `LamboError` with a stable `code`. Surfaces map the code
once (HTTP status, exit code, MCP result); they never match on message text. A failed `assert` or
another exception type is a bug of ours and is reported as `internal_error`.
"""

from __future__ import annotations

from typing import Any, ClassVar


class LamboError(Exception):
    """Root of all errors shown to callers.

    `code` is stable and machine readable; `message` is for people; `fields` are extra JSON-ready
    facts (a field name, a limit, a holder). `retry_after_seconds` is set when the same call may
    succeed later.
    """

    code: ClassVar[str] = "internal_error"

    def __init__(
        self, message: str, *, retry_after_seconds: float | None = None, **fields: Any
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.fields: dict[str, Any] = fields

    def as_wire(self) -> dict[str, Any]:
        """The JSON object every surface shows: code, message, fields, retry hint."""
        wire: dict[str, Any] = {"code": self.code, "message": self.message, **self.fields}
        if self.retry_after_seconds is not None:
            wire["retry_after_seconds"] = self.retry_after_seconds
        return wire


# -- the caller's input ------------------------------------------------------------------------


class InvalidArgument(LamboError):
    """An argument is missing, unknown, malformed or outside its limits; nothing was done."""

    code = "invalid_argument"

    def __init__(self, field: str, message: str, **fields: Any) -> None:
        super().__init__(message, field=field, **fields)
        self.field = field


class UnresolvedReference(LamboError):
    """A citation names no concept of the session, or more than one; nothing was written."""

    code = "unresolved_reference"


class DependencyCycle(LamboError):
    """The action would make a concept depend on itself; nothing was written."""

    code = "dependency_cycle"


class SecondParent(LamboError):
    """Under the canonical strategy a concept has at most one hierarchical parent."""

    code = "second_parent"


class RepeatedObservation(LamboError):
    """Under the canonical strategy an observation with the same key exists already."""

    code = "repeated_observation"


class BodyTooLarge(LamboError):
    """The request body is above the limit; it was not read."""

    code = "body_too_large"


# -- names that lead nowhere, things held by others --------------------------------------------


class ConceptNotFound(LamboError):
    """No concept of the session matches."""

    code = "concept_not_found"


class AmbiguousFocus(LamboError):
    """More than one concept matches; the message lists some."""

    code = "ambiguous_focus"


class SessionNotFound(LamboError):
    """The session does not exist, or the caller may not know whether it does."""

    code = "session_not_found"


class SessionExists(LamboError):
    """A session of that name exists already."""

    code = "session_exists"


class NotRemoved(LamboError):
    """The concept to bring back is not gone."""

    code = "not_removed"


class KeyTaken(LamboError):
    """Another concept has the key of the one to bring back; `holder` is its id."""

    code = "key_taken"


class TextPurged(LamboError):
    """The concept was purged: nothing of it is kept."""

    code = "text_purged"


class ReservationConflict(LamboError):
    """Another agent holds a live reservation; `holder` and `expires_at` say which."""

    code = "reservation_conflict"


class ReservationNotFound(LamboError):
    """There is no live reservation to release."""

    code = "reservation_not_found"


class IdempotencyConflict(LamboError):
    """The key was used before with another request body; nothing was done."""

    code = "idempotency_conflict"


class Forbidden(LamboError):
    """The caller lacks the right for this act."""

    code = "forbidden"


class Unauthenticated(LamboError):
    """No token, or none that opens anything; never says which of the two, or why."""

    code = "unauthenticated"


class RateLimited(LamboError):
    """The token was used too often of late; nothing was done."""

    code = "rate_limited"


class TokenNotFound(LamboError):
    """No token has that id."""

    code = "token_not_found"


# -- the state of a session or its store -------------------------------------------------------


class SessionClosed(LamboError):
    """The session is being closed or was put away; ask again."""

    code = "session_closed"


class TooManySessions(LamboError):
    """Every place for an open session is taken by a busy one; ask again."""

    code = "too_many_sessions"


class TooManyListeners(LamboError):
    """As many streams of events are open as may be; ask again."""

    code = "too_many_listeners"


class LeaseHeld(LamboError):
    """Another process is the writer of the session; `holder` names it."""

    code = "lease_held"


class LeaseLost(LamboError):
    """Another process took the session over; this write was not stored."""

    code = "lease_lost"


class EmbeddingMismatch(LamboError):
    """The session's vectors are of another embedder: it is read by words, and only taken from."""

    code = "embedding_mismatch"


class NoEmbedder(LamboError):
    """The server runs without an embedder, so it has no vectors to give."""

    code = "no_embedder"


class StoreUnavailable(LamboError):
    """The store is away; nothing of this write was kept. Retry after the hint."""

    code = "store_unavailable"


class OutcomeUnknown(LamboError):
    """The write is applied but its commit is unsettled; the receipt will answer later."""

    code = "outcome_unknown"


class RejectedByStore(LamboError):
    """The store refused exactly this write; nothing of it was kept."""

    code = "rejected_by_store"


class SessionReloaded(LamboError):
    """An earlier write was refused and the session reloaded; nothing stored, retry now."""

    code = "session_reloaded"


class StoreFault(LamboError):
    """Three refused writes in a row stopped the session's writes; an operator must look."""

    code = "store_fault"


class StoreRewound(LamboError):
    """The store is older than what was acknowledged; the session is fenced."""

    code = "store_rewound"


class InvalidSnapshot(LamboError):
    """A stored or given graph breaks an invariant."""

    code = "invalid_snapshot"


class InvalidConfiguration(LamboError):
    """A setting is unknown or outside its limits; nothing was started."""

    code = "invalid_configuration"
