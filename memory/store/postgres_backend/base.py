"""The engine's connection to PostgreSQL: Django's own, but for how ids and text are kept.

- An id is text in lower case for us on every engine: the driver gives a `uuid` so.
- Text is compared by its code points, as on the other engines. By a language's order the pages of a
  list would differ from engine to engine, and an index breaks when the system's library changes.
- Django gives each key of text a second index, for orders of a language. It would do nothing here.

Named as `ENGINE` in the settings, so that migrations make tables in this way.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base, schema
from psycopg.types.string import TextLoader


class DatabaseSchemaEditor(schema.DatabaseSchemaEditor):
    """Django's, without the indexes for `LIKE`."""

    def _create_like_index_sql(self, model: Any, field: Any) -> None:
        return None


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection whose ids and text are the engine's."""

    SchemaEditorClass = DatabaseSchemaEditor
    data_types = {**base.DatabaseWrapper.data_types, "TextField": 'text COLLATE "C"'}  # noqa: RUF012

    def get_new_connection(self, conn_params: Any) -> Any:
        connection = super().get_new_connection(conn_params)
        connection.adapters.register_loader("uuid", TextLoader)
        return connection
