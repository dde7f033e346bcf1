"""`lambo import mcp-memory|git`: move in with what another memory server, or a repository, knows.

Owns the arguments and what is told. Imports date evidence by the time they tell, which an operator
may, or a token with the scope `backdate`; whoever is neither is refused before anything is read.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory.cli.progress import ProgressLine
from memory.cli.verb import Invocation, UsageError, Verb, show_text
from memory.engine.times import format_rfc3339, parse_rfc3339

if TYPE_CHECKING:
    from memory.client import Answer
    from memory.imports.importing import Importer


def add_memory_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="its JSON lines, memory.jsonl or another")
    parser.add_argument(
        "--event-time",
        metavar="TIME",
        help="when its facts were known (RFC 3339 with a zone; default: when it was last changed)",
    )


def import_memory(arguments: Namespace, invocation: Invocation) -> Answer:
    from memory.imports.importing import Importer
    from memory.imports.mcp_memory import import_memory_file, read_memory_file

    path = Path(arguments.file)
    file = read_memory_file(path)
    if arguments.event_time is None:
        event_time = format_rfc3339(path.stat().st_mtime_ns // 1_000)
    else:
        event_time = format_rfc3339(parse_rfc3339("event_time", arguments.event_time))
    line = ProgressLine("lambo import mcp-memory")
    with invocation.importing_client() as client:
        importer = Importer(client, invocation.session, "mcp-memory", line.show)
        try:
            known = import_memory_file(file, importer, event_time=event_time)
        finally:
            line.end()
    return _answer(
        importer,
        f"imported {len(file.entities)} entities, {file.observation_count} observations and "
        f"{len(file.relations)} relations into session '{invocation.session}'",
        entities=len(file.entities),
        observations=file.observation_count,
        relations=len(file.relations),
        known=known,
    )


def add_git_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the repository, or a folder in it")
    parser.add_argument(
        "--from-start",
        action="store_true",
        help="read the whole history, not only what came after the last imported commit",
    )


def import_git(arguments: Namespace, invocation: Invocation) -> Answer:
    from memory.imports.git_history import GitRepository
    from memory.imports.git_import import GitImport
    from memory.imports.importing import Importer

    path = Path(arguments.path)
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}")
    repository = GitRepository(path.resolve(), dict(os.environ))
    line = ProgressLine("lambo import git")
    with invocation.importing_client() as client:
        importer = Importer(client, invocation.session, "git", line.show)
        ran = GitImport(repository, importer)
        try:
            head = ran.run(from_start=arguments.from_start)
        finally:
            line.end()
    counts = ran.counts
    if counts.unparsed:
        importer.warnings["Python files cannot be parsed; their imports are unknown"] = (
            counts.unparsed
        )
    what = f"{counts.commits} commits by {len(counts.authors)} authors over {len(counts.paths)}"
    summary = f"imported {what} paths into session '{invocation.session}', up to {head}"
    if head is None:
        summary = f"{path} has no commit yet; nothing was imported"
    return _answer(
        importer,
        summary,
        last_commit=head,
        commits=counts.commits,
        known_commits=counts.known_commits,
        paths=len(counts.paths),
        authors=len(counts.authors),
        citations=counts.citations,
    )


def _answer(importer: Importer, summary: str, **numbers: int | str | None) -> Answer:
    warnings = importer.warning_lines()
    structured: dict[str, Any] = {
        "summary": summary,
        "session": importer.session,
        **numbers,
        "writes": importer.written_count,
        "replayed": importer.replayed_count,
        "warnings": warnings,
    }
    return {
        "text": summary,
        "structured": structured,
        "warnings": warnings,
        "idempotency_key": None,
        "replayed": False,
    }


VERBS: Final = (
    Verb(
        name="import mcp-memory",
        summary="Take over the file of the public MCP reference memory server.",
        example="lambo import mcp-memory memory.jsonl --session team",
        add_arguments=add_memory_arguments,
        run=import_memory,
        render=show_text,
    ),
    Verb(
        name="import git",
        summary="Take over a repository's history: commits, paths, authors, Python imports.",
        example="lambo import git . --session shop",
        add_arguments=add_git_arguments,
        run=import_git,
        render=show_text,
    ),
)
