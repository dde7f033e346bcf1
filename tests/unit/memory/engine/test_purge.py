"""What a purge blanks in the graph, and by which rules a text is recognised elsewhere."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graph_writing import Scribe, concept, observation, reopened
from memory.engine.disappearance import read_removed
from memory.engine.draft import excerpt
from memory.engine.errors import ConceptNotFound, InvalidArgument, TextPurged
from memory.engine.mutations import PurgeText, PutAudit
from memory.engine.purge import (
    PurgeResult,
    find_target,
    plan_purge,
    search_graph,
    texts_of,
    with_earlier,
)
from memory.engine.requests import PurgeRequest
from memory.engine.showing import in_passing
from memory.engine.snapshot import take_snapshot
from memory.engine.text import strip_invisible
from memory.engine.traces import (
    BLANK,
    blanked,
    blanked_entry,
    holds,
    may_hold,
    needles_of,
    spelling,
)
from memory.engine.types import AuditEntry, AuditKind, EdgeType, Json

SECRET = "the password is xylophone9"


def written() -> Scribe:
    scribe = Scribe()
    scribe.derive(SECRET, "login")
    scribe.derive(concept("login", depends_on=[SECRET]))
    scribe.derive(concept("gate", depends_on=["login"]))
    return scribe


def entry_of(scribe: Scribe, kind: AuditKind) -> AuditEntry:
    (entry,) = (
        item.entry for item in scribe.last if isinstance(item, PutAudit) and item.entry.kind is kind
    )
    return entry


def purged(
    scribe: Scribe,
    name: str,
    removals: list[AuditEntry] | None = None,
    *,
    confirm: bool = True,
    reason: str | None = None,
) -> PurgeResult:
    removals = removals or []
    target = with_earlier(find_target(scribe.graph, name, removals), removals)
    request = PurgeRequest(name, target.concept_id if confirm else None, reason)
    plan = plan_purge(
        scribe.graph,
        request,
        target,
        {"receipt": 2},
        actor="human",
        now=scribe.now,
        ids=scribe.ids,
    )
    scribe.graph.apply_all(plan.mutations)
    scribe.last = plan.mutations
    return plan.result


def everything(scribe: Scribe) -> str:
    return str(take_snapshot(scribe.graph))


def test_without_confirmation_nothing_is_done_and_all_of_it_is_told() -> None:
    scribe = written()
    before = take_snapshot(scribe.graph)
    result = purged(scribe, SECRET, confirm=False)
    assert take_snapshot(scribe.graph) == before
    assert result.content == SECRET
    assert dict(result.blanked) == {"concept": 1, "interaction": 1, "receipt": 2}
    assert "nothing was done" in result.text
    assert result.as_wire()["purged"] is False


def test_a_live_concept_goes_with_its_edges_and_the_prompts_that_wrote_it() -> None:
    scribe = written()
    secret = scribe.id(SECRET)
    login = scribe.id("login")
    result = purged(scribe, SECRET)
    assert "xylophone9" not in everything(scribe)
    assert "xylophone9" not in str(result)
    assert "xylophone9" not in str(
        [item for item in scribe.last if not isinstance(item, PurgeText)]
    )
    assert not scribe.graph.has_node(secret)
    assert scribe.graph.has_node(login)
    prompts = [interaction.prompt_text for interaction in scribe.graph.interactions()]
    assert prompts == [None, "login", "gate"]
    entry = entry_of(scribe, AuditKind.PURGE)
    assert (entry.node_id, entry.actor, entry.removed, entry.texts) == (secret, "human", None, None)
    assert entry.detail["counts"] == dict(result.blanked)
    assert scribe.last[-1] == PurgeText((secret,), SECRET)
    assert take_snapshot(reopened(scribe.graph)) == take_snapshot(scribe.graph)


def test_a_removed_concept_can_be_purged_by_id_and_by_text() -> None:
    for by_text in (False, True):
        scribe = written()
        scribe.retract(SECRET)
        removal = entry_of(scribe, AuditKind.RETRACT)
        assert removal.node_id is not None
        result = purged(scribe, SECRET if by_text else removal.node_id, [removal])
        assert "xylophone9" not in everything(scribe)
        assert dict(result.blanked) == {"interaction": 1, "receipt": 2}


def test_an_earlier_concept_of_the_same_text_goes_with_it() -> None:
    scribe = written()
    scribe.retract(SECRET)
    removal = entry_of(scribe, AuditKind.RETRACT)
    scribe.derive(SECRET)
    again = scribe.id(SECRET)
    assert removal.node_id is not None
    purged(scribe, SECRET, [removal])
    assert "xylophone9" not in everything(scribe)
    last = scribe.last[-1]
    assert isinstance(last, PurgeText)
    assert last.concept_ids == tuple(sorted([again, removal.node_id]))


def test_prompts_of_writers_go_whole_however_they_spelt_it() -> None:
    scribe = Scribe()
    scribe.derive("user schema")
    scribe.derive("User   Schemas")
    scribe.derive("other")
    purged(scribe, "user schema")
    prompts = [interaction.prompt_text for interaction in scribe.graph.interactions()]
    assert prompts == [None, None, "other"]


def test_synonyms_and_goals_that_hold_the_text_go() -> None:
    scribe = written()
    scribe.declare_synonym("pw", SECRET)
    scribe.declare_synonym("sign-in", "login")
    scribe.set_goal("ship it", f"never tell {SECRET}")
    result = purged(scribe, SECRET)
    assert scribe.graph.synonyms == {"sign-in": "login"}
    assert scribe.graph.root_goal == ["ship it"]
    assert result.blanked["synonym"] == result.blanked["root_goal"] == 1
    assert "xylophone9" not in everything(scribe)


@pytest.mark.parametrize(
    ("goal", "left"),
    [
        (SECRET, None),
        ({"content": SECRET}, None),
        ([SECRET], None),
        (["a", 1, SECRET], ["a", 1]),
        ("other", "other"),
    ],
)
def test_goals_of_any_shape_lose_the_text(goal: Json, left: Json) -> None:
    scribe = written()
    scribe.graph.root_goal = goal
    purged(scribe, SECRET)
    assert scribe.graph.root_goal == left


def test_other_concepts_keep_their_words_and_are_counted() -> None:
    scribe = written()
    scribe.derive(f"rotate it: {SECRET}", observation("xylophone9 alone"))
    other = scribe.id(f"rotate it: {SECRET}")
    result = purged(scribe, SECRET)
    assert (result.still_in, result.still_in_count) == ((other,), 1)
    assert scribe.graph.has_node(other)
    assert other in result.text


def test_confirmation_of_something_else_is_refused() -> None:
    scribe = written()
    target = find_target(scribe.graph, SECRET, [])
    request = PurgeRequest(SECRET, scribe.id("login"))
    with scribe.refused(InvalidArgument, field="confirm"):
        plan_purge(scribe.graph, request, target, {}, actor="a", now=scribe.now, ids=scribe.ids)


@pytest.mark.parametrize("name", ["", " ", "*", "%", "nobody wrote this"])
def test_odd_names_purge_nothing(name: str) -> None:
    scribe = written()
    with scribe.refused(InvalidArgument if not name.strip() else ConceptNotFound):
        purged(scribe, PurgeRequest(name).concept)


def test_what_was_purged_cannot_be_purged_again() -> None:
    scribe = written()
    scribe.retract(SECRET)
    removal = entry_of(scribe, AuditKind.RETRACT)
    assert removal.node_id is not None
    purged(scribe, removal.node_id, [removal])
    with scribe.refused(TextPurged):
        purged(scribe, removal.node_id, [removal._replace(removed=None, texts=None)])


def test_a_reason_that_quotes_the_text_is_not_kept() -> None:
    scribe = written()
    purged(scribe, SECRET, reason=f"somebody wrote {SECRET}")
    assert entry_of(scribe, AuditKind.PURGE).reason is None
    purged(scribe, "gate", reason="asked for")
    assert entry_of(scribe, AuditKind.PURGE).reason == "asked for"


def test_replaying_a_purge_changes_nothing_more() -> None:
    scribe = written()
    scribe.declare_synonym("pw", SECRET)
    purged(scribe, SECRET)
    after = take_snapshot(scribe.graph)
    scribe.graph.apply_all(scribe.last)
    assert take_snapshot(scribe.graph) == after


# -- how a text is recognised ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "short",
        "two\nlines and\ttabs",
        "long " * 60,
        "lines\n" * 60,
        "  blanks   in   it  ",
        'quotes " and \\ too',
    ],
)
def test_every_way_in_which_a_content_is_shown_holds_a_needle(content: str) -> None:
    needles = needles_of(content)
    for shown in (content, f"x {content}", excerpt(content), in_passing(content), content[:200]):
        assert holds(f"removed '{shown}'", needles), shown


def test_blanking_takes_whole_strings_and_leaves_names_and_numbers() -> None:
    value: Any = {"a": [1, None, True, f"it is {SECRET}!"], SECRET: "kept", "b": {"c": "other"}}
    expected = {"a": [1, None, True, BLANK], SECRET: "kept", "b": {"c": "other"}}
    assert blanked(value, needles_of(SECRET)) == expected
    assert blanked(expected, needles_of(SECRET)) == expected


def test_in_the_removed_state_of_another_only_labels_are_blanked() -> None:
    scribe = written()
    secret = scribe.id(SECRET)
    scribe.derive(f"rotate it: {SECRET}")
    other, login = scribe.id(f"rotate it: {SECRET}"), scribe.id("login")
    entries = {}
    for name in (other, login):
        scribe.retract(name)
        entries[name] = entry_of(scribe, AuditKind.RETRACT)
    needles = needles_of(SECRET)
    kept = blanked_entry(entries[other], needles, (secret,))
    assert kept.texts == {"content": f"rotate it: {SECRET}"}
    assert read_removed(kept.removed).concept.content == f"rotate it: {SECRET}"
    after = blanked_entry(entries[login], needles, (secret,))
    removed = read_removed(after.removed)
    assert removed.names[secret] == BLANK
    assert removed.concept.content == "login"
    assert removed.edges == read_removed(entries[login].removed).edges
    assert {edge.edge_type for edge in removed.edges} >= {EdgeType.DEPENDENCY}


def test_goals_synonyms_and_prompts_that_spell_the_text_otherwise_go_too() -> None:
    """Only the very spelling was looked for: a goal in lower case kept the secret."""
    scribe = Scribe()
    text = "Secret Project Xylophon Zebra"
    scribe.derive(text, "other")
    scribe.derive("zebra project: xylophons secret!")
    scribe.derive("meet at the zebra")
    scribe.declare_synonym("Secret project XYLOPHON zebra", "other")
    scribe.declare_synonym("codename", "zebra   xylophon secret project")
    scribe.declare_synonym("zebra", "other")
    scribe.set_goal("guard the secret\tproject xylophon zebra", "guard the zebra")
    result = purged(scribe, text)
    assert scribe.graph.root_goal == ["guard the zebra"]
    assert scribe.graph.synonyms == {"zebra": "other"}
    assert dict(result.blanked) == {
        **{"concept": 1, "interaction": 1, "synonym": 2, "root_goal": 1, "receipt": 2}
    }


def test_what_was_written_since_the_graph_was_searched_is_purged_as_well() -> None:
    scribe = written()
    target = find_target(scribe.graph, SECRET, [])
    searched = search_graph(texts_of(scribe.graph), SECRET)
    scribe.derive(concept(f"rotate: {SECRET}"))
    scribe.declare_synonym("pw", SECRET.upper())
    request = PurgeRequest(SECRET, target.concept_id)
    plan = plan_purge(
        scribe.graph,
        request,
        target,
        {},
        actor="human",
        now=scribe.now,
        ids=scribe.ids,
        searched=searched,
    )
    scribe.graph.apply_all(plan.mutations)
    assert scribe.graph.synonyms == {}
    prompts = [interaction.prompt_text for interaction in scribe.graph.interactions()]
    assert prompts == [None, "login", "gate", None]


@pytest.mark.parametrize("content", ["\\", "⏎", "\\ ⏎", "the", "a", "'"])
def test_a_text_of_marks_or_stop_words_is_no_reason_to_blank_everything(content: str) -> None:
    needles = needles_of(content)
    assert holds(content, needles)
    assert not holds("", needles)
    assert not holds("buy milk", needles) or content == "a"
    assert not holds("if you", needles)


@pytest.mark.parametrize(
    "content", ['don\'t say "x\\y"', "tab\u00a0and 'one' \"two\"", "zwj a\u200db " * 9]
)
def test_what_python_quotes_is_recognised_whatever_quotes_it_holds(content: str) -> None:
    """With both kinds of quotes the quoted form escapes one, and a refusal kept the text."""
    assert holds(f"no concept matching {excerpt(content)!r}", needles_of(content))


@given(st.text(max_size=120), st.text(max_size=20), st.text(max_size=20))
def test_every_spelling_of_a_text_holds_it_wherever_it_stands(
    content: str, before: str, after: str
) -> None:
    assume(spelling(content))
    needles = needles_of(content)
    for spelt in (content.upper(), content.casefold(), unicodedata.normalize("NFD", content)):
        # Plain: compared as wholes, folded until nothing changes.
        if folded_again(content) in folded_again(spelt):
            assert holds(spelt, needles), spelt
    for text in (f"{before} {content} {after}", f"{before} {content[:79]}"):
        assert holds(text, needles), text
        assert may_hold(json.dumps({"a": [text]}, ensure_ascii=False), needles)


def folded_again(text: str) -> str:
    kept = "".join(sign for sign in text if sign not in "\\⏎")
    kept = unicodedata.normalize("NFC", strip_invisible(kept))
    return " ".join(unicodedata.normalize("NFC", kept.casefold()).split())
