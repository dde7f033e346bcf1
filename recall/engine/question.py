"""The words of a question that are looked for.

Owns which words only ask. A question holds words that no answer needs to hold ("what did she say
about ..."): they are common enough to outweigh, together, the one word that matters. A query of
nothing else is looked for as it stands.

Invariant: a term comes out at most once, and a query that has a token has a term.
"""

from __future__ import annotations

from typing import Final

from memory.engine.text import index_tokens, parts_of

_ASKING: Final = """
    a about above after again against all am an and any are as at be because been before being
    below between both but by can could did do does doing down during each few for from further had
    has have having he her here hers herself him himself his how i if in into is it its itself just
    may me might more most must my myself no nor not now of off on once only or other our ours
    ourselves out over own same shall she should so some such than that the their theirs them
    themselves then there these they this those through to too under until up very was we were what
    when where which while who whom whose why will with would you your yours yourself yourselves
    s t d ll re ve don didn doesn isn wasn aren
"""
ASKING_STEMS: Final = frozenset(
    stem for word in _ASKING.split() for stem in (word, *index_tokens(word))
)
"""Stems of words that ask, refer or join, and say nothing of what is asked about."""


def question_terms(query: str) -> list[str]:
    """Its tokens and the words inside them, in reading order, without those that only ask.

    All of them where nothing else is left.
    """
    tokens = index_tokens(query)
    terms = list(dict.fromkeys(term for token in tokens for term in (token, *parts_of(token))))
    return [term for term in terms if term not in ASKING_STEMS] or terms
