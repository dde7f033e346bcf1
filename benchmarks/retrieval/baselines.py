"""The plainest things that could do the job, on the same texts and questions.

Owns two rankings written by the book, both without stop words: word overlap, as somebody with a
search box would get it, and BM25 (Snowball stems, k1 1.2, b 0.75). They share no code with what
they are compared to but the stemmer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from snowballstemmer.english_stemmer import EnglishStemmer

_STOP_TEXT: Final = """
    i me my we our you your he him his she her it its they them their what which who whom whose this
    that these those am is are was were be been being have has had having do does did doing a an the
    and but if or because as until while of at by for with about against between into through during
    before after above below to from up down in out on off over under again further then once here
    there when where why how all any both each few more most other some such no nor not only own
    same so than too very can will just should now s t don
"""
_STOP_WORDS: Final = frozenset(_STOP_TEXT.split())

Ranker: TypeAlias = Callable[[str], list[int]]
"""A question in, places of texts out, best first; only those with something in common."""


def rank_by_overlap(texts: Sequence[str]) -> Ranker:
    """By how many different words of the question a text holds, as they are written."""
    words = [set(_words(text)) for text in texts]

    def rank(question: str) -> list[int]:
        asked = set(_words(question))
        return _best_first([float(len(asked & held)) for held in words])

    return rank


def rank_by_bm25(texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> Ranker:
    """By BM25 over stems, every word of the question counted."""
    counts = [Counter(_stems(text)) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    average = sum(lengths) / len(lengths)
    frequency = Counter(term for count in counts for term in count)

    def rank(question: str) -> list[int]:
        scores = [0.0] * len(texts)
        for term in set(_stems(question)):
            held = frequency[term]
            idf = math.log(1 + (len(texts) - held + 0.5) / (held + 0.5))
            for place, count in enumerate(counts):
                if count[term]:
                    damping = k1 * (1 - b + b * lengths[place] / average)
                    scores[place] += idf * count[term] * (k1 + 1) / (count[term] + damping)
        return _best_first(scores)

    return rank


def _best_first(scores: Sequence[float]) -> list[int]:
    found = [place for place, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda place: (-scores[place], place))


def _words(text: str) -> list[str]:
    words = re.findall(r"[^\W_]+", text.lower())
    return [word for word in words if word not in _STOP_WORDS]


def _stems(text: str) -> list[str]:
    stemmer = EnglishStemmer()
    return [stemmer.stemWord(word) for word in _words(text)]
