"""The JSON lines of the public MCP reference memory server: entities, observations, relations.

An entity becomes a concept of its name under a concept of its type; an observation becomes one that
begins with the entity's name and rests on it; a relation becomes one that says it, and rests on
both its ends. The file is read and checked whole before the first write. It tells no times: all of
it is dated by the one that is given, since it was known then at the latest.

Invariant: a file that is refused, at whichever line, has written nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from memory.engine.errors import InvalidArgument, RepeatedObservation, SecondParent
from memory.engine.requests import check_keyed_text
from memory.engine.text import canonical_key, check_text, has_key
from memory.imports.importing import Importer, ImportRefused

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
FILE_BYTES_MAX: Final = 256 * 1024 * 1024
OBSERVATIONS_PER_CALL: Final = 32
PROGRESS_EVERY: Final = 50


@dataclass(slots=True)
class Entity:
    """One entity; the observations of several lines about it together, each once."""

    name: str
    type: str
    observations: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Relation:
    """One entity's relation to another."""

    source: str
    target: str
    type: str

    @property
    def text(self) -> str:
        return f"{self.source} {self.type} {self.target}"


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """What a file holds, by name and in its order; `loose` are ends of relations without a line."""

    entities: dict[str, Entity]
    relations: list[Relation]
    loose: list[str]

    @property
    def observation_count(self) -> int:
        return sum(len(entity.observations) for entity in self.entities.values())


# -- reading ---------------------------------------------------------------------------------------


def read_memory_file(path: Path) -> MemoryFile:
    """Read and check all of a file. Raises `ImportRefused`, naming the file and the line."""
    entities: dict[str, Entity] = {}
    relations: dict[Relation, None] = {}
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            raise ImportRefused(f"{path}: {size} bytes, over the {FILE_BYTES_MAX} that are read")
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                _take_line(f"{path} line {number}", line, entities, relations)
    except OSError as error:
        raise ImportRefused(f"cannot read {path}: {error.strerror}") from error
    ends = dict.fromkeys(end for one in relations for end in (one.source, one.target))
    return MemoryFile(entities, list(relations), [end for end in ends if end not in entities])


def _take_line(
    where: str, line: bytes, entities: dict[str, Entity], relations: dict[Relation, None]
) -> None:
    if len(line) > LINE_BYTES_MAX:
        raise ImportRefused(f"{where}: longer than {LINE_BYTES_MAX} bytes")
    text = line.removeprefix(b"\xef\xbb\xbf").strip()
    if not text:
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImportRefused(f"{where}: not JSON in UTF-8: {error!s:.120}") from error
    try:
        match document:
            case {"type": "entity"}:
                _take_entity(document, entities)
            case {"type": "relation"}:
                relation = _read_relation(document)
                relations[relation] = None
            case dict():
                raise InvalidArgument("type", "type must be entity or relation")
            case _:
                raise InvalidArgument("line", "a line must be a JSON object")
    except InvalidArgument as error:
        raise ImportRefused(f"{where}: {error.message}") from error


def _take_entity(document: dict[str, Any], entities: dict[str, Entity]) -> None:
    name = _keyed(document, "name")
    entity_type = document.get("entityType")
    check_text("entityType", entity_type)
    observations = document.get("observations", [])
    if not isinstance(observations, list):
        raise InvalidArgument("observations", "observations must be a list")
    for place, observation in enumerate(observations):
        check_text(f"observations[{place}]", observation)
        check_text(f"observations[{place}] with its entity", statement_of(name, observation))
    entity = entities.setdefault(name, Entity(name, str(entity_type).strip()))
    entity.observations.update(dict.fromkeys(observations))


def _read_relation(document: dict[str, Any]) -> Relation:
    source, target = _keyed(document, "from"), _keyed(document, "to")
    relation_type = document.get("relationType")
    check_text("relationType", relation_type)
    relation = Relation(source, target, str(relation_type).strip())
    check_text("relation", relation.text)
    return relation


def _keyed(document: dict[str, Any], field_name: str) -> str:
    value = document.get(field_name)
    check_text(field_name, value)
    check_keyed_text(field_name, str(value))
    return str(value).strip()


def statement_of(name: str, observation: str) -> str:
    """An observation as it can stand alone."""
    return f"{name}: {observation.strip()}"


# -- writing ---------------------------------------------------------------------------------------


def import_memory_file(file: MemoryFile, importer: Importer, *, event_time: str) -> int:
    """Write what a file holds; how many observations and relations were there already."""
    known = 0
    for count, entity in enumerate(file.entities.values(), 1):
        _write_entity(entity, importer, event_time)
        known += _write_observations(entity, importer, event_time)
        if count % PROGRESS_EVERY == 0:
            importer.progress("entities", count)
    for name in file.loose:
        importer.warn("relations name an entity that has no line; it is made without observations")
        _write_entity(Entity(name, ""), importer, event_time)
    importer.progress("entities", len(file.entities))
    for count, relation in enumerate(file.relations, 1):
        concept = {
            "content": relation.text,
            "concept_type": "logic",
            "depends_on": list(dict.fromkeys((relation.source, relation.target))),
        }
        importer.derive({"concepts": [concept], "event_time": event_time})
        if count % PROGRESS_EVERY == 0:
            importer.progress("relations", count)
    importer.progress("relations", len(file.relations))
    return known


def _write_entity(entity: Entity, importer: Importer, event_time: str) -> None:
    concepts = [{"content": entity.name, "concept_type": "entity"}]
    body: dict[str, Any] = {"concepts": concepts, "event_time": event_time}
    can_stand_above = has_key(entity.type) and canonical_key(entity.type) != canonical_key(
        entity.name
    )
    if can_stand_above:
        above = {**body, "parent_of": [{"parent": entity.type, "child": entity.name}]}
        try:
            importer.derive(above)
            return
        except SecondParent:
            importer.warn("entities stand under another concept already, and keep their place")
    importer.derive(body)


def _write_observations(entity: Entity, importer: Importer, event_time: str) -> int:
    concepts = [
        {
            "content": statement_of(entity.name, observation),
            "concept_type": "observation",
            "depends_on": [entity.name],
        }
        for observation in entity.observations
    ]
    known = 0
    for start in range(0, len(concepts), OBSERVATIONS_PER_CALL):
        some = concepts[start : start + OBSERVATIONS_PER_CALL]
        try:
            importer.derive({"concepts": some, "event_time": event_time})
        except RepeatedObservation:
            # A session that matches by words alone takes each once: some of these stand already.
            for concept in some:
                try:
                    importer.derive({"concepts": [concept], "event_time": event_time})
                except RepeatedObservation:
                    known += 1
    return known
