"""What a client makes of a stream of events: which one to ask for, what its lines say, when to ask
again.

Owns the place in the stream: the id that was read last, which is sent when the connection is made
anew, so a restart of the server loses and repeats nothing. Opens no connection: both clients drive
it. What a server's refusal means is read as everywhere (`memory.client_calls`).

Invariant: ids given out grow; what lies between two of them was told as a gap or is of a kind that
was not asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from memory.client_calls import (
    Call,
    Received,
    ServerUnreachable,
    error_from_wire,
    read_answer,
    session_path,
)
from memory.client_retries import REPEATED_CODES, Lost, Retries
from memory.engine.errors import LamboError

CONTENT_TYPE: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """Something that happened in a session and is committed; `data` depends on the `kind`."""

    id: int
    kind: str
    agent_id: str | None
    occurred_at: str
    position: int
    data: dict[str, Any] | None

    def as_wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "agent_id": self.agent_id,
            "occurred_at": self.occurred_at,
            "position": self.position,
            "data": self.data,
        }


@dataclass(frozen=True, slots=True)
class EventGap:
    """Events after `after` and before `resume` are not kept any more; `lost` counts them.

    When `resume` is not past `after`, the session's log has begun anew.
    """

    after: int
    resume: int
    lost: int

    def as_wire(self) -> dict[str, Any]:
        return {"after": self.after, "resume": self.resume, "lost": self.lost}


Told: TypeAlias = SessionEvent | EventGap


def events_call(
    session: str, *, since: int | None, kinds: Sequence[str], limit: int | None = None
) -> Call:
    """A page of events; a stream of them where the header says so."""
    given = [("since", since), ("limit", limit), *(("kinds", kind) for kind in kinds)]
    query = urlencode([(name, value) for name, value in given if value is not None])
    return Call("GET", session_path(session, "events") + (f"?{query}" if query else ""))


def is_stream(status: int, headers: Mapping[str, str]) -> bool:
    """Whether an answer is the stream that was asked for."""
    return status == 200 and headers.get("content-type", "").startswith(CONTENT_TYPE)


class Following:
    """One stream over any number of connections."""

    def __init__(
        self, session: str, since: int | None, kinds: Sequence[str], retries: Retries | None
    ) -> None:
        self._session = session
        self._place = since
        self._kinds = tuple(kinds)
        self._retries = retries
        self._name = ""
        self._data = ""
        self._id: int | None = since
        self._waits: Iterator[float] = iter(())
        self._lost_at: float | None = None

    @property
    def call(self) -> Call:
        """The request of the next connection."""
        return events_call(self._session, since=self._place, kinds=self._kinds)

    def begin(self) -> None:
        """A connection stands: what its predecessor left half said is said again."""
        self._name, self._data, self._id = "", "", self._place
        self._lost_at = None

    def take(self, line: str) -> Told | None:
        """Read one line of the stream. Raises what ends it for good."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._name = value
            case "data":
                self._data += value
            case "id" if value.isdigit():
                self._id = int(value)
            case "" if not line:
                return self._finish()
        return None

    def _finish(self) -> Told | None:
        """An empty line: everything of one thing is read."""
        name, data = self._name, self._data
        self._place, self._name, self._data = self._id, "", ""
        if not data:
            return None
        said = json.loads(data)
        if name == "gap":
            return EventGap(**said)
        if name != "end":
            return SessionEvent(**said)
        if said["code"] != "shutdown":
            raise error_from_wire(said)
        return None

    def refused(self, received: Received) -> float:
        """The answer was no stream. The seconds to wait, or the error it stands for is raised."""
        answer = read_answer(received)
        if not isinstance(answer, LamboError):
            answer = ServerUnreachable(f"{received.source} answered without a stream")
        if answer.code not in REPEATED_CODES:
            raise answer
        return self._wait(answer, answer.retry_after_seconds or 0.0)

    def lost(self, lost: Lost) -> float:
        """The connection broke. The seconds to wait, or the error is raised when it is too long."""
        if self._retries is None:
            raise lost.error
        error = ServerUnreachable(f"no server answers at {lost.address}: {lost.error}")
        error.__cause__ = lost.error
        return self._wait(error, 0.0)

    def over(self) -> float:
        """The stream ended in order: the server stops, or is about to start again."""
        return self._wait(ServerUnreachable("the server ended the stream"), 0.0)

    def _wait(self, error: LamboError, least_seconds: float) -> float:
        if self._retries is None:
            raise error
        now = self._retries.now()
        if self._lost_at is None:
            self._lost_at, self._waits = now, self._retries.waits()
        if now - self._lost_at > self._retries.unreachable_seconds:
            raise error
        return max(least_seconds, next(self._waits))
