"""Reads one text as the lexical veto sees it: numbers with units, versions, identifiers, names.

Owns the cutting of a text into chunks and what each chunk is; judges no pair of texts. Spelling
that does not matter is evened out here: `30s` and `30 seconds`, `three` and `3`, `getUser` and
`get_user`, `time-out` and `timeout`, `weekly` and `every week` read the same.

Invariant: pure and linear. What a chunk is depends on itself and its two neighbours only, and what
it is by itself is remembered (bounded), since the texts of one session share their words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from memory.engine import contrasts
from memory.engine.text import strip_invisible

Quantity: TypeAlias = tuple[str, float | str]
"""What is counted, and how much of it; for dates and the like the text as written."""

Multiset: TypeAlias = dict[Hashable, list[str]]
"""What was found, and how each of its occurrences was written."""

_OUTER: Final = "\"'`()[]{}<>,;:!?.\u2026\u2018\u2019\u201c\u201d\u00ab\u00bb"


class Kind(StrEnum):
    WORD = "word"
    NUMBER = "number"
    VERSION = "version"
    IDENTIFIER = "identifier"


class Chunk(NamedTuple):
    """What stands between two spaces, read without its neighbours."""

    kind: Kind
    key: str
    """The text compared: lower case, without hyphens; for identifiers without underscores too."""
    shown: str
    base: str = ""
    """The key; of a word, without the s of a plural or of a verb's third person."""
    quantity: Quantity = ("", "")
    parts: tuple[str, ...] = ()
    """The parts of a hyphenated word."""
    is_capital: bool = False
    is_name: bool = False
    """A name wherever it stands: all capitals, capitals inside, or known."""
    is_negation: bool = False
    opposites: frozenset[tuple[int, int]] = frozenset()
    ends_sentence: bool = False
    is_weighted: bool = True
    """Whether its place in the sentence says something."""


_NOTHING: Final = Chunk(Kind.WORD, "", "", ends_sentence=True)


@dataclass(slots=True)
class Reading:
    """What a text holds, in reading order."""

    chunks: list[Chunk] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    """The weighted chunks, words without the s of a plural or of a verb's third person."""
    identifiers: Multiset = field(default_factory=dict)
    versions: Multiset = field(default_factory=dict)
    numbers: Multiset = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    compounds: list[Chunk] = field(default_factory=list)
    negated: list[int] = field(default_factory=list)
    """The places of the negations among the chunks, or `UNPLACED`."""
    opposites: set[tuple[int, int]] = field(default_factory=set)


_NUMBER: Final = re.compile(
    r"([-+~$€£]?)(\d{1,3}(?:[,_]\d{3})+|\d+)(\.\d+)?(?:st|nd|rd|th)?-?([%A-Za-z]*)"
)
_VERSION: Final = re.compile(r"[vV]?\d+(?:\.\d+)+(?:[-+.]?[0-9A-Za-z]+)*|[vV]\d+")
_NUMERIC: Final = re.compile(r"[\d:./,+-]+")
_IDENTIFIER_SIGN: Final = re.compile(r"[/_.#@=\\]|::|^--|\(\)$|^[a-z]+[A-Z]")
_INNER_CAPITAL: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}")
_SOFTENED: Final = re.compile(r"[-_\s]|\(\)$")
_ELIDED: Final = re.compile(r"(?:[ldnscjmt]|qu)'(?=\w{2})", re.IGNORECASE)

_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_ASCII_RUN: Final = re.compile(r"[\x21-\x7e]+")
_CJK_COUNT: Final = re.compile(
    "([一二三四五六七八九十两]+)(?=[次个個分秒小時时天日回件台倍年月周週名条本人度])"
)
_FULL_WIDTH: Final = (
    "\u3002\u3001\uff0c\uff1b\uff1a\uff01\uff1f\u300c\u300d\u300e\u300f\uff08\uff09"
)
_PUNCTUATION: Final = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "\u2014": " ", "\u2013": "-", "\u2011": "-"}
    | dict.fromkeys(_FULL_WIDTH, " ")
)

UNPLACED: Final = -1
"""A negation found inside a text without spaces."""

_EXACT_MAX: Final = 2.0**53
"""Above, different whole numbers would be one float."""

_CACHED_CHARACTERS: Final = 64
_SHORTENED: Final = {"can't": "can", "won't": "will", "shan't": "shall"}
_PRONOUNS: Final = frozenset(["we", "they", "it", "i", "he", "she", "you"])
_VERSION_WORDS: Final = frozenset(["version", "release", "revision"])


