"""When two texts must not be joined, however near their vectors are.

No embedder tells "Python 3.11" from "Python 3.12" or "enabled" from "not enabled": such pairs are
nearer than most paraphrases. So a merge asks the words as well. Owns that question alone: it knows
no vectors, no thresholds and no graph, and a pair that passes is not thereby alike.

Refused are pairs in which each side holds an identifier, a version, a number or a name that the
other lacks; in which exactly one side is negated; which an opposite splits ("daily", "weekly");
whose parts changed roles ("A over B", "B over A"); or that say the same sentence about another
thing ("kept in memory", "kept on disk"). What only one side holds is detail, not
contradiction. Invariant: pure, symmetric up to the order of the answer, linear in the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from memory.engine import contrasts, synonyms
from memory.engine.lexical_reading import UNPLACED, Kind, Multiset, Reading, read, singular


class VetoReason(StrEnum):
    """What the two texts disagree in."""

    IDENTIFIERS = "identifiers"
    VERSIONS = "versions"
    NUMBERS = "numbers"
    NAMES = "names"
    NEGATION = "negation"
    OPPOSITES = "opposites"
    ROLES = "roles"
    SUBSTITUTION = "substitution"


@dataclass(frozen=True, slots=True)
class Veto:
    """Why two texts must stay apart, with the words of each side that show it."""

    reason: VetoReason
    left: tuple[str, ...]
    right: tuple[str, ...]


def find_veto(
    left: str, right: str, *, ours: Reading | None = None, theirs: Reading | None = None
) -> Veto | None:
    """The first reason against joining the two texts, or None. About 30 microseconds a pair.

    `ours` and `theirs` are what `read` makes of them, where that is known.
    """
    if left == right:
        return None
    ours = read(left) if ours is None else ours
    theirs = read(right) if theirs is None else theirs
    if not ours.chunks or not theirs.chunks:
        # Pictures and signs: no words to ask, and many models take them for one another.
        return Veto(VetoReason.SUBSTITUTION, (left.strip(),), (right.strip(),))
    return (
        _find_different(VetoReason.IDENTIFIERS, ours.identifiers, theirs.identifiers)
        or _find_different_compound(ours, theirs)
        or _find_different(VetoReason.VERSIONS, ours.versions, theirs.versions)
        or _find_different(VetoReason.NUMBERS, ours.numbers, theirs.numbers)
        or _find_different_name(ours, theirs)
        or _find_reversal(ours, theirs)
        or _find_changed_roles(ours, theirs)
        or _find_substitution(ours, theirs)
    )


# -- the identifiers guard -------------------------------------------------------------------------

_DIGITS: Final = re.compile(r"\d+")
_OUTER: Final = "\"'`()[]{}<>,;:!?.\u2026\u2018\u2019\u201c\u201d\u00ab\u00bb"


def same_identifiers(left: str, right: str) -> bool:
    """Whether the runs of digits agree, and so do the tokens with a digit, a slash or a dot.

    Both as multisets, tokens without regard to case. Stricter than the veto: here a number that
    only one side holds is a difference.
    """
    return _guarded(left) == _guarded(right)


def _guarded(text: str) -> tuple[list[str], list[str]]:
    words = (word.strip(_OUTER) for word in text.split())
    tokens = [
        word.casefold()
        for word in words
        if "/" in word or "." in word or any(map(str.isdigit, word))
    ]
    return sorted(_DIGITS.findall(text)), sorted(tokens)


# -- what one side holds and the other lacks -------------------------------------------------------


def _find_different(reason: VetoReason, ours: Multiset, theirs: Multiset) -> Veto | None:
    """A veto when each side holds a member more often than the other."""
    if not ours or not theirs or ours == theirs:
        return None
    left, right = _surplus(ours, theirs), _surplus(theirs, ours)
    return Veto(reason, left, right) if left and right else None


def _surplus(held: Multiset, other: Multiset) -> tuple[str, ...]:
    return tuple(shown[-1] for what, shown in held.items() if len(shown) > len(other.get(what, ())))


def _find_different_compound(ours: Reading, theirs: Reading) -> Veto | None:
    """`user-service` against `order-service`: hyphenated words that share one part of two."""
    lefts = [chunk for chunk in ours.compounds if chunk.key not in theirs.keys]
    rights = [chunk for chunk in theirs.compounds if chunk.key not in ours.keys]
    by_part = {part: chunk for chunk in rights for part in chunk.parts}
    for left in lefts:
        for part in left.parts:
            if part in by_part:
                return Veto(VetoReason.IDENTIFIERS, (left.shown,), (by_part[part].shown,))
    return None


def _find_different_name(ours: Reading, theirs: Reading) -> Veto | None:
    left, right = _unshared_names(ours, theirs), _unshared_names(theirs, ours)
    if left and right:
        return Veto(VetoReason.NAMES, left, right)
    return _find_different_component(ours, theirs) or _find_different_subject(ours, theirs)


_COMPARED_MAX: Final = 16
"""Names of a text that are compared one by one; a text of more is a list, and lists differ."""


def _unshared_names(held: Reading, other: Reading) -> tuple[str, ...]:
    unknown = {
        name: shown
        for name, shown in held.names.items()
        if name not in other.names and name not in other.keys
    }
    if not unknown or max(len(unknown), len(other.names)) > _COMPARED_MAX:
        return tuple(unknown.values())
    initials = "".join([chunk.key[0] for chunk in other.chunks])
    return tuple(
        shown
        for name, shown in unknown.items()
        if not (2 <= len(name) <= 5 and name in initials)  # `UI`, `JWT` and what they stand for
        and not any(_is_short_for(name, known) for known in other.names)
    )


_ABBREVIATED_MIN: Final = 5  # `Java` is no short form of `JavaScript`


def _is_short_for(one: str, other: str) -> bool:
    """`Postgres` and `PostgreSQL`."""
    short, long = sorted((one, other), key=len)
    return len(short) >= _ABBREVIATED_MIN and long.startswith(short)


def _find_different_component(ours: Reading, theirs: Reading) -> Veto | None:
    """`the billing service` against `the mail service`."""
    for component in contrasts.COMPONENTS & ours.keys & theirs.keys:
        left, right = _named(ours, component), _named(theirs, component)
        if not left or not right:
            continue
        are_many = max(len(left), len(right)) > _COMPARED_MAX
        if are_many or not any(a in b or b in a or _agree(a, b) for a in left for b in right):
            return Veto(VetoReason.NAMES, _sorted(left), _sorted(right))
    return None


def _named(reading: Reading, component: str) -> set[str]:
    """The words that stand before a component and name it."""
    chunks = reading.chunks
    return {
        before.key
        for before, chunk in pairwise(chunks)
        if chunk.key == component
        and before.kind is Kind.WORD
        and before.is_weighted
        and before.key not in contrasts.NO_COMPONENT_NAMES
        and before.key not in contrasts.PREPOSITIONS
    }


_SUBJECT_VERBS: Final = frozenset(["is", "has", "was", "does", "will", "can", "must", "may"])


def _find_different_subject(ours: Reading, theirs: Reading) -> Veto | None:
    """Two sentences that differ in their first word alone, and that word is a bare singular.

    English gives an ordinary noun an article; what acts without one is named ("Okafor reviews").
    At the start of a sentence the capital does not show it.
    """
    left, right = ours.chunks, theirs.chunks
    if len(left) != len(right) or len(left) < 3 or left[0].key == right[0].key:
        return None
    if not (left[0].is_capital and right[0].is_capital):
        return None
    verb = left[1].key
    is_singular = verb in _SUBJECT_VERBS or (verb.endswith("s") and not verb.endswith("ss"))
    if not is_singular or any(a.key != b.key for a, b in zip(left[1:], right[1:], strict=True)):
        return None
    return Veto(VetoReason.NAMES, (left[0].shown,), (right[0].shown,))


# -- negation and opposites ------------------------------------------------------------------------

_SCOPE: Final = 4
"""Words behind a negation that it is taken to turn around."""


class _Opposites(NamedTuple):
    """Two words that exclude each other, one a side."""

    left: str
    right: str
    are_converse: bool = False


def _find_reversal(ours: Reading, theirs: Reading) -> Veto | None:
    """One side says the contrary of the other: by a negation, by an opposite, but not by both."""
    opposites = _find_opposites(ours, theirs)
    if bool(ours.negated) != bool(theirs.negated):
        held, other = (ours, theirs) if ours.negated else (theirs, ours)
        negated = _negated_words(held)
        if opposites is not None and {opposites.left, opposites.right} & negated:
            return None  # `not enabled` and `disabled`
        if not _is_negative_otherwise(held, other):
            shown = tuple(held.chunks[place].shown for place in held.negated if place != UNPLACED)
            sides = (shown, ()) if held is ours else ((), shown)
            return Veto(VetoReason.NEGATION, *sides)
    elif ours.negated and _negate_crosswise(ours, theirs):
        return Veto(
            VetoReason.NEGATION, _sorted(_negated_words(ours)), _sorted(_negated_words(theirs))
        )
    if opposites is None or (
        opposites.are_converse and _have_changed_places(opposites, ours, theirs)
    ):
        return None
    return Veto(VetoReason.OPPOSITES, (opposites.left,), (opposites.right,))


def _sorted(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(words))


def _negated_words(reading: Reading) -> set[str]:
    """The words within reach of a negation."""
    return {
        chunk.key
        for place in reading.negated
        if place != UNPLACED
        for chunk in reading.chunks[place + 1 : place + 1 + _SCOPE]
        if chunk.key not in contrasts.UNWEIGHTED
    }


def _is_negative_otherwise(held: Reading, other: Reading) -> bool:
    """Whether the side without a negation says `refuses`, `missing`, `offline` instead."""
    return any(
        key in contrasts.WEAK_NEGATIONS or _bare_word(key) is not None
        for key in other.keys - held.keys
    )


_PREFIXED_MIN: Final = 7


def _bare_word(key: str) -> str | None:
    """What is left of `unable`, `invalid`, `nonempty` without its prefix, if long enough."""
    if len(key) >= _PREFIXED_MIN:
        for prefix in contrasts.NEGATIVE_PREFIXES:
            if key.startswith(prefix):
                return key.removeprefix(prefix)
    return None


def _negate_crosswise(ours: Reading, theirs: Reading) -> bool:
    """Both sides negate, but not the same: `A is cached, B is not` against `A is not, B is`."""
    left, right = _negated_words(ours), _negated_words(theirs)
    if not left or not right or left & right:
        return False
    return left <= theirs.keys and right <= ours.keys


def _find_opposites(ours: Reading, theirs: Reading) -> _Opposites | None:
    if ours.opposites and theirs.opposites:
        left = dict(ours.opposites - theirs.opposites)
        for group, alternative in sorted(theirs.opposites - ours.opposites) if left else ():
            if group in left:
                return _Opposites(
                    _word_of(ours, (group, left[group])),
                    _word_of(theirs, (group, alternative)),
                    group in contrasts.CONVERSE_GROUPS,
                )
    return _find_prefixed(ours.keys - theirs.keys, theirs.keys - ours.keys)


def _find_prefixed(left: set[str], right: set[str]) -> _Opposites | None:
    """`encrypted` and `unencrypted`: opposites that stand in no table."""
    for key in left:
        for prefix in contrasts.OPPOSITE_PREFIXES:
            if prefix + key in right:
                return _Opposites(key, prefix + key)
            if key.startswith(prefix) and key.removeprefix(prefix) in right:
                return _Opposites(key, key.removeprefix(prefix))
    return None


def _word_of(reading: Reading, opposite: tuple[int, int]) -> str:
    return next((chunk.key for chunk in reading.chunks if opposite in chunk.opposites), "")


def _have_changed_places(opposites: _Opposites, ours: Reading, theirs: Reading) -> bool:
    """`A before B` and `B after A`: more words went to the other side of the cue than stayed."""
    before, after = _around(ours, opposites.left)
    others_before, others_after = _around(theirs, opposites.right)
    crossed = len(before & others_after) + len(after & others_before)
    stayed = len(before & others_before) + len(after & others_after)
    return crossed > stayed


def _around(reading: Reading, cue: str) -> tuple[set[str], set[str]]:
    keys = [chunk.key for chunk in reading.chunks]
    place = keys.index(cue)
    return _weighted(keys[:place]), _weighted(keys[place + 1 :])


def _weighted(keys: Sequence[str]) -> set[str]:
    return {singular(key) for key in keys if key not in contrasts.UNWEIGHTED}


# -- roles -----------------------------------------------------------------------------------------


def _find_changed_roles(ours: Reading, theirs: Reading) -> Veto | None:
    """`A x B` against `B x A`, with the same words around.

    Words that both sides hold exactly once are anchors. If their order differs by an exchange
    of two stretches around a middle that stays, the stretches changed roles. A sentence that only
    begins elsewhere ("at night the queue is drained") has no middle. Where the sides have other
    words as well, the middle must hold a word whose two sides are known not to be exchangeable.
    """
    left, right = ours.order, theirs.order
    shared = _once(left) & _once(right)
    if len(shared) < 2:
        return None
    a, b = [key for key in left if key in shared], [key for key in right if key in shared]
    if a == b:
        return None
    while a[0] == b[0]:
        del a[0], b[0]
    while a[-1] == b[-1]:
        del a[-1], b[-1]
    first, last = a[: a.index(b[-1]) + 1], a[a.index(b[0]) :]
    middle = a[len(first) : len(a) - len(last)]
    if not middle or b != last + middle + first:
        return None
    if first[0] in contrasts.PREPOSITIONS and last[0] in contrasts.PREPOSITIONS:
        return None  # `before noon we deploy on Fridays`: circumstances, not roles
    # Languages that mark roles by endings order their words freely.
    has_fixed_order = all(map(str.isascii, a)) and sorted(left) == sorted(right)
    if not has_fixed_order and contrasts.RELATIONS.isdisjoint(middle):
        return None
    return Veto(VetoReason.ROLES, (*first, *middle, *last), (*last, *middle, *first))


def _once(keys: Sequence[str]) -> set[str]:
    seen: set[str] = set()
    repeated = {key for key in keys if key in seen or seen.add(key)}  # type: ignore[func-returns-value]
    return seen - repeated


# -- one sentence about two things -----------------------------------------------------------------

_SUBSTITUTED_MAX: Final = 2
_SPELLING_MIN: Final = 5
_STEM_MIN: Final = 3


def _find_substitution(ours: Reading, theirs: Reading) -> Veto | None:
    """The same words in the same order, but for one or two on each side that do not agree.

    Whoever says a thing again in other words changes more than that, or puts a synonym. The
    nearest vectors of all belong to sentences in which only the thing spoken of was exchanged.
    """
    left, right = ours.order, theirs.order
    left_set, right_set = set(left), set(right)
    shared = [key for key in left if key in right_set]
    if len(shared) < 2 or shared != [key for key in right if key in left_set]:
        return None
    only_left, only_right = _plain_words(ours, right_set), _plain_words(theirs, left_set)
    if not only_left or not only_right:
        return None
    if max(len(only_left), len(only_right)) > _SUBSTITUTED_MAX:
        return None
    if "".join(only_left) == "".join(only_right):
        return None  # `feature-flag` and `feature flag`
    if any(_agree(a, b) for a in only_left for b in only_right):
        return None
    return Veto(VetoReason.SUBSTITUTION, tuple(only_left), tuple(only_right))


def _plain_words(reading: Reading, other: set[str]) -> list[str]:
    """The words the other side lacks, save numbers, units, negations: those were compared."""
    return [
        chunk.base
        for chunk in reading.chunks
        if chunk.is_weighted
        and chunk.base not in other
        and chunk.kind is Kind.WORD
        and not chunk.is_negation
        and chunk.key not in contrasts.UNITS
    ]


def _agree(one: str, other: str) -> bool:
    """Whether two words may stand for each other: synonyms, spellings, forms of one word."""
    if contrasts.ALIASES.get(one, one) == contrasts.ALIASES.get(other, other):
        return True
    if _is_short_for(one, other):
        return True
    lines = synonyms.SYNONYMS.get(one)
    if lines and not lines.isdisjoint(synonyms.SYNONYMS.get(other, ())):
        return True
    alternatives = contrasts.CONTRASTS.get(one)
    if alternatives and not alternatives.isdisjoint(contrasts.CONTRASTS.get(other, ())):
        return True
    same = _shared_start(one, other)
    endings = {one[same:], other[same:]}
    if same >= _STEM_MIN and endings <= synonyms.INFLECTIONS:
        return True
    # No endings are listed for other scripts; a short rest behind a long start will be one.
    if same > _STEM_MIN and not one.isascii() and max(map(len, endings)) <= _STEM_MIN:
        return True
    # One letter more, less or other, though not the first: `colour`, `artefact`.
    short, long = sorted((one, other), key=len)
    if same == 0 or len(short) < _SPELLING_MIN or len(long) - len(short) > 1:
        return False
    return short[same + (len(short) == len(long)) :] == long[same + 1 :]


def _shared_start(one: str, other: str) -> int:
    """How many letters two words begin with in common."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))
