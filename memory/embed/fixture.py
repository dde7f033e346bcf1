"""A deterministic stand-in for a model: hashed words and character n-grams.

For tests, demonstrations and load: no dependency, a tenth of a millisecond a text, the same bytes
in every process and on every machine. It sees spelling, not meaning: texts that share words or
parts of words are near, "invoice" and "bill" are strangers.

Invariant: each feature adds +1 or -1 (times its weight) at one place, both taken from its hash, so
that features of different texts cancel on average and unrelated texts have cosines around zero.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np

from memory.embed.deadline import BLANK, CLOSED, Deadline
from memory.engine.embedding import FIXTURE, Embedded, EmbeddingContract, check_vector
from memory.engine.text import is_blank, strip_invisible

DIM_DEFAULT: Final = FIXTURE.dim

_WORD_WEIGHT: Final = 1.0
_NGRAM_WEIGHT: Final = 0.35  # a word has some ten of them; together they weigh about as much as it
_NGRAM_SIZES: Final = (3, 4, 5)
_WORD_CHARACTERS_MAX: Final = 64
_CACHED_WORDS: Final = 32_768

_CAMEL_SEAM: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Underscores join words in code; here they separate them, as the canonical key does.
_WORD: Final = re.compile(r"[^\W_]+")


class FixtureEmbedder:
    """Signed feature hashing into `dim` places."""

    def __init__(self, dim: int = DIM_DEFAULT) -> None:
        self._contract = EmbeddingContract(FIXTURE.kind, FIXTURE.model, dim)
        self._is_closed = False

    @property
    def contract(self) -> EmbeddingContract:
        return self._contract

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> Sequence[Embedded]:
        """See `Embedder`."""
        deadline = Deadline(deadline_seconds)
        return [
            CLOSED
            if self._is_closed
            else deadline.failure()
            if deadline.is_over
            else self._one(text)
            for text in texts
        ]

    def close(self) -> None:
        self._is_closed = True

    def _one(self, text: str) -> Embedded:
        if is_blank(text):
            return BLANK
        total = np.zeros(self.contract.dim)
        for word, count in Counter(_words(text)).items():
            for digest, weight in _features(word):
                sign = 1 if digest & 1 else -1
                total[(digest >> 1) % self.contract.dim] += sign * weight * count
        return check_vector(total, self.contract.dim)


def _words(text: str) -> list[str]:
    """The words in lower case; a text without letters and digits is one word."""
    composed = unicodedata.normalize("NFC", strip_invisible(text))
    words = _WORD.findall(_CAMEL_SEAM.sub(" ", composed).casefold()) or [composed.strip()]
    # A word as long as a text would have as many n-grams as characters, and be remembered.
    return [
        word[begin : begin + _WORD_CHARACTERS_MAX]
        for word in words
        for begin in range(0, len(word), _WORD_CHARACTERS_MAX)
    ]


@lru_cache(maxsize=_CACHED_WORDS)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    """The hash and the weight of a word and of its n-grams."""
    return (
        (_hash("word", word), _WORD_WEIGHT),
        *((_hash("part", part), _NGRAM_WEIGHT) for part in _ngrams(f"<{word}>")),
    )


def _ngrams(word: str) -> Iterator[str]:
    for size in _NGRAM_SIZES:
        for begin in range(len(word) - size + 1):
            yield word[begin : begin + size]


def _hash(kind: str, feature: str) -> int:
    digest = blake2b(f"{kind}:{feature}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
