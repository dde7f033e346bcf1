"""The two-agent scenario as requests, for tests that need a graph of known counts."""

from __future__ import annotations

from memory.engine.requests import ActionRequest, ConceptInput, DeriveRequest
from memory.engine.types import ConceptType

E, C, L, R = (
    ConceptType.ENTITY,
    ConceptType.CONSTRAINT,
    ConceptType.LOGIC,
    ConceptType.RESOURCE,
)


def derive(*concepts: tuple[str, ConceptType], parent: str | None = None) -> DeriveRequest:
    """A derive of typed texts; with `parent` the first three become its children."""
    children = [] if parent is None else [text for text, _ in concepts[:3]]
    return DeriveRequest(
        concepts=tuple(ConceptInput(text, kind) for text, kind in concepts),
        parent_of=tuple((parent or "", child) for child in children),
    )


def action(
    text: str, *depends_on: str, produces: str | None = None, modifies: str | None = None
) -> ActionRequest:
    return ActionRequest(
        action=text,
        produces=() if produces is None else (produces,),
        modifies=() if modifies is None else (modifies,),
        depends_on=depends_on,
    )


SCHEMA = "user schema"
SCENARIO: tuple[tuple[str, DeriveRequest | ActionRequest], ...] = (
    ("agent-a", derive((SCHEMA, E), ("auth middleware", E), ("session store", E))),
    (
        "agent-a",
        derive(
            ("email column", E),
            ("password hash column", C),
            ("user id column", L),
            ("users table migration", R),
            parent=SCHEMA,
        ),
    ),
    (
        "agent-a",
        action(
            "write POST /users handler",
            SCHEMA,
            "auth middleware",
            "middleware/ratelimit.rs",
            "repo/users.rs",
            produces="handlers/users.rs",
        ),
    ),
    (
        "agent-a",
        derive(
            ("created at column", E),
            ("role column", C),
            ("users table migration", R),
            parent=SCHEMA,
        ),
    ),
    (
        "agent-a",
        action(
            "write session middleware",
            "session store",
            SCHEMA,
            "handlers/users.rs",
            "redis backend",
            "middleware/jwt.rs",
            produces="middleware/session.rs",
        ),
    ),
    (
        "agent-a",
        derive(
            ("user serializer", L),
            ("user validation rules", C),
            ("user fixtures", R),
            parent=SCHEMA,
        ),
    ),
    (
        "agent-a",
        action(
            "add JWT verification",
            "auth middleware",
            SCHEMA,
            "middleware/session.rs",
            "handlers/login.rs",
            produces="middleware/jwt.rs",
        ),
    ),
    (
        "agent-a",
        action("write user repository", SCHEMA, "handlers/users.rs", produces="repo/users.rs"),
    ),
    (
        "agent-a",
        action(
            "wire login endpoint",
            "auth middleware",
            "session store",
            SCHEMA,
            "handlers/users.rs",
            "middleware/jwt.rs",
            "middleware/session.rs",
            "repo/users.rs",
            "redis backend",
            "middleware/ratelimit.rs",
            produces="handlers/login.rs",
        ),
    ),
    ("agent-b", derive(("rate limiter", E), ("redis backend", R), ("user fixtures", R))),
    (
        "agent-b",
        action(
            "add rate limiting middleware",
            "auth middleware",
            SCHEMA,
            "handlers/login.rs",
            "middleware/session.rs",
            "redis backend",
            "rate limiter",
            produces="middleware/ratelimit.rs",
        ),
    ),
    (
        "agent-a",
        action(
            "add oauth_id to user schema",
            "auth middleware",
            "repo/users.rs",
            "handlers/users.rs",
            "middleware/jwt.rs",
            "middleware/ratelimit.rs",
            "handlers/login.rs",
            modifies=SCHEMA,
        ),
    ),
)

EXPECTED_STEPS = (
    (3, 0), (4, 6), (4, 5), (2, 7), (4, 6), (3, 6), (2, 5), (1, 3), (1, 10), (1, 2), (1, 7), (1, 7),
)  # fmt: skip
"""Created and matched for a derive, created and new edges for an action."""

EXPECTED_EDGES = {
    "Dependency": 36,
    "Derives": 33,
    "CoOccurrence": 18,
    "Temporal": 11,
    "Hierarchical": 9,
    "Causal": 7,
}
