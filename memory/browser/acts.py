"""Acts of logged-in people on the memory: through the client, as anybody's, under their own name.

Owns the way from a page to the running server, and the note of it in Django's own log. A page holds
no session and no right to write: the server decides, applies and keeps the audit row.

Invariant: nothing is asked of the server inside a transaction of a database. It would hold a lock
for as long as the server takes, and what the server did would not be undone with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

from django.conf import settings
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import connections
from django.db.models import Model

from memory.client import LamboClient, Retries
from memory.engine.errors import LamboError

T = TypeVar("T")

ACTOR_PREFIX: Final = "admin:"
PATIENCE: Final = Retries(patience_seconds=20.0, unreachable_seconds=2.0)
"""A person waits at a page: long enough for a busy server, not for one that is gone."""
GLANCE: Final = Retries(patience_seconds=3.0, unreachable_seconds=0.0)
"""For what only adds to a page that can be drawn without it."""


class InsideTransaction(LamboError):
    """A bug of a page: the server was to be asked with a transaction open."""

    code: ClassVar[str] = "inside_transaction"


def actor_name(user: Any) -> str:
    """How the audit trail names a person of these pages; no agent's name tells the same."""
    return f"{ACTOR_PREFIX}{user.get_username()}"


def ask(user: Any, call: Callable[[LamboClient], T], *, patience: Retries = PATIENCE) -> T:
    """What the running server answers to a call under a person's name.

    Raises `LamboError`: the server's refusal, `ServerUnreachable`, or `InsideTransaction`.
    """
    refuse_transaction()
    process = settings.PROCESS
    with LamboClient.local(
        process.data_dir,
        agent_id=actor_name(user),
        user=actor_name(user),
        as_operator=True,
        always_operator=process.requires_tokens,
        retries=patience,
    ) as client:
        return call(client)


def refuse_transaction() -> None:
    """Raise `InsideTransaction` if this thread has one open on any database."""
    held = [one.alias for one in connections.all(initialized_only=True) if one.in_atomic_block]
    if held:
        raise InsideTransaction(
            f"the server is not asked inside a transaction (open on: {', '.join(held)})"
        )


def note(user: Any, row: Model | type[Model], object_id: str, act: str, **numbers: str) -> None:
    """Keep who did what in the log that Django shows on a person's own page.

    Ids and names of acts alone: what stands here is out of reach of a purge.
    """
    LogEntry.objects.create(
        user_id=user.pk,
        content_type_id=ContentType.objects.get_for_model(row).pk,
        object_id=object_id,
        object_repr=object_id[:200],
        action_flag=CHANGE,
        change_message=json.dumps([{"changed": {"name": act, "object": object_id, **numbers}}]),
    )
