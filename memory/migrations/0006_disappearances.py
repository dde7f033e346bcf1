"""Audit rows of every act on memory, and not of steps of a status alone.

The view of the audit rows is made anew around the change, since SQLite builds the table again.
"""

from importlib import import_module

from django.db import migrations, models

import memory.fields

_views = import_module("memory.migrations.0002_views")

_BEFORE = _views._VIEWS["lambo_v_audit"]
_AFTER = (
    "SELECT session_id, id, kind, node_id, from_status, to_status,"
    " {occurred_at} AS occurred_at, actor, reason, superseded_by, blast_radius,"
    " {last_demotion_time} AS last_demotion_time, detail,"
    " {session_deleted_at} AS session_deleted_at FROM lambo_audit_event"
)


def _create(query):
    def create(apps, schema_editor):
        iso = _views._ISO_BY_VENDOR[schema_editor.connection.vendor]
        names = ("occurred_at", "last_demotion_time", "session_deleted_at")
        instants = {name: iso(name) for name in names}
        schema_editor.execute(
            f"CREATE VIEW lambo_v_audit AS {query.format(**instants)}", params=None
        )

    return create


def _drop(apps, schema_editor):
    schema_editor.execute("DROP VIEW lambo_v_audit", params=None)


_KINDS = [
    ("transition", "Transition"),
    ("retract", "Retract"),
    ("collect", "Collect"),
    ("restore", "Restore"),
    ("purge", "Purge"),
    ("root-goal", "Root Goal"),
    ("synonym", "Synonym"),
    ("confirm", "Confirm"),
    ("session-delete", "Session Delete"),
]
_STATUSES = [
    ("None", "None"),
    ("Candidate", "Candidate"),
    ("Venerable", "Venerable"),
    ("Canonical", "Canonical"),
]


class Migration(migrations.Migration):
    dependencies = [("memory", "0005_backdated")]

    operations = [
        migrations.RunPython(_drop, _create(_BEFORE)),
        migrations.AlterField(
            "auditevent", "kind", models.TextField(choices=_KINDS, default="transition")
        ),
        migrations.AlterField("auditevent", "node_id", memory.fields.IdField(null=True)),
        migrations.AlterField(
            "auditevent", "from_status", models.TextField(choices=_STATUSES, null=True)
        ),
        migrations.AlterField(
            "auditevent", "to_status", models.TextField(choices=_STATUSES, null=True)
        ),
        migrations.AddField("auditevent", "detail", models.TextField(null=True)),
        migrations.AddField("auditevent", "texts", models.TextField(null=True)),
        migrations.AddField("auditevent", "removed", models.TextField(null=True)),
        migrations.AddField(
            "auditevent", "session_deleted_at", memory.fields.MicrosField(null=True)
        ),
        migrations.AddIndex(
            "auditevent",
            models.Index(
                condition=models.Q(("kind__in", ["retract", "collect", "purge"])),
                fields=["session_id", "id"],
                name="lambo_audit_removal",
            ),
        ),
        migrations.RunPython(_create(_AFTER), _drop),
    ]
