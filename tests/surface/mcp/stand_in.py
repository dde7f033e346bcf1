"""A dispatch function without a memory behind it, for tests of the MCP surface.

Arguments are read by the real models; the answer is made from them. A query names the failure it
wants to see.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.tools import CallContext, ToolReply, ToolSpec, tool_specs
from memory.argument_reading import parse_arguments
from memory.engine.errors import ReservationConflict, StoreUnavailable
from memory.engine.text import check_text
from memory.schemas import RecallArguments, ReleaseArguments, ReserveArguments
from memory.verbs import VERBS


def specs() -> list[ToolSpec]:
    return tool_specs(VERBS)


@dataclass
class Calls:
    """A dispatch function that remembers what it was asked."""

    seen: list[tuple[str, dict[str, Any], CallContext]] = field(default_factory=list)

    async def __call__(
        self, verb: str, arguments: dict[str, Any], context: CallContext
    ) -> ToolReply:
        self.seen.append((verb, arguments, context))
        request = parse_arguments(VERBS[verb].request_model, arguments)
        if isinstance(request, RecallArguments):
            return await self._recall(request.query, context)
        agent = request.agent_id or context.agent_id
        if isinstance(request, (ReserveArguments, ReleaseArguments)):
            node = request.node_id or request.concept
            return ToolReply(
                text=f"{verb}d {node}",
                structured={"summary": f"{verb}d {node}", "node_id": node, "agent_id": agent},
            )
        return ToolReply(
            text=f"{verb} done", structured={"summary": f"{verb} by {agent} in {context.session}"}
        )

    async def _recall(self, query: str, context: CallContext) -> ToolReply:
        check_text("query", query)
        match query:
            case "explode":
                raise RuntimeError("the password is swordfish")
            case "away":
                raise StoreUnavailable("the store is away", retry_after_seconds=2.5)
            case "held":
                raise ReservationConflict("reserved by bob", holder="bob")
            case "warn":
                warnings = ["see https://inside.example/x and\nthat", "plain"]
            case _:
                warnings = []
        await asyncio.sleep(0)
        return ToolReply(
            text=f"{context.session}: {query}",
            structured={"context": query, "hits": []},
            warnings=warnings,
        )
