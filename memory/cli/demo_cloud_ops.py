"""The scenario `cloud-ops`: an agent about to delete a shared security group is stopped.

Agent A runs services behind one security group and says so. Agent B, who looks for things nobody
uses, asks before each deletion. Drives a server through the same client an agent's program would
use. Invariant: what is told depends on the scenario alone, so two runs tell the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from memory.client import ConceptFields, LamboClient

SESSION: Final = "demo-cloud-ops"
A, B = "agent-a", "agent-b"

GROUP: Final = "shared security group"
VOLUME: Final = "unattached test volume"
SERVICES: Final = {
    "orders database": "it admits the payments api on port 5432",
    "payments api": "it is reached through the group's rule for port 443",
    "search cluster": "its nodes find each other inside the group",
    "bastion host": "the only way in for people on call",
}
"""What rests on the group, and what agent A says of each."""

QUERY: Final = f"what depends on the {GROUP}"
ACTIONS: Final = (f"delete the {VOLUME}", f"delete the {GROUP}")
"""What agent B is about to do, one after the other."""


def play(client: LamboClient) -> dict[str, Any]:
    """Carry the scenario out and collect what it came to."""
    client.derive(SESSION, _things(), agent_id=A)
    client.derive(SESSION, _services(), agent_id=A)
    client.derive(SESSION, _reasons(), agent_id=A)
    # Put away and opened again: the next agent reads what the store holds.
    client.close_session(SESSION)
    asked = [
        {"action": action} | _judged(client.guard(SESSION, action, agent_id=B)["structured"])
        for action in ACTIONS
    ]
    recalled = client.recall(SESSION, QUERY, agent_id=B)["structured"]
    stats = client.stats(SESSION)["structured"]
    return {
        "session": SESSION,
        "interactions": stats["interaction_count"],
        "concepts": stats["concept_count"],
        "edges": stats["edge_count"],
        "focus": GROUP,
        "asked": asked,
        "stranded": asked[-1]["findings"][0]["dependents"],
        "query": QUERY,
        "context": recalled["context"],
        "warnings": recalled["warnings"],
    }


def _things() -> list[ConceptFields]:
    return [
        {"content": GROUP, "concept_type": "resource"},
        {"content": VOLUME, "concept_type": "resource"},
    ]


def _services() -> list[ConceptFields]:
    return [
        {"content": service, "concept_type": "resource", "depends_on": [GROUP]}
        for service in SERVICES
    ]


def _reasons() -> list[ConceptFields]:
    """What is known of each service; it rests on the service, not on the group."""
    return [
        {
            "content": f"{service}: {reason}",
            "concept_type": "constraint",
            "depends_on": [service],
        }
        for service, reason in SERVICES.items()
    ]


def _judged(structured: Mapping[str, Any]) -> dict[str, Any]:
    return {name: structured[name] for name in ("decision", "reason", "findings")}


# -- the transcript --------------------------------------------------------------------------------


def transcript(outcome: Mapping[str, Any]) -> str:
    """The whole story as text."""
    lines = [
        f"Two agents run one cloud account in the session '{outcome['session']}'.",
        "",
        A,
        f"  tells of the {GROUP} and of an {VOLUME}.",
        *(f"  puts the {service} behind the group: {why}." for service, why in SERVICES.items()),
        "",
        f"The memory now holds {outcome['interactions']} interactions, {outcome['concepts']} "
        f"concepts and {outcome['edges']} edges.",
        "",
        f"{B} cleans up what nobody uses, and asks before each step.",
        *(line for asked in outcome["asked"] for line in _asked_lines(asked)),
        "",
        f"{B} asks: {outcome['query']}",
        "",
        outcome["context"],
        "",
        f"Why: {len(outcome['stranded'])} concepts were written with the {outcome['focus']} as "
        "what they rest on, and would be stranded without it:",
        *(f"  {name}" for name in outcome["stranded"]),
        f"Nothing rests on the {VOLUME}, so that one may go.",
    ]
    return "\n".join(lines)


def _asked_lines(asked: Mapping[str, Any]) -> list[str]:
    return [
        f'  lambo guard --action "{asked["action"]}"',
        f"    {asked['decision']}: {asked['reason']}",
    ]