def read(text: str) -> Reading:
    """What `text` holds. Linear; a word met before costs one look-up."""
    reading = Reading()
    if not text.isascii():
        text = unicodedata.normalize("NFC", strip_invisible(text)).translate(_PUNCTUATION)
        if _CJK.search(text):
            text = _ASCII_RUN.sub(r" \g<0> ", text)
            _read_unspaced(text, reading)
    for written in text.split():
        short = len(written) <= _CACHED_CHARACTERS
        chunk = _cached_chunk(written) if short else _read_chunk(written)
        if chunk.key:
            reading.chunks.append(chunk)
    _read_sequence(reading)
    return reading


def _read_sequence(reading: Reading) -> None:
    """Sort the chunks into what is compared, with a look at the neighbours of each."""
    chunks = reading.chunks
    nouns_have_capitals = _nouns_have_capitals(chunks)
    before, last = _NOTHING, len(chunks) - 1
    for place, chunk in enumerate(chunks):
        after = chunks[place + 1] if place < last else _NOTHING
        reading.keys.add(chunk.key)
        if chunk.is_weighted:
            reading.order.append(chunk.base)
        if chunk.opposites:
            reading.opposites |= chunk.opposites
        if chunk.kind is Kind.WORD:
            if chunk.is_negation or chunk.key == "used":
                if _turns_around(chunk, before, after):
                    reading.negated.append(place)
            elif chunk.parts:
                reading.compounds.append(chunk)
            elif chunk.key in contrasts.UNITS and before.key in contrasts.SINGLE:
                unit, factor = contrasts.UNITS[chunk.key]
                if unit == "time":
                    count(reading.numbers, (unit, factor), chunk.shown)
            if chunk.is_name or (
                chunk.is_capital
                and not nouns_have_capitals
                and not before.ends_sentence
                and chunk.key not in contrasts.NO_NAMES
            ):
                reading.names[contrasts.ALIASES.get(chunk.key, chunk.key)] = chunk.shown
        elif chunk.kind is Kind.IDENTIFIER:
            count(reading.identifiers, chunk.key, chunk.shown)
        else:
            _read_quantity(reading, before, chunk, after)
        before = chunk


def _turns_around(chunk: Chunk, before: Chunk, after: Chunk) -> bool:
    if chunk.key == "used":  # `we used to`, but not `the key used to sign`
        return after.key == "to" and before.key in _PRONOUNS
    return chunk.key not in {"not", "no"} or after.key not in contrasts.NOT_NEGATED


def _read_quantity(reading: Reading, before: Chunk, chunk: Chunk, after: Chunk) -> None:
    """A number takes the unit behind it; one with a fraction and without a unit is a version."""
    unit, value = chunk.quantity
    counted, factor = contrasts.UNITS.get(after.key, ("", 1.0))
    if not unit and counted and isinstance(value, float):
        count(reading.numbers, (counted, round(value * factor, 6)), chunk.shown)
    elif chunk.kind is Kind.VERSION or (before.key in _VERSION_WORDS and not unit):
        count(reading.versions, chunk.key, chunk.shown)
    else:
        count(reading.numbers, chunk.quantity, chunk.shown)


def count(found: Multiset, what: Hashable, shown: str) -> None:
    """Add one member to a multiset, with the way it was written."""
    found.setdefault(what, []).append(shown)


def _nouns_have_capitals(chunks: Sequence[Chunk]) -> bool:
    """German, a title in capitals: there a capital letter names nothing."""
    words = [chunk for chunk in chunks[1:] if chunk.kind is Kind.WORD]
    capitals = sum([chunk.is_capital for chunk in words])
    if not capitals:
        return False
    if len(contrasts.GERMAN.intersection([chunk.key for chunk in chunks])) >= 2:
        return True
    return capitals >= 3 and 2 * capitals > len(words)


def _read_chunk(written: str) -> Chunk:
    ends_sentence = written.endswith((".", "!", "?", ":", ";"))
    bare = written.strip(_OUTER)
    if not any(map(str.isalnum, bare)):
        return Chunk(Kind.WORD, "%" if bare == "%" else "", written, is_weighted=False)
    if any(map(str.isdigit, bare)):
        return _read_numeric(written.strip("\"'`[]{}<>,;:!?.").rstrip(")").lstrip("("))._replace(
            ends_sentence=ends_sentence
        )
    if written.startswith("--") or written.endswith("()"):
        bare = written.strip("`,;:.")
    folded = bare.casefold()
    if _IDENTIFIER_SIGN.search(bare) and folded not in contrasts.ABBREVIATIONS | contrasts.NAMES:
        return _other(Kind.IDENTIFIER, _SOFTENED.sub("", folded), bare)
    return _read_word(bare, folded)._replace(ends_sentence=ends_sentence)


_cached_chunk = lru_cache(maxsize=32_768)(_read_chunk)


def forget_chunks() -> None:
    """Empty what is remembered of words, after some were purged."""
    _cached_chunk.cache_clear()


