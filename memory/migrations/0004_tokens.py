"""Tokens: who may call a server that asks for one."""

from django.db import migrations, models

import memory.fields


class Migration(migrations.Migration):
    dependencies = [("memory", "0003_embeddings")]

    operations = [
        migrations.CreateModel(
            name="Token",
            fields=[
                ("id", models.TextField(primary_key=True, serialize=False)),
                ("name", models.TextField()),
                ("agent_id", models.TextField()),
                ("scopes", models.TextField()),
                ("session_patterns", models.TextField()),
                ("may_act_for_others", models.BooleanField()),
                ("digest", models.TextField()),
                ("created_at", memory.fields.MicrosField()),
                ("expires_at", memory.fields.MicrosField(null=True)),
                ("revoked_at", memory.fields.MicrosField(null=True)),
                ("last_used_at", memory.fields.MicrosField(null=True)),
            ],
            options={"db_table": "lambo_token"},
        ),
    ]
