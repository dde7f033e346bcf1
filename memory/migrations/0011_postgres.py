"""pgvector, where the engine is PostgreSQL; nothing on others.

`lambo_embedding` keeps only the keys there and becomes the parent of one table for each dimension,
see `memory.store.postgres_vectors`.
"""

from django.db import migrations

_VECTOR_TABLES = (
    "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'lambo_embedding'::regclass"
)


def prepare(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":
        return
    schema_editor.execute("CREATE EXTENSION IF NOT EXISTS vector", params=None)
    schema_editor.execute("ALTER TABLE lambo_embedding DROP COLUMN vector", params=None)


def undo(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_VECTOR_TABLES)
        tables = [name for (name,) in cursor.fetchall()]
    for table in tables:
        schema_editor.execute(f"DROP TABLE {table}", params=None)
    schema_editor.execute("ALTER TABLE lambo_embedding ADD COLUMN vector bytea", params=None)


class Migration(migrations.Migration):
    dependencies = [("memory", "0010_events")]

    operations = [migrations.RunPython(prepare, undo)]
