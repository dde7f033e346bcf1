"""Whatever the published document allows, and what it forbids, gets an answer and never a 500.

The questions are generated from the OpenAPI document itself, valid ones and broken ones, the same
in every run. They are asked as the operator, whom everything is open to, of a session that holds
something; every other one of a session that nobody has heard of.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from lambo_site.api import api as published
from lambo_site.asgi import application
from lambo_site.errors import STATUS_BY_CODE
from surface.api.callers import OPERATOR, Api
from surface.api.conftest import World

EXAMPLES = 12
"""Of each operation and mode; the whole takes about twenty seconds."""

DOCUMENT = json.loads(json.dumps(published.get_openapi_schema(), default=str))
OPERATIONS: dict[str, Any] = {
    operation.label: operation
    for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
    if (operation := getattr(found, "ok", lambda: None)()) is not None
}


def test_every_operation_can_be_asked() -> None:
    assert len(OPERATIONS) == sum(len(methods) for methods in DOCUMENT["paths"].values())


def questions(label: str, mode: GenerationMode) -> list[dict[str, Any]]:
    """Requests of an operation, as keywords of a client."""
    asked: list[dict[str, Any]] = []

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=OPERATIONS[label].as_strategy(generation_mode=mode))
    def collect(case: Any) -> None:
        if len(asked) % 2 and "session" in (case.path_parameters or {}):
            case.path_parameters["session"] = "s"
        asked.append(case.as_transport_kwargs(base_url="http://127.0.0.1:7700"))

    collect()
    return asked


def request_of(client: httpx.AsyncClient, question: dict[str, Any]) -> httpx.Request:
    headers = [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in question["headers"].items()
    ]
    own = [(name.encode(), value.encode()) for name, value in OPERATOR.items()]
    ours = {name.lower() for name, _ in own}
    kept = [(name, value) for name, value in headers if name.lower() not in ours]
    body: dict[str, Any] = {}
    if "json" in question:
        body["content"] = json.dumps(question["json"]).encode()
    elif isinstance(question.get("data"), str | bytes):
        body["content"] = question["data"]
    return client.build_request(
        question["method"],
        question["url"],
        params=question.get("params") or {},
        headers=[*kept, *own],
        **body,
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("label", OPERATIONS)
async def test_every_question_gets_an_answer(
    world: World, api: Api, label: str, mode: GenerationMode
) -> None:
    await api.write_first()
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7700") as client:
        for question in questions(label, mode):
            answer = await client.send(request_of(client, question))
            assert answer.status_code < 500, (question, answer.text)
            assert answer.headers["content-type"] == "application/json", question
            body = answer.json()
            if answer.status_code >= 400:
                error = body["error"]
                assert STATUS_BY_CODE[error["code"]] == answer.status_code, question
                assert error["message"], question
        assert world.host.is_healthy
        assert (await api.verb("session-list")).status_code == 200
