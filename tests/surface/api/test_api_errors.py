"""Every failure of every route is one JSON error: from the body's bytes to a fault of ours."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx
import pytest

import memory.engine.errors as errors
from lambo_site.asgi import application
from lambo_site.errors import STATUS_BY_CODE
from memory import runtime
from memory.engine.errors import InvalidArgument, LamboError, StoreUnavailable
from memory.engine.limits import BODY_BYTES
from memory.testing import FaultKind
from memory.verbs import VERBS
from surface.api.callers import ARGUMENTS, BASE, OPERATOR, TOKEN, Api, error_of, path_of
from surface.api.conftest import World

BODY_VERBS = [name for name, verb in VERBS.items() if verb.method == "POST"]
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, LamboError)
]


def made(kind: type[LamboError]) -> LamboError:
    """An error of that class, with a hint when to come back."""
    if issubclass(kind, InvalidArgument):
        return kind("field", "a message")
    return kind("a message", retry_after_seconds=1.2, holder="bob")


# -- each class of error on each route ---------------------------------------------------------


@pytest.mark.parametrize("name", VERBS)
async def test_every_error_on_every_route_has_its_status_and_shape(
    api: Api, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in KINDS:
        error = made(kind)

        def fail(error: LamboError = error) -> None:
            raise error

        # The host is what every verb meets first; there is no double that fails in all these ways.
        monkeypatch.setattr("memory.api.get_host", fail)
        response = await api.verb(name)
        assert response.status_code == STATUS_BY_CODE[kind.code], kind
        body = error_of(response)
        assert body["code"] == kind.code
        assert body["message"] == "a message"
        if error.retry_after_seconds is not None:
            assert response.headers["retry-after"] == "2"
            assert body["retry_after_seconds"] == 1.2
            assert body["holder"] == "bob"


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize(
    "fault", [RuntimeError("swordfish"), KeyError("swordfish"), TypeError("swordfish")]
)
async def test_fault_of_ours_is_an_internal_error_that_shows_nothing(
    api: Api,
    name: str,
    fault: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise fault

    monkeypatch.setattr("memory.api.get_host", fail)
    response = await api.verb(name)
    assert response.status_code == 500
    assert error_of(response)["code"] == "internal_error"
    assert "swordfish" not in response.text
    assert "swordfish" in caplog.text


@pytest.mark.parametrize("name", VERBS)
async def test_server_without_a_host_says_that_it_starts_or_stops(api: Api, name: str) -> None:
    runtime.set_host(None)
    response = await api.verb(name)
    assert response.status_code == 503
    assert error_of(response)["code"] == "session_closed"
    assert response.headers["retry-after"] == "1"


def test_every_code_of_the_engine_has_a_status() -> None:
    assert {kind.code for kind in KINDS} <= set(STATUS_BY_CODE)


# -- the address and the method ----------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/sessions/s/nothing", "/sessions/s/derive/x", "/sessions//derive", "/", "/x/y/z"],
)
async def test_unknown_address_is_a_json_error(api: Api, path: str) -> None:
    response = await api.client.post(f"{BASE}{path}", json={})
    assert response.status_code == 404
    assert error_of(response)["code"] == "not_found"


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_wrong_method_is_a_json_error_that_names_the_right_one(api: Api, method: str) -> None:
    response = await api.client.request(method, f"{BASE}/sessions/s/derive")
    assert response.status_code == 405
    assert error_of(response)["code"] == "method_not_allowed"
    assert response.headers["allow"] == "POST"


async def test_head_of_a_failure_has_no_body(api: Api) -> None:
    response = await api.client.head(f"{BASE}/sessions/s/derive")
    assert response.status_code == 405
    assert response.content == b""


@pytest.mark.parametrize("name", [n for n in VERBS if "{session}" in VERBS[n].path])
@pytest.mark.parametrize(
    "session", ["%20", "a%2Bb%0A", "%00", "a%5Cb", "x*y", "%3Cx%3E", "x" * 256]
)
async def test_name_that_is_no_session_is_refused_by_name(
    api: Api, name: str, session: str
) -> None:
    response = await api.verb(name, session=session)
    assert response.status_code == 422
    assert error_of(response)["field"] == "session"


async def test_session_name_at_its_limit_is_taken(api: Api) -> None:
    assert (await api.verb("derive", session="x" * 255)).status_code == 200


@pytest.mark.parametrize("path", ["/sessions/%FF/stats", "/sessions/a%C3/stats"])
async def test_address_that_is_no_text_is_refused(api: Api, path: str) -> None:
    response = await api.client.get(f"{BASE}{path}")
    assert response.status_code == 422
    assert error_of(response)["field"] == "address"


async def test_query_that_is_no_text_is_refused() -> None:
    scope = scope_of("/sessions/s/stats", method="GET") | {"query_string": b"a=\xff"}
    sent = await raw_call(scope, [{"type": "http.request", "body": b""}])
    assert sent[0]["status"] == 422


async def test_mark_that_stands_for_itself_is_a_name(api: Api) -> None:
    assert (await api.verb("stats", session="%EF%BF%BD")).status_code == 200


# -- who may come in ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"X-Forwarded-For": "10.0.0.1"},
        {"X-Forwarded-Host": "127.0.0.1"},
        {"X-Forwarded-Proto": "https"},
        {"X-Real-IP": "10.0.0.1"},
        {"Forwarded": "for=10.0.0.1"},
    ],
)
@pytest.mark.parametrize("path", [f"{BASE}/sessions/s/derive", f"{BASE}/docs", "/healthz"])
async def test_stranger_is_refused_before_anything_is_read(
    api: Api, path: str, headers: dict[str, str]
) -> None:
    method = "POST" if path.endswith("derive") else "GET"
    response = await api.client.request(method, path, headers=headers)
    assert response.status_code == 403
    assert error_of(response)["code"] == "forbidden"


@pytest.mark.parametrize("host", ["127.0.0.1:7700", "localhost:7700", "[::1]:7700", "LOCALHOST"])
async def test_loopback_names_are_let_in_with_their_own_origin(api: Api, host: str) -> None:
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert (await api.verb("stats", headers=headers)).status_code == 200


# -- the body ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BODY_VERBS)
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"{'query': 1}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": 1} x', "not JSON"),
        (b"\xff\xfe{}", "not UTF-8 (at byte 0)"),
        (b'{"a": "\xc3"}', "not UTF-8 (at byte 7)"),
        ("\ufeff{}".encode(), "not JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "number that is too long"),
        (b"[]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"7", "must be a JSON object"),
        (b"null", "must be a JSON object"),
    ],
)
async def test_body_that_is_no_object_of_json_is_refused_as_body(
    api: Api, name: str, body: bytes, says: str
) -> None:
    path = path_of(VERBS[name], "s", dict(ARGUMENTS[name])).removeprefix(BASE)
    response = await api.post(path, body, OPERATOR)
    assert response.status_code == 422
    error = error_of(response)
    assert error["code"] == "invalid_argument"
    assert error["field"] == "body"
    assert says in error["message"]


async def test_empty_body_says_nothing(api: Api) -> None:
    response = await api.post("/sessions/s/derive", b" \n", {"Lambo-Agent": "ann"})
    assert error_of(response)["message"] == "concepts is required"
    await api.write_first()
    assert (await api.post("/sessions/s/close", b"")).status_code == 200


def body_of(size: int) -> bytes:
    """A legal request of exactly that many bytes."""
    body = json.dumps({"agent_id": "ann", "query": "x"}).encode()
    return body + b" " * (size - len(body))


async def in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(
    ("size", "status"), [(BODY_BYTES - 1, 200), (BODY_BYTES, 200), (BODY_BYTES + 1, 413)]
)
async def test_body_is_bounded_declared_or_in_chunks(
    api: Api, size: int, status: int, is_chunked: bool
) -> None:
    body = body_of(size)
    content: Any = in_pieces(body) if is_chunked else body
    response = await api.client.post(f"{BASE}/sessions/s/recall", content=content)
    assert response.status_code == status
    if status == 413:
        error = error_of(response)
        assert error["code"] == "body_too_large"
        assert error["maximum"] == BODY_BYTES


def scope_of(path: str, *, method: str = "POST") -> dict[str, Any]:
    """A request without a client library in between."""
    return {
        "type": "http",
        "method": method,
        "path": f"{BASE}{path}",
        "raw_path": f"{BASE}{path}".encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"transfer-encoding", b"chunked")],
    }


async def raw_call(scope: dict[str, Any], messages: Iterable[Any]) -> list[Any]:
    """Send messages to the application; gives what it sent back."""
    sent: list[Any] = []
    waiting = iter(messages)

    async def receive() -> Any:
        return next(waiting)

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return sent


@pytest.mark.parametrize("path", [f"{BASE}/sessions/s/recall", "/admin/login/"])
async def test_endless_body_is_refused_while_it_is_read(path: str) -> None:
    """Nothing may depend on the end of the body: this one has none."""
    piece = {"type": "http.request", "body": b" " * 65_536, "more_body": True}
    enough = [piece] * (BODY_BYTES // 65_536 + 1)
    sent = await raw_call(scope_of("") | {"path": path, "raw_path": path.encode()}, enough)
    assert sent[0]["status"] == 413


async def test_caller_who_leaves_before_the_end_of_the_body_is_not_answered() -> None:
    messages = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    assert await raw_call(scope_of("/sessions/s/derive"), messages) == []


# -- arguments ---------------------------------------------------------------------------------


UNKNOWN = [
    (name, extra)
    for name, verb in VERBS.items()
    for extra in ("timestamp", "created_at", "now", "Agent_id", "x\ud800")
    if verb.method == "POST" or extra.isprintable()  # an address cannot carry the last one
]


@pytest.mark.parametrize(("name", "extra"), UNKNOWN)
async def test_unknown_argument_is_refused_by_name_on_every_route(
    api: Api, name: str, extra: str
) -> None:
    arguments = {**ARGUMENTS[name], extra: "2026-01-01T00:00:00Z"}
    if VERBS[name].method == "POST":
        path = path_of(VERBS[name], "s", {}).removeprefix(BASE)
        response = await api.post(path, json.dumps(arguments), OPERATOR)
    else:
        response = await api.verb(name, arguments)
    assert response.status_code == 422
    shown = extra.replace("\ud800", "\\ud800")
    assert error_of(response)["message"] == f"unknown argument '{shown}'"
    assert error_of(response)["field"] == shown


async def test_argument_in_the_address_of_a_post_is_refused(api: Api) -> None:
    response = await api.client.post(f"{BASE}/sessions/s/recall?top_k=3", json={"query": "x"})
    assert error_of(response)["field"] == "top_k"


async def test_argument_given_twice_in_an_address_is_refused(api: Api) -> None:
    response = await api.client.get(f"{BASE}/sessions?limit=1&limit=2")
    assert error_of(response)["field"] == "limit"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0", "limit must be in 1..=200"),
        ("201", "limit must be in 1..=200"),
        ("-1", "limit must be in 1..=200"),
        ("", "limit must be an integer in 1..=200"),
        ("1.0", "limit must be an integer in 1..=200"),
        ("x", "limit must be an integer in 1..=200"),
        ("٣", "limit must be an integer in 1..=200"),
        ("9" * 5_000, "limit must be an integer in 1..=200"),
    ],
)
async def test_number_in_an_address_is_read_strictly(api: Api, text: str, says: str) -> None:
    response = await api.verb("session-list", {"limit": text})
    assert error_of(response)["message"] == says


@pytest.mark.parametrize("header", ["Lambo-Agent", "Idempotency-Key", "Lambo-Operator"])
async def test_header_that_is_not_utf8_is_refused(api: Api, header: str) -> None:
    response = await api.client.post(
        f"{BASE}/sessions/s/derive", json=ARGUMENTS["derive"], headers={header.encode(): b"\xff"}
    )
    assert response.status_code == 422
    assert header in error_of(response)["message"]


@pytest.mark.parametrize("size", [254, 255, 256])
@pytest.mark.parametrize(
    ("header", "field"), [("Lambo-Agent", "agent_id"), ("Idempotency-Key", "idempotency_key")]
)
async def test_names_in_headers_are_bounded(api: Api, header: str, field: str, size: int) -> None:
    headers = {"Lambo-Agent": "ann"} | {header: "x" * size}
    response = await api.verb("derive", headers=headers)
    if size <= 255:
        assert response.status_code == 200
    else:
        assert error_of(response)["field"] == field


# -- the store -----------------------------------------------------------------------------------


async def test_store_that_is_away_is_a_hint_to_come_back(api: Api, world: World) -> None:
    world.store.fail_next("find_session", FaultKind.TRANSIENT_BEFORE)
    response = await api.verb("derive")
    assert response.status_code == 503
    assert error_of(response)["code"] == StoreUnavailable.code
    assert int(response.headers["retry-after"]) >= 1
    assert (await api.verb("derive")).status_code == 200


async def test_write_the_store_refuses_is_told_so(api: Api, world: World) -> None:
    await api.write_first()
    world.store.fail_next("commit", FaultKind.REJECTED)
    world.store.fail_next("commit", FaultKind.REJECTED)
    other = {"concepts": [{"content": "never stored", "concept_type": "logic"}]}
    response = await api.verb("derive", other)
    assert response.status_code == 500
    assert error_of(response)["code"] == "rejected_by_store"
    assert (await api.verb("derive")).status_code == 200


async def test_call_cut_off_by_a_shutdown_is_told_that_nobody_knows(api: Api, world: World) -> None:
    """Cancelled after its effect, before its commit: the one true answer is "unknown"."""
    await api.write_first()
    hang = world.store.fail_next("commit", FaultKind.HANG)
    other = {"concepts": [{"content": "on its way", "concept_type": "logic"}]}
    call = asyncio.create_task(api.verb("derive", other, headers={"Idempotency-Key": "kept"}))
    await asyncio.to_thread(hang.entered.wait)
    call.cancel()
    response = await call
    hang.release.set()
    assert response.status_code == 504
    error = error_of(response)
    assert error["code"] == "outcome_unknown"
    assert error["idempotency_key"] == "kept"


async def test_call_to_an_open_session_uses_no_thread(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread switch costs more than the rest of a call; middleware brings them in unseen."""
    await api.write_first()
    loop = asyncio.get_running_loop()

    def refuse(*_: Any) -> Any:
        raise AssertionError("a thread was asked for")

    with monkeypatch.context() as until_close:
        until_close.setattr(loop, "run_in_executor", refuse)
        # Stats is left out: what the store had to set aside it asks the store.
        for name in ("derive", "recall", "saints", "inspect"):
            assert (await api.verb(name)).status_code == 200
        assert (await api.verb("recall", {"query": ""})).status_code == 422


async def test_refusals_are_no_news_for_the_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """A caller's mistake is the caller's; a log full of them hides what matters."""
    with caplog.at_level(logging.WARNING):
        await api.post("/sessions/s/recall", b"{")
        await api.client.get(f"{BASE}/nothing")
        await api.verb("recall", {"query": ""})
    assert caplog.records == []


async def test_stored_text_that_looks_like_markup_comes_back_as_it_is(api: Api) -> None:
    content = '<script>"\\ \u2028 é 𝄞'
    await api.verb("derive", {"concepts": [{"content": content, "concept_type": "entity"}]})
    response = await api.verb("recall", {"query": "script"})
    assert response.json()["hits"][0]["content"] == content
    assert httpx.Response(200, content=response.content).json() == response.json()
    assert TOKEN not in response.text
