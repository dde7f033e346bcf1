"""What the background cycles of a session go on from, and when it wants the next one."""

from django.db import migrations, models

import memory.fields


class Migration(migrations.Migration):
    dependencies = [("memory", "0007_audit_chain")]

    operations = [
        migrations.AddField("session", "cycle_state", models.TextField(null=True)),
        migrations.AddField("session", "evaluate_at", memory.fields.MicrosField(null=True)),
        migrations.AddField("session", "collect_at", memory.fields.MicrosField(null=True)),
        migrations.AddIndex(
            "session",
            models.Index(
                condition=models.Q(("evaluate_at__isnull", False)),
                fields=["evaluate_at"],
                name="lambo_session_evaluate",
            ),
        ),
        migrations.AddIndex(
            "session",
            models.Index(
                condition=models.Q(("collect_at__isnull", False)),
                fields=["collect_at"],
                name="lambo_session_collect",
            ),
        ),
    ]
