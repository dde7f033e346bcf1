"""Cuts text into the word pieces of a lower-casing BERT vocabulary.

Owns exactly what such a model was trained on: characters cleaned, accents dropped, words and
punctuation separated, each word covered greedily by the longest pieces of the vocabulary. Unlike
the usual implementations it knows no special tokens in the text: `[SEP]` written by somebody is
three ordinary pieces.

Invariant: pure and safe from any thread; texts that differ only in Unicode form, case, accents or
invisible characters have the same pieces.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from memory.engine.errors import InvalidConfiguration

UNKNOWN: Final = "[UNK]"
START: Final = "[CLS]"
END: Final = "[SEP]"
_CONTINUED: Final = "##"

WORD_CHARACTERS_MAX: Final = 100
"""A longer word is one unknown piece: the model never saw one, and the search is quadratic."""

_CACHED_WORDS: Final = 32_768
_CACHED_CHARACTERS: Final = 65_536

# Ideographs are words of their own. Kana and Hangul are not in these ranges: they are cut greedily.
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)

_REMOVED: Final = frozenset(["Cc", "Cf", "Co", "Cs", "Mn"])


class WordPieceTokenizer:
    """The pieces of one vocabulary: a list of texts whose places are their numbers."""

    def __init__(self, vocabulary: Sequence[str], *, pieces_max: int) -> None:
        self._ids: Mapping[str, int] = {piece: place for place, piece in enumerate(vocabulary)}
        for special in (UNKNOWN, START, END):
            if special not in self._ids:
                raise InvalidConfiguration(f"the vocabulary has no piece {special}")
        self.unknown_id = self._ids[UNKNOWN]
        self._start_id, self._end_id = self._ids[START], self._ids[END]
        self._pieces_max = pieces_max
        self._characters = _CharacterMap()
        self._cached_word = lru_cache(maxsize=_CACHED_WORDS)(self._split_word)

    def encode(self, text: str) -> list[int]:
        """The numbers of start, pieces and end; pieces past the model's length are left out."""
        room = self._pieces_max - 2
        ids = [self._start_id]
        for word in unicodedata.normalize("NFD", text).translate(self._characters).split():
            ids += self._cached_word(word) if len(word) <= WORD_CHARACTERS_MAX else self._unknown
            if len(ids) > room:
                del ids[room + 1 :]
                break
        ids.append(self._end_id)
        return ids

    @property
    def _unknown(self) -> tuple[int, ...]:
        return (self.unknown_id,)

    def _split_word(self, word: str) -> tuple[int, ...]:
        """The longest piece that begins the word, then the longest that goes on, to its end."""
        try:
            return tuple(self._pieces_of(word))
        except LookupError:
            return self._unknown

    def _pieces_of(self, word: str) -> Iterator[int]:
        begin, prefix = 0, ""
        while begin < len(word):
            for end in range(len(word), begin, -1):
                found = self._ids.get(prefix + word[begin:end])
                if found is not None:
                    yield found
                    begin, prefix = end, _CONTINUED
                    break
            else:
                raise LookupError(word)


class _CharacterMap(dict[int, str]):
    """What each character of decomposed text becomes; filled as characters are met.

    Lower-casing goes by single characters on purpose: the models' own tokenizer does not look at
    neighbours, while `str.lower` turns a sigma at a word's end into another letter.
    """

    def __missing__(self, code_point: int) -> str:
        mapped = _map_character(chr(code_point))
        # Bounded, so that a text of every code point there is costs its own time and nothing more.
        if len(self) < _CACHED_CHARACTERS:
            self[code_point] = mapped
        return mapped


def _map_character(character: str) -> str:
    if character in "\t\n\r":
        return " "
    category = unicodedata.category(character)
    if category == "Zs":
        return " "
    # U+FFFD stands for text that was lost already; Mn are the accents of decomposed letters.
    # Unassigned characters (Cn) stay: removed, they would come back with a later Unicode.
    if category in _REMOVED or character == "\ufffd":
        return ""
    if category[0] == "P" or (character.isascii() and not character.isalnum()):
        return f" {character} "
    code_point = ord(character)
    if any(low <= code_point <= high for low, high in _IDEOGRAPHS):
        return f" {character} "
    return character.lower()
