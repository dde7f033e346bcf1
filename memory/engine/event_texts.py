"""Which texts of concepts an event tells, and what is left of them once a concept is gone.

Stored events keep what they said; this is judged whenever one is read, so nothing has to be written
when a concept goes, and a restored concept is named again. Owns where in an event's data a text
stands beside the id of its concept. Knows no store: who reads says which concepts live.

Invariant: a text of a concept that does not live is left out; ids, kinds and counts stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

from memory.engine.ports import StoredEvent
from memory.engine.types import Json, NodeId

REMOVED: Final = "[removed]"
"""What stands in place of a text of a concept that is gone."""

IsLive: TypeAlias = Callable[[NodeId], bool]

_NAMES: Final = ("node_id", "action_node", "new", "id", "other_end")
"""Members that name the concepts whose texts stand in the same object."""
_TEXTS: Final = ("summary", "content", "excerpt", "name")
_LISTS: Final = ("concepts", "replacement_candidates", "lost_edges")
"""Members that hold such objects."""


def told_of_removal(data: dict[str, Any]) -> dict[str, Any]:
    """What an event says of a retraction: no text of what went, nor names of what rested on it."""
    said = {name: part for name, part in data.items() if name not in ("content", "dependents")}
    return {**said, "summary": f"removed {data.get('target')}"}


def named_concepts(data: Json) -> Iterator[NodeId]:
    """The concepts whose texts an event may tell; an id may come more than once."""
    for part in _parts(data):
        yield from _names(part)


def shown(data: Json, is_live: IsLive) -> Json:
    """What an event says where only some concepts live; the very same if all it names do."""
    if not isinstance(data, dict):
        return data
    if data.get("verb") == "retract":
        data = told_of_removal(data)
    if all(map(is_live, named_concepts(data))):
        return data
    told = _without_gone(data, is_live)
    for name in _LISTS:
        if isinstance(items := told.get(name), list):
            told[name] = [
                _without_gone(item, is_live) if isinstance(item, dict) else item for item in items
            ]
    return told


def shown_events(events: Iterable[StoredEvent], is_live: IsLive) -> tuple[StoredEvent, ...]:
    """Stored events as they are told where only some concepts live."""
    return tuple(replace(event, data=shown(event.data, is_live)) for event in events)


def _parts(data: Json) -> Iterator[dict[str, Any]]:
    """The objects of an event's data in which texts stand."""
    if not isinstance(data, dict):
        return
    yield data
    for name in _LISTS:
        if isinstance(items := data.get(name), list):
            yield from (item for item in items if isinstance(item, dict))


def _names(part: dict[str, Any]) -> Iterator[NodeId]:
    if any(isinstance(part.get(name), str) for name in _TEXTS):
        yield from (part[name] for name in _NAMES if isinstance(part.get(name), str))


def _without_gone(part: dict[str, Any], is_live: IsLive) -> dict[str, Any]:
    if all(map(is_live, _names(part))):
        return dict(part)
    return {
        name: REMOVED if name in _TEXTS and isinstance(value, str) else value
        for name, value in part.items()
    }
