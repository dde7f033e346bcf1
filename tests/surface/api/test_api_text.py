"""One rule for text on every way in: characters, queries, times, sizes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambo_site.asgi import dispatch
from mcp_bridge.tools import CallContext
from memory.engine.errors import InvalidArgument
from memory.engine.limits import LIMIT_TEXT_BYTES
from memory.verbs import VERBS
from surface.api.callers import ARGUMENTS, BASE, OPERATOR, Api, error_of, path_of

CONTEXT = CallContext(session="s", agent_id="ann")


def derive_of(*contents: str, **fields: Any) -> dict[str, Any]:
    concepts = [{"content": content, "concept_type": "entity"} for content in contents]
    return {"concepts": concepts, **fields}


def text_places(verb: str) -> list[tuple[str, dict[str, Any]]]:
    """Every place of a verb's arguments where text stands, with a call that has a mark there."""
    whole: dict[str, dict[str, Any]] = {
        "derive": {
            "concepts": [
                {
                    "content": "alpha",
                    "concept_type": "entity",
                    "depends_on": ["beta"],
                    "against": ["gamma"],
                }
            ],
            "parent_of": [{"parent": "delta", "child": "epsilon"}],
            "event_time": "2026-01-31T12:00:00Z",
        },
        "record-action": {
            "action": "alpha",
            "produces": ["beta"],
            "modifies": ["gamma"],
            "depends_on": ["delta"],
            "against": ["epsilon"],
        },
        "reserve": {"concept": "alpha"},
        "release": {"node_id": "alpha"},
    }
    arguments = {"agent_id": "ann", **whole.get(verb, ARGUMENTS[verb])}
    found: list[tuple[str, dict[str, Any]]] = []

    def visit(node: Any, path: str, rebuild: Any) -> None:
        if isinstance(node, str):
            found.append((path, rebuild("\u0001")))
        elif isinstance(node, dict):
            for key, child in node.items():
                visit(
                    child,
                    f"{path}.{key}" if path else key,
                    lambda new, key=key: rebuild({**node, key: new}),
                )
        elif isinstance(node, list):
            for at, child in enumerate(node):
                visit(
                    child,
                    f"{path}[{at}]",
                    lambda new, at=at: rebuild([*node[:at], new, *node[at + 1 :]]),
                )

    visit(arguments, "", lambda new: new)
    return found


PLACES = [
    (name, field, payload)
    for name, verb in VERBS.items()
    if verb.method == "POST"
    for field, payload in text_places(name)
]


@pytest.mark.parametrize("escape", ["\\u0000", "\\ud800", "\\u0007", "\\u202e", "\\ud83d\\u0041"])
@pytest.mark.parametrize(
    ("name", "field", "payload"), PLACES, ids=[f"{name}-{field}" for name, field, _ in PLACES]
)
async def test_character_that_may_not_be_stored_is_refused_by_field(
    api: Api, name: str, field: str, payload: dict[str, Any], escape: str
) -> None:
    body = json.dumps(payload).replace("\\u0001", f"x{escape}")
    path = path_of(VERBS[name], "s", {}).removeprefix(BASE)
    response = await api.post(path, body, OPERATOR)
    assert response.status_code == 422
    assert error_of(response)["field"] == field
    assert (await api.verb("session-list")).json()["sessions"] == []


async def test_refused_characters_leave_the_session_writable(api: Api) -> None:
    for number in range(10):
        bad = await api.verb("derive", derive_of("nul \x00 byte"))
        assert bad.status_code == 422
        assert (await api.verb("derive", derive_of(f"an ordinary fact {number}"))).is_success
    stats = (await api.verb("stats")).json()
    assert stats["concept_count"] == 10
    assert stats["flush_depth"] == 0


async def test_one_bad_item_of_fifty_is_named_and_nothing_is_stored(api: Api) -> None:
    contents = [f"fact number {number}" for number in range(50)]
    contents[31] = "half a \ud800 pair"
    response = await api.post(
        "/sessions/s/derive", json.dumps({"agent_id": "ann", **derive_of(*contents)})
    )
    assert error_of(response)["field"] == "concepts[31].content"
    assert (await api.verb("session-list")).json()["sessions"] == []


@pytest.mark.parametrize("written", ["café crème", "cafe\u0301 cre\u0300me"])
async def test_composed_and_decomposed_accents_find_each_other(api: Api, written: str) -> None:
    await api.verb("derive", derive_of(written))
    for asked in ("café crème", "cafe\u0301 cre\u0300me", "CAFÉ"):
        hits = (await api.verb("recall", {"query": asked})).json()["hits"]
        assert [hit["content"] for hit in hits] == [written]


