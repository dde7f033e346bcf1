"""Laws of keys and of input checking, and sentences against the rules of UAX 29 read aloud."""

from __future__ import annotations

import random
import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from memory.engine.errors import InvalidArgument
from memory.engine.text import (
    STOP_WORDS,
    canonical_key,
    check_text,
    index_tokens,
    is_blank,
    split_sentences,
    strip_invisible,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
LEGAL_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf")), max_size=60)
INVISIBLE = st.sampled_from("\u00ad\u034f\u200b\u200d\u202e\u2060\ufe0f\ufeff\U000e0041\U000e0100")
WORDS = st.lists(st.text("abcdefghijklmnopqrstuvwxyz0123456789.\u00e9", min_size=1), max_size=8)


@given(ANY_TEXT)
def test_key_is_the_sorted_tokens(text: str) -> None:
    tokens = index_tokens(text)
    assert canonical_key(text) == " ".join(sorted(tokens))
    assert all(tokens)
    assert not any(re.search(r"[\s_-]", token) for token in tokens)


@given(ANY_TEXT)
def test_key_does_not_depend_on_the_unicode_form(text: str) -> None:
    key = canonical_key(text)
    assert canonical_key(unicodedata.normalize("NFD", strip_invisible(text))) == key
    assert canonical_key(unicodedata.normalize("NFC", strip_invisible(text))) == key


@given(WORDS, st.randoms(use_true_random=False))
def test_key_does_not_depend_on_order_case_or_separator(
    words: list[str], shuffler: random.Random
) -> None:
    key = canonical_key(" ".join(words))
    shuffled = shuffler.sample(words, len(words))
    for separator in ("-", "_", "\n", " the ", "\u00a0"):
        assert canonical_key(separator.join(shuffled).upper()) == canonical_key(
            " ".join(shuffled).upper()
        )
        assert canonical_key(separator.join(shuffled)) == key


@given(LEGAL_TEXT, INVISIBLE, st.data())
def test_an_invisible_character_anywhere_changes_nothing(
    text: str, invisible: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text)))
    inside = text[:at] + invisible + text[at:]
    assert canonical_key(inside) == canonical_key(text)
    assert is_blank(inside) == is_blank(text)


@given(st.lists(st.sampled_from(sorted(STOP_WORDS)), max_size=6))
def test_stop_words_alone_have_no_key(words: list[str]) -> None:
    assert canonical_key(" ".join(words)) == ""


@given(ANY_TEXT)
def test_refusals_never_repeat_the_text(text: str) -> None:
    told = refusal(text)
    if told is None:
        assert text.encode("utf-8").decode("utf-8") == text
        assert not is_blank(text)
    else:
        # Plain ASCII whatever was sent: safe to print, to log and to encode.
        assert re.fullmatch(r"content [ -~]+", told)


def refusal(text: str) -> str | None:
    try:
        check_text("content", text)
    except InvalidArgument as error:
        return error.message
    return None


# One or two characters of every sentence class, and combining marks to lean on them.
CLASS_OF = {
    "\r": "CR",
    "\n": "LF",
    "\u2029": "Sep",
    "\u0301": "Extend",
    "\u2060": "Format",
    " ": "Sp",
    "a": "Lower",
    "B": "Upper",
    "\u597d": "OLetter",
    "7": "Numeric",
    ".": "ATerm",
    ",": "SContinue",
    "!": "STerm",
    ")": "Close",
    "+": "Other",
}
PARAGRAPH = {"Sep", "CR", "LF"}


def breaks_before(classes: list[str], at: int) -> bool:
    """The rules SB3 to SB11 for the place before `classes[at]`, one after the other, literally."""
    before, after = classes[:at], classes[at:]
    if before[-1] == "CR" and after[0] == "LF":  # SB3
        return False
    if before[-1] in PARAGRAPH:  # SB4
        return True
    if after[0] in {"Extend", "Format"}:  # SB5
        return False
    before, after = without_extenders(before), without_extenders(after)
    if before[-1] == "ATerm" and after[0] == "Numeric":  # SB6
        return False
    if before[-1] == "ATerm" and before[-2:-1] in (["Upper"], ["Lower"]) and after[0] == "Upper":
        return False  # SB7
    spaces = list(before)
    while spaces and spaces[-1] == "Sp":
        spaces.pop()
    closes = list(spaces)
    while closes and closes[-1] == "Close":
        closes.pop()
    terminator = closes[-1] if closes and closes[-1] in {"ATerm", "STerm"} else None
    if terminator is None:  # SB998
        return False
    if terminator == "ATerm":  # SB8
        stop = {"OLetter", "Upper", "Lower", "ATerm", "STerm"} | PARAGRAPH
        if next((kind for kind in after if kind in stop), None) == "Lower":
            return False
    if after[0] in {"SContinue", "ATerm", "STerm"}:  # SB8a
        return False
    if len(spaces) == len(before) and after[0] in {"Close", "Sp"} | PARAGRAPH:  # SB9
        return False
    return after[0] not in {"Sp"} | PARAGRAPH  # SB10, SB11


def without_extenders(classes: list[str]) -> list[str]:
    """SB5: extenders melt into what they follow; at a start they stand for themselves."""
    kept: list[str] = []
    for kind in classes:
        if kind not in {"Extend", "Format"}:
            kept.append(kind)
        elif not kept or kept[-1] in PARAGRAPH:
            kept.append("Alone")
    return kept


@given(st.text(st.sampled_from(sorted(CLASS_OF)), max_size=24))
def test_sentences_follow_the_rules_read_aloud(text: str) -> None:
    classes = [CLASS_OF[character] for character in text]
    cuts = [at for at in range(1, len(text)) if breaks_before(classes, at)]
    pieces = [text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    expected = [piece.strip() for piece in pieces if piece.replace("\u2060", "").strip()]
    assert split_sentences(text) == expected


@given(LEGAL_TEXT)
def test_sentences_lose_only_white_space(text: str) -> None:
    sentences = split_sentences(text)
    assert visible("".join(sentences)) == visible(text)
    assert all(sentence == sentence.strip() and not is_blank(sentence) for sentence in sentences)


def visible(text: str) -> str:
    return "".join(strip_invisible(text).split())
