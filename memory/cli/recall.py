"""`lambo recall`: ask the memory."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from memory.cli.verb import (
    Invocation,
    UsageError,
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
    from memory.client_calls import LayerFields

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
    parser.add_argument(
        "--layer",
        metavar="SESSION[:WEIGHT[:MIN_SIMILARITY]]",
        action="append",
        default=[],
        help="look at this session too (again for more, nearest first); WEIGHT is what its places "
        "count (this session: 1, default: 0.5), MIN_SIMILARITY the least likeness of a hit (0-1)",
    )
    add_filter_options(parser)
    add_vector_options(parser, "the question")


def run(arguments: Namespace, invocation: Invocation) -> Answer:
    query = subject(arguments, "query")
    vector = read_vector(arguments)
    layers = [read_layer(given) for given in arguments.layer]
    asked: dict[str, Any] = {
        "top_k": arguments.top_k,
        "max_tokens": arguments.max_tokens,
        "traversal_depth": arguments.traversal_depth,
        "vector": vector,
        "vector_model": arguments.vector_model,
        "wanted": read_filter(arguments),
        "layers": layers,
    }
    from memory.client_calls import recall_arguments

    stored = invocation.stored(recall_arguments(query, **asked))
    if stored is not None:
        return stored
    with invocation.client() as client:
        return client.recall(invocation.session, query, **asked)


def read_layer(given: str) -> LayerFields:
    """A layer as it was given: up to two numbers behind a name, which may hold colons itself."""
    name, *numbers = given.rsplit(":", 2)
    read = [_number(text) for text in numbers]
    if len(read) == 2 and read[0] is None:  # the first of them belongs to the name
        name, read = f"{name}:{numbers[0]}", read[1:]
    if read and read[-1] is None:
        raise UsageError(f"--layer {given}: what follows the last colon is no number")
    layer: LayerFields = {"session": name}
    if read and read[0] is not None:
        layer["weight"] = read[0]
    if len(read) == 2 and read[1] is not None:
        layer["min_similarity"] = read[1]
    return layer


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def render(answer: Answer) -> str:
    """The context block, preceded by every warning that the token budget cut off with its hit."""
    context, structured = answer["text"], answer["structured"]
    shown = {*context.splitlines(), *_lines_of_hits(structured, included=True)}
    cut_off = _lines_of_hits(structured, included=False)
    lost = [line for line in (*cut_off, *structured.get("warnings", ())) if line not in shown]
    header = [line if FLAG in line else f"{FLAG} {line}" for line in dict.fromkeys(lost)]
    return "\n".join(header + [""] * bool(header and context) + [context] * bool(context))


def _lines_of_hits(structured: dict[str, Any], *, included: bool) -> list[str]:
    """The warnings of the hits in the context, or of those left out, as `warnings` has them."""
    return [
        f"[{hit['session']}] {annotation['text']}" if "session" in hit else annotation["text"]
        for hit in structured.get("hits", ())
        if hit.get("included_in_context", True) is included
        for annotation in hit.get("annotations", ())
    ]


NOTE: Final = (
    "Asks the running server of the data folder; if there is none, reads the store and says so."
)

VERB: Final = Verb(
    name="recall",
    summary="Ask the memory; the answer is a block of text, best memories first.",
    example='lambo recall "what depends on the user schema"',
    add_arguments=add_arguments,
    run=run,
    render=render,
    note=NOTE,
)