@pytest.mark.parametrize("text", ["👩🏽‍💻 deploys", "שלום עולם", "line one\nline two\twith tab"])
async def test_text_of_any_script_comes_back_byte_for_byte(api: Api, text: str) -> None:
    await api.verb("derive", derive_of(text))
    by_http = (await api.verb("recall", {"query": text})).json()
    by_tool = await dispatch("recall", {"query": text}, CONTEXT)
    assert by_http["hits"][0]["content"] == by_tool.structured["hits"][0]["content"] == text


QUERIES = [
    "foo-bar",
    "a/b",
    '"unclosed',
    "OR NOT",
    "NEAR(alpha beta)",
    "title:x1",
    "a1*",
    "100%",
    "snake_case",
    "'; DROP TABLE x;--",
    "back\\slash",
    "par(en",
    "car^et",
    "-x9",
    "x" * 10_000,
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[:12])
async def test_query_means_what_it_says(api: Api, query: str) -> None:
    others = [f"an unrelated fact about subject {number}" for number in range(20)]
    await api.verb("derive", derive_of(*others))
    written = await api.verb("derive", derive_of(f"about {query} itself"))
    assert written.is_success, written.text
    response = await api.verb("recall", {"query": query})
    assert response.status_code == 200
    hits = [hit["node_id"] for hit in response.json()["hits"]]
    assert written.json()["created"][0] in hits[:5]


@pytest.mark.parametrize("query", ["_", "\\", "(", "^", ":)", "AND", "the of a", "!!!"])
async def test_query_without_a_word_is_answered_like_any_other(api: Api, query: str) -> None:
    await api.verb("derive", derive_of("an ordinary fact"))
    assert (await api.verb("recall", {"query": query})).status_code == 200


@pytest.mark.parametrize("text", ["", "   ", "\n", "\u200d", None, 5, ["x"], {"a": 1}])
@pytest.mark.parametrize(
    ("name", "field", "make"),
    [
        ("recall", "query", lambda text: {"query": text}),
        ("inspect", "focus", lambda text: {"focus": text}),
        (
            "derive",
            "concepts[0].content",
            lambda text: {"concepts": [{"content": text, "concept_type": "entity"}]},
        ),
        ("record-action", "action", lambda text: {"action": text}),
    ],
)
async def test_blank_text_is_refused_in_the_same_words_on_every_surface(
    api: Api, name: str, field: str, make: Any, text: Any
) -> None:
    by_http = error_of(await api.verb(name, make(text)))
    with pytest.raises(InvalidArgument) as by_tool:
        await dispatch(name, make(text), CONTEXT)
    assert by_http == by_tool.value.as_wire()
    assert by_http["field"] == field
    assert by_http["message"] == f"{field} must be a non-empty string"


@pytest.mark.parametrize(
    "given",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31T17:30:00+05:30",
        "2026-01-31T12:00:00.123456Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2024-02-29T00:00:00Z",
    ],
)
async def test_time_with_a_zone_is_taken(api: Api, given: str) -> None:
    assert (await api.verb("derive", derive_of("dated", event_time=given))).is_success


@pytest.mark.parametrize(
    "given",
    [
        "2026-01-31T12:00:00",
        "2026-01-31",
        "now",
        "2026-02-30T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "0001-01-01T00:00:00+05:30",
        "2026-01-31T25:00:00Z",
        1_769_841_000,
        "",
    ],
)
@pytest.mark.parametrize("name", ["derive", "record-action"])
async def test_time_without_a_zone_or_out_of_the_calendar_is_refused(
    api: Api, name: str, given: object
) -> None:
    response = await api.verb(name, {**ARGUMENTS[name], "event_time": given})
    assert error_of(response)["field"] == "event_time"


@pytest.mark.parametrize("letter", ["w", "🚗"])
async def test_longest_text_is_kept_to_its_last_word(api: Api, letter: str) -> None:
    last = " lastword"
    width = len(letter.encode())
    text = letter * ((LIMIT_TEXT_BYTES - len(last)) // width)
    text += "w" * (LIMIT_TEXT_BYTES - len(last) - len(text.encode())) + last
    assert len(text.encode()) == LIMIT_TEXT_BYTES
    assert (await api.verb("derive", derive_of(text))).is_success
    hits = (await api.verb("recall", {"query": "lastword", "max_tokens": 100_000})).json()["hits"]
    assert [hit["content"] for hit in hits] == [text]
    for size, given in ((LIMIT_TEXT_BYTES + 1, text + "x"), (1_000_000, "y" * 1_000_000)):
        error = error_of(await api.verb("derive", derive_of(given)))
        assert error["message"] == f"concepts[0].content exceeds 16384 bytes ({size} given)"
