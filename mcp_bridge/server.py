"""The MCP server: seven tools over one dispatch function, for any transport.

Owns the handlers of `tools/list` and `tools/call`, the instructions, and the containment of faults.
Refuses to validate arguments (the verb does) and to choose a transport.

One server serves any number of sessions. Which session a request belongs to, and which agent its
transport vouches for, is a `Binding`: fixed for a transport that serves one session (stdio,
memory), carried in the ASGI scope of each request over HTTP. The SDK hands the request object to
the handler on every HTTP path, so this holds in stateless mode, whichever task the handler runs in.

Invariant: a handler never raises anything but a protocol error for a tool that does not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    Tool,
    ToolAnnotations,
)

from mcp_bridge import results
from mcp_bridge.tools import (
    SESSION_DEFAULT,
    CallContext,
    ToolCall,
    ToolSpec,
    instructions,
    route,
    without_agent,
)
from memory.engine.errors import InvalidArgument, LamboError

logger = logging.getLogger(__name__)

SERVER_NAME: Final = "lambo"
IDEMPOTENCY_META: Final = "lambo/idempotency-key"
"""The name in a request's `_meta` under which a client sends its idempotency key."""

SCOPE_BINDING: Final = "lambo.mcp.binding"
"""Where the HTTP transport leaves the `Binding` of a request."""

AgentNamer = Callable[[str | None], str | None]
"""Makes a default agent id from the name the MCP client gives itself; None leaves it to the server,
which knows whose token a call came with."""

_Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """Which session a request is for, and which agent its transport vouches for."""

    session: str
    agent: str | AgentNamer | None = None
    principal: object | None = None

    def agent_id(self, client_name: str | None) -> str | None:
        return self.agent(client_name) if callable(self.agent) else self.agent


def build_server(
    dispatch: ToolCall,
    tools: Sequence[ToolSpec],
    session: str = SESSION_DEFAULT,
    default_agent: str | AgentNamer | None = None,
    *,
    version: str = "",
) -> Server[Any]:
    """A server whose requests belong to `session`, unless their transport says otherwise."""
    handlers = _Handlers(dispatch, tools, Binding(session, default_agent))
    server: Server[Any] = Server(
        SERVER_NAME,
        version=version,
        # No argument is mirrored in a header. Saying so saves the SDK a tools/list in every call.
        get_tool_input_schema=lambda _name: None,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
    )
    # In place of the SDK's tracing, which costs an eighth of a call where nobody listens.
    server.middleware[:] = [handlers.instruct]
    return server


class _Handlers:
    """The three things a client can meet: the instructions, the list, a call."""

    def __init__(self, dispatch: ToolCall, tools: Sequence[ToolSpec], fixed: Binding) -> None:
        self._dispatch = dispatch
        self._fixed = fixed
        self._names = frozenset(spec.name for spec in tools)
        self._list_with_agent = _listing(tools)
        self._list_without_agent = _listing([without_agent(spec) for spec in tools])

    async def instruct(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Put the session's instructions into the two replies that carry them.

        A middleware because the SDK takes one text per server, and this server has many sessions.
        """
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            binding = self._binding(ctx)
            text = instructions(binding.session, names_agent=binding.agent is not None)
            return {**result, "instructions": text}
        return result

    async def list_tools(
        self, ctx: _Context, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        named = self._binding(ctx).agent is not None
        return self._list_without_agent if named else self._list_with_agent

    async def call_tool(self, ctx: _Context, params: CallToolRequestParams) -> CallToolResult:
        tool = params.name
        if tool not in self._names:
            known = ", ".join(sorted(self._names))
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {tool}. The tools are: {known}")
        try:
            verb, arguments = route(tool, params.arguments or {})
            context = self._context(ctx)
            if self._binding(ctx).agent is None and "agent_id" not in arguments:
                raise InvalidArgument("agent_id", "agent_id is required: pass your own name")
            return results.success(await self._dispatch(verb, arguments, context))
        except LamboError as error:
            return results.failure(tool, error)
        except Exception:
            # The edge of the process: whatever a verb did wrong ends here, with its traceback.
            logger.exception("the tool %s failed", tool)
            return results.contained(tool)

    def _context(self, ctx: _Context) -> CallContext:
        binding = self._binding(ctx)
        key = (ctx.meta or {}).get(IDEMPOTENCY_META)
        if key is not None and not isinstance(key, str):
            raise InvalidArgument("idempotency_key", f"_meta {IDEMPOTENCY_META} must be a string")
        client = ctx.session.client_params
        client_name = client.client_info.name if client is not None else None
        return CallContext(
            session=binding.session,
            agent_id=binding.agent_id(client_name),
            idempotency_key=key,
            client_name=client_name,
            principal=binding.principal,
        )

    def _binding(self, ctx: _Context) -> Binding:
        if ctx.request is None:
            return self._fixed
        binding = ctx.request.scope[SCOPE_BINDING]
        assert isinstance(binding, Binding)
        return binding


def _listing(tools: Sequence[ToolSpec]) -> ListToolsResult:
    return ListToolsResult(
        tools=[
            Tool(
                name=spec.name,
                description=spec.description,
                input_schema=spec.input_schema,
                output_schema=spec.output_schema,
                annotations=ToolAnnotations(
                    read_only_hint=spec.read_only,
                    # Nothing an agent can call removes or replaces what is stored.
                    destructive_hint=None if spec.read_only else False,
                    open_world_hint=False,
                ),
            )
            for spec in tools
        ]
    )
