"""`lambo derive`: remember statements."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from memory.cli.verb import (
    Invocation,
    UsageError,
    Verb,
    add_key_option,
    add_no_wait_option,
    add_vector_options,
    read_vector,
    show_text,
)

if TYPE_CHECKING:
    from memory.client import Answer, ConceptFields

KINDS: Final = ("entity", "logic", "constraint", "resource", "observation")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--content", metavar="TEXT", help="the statement, with --kind")
    parser.add_argument("--kind", choices=KINDS, help="what --content is")
    parser.add_argument(
        "--concept",
        metavar="CONTENT:KIND",
        action="append",
        default=[],
        help="a statement and its kind, split at the last colon; may be repeated",
    )
    parser.add_argument(
        "--parent-of",
        metavar="CHILD:PARENT",
        action="append",
        default=[],
        help="put CHILD under PARENT, split at the first colon; may be repeated",
    )
    parser.add_argument(
        "--depends-on",
        metavar="TEXT",
        action="append",
        default=[],
        help="an existing concept that the one statement rests on; may be repeated",
    )
    parser.add_argument(
        "--against",
        metavar="TEXT",
        action="append",
        default=[],
        help="an existing concept that the one statement contradicts; may be repeated",
    )
    parser.add_argument(
        "--event-time", metavar="TIME", help="the time it is about (RFC 3339 with a zone)"
    )
    add_vector_options(parser, "the one statement")
    add_no_wait_option(parser)
    add_key_option(parser)


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    concepts = read_concepts(arguments)
    parent_of = [split_pair(text) for text in arguments.parent_of]
    with invocation.client() as client:
        return client.derive(
            invocation.session,
            concepts,
            parent_of=parent_of,
            event_time=arguments.event_time,
            vector_model=arguments.vector_model,
            wait=not arguments.no_wait,
            idempotency_key=arguments.key,
        )


def read_concepts(arguments: Namespace) -> list[ConceptFields]:
    """The statements of a command line, with their citations."""
    if (arguments.content is None) != (arguments.kind is None):
        raise UsageError("--content and --kind go together")
    concepts = [split_concept(text) for text in arguments.concept]
    if arguments.content is not None:
        concepts.insert(0, {"content": arguments.content, "concept_type": arguments.kind})
    if not concepts:
        raise UsageError("nothing to derive: give --content and --kind, or --concept CONTENT:KIND")
    vector = read_vector(arguments)
    if arguments.depends_on or arguments.against or vector is not None:
        if len(concepts) > 1:
            raise UsageError(
                "--depends-on, --against and --vector-file need a single statement, "
                f"not {len(concepts)}"
            )
        if vector is not None:
            concepts[0]["vector"] = vector
        if arguments.depends_on:
            concepts[0]["depends_on"] = arguments.depends_on
        if arguments.against:
            concepts[0]["against"] = arguments.against
    return concepts


def split_concept(text: str) -> ConceptFields:
    """CONTENT:KIND at the last colon: contents hold colons, kinds do not."""
    content, colon, kind = text.rpartition(":")
    if not colon or kind not in KINDS:
        raise UsageError(
            f"--concept {text!r:.80} must end in a colon and one of {', '.join(KINDS)}"
        )
    return {"content": content, "concept_type": kind}


def split_pair(text: str) -> tuple[str, str]:
    """CHILD:PARENT at the first colon, as (parent, child)."""
    child, colon, parent = text.partition(":")
    if not colon or not child.strip() or not parent.strip():
        raise UsageError(f"--parent-of {text!r:.80} must look like CHILD:PARENT")
    return parent, child


VERB: Final = Verb(
    name="derive",
    summary="Remember statements; one that is known already gains evidence.",
    example='lambo derive --content "tokens expire after one hour" --kind constraint',
    add_arguments=add_arguments,
    run=run,
    render=show_text,
)
