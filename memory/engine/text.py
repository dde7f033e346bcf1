"""What the engine believes about text: keys, index tokens, sentences, and what input is legal.

Owns the canonical key (the identity of a concept), the tokens of the keyword index, the check every
incoming string passes, and the cutting of text into sentences. Refuses oversized, unencodable,
controlling and invisible text by raising; it never repairs input in silence.

Invariant: every function is pure and safe from any thread. Two texts that differ only in case,
Unicode form (NFC or NFD), invisible characters, word order, camelCase against snake_case, or stop
words have one key; a key is therefore a stored fact, and changing a step here means rewriting keys.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from snowballstemmer.english_stemmer import EnglishStemmer
from uniseg.sentencebreak import SentenceBreak, sentence_break

from memory.engine.errors import InvalidArgument
from memory.engine.limits import LIMIT_TEXT_BYTES

# Invisible code points that real text needs: they hold together emoji, Indic and Persian words and
# ideographic variants. Legal in input, erased from keys.
NEEDED_INVISIBLE_RANGES: Final = (
    (0x034F, 0x034F),
    (0x200C, 0x200D),
    (0xFE00, 0xFE0F),
    (0xE0100, 0xE01EF),
)

# Invisible code points with no use but to hide or reorder text (bidi controls, fillers, tags, blank
# letters). Refused in input, erased from keys. The Arabic number signs (U+0600..0605 and kin) have
# a visible shape and stay out although Unicode calls them format characters.
REFUSED_INVISIBLE_RANGES: Final = (
    (0x00AD, 0x00AD),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180E, 0x180E),
    (0x200B, 0x200B),
    (0x200E, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x2064),
    (0x2066, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF9, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE007F),
)

STOP_WORDS: Final = frozenset(
    ["the", "a", "an", "for", "of", "at", "in", "to", "on", "and", "or", "is", "are"]
)


def _any_of(ranges: Iterable[tuple[int, int]]) -> re.Pattern[str]:
    return re.compile("[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]")


_INVISIBLE: Final = _any_of(NEEDED_INVISIBLE_RANGES + REFUSED_INVISIBLE_RANGES)
_REFUSED_INVISIBLE: Final = _any_of(REFUSED_INVISIBLE_RANGES)
_SURROGATE: Final = _any_of([(0xD800, 0xDFFF)])
# All of category Cc save tab and newline. U+2028 and U+2029 are separators (Zl, Zp): legal.
_REFUSED_CONTROL: Final = _any_of([(0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F)])

_CAMEL_SEAM: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD: Final = re.compile(r"[^\W_]+")
_NOT_WORD: Final = re.compile(r"[^\w\s]|_")
_SEPARATORS: Final = str.maketrans("-_", "  ")
_NO_SYNONYMS: Final[Mapping[str, str]] = MappingProxyType({})

# Longer tokens are stemmed but not remembered, so that the cache is bounded in bytes as well.
_CACHED_TOKEN_CHARS: Final = 64
# No longer word has an empty stem; the longest that does is ''s's or the like.
_ERASABLE_CHARS: Final = 16
# Texts up to this length and longer ones are remembered apart, for the same reason.
_SHORT_TEXT_CHARS: Final = 1_024


# -- keys and tokens ---------------------------------------------------------------------------


def strip_invisible(text: str) -> str:
    """`text` without its invisible code points, the legal ones included."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def is_blank(text: str) -> bool:
    """Whether nothing is left once white space and invisible characters are taken away."""
    return not strip_invisible(text).strip()


def normalised(text: str) -> str:
    """`text` as two writers may both have meant it: composed, visible, single spaces; case kept."""
    return " ".join(unicodedata.normalize("NFC", strip_invisible(text)).split())


def canonical_key(raw: str, synonyms: Mapping[str, str] = _NO_SYNONYMS) -> str:
    """The key under which concepts of the same meaning meet: sorted stems joined by one space.

    The trimmed text is looked up once in `synonyms`, exactly as written; the mapped text is not
    looked up again. Repeated stems stay. The key is empty when the text holds nothing but white
    space, invisible characters and stop words; callers that need a key refuse that themselves.
    """
    trimmed = raw.strip()
    return _remembered(synonyms.get(trimmed, trimmed))


