"""The one table of verbs: what exists, who may use it, and what each call carries out.

Owns the path of every call from every surface: check the right, read the arguments, identify the
agent, call the service once. What a right is stands in `memory.engine.rights`. A surface adds its
wire format and nothing else, so a rule cannot hold on one and not on another. Knows no HTTP status,
no MCP content and no command line.

Invariant: no verb runs that `decide` did not allow, whichever surface the call came through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from memory import reply_models as replies
from memory import schemas
from memory.engine.errors import InvalidArgument
from memory.engine.requests import Caller, check_session_name
from memory.engine.rights import LOCAL, OPERATOR, Act, Rights, Scope, decide
from memory.service.replies import Reply
from memory.service.session_list import list_seen

if TYPE_CHECKING:
    # The bridge reads the table for its tool list and must not wait for the host's numpy.
    from memory.service.host import SessionHost

Run: TypeAlias = "Callable[[SessionHost, str, Admitted, Any], Awaitable[Reply]]"
"""`(host, session, caller, arguments)`; the arguments are of the verb's own model."""


UNNAMED_AGENT: Final = "unnamed"
"""Who calls when nobody says so, where the name changes nothing that is stored."""

_AGENTS_DO_NOT: Final = "a human act: agents have no tool for it"
_HOUSEKEEPING: Final = "housekeeping: a tool would cost every agent tokens and serve none"


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
    request_model: type[schemas.Arguments]
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
    arguments = schemas.parse_arguments(verb.request_model, payload)
    named = origin.agent_id if arguments.agent_id is None else arguments.agent_id
    act = replace(
        act,
        session=session or getattr(arguments, "session", ""),
        agent_id=named,
        is_backdated=getattr(arguments, "event_time", None) is not None,
    )
    caller = _identify(verb, decide(origin.rights, act), origin)
    return await verb.run(host, session, caller, arguments)


def _identify(verb: Verb, agent_id: str | None, origin: Origin) -> Admitted:
    """The caller: the agent that was decided on, under the key the transport brought."""
    if agent_id is None:
        if verb.needs_agent:
            raise InvalidArgument("agent_id", "agent_id is required: pass your own name")
        agent_id = UNNAMED_AGENT
    rights = origin.rights
    return Admitted(agent_id, origin.key, Scope.ADMIN in rights.scopes, rights)


# -- what each verb does -----------------------------------------------------------------------


async def _derive(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.DeriveArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.derive(request, caller), create=True)


