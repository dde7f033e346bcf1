from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory.engine.event_texts import REMOVED, named_concepts, shown
from memory.engine.events import events_of
from memory.engine.mutations import Call, LoggedEvent, Receipt
from memory.engine.types import Json

SECRET = "the key is 17"
LIVE = {"a", "b"}
IDS = st.sampled_from(["a", "b", "gone", "lost"])


def reading(data: Json) -> Any:
    return shown(data, LIVE.__contains__)


def written(verb: str, **reply: Any) -> LoggedEvent:
    receipt = Receipt("ann", "k", verb, "digest", {"structured": reply}, 1, 1)
    call = Call(verb, "ann", "k", "digest", "{}")
    (event,) = events_of((), after_id=0, content_of=lambda _: None, call=call, receipt=receipt)
    return event


def test_a_text_goes_with_its_concept_and_the_rest_stays() -> None:
    told = {"node_id": "gone", "content": SECRET, "detail": "two agents", "agents": ["ann"]}
    assert reading(told) == {**told, "content": REMOVED}
    assert told["content"] == SECRET


def test_of_several_concepts_only_those_that_are_gone_lose_their_texts() -> None:
    data = {
        "verb": "derive",
        "summary": "derived 2 concept(s)",
        "created": ["a", "gone"],
        "concepts": [{"node_id": "a", "content": "x"}, {"node_id": "gone", "content": SECRET}],
        "replacement_candidates": [{"new": "a", "id": "gone", "excerpt": SECRET, "cosine": 0.5}],
    }
    told = reading(data)
    assert SECRET not in json.dumps(told)
    assert told["summary"] == "derived 2 concept(s)"
    assert told["created"] == ["a", "gone"]
    assert [one["content"] for one in told["concepts"]] == ["x", REMOVED]


def test_the_summary_of_an_action_and_the_names_of_lost_edges_go_too() -> None:
    assert reading({"action_node": "gone", "summary": SECRET})["summary"] == REMOVED
    back = {"node_id": "a", "content": "x", "lost_edges": [{"other_end": "lost", "name": SECRET}]}
    assert reading(back) == {**back, "lost_edges": [{"other_end": "lost", "name": REMOVED}]}


def test_a_retraction_tells_no_text_even_of_what_lives() -> None:
    reply = {"summary": f"removed '{SECRET}'", "target": "a", "content": SECRET}
    event = written("retract", **reply, dependents=[SECRET], blast_radius=1)
    assert event.data == {
        **{"verb": "retract", "summary": "removed a", "target": "a", "blast_radius": 1}
    }
    assert reading({"verb": "retract", **reply, "dependents": [SECRET]}) == {
        **{"verb": "retract", "summary": "removed a", "target": "a"}
    }


def test_an_action_cut_for_its_length_still_says_whose_text_its_summary_tells() -> None:
    event = written("record-action", summary=SECRET, action_node="gone", created=["x" * 40_000])
    assert isinstance(event.data, dict)
    assert event.data["is_cut"] is True
    assert reading(event.data)["summary"] == REMOVED


def test_texts_that_are_no_concepts_stay() -> None:
    for data in (
        {"verb": "synonym", "summary": "'a' is now read as 'b'", "source": "a", "target": "gone"},
        {"verb": "root-goal", "summary": "root goal set", "goals": ["gone"], "promoted": []},
        {"work": "sweep", "concepts_collected": 4},
        {"node_id": "gone", "detail": "no activity", "content": None},
        None,
    ):
        assert reading(data) is data


@given(IDS, IDS, st.lists(st.tuples(IDS, st.booleans()), max_size=5))
def test_no_text_of_what_is_gone_is_told_and_reading_twice_changes_nothing(
    node_id: str, other_end: str, made: list[tuple[str, bool]]
) -> None:
    data: Json = {
        "node_id": node_id,
        "summary": f"text of {node_id}",
        "lost_edges": [{"other_end": other_end, "name": f"text of {other_end}"}],
        "concepts": [
            {"node_id": name, "content": f"text of {name}" if has_text else None}
            for name, has_text in made
        ],
    }
    told = reading(data)
    for name in ("gone", "lost"):
        assert f"text of {name}" not in json.dumps(told)
    for name in LIVE & set(named_concepts(data)):
        assert f"text of {name}" in json.dumps(told)
    assert reading(told) == told
