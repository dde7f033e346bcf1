"""The one HTTP client, blocking or asynchronous, for command line, jobs, bridge and programs.

Owns the connection, the address it goes to, the token and the operator secret. The methods stand in
`client_verbs`, what a request looks like in `client_calls`, when it is sent again in
`client_retries`. Knows no Django and, until a client is made, no httpx.

Invariant: one call of a write method is one write, whatever happens to connections in between, or
an `OutcomeUnknown` that carries its idempotency key.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import memory.client_calls as calls
from memory.client_calls import (
    Answer,
    Call,
    ConceptFields,
    Filter,
    Received,
    ServerUnreachable,
    UnexpectedAnswer,
)
from memory.client_events import (
    CONTENT_TYPE,
    EventGap,
    Following,
    SessionEvent,
    Told,
    is_stream,
)
from memory.client_retries import (
    Conversation,
    Lost,
    Outcome,
    Relocate,
    Retries,
    Send,
    Wait,
    ask,
    ask_once,
)
from memory.client_verbs import Verbs
from memory.data_folder import read_runtime
from memory.engine.errors import InvalidArgument, LamboError

if TYPE_CHECKING:
    import httpx

__all__ = [
    "Address",
    "Answer",
    "AsyncLamboClient",
    "ConceptFields",
    "EventGap",
    "Filter",
    "LamboClient",
    "Retries",
    "ServerUnreachable",
    "SessionEvent",
    "UnexpectedAnswer",
]

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 30.0
"""Longer than the server itself waits before it says that an outcome is unknown."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and what opens its human acts."""

    url: str
    operator_secret: str | None = field(default=None, repr=False)


Locate = Callable[[], Address]
"""Finds a lost server again. May block; raises `ServerUnreachable` if there is none."""


class _Client(Verbs[R]):
    """What both clients are: an address, the right to human acts, and patience."""

    def __init__(
        self,
        url: str,
        *,
        agent_id: str | None = None,
        operator_secret: str | None = None,
        user: str | None = None,
        retries: Retries | None = Retries(),  # noqa: B008  # frozen
        locate: Locate | None = None,
        token: str | None = None,
        always_operator: bool = False,
    ) -> None:
        """`url` is the server's, without a path. `agent_id` is the agent of calls that name none;
        with a `token`, leave it out: the server knows whose token it is.

        `user` is the person behind human acts. `retries=None` means one attempt, with the errors
        of httpx passed on as they are. With `always_operator` the secret goes with every call, as
        pages of people need it where a token is asked for; else with human acts alone.
        """
        self._address = Address(_checked_url(url), operator_secret)
        self._agent_id = agent_id
        self._user = user
        self._retries = retries
        self._locate = locate
        self._always_operator = always_operator
        self._token = None if token is None else calls.bearer(token)
        self._open()

    @classmethod
    def local(
        cls,
        data_dir: Path | None = None,
        *,
        agent_id: str | None = None,
        user: str | None = None,
        as_operator: bool = False,
        retries: Retries | None = Retries(),  # noqa: B008  # frozen
        token: str | None = None,
        always_operator: bool = False,
    ) -> Self:
        """A client of the server that runs on a data folder now, also after that restarts.

        The folder is LAMBO_DATA_DIR or ./data when not given. `as_operator` takes the secret from
        the runtime file along. Raises `ServerUnreachable` when no server runs there.
        """
        folder = data_dir or Path(os.environ.get("LAMBO_DATA_DIR") or "data")

        def locate() -> Address:
            runtime = read_runtime(folder)
            if runtime is None:
                raise ServerUnreachable(
                    f"no server runs on the data folder {folder}; start one with: lambo serve"
                )
            return Address(runtime.url, runtime.operator_secret if as_operator else None)

        found = locate()
        return cls(
            found.url,
            agent_id=agent_id,
            operator_secret=found.operator_secret,
            user=user,
            retries=retries,
            locate=locate,
            token=token,
            always_operator=always_operator,
        )

    @property
    def url(self) -> str:
        """The address in use."""
        return self._address.url

    @property
    def shows_who_calls(self) -> bool:
        """Whether the operator secret or a token is there to be shown."""
        return self._address.operator_secret is not None or self._token is not None

    def _ask(self, call: Call, receipt: Call | None) -> R:
        if self._retries is None:
            return self._perform(ask_once(call))
        return self._perform(ask(call, receipt, self._retries))

    @abstractmethod
    def _open(self) -> None:
        """Make the connection pool."""

    @abstractmethod
    def _perform(self, conversation: Conversation) -> R:
        """Carry a conversation out and give its answer."""

    def _request(self, call: Call) -> dict[str, Any]:
        """The keyword arguments of httpx's `request`."""
        headers: dict[str, bytes] = {"Accept": b"application/json", **call.headers}
        if call.body is not None:
            headers["Content-Type"] = b"application/json"
        is_operator = call.needs_operator or self._always_operator
        if is_operator and self._address.operator_secret is not None:
            headers["Lambo-Operator"] = self._address.operator_secret.encode()
            if self._user is not None:
                headers["Lambo-User"] = calls.header_value("user", self._user)
        elif self._token is not None:
            headers["Authorization"] = self._token
        return {
            "method": call.method,
            "url": self._address.url + calls.API_PATH + call.path,
            "content": call.body,
            "headers": headers,
        }

    def _stream(self, call: Call) -> dict[str, Any]:
        """The keyword arguments of httpx's `stream`."""
        request = self._request(call)
        request["headers"]["Accept"] = CONTENT_TYPE.encode()
        return request

    def _lost(self, error: Exception) -> Lost:
        import httpx

        # While connecting, or waiting for a free connection: no byte of the request has left.
        not_sent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        return Lost(error, was_sent=not isinstance(error, not_sent), address=self._address.url)

    def _relocate(self) -> LamboError | None:
        if self._locate is None:
            return None
        try:
            found = self._locate()
        except LamboError as error:
            return error
        self._address = Address(_checked_url(found.url), found.operator_secret)
        return None


