"""The feed of promotions and demotions, with the evidence that decided.

The steps come from RAM, as the session holds them; their evidence stands in the audit trail alone
and is read from the database, off the event loop. Where nothing is stored, or it does not answer,
a step is shown without.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.db import DatabaseError

from lambo_site.portal.graph_export import label_of
from memory.browser.evidence import ReadEvidence, read_detail
from memory.engine.graph import Graph
from memory.engine.times import format_rfc3339
from memory.engine.types import Status, Transition
from memory.models import AuditEvent

log = logging.getLogger("lambo.portal")

STEPS_SHOWN: Final = 20
SUPPORTS_SHOWN: Final = 12


async def list_promotions(graph: Graph, *, most: int = STEPS_SHOWN) -> list[dict[str, Any]]:
    """The newest steps of statuses, newest first."""
    steps = list(islice(reversed(graph.transitions.values()), most))
    details = await _read_details([step.id for step in steps])
    return [_step(graph, step, read_detail(details.get(step.id))) for step in steps]


@sync_to_async
def _read_details(ids: Sequence[str]) -> Mapping[str, str | None]:
    try:
        return dict(AuditEvent.objects.filter(id__in=ids).values_list("id", "detail"))
    except DatabaseError as error:
        log.warning("the evidence of promotions cannot be read now: %s", error)
        return {}


def _step(graph: Graph, step: Transition, evidence: ReadEvidence | None) -> dict[str, Any]:
    row = graph.row_of(step.node_id)
    return {
        "id": step.id,
        "node_id": step.node_id,
        "content": step.node_id if row is None else label_of(graph, row),
        "is_live": row is not None,
        "kind": "demoted" if step.to_status is Status.NONE else "promoted",
        "from_status": str(step.from_status),
        "to_status": str(step.to_status),
        "blast_radius": step.blast_radius,
        "reason": step.reason,
        "actor": step.actor,
        "at": format_rfc3339(step.occurred_at),
        "evidence": None if evidence is None else _evidence(graph, evidence),
    }


def _evidence(graph: Graph, evidence: ReadEvidence) -> dict[str, Any]:
    shown = evidence.supports[:SUPPORTS_SHOWN]
    return {
        "policy": evidence.policy,
        "checks": [{"sentence": one.sentence, "met": one.is_met} for one in evidence.checks],
        "supports": [
            {
                "node_id": one.dependent,
                "content": one.dependent
                if (row := graph.row_of(one.dependent)) is None
                else label_of(graph, row),
                "agent_id": one.agent_id,
            }
            for one in shown
        ],
        "support_count": evidence.support_count,
    }
