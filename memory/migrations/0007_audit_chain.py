"""The place of each audit row in its session's hash chain, and words about the whole database.

Rows stored before have no place: they were written unsealed, and sealing them now would say more of
them than anybody knows. A chain's first link covers how many of them there were.

The columns are added without building the table anew, so its view stands.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0006_disappearances")]

    operations = [
        migrations.AddField("auditevent", "sequence", models.BigIntegerField(null=True)),
        migrations.AddField("auditevent", "digests", models.TextField(null=True)),
        migrations.AddField("auditevent", "link_hash", models.TextField(null=True)),
        migrations.AddIndex(
            "auditevent",
            models.Index(fields=["session_id", "sequence"], name="lambo_audit_sequence"),
        ),
        migrations.CreateModel(
            name="Setting",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("value", models.TextField()),
            ],
            options={"db_table": "lambo_setting"},
        ),
    ]
