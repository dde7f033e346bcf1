from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.merge_calibration import (
    DEVELOP,
    HELD_OUT,
    PRECISION_MIN,
    RECALL_MIN,
    Measured,
    judge,
    load_pairs,
    measure,
    of_split,
)
from memory.embed.registry import build_embedder
from memory.engine.embedding import MINILM, calibration_of
from memory.engine.lexical_veto import VetoReason, find_veto, same_identifiers

REFUSED = [
    ("identifiers", "The bug is in src/a.py", "The bug is in src/b.py"),
    ("identifiers", "get_user reads twice", "get_order reads twice"),
    ("identifiers", "user-service owns the table", "order-service owns the table"),
    ("identifiers", "PR #214 fixes it", "PR #241 fixes it"),
    ("versions", "It runs on Python 3.11", "It runs on Python 3.12"),
    ("versions", "The API is at version 2", "The API is at version 3"),
    ("versions", "v1.4.0 broke it", "v1.4.1 broke it"),
    ("numbers", "The billing service retries three times", "The billing service retries 5 times"),
    ("numbers", "It waits 30 s", "It waits 30 minutes"),
    ("numbers", "It runs every hour", "It runs daily"),
    ("numbers", "The canary gets 5% of it", "The canary gets half of it"),
    ("numbers", "The fee is -5", "The fee is 5"),
    ("names", "Alice owns the gateway", "Bob owns the gateway"),
    ("names", "Okonkwo signs the budget", "Lindqvist signs the budget"),
    ("names", "events go to kafka", "events go to rabbitmq"),
    ("names", "We deploy to Frankfurt", "We deploy to Dublin"),
    ("names", "Bills come from the billing service", "Mails come from the mail service"),
    ("negation", "The cache is enabled", "The cache is not enabled"),
    ("negation", "Guests see prices", "Guests don’t see prices"),
    ("negation", "We deploy by hand", "We used to deploy by hand"),
    ("negation", "API calls are cached, not pages", "pages are cached, not API calls"),
    ("opposites", "The flag is enabled", "The flag is disabled"),
    ("opposites", "Backups are encrypted", "Backups are unencrypted"),
    ("opposites", "Logs are kept before the upload", "Logs are kept after the upload"),
    ("roles", "Prefer composition over inheritance", "Prefer inheritance over composition"),
    ("roles", "The API calls the worker", "The worker calls the API"),
    ("roles", "It was raised from 3 to 5", "It was raised from 5 to 3"),
    ("substitution", "Sessions are kept in memory", "Sessions are kept on disk"),
    ("substitution", "🎉", "🔥"),
    ("negation", "Der Cache ist aktiv", "Der Cache ist nicht aktiv"),
    ("negation", "Кэш включён", "Кэш не включён"),
    ("negation", "缓存已启用", "缓存未启用"),
    ("numbers", "服务会重试三次", "服务会重试五次"),
]

PASSED = [
    ("The billing service retries three times", "The billing service retries 3 times."),
    ("The billing service retries three times", "The billing service tries again three times"),
    ("The billing service retries three times", "The invoicing service tries again 3 times"),
    ("The worker fetches the file", "The worker fetched the file"),
    ("It waits 90 seconds", "It waits 1.5 minutes"),
    ("It runs weekly", "It runs every week"),
    ("It runs daily", "It runs once a day"),
    ("The limit is 1,000 requests a minute", "The limit is 1000 requests per minute"),
    ("Discounts above 15 % need approval", "Discounts above 15% need approval"),
    ("A two-week freeze", "A freeze of 2 weeks"),
    ("getUser reads the cache", "get_user reads the cache"),
    ("Log-in uses OAuth", "Login uses OAuth"),
    ("Users can't pay", "Users cannot pay"),
    ("We use Postgres for billing", "We use PostgreSQL for billing"),
    ("The UI is slow", "The user interface is slow"),
    ("The flag is not enabled", "The flag is disabled"),
    ("Requests without a token are refused", "A missing token makes requests fail"),
    ("Not only admins see this page", "Guests see this page as well as admins"),
    ("Migrations run before the start", "The start comes after the migrations have run"),
    ("At night the queue is drained", "The queue is drained at night"),
    ("Latency and throughput are measured", "Throughput and latency are measured"),
    ("The worker is called by the API", "The API calls the worker"),
    ("We organise code by feature", "We organize code by feature"),
    ("Old files are deleted", "Old files are removed"),
    ("The key used to sign tokens is rotated", "The token signing key is rotated"),
    ("It retries 3 times", "It retries"),
    ("Die Nachricht geht an den Kunden", "An den Kunden geht die Nachricht raus"),
    ("same", "same"),
    ("", ""),
]