def _read_numeric(bare: str) -> Chunk:
    """A chunk that holds a digit: a number, a version, a date, or an identifier."""
    folded = bare.casefold()
    number = _NUMBER.fullmatch(bare)
    if number is not None:
        sign, whole, fraction, suffix = number.groups()
        value = float(re.sub("[,_]", "", whole) + (fraction or ""))
        if value > _EXACT_MAX:
            return _other(Kind.NUMBER, folded, bare, ("text", folded))
        if sign == "-":
            value = -value
        if not suffix:
            kind = Kind.VERSION if fraction else Kind.NUMBER
            return _other(kind, folded, bare, ("", value))
        unit = ("", 1_000_000.0) if suffix == "M" else contrasts.UNITS.get(suffix.casefold())
        if unit is not None:
            return _other(Kind.NUMBER, folded, bare, (unit[0], round(value * unit[1], 6)))
    if _VERSION.fullmatch(bare):
        return _other(Kind.VERSION, folded.removeprefix("v"), bare, ("", folded))
    if _NUMERIC.fullmatch(bare):
        return _other(Kind.NUMBER, folded, bare, ("text", folded))
    return _other(Kind.IDENTIFIER, _SOFTENED.sub("", folded), bare)


def _other(kind: Kind, key: str, shown: str, quantity: Quantity = ("", "")) -> Chunk:
    """A chunk that is no word."""
    return Chunk(kind, key, shown, key, quantity)


def singular(key: str) -> str:
    """A word without the s of a plural or of a verb's third person."""
    if len(key) <= 3 or not key.endswith("s") or key.endswith("ss"):
        return key
    if key.endswith("ies") and len(key) > 4:
        return key[:-3] + "y"
    return key[:-2] if key.endswith(("ches", "shes", "sses", "xes", "zes")) else key[:-1]


def _read_word(bare: str, folded: str) -> Chunk:
    is_negation = folded in contrasts.NEGATIONS
    if folded.endswith("n't"):
        is_negation, folded = True, _SHORTENED.get(folded, folded[:-3])
    elif folded.endswith("'s"):
        bare, folded = bare[:-2], folded[:-2]
    elif "'" in folded:
        bare, folded = _ELIDED.sub("", bare), _ELIDED.sub("", folded)
    parts = tuple(part for part in folded.split("-") if part)
    key = "".join(parts)
    opposites = contrasts.CONTRASTS.get(key, frozenset())
    if len(parts) > 1:
        opposites = opposites.union(*(contrasts.CONTRASTS.get(part, ()) for part in parts))
    quantity = _quantity_of(key, parts)
    return Chunk(
        Kind.WORD if quantity is None else Kind.NUMBER,
        key,
        bare,
        singular(key) if quantity is None else key,
        quantity or ("", ""),
        parts=parts if len(parts) > 1 else (),
        is_capital=bare[:1].isupper(),
        is_name=_is_name(bare, key),
        is_negation=is_negation,
        opposites=opposites,
        is_weighted=key not in contrasts.UNWEIGHTED,
    )


def _quantity_of(key: str, parts: Sequence[str]) -> Quantity | None:
    """The number that a word stands for: `three`, `weekly`, `two-week`."""
    if key in contrasts.RHYTHMS:
        return "time", contrasts.RHYTHMS[key]
    value = contrasts.NUMBER_WORDS.get(parts[0]) if parts else None
    if value is None:
        return None
    if len(parts) == 2 and parts[1] in contrasts.UNITS:
        unit, factor = contrasts.UNITS[parts[1]]
        return unit, round(value * factor, 6)
    return ("", float(value)) if len(parts) == 1 else None


def _is_name(bare: str, key: str) -> bool:
    if key in contrasts.NAMES:
        return True
    if not bare[:1].isupper() or key in contrasts.NO_NAMES:
        return False
    return (
        key in contrasts.GIVEN_NAMES
        or key in contrasts.ALIASES
        or _INNER_CAPITAL.search(bare) is not None
    )


def _read_unspaced(text: str, reading: Reading) -> None:
    """What scripts without spaces hide inside their runs: negations, numerals, opposites."""
    if any(cue in text for cue in contrasts.NEGATIONS_CJK):
        reading.negated.append(UNPLACED)
    for numeral in _CJK_COUNT.findall(text):
        value = contrasts.NUMERALS_CJK.get(numeral)
        count(reading.numbers, ("", value or numeral), numeral)
    for group, alternatives in enumerate(contrasts.CONTRASTS_CJK):
        for place, cues in enumerate(alternatives):
            if any(cue in text for cue in cues):
                # Negative, so that they never meet the groups of spaced scripts.
                reading.opposites.add((-1 - group, place))
