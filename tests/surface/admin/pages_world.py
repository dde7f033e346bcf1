"""People, rows and clients for tests of the admin's pages."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client

from memory.models import AuditEvent, Concept, Edge, Session

SECOND = 1_000_000
START = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z


def node_id(number: int) -> str:
    """A readable id; greater numbers sort later."""
    return f"00000000-0000-7000-8000-{number:012d}"


def person(name: str, *groups: str, is_superuser: bool = False) -> Any:
    """Somebody who may come to the pages. Without a password, whose hashing takes its time."""
    users = get_user_model()
    user = users.objects.create(username=name, is_staff=True, is_superuser=is_superuser)
    user.groups.set(Group.objects.filter(name__in=groups))
    return user


def browsing(user: Any) -> Client:
    """A logged-in browser of a person, that shows no forged form and tells every error."""
    client = Client()
    client.force_login(user)
    return client


def add_session(name: str = "shop") -> Session:
    return Session.objects.create(session_id=name, match_strategy="canonical", created_at=START)


def add_concept(number: int, content: str, *, session: str = "shop", **more: Any) -> Concept:
    columns = {"status": "None", "concept_type": "Entity", "origin_agent": "ann", **more}
    return Concept.objects.create(
        id=node_id(number),
        session_id=session,
        content=content,
        canonical_key=content.lower(),
        origin_interaction=node_id(1),
        created_at=START + number * SECOND,
        **columns,
    )


def add_edge(number: int, source: int, target: int, kind: str = "Dependency") -> Edge:
    return Edge.objects.create(
        id=node_id(number),
        session_id="shop",
        source=node_id(source),
        target=node_id(target),
        edge_type=kind,
        weight=0.5,
        reinforcements=1,
        created_at=START,
        last_reinforced=START,
        created_by="ann",
        reinforced_by="ann",
    )


def audit_row(number: int, *, node: int | None = None, **more: Any) -> AuditEvent:
    """A row that is not stored yet; a promotion to Candidate when nothing else is said."""
    columns: dict[str, Any] = {
        "session_id": "shop",
        "kind": "transition",
        "from_status": "None",
        "to_status": "Candidate",
        "actor": "canonization",
        "occurred_at": START + number * SECOND,
        **more,
    }
    if isinstance(columns.get("detail"), dict):
        columns["detail"] = json.dumps(columns["detail"])
    return AuditEvent(
        id=node_id(number), node_id=None if node is None else node_id(node), **columns
    )


def add_audit_row(number: int, **more: Any) -> AuditEvent:
    row = audit_row(number, **more)
    row.save(force_insert=True)
    return row


def check(gate: str, measured: float | None, bar: float | None, **more: Any) -> dict[str, Any]:
    """A gate as evidence keeps it."""
    return {"gate": gate, "measured": measured, "bar": bar, "is_strict": False, "met": True, **more}


EVIDENCE = {
    "policy": "Swarm",
    "checks": [
        check("gc_survived", 4, 3),
        check("distinct_interactions", 9, 3),
        check("coverage", 0.8181818, 0.3),
        check("cooldown", None, 300.0),
    ],
    "blast_radius": 15,
    "supports": [
        {
            "dependent": node_id(12),
            "edge": node_id(70),
            "interaction": node_id(90),
            "agent_id": "bob",
            "is_distinct": True,
        }
    ],
    "support_count": 3,
}