def has_key(raw: str) -> bool:
    """Whether `canonical_key` of the text, without synonyms, is not empty; hardly stems to tell.

    The stemmer erases only the shortest words: what it takes off a longer one leaves something.
    """
    # A long text mostly shows it in its first words; only the whole can show that there is none.
    head = raw[:_SHORT_TEXT_CHARS].rpartition(" ")[0] if len(raw) > _SHORT_TEXT_CHARS else ""
    return any(map(_leaves_a_stem, _words(head))) or any(map(_leaves_a_stem, _words(raw)))


def _leaves_a_stem(word: str) -> bool:
    return len(word) > _ERASABLE_CHARS or bool(_cached_stem(word))


def index_tokens(content: str) -> list[str]:
    """The stems of `content` in reading order, repeats kept: what the keyword index stores.

    Hyphen, underscore, white space and the seam of camelCase separate tokens; other punctuation
    does not, so `handlers/users.rs` is one token. Nothing in the text is query syntax.
    """
    # The stemmer erases a token such as ''s; an empty token would index nothing and double a space.
    return [stem for stem in map(_stem_of, _words(content)) if stem]


def word_stems(text: str) -> tuple[str, ...]:
    """The stems of the words of a text in reading order, where every mark separates words.

    So `handlers/users.rs`, `HandlersUsers rs` and `handler user rs` have the same ones.
    """
    return tuple(index_tokens(_NOT_WORD.sub(" ", text)))


def parts_of(token: str) -> tuple[str, ...]:
    """The words inside an index token, stemmed; none when the token is one word and no more.

    `schema,` holds `schema` and `handlers/users.rs` holds `handler`, `user` and `rs`: a reader who
    asks for a word does not know which mark stood beside it.
    """
    if token.isalnum():
        return ()
    return _cached_parts(token) if len(token) <= _CACHED_TOKEN_CHARS else _parts(token)


def _parts(token: str) -> tuple[str, ...]:
    words = (word for word in _WORD.findall(token) if word not in STOP_WORDS)
    return tuple(dict.fromkeys(stem for stem in map(_stem_of, words) if stem))


def _words(text: str) -> Iterator[str]:
    """The words to be stemmed: lower case, without stop words, in reading order."""
    if not text.isascii():
        # Invisible characters go first: a joiner between letter and accent would block composition.
        text = unicodedata.normalize("NFC", strip_invisible(text))
    words = _CAMEL_SEAM.sub(" ", text).translate(_SEPARATORS).split()
    # Word by word: the lower case of a final sigma depends on where its word ends.
    lowered = (word.lower() for word in words)
    return (word for word in lowered if word not in STOP_WORDS)


def _stem_of(word: str) -> str:
    return _cached_stem(word) if len(word) <= _CACHED_TOKEN_CHARS else _stem(word)


def _key(text: str) -> str:
    return " ".join(sorted(index_tokens(text)))


# A write asks for the key of each of its texts several times, and stemming 16 KB takes some 50 ms.
# The service has the long ones computed in a worker thread first (`memory.engine.warming`); they
# must all still be here when the write is planned. Together at most some 20 MB of plain text.
_short_key = lru_cache(maxsize=4_096)(_key)
_long_key = lru_cache(maxsize=512)(_key)


def _remembered(text: str) -> str:
    return _short_key(text) if len(text) <= _SHORT_TEXT_CHARS else _long_key(text)


def _stem(word: str) -> str:
    """The Porter2 (Snowball English) stem of a lower-case word.

    A stemmer object works on its own cursor fields, so sharing one between threads corrupts words.
    A new one costs a quarter of a microsecond, against some thirty for the stemming. The class is
    named directly: the package's factory would silently switch to a C library where installed.
    """
    stem: str = EnglishStemmer().stemWord(word)
    return stem


_cached_stem = lru_cache(maxsize=32_768)(_stem)


def forget_texts() -> None:
    """Empty what is remembered of texts and words, after some were purged."""
    for cache in (_short_key, _long_key, _cached_stem):
        cache.cache_clear()


_cached_parts = lru_cache(maxsize=32_768)(_parts)


# -- what input is legal -----------------------------------------------------------------------


