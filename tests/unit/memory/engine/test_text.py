"""Keys, tokens, legal input and sentences, by example."""

from __future__ import annotations

import json
import threading
import time
import unicodedata
from collections.abc import Callable
from itertools import product

import pytest

from memory.engine.errors import InvalidArgument
from memory.engine.text import (
    canonical_key,
    check_text,
    has_key,
    index_tokens,
    parts_of,
    split_sentences,
)
from shared_data import shared_file

CASES = 11

# Written out again here, first and last code point of each range, so that a slip in the engine's
# own table shows.
NEEDED = [(0x34F, 0x34F), (0x200C, 0x200D), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF)]
REFUSED = [
    *[(0xAD, 0xAD), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180E, 0x180E)],
    *[(0x200B, 0x200B), (0x200E, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0x2066, 0x206F)],
    *[(0x2800, 0x2800), (0x3164, 0x3164), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB)],
    *[(0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3)],
    *[(0x1D173, 0x1D17A), (0xE0000, 0xE007F)],
]
NEEDED_POINTS = {point for low, high in NEEDED for point in range(low, high + 1)}
REFUSED_POINTS = {point for low, high in REFUSED for point in range(low, high + 1)}
ENDS = sorted({end for ends in NEEDED + REFUSED for end in ends})
NEIGHBOURS = sorted(
    {point for low, high in NEEDED + REFUSED for point in (low - 1, high + 1)}
    - NEEDED_POINTS
    - REFUSED_POINTS
)


def names(points: list[int]) -> list[str]:
    return [f"U+{point:04X}" for point in points]


def refusal(value: object, *, field: str = "content") -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        check_text(field, value)
    return caught.value


class TestCanonicalKey:
    @pytest.mark.parametrize("number", range(CASES))
    def test_published_case(self, number: int) -> None:
        path = shared_file("fixtures/lambo/canonicalization-cases.json")
        cases = json.loads(path.read_text(encoding="utf-8"))
        assert len(cases) == CASES
        case = cases[number]
        synonyms = {"register_user": "create_user"}
        assert canonical_key(case["input"], synonyms) == case["expected_key"]

    @pytest.mark.parametrize(
        "raw", ["", " \t\n", "the", "The OF and  Or", "to-the_on", "\u200b \u200d", "--__"]
    )
    def test_nothing_but_stop_words_and_blanks_has_the_empty_key(self, raw: str) -> None:
        assert canonical_key(raw) == ""

    def test_every_stop_word_is_dropped_and_no_other(self) -> None:
        assert canonical_key("the a an for of at in to on and or is are") == ""
        assert canonical_key("be with by from as not") == "as be by from not with"

    def test_synonym_is_read_once_after_trimming_and_byte_for_byte(self) -> None:
        synonyms = {"login": "sign_in_form", "sign_in_form": "door", "form in sign": "door"}
        assert canonical_key("  login\n", synonyms) == "form sign"
        assert canonical_key("Login", synonyms) == "login"
        assert canonical_key("login ", {"login ": "door"}) == "login"

    def test_synonym_may_map_to_nothing(self) -> None:
        assert canonical_key("noise", {"noise": "the"}) == ""

    def test_repeats_stay_and_stems_are_sorted(self) -> None:
        assert canonical_key("users user Schema") == "schema user user"

    @pytest.mark.parametrize(
        ("raw", "key"),
        [
            ("HTTPServer", "httpserver"),
            ("parseHTTP", "http pars"),
            ("v2Api", "v2api"),
            ("caf\u00e9Bar", "caf\u00e9bar"),
            ("handlers/users.rs", "handlers/users.r"),
            ("v0.5.0", "v0.5.0"),
            ("foo\u2010bar", "foo\u2010bar"),
        ],
    )
    def test_what_separates_words(self, raw: str, key: str) -> None:
        assert canonical_key(raw) == key

    @pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u2028", "\u2029", "\u3000", "\u0085"])
    def test_every_white_space_separates(self, space: str) -> None:
        assert canonical_key(f"{space}user{space}schema{space}") == "schema user"

    @pytest.mark.parametrize("word", ["caf\u00e9", "\u00c5ngstr\u00f6m", "\ud55c\uae00", "\u1e69"])
    def test_composed_and_decomposed_forms_meet(self, word: str) -> None:
        decomposed = unicodedata.normalize("NFD", word)
        assert decomposed != word
        assert canonical_key(decomposed) == canonical_key(word) != ""

    def test_compatibility_forms_stay_apart(self) -> None:
        assert canonical_key("\ufb01le") != canonical_key("file")

    def test_joiner_between_letter_and_accent_does_not_block_composition(self) -> None:
        assert canonical_key("cafe\u034f\u0301") == canonical_key("caf\u00e9")

    def test_joiner_between_camel_humps_is_gone_before_the_split(self) -> None:
        assert canonical_key("user\u200dSchema") == "schema user"

    def test_emoji_meet_with_and_without_joiners_and_selectors(self) -> None:
        family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
        assert canonical_key(family) == "\U0001f468\U0001f469\U0001f467"
        assert canonical_key("\u2764\ufe0f") == canonical_key("\u2764") == "\u2764"
        assert canonical_key("\U0001f44d\U0001f3fd") != canonical_key("\U0001f44d")

    def test_right_to_left_words_keep_their_letters(self) -> None:
        assert canonical_key("\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627") == (
            "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627"
        )

    def test_token_the_stemmer_erases_leaves_no_hole(self) -> None:
        assert canonical_key("a ''s user") == "user"

    @pytest.mark.parametrize("point", ENDS, ids=names(ENDS))
    def test_ends_of_every_invisible_range_are_erased(self, point: int) -> None:
        assert canonical_key(f"us{chr(point)}er") == "user"

    @pytest.mark.parametrize("point", NEIGHBOURS, ids=names(NEIGHBOURS))
    def test_neighbours_of_every_invisible_range_are_kept(self, point: int) -> None:
        assert canonical_key(f"us{chr(point)}er") != "user"


