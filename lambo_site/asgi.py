"""Protocol routing, and the life of what serves: nothing here knows a verb.

One ASGI application in front of everything: `lifespan` starts and stops the host, `/mcp` goes to
the MCP surface, `/healthz`, `/readyz` and `/metrics` to `lambo_site.signs`, `/api/` goes to Django
by a short way (`lambo_site.api_door`), streams of events by a door of their own
(`lambo_site.event_door`), the rest to Django as it is. Composition: MCP calls reach the verb table
in this process, so no surface has a rule of its own.

Invariant: the host runs exactly while requests are let in, and is closed after the last of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lambo_site.settings")
django.setup(set_prefix=False)

# Models come after the set-up.
from lambo_site.api_door import ApiDoor, read_or_refuse  # noqa: E402
from lambo_site.event_door import EventDoor  # noqa: E402
from lambo_site.gate import Gate  # noqa: E402
from lambo_site.metrics import Metrics  # noqa: E402
from lambo_site.portal.health import history  # noqa: E402
from lambo_site.signs import Signs  # noqa: E402
from lambo_site.wiring import build_host  # noqa: E402
from mcp_bridge.http_app import McpHttpApp  # noqa: E402
from mcp_bridge.tools import CallContext, ToolReply, tool_specs  # noqa: E402
from memory import runtime  # noqa: E402
from memory.admission import Origin, carry_out_counted  # noqa: E402
from memory.engine.errors import InvalidConfiguration  # noqa: E402
from memory.engine.rights import LOCAL, Rights, without_admin  # noqa: E402
from memory.service.collector import keep_collections_short  # noqa: E402
from memory.service.loop_lag import WINDOW_SECONDS, LoopLag  # noqa: E402
from memory.service.store_access import session_not_found  # noqa: E402
from memory.system import SystemClock  # noqa: E402
from memory.verbs import VERBS  # noqa: E402
from memory.version import VERSION  # noqa: E402

logger = logging.getLogger("lambo.server")
# One line for every call at INFO, and nothing an operator could act on.
logging.getLogger("mcp").setLevel(logging.WARNING)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

API_PREFIX = "/api/"
JOBS_PATH = "/api/v1/jobs"
"""Asked for by the calendar, not by anybody: a server that only this keeps busy is idle."""


async def dispatch(verb: str, arguments: dict[str, Any], context: CallContext) -> ToolReply:
    """A tool call carried out in this process, with the rights the gate gave its request."""
    rights = context.principal if isinstance(context.principal, Rights) else LOCAL
    origin = Origin(context.agent_id, context.idempotency_key, rights)
    host = runtime.get_host()
    reply = await carry_out_counted(VERBS[verb], host, context.session, arguments, origin)
    structured = dict(reply.structured)
    return ToolReply(text=reply.text, warnings=structured.pop("warnings"), structured=structured)


def _is_busy() -> bool:
    return runtime.activity.idle_seconds < WINDOW_SECONDS


class Application:
    """The server as an ASGI application."""

    def __init__(self) -> None:
        requires_tokens = settings.PROCESS.requires_tokens
        self._metrics = Metrics()
        self._gate = Gate(requires_tokens=requires_tokens, measures=self._metrics)
        self._pages: Any = get_asgi_application()
        self._api: Any = ApiDoor(self._gate)
        self._event_door = EventDoor(self._gate)
        self._mcp = McpHttpApp(
            dispatch,
            tool_specs(VERBS),
            version=VERSION,
            authenticate=self._admit_to_session,
            allowed_hosts=settings.ALLOWED_HOSTS,
            refuse_forwarded=not requires_tokens,
        )
        self._lag = LoopLag(tell=self._metrics.loop_was_late)
        self._signs = Signs(self._gate, self._metrics, self._lag, requires_tokens=requires_tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)
            case "websocket":
                await self._while_open(self._event_door.socket, scope, receive, send)
            case other:
                raise ValueError(f"no such protocol here: {other}")

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if self._signs.serves(path):
            await self._signs(scope, receive, send)
            return
        if path == JOBS_PATH:
            await self._api(scope, receive, self._counted("api", send))
            return
        surface = "pages"
        application: Any = self._show_page
        if self._event_door.serves(scope):
            surface, application = "api", self._event_door.stream
        elif path.startswith(API_PREFIX):
            surface, application = "api", self._api
        elif self._mcp.serves(path):
            surface, application = "mcp", self._mcp
        await self._while_open(application, scope, receive, self._counted(surface, send))

    async def _while_open(
        self, application: Any, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve, and count as use of the server while that takes."""
        runtime.activity.begin()
        try:
            await application(scope, receive, send)
        finally:
            runtime.activity.end()

    def _counted(self, surface: str, send: Send) -> Send:
        """`send`, with the status of the response counted."""

        async def count(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._metrics.responded(surface, message["status"])
            await send(message)

        return count

    async def _admit_to_session(self, scope: Scope, session: str) -> Rights:
        """Who may speak MCP in a session; one outside the patterns is there for nobody."""
        rights = await self._gate.admit(scope)
        if not rights.sees(session):
            raise session_not_found(session)
        return without_admin(rights)

    async def _show_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Django as it is, but for the body: bounded while it is read, like every other."""
        body = await read_or_refuse(scope, receive, send)
        if body is None:
            return
        whole: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_whole() -> Any:
            return whole.pop() if whole else await receive()

        await self._pages(scope, receive_whole, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        phase = "startup"
        try:
            async with self._serving():
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()
        except Exception as error:
            # The protocol's edge: the command that serves reports it, the detail is in the log. A
            # setting that cannot work needs none: its message is all there is to know.
            if not isinstance(error, InvalidConfiguration):
                logger.exception("the %s did not end in order", phase)
            runtime.set_failure(error)
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        """Everything that must run while requests are served; undone in the opposite order.

        MCP ends before the host: what its calls have applied is committed by the host's close.
        """
        held = runtime.get_held_folder()
        self._signs.node_id = held.node_id
        host = build_host(settings.PROCESS, node_id=held.node_id, measures=self._metrics)
        keep_collections_short()
        await host.start()
        watching = [
            asyncio.create_task(self._lag.watch(is_busy=_is_busy)),
            asyncio.create_task(history.watch(host, self._lag, SystemClock().now)),
        ]
        try:
            async with self._mcp.run():
                runtime.set_host(host)
                yield
                runtime.set_host(None)
        finally:
            runtime.set_host(None)
            for watch in watching:
                watch.cancel()
            runtime.set_close_report(await host.close())


application = Application()
