"""`lambo guard`: may this be done? Allow, warn or block, before an agent acts.

Owns what is said when nobody can be asked: without a server an action is allowed and a note says
so, or blocked where the caller wants it strict. Starts no server and loads neither Django nor
httpx, for it runs before every act of an agent. What speaks against an act is the server's to say.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from memory.cli.guard_hook import HOOKS, Event
from memory.cli.quick_call import call_once, find_running
from memory.cli.verb import Invocation, UsageError, Verb, add_subject, show_text, subject
from memory.client_calls import verb_call
from memory.engine.errors import InvalidArgument, LamboError

if TYPE_CHECKING:
    from memory.client_calls import Answer

BLOCKED: Final = 3
"""The exit code of an action that is blocked."""


def add_arguments(parser: ArgumentParser) -> None:
    add_subject(parser, "action", "what is about to be done, or its command line")
    parser.add_argument(
        "--strict", action="store_true", help="block, not allow, when nobody can be asked"
    )
    parser.add_argument(
        "--hook",
        metavar="CLIENT",
        choices=sorted(HOOKS),
        help="be a client's hook: its event on standard input, its decision on standard output",
    )


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    if arguments.hook is None:
        return judge(arguments, invocation, subject(arguments, "action"), invocation.agent)
    if arguments.action is not None or arguments.action_given is not None:
        raise UsageError("a hook reads the action from standard input; give none")
    if getattr(arguments, "json", False):
        raise UsageError("a hook prints what its client reads; --json means nothing to it")
    return _answer_hook(arguments, invocation)


def judge(
    arguments: Namespace, invocation: Invocation, action: str, agent_id: str | None
) -> Answer:
    """The server's answer, or one that says why there is none.

    Raises `InvalidArgument` for an action that no server would take.
    """
    call = verb_call(invocation.session, "guard", {"action": action}, agent_id=agent_id, key=None)
    try:
        return call_once(find_running(arguments), call, arguments)
    except InvalidArgument:
        raise
    except LamboError as error:
        return unasked(error.message, strict=arguments.strict)


def unasked(why: str, *, strict: bool) -> Answer:
    """The decision when nobody could be asked."""
    decision = "block" if strict else "allow"
    reason = f"nothing was checked: {why}"
    structured = {
        "decision": decision,
        "reason": reason,
        "findings": [],
        "named": 0,
        "warnings": [reason],
    }
    return _answer(f"{decision}: {reason}", structured)


def _answer_hook(arguments: Namespace, invocation: Invocation) -> Answer:
    """The decision in the client's own form. Whatever goes wrong, an answer comes: a client may
    take a failure for a refusal of everything."""
    hook = HOOKS[arguments.hook]
    try:
        event: Event | None = hook.read_event()
        if event is None:
            return _answer(hook.write_decision("allow", ""), {"warnings": []})
        # Without a name and without a token that has one, the agent of the client's own tools.
        is_named = hasattr(arguments, "agent") or invocation.agent is None
        agent = invocation.agent if is_named else event.default_agent
        judged = judge(arguments, invocation, event.action, agent)
    except LamboError as error:
        judged = unasked(error.message, strict=arguments.strict)
    structured = judged["structured"]
    shown = hook.write_decision(structured["decision"], judged["text"])
    return _answer(shown, structured)


def _answer(text: str, structured: dict[str, Any]) -> Answer:
    return {
        "text": text,
        "structured": structured,
        "warnings": structured["warnings"],
        "idempotency_key": None,
        "replayed": False,
    }


def exit_code(arguments: Namespace, answer: Answer) -> int:
    """0, or `BLOCKED`; a hook has said it in its own form and ends well."""
    is_blocked = arguments.hook is None and answer["structured"]["decision"] == "block"
    return BLOCKED if is_blocked else 0


VERB: Final = Verb(
    name="guard",
    summary="Ask whether an action may be done: allow, warn or block, with the reason.",
    example='lambo guard --action "delete the shared security group"',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
    note="Asks the running server of the data folder; starts none.",
    exit_code=exit_code,
)
