"""Each verb over HTTP: its way in, its reply, its key, and who may use it."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from lambo_site.asgi import dispatch
from mcp_bridge.tools import CallContext
from memory.reply_models import AcceptedReply
from memory.verbs import VERBS
from surface.api.callers import ARGUMENTS, OPERATOR_SECRET, TOKEN, Api, error_of

IN_ORDER = [*ARGUMENTS]
OPERATORS = [name for name, verb in VERBS.items() if verb.operator_only]
WRITES = [name for name, verb in VERBS.items() if verb.writes]


def test_arguments_of_the_tests_name_every_verb() -> None:
    assert set(IN_ORDER) == set(VERBS)


async def test_every_verb_answers_as_its_model_says(api: Api) -> None:
    await api.write_first()
    for name in IN_ORDER:
        response = await api.verb(name)
        assert response.status_code == 200, (name, response.text)
        assert response.headers["content-type"] == "application/json"
        body = response.json()
        assert isinstance(body.pop("text"), str)
        key = body.pop("idempotency_key", None)
        assert (key is not None) == VERBS[name].writes, name
        VERBS[name].reply_model.model_validate(body, strict=True)
        # Published as one object with the text: no field of the reply may be called that.
        assert "text" not in VERBS[name].reply_model.model_fields


async def test_derive_then_recall_gives_the_text_back(api: Api) -> None:
    await api.write_first()
    body = (await api.verb("recall")).json()
    assert [hit["content"] for hit in body["hits"]] == [TOKEN]
    assert TOKEN in body["context"]
    assert body["text"] == body["context"]


async def test_agent_in_the_body_wins_over_the_header(api: Api) -> None:
    body = ARGUMENTS["derive"] | {"agent_id": "bob"}
    await api.verb("derive", body, headers={"Lambo-Agent": "ann"})
    reserved = (await api.verb("reserve", {"concept": TOKEN, "agent_id": "bob"})).json()
    assert reserved["agent_id"] == "bob"


@pytest.mark.parametrize("name", [n for n in IN_ORDER if VERBS[n].needs_agent])
async def test_verb_that_needs_an_agent_names_what_is_missing(api: Api, name: str) -> None:
    await api.write_first()
    arguments = dict(ARGUMENTS[name])
    if VERBS[name].operator_only:
        # A person's act without an agent is recorded under the person.
        assert (await api.verb(name, arguments, agent=None)).status_code == 200
        return
    response = await api.verb(name, arguments, agent=None)
    assert response.status_code == 422
    assert error_of(response)["field"] == "agent_id"


@pytest.mark.parametrize("name", [n for n in IN_ORDER if not VERBS[n].needs_agent])
async def test_verb_that_needs_no_agent_works_without(api: Api, name: str) -> None:
    await api.write_first()
    if name == "token-revoke":
        assert (await api.verb("token-create")).status_code == 200
    assert (await api.verb(name, agent=None)).status_code == 200


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("secret", [None, "", "wrong", OPERATOR_SECRET + "x", "sécret"])
async def test_human_act_without_the_right_secret_is_forbidden(
    api: Api, name: str, secret: str | None
) -> None:
    await api.write_first()
    verb = VERBS[name]
    arguments = dict(ARGUMENTS[name])
    headers = {"Lambo-Agent": "ann"} | ({} if secret is None else {"Lambo-Operator": secret})
    response = await api.client.request(
        verb.method,
        "/api/v1" + verb.path.replace("{session}", "s"),
        json=arguments if verb.method == "POST" else None,
        params=arguments if verb.method != "POST" else None,
        headers={header.encode(): value.encode() for header, value in headers.items()},
    )
    assert response.status_code == 403
    assert error_of(response)["code"] == "forbidden"
    assert (await api.verb("stats")).json()["concept_count"] == 1


async def test_wrong_secret_is_refused_on_ordinary_verbs_too(api: Api) -> None:
    response = await api.verb("recall", headers={"Lambo-Operator": "wrong"})
    assert response.status_code == 403


@pytest.mark.parametrize("verb", OPERATORS)
async def test_tool_call_is_never_an_operator(api: Api, verb: str) -> None:
    with pytest.raises(Exception, match="for operators"):
        await dispatch(verb, dict(ARGUMENTS[verb]), CallContext(session="s", agent_id="ann"))


# -- idempotency keys --------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITES)
async def test_write_repeated_under_its_key_is_done_once(api: Api, name: str) -> None:
    await api.write_first()
    if name == "release":
        await api.verb("reserve")
    headers = {"Idempotency-Key": "clé-1"}
    first = await api.verb(name, headers=headers)
    again = await api.verb(name, headers=headers)
    assert first.status_code == again.status_code == 200, first.text
    assert first.json()["idempotency_key"] == "clé-1"
    assert (b"idempotency-key", "clé-1".encode()) in first.headers.raw
    if name in ("retract", "purge"):  # a dry run writes nothing: it has no receipt to replay
        return
    assert again.json() == first.json()
    assert again.headers.get("idempotency-replayed") == "true"
    assert "idempotency-replayed" not in first.headers


async def test_key_of_another_request_is_a_conflict(api: Api) -> None:
    await api.write_first()
    other = {"concepts": [{"content": "something else", "concept_type": "logic"}]}
    headers = {"Idempotency-Key": "key-of-the-first-write"}
    response = await api.verb("derive", other, headers=headers)
    assert response.status_code == 409
    assert error_of(response)["code"] == "idempotency_conflict"


async def test_write_without_a_key_gets_one(api: Api) -> None:
    response = await api.verb("derive")
    assert response.headers["idempotency-key"] == response.json()["idempotency_key"]


async def test_receipt_tells_how_a_write_ended(api: Api) -> None:
    await api.write_first()
    body = (await api.verb("receipt")).json()
    assert body["state"] == "committed"
    missing = await api.verb("receipt", {"key": "never-used"})
    assert missing.json()["state"] == "unknown"


@pytest.mark.parametrize("name", ["derive", "record-action"])
async def test_write_that_does_not_wait_is_accepted_with_its_own_status(
    api: Api, name: str
) -> None:
    arguments = {**ARGUMENTS[name], "wait": False}
    accepted = await api.verb(name, arguments, headers={"Idempotency-Key": "later"})
    assert accepted.status_code == 202
    body = accepted.json()
    assert (body["accepted"], body["idempotency_key"]) == (True, "later")
    assert body.pop("text") == body["summary"]
    del body["idempotency_key"]
    AcceptedReply.model_validate(body, strict=True)
    # The same request without `wait` is answered when the write is done.
    done = await api.verb(name, headers={"Idempotency-Key": "later"})
    assert done.status_code == 200
    assert done.headers["idempotency-replayed"] == "true"
    told = (await api.verb("receipt", {"key": "later"})).json()
    assert told["state"] == "committed"
    assert told["reply"]["summary"] == done.json()["summary"]


@pytest.mark.parametrize("key", ["run/7", "a b", "50%", "?x=1#y", "clé"])
async def test_key_of_any_letters_can_be_asked_for(api: Api, key: str) -> None:
    await api.verb("derive", headers={"Idempotency-Key": key})
    response = await api.verb("receipt", {"key": quote(key, safe="")})
    assert response.json()["key"] == key


# -- sessions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["recall", "inspect", "saints", "concepts", "stats"])
async def test_reading_an_unknown_session_creates_nothing(api: Api, name: str) -> None:
    response = await api.verb(name, session="nobody")
    assert response.status_code == (404 if name == "inspect" else 200)
    assert (await api.verb("session-list")).json()["sessions"] == []


@pytest.mark.parametrize("name", [n for n in WRITES if not VERBS[n].creates_session])
async def test_write_that_creates_no_session_needs_one(api: Api, name: str) -> None:
    response = await api.verb(name, session="nobody")
    assert response.status_code == 404
    assert error_of(response)["code"] == "session_not_found"


@pytest.mark.parametrize("name", [n for n in WRITES if VERBS[n].creates_session])
async def test_first_write_creates_its_session(api: Api, name: str) -> None:
    assert (await api.verb(name, session="new")).status_code == 200
    listed = (await api.verb("session-list")).json()["sessions"]
    assert [row["session"] for row in listed] == ["new"]


async def test_refused_first_write_leaves_no_session(api: Api) -> None:
    cites = {"content": TOKEN, "concept_type": "entity", "depends_on": ["nothing like it"]}
    response = await api.verb("derive", {"concepts": [cites]}, session="new")
    assert response.status_code == 422
    assert error_of(response)["code"] == "unresolved_reference"
    assert (await api.verb("session-list")).json()["sessions"] == []


async def test_session_of_any_script_can_be_named_in_the_address(api: Api) -> None:
    name = "größe 好 #1 & co"
    quoted = "gr%C3%B6%C3%9Fe%20%E5%A5%BD%20%231%20&%20co"
    assert (await api.verb("derive", session=quoted)).status_code == 200
    listed = (await api.verb("session-list")).json()["sessions"]
    assert [row["session"] for row in listed] == [name]


async def test_pages_of_the_session_list_meet_every_session_once(api: Api) -> None:
    names = [f"s{number}" for number in range(5)]
    for name in names:
        await api.verb("session-create", {"session": name})
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = (await api.verb("session-list", {"after": after, "limit": 2})).json()
        seen += [row["session"] for row in page["sessions"]]
        after = page["next"]
    assert seen == names


async def test_pages_of_concepts_meet_each_that_the_filter_accepts_once(api: Api) -> None:
    for agent in ("ann", "bob", "cyd"):
        concepts = [
            {"content": f"{kind} {number} by {agent}", "concept_type": kind}
            for number in range(3)
            for kind in ("logic", "entity", "resource")
        ]
        await api.verb("derive", {"concepts": concepts}, agent=agent)
    wanted = {"types": ["logic", "entity"], "agents": ["ann", "cyd"]}
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = (await api.verb("concepts", {**wanted, "after": after, "limit": 5})).json()
        found += [row["content"] for row in page["concepts"]]
        assert len(page["concepts"]) <= 5
        after = page["next"]
    expected = [
        f"{kind} {number} by {agent}"
        for kind in ("logic", "entity")
        for agent in ("ann", "cyd")
        for number in range(3)
    ]
    assert sorted(found) == sorted(expected)
    recalled = (
        await api.verb("recall", {"query": "logic or entity?", "top_k": 100, **wanted})
    ).json()
    assert sorted(hit["content"] for hit in recalled["hits"]) == sorted(expected)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"types": ["Entity"]}, "types[0]"),
        ({"statuses": ["saint"]}, "statuses[0]"),
        ({"since": "yesterday"}, "since"),
        ({"until": "2026-01-01T00:00:00"}, "until"),
        ({"match": "some"}, "match"),
        ({"limit": [1, 2]}, "limit"),
        ({"after": "x"}, "after"),
    ],
)
async def test_filter_that_cannot_be_is_refused_by_name(
    api: Api, arguments: dict[str, object], field: str
) -> None:
    error = error_of(await api.verb("concepts", arguments))
    assert (error["code"], error["field"]) == ("invalid_argument", field)


async def test_layers_answer_too_and_say_so(api: Api) -> None:
    """Nothing has a vector here: of a layer only dependents come."""
    await api.verb("derive", {"concepts": [{"content": "alpha", "concept_type": "entity"}]})
    await api.verb(
        "record-action", {"action": "use the queue", "depends_on": ["queue"]}, session="infra"
    )
    question = {"query": "what depends on queue", "layers": [{"session": "infra", "weight": 2}]}
    answer = (await api.verb("recall", question)).json()
    first, second = answer["hits"]
    assert (first["content"], first["session"]) == ("use the queue", "infra")
    assert (second["content"], "session" in second) == ("alpha", False)
    assert answer["context"].splitlines()[0].endswith(" from infra")
    notice = "recall: dependency question answered by graph traversal (1 dependents)"
    assert answer["warnings"][0] == f"[infra] {notice}"
    assert not any("unavailable" in line for line in answer["warnings"])


LAYER = {"session": "infra"}


@pytest.mark.parametrize(
    ("layers", "field"),
    [
        ([{}], "layers[0].session"),
        ([{"session": "a/b"}], "layers[0].session"),
        ([{"session": " "}], "layers[0].session"),
        ([LAYER, LAYER], "layers[1].session"),
        ([{"session": "s"}], "layers[0].session"),
        ([{**LAYER, "weight": 0}], "layers[0].weight"),
        ([{**LAYER, "weight": "1"}], "layers[0].weight"),
        ([{**LAYER, "min_similarity": 1.1}], "layers[0].min_similarity"),
        ([{**LAYER, "top_k": 1}], "layers[0].top_k"),
        ([{"session": f"s{number}"} for number in range(9)], "layers"),
        ("infra", "layers"),
    ],
)
async def test_layer_that_cannot_be_is_refused_by_name(
    api: Api, layers: object, field: str
) -> None:
    error = error_of(await api.verb("recall", {"query": "x", "layers": layers}))
    assert (error["code"], error["field"]) == ("invalid_argument", field)


async def test_what_contradicts_a_hit_comes_beside_it(api: Api) -> None:
    old = {"content": "the build takes nine minutes", "concept_type": "logic"}
    others = [{"content": f"the cafe has {n} tables", "concept_type": "logic"} for n in range(3)]
    await api.verb("derive", {"concepts": [old]}, agent="ann")
    new = {"content": "we measured four", "concept_type": "logic", "against": [old["content"]]}
    await api.verb("derive", {"concepts": [new]}, agent="bob")
    for other in others:
        await api.verb("derive", {"concepts": [other]}, agent="bob")
    question = {"query": "build minutes", "top_k": 1, "traversal_depth": 0}
    hits = (await api.verb("recall", question)).json()["hits"]
    found = {hit["content"]: {note["kind"] for note in hit["annotations"]} for hit in hits}
    assert "contradiction" in found[str(old["content"])]
    assert "contradicts" in found[str(new["content"])]
    first = next(hit for hit in hits if hit["content"] == old["content"])
    second = next(hit for hit in hits if hit["content"] == new["content"])
    assert second["companion_of"] == first["node_id"]


async def test_delete_asks_for_the_name_twice(api: Api) -> None:
    await api.write_first()
    wrong = await api.verb("session-delete", {"confirm": "t"})
    assert wrong.status_code == 422
    assert error_of(wrong)["field"] == "confirm"
    assert (await api.verb("session-delete")).status_code == 200
    assert (await api.verb("session-list")).json()["sessions"] == []


# -- one memory behind every surface -----------------------------------------------------------


async def test_what_one_surface_writes_the_other_reads(api: Api) -> None:
    context = CallContext(session="s", agent_id="mia")
    concept = {"content": "written by a tool", "concept_type": "logic"}
    await dispatch("derive", {"concepts": [concept]}, context)
    by_http = (await api.verb("recall", {"query": "written by a tool"})).json()
    assert [hit["content"] for hit in by_http["hits"]] == ["written by a tool"]

    await api.verb("derive", {"concepts": [{"content": "sent over http", "concept_type": "logic"}]})
    by_tool = await dispatch("recall", {"query": "sent over http"}, context)
    assert by_tool.structured["hits"][0]["content"] == "sent over http"


async def test_retry_on_another_surface_is_the_same_write(api: Api) -> None:
    await api.write_first()
    context = CallContext(session="s", agent_id="ann", idempotency_key="key-of-the-first-write")
    reply = await dispatch("derive", dict(ARGUMENTS["derive"]), context)
    assert reply.text == "derived 1 concept(s): 1 created, 0 matched existing"
    # The other one wrote what was taken out again.
    assert (await api.verb("stats")).json()["interaction_count"] == 2
