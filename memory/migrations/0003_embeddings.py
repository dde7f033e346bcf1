"""Vectors beside the concepts, and on each session the contract they belong to."""

from django.db import migrations, models

import memory.fields


class Migration(migrations.Migration):
    dependencies = [("memory", "0002_views")]

    operations = [
        migrations.AddField("session", "embedding_kind", models.TextField(null=True)),
        migrations.AddField("session", "embedding_model", models.TextField(null=True)),
        migrations.AddField("session", "embedding_dim", models.IntegerField(null=True)),
        migrations.AddField("session", "embedding_template", models.TextField(null=True)),
        migrations.CreateModel(
            name="Embedding",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session_id",
                        "contract_id",
                        "concept_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("session_id", models.TextField()),
                ("contract_id", models.TextField()),
                ("concept_id", memory.fields.IdField()),
                ("vector", models.BinaryField()),
            ],
            options={
                "db_table": "lambo_embedding",
                "indexes": [
                    models.Index(
                        fields=["session_id", "concept_id"], name="lambo_embedding_concept"
                    )
                ],
            },
        ),
    ]
