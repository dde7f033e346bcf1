"""What the words of an action say it does: read something, change it, or take it away.

Owns the cutting of an action into clauses and the words that give each its intent. Knows no graph.
It reads words and no meaning: what it cannot tell is taken for a change, and a word that takes
something away counts unless a negation stands before it.

Invariant: every clause is a part of the action, in reading order, and has exactly one intent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from memory.engine.text import index_tokens, word_stems


class Intent(IntEnum):
    """How far an action goes; a higher one goes further."""

    READ = 0
    CHANGE = 1
    REMOVE = 2


@dataclass(frozen=True, slots=True)
class Clause:
    """One part of an action: its text as written, and its words (see `word_stems`)."""

    text: str
    words: tuple[str, ...]


_READING: Final = """
    read show list view see find describe inspect look check search compare print explain review
    count open recall query grep cat ls status log diff head tail summarise summarize understand
    analyse analyze investigate verify
"""
_CHANGING: Final = """
    edit write modify update rename move mv refactor replace migrate change alter patch deploy
    create add set overwrite rewrite reset restart apply push commit install upgrade rotate scale
    attach reconfigure chmod chown sed tee cp copy merge rebase revert rebuild fix make extend
    convert implement save stop
"""
_REMOVING: Final = """
    delete del remove drop destroy terminate purge truncate wipe erase rm rmdir unlink uninstall
    revoke retire decommission teardown tear detach deregister disable kill shred prune evict
    discard nuke eliminate dismantle deprovision
"""
# A command line that begins with one of these only reads, whatever word it looks for.
_READING_PROGRAMS: Final = frozenset(
    {
        *("cat", "echo", "grep", "egrep", "fgrep", "rg", "ag", "less", "more"),
        *("head", "tail", "ls", "wc", "stat", "file", "tree"),
    }
)
_READING_OF_GIT: Final = frozenset(["blame", "commit", "diff", "grep", "log", "show", "status"])
"""A commit stores what was done already; its message tells of it."""
_NEGATIONS: Final = frozenset({"not", "never", "without", "cannot", "avoid"})

# Marks by which a command line does more than its first word: pipes, redirections, substitutions.
_DOES_MORE: Final = re.compile(r"[|>`]|\$\(|<\(")
_CLAUSE_END: Final = re.compile(r"\n+|;|&&|\|\||(?<=\w[.!?])\s+")
_CONTRACTED_NOT: Final = re.compile(r"n['\u2019]t\b", re.IGNORECASE)


def _stems(words: str) -> frozenset[str]:
    return frozenset(stem for word in words.split() for stem in index_tokens(word))


_READING_STEMS: Final = _stems(_READING)
_CHANGING_STEMS: Final = _stems(_CHANGING)
_REMOVING_STEMS: Final = _stems(_REMOVING)
_ACTING_STEMS: Final = _READING_STEMS | _CHANGING_STEMS | _REMOVING_STEMS


def split_clauses(action: str) -> Iterator[Clause]:
    """The parts of an action: lines, sentences, and commands of a command line.

    A pipe joins two commands into one part, for what the first names the second may remove.
    """
    for text in _CLAUSE_END.split(_CONTRACTED_NOT.sub(" not", action)):
        words = word_stems(text)
        if words:
            yield Clause(text, words)


def begins_as_act(words: tuple[str, ...]) -> bool:
    """Whether words read as something done ("drop the users table"), not as a thing."""
    return bool(words) and words[0] in _ACTING_STEMS


def intent_of(clause: Clause, *, named: frozenset[int] = frozenset()) -> Intent:
    """What a clause does.

    `named` are the places of words that stand inside the name of a concept and so are no act; the
    first word of a clause always counts.
    """
    program, *rest = clause.text.split(maxsplit=2)
    is_reader = program in _READING_PROGRAMS or (
        program == "git" and bool(rest) and rest[0] in _READING_OF_GIT
    )
    if is_reader and not _DOES_MORE.search(clause.text):
        return Intent.READ
    acts = [place for place in range(len(clause.words)) if place == 0 or place not in named]
    if any(
        clause.words[place] in _REMOVING_STEMS and not _is_negated(clause.words, place)
        for place in acts
    ):
        return Intent.REMOVE
    spoken = {clause.words[place] for place in acts}
    is_reading = bool(spoken & _READING_STEMS) and not spoken & _CHANGING_STEMS
    return Intent.READ if is_reading and not is_reader else Intent.CHANGE


def _is_negated(words: tuple[str, ...], place: int) -> bool:
    return place > 0 and words[place - 1] in _NEGATIONS