async def _record_action(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.ActionArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(
        session, lambda memory: memory.record_action(request, caller), create=True
    )


async def _demote(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.DemoteArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.demote(request, caller), create=True)


async def _reserve(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.ReserveArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.reserve(request, caller), create=False)


async def _release(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.ReleaseArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.release(request, caller), create=False)


async def _retract(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.RetractArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.retract(request, caller), create=False)


async def _root_goal(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.RootGoalArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(
        session, lambda memory: memory.set_root_goal(request, caller), create=False
    )


async def _synonym(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.SynonymArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(
        session, lambda memory: memory.declare_synonym(request, caller), create=False
    )


async def _recall(
    host: SessionHost, session: str, _caller: Caller, arguments: schemas.RecallArguments
) -> Reply:
    request = arguments.to_request()
    return await (await host.view(session)).recall(request)


async def _inspect(
    host: SessionHost, session: str, _caller: Caller, arguments: schemas.InspectArguments
) -> Reply:
    request = arguments.to_request()
    return await (await host.view(session)).inspect(request)


async def _saints(
    host: SessionHost, session: str, _caller: Caller, _arguments: schemas.SaintsArguments
) -> Reply:
    return await (await host.view(session)).saints()


async def _stats(
    host: SessionHost, session: str, _caller: Caller, _arguments: schemas.StatsArguments
) -> Reply:
    return await (await host.view(session)).stats()


async def _receipt(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.ReceiptArguments
) -> Reply:
    # The rules of a key are the caller record's.
    key = Caller(caller.agent_id, arguments.key).key
    assert key is not None
    return await (await host.view(session)).receipt(key, agent_id=caller.agent_id)


async def _session_list(
    host: SessionHost, _session: str, caller: Admitted, arguments: schemas.SessionListArguments
) -> Reply:
    if arguments.after:
        check_session_name(arguments.after)
    return await list_seen(host, caller.rights, after=arguments.after, limit=arguments.limit)


async def _session_create(
    host: SessionHost, _session: str, caller: Caller, arguments: schemas.SessionCreateArguments
) -> Reply:
    return await host.create_session(arguments.session, caller)


async def _session_close(
    host: SessionHost, session: str, caller: Caller, _arguments: schemas.SessionCloseArguments
) -> Reply:
    return await host.close_session(session, caller)


async def _session_delete(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.SessionDeleteArguments
) -> Reply:
    return await host.delete_session(session, arguments.confirm, caller)


async def _token_create(
    host: SessionHost, _session: str, caller: Caller, arguments: schemas.TokenCreateArguments
) -> Reply:
    return await host.tokens.create(arguments.to_request(), caller)


async def _token_list(
    host: SessionHost, _session: str, _caller: Caller, _arguments: schemas.TokenListArguments
) -> Reply:
    return await host.tokens.list_all()


async def _token_revoke(
    host: SessionHost, _session: str, caller: Caller, arguments: schemas.TokenRevokeArguments
) -> Reply:
    return await host.tokens.revoke(arguments.id, caller)


# -- the table ---------------------------------------------------------------------------------

_SESSION: Final = "/sessions/{session}"

_VERBS: Final = (
    Verb(
        name="derive",
        summary="Remember statements",
        run=_derive,
        request_model=schemas.DeriveArguments,
        reply_model=replies.DeriveReply,
        path=f"{_SESSION}/derive",
        command=("derive",),
        tool="lambo_derive",
        writes=True,
        creates_session=True,
    ),
    Verb(
        name="recall",
        summary="Ask what is remembered",
        run=_recall,
        request_model=schemas.RecallArguments,
        reply_model=replies.RecallReply,
        path=f"{_SESSION}/recall",
        command=("recall",),
        tool="lambo_recall",
    ),
    Verb(
        name="record-action",
        summary="Remember what was done",
        run=_record_action,
        request_model=schemas.ActionArguments,
        reply_model=replies.ActionReply,
        path=f"{_SESSION}/record-action",
        command=("record-action",),
        tool="lambo_record_action",
        writes=True,
        creates_session=True,
    ),
    Verb(
        name="inspect",
        summary="Look at a concept and what surrounds it",
        run=_inspect,
        request_model=schemas.InspectArguments,
        reply_model=replies.InspectReply,
        path=f"{_SESSION}/inspect",
        command=("inspect",),
        tool="lambo_inspect",
    ),
    Verb(
        name="reserve",
        summary="Tell others what is about to be changed",
        run=_reserve,
        request_model=schemas.ReserveArguments,
        reply_model=replies.ReserveReply,
        path=f"{_SESSION}/reserve",
        command=("reserve",),
        tool="lambo_reserve",
        writes=True,
    ),
    Verb(
        name="release",
        summary="Give a reservation back",
        run=_release,
        request_model=schemas.ReleaseArguments,
        reply_model=replies.ReleaseReply,
        path=f"{_SESSION}/release",
        command=("release",),
        tool="lambo_reserve",
        writes=True,
    ),
    Verb(
        name="saints",
        summary="List the canonical memories",
        run=_saints,
        request_model=schemas.SaintsArguments,
        reply_model=replies.SaintsReply,
        path=f"{_SESSION}/saints",
        command=("saints",),
        method="GET",
        tool="lambo_saints",
        needs_agent=False,
    ),
    Verb(
        name="stats",
        summary="Show size and health",
        run=_stats,
        request_model=schemas.StatsArguments,
        reply_model=replies.StatsReply,
        path=f"{_SESSION}/stats",
        command=("stats",),
        method="GET",
        tool="lambo_stats",
        needs_agent=False,
    ),
    Verb(
        name="demote",
        summary="Keep text that no longer fits an agent's context",
        run=_demote,
        request_model=schemas.DemoteArguments,
        reply_model=replies.DemoteReply,
        path=f"{_SESSION}/demote",
        command=("demote",),
        writes=True,
        creates_session=True,
        missing={"mcp": "called by an agent's host when a context overflows, not by the model"},
    ),
    Verb(
        name="retract",
        summary="Remove a concept",
        run=_retract,
        request_model=schemas.RetractArguments,
        reply_model=replies.RetractReply,
        path=f"{_SESSION}/retract",
        command=("retract",),
        writes=True,
        operator_only=True,
        missing={"mcp": _AGENTS_DO_NOT},
    ),
    Verb(
        name="root-goal",
        summary="Say what the session is for",
        run=_root_goal,
        request_model=schemas.RootGoalArguments,
        reply_model=replies.RootGoalReply,
        path=f"{_SESSION}/root-goal",
        command=("root-goal",),
        writes=True,
        operator_only=True,
        missing={"mcp": _AGENTS_DO_NOT},
    ),
    Verb(
        name="synonym",
        summary="Read one spelling as another",
        run=_synonym,
        request_model=schemas.SynonymArguments,
        reply_model=replies.SynonymReply,
        path=f"{_SESSION}/synonym",
        command=("synonym",),
        writes=True,
        operator_only=True,
        missing={"mcp": _AGENTS_DO_NOT},
    ),
    Verb(
        name="receipt",
        summary="Ask how a write ended",
        run=_receipt,
        request_model=schemas.ReceiptArguments,
        reply_model=replies.ReceiptReply,
        path=f"{_SESSION}/receipts/{{key}}",
        command=("receipt",),
        method="GET",
        missing={"mcp": "the bridge settles retries by itself"},
    ),
    Verb(
        name="session-list",
        summary="List sessions",
        run=_session_list,
        request_model=schemas.SessionListArguments,
        reply_model=replies.SessionListReply,
        path="/sessions",
        command=("session", "list"),
        method="GET",
        needs_agent=False,
        missing={"mcp": _HOUSEKEEPING},
    ),
    Verb(
        name="session-create",
        summary="Create an empty session",
        run=_session_create,
        request_model=schemas.SessionCreateArguments,
        reply_model=replies.SessionCreateReply,
        path="/sessions",
        command=("session", "create"),
        creates_session=True,
        needs_agent=False,
        missing={"mcp": _HOUSEKEEPING},
    ),
    Verb(
        name="session-close",
        summary="Put a session away",
        run=_session_close,
        request_model=schemas.SessionCloseArguments,
        reply_model=replies.SessionCloseReply,
        path=f"{_SESSION}/close",
        command=("session", "close"),
        needs_agent=False,
        disturbs=True,
        missing={"mcp": _HOUSEKEEPING},
    ),
    Verb(
        name="session-delete",
        summary="Remove a session for good",
        run=_session_delete,
        request_model=schemas.SessionDeleteArguments,
        reply_model=replies.SessionDeleteReply,
        path=_SESSION,
        command=("session", "delete"),
        method="DELETE",
        operator_only=True,
        needs_agent=False,
        missing={"mcp": _AGENTS_DO_NOT},
    ),
    Verb(
        name="token-create",
        summary="Make a token",
        run=_token_create,
        request_model=schemas.TokenCreateArguments,
        reply_model=replies.TokenCreateReply,
        path="/tokens",
        command=("token", "create"),
        operator_only=True,
        needs_agent=False,
        missing={"mcp": _AGENTS_DO_NOT},
    ),
    Verb(
        name="token-list",
        summary="List tokens",
        run=_token_list,
        request_model=schemas.TokenListArguments,
        reply_model=replies.TokenListReply,
        path="/tokens",
        command=("token", "list"),
        method="GET",
        operator_only=True,
        needs_agent=False,
        missing={"mcp": _AGENTS_DO_NOT},
    ),
    Verb(
        name="token-revoke",
        summary="Revoke a token",
        run=_token_revoke,
        request_model=schemas.TokenRevokeArguments,
        reply_model=replies.TokenRevokeReply,
        path="/tokens/revoke",
        command=("token", "revoke"),
        operator_only=True,
        needs_agent=False,
        missing={"mcp": _AGENTS_DO_NOT},
    ),
)

VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in _VERBS}
"""Every verb by name."""
