"""The local door, and that programs' calls never leave the event loop for people's middleware."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from django.conf import settings
from django.core import checks
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.test import AsyncClient, AsyncRequestFactory, Client
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from lambo_site.middleware import FORWARDING_HEADERS, find_refusal

HOSTS = ["127.0.0.1", "localhost", "[::1]"]


@csrf_exempt
async def program_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{threading.get_ident()} {hasattr(request, 'session')}")


def page_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{request.session.session_key} {request.user.is_authenticated}")


def form_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(get_token(request) if request.method == "GET" else "taken")


urlpatterns = [
    path("api/v1/thing", program_view),
    path("page/", page_view),
    path("form/", form_view),
]

pytestmark = pytest.mark.urls(__name__)


@pytest.mark.parametrize("host", ["127.0.0.1:7700", "localhost", "LOCALHOST:1", "[::1]:7700"])
def test_our_names_are_let_in(host: str) -> None:
    assert find_refusal({}, HOSTS, host=host) is None
    assert find_refusal({"origin": f"http://{host}"}, HOSTS, host=host) is None


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example", "a b", "10.0.0.1"])
def test_foreign_host_is_refused(host: str) -> None:
    refusal = find_refusal({}, HOSTS, host=host)
    assert refusal is not None
    assert refusal.fields["field"] == "host"


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "http://localhost:3000",
        "http://127.0.0.1:77000",
        "file://",
    ],
)
def test_page_of_another_origin_is_refused(origin: str) -> None:
    refusal = find_refusal({"origin": origin}, HOSTS, host="127.0.0.1:7700")
    assert refusal is not None
    assert refusal.fields["field"] == "origin"


@pytest.mark.parametrize("header", FORWARDING_HEADERS)
def test_forwarded_call_is_refused(header: str) -> None:
    refusal = find_refusal({header: "127.0.0.1"}, HOSTS, host="localhost")
    assert refusal is not None
    assert refusal.fields["field"] == header


@pytest.mark.parametrize("address", ["/api/v1/thing", "/page/", "/missing"])
@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"x-forwarded-for": "1.2.3.4"}],
)
async def test_door_stands_before_every_path(address: str, headers: dict[str, str]) -> None:
    answer = await AsyncClient().get(address, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["code"] == "forbidden"
    assert Client().get(address, headers=headers).status_code == 403


class Hops:
    """Counts calls that leave the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        original = SyncToAsync.__call__

        async def counted(this: Any, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return await original(this, *args, **kwargs)

        monkeypatch.setattr(SyncToAsync, "__call__", counted)


async def answer_to(address: str) -> HttpResponse:
    handler = ASGIHandler()
    request = AsyncRequestFactory().get(address)
    answer = await handler.get_response_async(request)
    assert isinstance(answer, HttpResponse)
    return answer


async def test_programs_call_stays_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    hops = Hops(monkeypatch)
    answer = await answer_to("/api/v1/thing")
    assert answer.content.decode() == f"{threading.get_ident()} False"
    assert hops.count == 0
    assert not answer.cookies


@pytest.mark.django_db
async def test_page_gets_session_and_person(monkeypatch: pytest.MonkeyPatch) -> None:
    hops = Hops(monkeypatch)
    answer = await answer_to("/page/")
    assert answer.content == b"None False"
    assert answer["X-Frame-Options"] == "DENY"
    assert hops.count > 0


@pytest.mark.django_db
@pytest.mark.parametrize("is_async", [True, False])
def test_form_without_our_token_is_refused_and_with_it_taken(is_async: bool) -> None:
    def post(client: Any, **data: str) -> Any:
        if is_async:
            return asyncio.run(client.post("/form/", data))
        return client.post("/form/", data)

    client: Any = (AsyncClient if is_async else Client)(enforce_csrf_checks=True)
    assert post(client).status_code == 403
    first = asyncio.run(client.get("/form/")) if is_async else client.get("/form/")
    token = first.content.decode()
    assert post(client, csrfmiddlewaretoken=token).content == b"taken"


def test_admin_is_satisfied_with_the_middleware() -> None:
    found = [message for message in checks.run_checks() if (message.id or "").startswith("admin.")]
    assert found == []


def test_cookies_of_two_servers_on_one_machine_differ() -> None:
    assert settings.SESSION_COOKIE_NAME.endswith(str(settings.PROCESS.port))
