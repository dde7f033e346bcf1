"""`lambo recall`: ask the memory."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from memory.cli.verb import (
    Invocation,
    Verb,
    add_filter_options,
    add_subject,
    add_vector_options,
    read_filter,
    read_vector,
    subject,
)

if TYPE_CHECKING:
    from memory.client import Answer

FLAG: Final = "⚑"


def add_arguments(parser: ArgumentParser) -> None:
    add_subject(parser, "query", "the question, in plain words")
    parser.add_argument("--top-k", metavar="N", type=int, help="how many memories (1-100)")
    parser.add_argument(
        "--max-tokens", metavar="N", type=int, help="how long the answer may be (1-100000)"
    )
    parser.add_argument(
        "--traversal-depth", metavar="N", type=int, help="how many links to follow (0-5)"
    )
    add_filter_options(parser)
    add_vector_options(parser, "the question")


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    query = subject(arguments, "query")
    vector = read_vector(arguments)
    with invocation.client() as client:
        return client.recall(
            invocation.session,
            query,
            top_k=arguments.top_k,
            max_tokens=arguments.max_tokens,
            traversal_depth=arguments.traversal_depth,
            vector=vector,
            vector_model=arguments.vector_model,
            wanted=read_filter(arguments),
        )


def render(answer: Answer) -> str:
    """The context block, preceded by every warning that the token budget cut off with its hit."""
    context = answer["text"]
    shown = set(context.splitlines())
    lost = [line for line in _warning_lines(answer["structured"]) if line not in shown]
    header = [line if FLAG in line else f"{FLAG} {line}" for line in dict.fromkeys(lost)]
    return "\n".join(header + [""] * bool(header and context) + [context] * bool(context))


def _warning_lines(structured: dict[str, Any]) -> list[str]:
    """Annotations of hits left out of the context first, then the other warnings."""
    left_out = [
        annotation["text"]
        for hit in structured.get("hits", ())
        if not hit.get("included_in_context", True)
        for annotation in hit.get("annotations", ())
    ]
    return [*left_out, *structured.get("warnings", ())]


VERB: Final = Verb(
    name="recall",
    summary="Ask the memory; the answer is a block of text, best memories first.",
    example='lambo recall "what depends on the user schema"',
    add_arguments=add_arguments,
    run=run,
    render=render,
)
