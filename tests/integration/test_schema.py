"""Models, engine, codecs and documentation say the same about the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import connections, models
from pytest_django import DjangoDbBlocker

from engine_database import EngineDatabase, engine_database
from lambo_site.routers import EngineRouter
from memory.engine.types import AuditKind, ConceptType, EdgeType, Status
from memory.models import (
    AuditEvent,
    AuditKindChoices,
    Concept,
    ConceptTypeChoices,
    Edge,
    EdgeTypeChoices,
    Interaction,
    StatusChoices,
)
from memory.store import codecs
from session_log import SessionLog

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "schema.md"
MODELS = list(apps.get_app_config("memory").get_models())


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[EngineDatabase]:
    with django_db_blocker.unblock(), engine_database(tmp_path) as made:
        yield made


def columns(model: type[models.Model]) -> list[models.Field[object, object]]:
    """The fields of a model that are columns; a composite key is none."""
    return [field for field in model._meta.local_fields if field.column is not None]


@pytest.mark.parametrize(
    ("choices", "enum"),
    [
        (ConceptTypeChoices, ConceptType),
        (StatusChoices, Status),
        (EdgeTypeChoices, EdgeType),
        (AuditKindChoices, AuditKind),
    ],
)
def test_choices_equal_the_engines_enums(
    choices: type[models.TextChoices], enum: type[StrEnum]
) -> None:
    assert {member.name: member.value for member in choices} == {
        member.name: member.value for member in enum
    }


@pytest.mark.parametrize(
    "table",
    [
        *(codecs.INTERACTIONS, codecs.CONCEPTS, codecs.EDGES, codecs.RESERVATIONS),
        *(codecs.TRANSITIONS, codecs.ENTRIES, codecs.SYNONYMS),
    ],
    ids=lambda table: f"{table.name} {len(table.columns)}",
)
def test_codecs_and_models_agree_on_columns_and_nulls(table: codecs.Table) -> None:
    (model,) = (model for model in MODELS if model._meta.db_table == table.name)
    nullable = {field.column: field.null for field in columns(model)}
    nullable.pop("session_id")
    assert len(table.columns) == len(table.kinds)
    allowed = {
        column: kind.name.endswith("_OR_NULL")
        for column, kind in zip(table.columns, table.kinds, strict=True)
    }
    if table in (codecs.TRANSITIONS, codecs.ENTRIES):
        # Two sorts of rows share the table of audit rows; what one of them lacks is null.
        both = {*codecs.TRANSITIONS.columns, *codecs.ENTRIES.columns}
        assert nullable.keys() - both == {"session_deleted_at", *codecs.LINK_COLUMNS}
        nullable = {column: nullable[column] for column in allowed}
        assert all(nullable[column] for column, may_be_null in allowed.items() if may_be_null)
    else:
        assert nullable == allowed


def test_every_constraint_and_index_is_named_for_its_table() -> None:
    for model in MODELS:
        for item in [*model._meta.constraints, *model._meta.indexes]:
            assert item.name.startswith("lambo_")
        assert not any(isinstance(field, models.ForeignKey) for field in columns(model))


def _documented(heading: str) -> str:
    """The text of the document below a heading of the third level."""
    match = re.search(rf"^### {heading}\n(.*?)(?=^##|\Z)", DOCUMENT.read_text(), re.M | re.S)
    assert match is not None, f"docs/schema.md has no section {heading}"
    return match.group(1)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.db_table)
def test_the_document_lists_every_column(model: type[models.Model]) -> None:
    section = _documented(model._meta.db_table)
    rows = re.findall(r"^\| (\w+) \| ([\w()]+) \| (yes|no) \| \S.* \|$", section, re.M)
    connection = connections["memory"]
    assert rows == [
        (field.column, field.db_type(connection), "yes" if field.null else "no")
        for field in columns(model)
    ]
    for item in [*model._meta.constraints, *model._meta.indexes]:
        assert f"`{item.name}`" in section


def test_the_document_lists_every_view_and_its_columns(database: EngineDatabase) -> None:
    views = [
        name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='view'")
    ]
    assert sorted(re.findall(r"^### (lambo_v_\w+)$", DOCUMENT.read_text(), re.M)) == sorted(views)
    for view in views:
        documented = re.findall(r"`(\w+)`", _documented(view))
        stored = [row[1] for row in database.execute(f"PRAGMA table_info({view})")]
        assert documented == stored


def test_the_orm_reads_ids_as_text_and_instants_as_integers(database: EngineDatabase) -> None:
    log = SessionLog(database.store())
    (concept,) = log.write("seen by the ORM")

    row = Concept.objects.using(database.reader).get(id=concept.id)

    assert (row.id, row.created_at) == (concept.id, concept.created_at)
    assert type(row.id) is str
    assert str(row) == "seen by the ORM"
    edge = Edge.objects.using(database.reader).get(target=concept.id)
    assert str(edge) == f"{concept.origin_interaction} -Derives-> {concept.id}"
    assert Interaction.objects.using(database.reader).filter(previous_id=None).count() == 1
    with pytest.raises(ValidationError):
        Concept.objects.using(database.reader).filter(id=concept.id.upper() + "x").exists()


def test_engine_models_are_read_from_the_reader_and_migrated_by_the_writer() -> None:
    router = EngineRouter()
    user = apps.get_model("auth", "User")
    assert router.db_for_read(Concept) == "memory_ro"
    assert router.db_for_write(Concept) == "memory"
    assert router.db_for_read(user) == router.db_for_write(user) == "default"
    assert router.allow_relation(Concept(), Edge())
    assert not router.allow_relation(Concept(), user())

    migrated = {
        (alias, label): router.allow_migrate(alias, label)
        for alias in ("default", "memory", "memory_ro")
        for label in ("memory", "auth")
    }
    assert {key for key, is_allowed in migrated.items() if is_allowed} == {
        ("default", "auth"),
        ("memory", "memory"),
    }
    assert AuditEvent._meta.app_label == "memory"