def check_text(field: str, value: object, *, allow_blank: bool = False) -> None:
    """Refuse a `value` that is not legal text for the argument `field`.

    Checked in this order: a string, at most `LIMIT_TEXT_BYTES` bytes of UTF-8, no unpaired
    surrogate, no control character but tab and newline, no invisible character but those that real
    text needs, and, unless `allow_blank`, something visible. Raises `InvalidArgument`; its message
    names the code point and never repeats the character, for terminals and logs show the message.
    """
    if not isinstance(value, str):
        kind = "a string" if allow_blank else "a non-empty string"
        raise InvalidArgument(field, f"{field} must be {kind}")
    # A surrogate has no UTF-8; counted here as the three bytes it would take, refused below.
    given = len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if given > LIMIT_TEXT_BYTES:
        raise InvalidArgument(
            field,
            f"{field} exceeds {LIMIT_TEXT_BYTES} bytes ({given} given)",
            limit_bytes=LIMIT_TEXT_BYTES,
            given_bytes=given,
        )
    if not value.isascii():
        _refuse_any(field, value, _SURROGATE, "unpaired surrogate")
    _refuse_any(field, value, _REFUSED_CONTROL, "control character")
    if not value.isascii():
        _refuse_any(field, value, _REFUSED_INVISIBLE, "invisible character")
    if not allow_blank and is_blank(value):
        raise InvalidArgument(field, f"{field} must be a non-empty string")


def _refuse_any(field: str, value: str, refused: re.Pattern[str], kind: str) -> None:
    found = refused.search(value)
    if found is not None:
        code_point = f"U+{ord(found[0]):04X}"
        raise InvalidArgument(
            field, f"{field} contains the {kind} {code_point}", code_point=code_point
        )


# -- sentences ---------------------------------------------------------------------------------

_SENTENCE_LETTERS: Final = {
    SentenceBreak.CR: "R",
    SentenceBreak.LF: "N",
    SentenceBreak.SEP: "P",
    SentenceBreak.EXTEND: "x",
    SentenceBreak.FORMAT: "x",
    SentenceBreak.SP: " ",
    SentenceBreak.LOWER: "l",
    SentenceBreak.UPPER: "U",
    SentenceBreak.OLETTER: "O",
    SentenceBreak.NUMERIC: "1",
    SentenceBreak.ATERM: ".",
    SentenceBreak.SCONTINUE: ",",
    SentenceBreak.STERM: "!",
    SentenceBreak.CLOSE: ")",
}

# Rule SB5: an extending character belongs to the one before it, unless it begins a paragraph.
_UNIT: Final = re.compile(r"(?:\A|(?<=[RNP]))x|[^x]")

# Each match ends where a sentence ends. The possessive runs keep the scan linear and stop the
# pattern from ending a sentence between a terminator and its own quotes and spaces (SB9, SB10).
_SENTENCE_END: Final = re.compile(
    r"""
      RN | [RNP]                                      # SB3, SB4: a paragraph ends
    | (?: !                                           # SB11: after a terminator
        | (?: (?<![Ul])\. | (?<=[Ul])\.(?!U) )        # SB7: not inside U.S
          (?!1)                                       # SB6: not inside 3.4
          (?! \)*+[ ]*+ [^OUlRNP!.]*+ l )             # SB8: not before a lower-case start
      )
      \)*+ [ ]*+ (?![,!.RNP])                         # SB8a, SB9, SB10
    """,
    re.VERBOSE,
)


def split_sentences(chunk: str) -> list[str]:
    """The sentences of `chunk` in order, trimmed, those without visible text dropped.

    Boundaries are the default ones of Unicode UAX 29, without tailoring; the character classes come
    from uniseg. The rules are applied here because uniseg's own scan takes quadratic time after a
    full stop with many spaces or brackets (minutes for one legal string), about 50 microseconds a
    character at best, and leaves symbols out of rule SB8. This scan is linear.
    """
    classes = "".join(map(_sentence_letter, chunk))
    starts = [unit.start() for unit in _UNIT.finditer(classes)]
    units = "".join(map(classes.__getitem__, starts))
    starts.append(len(chunk))
    cuts = [0, *(starts[end.end()] for end in _SENTENCE_END.finditer(units)), len(chunk)]
    sentences = (chunk[low:high].strip() for low, high in pairwise(cuts))
    return [sentence for sentence in sentences if not is_blank(sentence)]


@lru_cache(maxsize=8_192)
def _sentence_letter(character: str) -> str:
    """One letter for the UAX 29 sentence class of a character; `o` for the class Other."""
    return _SENTENCE_LETTERS.get(sentence_break(character), "o")
