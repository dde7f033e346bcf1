"""A request as it is kept beside its write: its arguments as text, and what tells it from others.

Invariant: equal requests give equal text, in this version and in those before it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any, Final

from memory.engine.errors import IdempotencyConflict
from memory.engine.mutations import Call
from memory.engine.requests import Caller

_LATER_FIELDS: Final = frozenset({"vector", "vector_model"})
"""Left out while unset, so that a request that was sent before an upgrade is the same after it."""


def make_call(verb: str, request: object, caller: Caller, key: str) -> Call:
    """The call of a request record under a key."""
    arguments = json.dumps(request, default=_as_json, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(f"{verb}\n{arguments}".encode()).hexdigest()
    return Call(verb, caller.agent_id, key, digest, arguments)


def check_same(digest: str, call: Call) -> None:
    """Refuse a key that was used for another request."""
    if digest != call.digest:
        raise IdempotencyConflict(
            "this idempotency key was used for another request; use a new key",
            idempotency_key=call.key,
        )


def _as_json(value: object) -> Any:
    assert is_dataclass(value)
    given = {field.name: getattr(value, field.name) for field in fields(value)}
    return {
        name: part for name, part in given.items() if part is not None or name not in _LATER_FIELDS
    }
