"""Any text at all, in any field: refused naming the field, or stored and read back unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from graph_writing import Scribe, concept, reopened
from memory.engine.errors import InvalidArgument
from memory.engine.requests import (
    ActionRequest,
    Caller,
    ConceptInput,
    DemoteRequest,
    DeriveRequest,
    RecallRequest,
    ReserveRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.snapshot import take_snapshot
from memory.engine.types import ConceptType
from memory.engine.wire import snapshot_from_json, snapshot_to_json

# All code points, lone surrogates and controls with them; and those that tend to be mishandled.
AWKWARD = "\x00\t\n\r\x1b\x7f\x85\u00ad\u200b\u200d\u202e\u2028\ud800\udfff\ufeff\ufe0f👩é-_ the"
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30) | st.text(
    st.sampled_from(AWKWARD), max_size=30
)

E = ConceptType.ENTITY
ALPHA = ConceptInput("alpha", E)
FIELDS: dict[str, Callable[[str], object]] = {
    "concepts[0].content": lambda text: DeriveRequest((ConceptInput(text, E),)),
    "concepts[0].depends_on[0]": lambda text: DeriveRequest((ConceptInput("a b", E, (text,)),)),
    "concepts[0].against[0]": lambda text: DeriveRequest((ConceptInput("a b", E, (), (text,)),)),
    "parent_of[0].parent": lambda text: DeriveRequest((ALPHA,), ((text, "leaf node"),)),
    "parent_of[0].child": lambda text: DeriveRequest((ALPHA,), (("top node", text),)),
    "action": ActionRequest,
    "produces[0]": lambda text: ActionRequest("act", produces=(text,)),
    "modifies[0]": lambda text: ActionRequest("act", modifies=(text,)),
    "depends_on[0]": lambda text: ActionRequest("act", depends_on=(text,)),
    "against[0]": lambda text: ActionRequest("act", against=(text,)),
    "query": RecallRequest,
    "concept": RetractRequest,
    "node_id": ReserveRequest,
    "chunk": lambda text: DemoteRequest(text, "group"),
    "chunk_group_id": lambda text: DemoteRequest("x", text),
    "goals[0]": lambda text: RootGoalRequest((text,)),
    "source": lambda text: SynonymRequest(text, "something else entirely"),
    "target": lambda text: SynonymRequest("something else entirely", text),
    "agent_id": Caller,
    "idempotency_key": lambda text: Caller("agent-a", text),
}


@given(st.sampled_from(sorted(FIELDS)), ANY_TEXT)
@settings(max_examples=400, deadline=None)
def test_text_when_refused_then_its_field_is_named_and_the_message_can_be_printed(
    field: str, text: str
) -> None:
    error = refusal(field, text)
    if error is None:
        text.encode()  # no lone surrogate passed: what is accepted can be stored
        assert "\x00" not in text
        return
    assert error.fields["field"] == field
    assert error.message.startswith(field)
    assert error.message.isprintable()
    json.dumps(error.as_wire()).encode()


def refusal(field: str, text: str) -> InvalidArgument | None:
    try:
        FIELDS[field](text)
    except InvalidArgument as error:
        return error
    return None


def write(scribe: Scribe, field: str, text: str) -> list[str]:
    """Store the text in that role; returns where it should stand now."""
    match field:
        case "content":
            scribe.derive(concept(text))
        case "observation":
            scribe.derive(concept(text, ConceptType.OBSERVATION))
        case "parent":
            scribe.derive("alpha", parent_of=[(text, "leaf node")])
        case "target":
            scribe.act("act", produces=[text])
        case "action":
            scribe.act(text)
        case "goal":
            scribe.set_goal(text)
            return list(scribe.graph.root_goal)
    return [scribe.graph.content_at(row) for row in scribe.graph.concept_rows()]


@given(
    st.sampled_from(["content", "observation", "parent", "target", "action", "goal"]),
    ANY_TEXT | ANY_TEXT.map(lambda text: f"word {text} word"),
)
@example("content", " e\u0301\u200d\u2028 \t\n")
@settings(max_examples=400, deadline=None)
def test_text_when_accepted_then_reads_back_byte_for_byte_from_graph_and_file(
    field: str, text: str
) -> None:
    scribe = Scribe()
    try:
        stored = write(scribe, field, text)
    except InvalidArgument:
        assert scribe.graph.epoch == 0
        return
    assert text.encode() in [one.encode() for one in stored]
    snapshot = take_snapshot(scribe.graph)
    for wire in (snapshot_to_json(snapshot), through_bytes(snapshot_to_json(snapshot))):
        assert snapshot_from_json(wire) == snapshot
    assert take_snapshot(reopened(scribe.graph)) == snapshot


def through_bytes(wire: dict[str, Any]) -> Any:
    return json.loads(json.dumps(wire, ensure_ascii=False).encode())


@given(ANY_TEXT.map(lambda text: f"word {text}"))
@settings(max_examples=200, deadline=None)
def test_text_when_accepted_then_names_its_concept_again(text: str) -> None:
    scribe = Scribe()
    try:
        scribe.derive(text)
    except InvalidArgument:
        return
    node = scribe.id(text)
    assert scribe.derive(text).matched == (node,)
    scribe.derive(concept("other thing entirely", depends_on=[text]))
    assert scribe.retract(text).target == node
