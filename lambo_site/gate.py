"""Who comes in: from the headers of a request to the rights of its caller, for every surface.

Owns the two modes. In local mode being on this machine is enough, and a token that is sent all the
same counts; in token mode nobody comes in without one, but for the command line, which shows the
operator secret from this machine. Decides nothing about what a right allows
(`memory.engine.rights`).

Invariant: a credential that is shown is judged, never ignored, and every caller of token mode that
is not recognised gets one and the same answer.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

from lambo_site.middleware import FORWARDING_HEADERS
from memory import runtime
from memory.engine.errors import Forbidden, InvalidArgument, LamboError
from memory.engine.rights import LOCAL, OPERATOR, Rights
from memory.http_calls import OPERATOR_HEADER, SCOPE_RIGHTS
from memory.service.measures import NO_MEASURES, Measures
from memory.service.tokens import unauthenticated

Scope = MutableMapping[str, Any]

_OPERATOR: Final = OPERATOR_HEADER.lower().encode()
_AUTHORIZATION: Final = b"authorization"
_BEARER: Final = "bearer"


class Gate:
    """Recognises callers. `requires_tokens` is token mode."""

    def __init__(self, *, requires_tokens: bool, measures: Measures = NO_MEASURES) -> None:
        self._requires_tokens = requires_tokens
        self._measures = measures

    async def admit(self, scope: Scope) -> Rights:
        """The rights of a request's caller, also left in its scope.

        Raises `Unauthenticated`, `RateLimited`, or `Forbidden` for a wrong operator secret.
        """
        try:
            rights = await self._recognise(scope, is_call=True)
        except LamboError as refusal:
            self._measures.refused(refusal.code)
            raise
        scope[SCOPE_RIGHTS] = rights
        return rights

    async def recognise(self, scope: Scope) -> Rights:
        """The same for a caller who was let in and stays: it counts as no call. Raises alike."""
        return await self._recognise(scope, is_call=False)

    async def _recognise(self, scope: Scope, *, is_call: bool) -> Rights:
        secrets = list(_values(scope, _OPERATOR))
        if secrets:
            return self._operator(scope, secrets)
        given = list(_values(scope, _AUTHORIZATION))
        if not given:
            if self._requires_tokens:
                raise unauthenticated()
            return LOCAL
        kind, _, token = given[0].partition(" ")
        if len(given) > 1 or kind.lower() != _BEARER:
            raise unauthenticated()
        return await runtime.get_host().tokens.authenticate(token.strip(), is_call=is_call)

    def _operator(self, scope: Scope, secrets: list[str]) -> Rights:
        is_right = len(secrets) == 1 and runtime.is_operator_secret(secrets[0])
        if not self._requires_tokens:
            if not is_right:
                if "\ufffd" in secrets[0]:
                    raise InvalidArgument("operator", f"the header {OPERATOR_HEADER} is not UTF-8")
                raise Forbidden("the operator secret is not the one of this server")
            return OPERATOR
        if is_right and is_from_this_machine(scope):
            return OPERATOR
        raise unauthenticated()


def is_from_this_machine(scope: Scope) -> bool:
    """Whether the connection comes from here and was not handed on by a proxy."""
    if any(name.startswith(_FORWARDING) for name, _value in scope["headers"]):
        return False
    client, server = scope.get("client"), scope.get("server")
    if not client:
        return False
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return False
    # A server bound to an address of its own is reached from there by the machine itself.
    return address.is_loopback or bool(server and client[0] == server[0])


_FORWARDING: Final = tuple(name.encode() for name in FORWARDING_HEADERS)


def _values(scope: Scope, name: bytes) -> Iterator[str]:
    """Every value of a header. Bytes that are no text stay wrong instead of becoming an error."""
    for key, value in scope["headers"]:
        if key.lower() == name:
            yield value.decode("utf-8", "replace")
