"""`lambo token create|list|revoke`: who may call a server that asks for tokens.

Acts of people: the operator secret opens them, or a token with the scope `admin`. Owns the reading
of a life such as `30d`; everything else is the server's. A secret is printed once, by `create`.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, UsageError, Verb, show_text

if TYPE_CHECKING:
    from memory.client import Answer

SCOPES: Final = ("read", "write", "backdate", "admin")

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DIGITS_MAX: Final = 12


def add_create_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--name", metavar="NAME", required=True, help="what people call it")
    parser.add_argument(
        "--agent", metavar="NAME", dest="speaker", required=True, help="the agent it speaks for"
    )
    parser.add_argument(
        "--session",
        metavar="PATTERN",
        dest="patterns",
        action="append",
        required=True,
        help="the sessions it opens; * stands for any text; may be repeated",
    )
    parser.add_argument(
        "--scope",
        metavar="SCOPE",
        dest="scopes",
        action="append",
        choices=SCOPES,
        required=True,
        help=f"what it opens: {', '.join(SCOPES)}; may be repeated",
    )
    parser.add_argument(
        "--expires", metavar="LIFE", help="how long it lives: 12h, 30d, 8w (default: for ever)"
    )
    parser.add_argument(
        "--act-for-others", action="store_true", help="let it speak for other agents too"
    )


def create(arguments: Namespace, invocation: Invocation) -> Answer:
    expires = None if arguments.expires is None else read_life(arguments.expires)
    with invocation.operator_client() as client:
        return client.create_token(
            arguments.name,
            agent=arguments.speaker,
            scopes=arguments.scopes,
            sessions=arguments.patterns,
            may_act_for_others=arguments.act_for_others,
            expires_seconds=expires,
        )


def read_life(text: str) -> int:
    """A number of seconds, minutes, hours, days or weeks, in seconds."""
    form = re.fullmatch(rf"([0-9]{{1,{_DIGITS_MAX}}})([smhdw])", text)
    if form is None:
        raise UsageError(f"--expires must look like 12h, 30d or 8w, not {text!r:.60}")
    return int(form[1]) * _SECONDS[form[2]]


def add_nothing(_parser: ArgumentParser) -> None:
    return None


def show_list(_arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.operator_client() as client:
        return client.list_tokens()


def add_id(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the id that token list shows")


def revoke(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.operator_client() as client:
        return client.revoke_token(arguments.id)


VERBS: Final = (
    Verb(
        name="token create",
        summary="Make a token for an agent; its secret is shown once.",
        example="lambo token create --name ci --agent ci --scope read --session 'shop-*'",
        add_arguments=add_create_arguments,
        run=create,
        render=show_text,
        own=frozenset({"--agent", "--session"}),
    ),
    Verb(
        name="token list",
        summary="List the tokens of the server, without their secrets.",
        example="lambo token list",
        add_arguments=add_nothing,
        run=show_list,
        render=show_text,
    ),
    Verb(
        name="token revoke",
        summary="Make a token open nothing any more, at once.",
        example="lambo token revoke 0123456789abcdef",
        add_arguments=add_id,
        run=revoke,
        render=show_text,
    ),
)
