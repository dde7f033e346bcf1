"""Audit rows of further acts: sessions made or embedded again, tokens made or revoked."""

from django.db import migrations, models

_KINDS = [
    ("transition", "Transition"),
    ("retract", "Retract"),
    ("collect", "Collect"),
    ("restore", "Restore"),
    ("purge", "Purge"),
    ("root-goal", "Root Goal"),
    ("synonym", "Synonym"),
    ("confirm", "Confirm"),
    ("session-create", "Session Create"),
    ("session-delete", "Session Delete"),
    ("reembed", "Reembed"),
    ("token-create", "Token Create"),
    ("token-revoke", "Token Revoke"),
]


class Migration(migrations.Migration):
    dependencies = [("memory", "0008_cycles")]

    operations = [
        migrations.AlterField(
            "auditevent", "kind", models.TextField(choices=_KINDS, default="transition")
        ),
    ]
