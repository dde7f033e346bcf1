"""The path of every call from every surface.

Owns its order: check the right, read the arguments, identify the agent, call the service once. What
a right is stands in `memory.engine.rights`, which verbs exist in `memory.verbs`. A surface adds its
wire format and nothing else, so a rule cannot hold on one and not on another. Knows no HTTP status,
no MCP content and no command line.

Invariant: no verb runs that `decide` did not allow, whichever surface the call came through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from memory import reply_models as replies
from memory.argument_reading import parse_arguments
from memory.argument_types import Arguments
from memory.engine.errors import InvalidArgument, LamboError
from memory.engine.requests import Caller
from memory.engine.rights import LOCAL, OPERATOR, Act, Rights, Scope, decide
from memory.service.replies import Reply

if TYPE_CHECKING:
    # The bridge reads the table for its tool list and must not wait for the host's numpy.
    from memory.service.host import SessionHost

Run: TypeAlias = "Callable[[SessionHost, str, Admitted, Any], Awaitable[Reply]]"
"""`(host, session, caller, arguments)`; the arguments are of the verb's own model."""


UNNAMED_AGENT: Final = "unnamed"
"""Who calls when nobody says so, where the name changes nothing that is stored."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a transport knows of a call beside its arguments."""

    agent_id: str | None = None
    key: str | None = None
    rights: Rights = LOCAL

    @classmethod
    def of_operator(cls, agent_id: str | None = None, key: str | None = None) -> Origin:
        """A call that came with the operator secret."""
        return cls(agent_id, key, OPERATOR)


@dataclass(frozen=True, slots=True)
class Admitted(Caller):
    """A caller whose act was decided on, with the rights that allowed it."""

    rights: Rights = LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One thing that can be asked. `path` is below `/api/v1`, `command` what `lambo` is told.

    `missing` gives the reason for each surface (`mcp`, `http`, `cli`) that does not offer the verb.
    """

    name: str
    summary: str
    run: Run
    request_model: type[Arguments]
    reply_model: type[replies.Answered]
    path: str
    command: tuple[str, ...]
    method: Literal["GET", "POST", "DELETE"] = "POST"
    tool: str | None = None
    writes: bool = False
    creates_session: bool = False
    operator_only: bool = False
    needs_agent: bool = True
    disturbs: bool = False
    """Stores nothing, yet others notice it."""
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        """What a caller needs for it."""
        if self.operator_only:
            return Scope.ADMIN
        is_felt = self.writes or self.creates_session or self.disturbs
        return Scope.WRITE if is_felt else Scope.READ

    @property
    def is_server_wide(self) -> bool:
        """An act of operators on no single session."""
        return self.operator_only and "{session}" not in self.path


async def carry_out(
    verb: Verb, host: SessionHost, session: str, payload: Any, origin: Origin
) -> Reply:
    """Do what a caller asked. Raises `LamboError` for every failure the caller may learn about."""
    act = Act(verb=verb.name, scope=verb.scope, session=session, is_server_wide=verb.is_server_wide)
    # Before the arguments are read: what is wrong with them is for callers who may send some.
    decide(origin.rights, act)
    arguments = parse_arguments(verb.request_model, payload)
    named = origin.agent_id if arguments.agent_id is None else arguments.agent_id
    act = replace(
        act,
        session=session or getattr(arguments, "session", ""),
        agent_id=named,
    )
    caller = _identify(verb, decide(origin.rights, act), origin)
    return await verb.run(host, session, caller, arguments)


async def carry_out_counted(
    verb: Verb, host: SessionHost, session: str, payload: Any, origin: Origin
) -> Reply:
    """`carry_out`, with its end and its time told to what counts the server's work."""
    began_at, outcome = perf_counter(), "cancelled"
    try:
        reply = await carry_out(verb, host, session, payload, origin)
        outcome = "accepted" if reply.is_accepted else "ok"
        return reply
    except Exception as error:
        outcome = error.code if isinstance(error, LamboError) else LamboError.code
        host.measures.refused(outcome)
        raise
    finally:
        host.measures.called(verb.name, outcome, perf_counter() - began_at)


def _identify(verb: Verb, agent_id: str | None, origin: Origin) -> Admitted:
    """The caller: the agent that was decided on, under the key the transport brought."""
    if agent_id is None:
        if verb.needs_agent:
            raise InvalidArgument("agent_id", "agent_id is required: pass your own name")
        agent_id = UNNAMED_AGENT
    rights = origin.rights
    return Admitted(
        agent_id,
        origin.key,
        is_operator=Scope.ADMIN in rights.scopes,
        may_backdate=Scope.BACKDATE in rights.scopes,
        rights=rights,
    )
