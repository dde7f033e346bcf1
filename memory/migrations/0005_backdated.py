"""Whether the time an interaction tells dates its evidence: its caller had the right to say so.

Edges of writes without that right carry no `event_time` from now on. Interactions stored before
keep theirs, and it no longer counts.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0004_tokens")]

    operations = [
        migrations.AddField("interaction", "is_backdated", models.BooleanField(default=False)),
    ]
