"""An event as one line for people, from its form on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memory.engine.showing import one_line

_SAYING: Final = ("summary", "detail", "content", "work")


def event_line(event: Mapping[str, Any]) -> str:
    """When, what, by whom, and the sentence that says most; texts cannot forge a second line."""
    data = event["data"] if isinstance(event["data"], dict) else {}
    said = next((data[name] for name in _SAYING if data.get(name)), "")
    if "to_status" in data:
        said = f"{data.get('content') or data.get('node_id')} is {data['to_status']}"
    elif "cause" in data:
        said = f"{data.get('count')} by {data['cause']}"
    elif "work" in data:
        said = " ".join(f"{name} {value}" for name, value in data.items())
    elif "detail" in data and data.get("content"):
        said = f"{data['content']}: {data['detail']}"
    who = f" by {event['agent_id']}" if event["agent_id"] else ""
    return one_line(f"{event['id']}  {event['occurred_at']}  {event['kind']}{who}  {said}".rstrip())


def gap_line(gap: Mapping[str, Any]) -> str:
    """What a listener is told where events are missing."""
    if gap["resume"] <= gap["after"]:
        return f"gap: the log has begun anew after {gap['after']}; it goes on with {gap['resume']}"
    return (
        f"gap: {gap['lost']} events after {gap['after']} are not kept any more; it goes on with "
        f"{gap['resume']}"
    )
