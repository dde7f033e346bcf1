"""Events as a stream, whatever carries them: what is asked for, who may listen, what comes when.

Owns the reading of a listener's address and the order of a stream: events, a heartbeat where
nothing happens, another look at the listener's right to be here, the end. Knows neither SSE nor
WebSocket; both say the same things from here in their own frames.

Invariant: a stream holds one listener and at most two tasks, and leaves none behind however it
ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from memory.argument_reading import parse_arguments
from memory.engine.errors import InvalidArgument, LamboError
from memory.engine.events import EventsRequest
from memory.engine.rights import Act, Rights, Scope, decide
from memory.schemas import EventsArguments
from memory.service.events import Event, EventFeed, Gap, Listening

HEARTBEAT_SECONDS: Final = 15.0
RECHECK_SECONDS: Final = 4.0
"""How long a right that was taken away may still listen."""
SEND_SECONDS_MAX: Final = 30.0
"""How long a listener may take nothing before it is cut; its events wait in the log meanwhile."""


@dataclass(frozen=True, slots=True)
class Alive:
    """Nothing happened; the listener has everything up to `place`."""

    place: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The last thing a stream says. `code` is an error's, or `shutdown`; `place` as above."""

    code: str
    message: str
    place: int

    def as_wire(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "resume": self.place}


Said: TypeAlias = Event | Gap | Alive | Ended

StillAdmitted: TypeAlias = Callable[[], Awaitable[object]]
"""Raises `LamboError` once the listener may not be here any more."""


def read_request(query: bytes, last_event_id: str | None = None) -> EventsRequest:
    """What a listener asks for. `last_event_id` is what its client read before it was cut."""
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=100)
    payload: dict[str, Any] = {}
    for name, value in pairs:
        if name == "kinds":
            payload.setdefault(name, []).append(value)
        elif name in payload:
            raise InvalidArgument(name, f"{name} is given more than once")
        else:
            payload[name] = _whole(value) if name in ("since", "limit") else value
    if last_event_id is not None:
        payload["since"] = _whole(last_event_id)
    return parse_arguments(EventsArguments, payload).to_request()


def _whole(text: str) -> Any:
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    return int(text) if is_number else text


async def open_listening(
    feed: EventFeed, session: str, request: EventsRequest, rights: Rights
) -> Listening:
    """A listener from the place that was asked for, or from now on.

    Raises as `decide` for who may not read the session, and as `EventFeed.listen`.
    """
    decide(rights, Act(verb="events", scope=Scope.READ, session=session))
    since = await feed.newest(session) if request.since is None else request.since
    return feed.listen(session, since=since, kinds=request.kinds)


async def follow(listening: Listening, still_admitted: StillAdmitted) -> AsyncIterator[Said]:
    """What a stream says, in order; closes the listener. `Alive` comes first, with the place."""
    loop = asyncio.get_running_loop()
    following: asyncio.Task[Event | Gap] | None = None
    beat_at, check_at = loop.time() + HEARTBEAT_SECONDS, loop.time() + RECHECK_SECONDS
    try:
        yield Alive(listening.place or 0)
        while True:
            if following is None:
                following = loop.create_task(_next(listening))
            timeout = max(0.0, min(beat_at, check_at) - loop.time())
            await asyncio.wait([following], timeout=timeout)
            now = loop.time()
            if now >= check_at:
                check_at = now + RECHECK_SECONDS
                try:
                    await still_admitted()
                except LamboError as refusal:
                    yield Ended(refusal.code, refusal.message, listening.place or 0)
                    return
            if following.done():
                try:
                    told = following.result()
                except StopAsyncIteration:
                    yield Ended("shutdown", "the server stops", listening.place or 0)
                    return
                following = None
                beat_at = now + HEARTBEAT_SECONDS
                yield told
            elif now >= beat_at:
                beat_at = now + HEARTBEAT_SECONDS
                yield Alive(listening.place or 0)
    finally:
        listening.close()
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await following


async def _next(listening: Listening) -> Event | Gap:
    return await anext(listening)