class TestIndexTokens:
    def test_reading_order_and_repeats(self) -> None:
        assert index_tokens("Users of the userSchema, users") == ["user", "user", "schema,", "user"]

    @pytest.mark.parametrize("text", ["", " ", "the of"])
    def test_nothing_to_index(self, text: str) -> None:
        assert index_tokens(text) == []

    @pytest.mark.parametrize(
        "text",
        [
            '"unclosed',
            "title:x",
            "a*",
            "100%",
            "'; DROP TABLE x;--",
            "\\",
            "(",
            "^",
            ":)",
            "NEAR(x)",
        ],
    )
    def test_query_syntax_of_search_engines_is_only_text(self, text: str) -> None:
        assert index_tokens(text) == index_tokens(f" {text} ") != []

    @pytest.mark.parametrize(
        ("token", "parts"),
        [
            ("schema", ()),
            ("caf\u00e9", ()),
            ("schema,", ("schema",)),
            ("handlers/users.rs", ("handler", "user", "rs")),
            ("3.11", ("3", "11")),
            ("c++", ("c",)),
            ("a/a/users/users", ("user",)),
            ("???", ()),
            ("of/the", ()),
        ],
    )
    def test_words_inside_a_token(self, token: str, parts: tuple[str, ...]) -> None:
        assert parts_of(token) == parts
        assert parts_of(token) == parts  # from memory now

    def test_words_inside_a_token_too_long_to_remember(self) -> None:
        assert parts_of("/".join(["users"] * 50)) == ("user",)

    def test_token_too_long_to_remember_is_stemmed_all_the_same(self) -> None:
        assert index_tokens("bo" * 50 + "ing") == ["bo" * 50]

    def test_threads_do_not_mix_their_words(self) -> None:
        # Unremembered words, so that every call really stems.
        words = [f"{'abcdefgh'[number % 8] * (70 + number % 13)}ational" for number in range(400)]
        expected = [index_tokens(word) for word in words]
        results: list[list[list[str]]] = []
        workers = [
            threading.Thread(target=lambda: results.append([index_tokens(w) for w in words]))
            for _ in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert results == [expected] * 4


class TestHasKey:
    @pytest.mark.parametrize("length", range(1, 8))
    def test_words_that_the_stemmer_may_erase(self, length: int) -> None:
        for letters in product("'seya", repeat=length):
            word = "".join(letters)
            assert has_key(word) == bool(canonical_key(word)), word

    @pytest.mark.parametrize("unit", ["'", "s", "'s", "s'", "''s", "ed", "ing", "ies", "y", "ly"])
    def test_no_long_word_is_erased(self, unit: str) -> None:
        for start in ("", "'", "''", "s", "a"):
            for end in ("", "'", "'s", "'s'", "ingly", "edly", "ies", "sses"):
                word = start + (unit * 17)[:17] + end
                assert canonical_key(word), word
                assert has_key(word), word

    @pytest.mark.parametrize("text", ["", " ", "the of", "\u200b", "''s the", "--__"])
    def test_text_without_a_key(self, text: str) -> None:
        assert not has_key(text)
        assert not canonical_key(text)


class TestCheckText:
    @pytest.mark.parametrize("value", [None, 3, True, ["a"], {"a": 1}, b"a"])
    def test_only_strings(self, value: object) -> None:
        error = refusal(value, field="query")
        assert (error.field, error.message) == ("query", "query must be a non-empty string")
        assert error.code == "invalid_argument"

    def test_only_strings_when_blank_is_allowed(self) -> None:
        with pytest.raises(InvalidArgument, match=r"^chunk must be a string$"):
            check_text("chunk", None, allow_blank=True)

    @pytest.mark.parametrize("value", ["", " ", "\n\t", "\u200d", "\ufe0f \u200c", "\u2028"])
    def test_blank(self, value: str) -> None:
        assert refusal(value).message == "content must be a non-empty string"
        check_text("content", value, allow_blank=True)

    @pytest.mark.parametrize(
        ("unit", "whole"), [("a", 16_384), ("\u00e9", 8_192), ("\U0001f600", 4_096)]
    )
    def test_limit_is_in_bytes(self, unit: str, whole: int) -> None:
        check_text("content", unit * (whole - 1))
        check_text("content", unit * whole)
        check_text("content", unit * (whole - 1) + "x" * len(unit.encode()))
        assert refusal(unit * whole + "x").message == "content exceeds 16384 bytes (16385 given)"

    def test_size_is_told_before_anything_else(self) -> None:
        error = refusal("\x00\u202e\ud800" + "a" * 16_384)
        assert error.message == "content exceeds 16384 bytes (16391 given)"
        assert error.fields["limit_bytes"] == 16_384
        assert error.fields["given_bytes"] == 16_391

    @pytest.mark.parametrize(
        ("value", "told"),
        [
            ("\u202e\x07\ud800", "unpaired surrogate U+D800"),
            ("\u202e\x07", "control character U+0007"),
            (" \u202e", "invisible character U+202E"),
        ],
    )
    def test_order_of_the_character_checks(self, value: str, told: str) -> None:
        assert refusal(value).message == f"content contains the {told}"

    @pytest.mark.parametrize("point", [0xD800, 0xDBFF, 0xDC00, 0xDFFF])
    def test_unpaired_surrogates(self, point: int) -> None:
        told = f"content contains the unpaired surrogate U+{point:04X}"
        assert refusal(f"a{chr(point)}b").message == told

    def test_every_control_character_but_tab_and_newline(self) -> None:
        controls = [n for n in range(0x110000) if unicodedata.category(chr(n)) == "Cc"]
        assert len(controls) == 65
        for point in controls:
            if chr(point) in "\t\n":
                check_text("content", f"a{chr(point)}b")
            else:
                told = f"content contains the control character U+{point:04X}"
                assert refusal(f"a{chr(point)}b").message == told

    @pytest.mark.parametrize("point", ENDS, ids=names(ENDS))
    def test_ends_of_every_invisible_range(self, point: int) -> None:
        value = f"a{chr(point)}b"
        if point in NEEDED_POINTS:
            check_text("content", value)
        else:
            error = refusal(value)
            assert error.message == f"content contains the invisible character U+{point:04X}"
            assert error.fields["code_point"] == f"U+{point:04X}"

    @pytest.mark.parametrize("point", NEIGHBOURS, ids=names(NEIGHBOURS))
    def test_neighbours_of_every_invisible_range_are_legal(self, point: int) -> None:
        check_text("content", f"a{chr(point)}b")

    @pytest.mark.parametrize("point", [0x600, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2])
    def test_arabic_number_signs_are_visible(self, point: int) -> None:
        check_text("content", chr(point))

    @pytest.mark.parametrize(
        "value",
        [
            "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \u2764\ufe0f",
            "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "line\u2028and paragraph\u2029separators",
            "\u845b\U000e0100",
        ],
    )
    def test_real_text_passes(self, value: str) -> None:
        check_text("content", value)


class TestSplitSentences:
    @pytest.mark.parametrize(
        ("chunk", "sentences"),
        [
            ("", []),
            (" \n\t ", []),
            ("One", ["One"]),
            (" One.  Two! Three? ", ["One.", "Two!", "Three?"]),
            ("Version 3.4 works. It does.", ["Version 3.4 works.", "It does."]),
            ("In the U.S. today. Not here.", ["In the U.S. today.", "Not here."]),
            ("See e.g. this one. Next.", ["See e.g. this one.", "Next."]),
            ("It fell. \u2014 so they said.", ["It fell. \u2014 so they said."]),
            ("He said (no.) Then left.", ["He said (no.)", "Then left."]),
            ("Really?! Yes.", ["Really?!", "Yes."]),
            ("a line\nanother\r\n\r\nthird", ["a line", "another", "third"]),
            ("one\u2029two\u2028three", ["one", "two", "three"]),
            ("\u597d\u3002\u662f\u3002", ["\u597d\u3002", "\u662f\u3002"]),
            ("Stop.\u0301 Go.", ["Stop.\u0301", "Go."]),
            ("Stop. \u200d\n\u200d\nGo.", ["Stop. \u200d", "Go."]),
        ],
    )
    def test_example(self, chunk: str, sentences: list[str]) -> None:
        assert split_sentences(chunk) == sentences

    def test_same_sentence_twice_stays_twice(self) -> None:
        assert split_sentences("It broke. It broke.") == ["It broke.", "It broke."]

    @pytest.mark.parametrize(
        "build",
        [
            lambda n: "a." + " " * n,
            lambda n: "a." + ")" * n,
            lambda n: "." * n,
            lambda n: ". " * (n // 2),
            lambda n: ". 1" * (n // 3),
            lambda n: "a. " + "1" * n,
            lambda n: ".\u0301" * (n // 2),
        ],
    )
    def test_hostile_text_takes_no_quadratic_time(self, build: Callable[[int], str]) -> None:
        # About 7 ms a chunk when linear, minutes when quadratic; the bound leaves room for slow CI.
        started = time.perf_counter()
        split_sentences(build(16_000))
        assert time.perf_counter() - started < 2.0


def test_a_long_text_has_a_key_wherever_its_first_real_word_stands() -> None:
    assert has_key("the " * 2_000 + "schema")
    assert has_key("schema " + "the " * 2_000)
    assert not has_key("the " * 2_000)
    # The head of a text is cut at a space, so that half a stop word is not taken for a word.
    for shift in range(8):
        assert not has_key(" " * shift + "are the " * 500)
