"""Reading the texts of a request ahead of time, in a thread where nobody waits for it.

Stemming is pure Python: a legal request may take seconds of it, and the step that plans and applies
a write must not. What is read here stays in the bounded caches of `memory.engine.text`, so the step
finds it done; where it was evicted meanwhile the step does it again, with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory.engine.requests import (
    ActionRequest,
    DemoteRequest,
    DeriveRequest,
    GuardRequest,
    InspectRequest,
    RecallRequest,
    ReleaseRequest,
    ReserveRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.text import canonical_key, index_tokens, parts_of, split_sentences, word_stems

WARM_CHARS: Final = 2_048
"""Texts of a request shorter than this together are read in a few milliseconds, on the spot."""


def texts_of(request: object) -> list[str]:
    """Every text of a request that names, or may become, a concept; a chunk stands as one."""
    match request:
        case DeriveRequest():
            cited = [
                text for given in request.concepts for text in given.depends_on + given.against
            ]
            ends = [text for pair in request.parent_of for text in pair]
            return [*(given.content for given in request.concepts), *cited, *ends]
        case ActionRequest():
            touched = request.produces + request.modifies
            return [request.action, *touched, *request.depends_on, *request.against]
        case DemoteRequest():
            return [request.chunk]
        case RootGoalRequest():
            return list(request.goals)
        case SynonymRequest():
            return [request.source, request.target]
        case RetractRequest() | ReserveRequest() | ReleaseRequest():
            return [request.concept] if request.concept is not None else []
        case RecallRequest():
            return [request.query]
        case InspectRequest():
            return [request.focus]
        case GuardRequest():
            return [request.action]
    return []


def needs_warming(request: object) -> bool:
    """Whether reading the texts of a request would hold up the event loop."""
    return sum(map(len, texts_of(request))) > WARM_CHARS


def warm(request: object, synonyms: Mapping[str, str]) -> None:
    """Read the texts of a request as the session will, under its synonyms; in any thread."""
    match request:
        case DemoteRequest():
            texts = split_sentences(request.chunk)
        case RecallRequest() | InspectRequest():
            # Looked for by its stems in reading order, which are remembered one by one.
            texts = texts_of(request)
            for text in texts:
                index_tokens(text)
        case GuardRequest():
            word_stems(request.action)
            return
        case _:
            texts = texts_of(request)
    warm_texts(texts, synonyms)


def warm_texts(texts: list[str], synonyms: Mapping[str, str]) -> None:
    for text in texts:
        for token in canonical_key(text, synonyms).split():
            parts_of(token)
