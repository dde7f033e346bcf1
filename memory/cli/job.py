"""`lambo job run|list`: what the server does by itself, done now, and how it went.

Acts of people: the operator secret opens them, or a token with the scope `admin`. A run that failed
in a session is a failure of the command.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import Invocation, Verb, show_text
from memory.client_calls import JobFailed

if TYPE_CHECKING:
    from memory.client import Answer


def add_run_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the job, as job list names it")
    parser.add_argument(
        "--session",
        metavar="NAME",
        dest="only",
        help="run it in this session alone (default: wherever it is due)",
    )
    parser.add_argument("--force", action="store_true", help="run it though it is not due")


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.operator_client() as client:
        answer = client.run_job(arguments.name, session=arguments.only, force=arguments.force)
    if answer["structured"]["failed"]:
        raise JobFailed(answer["text"], failures=answer["structured"]["failures"])
    return answer


def add_nothing(_parser: ArgumentParser) -> None:
    return None


def show_list(_arguments: Namespace, invocation: Invocation) -> Answer:
    with invocation.operator_client() as client:
        return client.list_jobs()


VERBS: Final = (
    Verb(
        name="job run",
        summary="Run a job now, in every session where it is due.",
        example="lambo job run retention",
        add_arguments=add_run_arguments,
        run=run,
        render=show_text,
        own=frozenset({"--session"}),
    ),
    Verb(
        name="job list",
        summary="List the jobs of the server, and how each last ended.",
        example="lambo job list",
        add_arguments=add_nothing,
        run=show_list,
        render=show_text,
    ),
)
