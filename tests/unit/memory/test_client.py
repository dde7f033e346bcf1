"""Both clients over real connections to a scripted server: keys, headers, errors, lost answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory.client import Address, Answer, AsyncLamboClient, LamboClient, Retries, ServerUnreachable
from memory.data_folder import DataFolder
from memory.engine.errors import InvalidArgument, LamboError, OutcomeUnknown, ReservationConflict
from scripted_server import DROP, Reply, Script, error, ok, scripted_server

QUICK = Retries(patience_seconds=5.0, waits_seconds=(0.001,))
CONCEPT = {"content": "tokens expire", "concept_type": "constraint"}

Act = Callable[[Any], Any]
Perform = Callable[..., Answer]


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_server() as running:
        yield running


@pytest.fixture(params=["blocking", "asynchronous"])
def perform(request: pytest.FixtureRequest, script: Script) -> Perform:
    """Carries out one call with a client of either kind, made with the given options."""

    def blocking(act: Act, **options: Any) -> Answer:
        with LamboClient(script.url, **{"retries": QUICK, **options}) as client:
            answer: Answer = act(client)
            return answer

    def asynchronous(act: Act, **options: Any) -> Answer:
        async def call() -> Answer:
            async with AsyncLamboClient(script.url, **{"retries": QUICK, **options}) as client:
                coroutine: Coroutine[Any, Any, Answer] = act(client)
                return await coroutine

        return asyncio.run(call())

    return blocking if request.param == "blocking" else asynchronous


def test_write_sends_one_body_under_one_key(perform: Perform, script: Script) -> None:
    script.will_answer(ok(idempotency_key="of the server"))
    answer = perform(
        lambda client: client.derive("shop", [CONCEPT], parent_of=[("p", "c")]), agent_id="a"
    )
    (asked,) = script.asked
    assert (asked.method, asked.path) == ("POST", "/api/v1/sessions/shop/derive")
    assert asked.body == {
        "concepts": [CONCEPT],
        "parent_of": [{"parent": "p", "child": "c"}],
        "agent_id": "a",
    }
    assert len(asked.headers["idempotency-key"]) == 32
    assert answer["idempotency_key"] == "of the server"


def test_key_is_kept_over_a_dropped_connection(perform: Perform, script: Script) -> None:
    script.will_answer(DROP, DROP, ok())
    perform(lambda client: client.derive("shop", [CONCEPT]))
    keys = {asked.headers["idempotency-key"] for asked in script.asked}
    bodies = [asked.body for asked in script.asked]
    assert len(script.asked) == 3
    assert len(keys) == 1
    assert bodies[0] == bodies[1] == bodies[2]


def test_two_calls_have_two_keys(script: Script) -> None:
    script.will_answer(ok(), ok())
    with LamboClient(script.url) as client:
        client.derive("shop", [CONCEPT])  # type: ignore[list-item]  # a plain dict
        client.derive("shop", [CONCEPT])  # type: ignore[list-item]
    first, second = (asked.headers["idempotency-key"] for asked in script.asked)
    assert first != second


def test_key_of_the_caller_is_used(perform: Perform, script: Script) -> None:
    script.will_answer(ok())
    perform(lambda client: client.record_action("shop", "deploy", idempotency_key="ключ-42 ✓"))
    raw = script.asked[0].headers["idempotency-key"]
    assert raw.encode("latin-1").decode() == "ключ-42 ✓"


def test_unknown_outcome_is_settled_by_the_receipt(perform: Perform, script: Script) -> None:
    script.will_answer(
        error(504, "outcome_unknown", retry_after_seconds=0.001),
        ok(state="applied"),
        ok(state="committed"),
        Reply(body={"text": "stored", "warnings": []}, headers={"Idempotency-Replayed": "true"}),
    )
    answer = perform(
        lambda client: client.derive("shop", [CONCEPT], idempotency_key="k"), agent_id="агент"
    )
    assert [asked.path.rpartition("shop")[2] for asked in script.asked] == [
        "/derive",
        "/receipts/k",
        "/receipts/k",
        "/derive",
    ]
    # Receipts are kept per agent; a GET names it in a header.
    assert script.asked[1].headers["lambo-agent"].encode("latin-1").decode() == "агент"
    assert answer["text"] == "stored"
    assert answer["replayed"]


def test_write_lost_for_good_is_of_unknown_outcome(perform: Perform, script: Script) -> None:
    script.will_answer(*[DROP] * 50)
    hurried = Retries(patience_seconds=0.05, waits_seconds=(0.01,))
    with pytest.raises(OutcomeUnknown) as lost:
        perform(lambda client: client.derive("shop", [CONCEPT]), retries=hurried)
    assert lost.value.fields["idempotency_key"] == script.asked[0].headers["idempotency-key"]


def test_error_body_comes_back_as_the_engines_class(perform: Perform, script: Script) -> None:
    script.will_answer(error(409, "reservation_conflict", holder="b"))
    with pytest.raises(ReservationConflict) as conflict:
        perform(lambda client: client.reserve("shop", concept="x"))
    assert conflict.value.fields == {"holder": "b"}


def test_operator_secret_goes_with_human_acts_alone(perform: Perform, script: Script) -> None:
    acts: dict[str, Act] = {
        "retract": lambda client: client.retract("s", "x"),
        "root-goal": lambda client: client.set_root_goal("s", ["g"]),
        "synonym": lambda client: client.declare_synonym("s", "a", "b"),
        "delete": lambda client: client.delete_session("s", confirm="s"),
        "reembed": lambda client: client.reembed_session("s"),
        "derive": lambda client: client.derive("s", [CONCEPT]),
        "recall": lambda client: client.recall("s", "q"),
        "stats": lambda client: client.stats("s"),
        "sessions": lambda client: client.list_sessions(),
        "close": lambda client: client.close_session("s"),
        "receipt": lambda client: client.receipt("s", "k"),
    }
    with_secret = set()
    for name, act in acts.items():
        script.will_answer(ok())
        perform(act, operator_secret="the secret", user="zoë")
        if script.asked[-1].headers.get("lambo-operator") == "the secret":
            with_secret.add(name)
            assert script.asked[-1].headers["lambo-user"].encode("latin-1").decode() == "zoë"
    assert with_secret == {"retract", "root-goal", "synonym", "delete", "reembed"}


def test_operator_secret_goes_with_every_call_of_a_client_that_is_told_so(
    perform: Perform, script: Script
) -> None:
    acts: tuple[Act, ...] = (
        lambda client: client.stats("s"),
        lambda client: client.derive("s", [CONCEPT]),
        lambda client: client.retract("s", "x"),
    )
    for act in acts:
        script.will_answer(ok())
        perform(act, operator_secret="the secret", user="zoë", always_operator=True)
        assert script.asked[-1].headers["lambo-operator"] == "the secret"
        assert "lambo-user" in script.asked[-1].headers


def test_every_verb_has_its_address(script: Script) -> None:
    def paths_of(*acts: Act) -> list[str]:
        script.will_answer(*[ok()] * len(acts))
        with LamboClient(script.url, agent_id="a") as client:
            for act in acts:
                act(client)
        return [f"{asked.method} {asked.path}" for asked in script.asked]

    assert paths_of(
        lambda client: client.release("s", node_id="n"),
        lambda client: client.demote("s", "text", "group"),
        lambda client: client.inspect("s", "x", depth=1),
        lambda client: client.saints("s"),
        lambda client: client.create_session("s"),
        lambda client: client.list_sessions(after="a&b", limit=5),
        lambda client: client.delete_session("s", confirm="s?"),
        lambda client: client.call("s", "root-goal", {"goals": []}),
    ) == [
        "POST /api/v1/sessions/s/release",
        "POST /api/v1/sessions/s/demote",
        "POST /api/v1/sessions/s/inspect",
        "GET /api/v1/sessions/s/saints",
        "POST /api/v1/sessions",
        "GET /api/v1/sessions?after=a%26b&limit=5",
        "DELETE /api/v1/sessions/s?confirm=s%3F",
        "POST /api/v1/sessions/s/root-goal",
    ]


def test_redirect_is_not_followed_with_a_write(perform: Perform, script: Script) -> None:
    script.will_answer(Reply(307, {"text": "x"}, {"Location": script.url + "/elsewhere"}))
    with pytest.raises(LamboError) as refused:
        perform(lambda client: client.derive("shop", [CONCEPT]))
    assert refused.value.code == "unexpected_answer"
    assert len(script.asked) == 1


def test_without_retries_the_transports_error_is_passed_on(
    perform: Perform, script: Script
) -> None:
    """The bridge repeats calls by itself, and must see which connection was lost."""
    script.will_answer(DROP, error(503, "store_unavailable"))
    with pytest.raises(httpx.RemoteProtocolError):
        perform(lambda client: client.derive("shop", [CONCEPT]), retries=None)
    with pytest.raises(LamboError) as refused:
        perform(lambda client: client.derive("shop", [CONCEPT]), retries=None)
    assert refused.value.code == "store_unavailable"
    assert len(script.asked) == 2


def test_lost_server_is_found_again_at_another_address(perform: Perform, script: Script) -> None:
    with scripted_server() as moved:
        script.will_answer(DROP)
        moved.will_answer(ok())
        perform(lambda client: client.derive("shop", [CONCEPT]), locate=lambda: Address(moved.url))
        assert (
            moved.asked[0].headers["idempotency-key"]
            == (script.asked[0].headers["idempotency-key"])
        )


def test_proxy_of_the_environment_is_not_used(
    monkeypatch: pytest.MonkeyPatch, script: Script
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    script.will_answer(ok())
    with LamboClient(script.url, retries=None) as client:
        assert client.stats("s")["text"] == "done"


@pytest.mark.parametrize("url", ["", "127.0.0.1:7700", "ftp://x", "http://", "http://x?q=1"])
def test_address_that_is_none_is_refused_when_the_client_is_made(url: str) -> None:
    with pytest.raises(InvalidArgument):
        LamboClient(url)


def test_local_client_finds_the_server_by_its_runtime_file(tmp_path: Path, script: Script) -> None:
    with DataFolder(tmp_path).hold() as held:
        held.publish(url=script.url, version="0")
        secret = json.loads((tmp_path / "runtime.json").read_text())["operator_secret"]
        script.will_answer(ok(), ok())
        with LamboClient.local(tmp_path) as client:
            assert client.url == script.url
            client.retract("s", "x")
        with LamboClient.local(tmp_path, as_operator=True) as client:
            client.retract("s", "x")
    assert "lambo-operator" not in script.asked[0].headers
    assert script.asked[1].headers["lambo-operator"] == secret


def test_local_client_without_a_server_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable, match="lambo serve"):
        LamboClient.local(tmp_path)


def test_secret_is_not_shown_by_the_address() -> None:
    assert "hush" not in repr(Address("http://127.0.0.1:1", "hush"))