class LamboClient(_Client[Answer]):
    """Blocking. Close it, or use it in `with`; safe to share between threads."""

    def _open(self) -> None:
        import httpx

        self._transport_error: type[Exception] = httpx.TransportError
        self._http = httpx.Client(**_http_options(self._address.url))

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _perform(self, conversation: Conversation) -> Answer:
        outcome: Outcome = None
        try:
            while True:
                match conversation.send(outcome):
                    case Send(call):
                        outcome = self._send(call)
                    case Wait(seconds):
                        time.sleep(seconds)
                        outcome = None
                    case Relocate():
                        outcome = self._relocate()
        except StopIteration as done:
            answer: Answer = done.value
            return answer

    def follow_events(
        self, session: str, *, since: int | None = None, kinds: Sequence[str] = ()
    ) -> Iterator[Told]:
        """Every event of a session as it is committed, and a gap where the log does not hold it.

        After the id `since`, or from now on; of some kinds, or all. It goes on over restarts of
        the server, which lose and repeat nothing, and raises what a call would when the server
        stays away. Close the iterator to stop.
        """
        following = Following(session, since, kinds, self._retries)
        while True:
            try:
                with self._http.stream(**self._stream(following.call)) as response:
                    if is_stream(response.status_code, response.headers):
                        following.begin()
                        for line in response.iter_lines():
                            if (told := following.take(line)) is not None:
                                yield told
                        wait_seconds = following.over()
                    else:
                        response.read()
                        wait_seconds = following.refused(_received(response))
            except self._transport_error as error:
                wait_seconds = following.lost(self._lost(error))
            time.sleep(wait_seconds)
            self._relocate()

    def _send(self, call: Call) -> Received | Lost:
        try:
            return _received(self._http.request(**self._request(call)))
        except self._transport_error as error:
            return self._lost(error)


class AsyncLamboClient(_Client[Coroutine[Any, Any, Answer]]):
    """For asyncio, any number of calls at once. Close it with `aclose` or `async with`."""

    def _open(self) -> None:
        import httpx

        self._transport_error: type[Exception] = httpx.TransportError
        self._http = httpx.AsyncClient(**_http_options(self._address.url))

    async def aclose(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _perform(self, conversation: Conversation) -> Answer:
        import asyncio  # 20 ms that a command line need not spend

        outcome: Outcome = None
        try:
            while True:
                match conversation.send(outcome):
                    case Send(call):
                        outcome = await self._send(call)
                    case Wait(seconds):
                        await asyncio.sleep(seconds)
                        outcome = None
                    case Relocate():
                        outcome = await asyncio.to_thread(self._relocate)
        except StopIteration as done:
            answer: Answer = done.value
            return answer

    async def follow_events(
        self, session: str, *, since: int | None = None, kinds: Sequence[str] = ()
    ) -> AsyncGenerator[Told, None]:
        """As `LamboClient.follow_events`."""
        import asyncio

        following = Following(session, since, kinds, self._retries)
        while True:
            try:
                async with self._http.stream(**self._stream(following.call)) as response:
                    if is_stream(response.status_code, response.headers):
                        following.begin()
                        async for line in response.aiter_lines():
                            if (told := following.take(line)) is not None:
                                yield told
                        wait_seconds = following.over()
                    else:
                        await response.aread()
                        wait_seconds = following.refused(_received(response))
            except self._transport_error as error:
                wait_seconds = following.lost(self._lost(error))
            await asyncio.sleep(wait_seconds)
            await asyncio.to_thread(self._relocate)

    async def _send(self, call: Call) -> Received | Lost:
        try:
            return _received(await self._http.request(**self._request(call)))
        except self._transport_error as error:
            return self._lost(error)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidArgument("url", f"url must look like http://127.0.0.1:7700, not {url!r:.60}")
    return url.rstrip("/")


def _http_options(url: str) -> dict[str, Any]:
    import httpx

    return {
        "timeout": httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        # A proxy set for the web must not carry memories of this machine; and reading the
        # machine's certificates for plain HTTP would cost more than the call.
        "trust_env": False,
        "verify": url.startswith("https:"),
        # A redirect would repeat a write at an address nobody named.
        "follow_redirects": False,
    }


def _received(response: httpx.Response) -> Received:
    return Received(
        response.status_code,
        response.headers,
        response.content,
        source=f"{response.request.method} {response.request.url.copy_with(query=None)}",
    )
