"""What a server shows of itself to those who watch it: `/healthz`, `/readyz`, `/metrics`.

`/healthz` tells that the process serves, `/readyz` that a write would be acknowledged now: no batch
waits too long for the store, and the store has answered a question of a moment ago. `/metrics` is
for a Prometheus scraper (`lambo_site.metrics`). None of them counts as a call.

Invariant: strangers are refused as everywhere; where tokens are asked for, the first two tell
nobody more than a word, and the third asks for a token that may read.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from lambo_site.api_door import refuse_stranger, send_response
from lambo_site.errors import MethodNotAllowed, error_response
from lambo_site.gate import Gate
from lambo_site.metrics import CONTENT_TYPE, Metrics
from memory import runtime
from memory.engine.errors import Forbidden, LamboError
from memory.engine.rights import Scope as Right
from memory.service.loop_lag import LoopLag
from memory.version import VERSION

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
METRICS: Final = "/metrics"


class Signs:
    """An ASGI application for those three paths."""

    def __init__(
        self, gate: Gate, metrics: Metrics, lag: LoopLag, *, requires_tokens: bool
    ) -> None:
        self._gate = gate
        self._metrics = metrics
        self._lag = lag
        self._requires_tokens = requires_tokens
        self.node_id = ""

    def serves(self, path: str) -> bool:
        """Whether a request path belongs to this application."""
        return path in (HEALTH, READY, METRICS)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if await refuse_stranger(scope, send):
            return
        if scope["method"] not in ("GET", "HEAD"):
            refusal = error_response(MethodNotAllowed("only GET and HEAD are allowed here"))
            refusal["Allow"] = "GET, HEAD"
            await send_response(refusal, scope, send)
        elif scope["path"] == METRICS:
            await self._show_metrics(scope, send)
        else:
            await self._show_life(scope, send)

    async def _show_life(self, scope: Scope, send: Send) -> None:
        status, word = 200, "ok"
        if scope["path"] == READY:
            host = runtime.find_host()
            is_ready = host is not None and await host.is_ready()
            status, word = (200, "ready") if is_ready else (503, "not ready")
        answer: dict[str, Any] = {"status": word}
        if not self._requires_tokens:
            # Of interest to people on this machine; strangers learn no more than they must. In
            # local mode both tell how late the event loop was, which is what every call waits for.
            answer |= {
                "version": VERSION,
                "node_id": self.node_id,
                "loop_lag": self._lag.report().as_wire(),
            }
        await _send_text(json.dumps(answer).encode(), "application/json", status, scope, send)

    async def _show_metrics(self, scope: Scope, send: Send) -> None:
        """Nothing in it is of any one session, so the patterns of the token do not matter."""
        try:
            rights = await self._gate.admit(scope)
            if Right.READ not in rights.scopes:
                raise Forbidden("metrics need the scope read", scope=str(Right.READ))
        except LamboError as refusal:
            await send_response(error_response(refusal), scope, send)
            return
        host = runtime.find_host()
        body = self._metrics.render(None if host is None else host.read_vital_signs())
        await _send_text(body, CONTENT_TYPE, 200, scope, send)


async def _send_text(body: bytes, kind: str, status: int, scope: Scope, send: Send) -> None:
    headers = [
        (b"content-type", kind.encode("ascii")),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    shown = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": shown})
