"""What each verb does: one call of the service, with the request its arguments say.

Decides nothing: who may call was decided before (`memory.admission`), what happens is the
service's. Invariant: a function here makes one service call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory import operator_schemas, schemas
from memory.admission import Admitted
from memory.engine.requests import Caller, check_session_name
from memory.engine.rights import Scope
from memory.service.replies import Reply, without_excerpts
from memory.service.session_list import list_seen

if TYPE_CHECKING:
    # The bridge reads the table of verbs and must not wait for the host's numpy.
    from memory.service.host import SessionHost


async def derive(
    host: SessionHost, session: str, caller: Admitted, arguments: schemas.DeriveArguments
) -> Reply:
    request = arguments.to_request()
    reply = await host.write(
        session, lambda memory: memory.derive(request, caller, wait=arguments.wait), create=True
    )
    return reply if Scope.READ in caller.rights.scopes else without_excerpts(reply)


async def record_action(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.ActionArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(
        session,
        lambda memory: memory.record_action(request, caller, wait=arguments.wait),
        create=True,
    )


async def demote(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.DemoteArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.demote(request, caller), create=True)


async def reserve(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.ReserveArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.reserve(request, caller), create=False)


async def release(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.ReleaseArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.release(request, caller), create=False)


async def events(
    host: SessionHost, session: str, _caller: Caller, arguments: schemas.EventsArguments
) -> Reply:
    request = arguments.to_request()
    return await host.events.list_page(
        session, since=request.since, limit=request.limit, kinds=request.kinds
    )


async def retract(
    host: SessionHost, session: str, caller: Caller, arguments: operator_schemas.RetractArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.retract(request, caller), create=False)


async def disappearances(
    host: SessionHost,
    session: str,
    _caller: Caller,
    arguments: operator_schemas.DisappearancesArguments,
) -> Reply:
    return await host.disappearances.list_page(
        session, after=arguments.after, limit=arguments.limit
    )


async def restore(
    host: SessionHost, session: str, caller: Caller, arguments: operator_schemas.RestoreArguments
) -> Reply:
    return await host.disappearances.restore(session, arguments.to_request(), caller)


async def purge(
    host: SessionHost, session: str, caller: Caller, arguments: operator_schemas.PurgeArguments
) -> Reply:
    return await host.disappearances.purge(session, arguments.to_request(), caller)


async def confirm(
    host: SessionHost, session: str, caller: Caller, arguments: operator_schemas.ConfirmArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(session, lambda memory: memory.confirm(request, caller), create=False)


async def root_goal(
    host: SessionHost, session: str, caller: Caller, arguments: operator_schemas.RootGoalArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(
        session, lambda memory: memory.set_root_goal(request, caller), create=False
    )


async def synonym(
    host: SessionHost, session: str, caller: Caller, arguments: operator_schemas.SynonymArguments
) -> Reply:
    request = arguments.to_request()
    return await host.write(
        session, lambda memory: memory.declare_synonym(request, caller), create=False
    )


async def recall(
    host: SessionHost, session: str, caller: Admitted, arguments: schemas.RecallArguments
) -> Reply:
    request = arguments.to_request()
    return await host.views.recall(await host.view(session), request, caller, caller.rights)


async def inspect(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.InspectArguments
) -> Reply:
    request = arguments.to_request()
    return await (await host.view(session)).inspect(request, agent_id=caller.agent_id)


async def guard(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.GuardArguments
) -> Reply:
    request = arguments.to_request()
    return await (await host.view(session)).guard(request, agent_id=caller.agent_id)


async def concepts(
    host: SessionHost, session: str, _caller: Caller, arguments: schemas.ConceptsArguments
) -> Reply:
    return await (await host.view(session)).concepts(arguments.to_request())


async def saints(
    host: SessionHost, session: str, _caller: Caller, _arguments: schemas.SaintsArguments
) -> Reply:
    return await (await host.view(session)).saints()


async def stats(
    host: SessionHost, session: str, _caller: Caller, _arguments: schemas.StatsArguments
) -> Reply:
    return await (await host.view(session)).stats()


async def receipt(
    host: SessionHost, session: str, caller: Caller, arguments: schemas.ReceiptArguments
) -> Reply:
    # The rules of a key are the caller record's.
    key = Caller(caller.agent_id, arguments.key).key
    assert key is not None
    return await (await host.view(session)).receipt(key, agent_id=caller.agent_id)


async def session_list(
    host: SessionHost,
    _session: str,
    caller: Admitted,
    arguments: operator_schemas.SessionListArguments,
) -> Reply:
    if arguments.after:
        check_session_name(arguments.after)
    return await list_seen(host, caller.rights, after=arguments.after, limit=arguments.limit)


async def session_create(
    host: SessionHost,
    _session: str,
    caller: Caller,
    arguments: operator_schemas.SessionCreateArguments,
) -> Reply:
    return await host.create_session(arguments.session, caller)


async def session_close(
    host: SessionHost,
    session: str,
    caller: Caller,
    _arguments: operator_schemas.SessionCloseArguments,
) -> Reply:
    return await host.close_session(session, caller)


async def session_delete(
    host: SessionHost,
    session: str,
    caller: Caller,
    arguments: operator_schemas.SessionDeleteArguments,
) -> Reply:
    return await host.delete_session(session, arguments.confirm, caller)


async def reembed(
    host: SessionHost,
    session: str,
    caller: Caller,
    arguments: operator_schemas.ReembedArguments,
) -> Reply:
    return await host.reembedder.ask(session, start=arguments.start, actor=caller.agent_id)


async def job_run(
    host: SessionHost,
    _session: str,
    _caller: Caller,
    arguments: operator_schemas.JobRunArguments,
) -> Reply:
    return await host.calendar.answer(
        arguments.job,
        session=arguments.session,
        force=arguments.force,
        interval_seconds=arguments.interval_seconds,
    )


async def job_list(
    host: SessionHost,
    _session: str,
    _caller: Caller,
    _arguments: operator_schemas.JobListArguments,
) -> Reply:
    return host.calendar.list_jobs()


async def token_create(
    host: SessionHost,
    _session: str,
    caller: Caller,
    arguments: operator_schemas.TokenCreateArguments,
) -> Reply:
    return await host.tokens.create(arguments.to_request(), caller)


async def token_list(
    host: SessionHost,
    _session: str,
    _caller: Caller,
    _arguments: operator_schemas.TokenListArguments,
) -> Reply:
    return await host.tokens.list_all()


async def token_revoke(
    host: SessionHost,
    _session: str,
    caller: Caller,
    arguments: operator_schemas.TokenRevokeArguments,
) -> Reply:
    return await host.tokens.revoke(arguments.id, caller)
