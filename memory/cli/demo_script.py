"""The scenario of `lambo demo`: two agents build one REST API, in twelve writes.

Data only. Agent A lays the schema and the handlers, agent B adds rate limiting, agent A comes back
to change the one thing everything rests on; then B asks what that change would touch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

SESSION: Final = "demo-rest-api"
QUERY: Final = "update user schema"
SCHEMA: Final = "user schema"
AUTH: Final = "auth middleware"

_USERS: Final = "handlers/users.rs"
_LOGIN: Final = "handlers/login.rs"
_SESSIONS: Final = "middleware/session.rs"
_JWT: Final = "middleware/jwt.rs"
_LIMITS: Final = "middleware/ratelimit.rs"
_REPO: Final = "repo/users.rs"


@dataclass(frozen=True, slots=True)
class Step:
    """One write: its agent, its verb and the arguments as they go over the wire."""

    agent: str
    verb: str
    arguments: dict[str, Any]


def _derive(agent: str, concepts: dict[str, str], *, under: str | None = None) -> Step:
    """Statements with their kinds; with `under`, the first three become parts of it."""
    arguments: dict[str, Any] = {
        "concepts": [{"content": text, "concept_type": kind} for text, kind in concepts.items()]
    }
    if under is not None:
        arguments["parent_of"] = [{"parent": under, "child": text} for text in list(concepts)[:3]]
    return Step(agent, "derive", arguments)


def _action(agent: str, action: str, *, depends_on: list[str], **touched: list[str]) -> Step:
    return Step(agent, "record-action", {"action": action, "depends_on": depends_on, **touched})


A, B = "agent-a", "agent-b"

STEPS: Final = (
    _derive(A, {SCHEMA: "entity", AUTH: "entity", "session store": "entity"}),
    _derive(
        A,
        {
            "email column": "entity",
            "password hash column": "constraint",
            "user id column": "logic",
            "users table migration": "resource",
        },
        under=SCHEMA,
    ),
    _action(
        A,
        "write POST /users handler",
        produces=[_USERS],
        depends_on=[SCHEMA, AUTH, _LIMITS, _REPO],
    ),
    _derive(
        A,
        {
            "created at column": "entity",
            "role column": "constraint",
            "users table migration": "resource",
        },
        under=SCHEMA,
    ),
    _action(
        A,
        "write session middleware",
        produces=[_SESSIONS],
        depends_on=["session store", SCHEMA, _USERS, "redis backend", _JWT],
    ),
    _derive(
        A,
        {
            "user serializer": "logic",
            "user validation rules": "constraint",
            "user fixtures": "resource",
        },
        under=SCHEMA,
    ),
    _action(
        A, "add JWT verification", produces=[_JWT], depends_on=[AUTH, SCHEMA, _SESSIONS, _LOGIN]
    ),
    _action(A, "write user repository", produces=[_REPO], depends_on=[SCHEMA, _USERS]),
    _action(
        A,
        "wire login endpoint",
        produces=[_LOGIN],
        depends_on=[
            AUTH,
            "session store",
            SCHEMA,
            _USERS,
            _JWT,
            _SESSIONS,
            _REPO,
            "redis backend",
            _LIMITS,
        ],
    ),
    _derive(
        B, {"rate limiter": "entity", "redis backend": "resource", "user fixtures": "resource"}
    ),
    _action(
        B,
        "add rate limiting middleware",
        produces=[_LIMITS],
        depends_on=[AUTH, SCHEMA, _LOGIN, _SESSIONS, "redis backend", "rate limiter"],
    ),
    _action(
        A,
        "add oauth_id to user schema",
        modifies=[SCHEMA],
        depends_on=[AUTH, _REPO, _USERS, _JWT, _LIMITS, _LOGIN],
    ),
)
