"""Who comes in where no token is asked for, and which connections come from this machine."""

from __future__ import annotations

from typing import Any

import pytest

from lambo_site.gate import is_from_this_machine
from surface.api.callers import ARGUMENTS, DRAWN, OPERATOR, Api, error_of

BEARER = {"Authorization": f"Bearer {DRAWN.text}"}


async def test_token_that_is_sent_counts_in_local_mode_too(api: Api) -> None:
    await api.write_first()
    assert (await api.verb("token-create")).json()["scopes"] == ["read"]
    read = await api.verb("stats", agent=None, headers=BEARER)
    assert read.status_code == 200
    refused = await api.verb("derive", agent=None, headers=BEARER)
    assert error_of(refused)["code"] == "forbidden"
    assert (await api.verb("derive")).status_code == 200
    await api.verb("token-revoke")
    gone = await api.verb("stats", agent=None, headers=BEARER)
    assert (gone.status_code, gone.headers["WWW-Authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer x", "Basic YTpi", DRAWN.text])
async def test_wrong_token_is_refused_and_never_ignored(api: Api, given: str) -> None:
    answer = await api.verb("derive", ARGUMENTS["derive"], headers={"Authorization": given})
    assert answer.status_code == 401
    assert error_of(answer)["code"] == "unauthenticated"
    assert (await api.verb("session-list")).json()["sessions"] == []


async def test_operator_secret_wins_over_a_token_beside_it(api: Api) -> None:
    answer = await api.verb("token-list", headers={**OPERATOR, "Authorization": "Bearer x"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("client", "server", "headers", "is_ours"),
    [
        (("127.0.0.1", 5), ("127.0.0.1", 7700), [], True),
        (("127.9.9.9", 5), ("0.0.0.0", 7700), [], True),
        (("::1", 5), ("::1", 7700), [], True),
        (("192.0.2.5", 5), ("192.0.2.5", 7700), [], True),
        (("192.0.2.6", 5), ("192.0.2.5", 7700), [], False),
        (("127.0.0.1", 5), ("127.0.0.1", 7700), [(b"x-forwarded-for", b"127.0.0.1")], False),
        (("127.0.0.1", 5), ("127.0.0.1", 7700), [(b"forwarded", b"for=127.0.0.1")], False),
        (("127.0.0.1", 5), ("127.0.0.1", 7700), [(b"x-real-ip", b"127.0.0.1")], False),
        (None, None, [], False),
        (("somewhere", 5), ("somewhere", 7700), [], False),
    ],
)
def test_connection_of_this_machine_is_told_from_others(
    client: Any, server: Any, headers: list[tuple[bytes, bytes]], is_ours: bool
) -> None:
    scope = {"headers": headers, "client": client, "server": server}
    assert is_from_this_machine(scope) is is_ours
