"""Three views for people who write plain SQL: times as ISO 8601, the session first.

A view is bound to its tables by name. On SQLite, changing a column rebuilds the table under another
name and fails while a view refers to it: a migration that alters one of these tables runs
`drop_views` before and creates the views again after.
"""

from django.db import migrations


def _fraction(column: str) -> str:
    """The microseconds of a second, taken upwards, so that years before 1970 hold."""
    return f"(({column} % 1000000) + 1000000) % 1000000"


def _iso_sqlite(column: str) -> str:
    """Microseconds as ISO 8601."""
    fraction = _fraction(column)
    seconds = f"({column} - {fraction}) / 1000000"
    return f"strftime('%Y-%m-%dT%H:%M:%S', {seconds}, 'unixepoch') || printf('.%06dZ', {fraction})"


def _iso_postgres(column: str) -> str:
    """Microseconds as ISO 8601; whole seconds are exact in the float that intervals are times."""
    fraction = _fraction(column)
    seconds = f"(({column} - {fraction}) / 1000000) * interval '1 second'"
    moment = f"to_char(timestamp '1970-01-01' + {seconds}, 'YYYY-MM-DD\"T\"HH24:MI:SS')"
    return f"{moment} || '.' || lpad(({fraction})::text, 6, '0') || 'Z'"


_ISO_BY_VENDOR = {"sqlite": _iso_sqlite, "postgresql": _iso_postgres}

_VIEWS = {
    "lambo_v_concepts": (
        "SELECT session_id, id, content, canonical_key, concept_type, status, origin_agent,"
        " {created_at} AS created_at, origin_interaction, access_count,"
        " {last_accessed} AS last_accessed, gc_survived, blast_radius,"
        " {last_demotion_time} AS last_demotion_time, chunk_group_id FROM lambo_concept"
    ),
    "lambo_v_edges": (
        "SELECT session_id, id, source, target, edge_type, weight, reinforcements,"
        " {created_at} AS created_at, {last_reinforced} AS last_reinforced,"
        " created_by, reinforced_by, {event_time} AS event_time FROM lambo_edge"
    ),
    "lambo_v_audit": (
        "SELECT session_id, id, kind, node_id, from_status, to_status,"
        " {occurred_at} AS occurred_at, actor, reason, superseded_by, blast_radius,"
        " {last_demotion_time} AS last_demotion_time FROM lambo_audit_event"
    ),
}

_INSTANTS = (
    *("created_at", "last_accessed", "last_demotion_time", "last_reinforced", "event_time"),
    "occurred_at",
)


def create_views(apps, schema_editor):
    iso = _ISO_BY_VENDOR[schema_editor.connection.vendor]
    instants = {column: iso(column) for column in _INSTANTS}
    for name, query in _VIEWS.items():
        schema_editor.execute(f"CREATE VIEW {name} AS {query.format(**instants)}", params=None)


def drop_views(apps, schema_editor):
    for name in _VIEWS:
        schema_editor.execute(f"DROP VIEW {name}", params=None)


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_initial")]

    operations = [migrations.RunPython(create_views, drop_views)]
