"""`lambo session create|list|close|delete`: the sessions of a server."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, UsageError, Verb, ask_person, show_text

if TYPE_CHECKING:
    from memory.client import Answer


def add_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the session")


def create(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.client() as client:
        return client.create_session(arguments.name)


def add_list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--after", metavar="NAME", help="only sessions whose name comes after")
    parser.add_argument("--limit", metavar="N", type=int, help="how many at most")


def show_list(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.client() as client:
        return client.list_sessions(after=arguments.after, limit=arguments.limit)


def close(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.client() as client:
        return client.close_session(arguments.name)


def add_delete_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument(
        "--confirm", metavar="NAME", help="the name once more (default: asked for at the terminal)"
    )


def delete(arguments: Namespace, invocation: Invocation) -> Answer:
    name: str = arguments.name
    repeated = arguments.confirm
    if repeated is None:
        repeated = ask_person(
            f"This deletes session '{name}' and all it holds. Type its name to go on: "
        )
    if repeated is None:
        raise UsageError("nobody to ask: repeat the name with --confirm")
    if repeated != name:
        raise UsageError(f"the names differ ('{name}' and '{repeated}'); nothing was deleted")
    with invocation.operator_client() as client:
        return client.delete_session(name, confirm=repeated)


VERBS: Final = (
    Verb(
        name="session create",
        summary="Make a session without writing to it; a first write makes one too.",
        example="lambo session create shop",
        add_arguments=add_name,
        run=create,
        render=show_text,
    ),
    Verb(
        name="session list",
        summary="List the sessions of the server by name.",
        example="lambo session list --limit 20",
        add_arguments=add_list_arguments,
        run=show_list,
        render=show_text,
    ),
    Verb(
        name="session close",
        summary="Put a session away; its next use opens it again.",
        example="lambo session close shop",
        add_arguments=add_name,
        run=close,
        render=show_text,
    ),
    Verb(
        name="session delete",
        summary="Delete a session and all it holds; its name is asked for twice.",
        example="lambo session delete shop --confirm shop",
        add_arguments=add_delete_arguments,
        run=delete,
        render=show_text,
    ),
)
