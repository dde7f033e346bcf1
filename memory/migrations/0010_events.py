"""The log of what listeners of a session are told."""

from django.db import migrations, models

import memory.fields


class Migration(migrations.Migration):
    dependencies = [("memory", "0009_audit_kinds")]

    operations = [
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session_id",
                        "id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("session_id", models.TextField()),
                ("id", models.BigIntegerField()),
                ("position", models.BigIntegerField()),
                ("kind", models.TextField()),
                ("agent_id", models.TextField()),
                ("occurred_at", memory.fields.MicrosField()),
                ("data", models.TextField()),
            ],
            options={"db_table": "lambo_event"},
        ),
    ]