@pytest.mark.parametrize(("reason", "left", "right"), REFUSED)
def test_contradiction_is_refused_from_both_sides(reason: str, left: str, right: str) -> None:
    veto, mirrored = find_veto(left, right), find_veto(right, left)
    assert veto is not None
    assert mirrored is not None
    assert veto.reason == mirrored.reason == VetoReason(reason)


@pytest.mark.parametrize(("left", "right"), PASSED)
def test_restatement_passes_from_both_sides(left: str, right: str) -> None:
    assert find_veto(left, right) is None
    assert find_veto(right, left) is None


def test_veto_names_the_words_that_differ() -> None:
    veto = find_veto("Orders run on Django 4.2 for Alice", "Orders run on Django 5.2 for Alice")
    assert veto is not None
    assert (veto.left, veto.right) == (("4.2",), ("5.2",))


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_two_texts_are_judged_alike_from_both_sides(left: str, right: str) -> None:
    assert (find_veto(left, right) is None) == (find_veto(right, left) is None)
    assert find_veto(left, left) is None


_LANGUAGE = """
the a api calls worker not no never over before after on off 3 three 3.11 seconds Alice Bob
user-service user_id don't enabled disabled billing service used we to
"""
_WORDS = st.sampled_from(_LANGUAGE.split())


@given(st.lists(_WORDS, max_size=14), st.lists(_WORDS, max_size=14))
def test_any_two_sentences_are_judged_alike_from_both_sides(
    left: list[str], right: list[str]
) -> None:
    one, two = " ".join(left), " ".join(right)
    veto, mirrored = find_veto(one, two), find_veto(two, one)
    assert (veto and veto.reason) == (mirrored and mirrored.reason)


@pytest.mark.parametrize(
    "word", ["1", "a-b", "Name", "x service", "not", "src/a.py", "-", "９", "1" * 400, "²"]
)
def test_longest_legal_texts_of_one_kind_are_judged(word: str) -> None:
    """Each used to be a way to quadratic time or to a number past the floats."""
    text = " ".join([word] * (16_000 // (len(word) + 1)))
    numbered = " ".join(f"{word}{place}" for place in range(2_000))
    assert find_veto(text, text + " z") == find_veto(text, text + " z")
    find_veto(numbered, text)


# -- the identifiers guard -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("uses v0.5.0", "Uses V0.5.0.", True),
        ("uses v0.5.0", "uses v0.6.0", False),
        ("round3 of src/a.rs", "src/a.rs, round3", True),
        ("3 and 5", "5 and 3", True),
        ("3 and 3", "3", False),
        ("three times", "3 times", False),
        ("see (config.yaml)", "see config.yaml", True),
        ("no identifiers here", "none there", True),
        ("Python 3", "Python", False),
    ],
)
def test_identifiers_are_compared_as_multisets(left: str, right: str, same: bool) -> None:
    assert same_identifiers(left, right) is same
    assert same_identifiers(right, left) is same


# -- the labelled set ------------------------------------------------------------------------------


@cache
def measured() -> tuple[Measured, ...]:
    """The labelled set under the default embedder; measured once for all tests."""
    embedder = build_embedder("minilm")
    assert embedder is not None
    try:
        return tuple(measure(embedder, load_pairs()))
    finally:
        embedder.close()


def test_labelled_set_is_large_varied_and_split() -> None:
    pairs = load_pairs()
    assert len(pairs) >= 160
    assert len({pair.id for pair in pairs}) == len(pairs)
    assert len({frozenset((pair.left, pair.right)) for pair in pairs}) == len(pairs)
    halves = [sum(pair.split == half for pair in pairs) for half in (DEVELOP, HELD_OUT)]
    assert sum(halves) == len(pairs)
    assert min(halves) >= 0.45 * len(pairs)
    by_group = {pair.group: pair.is_same for pair in pairs}
    assert len(by_group) >= 12
    assert all(by_group[pair.group] == pair.is_same for pair in pairs)


@pytest.mark.slow
def test_merges_of_the_default_are_precise_and_find_enough() -> None:
    verdict = judge(measured(), calibration_of(MINILM).merge_threshold)
    assert verdict.precision >= PRECISION_MIN
    assert verdict.recall >= RECALL_MIN


@pytest.mark.slow
def test_merges_of_the_default_are_precise_on_pairs_the_veto_was_not_written_for() -> None:
    verdict = judge(of_split(measured(), HELD_OUT), calibration_of(MINILM).merge_threshold)
    assert verdict.precision >= PRECISION_MIN
    assert verdict.recall >= RECALL_MIN


@pytest.mark.slow
def test_without_the_veto_the_same_line_joins_mostly_what_contradicts() -> None:
    """The reason for all of this; if an embedder ever learns the difference, we want to know."""
    verdict = judge(measured(), calibration_of(MINILM).merge_threshold, with_veto=False)
    assert verdict.precision < 0.6
